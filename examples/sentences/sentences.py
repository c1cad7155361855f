"""Tokens and vectors of sentences, for the owner of the passages and for clients. docs/sentences.md."""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import heliograph as hg

Array = np.ndarray[Any, Any]
#: Inputs that a sentence transformer may have. `Tokenizer.samples` makes them.
INPUTS = ("input_ids", "attention_mask", "token_type_ids")
#: Names of the three bundles at the service, and their files.
BUNDLES = {"embedding": "embedding.hgm", "passages": "passages.hgv", "texts": "texts.hgd"}


class Tokenizer:
    """The tokenizer of a sentence transformer, from its `tokenizer.json`, or from its `vocab.txt` (lower case, WordPiece).

    Raises ParameterError for another file, OSError.
    """

    def __init__(self, path: Path | str) -> None:
        from tokenizers import Tokenizer as Reader
        from tokenizers.implementations import BertWordPieceTokenizer

        content = Path(path).read_bytes()
        #: First 16 digits of the file's SHA-256. A bundle's version has them, so clients notice another tokenizer.
        self.digest = hashlib.sha256(content).hexdigest()[:16]
        try:
            if Path(path).suffix == ".txt":
                words = content.decode().splitlines()
                self._reader: Any = BertWordPieceTokenizer(
                    {word: number for number, word in enumerate(words)}, lowercase=True
                )
            else:
                self._reader = Reader.from_str(content.decode())
        except Exception as error:  # `tokenizers` raises Exception
            raise hg.ParameterError(
                f"cannot read the tokenizer {Path(path).name}: it must be a tokenizer.json, or a vocab.txt; {error}"
            ) from None
        self._reader.no_padding()  # a file may ask for both, without a word to the user
        self._reader.no_truncation()

    def count(self, text: str) -> int:
        """Return the number of tokens of a text, with those at its start and end."""
        return len(self._reader.encode(text).ids)

    def samples(self, texts: Sequence[str], tokens: int, *, truncate: bool = False) -> dict[str, Array]:
        """Return the arrays [texts, tokens], int64, of all `INPUTS`, padded to `tokens` with zeros.

        With `truncate`, the last tokens of a longer text are left out, before the tokens that end every text. Raises
        ParameterError for a text without words, and for a longer text unless `truncate`. Thread-safe.
        """
        arrays = {name: np.zeros((len(texts), tokens), np.int64) for name in INPUTS}
        for row, text in enumerate(texts):
            if not text.strip():
                raise hg.ParameterError("cannot use an empty text: it must have at least one word")
            found = self._reader.encode(text)
            kept = np.arange(len(found.ids))
            if len(kept) > tokens:
                if not truncate:
                    raise hg.ParameterError(
                        f"the text {shortened(text)!r} has {len(kept)} tokens, and the model takes at most {tokens}; "
                        f"shorten the text, or pass truncate=True (--truncate) to leave out {len(kept) - tokens} at its end"
                    )
                ends = int(np.argmin(found.special_tokens_mask[::-1]))
                kept = np.r_[kept[: tokens - ends], kept[len(kept) - ends :]]
            for name, values in zip(INPUTS, (found.ids, found.attention_mask, found.type_ids), strict=True):
                arrays[name][row, : len(kept)] = np.array(values)[kept]
        return arrays


def shortened(text: str) -> str:
    """Return the first 40 characters of a text."""
    return text if len(text) <= 40 else text[:37] + "..."


def vectors_of(values: Array, mask: Array, width: int) -> Array:
    """Return the vectors of length one [texts, width] of a transformer's outputs.

    Outputs are sentence vectors [texts, width], or the hidden states of tokens [texts, tokens x width]. The mean over the
    tokens of `mask` [texts, tokens] is the vector of hidden states. Raises ShapeError for other outputs, ParameterError for a
    vector of zeros.
    """
    flat = np.asarray(values, dtype=np.float64).reshape(len(mask), -1)
    tokens = mask.shape[1]
    if flat.shape[1] not in (width, tokens * width):
        raise hg.ShapeError(
            f"outputs must be sentence vectors of {width} components, or hidden states of {tokens} tokens, got "
            f"{flat.shape[1]} numbers"
        )
    if flat.shape[1] != width:
        kept = flat.reshape(len(mask), tokens, width) * mask[:, :, None]
        flat = kept.sum(axis=1) / mask.sum(axis=1, keepdims=True)
    lengths = np.linalg.norm(flat, axis=1, keepdims=True)
    if not (np.isfinite(lengths) & (lengths > 1e-9)).all():
        raise hg.ParameterError("the model's vector of a text is zero or not finite, so that no passage is nearest to it")
    return np.asarray(flat / lengths)


def rounded(vectors: Array) -> Array:
    """Return vectors as int8 of the same order of inner products: the largest component of all becomes 127."""
    return np.rint(127 / np.abs(vectors).max() * vectors).astype(np.int8)


def require_one_version(versions: dict[str, str], tokenizer: Tokenizer) -> None:
    """Raise MismatchError unless the three bundles are of one call of make_bundles.py, with this tokenizer."""
    if missing := [name for name in BUNDLES if name not in versions]:
        raise hg.MismatchError(f"the service lacks {', '.join(missing)}; serve {', '.join(BUNDLES.values())}")
    if len({versions[name] for name in BUNDLES}) > 1:
        raise hg.MismatchError("the service's bundles are of different passages; serve the three of one make_bundles.py")
    if versions["embedding"].partition("-")[0] != tokenizer.digest:
        raise hg.MismatchError("the bundles were made with another tokenizer file; get that file from their owner")


def client_options(description: str | None) -> argparse.ArgumentParser:
    """Return the options of a client."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--service", default="http://127.0.0.1:8443", help="address of the service; default: %(default)s")
    parser.add_argument("--tokenizer", required=True, help="tokenizer.json or vocab.txt of the model")
    parser.add_argument("--keys", default="keys", help="private folder of the keys, made by the first call; default: keys")
    parser.add_argument("--count", type=int, default=3, help="number of passages; default: 3")
    parser.add_argument("--truncate", action="store_true", help="leave out the last tokens of a question that is too long")
    parser.add_argument("--timeout", type=float, default=900.0, help="seconds of one request; default: 900")
    parser.add_argument("--token-file", type=Path, help="file of the access token")
    parser.add_argument("--ca", help="PEM file of the authority of the service's certificate")
    return parser


def report(line: str) -> None:
    """Print a line beside the results."""
    print(line, file=sys.stderr, flush=True)


def access_of(given: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of `Search` of command-line options."""
    token = given.token_file.read_text().strip() if given.token_file else None
    return {"report": report, "token": token, "ca": given.ca, "timeout": given.timeout}
