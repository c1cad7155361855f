"""Keys of BFV and BGV."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from heliograph import _core, keys
from heliograph._arrays import (
    described,
    flag,
    from_residues,
    in_ciphertexts,
    integers,
    is_whole,
    joined,
    long_integers,
    moved_from_last,
    moved_last,
    readable_bytes,
    require_room,
    whole_numbers,
    words_within,
)
from heliograph._schemes import told
from heliograph._shapes import Progress, of_tensors
from heliograph._strict import is_strict
from heliograph.exact.parameters import Parameters
from heliograph.exact.scheme import EXACT
from heliograph.exact.tensor import Tensor, packing_axis

#: Rotations that a repr names; of more it tells how many.
_SHOWN = 16


def _moduli(parameters: Parameters, moduli: range | None) -> tuple[int, int]:
    """The first one and how many. Raises ParameterError for a range that is not the set's."""
    have = len(parameters.plain_moduli)
    if moduli is None:
        return 0, have
    if not isinstance(moduli, range) or moduli.step != 1 or not 0 <= moduli.start < moduli.stop <= have:
        raise _core.ParameterError(f"{described(moduli)} is no range of this set's {have} plaintext moduli")
    return moduli.start, len(moduli)


def _bound(bound: Any, modulus: int) -> str | None:
    """As the engine takes it: in hexadecimal digits. Raises ParameterError."""
    if bound is None:
        return None
    if not is_whole(bound) or bound < 1:
        raise _core.ParameterError(f"a bound on values is an integer above 0, not {described(bound)}")
    return f"{min(int(bound), max(1 << 63, modulus)):x}"


class _Encrypts(keys.Keyed[Parameters]):
    """What both keys do with values."""

    def encrypt(
        self,
        values: Any,
        *,
        slots: int | None = None,
        coefficients: int | None = None,
        pad: bool = False,
        split: bool = False,
        moduli: range | None = None,
        bound: int | None = None,
        progress: Progress | None = None,
    ) -> Tensor:
        """Encrypts integers, Python's beyond 64 bits too, up to half the plaintext modulus in magnitude. The axis `slots` (default the last) lies inside the ciphertexts, the others are the tensor's.

        There must be as many values along it as slots, or fewer with ``pad=True``. With ``split=True`` any number of values is spread
        over ciphertexts, along a new last axis of the tensor; zeros fill the last one. `coefficients` in place of `slots`
        puts values in the polynomial's coefficients. A secret key's result is seeded: half the bytes when saved. `moduli` takes
        some of the plaintext moduli only (``range(3, 5)``: the fourth and fifth), to compute with them one after another.

        `bound`: no value is larger in magnitude. It is public: it travels in files, and what operations make of it tells whether
        results fit the plaintext modulus (`decrypt`). Without it nothing is said of the values: files carry how results grow with
        the largest one, which the key that encrypted it keeps to itself while this process lasts.
        Raises DtypeError, ShapeError, PlaintextRangeError, SlotsError, OutOfMemoryError (before anything is computed).

        >>> secret.decrypt(secret.public_key().encrypt([1, 2, 3, 4]))
        array([1, 2, 3, 4])
        """
        parameters = self.parameters
        first, count = _moduli(parameters, moduli)
        axis, packing = packing_axis(parameters, slots, coefficients)
        room = parameters.slots if packing == "slots" else parameters.n
        each = parameters.ciphertext_bytes() // len(parameters.plain_moduli) * count
        require_room(parameters, values, axis, each, room if split else 0)
        what, largest = "the values to encrypt", (parameters.plain_modulus - 1) // 2
        whole = in_ciphertexts(moved_last(long_integers(values, what), axis, what), room, packing, split, pad)
        array, words = words_within(whole, what, largest)
        most = _bound(bound, parameters.plain_modulus)
        return Tensor(self._core.encrypt(array, packing, progress, first, count, most, words))


class PublicKey(_Encrypts, keys.PublicKey[Parameters], core=_core.PublicKey):
    """Encrypts; does not decrypt. Its ciphertexts take twice the bytes of a secret key's.

    >>> public = secret.public_key()
    >>> secret.decrypt(public.encrypt([1, 2, 3, 4]))
    array([1, 2, 3, 4])
    """

    _scheme = EXACT


class EvaluationKeys(keys.SwitchKeys[Parameters, Tensor], core=_core.EvaluationKeys):
    """What a server needs to relinearize and rotate. Nothing in it decrypts. Steps are modulo N/2, of each row.

    >>> keys = secret.evaluation_keys(rotations=[1, 2])
    >>> keys.relinearize, keys.rotations, keys.columns
    (True, [1, 2], False)
    >>> hg.rotate_rows(x, 3)
    Traceback (most recent call last):
        ...
    heliograph.MissingKeyError: rotation 3 is not among the keys; they have 1, 2
    """

    _scheme = EXACT

    _swap = ("columns", "a key to exchange the rows of slots")

    columns = told("columns", bool, "Whether there is a key to exchange the two rows.")

    def _period(self) -> int:
        return self.parameters.n // 2

    def __repr__(self) -> str:
        steps = self.rotations
        turns = f"rotations {steps}" if len(steps) <= _SHOWN else f"{len(steps):,} rotations"
        have = ["relinearize"] * self.relinearize + [turns] * bool(steps)
        have += ["columns"] * self.columns
        have += [f"{len(self.of_programs)} of programs"] * bool(self.of_programs)
        return f"<{self._named()}: {', '.join(have) or 'none'}; {readable_bytes(self.nbytes)}>"


class TrialKeys(keys.NotingKeys, EvaluationKeys):
    """Keys of a run on the device that computes nothing: whatever is asked for is there."""


class SecretKey(_Encrypts, keys.PublishingKey[Parameters, EvaluationKeys, PublicKey], core=_core.SecretKey):
    """The data owner's key: encrypts, decrypts, makes the other keys. Keep it.

    >>> secret.decrypt(secret.encrypt([1, 2, 3, 4]))
    array([1, 2, 3, 4])
    """

    _scheme = EXACT

    def evaluation_keys(
        self,
        *,
        for_: Any = None,
        relinearize: bool | None = None,
        rotations: Iterable[int] = (),
        columns: bool = False,
        cinnamon: Any = (),
        progress: Progress | None = None,
    ) -> EvaluationKeys:
        """What a server gets: a relinearization key, a key for each row step, one to exchange the rows. `cinnamon`: a program of
        instructions of BGV (`hg.cinnamon.write`) or several, whose own keys are made too; it needs no others.

        `for_` says what the server computes, and makes the keys that this needs and no others, a relinearization key only if products
        need it. It takes one purpose or a list:

        - a function of one tensor: ``lambda x: hg.rotate_rows(x, [1, 5])``, ``functools.partial(hg.sum, axis="slots")``. `hg.sum` means
          the sum over slots;
        - ``(function, x, ...)``: a function and examples of its operands, tensors or arrays as `encrypt` takes them;
        - a recorded `hg.Program`, by its last recording; a program of instructions;
        - what has `needs`: a network or a layout of `hg.nn`, an `hg.SealedModel`, parameters that `hg.parameters_for` found.

        A function runs up to twice, on a device that computes nothing; one that uses plaintexts encoded before runs on the device in use. Raises DtypeError for what is no purpose, MismatchError for one of
        another parameter set, and what the function raises.

        >>> secret.evaluation_keys(rotations=[1, 2]).rotations
        [1, 2]
        >>> secret.evaluation_keys(for_=lambda x: hg.rotate_rows(x * x, 3)).rotations
        [3]
        >>> keys = secret.evaluation_keys(for_=hg.sum)  # over slots
        >>> keys.relinearize, keys.rotations[:3], keys.columns
        (False, [1, 2, 4], True)
        """
        given = {
            "relinearize": for_ is None if relinearize is None else flag(relinearize, "relinearize"),
            "rotations": whole_numbers(rotations, "a rotation"),
            "columns": flag(columns, "columns"),
        }
        wanted, programs = self._asked(for_, given, cinnamon)
        made = self._core.evaluation_keys(wanted["relinearize"], wanted["rotations"], wanted["columns"], progress)
        return EvaluationKeys(keys.with_programs(self._core, made, programs, progress))

    def _tried(self, function: Callable[..., Any], examples: Sequence[Any]) -> dict[str, Any]:
        for relinearize in (False, True):
            held = TrialKeys(self._core, relinearize)
            try:
                function(*(self._stand_in(x, held) for x in examples))
            except _core.MissingKeyError:
                if relinearize:
                    raise
            else:
                break
        rotations = sorted({s % (self.parameters.n // 2) for s in held.steps} - {0})
        return {"relinearize": relinearize, "rotations": rotations, "columns": held.swaps}

    def _stand_in(self, example: Any, held: EvaluationKeys) -> Tensor:
        """A tensor like an example, a tensor or an array; like one ciphertext for None."""
        packing = "slots" if self.parameters.has_slots else "coefficients"
        if example is None:
            example = np.zeros(self.parameters.slots if self.parameters.has_slots else self.parameters.n, dtype=np.int64)
        elif isinstance(example, Tensor):
            packing = example._core.packing
            example = np.zeros((*example.shape, example.slots), dtype=np.int64)
        values = np.zeros_like(integers(example, "the example"))
        if packing == "slots":
            return Tensor(self.encrypt(values, pad=True, bound=1)._core, held)
        return Tensor(self.encrypt(values, coefficients=-1, pad=True, bound=1)._core, held)

    def decrypt(
        self,
        tensor: Tensor,
        *,
        slots: int = -1,
        length: int | None = None,
        beyond_estimate: bool = False,
        checked: bool = False,
        unchecked: bool = False,
        progress: Progress | None = None,
    ) -> npt.NDArray[Any]:
        """The integers, centred: int64, or Python's where 63 bits do not hold them. `slots` places the slot axis. `length` joins
        the last axis of ciphertexts to so many values in a row, as they were before ``encrypt(..., split=True)``.

        Of a set of exact integers (`Parameters.exact`) RoomError is raised for values that may have wrapped modulo t. They are
        handed out where a bound proves that they fit: one from the values that this process encrypted, or one that follows from
        the `bound` said at encryption, or from the largest value that this key encrypted in this process, if files are what they
        say. Where none does, they are handed out if all lie within t/2 2^-14: a value that wrapped, and may be anything, lies there
        with probability 2^-14. ``checked=True``, and `hg.strict`, ask for a proof by this process alone, which nothing from a file
        has. ``unchecked=True`` asks for nothing: where you know that they fit, or want residues.

        Raises WrongKeyError, MismatchError (also where plaintext moduli are missing: `join_moduli`); NoiseError where the noise
        estimate (`Tensor.noise_budget`) is exhausted, and where the noise measured is beyond it. The estimate is a bound: a
        result may be right beyond it. ``beyond_estimate=True`` decrypts it, and raises NoiseError only where the noise measured
        leaves less than a bit. It is no proof: noise of few different values (of constant data, doubled often) may have wrapped
        and show nothing.

        >>> secret.decrypt(x - 6)
        array([[-5, -4, -3, -2],
               [-1,  0,  1,  2]])
        >>> y = secret.encrypt(np.arange(10), split=True)  # three ciphertexts of four values
        >>> y.shape, secret.decrypt(y * 2, length=10)
        ((3,), array([ 0,  2,  4,  6,  8, 10, 12, 14, 16, 18]))
        """
        of_tensors([tensor], Tensor, "decrypt")
        checked, unchecked = flag(checked, "checked"), flag(unchecked, "unchecked")
        if checked and unchecked:
            raise _core.ParameterError("values are checked or unchecked, not both")
        proof = _core.Proof.none if unchecked else _core.Proof.any
        if checked or (is_strict() and self.parameters.exact and not unchecked):
            proof = _core.Proof.vouched
        residues: Any = self._core.decrypt(tensor._core, progress, bool(beyond_estimate), proof)
        return moved_from_last(joined(from_residues(residues, self.parameters.plain_moduli), length), slots)

    def noise_budget(self, tensor: Tensor, *, beyond_estimate: bool = False) -> float:
        """Bits of noise left, measured: the least over all ciphertexts of the tensor. 0 where `decrypt` raises NoiseError.

        >>> secret.noise_budget(x) >= x.noise_budget  # measured, and the bound
        True
        """
        of_tensors([tensor], Tensor, "a measured noise budget")
        return float(self._core.noise_budget(tensor._core, bool(beyond_estimate)))
