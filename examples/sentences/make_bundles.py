"""Make the three bundles of a search of passages by encrypted questions (docs/sentences.md).

    python make_bundles.py model.onnx tokenizer.json passages.txt --tokens 8 --out bundles

`passages.txt` has one passage in each line. The folder `--out` gets the bundles for `heliograph serve`: embedding.hgm computes
the vector of an encrypted question, passages.hgv finds the nearest passages, texts.hgd holds the passages.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import heliograph as hg
from sentences import BUNDLES, INPUTS, Array, Tokenizer, rounded, vectors_of

SAMPLES = 400  # most samples of the calibration
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
        except Exception as error:  # onnxruntime has no class of its own for all of these
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
        listed = "; ".join(f"{name} {['sentence vectors', 'hidden states'][len(s) - 2]}" for name, s in shapes.items())
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


def calibration(tokenizer: Tokenizer, sentences: Sequence[str], tokens: int) -> dict[str, Array]:
    """Return samples [count, tokens] of sentences: each sentence up to `tokens`, and cut to fewer tokens, of all lengths."""
    least = tokenizer.count(sentences[0].split()[0])
    if tokens < least:
        raise hg.ParameterError(f"the model must take at least {least} tokens, got {tokens}")
    chosen = [sentences[i] for i in np.linspace(0, len(sentences) - 1, min(len(sentences), SAMPLES // 2)).astype(int)]
    whole = tokenizer.samples(chosen, tokens, truncate=True)
    # Cut copies of the same sentences teach the compiler each number of masked tokens.
    lengths = [least + i % (tokens - least + 1) for i in range(max(len(chosen), tokens))]
    cut = [tokenizer.samples([chosen[i % len(chosen)]], length, truncate=True) for i, length in enumerate(lengths)]
    padded = {
        name: np.concatenate([np.pad(one[name], ((0, 0), (0, tokens - one[name].shape[1]))) for one in cut])
        for name in INPUTS
    }
    return {name: np.concatenate([whole[name], padded[name]]) for name in INPUTS}


def sentences_of(passages: Sequence[str]) -> list[str]:
    """Return the sentences of passages, in order and without repetitions."""
    parts = [part for passage in passages for part in re.split(r"(?<=[.!?])\s+", passage)]
    return list(dict.fromkeys(part for part in parts if part.split()))


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

    `tokens` is the most tokens of a question. `questions` are sentences like the future questions, for the calibration beside
    the sentences of the passages. `truncate` cuts passages of too many tokens. `options` are options of `hg.ml.compile`.

    Raises ParameterError (`Transformer`, `passage_vectors`), the errors of `hg.ml.compile`, OSError.
    """
    words, network = Tokenizer(tokenizer), Transformer(model, output)
    if network.tokens not in (None, tokens):
        raise hg.ParameterError(f"{network.path.name} is made for {network.tokens} tokens, not for {tokens}")
    vectors = passage_vectors(network, words, passages, truncate)
    samples = calibration(words, [*questions, *sentences_of(passages)], tokens)
    feeds = {name: samples[name] for name in network.inputs}
    settings = {"accuracy": 0.05, "classifies": False, "outputs": network.output} | options
    compiled = hg.ml.compile(network.path, calibrate=feeds, **settings)
    report_ranks(compiled, network, samples, vectors)
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
    """Print how close simulated vectors of some calibration samples are to the clear ones, and whether the nearest passage is
    the same."""
    some = {name: values[:: max(1, len(values) // 40)] for name, values in samples.items()}
    simulated = compiled.simulate({name: some[name] for name in network.inputs}, beyond="nan")
    inside = np.isfinite(simulated).all(axis=1)
    some = {name: values[inside] for name, values in some.items()}
    found = vectors_of(simulated[inside], some["attention_mask"], vectors.shape[1])
    clear = network.vectors(some)
    cosines, base = (found * clear).sum(axis=1), rounded(vectors).astype(int)
    same = (rounded(found) @ base.T).argmax(axis=1) == (clear @ vectors.T).argmax(axis=1)
    print(compiled)
    print(
        f"simulated: cosine to the clear vector {cosines.mean():.4f}, at least {cosines.min():.4f}; the same nearest passage "
        f"for {same.sum()} of {len(same)} sentences"
    )
    if not inside.all():
        print(f"{(~inside).sum()} of {len(inside)} sentences are outside an interval: pass more sentences by --questions")


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
    parser.add_argument("--target", help="profile of the server's machine: two-cores, h100 or h200")
    given = parser.parse_args()
    try:
        passages = read_passages(given.passages)
        questions = read_passages(given.questions) if given.questions else []
        options = {"accuracy": given.accuracy} | ({"target": given.target} if given.target else {})
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
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    files = " ".join(str(Path(given.out) / name) for name in BUNDLES.values())
    print(f"serve them: heliograph serve {files} --store store --port 8443")
    return 0


if __name__ == "__main__":
    sys.exit(main())
