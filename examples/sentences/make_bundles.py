"""Make the three bundles of a search of passages by encrypted questions (docs/sentences.md).

    python make_bundles.py model.onnx tokenizer.json passages.txt --tokens 32 --out bundles

`passages.txt` has one passage in each line. The folder `--out` gets the bundles for `heliograph serve`: embedding.hgm computes
the vector of an encrypted question, passages.hgv finds the nearest passages, texts.hgd holds the passages.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import heliograph as hg
from sentences import BUNDLES, INPUTS, Array, Tokenizer, report, rounded, vectors_of

SAMPLES = 400  # samples of the calibration of questions of few tokens
LEAST_SAMPLES = 64  # samples of the calibration of long questions
TRIALS = 40  # other samples, on which the compiled model is simulated
LONGEST = 128  # most tokens of a passage by default


class Transformer:
    """A clear sentence transformer in an ONNX file, by onnxruntime. `output` names the output with the vectors.

    Raises ParameterError if `output` is not an output of numbers, or is needed to choose from several; for inputs other than
    token numbers, masks and types; OSError.
    """

    def __init__(self, path: Path | str, output: str | None = None) -> None:
        import onnxruntime

        self.path = Path(path)
        self.content = self.path.read_bytes()
        try:
            self._session = onnxruntime.InferenceSession(self.content, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime raises exceptions without a common class
            raise hg.ParameterError(f"cannot read {self.path.name}: it must be an ONNX file; {error}") from None
        self.inputs = [value.name for value in self._session.get_inputs()]
        if "input_ids" not in self.inputs or set(self.inputs) - set(INPUTS):
            raise hg.ParameterError(
                f"the inputs of {self.path.name} must be input_ids and others of {', '.join(INPUTS)}, got "
                f"{', '.join(self.inputs)}"
            )
        #: Tokens that the file is made for; None if any number is possible.
        size = self._session.get_inputs()[0].shape[-1]
        self.tokens = size if isinstance(size, int) else None
        self.output = self._chosen(output)

    def _chosen(self, output: str | None) -> str:
        shapes = {
            value.name: value.shape
            for value in self._session.get_outputs()
            if value.type in ("tensor(float)", "tensor(double)") and len(value.shape) in (2, 3)
        }
        listed = ", ".join(f"{name} ({['sentence vectors', 'hidden states'][len(s) - 2]})" for name, s in shapes.items())
        if not shapes:
            raise hg.ParameterError(f"{self.path.name} has no output of sentence vectors or hidden states")
        if output is None and len(shapes) > 1:
            raise hg.ParameterError(f"{self.path.name} has several outputs; choose one with --output: {listed}")
        if output is not None and output not in shapes:
            raise hg.ParameterError(f"{self.path.name} has no output {output!r} of vectors; its outputs are {listed}")
        return next(iter(shapes)) if output is None else output

    def values(self, samples: dict[str, Array]) -> Array:
        """Return the outputs [count, ...] of samples [count, tokens], one after the other."""
        feeds = [{name: samples[name][i : i + 1] for name in self.inputs} for i in range(len(samples["input_ids"]))]
        return np.concatenate([self._session.run([self.output], feed)[0] for feed in feeds])

    def vectors(self, samples: dict[str, Array]) -> Array:
        """Return the vectors of length one [count, width] of samples."""
        values = self.values(samples)
        return vectors_of(values, samples["attention_mask"], values.shape[-1])


def read_passages(path: Path | str) -> list[str]:
    """Return the lines of a file that are not empty. Raises ParameterError without passages, OSError."""
    lines = [line.strip() for line in Path(path).read_text(encoding="utf-8").splitlines()]
    if not any(lines):
        raise hg.ParameterError(f"{Path(path).name} has no passages; write one in each line")
    return [line for line in lines if line]


def passage_vectors(model: Transformer, tokenizer: Tokenizer, passages: Sequence[str], truncate: bool = False) -> Array:
    """Return the clear vectors [passages, width]. Passages have up to 128 tokens, or the number that the file is made for.

    Raises ParameterError for a longer passage unless `truncate`.
    """
    longest, made = model.tokens or LONGEST, []
    for number, passage in enumerate(passages, 1):
        length = longest if model.tokens else min(tokenizer.count(passage), longest)
        try:
            made.append(model.vectors(tokenizer.samples([passage], length, truncate=truncate)))
        except hg.ParameterError as error:
            raise hg.ParameterError(f"passage {number}: {error}") from None
    return np.concatenate(made)


def pieces_of(texts: Sequence[str], most: int, seed: int = 1) -> list[str]:
    """Return at most `most` pieces of texts in random order: from each word on, every second piece as a question."""
    words = [text.split() for text in texts]
    pieces = [" ".join(text[start:]) for text in words for start in range(len(text))]
    pieces = [piece if number % 2 else piece.rstrip(".!?") + "?" for number, piece in enumerate(dict.fromkeys(pieces))]
    return [pieces[k] for k in np.random.default_rng(seed).permutation(len(pieces))[:most]]


def samples_of(tokenizer: Tokenizer, texts: Sequence[str], tokens: int) -> dict[str, Array]:
    """Return samples [count, tokens] of the first tokens of texts: every second text as it is, the others cut to fewer
    tokens, so that all numbers of masked tokens occur. Raises ParameterError if `tokens` has no room for a word."""
    ends = tokenizer.count("") if texts else 0
    if tokens <= ends:
        raise hg.ParameterError(f"the model must take at least {ends + 1} tokens, got {tokens}")
    rows = []
    for number, text in enumerate(texts):
        most = tokens if number % 2 else ends + 1 + number // 2 % (tokens - ends)
        one = tokenizer.samples([text], most, truncate=True)
        rows.append({name: np.pad(one[name], ((0, 0), (0, tokens - most))) for name in INPUTS})
    return {name: np.concatenate([row[name] for row in rows]) for name in INPUTS}


def make_bundles(
    model: Path | str,
    tokenizer: Path | str,
    passages: Sequence[str],
    folder: Path | str,
    tokens: int,
    *,
    output: str | None = None,
    questions: Sequence[str] = (),
    truncate: bool = False,
    **options: Any,
) -> Any:
    """Write the bundles of `passages` to `folder`, and return the compiled model.

    `tokens` is the most tokens of a question. The compiler is calibrated on pieces of the passages and of `questions`, which
    are sentences like the future ones. `truncate` cuts passages of too many tokens. `options` are options of `hg.ml.compile`.

    Raises ParameterError (`Transformer`, `passage_vectors`), the errors of `hg.ml.compile`, OSError.
    """
    words, network = Tokenizer(tokenizer), Transformer(model, output)
    if network.tokens not in (None, tokens):
        raise hg.ParameterError(f"{network.path.name} is made for {network.tokens} tokens, not for {tokens}")
    vectors = passage_vectors(network, words, passages, truncate)
    count = max(LEAST_SAMPLES, min(SAMPLES, 8192 // tokens))
    pieces = [*questions, *pieces_of([*questions, *passages], count + TRIALS)]
    trials = pieces[-min(TRIALS, len(pieces) // 4) :]
    samples = samples_of(words, pieces[: -len(trials)], tokens)
    feeds = {name: samples[name] for name in network.inputs}
    settings = {"accuracy": 0.05, "classifies": False, "outputs": network.output} | options
    compiled = hg.ml.compile(network.path, calibrate=feeds, **settings)
    print(compiled)
    report_ranks(compiled, network, samples_of(words, trials, tokens), vectors)
    parts = [network.content, network.output.encode(), *(p.encode() for p in passages), str(tokens).encode()]
    build = hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()[:16]
    texts = {"version": f"{words.digest}-{build}"}  # clients compare the versions
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    compiled.export(place / BUNDLES["embedding"], title=f"vectors of questions of up to {tokens} tokens", **texts)
    hg.knn.Vectors(rounded(vectors)).save(place / BUNDLES["passages"], title="vectors of passages", **texts)
    hg.pir.Database({"text": list(passages)}).save(place / BUNDLES["texts"], title="passages", **texts)
    return compiled


def report_ranks(compiled: Any, network: Transformer, samples: dict[str, Array], vectors: Array) -> None:
    """Simulate samples that did not calibrate the model. Print how many of them are outside an interval, how close the vectors
    are to the clear ones, and how often the nearest passage is the same."""
    simulated = compiled.simulate({name: samples[name] for name in network.inputs}, beyond="nan")
    inside = np.isfinite(simulated).all(axis=1)
    print(f"simulated on {len(inside)} other pieces: {(~inside).sum()} outside an interval, whose answers would be errors")
    if inside.any():
        some = {name: values[inside] for name, values in samples.items()}
        found, clear = vectors_of(simulated[inside], some["attention_mask"], vectors.shape[1]), network.vectors(some)
        cosines, base = (found * clear).sum(axis=1), rounded(vectors).astype(int)
        same = (rounded(found) @ base.T).argmax(axis=1) == (clear @ vectors.T).argmax(axis=1)
        print(f"cosine to the clear vector {cosines.mean():.5f} on average, {cosines.min():.5f} at least")
        print(f"the same nearest passage for {same.sum()} of {len(same)} pieces")
    if inside.mean() < 0.95:
        print("calibrate on more text with --questions, or with a larger --margin, so that fewer questions are outside")


def main() -> int:
    """Make the bundles of the command line. Return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="ONNX file of a sentence transformer")
    parser.add_argument("tokenizer", help="tokenizer.json or vocab.txt of the model")
    parser.add_argument("passages", help="text file, one passage in each line")
    parser.add_argument("--tokens", type=int, required=True, help="most tokens of a question")
    parser.add_argument("--out", default="bundles", help="folder of the bundles; default: bundles")
    parser.add_argument("--output", help="name of the output with sentence vectors or hidden states")
    parser.add_argument("--questions", help="text file of sentences like the future questions, one in each line")
    parser.add_argument("--truncate", action="store_true", help="leave out the last tokens of passages that are too long")
    parser.add_argument("--accuracy", type=float, default=0.05, help="largest relative error of the outputs; default: 0.05")
    parser.add_argument("--margin", type=float, default=1.3, help="factor that widens all intervals; default: 1.3")
    parser.add_argument("--target", help="profile of the server's machine: two-cores, h100 or h200")
    given = parser.parse_args()
    try:
        passages = read_passages(given.passages)
        questions = read_passages(given.questions) if given.questions else []
        options = {"accuracy": given.accuracy, "margin": given.margin}
        options |= {"target": given.target} if given.target else {}
        make_bundles(
            given.model,
            given.tokenizer,
            passages,
            given.out,
            given.tokens,
            output=given.output,
            questions=questions,
            truncate=given.truncate,
            **options,
        )
    except (hg.HeliographError, OSError) as error:
        report(f"{type(error).__name__}: {error}")
        return 1
    files = " ".join(str(Path(given.out) / name) for name in BUNDLES.values())
    memory = -(-hg.ModelBundle.load(Path(given.out) / BUNDLES["embedding"]).memory_bytes >> 30)
    print(f"serve them: heliograph serve {files} --store store --port 8443 --memory-limit {memory}G")
    return 0


if __name__ == "__main__":
    sys.exit(main())
