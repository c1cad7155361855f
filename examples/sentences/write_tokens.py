"""Writes token numbers and masks of pieces of texts, for measurements of embeddings.

    python write_tokens.py tokenizer.json text.txt --tokens 128 --count 1000 --out tokens.npz

The pieces have random lengths, of one word up to the most that fit into the tokens.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer


def tokens_of(tokenizer: Tokenizer, text: str, tokens: int, count: int, seed: int) -> dict[str, np.ndarray]:
    """Returns input_ids and attention_mask [count, tokens] of pieces of a text."""
    rng, words = np.random.default_rng(seed), text.split()
    ids, mask = (np.zeros((count, tokens), dtype=np.int64) for _ in range(2))
    for i in range(count):
        length = int(rng.integers(1, min(tokens, len(words))))
        start = int(rng.integers(0, len(words) - length))
        found = tokenizer.encode(" ".join(words[start : start + length])).ids[:tokens]
        ids[i, : len(found)], mask[i, : len(found)] = found, 1
    return {"input_ids": ids, "attention_mask": mask}


def main() -> None:
    """Runs the program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tokenizer", type=Path)
    parser.add_argument("text", type=Path, nargs="+")
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    tokenizer = Tokenizer.from_file(str(given.tokenizer))
    tokenizer.no_padding()
    tokenizer.enable_truncation(given.tokens)
    text = " ".join(path.read_text(encoding="utf-8") for path in given.text)
    np.savez_compressed(given.out, **tokens_of(tokenizer, text, given.tokens, given.count, given.seed))


if __name__ == "__main__":
    main()
