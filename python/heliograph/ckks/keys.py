"""Keys of CKKS."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from heliograph import _core, keys
from heliograph._common.arguments import (
    complexes,
    described,
    flag,
    in_ciphertexts,
    interval_of,
    joined,
    listed,
    moved_from_last,
    moved_last,
    real,
    require_room,
    whole,
    whole_numbers,
)
from heliograph._common.operations import composite
from heliograph._common.strict import judged
from heliograph._common.tensor import Progress, of_tensors
from heliograph.ckks.evaluation_keys import EvaluationKeys as EvaluationKeys
from heliograph.ckks.levels import level_of
from heliograph.ckks.parameters import Parameters
from heliograph.ckks.scheme import CKKS
from heliograph.ckks.tensor import Tensor


def _levels(options: dict[str, Any], level: int) -> list[tuple[int, list[int], bool]]:
    """Returns the level, the steps and whether a conjugation key is made, for each level with keys of its own."""
    steps = {at: set(some) for at, some in options["level_rotations"].items()}
    if level:
        steps[level] = steps.get(level, set()) | set(options["rotations"])
    return [(at, sorted(some), at == level and options["conjugate"]) for at, some in sorted(steps.items())]


class _Encrypts(keys.Keyed[Parameters]):
    """Encryption, by secret and public keys."""

    @composite
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
        """Encrypts real or complex numbers.

        The axis `slots` of `values` (default the last) lies inside the ciphertexts; the other axes are the tensor's. The
        axis must have as many values as there are slots, or fewer with ``pad=True``; then zeros fill the remaining slots.
        With
        ``split=True`` any number of values is spread over ciphertexts along a new last axis. Zeros fill the last ciphertext
        and count in statistics.

        A `level` below the top gives smaller ciphertexts and faster operations, with fewer multiplications left. A secret
        key's ciphertexts are seeded, which halves their bytes in files.

        `bound` is the largest magnitude of the values, or (lowest, highest). The bound is public and stored in files.
        Operations derive from this bound whether a result fits its modulus. The default is `Parameters.bound`.

        Raises DtypeError, ShapeError, LevelError, PlaintextRangeError for an infinite value or one outside the bound, and
        OutOfMemoryError before anything is computed.

        >>> secret.decrypt(secret.public_key().encrypt([0.5, 1, 1.5, 2])).round(4)
        array([0.5, 1. , 1.5, 2. ])
        """
        interval = (0.0, 0.0) if bound is None else interval_of(bound)
        parameters = self.parameters
        at, slots = level_of(parameters, level), whole(slots, "the slot axis")
        room = parameters.slots
        require_room(parameters, values, slots, parameters.ciphertext_bytes(1, at), room if split else 0)
        array, is_complex = complexes(values, "the values to encrypt")
        array = moved_last(array, slots, "the values to encrypt")
        array = in_ciphertexts(array, room, "slots", split, pad)
        return Tensor(self._core.encrypt(array, is_complex, at, progress, interval))


class PublicKey(_Encrypts, keys.PublicKey[Parameters], core=_core.ckks.PublicKey):
    """A key that encrypts and does not decrypt. A public key's ciphertexts take twice the bytes of a secret key's in files.

    >>> secret.decrypt(secret.public_key().encrypt([0.5, 1, 1.5, 2])).round(4)
    array([0.5, 1. , 1.5, 2. ])
    """

    _scheme = CKKS


class TrialKeys(keys.NotingKeys, EvaluationKeys[Tensor]):
    """Keys of a trial run on the `null` device: every key exists."""

    bootstrap = True


class SecretKey(_Encrypts, keys.PublishingKey[Parameters, EvaluationKeys[Tensor], PublicKey], core=_core.ckks.SecretKey):
    """The data owner's key: it encrypts, decrypts and makes the other keys. Keep it secret.

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
        level: int | None = None,
        level_rotations: Mapping[int, Iterable[int]] | None = None,
        cinnamon: Any = (),
        progress: Progress | None = None,
    ) -> EvaluationKeys[Tensor]:
        """Makes a server's keys: for relinearization, for each rotation step, and on request for conjugation and
        bootstrapping.

        `rotations` lists steps to the left; negative steps rotate right. `LinearTransform.rotations` and `sum_rotations`
        return the steps of matrices and sums. `bootstrap` adds the keys of `hg.ckks.bootstrap`, about fifty; sets without
        bootstrapping raise ParameterError. `cinnamon` is one or several programs of instructions (`hg.cinnamon.load`),
        whose own keys are added; these programs need no other keys.

        With `level`, the keys of rotations and of the conjugation serve ciphertexts of this level and below. These keys have
        fewer primes: they are smaller, and rotations are faster. A ciphertext above that level raises LevelError.
        `level_rotations` maps levels to further steps. A rotation takes the key of the lowest level that serves its
        ciphertext. Keys of bootstraps and relinearization serve every level.

        `for_` is one purpose or a list of purposes. `for_` adds exactly the keys that the purposes need, and a
        relinearization key only if products need it. A purpose is

        - a function of one tensor: `hg.ckks.mean`, ``lambda x: hg.ckks.rotate(x, [1, 5])``,
          ``functools.partial(hg.matmul, weights)``. `hg.sum` means the sum over slots;
        - ``(function, x, ...)``: a function and examples of its operands, tensors or arrays as `encrypt` takes them.
          Examples matter for complex values, which may need other keys, and for several ciphertexts, which have axes;
        - a recorded `hg.Program`, whose last recording counts, or a program of instructions;
        - an object with `needs`: a `LinearTransform` (with keys for its level, if it was made with `level=`), a network,
          layout or model of `hg.nn`, an `hg.ModelBundle`, parameters of `hg.parameters_for`.

        A function runs at most three times, on the `null` device. A function that uses plaintexts or matrices encoded before
        runs on the device in use. Raises DtypeError for an invalid purpose, MismatchError for a purpose of another
        parameter set, and the function's errors.

        >>> secret.evaluation_keys(rotations=hg.ckks.sum_rotations(4)).rotations
        [1, 2]
        >>> party.keys.bootstrap, len(party.keys.rotations)
        (True, 16)
        >>> secret.evaluation_keys(for_=[hg.ckks.mean, lambda x: hg.ckks.rotate(x, 3)]).rotations
        [1, 2, 3]
        >>> small = secret.evaluation_keys(rotations=[1, 2], level=2)
        >>> small.rotations, small.level_rotations
        ([], {2: [1, 2]})
        """
        options: dict[str, Any] = {
            "relinearize": for_ is None if relinearize is None else flag(relinearize, "relinearize"),
            "rotations": sorted(set(whole_numbers(rotations, "a rotation"))),
            "conjugate": flag(conjugate, "conjugate"),
            "bootstrap": flag(bootstrap, "bootstrap"),
            "level_rotations": self._level_rotations(level_rotations),
        }
        key_options, programs = self._key_options(for_, options, cinnamon)
        core = self._core.evaluation_keys(
            key_options["relinearize"],
            key_options["rotations"] if level is None else [],
            key_options["conjugate"] if level is None else False,
            progress,
            key_options["bootstrap"],
            _levels(key_options, level_of(self.parameters, level)),
        )
        return EvaluationKeys(keys.with_programs(self._core, core, programs, progress))

    def _level_rotations(self, given: Any) -> dict[int, list[int]]:
        """Returns the steps of `level_rotations`, by level. Raises DtypeError, LevelError."""
        if given is None:
            return {}
        if not isinstance(given, Mapping):
            raise _core.DtypeError(f"level_rotations must be a mapping from levels to steps, not {type(given).__name__}")
        return {
            level_of(self.parameters, level): sorted(set(whole_numbers(steps, "a rotation")))
            for level, steps in given.items()
        }

    def _tried(self, function: Callable[..., Any], examples: Sequence[Any]) -> dict[str, Any]:
        attempts = [{"relinearize": False}, {"relinearize": True}]
        if self.parameters.bootstrapping_level:
            attempts.append({"relinearize": True, "bootstrapping": True})
        for kinds in attempts:
            trial_keys = TrialKeys(self._core, **kinds)
            try:
                function(*(self._stand_in(x, trial_keys) for x in examples))
            except _core.MissingKeyError:
                if kinds is attempts[-1]:
                    raise
            else:
                break
        rotations = sorted({s % self.parameters.period for s in trial_keys.steps} - {0})
        return {
            "relinearize": kinds["relinearize"],
            "rotations": rotations,
            "conjugate": trial_keys.swaps,
            "bootstrap": "bootstrapping" in kinds,
        }

    def _stand_in(self, example: Any, trial_keys: EvaluationKeys) -> Tensor:
        """Returns an encrypted tensor of zeros in the shape of an example; for None, one real ciphertext."""
        level = None
        if example is None:
            example = np.zeros(self.parameters.slots)
        elif isinstance(example, Tensor):
            level = example.level
            example = np.zeros((*example.shape, example.slots), dtype=example.dtype)
        # The smallest allowed bound, so that no operation raises an error about bounds.
        values = np.zeros_like(complexes(example, "the example")[0])
        x = self.encrypt(values if np.iscomplexobj(example) else values.real, pad=True, level=level, bound=2.0**-20)
        return Tensor(x._core, trial_keys)

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
        unguarded: bool = False,
        of: Sequence[Any] | None = None,
        progress: Progress | None = None,
    ) -> npt.NDArray[Any]:
        """Decrypts to float64, or to complex128 if the tensor's values are complex.

        `slots` is the position of the slot axis in the result. `length` joins the last axis of ciphertexts to that number of
        values, as before ``encrypt(..., split=True)``.

        **Publication.** Decrypted values carry the ciphertext's error (`Tensor.precision`), which depends on the secret key.
        A party that sees values decrypted from ciphertexts that it knows or chose may compute the key (Li and Micciancio,
        ePrint 2020/1533). Publish results only with `publish_bits`. `publish_bits` adds a fresh Gaussian error,
        `publish_bits` bits above the bound on the error, which costs these bits and half of log2(N) more (noise flooding;
        Li, Micciancio, Schultz, Sorrell, ePrint 2022/816). T published ciphertexts then leak at most T 2^(-2 publish_bits -
        1) of the error (Kullback-Leibler divergence). The scale limits `publish_bits` (docs/ckks.md).

        A publication trusts no bound from a file. For a loaded tensor, pass the `precision` of the same computation:
        `Tensor.precision` of the owner's own run, on fresh encryptions of values as large and with keys that were not
        loaded.

        **Range.** Values that exceed their modulus would decrypt to wrong numbers, so decryption requires evidence that each
        ciphertext fits, in this order:

        1. Unused places with known content: a wrong place raises RoomError, correct ones show that nothing wrapped.
        2. A bound: derived from values that this process encrypted, stored in files, or declared by `within`.
        3. The largest coefficient is at least 14 bits below the room.

        Without evidence, decryption raises RoomError; also if values exceed a declared bound (`within`, a bootstrap, a file)
        by more than a fifth. ``checked=True``, or `hg.strict`, accepts only bounds that this process derived, and none from
        a file. ``unchecked=True`` skips the check. A RoomError without ``checked=True`` depends on the values: hide it from
        the server.

        **Guards.** A tensor that depends on a declared interval (`domain=`, `within`) has guards (`Tensor.guards`).
        Decryption raises OutOfIntervalError, which names the operation, if an argument was outside. ``unguarded=True`` and
        ``unchecked=True`` skip this check. Whether this error is raised depends on the values too.

        ``of=(function, x, ...)`` declares that a server computed the tensor by this function or program from these operands,
        which this key encrypted. The function runs on the `null` device with the operands' own bounds. The ranges, noise and
        known places of that run replace those of files. Decryption trusts that the server ran this function.

        Raises WrongKeyError, MismatchError, OutOfIntervalError, RoomError; with `publish_bits` NoiseError if no bound is
        known or no correct bits would remain.

        >>> secret.decrypt(x[0]).round(4)
        array([0.5, 1.5, 2.5, 3.5])
        >>> y = secret.encrypt(np.arange(1.0, 10), split=True)  # three ciphertexts of four values
        >>> y.shape, secret.decrypt(y * 2, length=9).round(4)
        ((3,), array([ 2.,  4.,  6.,  8., 10., 12., 14., 16., 18.]))
        >>> secret.decrypt(x[0], publish_bits=5).round(2)  # with added noise, for publication
        array([0.5, 1.5, 2.5, 3.5])
        >>> mine = secret.encrypt([1, 2, 3, 4])
        >>> answer = server.from_bytes(mine.to_bytes()) * 2  # as if elsewhere
        >>> secret.decrypt(answer, of=(lambda x: x * 2, mine), checked=True).round(4)
        array([2., 4., 6., 8.])
        """
        of_tensors([tensor], Tensor, "decrypt")
        how = judged(checked, unchecked)
        core = tensor._bare() if flag(unguarded, "unguarded") else tensor._core
        if of is not None:
            if publish_bits is not None:
                raise _core.ParameterError(
                    "decrypt takes of= or publish_bits=, not both: to publish a loaded tensor pass precision="
                )
            like = self._computed(of)
            decrypted: Any = np.asarray(self._core.decrypt_as(core, like._core, progress, how))
            return moved_from_last(joined(decrypted, length), slots)
        if publish_bits is None:
            values: Any = self._core.decrypt(core, progress, how)
        else:
            if not isinstance(publish_bits, (int, float)) or isinstance(publish_bits, bool) or not 0 <= publish_bits < 1000:
                raise _core.ParameterError(
                    f"publish_bits must be a number of bits of at least 0 and below 1000, not {described(publish_bits)}"
                )
            log_precision = float("nan") if precision is None else real(precision, "the precision")
            values = self._core.decrypt_for_publication(core, float(publish_bits), log_precision, progress, how)
        return moved_from_last(joined(np.asarray(values), length), slots)

    def _computed(self, of: Any) -> Tensor:
        """Runs a function with operands on the `null` device. Raises DtypeError, and the function's errors."""
        parts = listed(of)
        if not parts or not callable(parts[0]) or not all(isinstance(x, Tensor) for x in parts[1:]) or len(parts) < 2:
            raise _core.DtypeError("of= must be a function or program and its operands: of=(function, x, ...)")
        function, operands = getattr(parts[0], "function", parts[0]), parts[1:]
        trial = _core.ckks.SecretKey.generate(self._core.parameters.on_device("null"))
        trial_keys = TrialKeys(trial)
        result = function(*(Tensor(trial.stand_in(x._core), trial_keys) for x in operands))
        of_tensors([result], Tensor, "decrypt's of=")
        tensor: Tensor = result
        return tensor
