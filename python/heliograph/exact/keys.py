"""Keys of BFV and BGV."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from heliograph import _core, keys
from heliograph._common.arguments import (
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
    require_room,
    whole_numbers,
    words_within,
)
from heliograph._common.operations import composite
from heliograph._common.strict import is_strict
from heliograph._common.tensor import Progress, of_tensors
from heliograph.exact.evaluation_keys import EvaluationKeys as EvaluationKeys
from heliograph.exact.parameters import Parameters
from heliograph.exact.scheme import EXACT
from heliograph.exact.tensor import Tensor, packing_axis


def _moduli(parameters: Parameters, moduli: range | None) -> tuple[int, int]:
    """Returns the first of a range of plaintext moduli and their number. Raises ParameterError for an invalid range."""
    have = len(parameters.plain_moduli)
    if moduli is None:
        return 0, have
    if not isinstance(moduli, range) or moduli.step != 1 or not 0 <= moduli.start < moduli.stop <= have:
        raise _core.ParameterError(
            f"moduli must be a range within this set's {have} plaintext moduli, such as range(0, {have}), not "
            f"{described(moduli)}"
        )
    return moduli.start, len(moduli)


def _bound(bound: Any, modulus: int) -> str | None:
    """Returns a bound in hexadecimal digits, for the engine. Raises ParameterError."""
    if bound is None:
        return None
    if not is_whole(bound) or bound < 1:
        raise _core.ParameterError(f"a bound on values must be an integer above 0, not {described(bound)}")
    return f"{min(int(bound), max(1 << 63, modulus)):x}"


class _Encrypts(keys.Keyed[Parameters]):
    """Encryption, by secret and public keys."""

    @composite
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
        """Encrypts integers of magnitude up to half the plaintext modulus, also Python integers beyond 64 bits.

        The axis `slots` of `values` (default the last) lies inside the ciphertexts; the other axes are the tensor's. The
        axis must have as many values as there are slots, or fewer with ``pad=True``. With ``split=True`` any number of
        values is spread over ciphertexts along a new last axis, and zeros fill the last ciphertext. `coefficients` in place
        of `slots` places values in the polynomial's coefficients. `moduli` selects some plaintext moduli (``range(3, 5)``:
        the fourth and fifth), to compute modulus by modulus. A secret key's ciphertexts are seeded, which halves their bytes
        in files.

        `bound` is the largest magnitude of a value. This bound is public and stored in files. Operations update the bound of
        a tensor, by which `decrypt` checks that results fit the plaintext modulus. Without `bound` the key records the
        largest value in this process only, and files store how results grow with it.

        Raises DtypeError, ShapeError, PlaintextRangeError, SlotsError, and OutOfMemoryError before anything is computed.

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
        slot_values = in_ciphertexts(moved_last(long_integers(values, what), axis, what), room, packing, split, pad)
        array, words = words_within(slot_values, what, largest)
        most = _bound(bound, parameters.plain_modulus)
        return Tensor(self._core.encrypt(array, packing, progress, first, count, most, words))


class PublicKey(_Encrypts, keys.PublicKey[Parameters], core=_core.exact.PublicKey):
    """A key that encrypts and does not decrypt. A public key's ciphertexts take twice the bytes of a secret key's in files.

    >>> public = secret.public_key()
    >>> secret.decrypt(public.encrypt([1, 2, 3, 4]))
    array([1, 2, 3, 4])
    """

    _scheme = EXACT


class TrialKeys(keys.NotingKeys, EvaluationKeys[Tensor]):
    """Keys of a trial run on the `null` device: every key exists."""


class SecretKey(_Encrypts, keys.PublishingKey[Parameters, EvaluationKeys[Tensor], PublicKey], core=_core.exact.SecretKey):
    """The data owner's key: it encrypts, decrypts and makes the other keys. Keep the key secret.

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
    ) -> EvaluationKeys[Tensor]:
        """Makes a server's keys: for relinearization, for each rotation step and, with `columns`, for the exchange of rows.

        `rotations` lists steps to the left within a row. `cinnamon` is one or several programs of instructions of BGV
        (`hg.cinnamon.write`), whose own keys are added; these programs need no other keys.

        `for_` is one purpose or a list. `for_` adds exactly the keys that the purpose needs; a relinearization key only if
        products need it. A purpose is one of the following.

        - a function of one tensor: ``lambda x: hg.rotate_rows(x, [1, 5])``, ``functools.partial(hg.sum, axis="slots")``.
          `hg.sum` means the sum over slots;
        - ``(function, x, ...)``: a function and examples of its operands, tensors or arrays as `encrypt` takes them;
        - a recorded `hg.Program`, whose last recording counts, or a program of instructions;
        - an object with `needs`: a network or layout of `hg.nn`, an `hg.ModelBundle`, parameters of `hg.parameters_for`.

        A function runs at most twice, on the `null` device. A function that uses plaintexts encoded before runs on the
        device in use. Raises DtypeError for an invalid purpose, MismatchError for one of another parameter set, and the
        function's errors.

        >>> secret.evaluation_keys(rotations=[1, 2]).rotations
        [1, 2]
        >>> secret.evaluation_keys(for_=lambda x: hg.rotate_rows(x * x, 3)).rotations
        [3]
        >>> keys = secret.evaluation_keys(for_=hg.sum)  # over slots
        >>> keys.relinearize, keys.rotations[:3], keys.columns
        (False, [1, 2, 4], True)
        """
        options = {
            "relinearize": for_ is None if relinearize is None else flag(relinearize, "relinearize"),
            "rotations": whole_numbers(rotations, "a rotation"),
            "columns": flag(columns, "columns"),
        }
        key_options, programs = self._key_options(for_, options, cinnamon)
        core = self._core.evaluation_keys(
            key_options["relinearize"], key_options["rotations"], key_options["columns"], progress
        )
        return EvaluationKeys(keys.with_programs(self._core, core, programs, progress))

    def _tried(self, function: Callable[..., Any], examples: Sequence[Any]) -> dict[str, Any]:
        for relinearize in (False, True):
            trial_keys = TrialKeys(self._core, relinearize)
            try:
                function(*(self._stand_in(x, trial_keys) for x in examples))
            except _core.MissingKeyError:
                if relinearize:
                    raise
            else:
                break
        rotations = sorted({s % (self.parameters.n // 2) for s in trial_keys.steps} - {0})
        return {"relinearize": relinearize, "rotations": rotations, "columns": trial_keys.swaps}

    def _stand_in(self, example: Any, trial_keys: EvaluationKeys) -> Tensor:
        """Returns an encrypted tensor of zeros in the shape of an example, a tensor or array; one ciphertext for None."""
        packing = "slots" if self.parameters.has_slots else "coefficients"
        if example is None:
            example = np.zeros(self.parameters.slots if self.parameters.has_slots else self.parameters.n, dtype=np.int64)
        elif isinstance(example, Tensor):
            packing = example._core.packing
            example = np.zeros((*example.shape, example.slots), dtype=np.int64)
        values = np.zeros_like(integers(example, "the example"))
        if packing == "slots":
            return Tensor(self.encrypt(values, pad=True, bound=1)._core, trial_keys)
        return Tensor(self.encrypt(values, coefficients=-1, pad=True, bound=1)._core, trial_keys)

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
        """Decrypts to centred integers: an int64 array, or Python integers if t exceeds 63 bits.

        `slots` is the position of the slot axis in the result. `length` joins the last axis of ciphertexts to that number of
        values, as before ``encrypt(..., split=True)``.

        For a set of exact integers (`Parameters.exact`), decryption raises RoomError for values that may have wrapped modulo
        t. Values pass if a bound proves that they fit. The bound follows from the values that this process encrypted, from
        the `bound` given at encryption, or from the largest value that this key encrypted in this process; the last two
        trust the noise and range fields of files. Without a bound, values pass if all are within 2^-14 t/2; a wrapped,
        uniformly distributed value is that small with probability 2^-14.

        ``checked=True``, or `hg.strict`, requires a bound that this process itself derived, which loaded data never has.
        ``unchecked=True`` skips the check, if you know that values fit or want residues.

        Raises WrongKeyError, and MismatchError, also for a tensor that has a part of the plaintext moduli (join the parts by
        `join_moduli`). Raises NoiseError if the noise estimate (`Tensor.noise_budget`) is exhausted or the measured noise
        exceeds it.

        The estimate is a bound, so a result may be right although its estimate is exhausted. ``beyond_estimate=True``
        decrypts a result with an exhausted estimate, and raises NoiseError only if the measured noise leaves less than one
        bit. The measured noise is no
        proof: noise with few distinct values, as of constant data that was doubled often, may wrap unnoticed.

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
            raise _core.ParameterError("decrypt takes checked=True or unchecked=True, not both")
        proof = _core.exact.Proof.none if unchecked else _core.exact.Proof.any
        if checked or (is_strict() and self.parameters.exact and not unchecked):
            proof = _core.exact.Proof.trusted
        residues: Any = self._core.decrypt(tensor._core, progress, bool(beyond_estimate), proof)
        return moved_from_last(joined(from_residues(residues, self.parameters.plain_moduli), length), slots)

    def noise_budget(self, tensor: Tensor, *, beyond_estimate: bool = False) -> float:
        """Returns the measured noise budget in bits, the smallest of all ciphertexts; 0 if `decrypt` raises NoiseError.

        >>> secret.noise_budget(x) >= x.noise_budget  # measured, and the bound
        True
        """
        of_tensors([tensor], Tensor, "a measured noise budget")
        return float(self._core.noise_budget(tensor._core, bool(beyond_estimate)))
