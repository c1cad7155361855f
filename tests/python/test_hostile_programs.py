"""Malicious program files: each file is refused by a typed error at loading, or computes only on its own memory."""

from __future__ import annotations

import gc
import os
import random
import resource
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heliograph as hg
from program_words import MADE, NO_SOURCE, Forgery, Place, View, Words, find, tensor_words

SMALL = {"n": 1024, "special": 0, "plain_modulus": 12289, "insecure": True}
TINY = {
    "n": 16,
    "k": 1,
    "degree": 256,
    "message_bits": 0,
    "carry_bits": 0,
    "norm": 3,
    "bootstrap": (18, 1),
    "switch": (4, 4),
}
TINY |= {"group": 2, "lwe_noise": ("gaussian", -24), "glwe_noise": ("gaussian", -44), "insecure": True}


class Party:
    """A secret key, a server and a tensor of a scheme."""

    def __init__(self, scheme: str) -> None:
        if scheme == "tfhe":
            self.secret = hg.SecretKey.generate(hg.tfhe.parameters(**TINY))
            self.server = hg.Server(self.secret.evaluation_keys())
            self.x = self.server.bind(self.secret.encrypt(np.array([5, 200], np.uint8)))
            return
        self.secret = hg.SecretKey.generate(getattr(hg, scheme).parameters(log_q=60 if scheme == "bfv" else 150, **SMALL))
        self.server = hg.Server(self.secret.evaluation_keys(rotations=[1]))
        self.x = self.server.bind(self.secret.encrypt(np.arange(1024)))


@pytest.fixture(scope="module")
def bfv() -> Party:
    return Party("bfv")


@pytest.fixture(scope="module")
def bgv() -> Party:
    return Party("bgv")


@pytest.fixture(scope="module")
def tfhe() -> Party:
    return Party("tfhe")


def sums(party: Party) -> Forgery:
    return Forgery(hg.program(lambda a: a + a, party.x).to_bytes())


def refused(data: bytes, match: str | None = None) -> None:
    with pytest.raises((hg.FormatError, hg.LimitError), match=match):
        hg.Program.from_bytes(data)


class Sum:
    """The words of a sum's call in a program file: the ring's primes, the views a, b and out, their places, and the words
    before and after these.

    """

    def __init__(self, f: Forgery) -> None:
        w = Words(f.rest)
        # the other words: source, number of the ring, n, word size, transforms
        session, kernel, *_ = [w.take() for _ in range(7)]
        assert (session, kernel) == (0, f.kernel("add"))
        chain, primes = w.list(), w.list()
        self.moduli = [chain[p] for p in primes]
        self.head = f.rest[: w.at]
        self.views = [View.read(w) for _ in range(3)]
        self.places = [w.take() for _ in range(3)]
        self.behind = w.rest()

    def words(self) -> list[int]:
        return [*self.head, *(word for v in self.views for word in v.written()), *self.places, *self.behind]


def changed(view: View, **fields: int) -> View:
    return View(**(vars(view) | fields))


@pytest.mark.parametrize("groups", [2**58 + 1, 2**63, 2**32, 2**31])
def test_a_product_of_more_groups_than_memory_is_refused(bfv: Party, groups: int) -> None:
    """If the number of bytes for the groups wraps modulo 2^64, nothing may be written beyond the allocation."""
    two = bfv.server.bind(bfv.secret.encrypt(np.arange(2048).reshape(2, 1024)))
    f = Forgery(hg.program(lambda a: hg.matmul([[11, 22], [33, 44]], a, axis=0), two).to_bytes())
    at = find(f.rest, [1, 2, 1, 2, 2, 4, 11, 22, 33, 44])  # groups, outputs, positions, terms, inputs, weights
    f.rest[at : at + 11 + f.rest[at + 10]] = [groups, 2, 1, 0, 2, 0, 0]
    refused(f.signed())


def test_memory_of_results_is_never_reused(bfv: Party) -> None:
    """A tensor that is in the memory of a result becomes a result, even if the file does not declare it."""
    f = sums(bfv)
    for place in f.places:
        place.result = 0
    program = hg.Program.from_bytes(f.signed())
    y = program(bfv.x)
    before = tensor_words(y)
    others = [bfv.x * 3 for _ in range(4)]
    assert tensor_words(y) == before
    y += bfv.x
    assert all(bfv.secret.decrypt(other)[5] == 15 for other in others)


@pytest.mark.parametrize("limb", [0, 1])
def test_results_have_no_uninitialised_words(bfv: Party, limb: int) -> None:
    """A conversion that fills only one of two limbs is refused, because the other limb would contain uninitialised words."""
    f = sums(bfv)
    c = Sum(f)
    a, _, out = c.views
    one = changed(a, limbs=1, offset=limb * 8 * 1024)
    step = [0, f.kernel("convert"), NO_SOURCE, 1, 1, c.moduli[limb], 1, c.moduli[1 - limb], 1, 1, 1, 1, 0, 0, 0]
    step += [*one.written(), 0, *out.written(), 1, 1, 1 - limb, c.places[0], c.places[2]]
    f.calls, f.rest = 1, step + c.behind
    program = hg.Program.from_bytes(f.signed())

    def limb_of(x: Any, k: int) -> Any:
        return np.frombuffer(tensor_words(x), "<u8").reshape(2, 2, 1024)[:, k]

    freed = [bfv.x * 3 for _ in range(8)]
    del freed
    gc.collect()
    assert not limb_of(program(bfv.x), limb).any()


def one_limb(view: View, limb: int) -> View:
    """Returns one limb of each component of a dense view."""
    return changed(view, limbs=1, offset=view.offset + limb * 8 * 1024)


def gather(f: Forgery, pieces: list[tuple[View, int, View, int]]) -> list[int]:
    """Returns the words of a gather: each piece has a source and a target, each with its place."""
    views = [word for source, _, target, _ in pieces for word in (*source.written(), *target.written())]
    return [0, f.kernel("gather"), NO_SOURCE, len(pieces), *views, *(p for piece in pieces for p in (piece[1], piece[3]))]


@pytest.mark.parametrize("kernel", ["copy", "gather, last", "gather, first"])
def test_words_that_are_no_residues_are_refused(bfv: Party, kernel: str) -> None:
    """A copy of one prime's limb to the limb of another prime is refused, because its words may exceed the other modulus."""
    f = sums(bfv)
    c = Sum(f)
    a, _, out = c.views
    larger = 0 if c.moduli[0] > c.moduli[1] else 1
    zero = [0, f.kernel("zero"), NO_SOURCE, *out.written(), c.places[2]]
    limbs = [one_limb(a, larger), one_limb(out, 1 - larger)]
    copy = [0, f.kernel("copy"), NO_SOURCE, *limbs[0].written(), *limbs[1].written(), c.places[0], c.places[2]]
    if kernel != "copy":  # the words of the other piece are residues, so only this piece can be the cause
        wrong = (limbs[0], c.places[0], limbs[1], c.places[2])
        right = (one_limb(a, 1 - larger), c.places[0], one_limb(out, larger), c.places[2])
        copy = gather(f, [right, wrong] if kernel == "gather, last" else [wrong, right])
    f.calls, f.rest = 2, zero + copy + c.behind
    refused(f.signed(), "not proven to be reduced modulo their prime|not below its primes")


def test_a_gather_must_not_read_what_it_writes(bfv: Party) -> None:
    """A gather (a copy of several pieces) is refused if its second piece reads the limb that the first piece writes. A
    device that copies both pieces at the same time would read residues of the larger prime.

    """
    f = sums(bfv)
    c = Sum(f)
    a, _, out = c.views
    larger = 0 if c.moduli[0] > c.moduli[1] else 1
    whole = [0, f.kernel("copy"), NO_SOURCE, *a.written(), *out.written(), c.places[0], c.places[2]]
    first = (one_limb(a, 1 - larger), c.places[0], one_limb(out, larger), c.places[2])
    second = (one_limb(out, larger), c.places[2], one_limb(out, 1 - larger), c.places[2])
    f.calls, f.rest = 2, whole + gather(f, [first, second]) + c.behind
    refused(f.signed(), "overwrite its operands")
    elsewhere = (one_limb(a, 1 - larger), c.places[0], one_limb(out, 1 - larger), c.places[2])
    f.rest = whole + gather(f, [first, elsewhere]) + c.behind
    hg.Program.from_bytes(f.signed())(bfv.x)  # a gather of disjoint pieces is accepted


def test_constants_are_residues(bfv: Party) -> None:
    other = bfv.server.bind(bfv.secret.encrypt(np.full(1024, 3)))
    f = Forgery(hg.program(lambda a: a + other, bfv.x).to_bytes())
    constant = next(a for a in f.document.arrays if a.entry["name"] == "constant0")
    good = constant.data
    for word in (2**64 - 1, 2**60, 1):
        constant.data = good[:-8] + word.to_bytes(8, "little")
        if word == 1:
            hg.Program.from_bytes(f.signed())
        else:
            refused(f.signed(), "not proven to be reduced modulo their prime|not below its primes")


@pytest.mark.parametrize("where", ["into the input", "into its own operand", "one word twice", "behind its place"])
def test_calls_write_where_they_may(bfv: Party, where: str) -> None:
    f = sums(bfv)
    c = Sum(f)
    if where == "into the input":
        c.places[2] = c.places[0]
    elif where == "into its own operand":
        half = changed(c.views[2], components=1)
        c.views = [half, half, changed(half, offset=64)]
        c.places = [c.places[2]] * 3
    elif where == "one word twice":
        c.views[2].component_stride = 0
    else:
        c.views[2].offset = 8 * 1024
    f.rest = c.words()
    refused(f.signed())


def test_a_rotation_without_a_ring_for_its_division_is_refused(bgv: Party) -> None:
    """In the division of a rotation, a word is the number of a ring. A program is refused if this word is 0, which means no
    ring.

    """
    f = Forgery(hg.program(lambda a: hg.rotate_rows(a, 1), bgv.x).to_bytes())
    good, taken = f.words(), 0
    for at in range(len(good)):
        if good[at] != 1:
            continue
        try:
            hg.Program.from_bytes(f.with_words([*good[:at], 0, *good[at + 1 :]]))(bgv.x)
            taken += 1
        except hg.HeliographError:
            pass
    assert taken < 60


def test_a_division_must_write_every_limb(bgv: Party) -> None:
    f = Forgery(hg.program(lambda a: hg.rotate_rows(a, 1), bgv.x).to_bytes())
    words = f.words()
    at = next(i for i in range(4, len(words)) if words[i : i + 4] == [1, 0, 0, 3] and words[i - 4 : i] == [3, 0, 1, 2])
    words[at + 3] = 2  # the plan keeps two of three limbs without dividing
    refused(f.with_words(words), "must keep all limbs")


def gate(f: Forgery) -> tuple[int, int]:
    """Returns the positions of the layer and of the view in the first call that combines wires."""
    at = find(f.rest, [0, f.kernel("combine"), NO_SOURCE, 1]) + 4
    view = at
    for _ in range(6):  # first, source, weight, constant, lut, target
        view += 1 + f.rest[view]
    view += 1
    return at, view + 1 + f.rest[view] + 1


def test_wires_need_words(tfhe: Party) -> None:
    f = Forgery(hg.program(lambda a: ~a, tfhe.x).to_bytes())
    _, view = gate(f)
    f.rest[view + 9] = 0
    refused(f.signed(), "wires")


def test_a_layer_takes_memory_by_its_rows(tfhe: Party) -> None:
    """A layer takes memory in proportion to its rows; a layer that names wire 2^32 - 1 does not take 512 MiB."""
    f = Forgery(hg.program(lambda a: ~a, tfhe.x).to_bytes())
    f.places.append(Place(MADE, 0, 0, 1, 0, View(0, 8, [(1, 2**38)], 2**32, 64, 1, 64, 64), [], []))
    layer = [2, 0, 1, 1, 2**32 - 1, 1, 1, 1, 0, 0, 1, 7, 1, 0, 256]
    calls = [
        [0, f.kernel("combine"), NO_SOURCE, 1, *layer, *f.places[-1].shape.written(), len(f.places) - 1] for _ in range(2)
    ]
    calls[1][4 : 4 + len(layer)] = []
    f.calls, f.rest = f.calls + 2, [*calls[0], *calls[1], *f.rest]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    refused(f.signed())
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 << 10


def test_rings_must_be_those_of_the_parameters(bfv: Party) -> None:
    """A ring takes a few words in a file but large tables in memory. So a program may use only the rings of its parameters."""
    f = sums(bfv)
    at = find(f.rest, [1024, 8, 1])
    f.rest[at] = 512
    refused(f.signed(), "none of its parameter sets")


def test_operands_have_a_prime_for_each_limb(bfv: Party) -> None:
    """Operands with fewer primes than limbs are refused, because the list of primes would be read beyond its end."""
    f = sums(bfv)
    takes = next(a for a in f.document.arrays if a.entry["name"] == "takes")
    primes = struct.pack("<QHH", 2, 0, 1)
    assert takes.data.count(primes) == 1
    for count in (0, 1, 3):
        changed_text = takes.data.replace(primes, struct.pack(f"<Q{count}H", count, *range(count)))
        f.document.arrays[f.document.arrays.index(takes)].data = changed_text
        takes.entry["shape"] = [len(changed_text)]
        if count == 0:
            with pytest.raises(hg.HeliographError):
                hg.Program.from_bytes(f.signed())(bfv.x)
        else:
            refused(f.signed(), "primes than limbs|operand")
        takes.data = changed_text.replace(struct.pack(f"<Q{count}H", count, *range(count)), primes)


def test_limits_of_a_loaded_program(bfv: Party) -> None:
    data = hg.program(lambda a: a * a, bfv.x).to_bytes()
    with hg.program_limits(memory=1 << 30, products=10**9):
        hg.Program.from_bytes(data)
    for limits in ({"memory": 4096}, {"products": 100}):
        with (
            hg.program_limits(**limits),
            pytest.raises(hg.LimitError, match=r"exceed the memory limit|more products than the limit of its caller"),
        ):
            hg.Program.from_bytes(data)
    hg.Program.from_bytes(data)
    for wrong in (0, -1, 1.5, "1 GiB", True):
        with pytest.raises(hg.ParameterError, match="memory"), hg.program_limits(memory=wrong):  # type: ignore[arg-type]
            pass


def test_many_parameter_sets_take_no_memory(bfv: Party) -> None:
    f = sums(bfv)
    header = f.document.header
    large = Forgery(
        hg.program(
            lambda a: a + a, hg.SecretKey.generate(hg.ckks.parameters(n=2**16, levels=20)).encrypt([1.0], pad=True)
        ).to_bytes()
    ).document.header["parameters"][0]
    header["parameters"] += [large] * 63
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    refused(f.signed(), "tables")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 800 << 10


def test_results_that_the_program_did_not_compute(bfv: Party) -> None:
    """If results depend only on captured tensors, a saved program stores them as constants."""
    other = bfv.server.bind(bfv.secret.encrypt(np.full(1024, 9)))
    for function in (lambda a: (other, a + a), lambda a: (other + other, a), lambda a: (other, a + other)):
        program = hg.program(function)
        wanted = [bfv.secret.decrypt(y) for y in program(bfv.x)]
        data = program.to_bytes()
        loaded = hg.Program.from_bytes(data)
        assert all(np.array_equal(bfv.secret.decrypt(y), w) for y, w in zip(loaded(bfv.x), wanted, strict=True))
        assert loaded.to_bytes() == data


# ---- Changes of every word


def programs() -> Iterator[tuple[str, bytes, Any]]:
    """Yields programs that contain every kind of call, and their operands."""
    exact = {"bfv": Party("bfv"), "bgv": Party("bgv")}
    for scheme, party in exact.items():
        x, keys = party.x, party
        relinearized = hg.Server(party.secret.evaluation_keys(relinearize=True, rotations=[1]))
        z = relinearized.bind(party.secret.encrypt(np.arange(2048).reshape(2, 1024)))
        functions: dict[str, Callable[[Any], Any]] = {
            "sums": lambda a: a + a,
            "constants": lambda a, keys=keys: a * 3 - keys.x + 1,
            "rotation": lambda a: hg.rotate_rows(a, 1),
            "product": lambda a: hg.relinearize(a * a),
            "matrix": lambda a: hg.matmul([[1, 2], [3, -4]], a, axis=0),
            "slices": lambda a: (a[0], a[::-1] + 1, hg.concatenate([a, a])),
        }
        for name, function in functions.items():
            operand = z if name in ("matrix", "slices", "product") else x
            yield f"{scheme} {name}", hg.program(function, operand).to_bytes(), operand
    secret = hg.SecretKey.generate(hg.ckks.parameters(n=1024, levels=3, log_scale=30, insecure=True))
    server = hg.Server(secret.evaluation_keys(relinearize=True, rotations=[1, 2, 4]))
    v = server.bind(secret.encrypt(np.linspace(-1, 1, 8), pad=True))
    for name, f in {
        "product": lambda a: a * a,
        "rotation": lambda a: hg.ckks.rotate(a, 1),
        "polynomial": lambda a: hg.ckks.polynomial(a, [0.5, 1, -0.25]),
        "sums": lambda a: (a - a * 2, a + 0.5),
    }.items():
        yield f"ckks {name}", hg.program(f, v).to_bytes(), v
    tfhe = Party("tfhe")
    for name, f in {"not": lambda a: ~a, "less": lambda a: a < 7, "sum": lambda a: a + a}.items():
        yield f"tfhe {name}", hg.program(f, tfhe.x).to_bytes(), tfhe.x


VALUES = [0, 1, 2, 3, 8, 64, 2**16, 2**31, 2**32 - 1, 2**32, 2**45, 2**58 + 1, 2**63, 2**64 - 64, 2**64 - 1]


def sweep(parts: int, part: int) -> None:
    """Sets each word of each program to each tested value and to the neighbours of this value. This sweep runs in a separate
    process.

    """
    made = list(programs())
    count = 0
    for name, data, operand in made:
        f = Forgery(data)
        good = f.words()
        for at in range(len(good)):
            for value in {
                *VALUES,
                good[at] + 1,
                good[at] - 1,
                good[at] ^ (1 << (at % 64)),
                good[random.Random(at).randrange(len(good))],
            }:
                count += 1
                if count % parts != part or value % 2**64 == good[at]:
                    continue
                print(f"{name}: word {at} is {value}", flush=True, file=sys.stderr)
                try:
                    with hg.program_limits(memory=1 << 28, products=10**8):
                        program = hg.Program.from_bytes(f.with_words([*good[:at], value, *good[at + 1 :]]))
                    results = program(operand)
                    for y in results if isinstance(results, tuple) else (results,):
                        hg.from_bytes(y.to_bytes())  # some results can be saved and loaded
                except hg.InternalError:
                    raise
                except hg.HeliographError:
                    pass
    print(f"{count} words")


@pytest.mark.parametrize("parts", [200, pytest.param(1, marks=pytest.mark.full)])
def test_no_word_of_a_program_ends_the_process(parts: int) -> None:
    env = dict(os.environ, HELIOGRAPH_THREADS="1")
    done = subprocess.run(
        [sys.executable, __file__, str(parts), "7" if parts > 1 else "0"],
        cwd=Path(__file__).parent,
        env=env,
        capture_output=True,
        text=True,
        timeout=7200,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "words" in done.stdout


if __name__ == "__main__":
    sweep(int(sys.argv[1]), int(sys.argv[2]))
