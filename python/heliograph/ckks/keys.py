"""Keys of CKKS."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from heliograph import _core, keys
from heliograph._arrays import (
    complexes,
    described,
    flag,
    in_ciphertexts,
    interval_of,
    joined,
    listed,
    moved_from_last,
    moved_last,
    readable_bytes,
    real,
    require_room,
    whole,
    whole_numbers,
)
from heliograph._schemes import told
from heliograph._shapes import Progress, of_tensors
from heliograph._strict import judged
from heliograph.ckks.levels import level_of
from heliograph.ckks.parameters import Parameters
from heliograph.ckks.scheme import CKKS
from heliograph.ckks.tensor import Tensor


class _Encrypts(keys.Keyed[Parameters]):
    """What both keys do with values."""

    def encrypt(
        self,
        values: Any,
        *,
        slots: int = -1,
        pad: bool = False,
        split: bool = False,
        level: int | None = None,
        bound: float | tuple[float, float] | None = None,
        progress: Progress | None = None,
    ) -> Tensor:
        """Encrypts real or complex numbers. The axis `slots` (default the last) lies inside the ciphertexts, the others are the
        tensor's. There must be as many values along it as slots, or fewer with ``pad=True`` (the rest is 0). With ``split=True`` any
        number of values is spread over ciphertexts, along a new last axis of the tensor; zeros fill the last one, and count in statistics.

        `level`: lower than the top where fewer multiplications follow: smaller and faster. A secret key's result is seeded: half
        the bytes when saved. `bound`: the largest magnitude, or (lowest, highest), of the values. It is public: it travels in files, and
        operations compute from it whether a result fits its modulus. Default: `Parameters.bound`. Raises DtypeError, ShapeError,
        PlaintextRangeError (a value outside the bound, or infinite), LevelError, OutOfMemoryError (before anything is computed).

        >>> secret.decrypt(secret.public_key().encrypt([0.5, 1, 1.5, 2])).round(4)
        array([0.5, 1. , 1.5, 2. ])
        """
        given = (0.0, 0.0) if bound is None else interval_of(bound)
        parameters = self.parameters
        at, slots = level_of(parameters, level), whole(slots, "the slot axis")
        room = parameters.slots
        require_room(parameters, values, slots, parameters.ciphertext_bytes(1, at), room if split else 0)
        array, is_complex = complexes(values, "the values to encrypt")
        array = moved_last(array, slots, "the values to encrypt")
        array = in_ciphertexts(array, room, "slots", split, pad)
        return Tensor(self._core.encrypt(array, is_complex, at, progress, given))


class PublicKey(_Encrypts, keys.PublicKey[Parameters], core=_core.CkksPublicKey):
    """Encrypts; does not decrypt. Its ciphertexts take twice the bytes of a secret key's.

    >>> secret.decrypt(secret.public_key().encrypt([0.5, 1, 1.5, 2])).round(4)
    array([0.5, 1. , 1.5, 2. ])
    """

    _scheme = CKKS


class EvaluationKeys(keys.SwitchKeys[Parameters, Tensor], core=_core.CkksEvaluationKeys):
    """What a server needs to multiply, rotate and conjugate. Nothing in it decrypts.

    >>> keys = secret.evaluation_keys(rotations=[1, 2])
    >>> keys.rotations, keys.conjugate
    ([1, 2], False)
    >>> hg.ckks.rotate(x, 3)
    Traceback (most recent call last):
        ...
    heliograph.MissingKeyError: rotation 3 is not among the keys; they have 1, 2
    """

    _scheme = CKKS

    _swap = ("conjugate", "a conjugation key")

    conjugate = told("conjugate", bool, "Whether there is a conjugation key.")
    bootstrap = told("bootstrap", bool, "Whether there are the keys of bootstrapping.")

    def _period(self) -> int:
        return self.parameters.period

    def __repr__(self) -> str:
        parts = ["relinearization"] if self.relinearize else []
        if self.rotations:
            parts.append(f"{len(self.rotations)} rotations")
        if self.conjugate:
            parts.append("conjugation")
        if self.bootstrap:
            parts.append("bootstrapping")
        if self.of_programs:
            parts.append(f"{len(self.of_programs)} of programs")
        return f"<{self._named()}: {', '.join(parts) or 'nothing'}, {readable_bytes(self.nbytes)}; {self.parameters!r}>"


class TrialKeys(keys.NotingKeys, EvaluationKeys):
    """Keys of a run on the device that computes nothing: whatever is asked for is there."""

    bootstrap = True


class SecretKey(_Encrypts, keys.PublishingKey[Parameters, EvaluationKeys, PublicKey], core=_core.CkksSecretKey):
    """The data owner's key: encrypts, decrypts, makes the other keys. Keep it.

    >>> secret = hg.SecretKey.generate(params)
    >>> secret.decrypt(secret.encrypt([0.5, 1, 1.5, 2])).round(4)
    array([0.5, 1. , 1.5, 2. ])
    """

    _scheme = CKKS

    def evaluation_keys(
        self,
        *,
        for_: Any = None,
        relinearize: bool | None = None,
        rotations: Iterable[int] = (),
        conjugate: bool = False,
        bootstrap: bool = False,
        cinnamon: Any = (),
        progress: Progress | None = None,
    ) -> EvaluationKeys:
        """What a server gets: a relinearization key, a key for each rotation (steps to the left; negative ones to the right),
        one to conjugate. `LinearTransform.rotations` and `sum_rotations` tell the steps that matrices and sums need. `bootstrap`: all
        that `hg.ckks.bootstrap` needs besides, some fifty keys (ParameterError for sets that have no bootstrapping). `cinnamon`: a
        program of instructions (`hg.cinnamon.load`) or several, whose own keys are made too; it needs no others.

        `for_` says what the server computes, and makes the keys that this needs and no others, a relinearization key only if products
        need it. It takes one purpose or a list:

        - a function of one tensor: `hg.ckks.mean`, ``lambda x: hg.ckks.rotate(x, [1, 5])``, ``functools.partial(hg.matmul, weights)``.
          `hg.sum` means the sum over slots;
        - ``(function, x, ...)``: a function and examples of its operands, tensors or arrays as `encrypt` takes them (complex values need
          other keys, several ciphertexts have axes);
        - a recorded `hg.Program`, by its last recording; a program of instructions;
        - what has `needs`: a `LinearTransform`, a network, layout or model of `hg.nn`, an `hg.SealedModel`, parameters that
          `hg.parameters_for` found.

        A function runs up to three times, on a device that computes nothing; one that uses plaintexts or matrices encoded
        before runs on the device in use. Raises DtypeError for what is no purpose, MismatchError for
        one of another parameter set, and what the function raises.

        >>> secret.evaluation_keys(rotations=hg.ckks.sum_rotations(4)).rotations
        [1, 2]
        >>> party.keys.bootstrap, len(party.keys.rotations)
        (True, 16)
        >>> secret.evaluation_keys(for_=[hg.ckks.mean, lambda x: hg.ckks.rotate(x, 3)]).rotations
        [1, 2, 3]
        """
        given = {
            "relinearize": for_ is None if relinearize is None else flag(relinearize, "relinearize"),
            "rotations": sorted(set(whole_numbers(rotations, "a rotation"))),
            "conjugate": flag(conjugate, "conjugate"),
            "bootstrap": flag(bootstrap, "bootstrap"),
        }
        wanted, programs = self._asked(for_, given, cinnamon)
        made = self._core.evaluation_keys(
            wanted["relinearize"], wanted["rotations"], wanted["conjugate"], progress, wanted["bootstrap"]
        )
        return EvaluationKeys(keys.with_programs(self._core, made, programs, progress))

    def _tried(self, function: Callable[..., Any], examples: Sequence[Any]) -> dict[str, Any]:
        attempts = [{"relinearize": False}, {"relinearize": True}]
        if self.parameters.bootstrapping_level:
            attempts.append({"relinearize": True, "bootstrapping": True})
        for kinds in attempts:
            held = TrialKeys(self._core, **kinds)
            try:
                function(*(self._stand_in(x, held) for x in examples))
            except _core.MissingKeyError:
                if kinds is attempts[-1]:
                    raise
            else:
                break
        rotations = sorted({s % self.parameters.period for s in held.steps} - {0})
        return {
            "relinearize": kinds["relinearize"],
            "rotations": rotations,
            "conjugate": held.swaps,
            "bootstrap": "bootstrapping" in kinds,
        }

    def _stand_in(self, example: Any, held: EvaluationKeys) -> Tensor:
        """A tensor like an example, a tensor or an array; like one ciphertext of real values for None."""
        level = None
        if example is None:
            example = np.zeros(self.parameters.slots)
        elif isinstance(example, Tensor):
            level = example.level
            example = np.zeros((*example.shape, example.slots), dtype=example.dtype)
        # The least bound that there is: no function is refused for what values may reach.
        values = np.zeros_like(complexes(example, "the example")[0])
        x = self.encrypt(values if np.iscomplexobj(example) else values.real, pad=True, level=level, bound=2.0**-20)
        return Tensor(x._core, held)

    def decrypt(
        self,
        tensor: Tensor,
        *,
        slots: int = -1,
        length: int | None = None,
        publish_bits: float | None = None,
        precision: float | None = None,
        checked: bool = False,
        unchecked: bool = False,
        of: Sequence[Any] | None = None,
        progress: Progress | None = None,
    ) -> npt.NDArray[Any]:
        """The values: float64, or complex128 where the tensor's are complex. `slots` places the slot axis. `length` joins the last axis of
        ciphertexts to so many values in a row, as they were before ``encrypt(..., split=True)``.

        They carry the ciphertext's error (`Tensor.precision`), and that error tells of the secret key: whoever sees values
        decrypted from ciphertexts of his knowledge or choice may compute the key (Li and Micciancio, ePrint 2020/1533). Show
        results to others only with `publish_bits`: a fresh Gaussian of as many bits above the bound on the error is added
        first, which costs these and half of log2(N) more (noise flooding; Li, Micciancio, Schultz, Sorrell, ePrint 2022/816).
        T published ciphertexts then tell at most T 2^(-2 publish_bits - 1) of the error (Kullback-Leibler divergence); how many bits
        there is room for follows from the scale (docs/ckks.md).

        No bound is taken from a file. For a tensor that was loaded say what `precision` the same computation has: the owner's own
        tensors tell (`Tensor.precision`, on fresh encryptions of any values as large, with keys that were not loaded).

        Values that outgrow their modulus would decrypt to wrong numbers, so each ciphertext must be shown to fit. Known places behind
        its values are compared first: a wrong one is a RoomError, right ones show that nothing wrapped. Without such places a bound must
        prove it (of what this process encrypted, of what files say, or of `within`), or the largest coefficient lies 14 bits and more
        below the room. Else RoomError. Values that lie outside of a bound said of them (`within`, a bootstrap, a file) by more than a
        fifth are a RoomError too. ``checked=True`` takes a proof of this process alone, as `hg.strict` does: nothing that came from a file.
        ``unchecked=True`` tests nothing. A RoomError without ``checked=True`` depends on the values: do not show it to the server.

        ``of=(function, x, ...)`` says that a server computed the tensor by that function or program from these operands, which this key
        encrypted. The function is run on the device that computes nothing, with the operands' own bounds, and what follows from them counts
        in place of what files say: ranges, noise and known places. It is your word that the server ran this function.

        Raises WrongKeyError, MismatchError, RoomError; with `publish_bits` NoiseError where no bound is known or nothing would be
        left of the values.

        >>> secret.decrypt(x[0]).round(4)
        array([0.5, 1.5, 2.5, 3.5])
        >>> y = secret.encrypt(np.arange(1.0, 10), split=True)  # three ciphertexts of four values
        >>> y.shape, secret.decrypt(y * 2, length=9).round(4)
        ((3,), array([ 2.,  4.,  6.,  8., 10., 12., 14., 16., 18.]))
        >>> secret.decrypt(x[0], publish_bits=5).round(2)  # for others to see: with noise of its own
        array([0.5, 1.5, 2.5, 3.5])
        >>> mine = secret.encrypt([1, 2, 3, 4])
        >>> answer = server.from_bytes(mine.to_bytes()) * 2  # as if elsewhere
        >>> secret.decrypt(answer, of=(lambda x: x * 2, mine), checked=True).round(4)
        array([2., 4., 6., 8.])
        """
        of_tensors([tensor], Tensor, "decrypt")
        how = judged(checked, unchecked)
        if of is not None:
            if publish_bits is not None:
                raise _core.ParameterError(
                    "decrypt takes of= or publish_bits=, not both: say precision= to publish a loaded tensor"
                )
            like = self._computed(of)
            found: Any = np.asarray(self._core.decrypt_as(tensor._core, like._core, progress, how))
            return moved_from_last(joined(found, length), slots)
        if publish_bits is None:
            values: Any = self._core.decrypt(tensor._core, progress, how)
        else:
            if not isinstance(publish_bits, (int, float)) or isinstance(publish_bits, bool) or not 0 <= publish_bits < 1000:
                raise _core.ParameterError(f"publish_bits is a number of bits, 0 or more, not {described(publish_bits)}")
            known = float("nan") if precision is None else real(precision, "the precision")
            values = self._core.decrypt_for_publication(tensor._core, float(publish_bits), known, progress, how)
        return moved_from_last(joined(np.asarray(values), length), slots)

    def _computed(self, of: Any) -> Tensor:
        """What a function gives for operands, on the device that computes nothing. Raises DtypeError, and what the function raises."""
        parts = listed(of)
        if not parts or not callable(parts[0]) or not all(isinstance(x, Tensor) for x in parts[1:]) or len(parts) < 2:
            raise _core.DtypeError("of= takes a function or program and its operands: of=(function, x, ...)")
        function, operands = getattr(parts[0], "function", parts[0]), parts[1:]
        trial = _core.CkksSecretKey.generate(self._core.parameters.on_device("null"))
        held = TrialKeys(trial)
        result = function(*(Tensor(trial.stand_in(x._core), held) for x in operands))
        of_tensors([result], Tensor, "decrypt's of=")
        found: Tensor = result
        return found
