"""Parses and rebuilds the words of a saved program, for tests of malicious programs."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any

import resign

MADE = 3  # kind of a place whose memory the program writes
NO_SOURCE = 2**32 - 1


class Words:
    """Reads the words of a program's file one after another."""

    def __init__(self, words: list[int]) -> None:
        self.words, self.at = words, 0

    def take(self) -> int:
        self.at += 1
        return self.words[self.at - 1]

    def list(self) -> list[int]:
        return [self.take() for _ in range(self.take())]

    def rest(self) -> list[int]:
        return self.words[self.at :]


@dataclass
class View:
    """A view: `axes` are pairs of a length and a stride."""

    offset: int
    word: int
    axes: list[tuple[int, int]]
    components: int
    component_stride: int
    limbs: int
    limb_stride: int
    n: int

    @classmethod
    def read(cls, w: Words) -> View:
        offset, word = w.take(), w.take()
        axes = [(w.take(), w.take()) for _ in range(w.take())]
        return cls(offset, word, axes, w.take(), w.take(), w.take(), w.take(), w.take())

    def written(self) -> list[int]:
        axes = [number for pair in self.axes for number in pair]
        return [
            self.offset,
            self.word,
            len(self.axes),
            *axes,
            self.components,
            self.component_stride,
            self.limbs,
            self.limb_stride,
            self.n,
        ]


@dataclass
class Place:
    """A place: memory that calls refer to by its number. `session` has a word if the file contains the words of the place."""

    kind: int
    number: int
    which: int
    alone: int
    result: int
    shape: View
    primes: list[int]
    session: list[int]

    @classmethod
    def read(cls, w: Words) -> Place:
        head = [w.take() for _ in range(5)]
        return cls(*head, View.read(w), w.list(), [w.take()] if w.take() else [])

    def written(self) -> list[int]:
        shape = self.shape.written()
        held = [len(self.session), *self.session]
        return [self.kind, self.number, self.which, self.alone, self.result, *shape, len(self.primes), *self.primes, *held]


@dataclass
class Forgery:
    """A program's file: its places, the number of its calls, and all words after them."""

    data: bytes
    places: list[Place] = field(default_factory=list)
    calls: int = 0
    rest: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.document = resign.take_apart(self.data)
        self._array = next(a for a in self.document.arrays if a.entry["name"] == "calls")
        w = Words(self.words())
        self.places = [Place.read(w) for _ in range(w.take())]
        self.calls, self.rest = w.take(), w.rest()

    def words(self) -> list[int]:
        return list(struct.unpack(f"<{len(self._array.data) // 8}Q", self._array.data))

    def kernel(self, name: str) -> int:
        return self.document.header["kernels"].index(name)

    def signed(self) -> bytes:
        """Returns the file with the current places, calls and words, with a new digest."""
        places = [word for place in self.places for word in place.written()]
        return self.with_words([len(self.places), *places, self.calls, *self.rest])

    def with_words(self, words: list[int]) -> bytes:
        self._array.data = struct.pack(f"<{len(words)}Q", *(w % 2**64 for w in words))
        self._array.entry["shape"] = [len(words)]
        return resign.signed(self.document)


def find(words: list[int], wanted: list[int]) -> int:
    """Returns the position of a run of words. Raises StopIteration."""
    return next(i for i in range(len(words)) if words[i : i + len(wanted)] == wanted)


def tensor_words(x: Any) -> bytes:
    """Returns the first array of words in a tensor's file."""
    return resign.take_apart(x.to_bytes()).arrays[0].data
