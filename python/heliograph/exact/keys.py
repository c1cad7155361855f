"""Keys of BFV and BGV."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy.typing as npt

from heliograph import _core, keys
from heliograph._arrays import (
    described,
    flag,
    from_residues,
    is_whole,
    long_integers,
    moved_from_last,
    moved_last,
    readable_bytes,
    require_filled,
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
        moduli: range | None = None,
        bound: int | None = None,
        progress: Progress | None = None,
    ) -> Tensor:
        """Encrypts integers, Python's beyond 64 bits too, up to half the plaintext modulus in magnitude. The axis `slots` (default the last) lies inside the ciphertexts, the others are the tensor's.

        There must be as many values along it as slots, or fewer with ``pad=True``. `coefficients` in place of `slots`
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
        require_room(parameters, values, axis, parameters.ciphertext_bytes() // len(parameters.plain_moduli) * count)
        what, largest = "the values to encrypt", (parameters.plain_modulus - 1) // 2
        whole = moved_last(long_integers(values, what), axis, what)
        array, words = words_within(whole, what, largest)
        require_filled(whole.shape[-1], parameters.slots if packing == "slots" else parameters.n, packing, pad)
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

    columns = told("columns", bool, "Whether there is a key to exchange the two rows.")

    def __repr__(self) -> str:
        steps = self.rotations
        turns = f"rotations {steps}" if len(steps) <= _SHOWN else f"{len(steps):,} rotations"
        have = ["relinearize"] * self.relinearize + [turns] * bool(steps)
        have += ["columns"] * self.columns
        have += [f"{len(self.of_programs)} of programs"] * bool(self.of_programs)
        return f"<{self._named()}: {', '.join(have) or 'none'}; {readable_bytes(self.nbytes)}>"


class SecretKey(_Encrypts, keys.PublishingKey[Parameters, EvaluationKeys, PublicKey], core=_core.SecretKey):
    """The data owner's key: encrypts, decrypts, makes the other keys. Keep it.

    >>> secret.decrypt(secret.encrypt([1, 2, 3, 4]))
    array([1, 2, 3, 4])
    """

    _scheme = EXACT

    def evaluation_keys(
        self,
        *,
        relinearize: bool = True,
        rotations: Iterable[int] = (),
        columns: bool = False,
        cinnamon: Any = (),
        progress: Progress | None = None,
    ) -> EvaluationKeys:
        """What a server gets: a relinearization key, a key for each row step, one to exchange the rows. `cinnamon`: a program of
        instructions of BGV (`hg.cinnamon.write`) or several, whose own keys are made too; it needs no others.

        >>> secret.evaluation_keys(rotations=[1, 2]).rotations
        [1, 2]
        """
        steps = whole_numbers(rotations, "a rotation")
        wanted = flag(relinearize, "relinearize"), steps, flag(columns, "columns")
        made = self._core.evaluation_keys(*wanted, progress)
        return EvaluationKeys(keys.with_programs(self._core, made, cinnamon, progress))

    def decrypt(
        self,
        tensor: Tensor,
        *,
        slots: int = -1,
        beyond_estimate: bool = False,
        checked: bool = False,
        unchecked: bool = False,
        progress: Progress | None = None,
    ) -> npt.NDArray[Any]:
        """The integers, centred: int64, or Python's where 63 bits do not hold them. `slots` places the slot axis.

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
        """
        of_tensors([tensor], Tensor, "decrypt")
        checked, unchecked = flag(checked, "checked"), flag(unchecked, "unchecked")
        if checked and unchecked:
            raise _core.ParameterError("values are checked or unchecked, not both")
        proof = _core.Proof.none if unchecked else _core.Proof.any
        if checked or (is_strict() and self.parameters.exact and not unchecked):
            proof = _core.Proof.vouched
        residues: Any = self._core.decrypt(tensor._core, progress, bool(beyond_estimate), proof)
        return moved_from_last(from_residues(residues, self.parameters.plain_moduli), slots)

    def noise_budget(self, tensor: Tensor, *, beyond_estimate: bool = False) -> float:
        """Bits of noise left, measured: the least over all ciphertexts of the tensor. 0 where `decrypt` raises NoiseError.

        >>> secret.noise_budget(x) >= x.noise_budget  # measured, and the bound
        True
        """
        of_tensors([tensor], Tensor, "a measured noise budget")
        return float(self._core.noise_budget(tensor._core, bool(beyond_estimate)))
