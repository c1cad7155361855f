"""The words of a saved program, taken apart and put together again: for programs that an enemy wrote."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any

import resign

MADE = 3  # a kind of place
NO_SOURCE = 2**32 - 1


class Words:
    """Reads one word after the other."""

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
    """A place: `session` is there where the file has its words."""

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
    """A program's file: its places, the number of its calls, and all words behind that."""

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
        """Of the places, calls and words as they are now."""
        places = [word for place in self.places for word in place.written()]
        return self.with_words([len(self.places), *places, self.calls, *self.rest])

    def with_words(self, words: list[int]) -> bytes:
        self._array.data = struct.pack(f"<{len(words)}Q", *(w % 2**64 for w in words))
        self._array.entry["shape"] = [len(words)]
        return resign.signed(self.document)


def find(words: list[int], wanted: list[int]) -> int:
    """Where a run of words begins. Raises StopIteration."""
    return next(i for i in range(len(words)) if words[i : i + len(wanted)] == wanted)


def tensor_words(x: Any) -> bytes:
    """The words of a tensor's first array, as its file has them."""
    return resign.take_apart(x.to_bytes()).arrays[0].data
