"""The search of passages by encrypted questions in examples/sentences: bundles, a service, the client and its page. The tests
use a random transformer, few words and small parameters.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import browser_rig
import heliograph as hg
from alike import load_program
from test_ml_read_onnx import model, node

onnx = pytest.importorskip("onnx")
for needed in ("onnxruntime", "tokenizers", "uvicorn", "starlette"):
    pytest.importorskip(needed)

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "sentences"
sentences = load_program(EXAMPLE / "sentences.py")
making = load_program(EXAMPLE / "make_bundles.py")
searching = load_program(EXAMPLE / "search.py")
page = load_program(EXAMPLE / "page.py")

TOKENS, WIDTH = 6, 8
WORDS = re.findall(
    r"\w+", "the a of to is in it red blue green apple stone river house train cat dog sun moon bread key sea snow"
)
PASSAGES = [
    "the red apple is in the house",
    "a blue river to the sea",
    "the cat is a green stone",
    "bread of the moon. it is snow",
    "a key to the train",
]
QUESTION = "red apple house"


def transformer(tokens: int | str = TOKENS) -> Any:
    """Return a layer of attention with a mask on embeddings: hidden states, and the mean of the kept ones. `tokens` is a number,
    or a name for any number.
    """
    rng = np.random.default_rng(5)
    constants = {
        "table": rng.normal(size=(len(WORDS) + 4, WIDTH)).astype(np.float32),
        **{name: (0.4 * rng.normal(size=(WIDTH, WIDTH))).astype(np.float32) for name in "qkv"},
        "one": np.float32(1),
        "low": np.float32(-1e4),
        "column": np.array([2]),
        "row": np.array([1]),
    }
    nodes = [
        node("Gather", "table input_ids", "h"),
        *(node("MatMul", f"h {name}", f"h{name}") for name in "qkv"),
        node("Transpose", "hk", "kt", perm=[0, 2, 1]),
        node("MatMul", "hq kt", "scores"),
        node("Cast", "attention_mask", "kept", to=1),
        node("Unsqueeze", "kept row", "wide"),
        node("Sub", "one wide", "rest"),
        node("Mul", "rest low", "bias"),
        node("Add", "scores bias", "masked"),
        node("Softmax", "masked", "soft"),
        node("MatMul", "soft hv", "states"),
        node("Unsqueeze", "kept column", "weight"),
        node("Mul", "states weight", "weighted"),
        node("ReduceSum", "weighted row", "total", keepdims=0),
        node("ReduceSum", "weight row", "count", keepdims=0),
        node("Div", "total count", "vector"),
    ]
    made = model(nodes, {"input_ids": [1, tokens], "attention_mask": [1, tokens]}, [], constants, kind=7)
    shapes = {"states": [1, tokens, WIDTH], "vector": [1, WIDTH]}
    made.graph.output.extend(onnx.helper.make_tensor_value_info(name, 1, shape) for name, shape in shapes.items())
    return made


class Place:
    """The files of the owner of the passages."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.network, self.tokenizer = folder, folder / "network.onnx", folder / "vocab.txt"
        onnx.save(transformer(), self.network)
        self.tokenizer.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS]))

    def make(self, output: str, folder: str, passages: list[str] = PASSAGES) -> Any:
        """Makes bundles with small parameters and returns the compiled model."""
        small = hg.ckks.parameters(n=2**11, depth=13, log_scale=39, bootstrap=True, insecure=True)
        cut = {"truncate": True, "parameters": small, "questions": [QUESTION, *WORDS]}
        return making.make_bundles(
            self.network, self.tokenizer, passages, self.folder / folder, TOKENS, output=output, **cut
        )

    def bundles(self, folder: str) -> list[Path]:
        """Returns the bundles of `make`."""
        return [self.folder / folder / name for name in sentences.BUNDLES.values()]

    def nearest(self, question: str, output: str) -> Any:
        """Returns the numbers of all passages by the clear computation, nearest first."""
        network, words = making.Transformer(self.network, output), sentences.Tokenizer(self.tokenizer)
        vectors = making.passage_vectors(network, words, PASSAGES, truncate=True)
        return (-vectors @ network.vectors(words.samples([question], TOKENS, truncate=True))[0]).argsort()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("sentences"))


@pytest.fixture(scope="module")
def address(place: Place) -> Iterator[str]:
    """Runs a service of bundles whose clients average the hidden states."""
    place.make("states", "states")
    with hg.serving.local(*place.bundles("states")) as found:
        yield found


@pytest.fixture(scope="module")
def search(place: Place, address: str) -> Any:
    return searching.Search(address, place.tokenizer, place.folder / "keys")


@pytest.mark.parametrize("question", [QUESTION, "dog", "the sea is a river"])
def test_the_passages_are_those_of_the_clear_computation(place: Place, search: Any, question: str) -> None:
    """The nearest passage of an encrypted question is that of the clear computation, and its text is whole."""
    found = search.ask(question, 2, truncate=True)
    assert found["ids"] == place.nearest(question, "states")[:2].tolist()
    assert found["passages"] == [PASSAGES[number] for number in found["ids"]]
    assert found["left_out"] == max(0, len(question.split()) + 2 - TOKENS)
    assert found["scores"] == sorted(found["scores"], reverse=True)
    assert len(found["steps"]) == 3
    assert all(seconds > 0 and sent > 0 and received > 0 for seconds, sent, received in found["steps"].values())


def test_sizes_and_lengths(search: Any) -> None:
    """Questions of all lengths have requests and answers of the same sizes, near those that the bundle states."""
    some = [search.ask(question)["steps"] for question in ("dog", "dog cat sun moon", "a")]
    sizes = {tuple(step[1:] for step in steps.values()) for steps in some}
    assert len(sizes) == 1
    (sent, received), *_ = sizes.pop()
    assert sent == pytest.approx(search.embedding.model.input_bytes, rel=0.02)
    assert 0.8 * search.embedding.model.output_bytes < received <= search.embedding.model.output_bytes


def test_keys_are_made_once(place: Place, address: str, search: Any) -> None:
    """A second client uses the stored keys. If the service no longer has the keys, the client uploads them again."""
    again = searching.Search(address, place.tokenizer, search.keys)
    assert search.start[1] > 1000
    assert again.start[1] == 0
    assert again.embedding.keys == search.embedding.keys
    assert again.ask(QUESTION, 1)["ids"] == place.nearest(QUESTION, "states")[:1].tolist()
    assert (search.keys / "embedding.hg").stat().st_mode & 0o77 == 0
    lost = hg.Client(address, model="passages", secret=hg.SecretKey.load(search.keys / "passages.hg"), keys="0" * 64)
    again.passages = lost
    assert again.ask(QUESTION, 1)["ids"] == place.nearest(QUESTION, "states")[:1].tolist()
    assert again.passages.keys == search.passages.keys


def test_keys_of_other_bundles(place: Place, address: str, search: Any, tmp_path: Path) -> None:
    """For another bundle the client uploads new keys, and a secret key of other parameters is refused."""
    for file in search.keys.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    _, keys = (tmp_path / "passages.uploaded").read_text().split()
    (tmp_path / "passages.uploaded").write_text(f"{'0' * 64} {keys}")
    again = searching.Search(address, place.tokenizer, tmp_path)
    assert again.start[1] == again.passages.half.key_bytes
    (tmp_path / "passages.hg").write_bytes((tmp_path / "embedding.hg").read_bytes())
    (tmp_path / "passages.uploaded").unlink()
    with pytest.raises(hg.MismatchError, match=r"passages\.hg is a key of other parameters .*; use a new folder of keys"):
        searching.Search(address, place.tokenizer, tmp_path)


def test_revoked_keys(place: Place, address: str) -> None:
    """After a revocation a running client raises an error, and a new client uploads new keys."""
    first = searching.Search(address, place.tokenizer, place.folder / "others")
    first.passages.revoke()
    with pytest.raises(hg.RevokedKeyError):
        first.ask(QUESTION)
    assert searching.Search(address, place.tokenizer, place.folder / "others").start[1] > 0


def test_a_file_with_sentence_vectors(place: Place) -> None:
    """If the network averages the hidden states itself, the client only normalizes."""
    compiled = place.make("vector", "vector", PASSAGES[:3])
    words = sentences.Tokenizer(place.tokenizer)
    samples = words.samples([QUESTION, "dog"], TOKENS)
    values = compiled.simulate({name: samples[name] for name in ("input_ids", "attention_mask")})
    clear = making.Transformer(place.network, "vector").vectors(samples)
    assert values.shape == (2, WIDTH)
    assert (sentences.vectors_of(values, samples["attention_mask"], WIDTH) * clear).sum(axis=1).min() > 0.99


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ("the red apple is in the house", r"has 9 tokens, and the model takes at most 6; .*--truncate\) to leave out 3"),
        ("", "at least one word"),
        (" \n", "at least one word"),
    ],
)
def test_questions_that_are_refused(search: Any, question: str, message: str) -> None:
    """A question that is too long or empty is refused before anything is sent."""
    with pytest.raises(hg.ParameterError, match=message):
        search.ask(question)


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("pooled", r"no output 'pooled' of vectors; its outputs are states \(hidden states\), vector \(sentence vectors\)"),
        (None, r"several outputs; choose one with --output: states \(hidden states\), vector \(sentence vectors\)"),
    ],
)
def test_outputs_that_are_refused(place: Place, output: str | None, message: str) -> None:
    """An unknown output is refused, and so is a choice among several outputs that the user did not make."""
    with pytest.raises(hg.ParameterError, match=message):
        making.Transformer(place.network, output)


def test_other_files_that_are_refused(place: Place, tmp_path: Path) -> None:
    """Each file that does not fit is refused by its name: passages, tokenizer, network, number of tokens."""
    words, network = sentences.Tokenizer(place.tokenizer), making.Transformer(place.network, "states")
    with pytest.raises(hg.ParameterError, match=r"passage 2: the text 'the red apple is in the house' has 9 tokens"):
        making.passage_vectors(network, words, ["dog", PASSAGES[0]])
    (tmp_path / "empty.txt").write_text("\n \n")
    with pytest.raises(hg.ParameterError, match=r"empty\.txt has no passages"):
        making.read_passages(tmp_path / "empty.txt")
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(hg.ParameterError, match=r"cannot read the tokenizer tokenizer\.json"):
        sentences.Tokenizer(tmp_path / "tokenizer.json")
    with pytest.raises(hg.ParameterError, match=r"vocab\.txt: it must be an ONNX file"):
        making.Transformer(place.tokenizer)
    onnx.save(model([node("Tanh", "a", "y")], {"a": [1, 4]}, ["y"]), tmp_path / "other.onnx")
    with pytest.raises(hg.ParameterError, match=r"inputs of other\.onnx must be input_ids and others of .*, got a$"):
        making.Transformer(tmp_path / "other.onnx")
    with pytest.raises(hg.ParameterError, match="is made for 6 tokens, not for 5"):
        making.make_bundles(place.network, place.tokenizer, PASSAGES, tmp_path, 5, output="states", truncate=True)
    with pytest.raises(hg.ParameterError, match="at least 3 tokens, got 2"):
        making.samples_of(words, ["dog"], 2)
    with pytest.raises(hg.ShapeError, match="hidden states of 6 tokens, got 7 numbers"):
        sentences.vectors_of(np.ones((1, 7)), np.ones((1, 6)), WIDTH)
    with pytest.raises(hg.ParameterError, match="zero or not finite"):
        sentences.vectors_of(np.zeros((1, WIDTH)), np.ones((1, 6)), WIDTH)


def test_passages_of_any_length(place: Place, tmp_path: Path) -> None:
    """A file without a fixed number of tokens takes whole passages. Short ones have the vectors of padded ones."""
    onnx.save(transformer("tokens"), tmp_path / "open.onnx")
    words, network = sentences.Tokenizer(place.tokenizer), making.Transformer(tmp_path / "open.onnx", "states")
    fixed = making.Transformer(place.network, "states")
    assert (network.tokens, fixed.tokens) == (None, TOKENS)
    short = ["dog", "bread of the sea"]
    np.testing.assert_allclose(
        making.passage_vectors(network, words, short), making.passage_vectors(fixed, words, short), atol=1e-6
    )
    found = making.passage_vectors(network, words, PASSAGES)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1)
    cut = making.passage_vectors(fixed, words, PASSAGES, truncate=True)
    assert np.abs(found - cut).max() > 0.01
    with pytest.raises(hg.ParameterError, match=r"passage 1: .* has 131 tokens, and the model takes at most 128"):
        making.passage_vectors(network, words, ["dog " * 129])


def test_no_passages_are_an_error(search: Any) -> None:
    """A request for no passages is refused before the embedding."""
    with pytest.raises(hg.ParameterError, match="number of passages must be at least 1, got 0"):
        search.ask(QUESTION, 0)


def test_bundles_that_do_not_fit(place: Place, address: str, tmp_path: Path) -> None:
    """Bundles of different passages are refused, and so are another tokenizer and a service that lacks a bundle."""
    other = tmp_path / "vocab.txt"
    other.write_text(place.tokenizer.read_text() + "\nnew")
    with pytest.raises(hg.MismatchError, match="another tokenizer file"):
        searching.Search(address, other, tmp_path / "keys")
    words = sentences.Tokenizer(place.tokenizer)
    version = f"{words.digest}-1"
    with pytest.raises(hg.MismatchError, match=r"lacks texts; serve embedding\.hgm, passages\.hgv, texts\.hgd"):
        sentences.require_one_version({"embedding": version, "passages": version}, words)
    with pytest.raises(hg.MismatchError, match="different passages"):
        sentences.require_one_version(dict.fromkeys(sentences.BUNDLES, version) | {"texts": f"{words.digest}-2"}, words)


def test_a_tokenizer_file_that_pads_and_truncates(place: Place, tmp_path: Path) -> None:
    """A tokenizer.json gives the tokens of its vocab.txt, and its own padding and truncation have no effect."""
    from tokenizers.implementations import BertWordPieceTokenizer

    reader = BertWordPieceTokenizer(str(place.tokenizer), lowercase=True)
    reader.enable_padding(length=10)
    reader.enable_truncation(4)
    reader.save(str(tmp_path / "tokenizer.json"))
    both = [sentences.Tokenizer(path) for path in (place.tokenizer, tmp_path / "tokenizer.json")]
    texts = ["Red apple, house", "it is snow in it"]
    one, other = (tokenizer.samples(texts, 9) for tokenizer in both)
    for name in sentences.INPUTS:
        np.testing.assert_array_equal(one[name], other[name])
    assert one["attention_mask"].sum(axis=1).tolist() == [6, 7]
    cut = both[1].samples(texts, 4, truncate=True)["input_ids"]
    assert cut[:, -1].tolist() == [3, 3]  # the token at the end stays
    np.testing.assert_array_equal(cut[:, :3], one["input_ids"][:, :3])


def test_the_commands(place: Place, address: str, search: Any) -> None:
    """The command of the client prints passages, seconds and bytes. Errors are one line, with status 1."""

    def run(program: str, *words: Any) -> Any:
        command = [sys.executable, str(EXAMPLE / program), *map(str, words)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    access = ("--service", address, "--tokenizer", place.tokenizer, "--keys", search.keys, "--count", 1)
    made = run("client.py", QUESTION + " sun moon", *access, "--truncate")
    best = place.nearest(QUESTION + " sun moon", "states")[0]
    assert made.returncode == 0, made.stderr
    assert made.stdout.startswith(f"1. {PASSAGES[best]}\n")
    assert "bytes sent" in made.stdout
    assert made.stderr == "The last 1 tokens of the question were left out.\n"
    refused = run("client.py", " ", *access)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith("ParameterError: ")
    (place.folder / "passages.txt").write_text("\n".join(PASSAGES))
    texts = (place.network, place.tokenizer, place.folder / "passages.txt", "--tokens", 6)
    refused = run("make_bundles.py", *texts, "--output", "pooled")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "no output 'pooled'" in refused.stderr


@contextmanager
def page_server(search: Any) -> Iterator[str]:
    """Runs the page of the local process and returns its address."""
    with page.server_of(search, 0) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.skipif(browser_rig.found() is None, reason="Chromium is not installed")
def test_the_page_in_a_browser(place: Place, search: Any) -> None:
    """A question is typed, and the page shows passages, bytes and errors. The page sends requests to the process only."""
    best = place.nearest(QUESTION, "states")[0]
    with page_server(search) as address, browser_rig.browser() as browser:
        window = browser.page()
        window.go(address)
        window.reads(f"5 passages. A question has at most {TOKENS} tokens.", "#where")
        window.type("#question", QUESTION)
        window.press("Enter")
        window.reads(PASSAGES[best], "#passages")
        window.reads("look-ups", "#steps")
        window.type("#question", "the red apple is in the house")
        window.click("#send")
        window.reads("has 9 tokens", "#error")
        assert window.hosts() == {address}
        assert [text for text in window.complaints() if "400" not in text] == []


def test_the_page(place: Place, search: Any) -> None:
    """The page of the local process answers questions. Its errors have a text, and other pages are refused."""
    with page_server(search) as address:

        def ask(path: str, content: Any = None, **headers: str) -> Any:
            body = None if content is None else json.dumps(content).encode()
            request = urllib.request.Request(address + path, body)
            for name, text in ({"Content-Type": "application/json"} | headers).items():
                request.add_header(name, text)
            try:
                with urllib.request.urlopen(request, timeout=120) as reply:
                    return reply.read().decode()
            except urllib.error.HTTPError as error:
                return error.code, json.loads(error.read())["error"]["text"]

        assert "<input" in ask("/")
        assert json.loads(ask("/service"))["tokens"] == TOKENS
        best = place.nearest(QUESTION, "states")[0]
        assert json.loads(ask("/ask", {"question": QUESTION}))["passages"][0] == PASSAGES[best]
        code, text = ask("/ask", {"question": "the red apple is in the house"})
        assert (code, "has 9 tokens" in text) == (400, True)
        assert ask("/ask", {"question": 3}) == (400, 'a question must be a JSON object {"question": text}')
        for headers in ({"Origin": "https://evil.example"}, {"Host": "evil.example"}):
            assert ask("/ask", {"question": QUESTION}, **headers)[0] == 403
        assert ask("/other")[0] == 404
