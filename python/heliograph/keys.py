"""Keys, as separate objects: what a server holds cannot decrypt."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar, overload

import numpy as np
import numpy.typing as npt

from heliograph import _core, ckks, tfhe
from heliograph._arrays import (
    WORD,
    Buffer,
    described,
    flag,
    from_residues,
    is_whole,
    last_axis,
    moved_from_last,
    of_kind,
    path_of,
    printable,
    readable_bytes,
    require_memory,
    whole_numbers,
)
from heliograph.bfv import Parameters
from heliograph.tensor import Progress, Tensor, encode, packing_axis


def _moduli(parameters: Parameters, moduli: range | None) -> tuple[int, int]:
    """The first one and how many. Raises ParameterError for a range that is not the set's."""
    have = len(parameters.plain_moduli)
    if moduli is None:
        return 0, have
    if not isinstance(moduli, range) or moduli.step != 1 or not 0 <= moduli.start < moduli.stop <= have:
        raise _core.ParameterError(f"{described(moduli)} is no range of this set's {have} plaintext moduli")
    return moduli.start, len(moduli)


def _values(
    parameters: Parameters, values: Any, slots: int | None, coefficients: int | None, pad: bool, moduli: int
) -> tuple[Any, str]:
    axis, packing = packing_axis(parameters, slots, coefficients)
    if (
        isinstance(values, np.ndarray) and -values.ndim <= axis < values.ndim
    ):  # a broadcast view may stand for far more than it is
        items = math.prod(values.shape) // max(1, values.shape[axis])
        each = parameters.ciphertext_bytes() // len(parameters.plain_moduli) * moduli
        require_memory(parameters, items * each + 16 * math.prod(values.shape), "encrypting this array")
    array = last_axis(values, axis, "the values to encrypt")
    pad = flag(pad, "pad")
    room = parameters.slots if packing == "slots" else parameters.n
    have = array.shape[-1]
    if have < room and not pad:
        raise _core.ShapeError(f"{have:,} values for {room:,} {packing}; say pad=True to leave the rest empty")
    return array, packing


_FROM = "a secret key is generated from"


class PublicKey:
    """Encrypts; does not decrypt. Its ciphertexts take twice the bytes of a secret key's."""

    def __init__(self, core: _core.PublicKey) -> None:
        self._core = core

    @property
    def parameters(self) -> Parameters:
        """The parameter set."""
        return Parameters(self._core.parameters)

    @property
    def id(self) -> str:
        """The id of the secret key it belongs to."""
        return self._core.key_id

    def encrypt(
        self,
        values: Any,
        *,
        slots: int | None = None,
        coefficients: int | None = None,
        pad: bool = False,
        moduli: range | None = None,
        progress: Progress | None = None,
    ) -> Tensor:
        """As `SecretKey.encrypt`."""
        first, count = _moduli(self.parameters, moduli)
        array, packing = _values(self.parameters, values, slots, coefficients, pad, count)
        return Tensor(self._core.encrypt(array, packing, progress, first, count))

    def to_bytes(self) -> bytes:
        """The key as a file's bytes."""
        return self._core.to_bytes()

    @staticmethod
    def from_bytes(data: Buffer) -> PublicKey:
        """Reads `to_bytes`. Raises FormatError, DamagedFileError, VersionError."""
        return PublicKey(_core.public_key_from_bytes(data))

    def save(self, path: Any) -> None:
        """Writes a file, all or nothing."""
        self._core.save(path_of(path))

    def __repr__(self) -> str:
        return f"<{self.parameters.scheme} public key {self.id[:8]}: {self.parameters!r}>"


class EvaluationKeys:
    """What a server needs to relinearize and rotate. Nothing in it decrypts."""

    def __init__(self, core: _core.EvaluationKeys) -> None:
        self._core = core

    @property
    def parameters(self) -> Parameters:
        """The parameter set."""
        return Parameters(self._core.parameters)

    @property
    def id(self) -> str:
        """The id of the secret key they belong to."""
        return self._core.key_id

    @property
    def relinearize(self) -> bool:
        """Whether there is a relinearization key."""
        return self._core.relinearize

    @property
    def rotations(self) -> list[int]:
        """Row steps there are keys for, ascending, modulo N/2."""
        return self._core.rotations

    @property
    def columns(self) -> bool:
        """Whether there is a key to exchange the two rows."""
        return self._core.columns

    @property
    def nbytes(self) -> int:
        """Bytes in memory; a file takes half of it."""
        return self._core.nbytes

    def _for_rotations(self, steps: Sequence[int], columns: bool = False) -> _core.EvaluationKeys:
        return self._core  # the engine says what is missing

    def _load(self, path: str, limit: int) -> Tensor:
        return Tensor(_core.load_ciphertext(path, limit, self.parameters.hash))

    def _parse(self, data: Buffer, limit: int) -> Tensor:
        return Tensor(_core.ciphertext_from_bytes(data, limit, self.parameters.hash))

    def to_bytes(self) -> bytes:
        """The keys as a file's bytes."""
        return self._core.to_bytes()

    @staticmethod
    def from_bytes(data: Buffer) -> EvaluationKeys:
        """Reads `to_bytes`. Raises FormatError, DamagedFileError, VersionError."""
        return EvaluationKeys(_core.evaluation_keys_from_bytes(data))

    def save(self, path: Any) -> None:
        """Writes a file, all or nothing."""
        self._core.save(path_of(path))

    def __repr__(self) -> str:
        have = (["relinearize"] if self.relinearize else []) + [f"rotations {self.rotations}"] * bool(self.rotations)
        have += ["columns"] * self.columns
        return f"<{self.parameters.scheme} evaluation keys {self.id[:8]}: {', '.join(have) or 'none'}; {readable_bytes(self.nbytes)}>"


class SecretKey:
    """The data owner's key: encrypts, decrypts, makes the other keys. Keep it.

    This is BFV's; `generate` and `load` give the class of the scheme (`hg.tfhe.SecretKey`).
    """

    def __init__(self, core: _core.SecretKey) -> None:
        self._core = core

    @overload
    @staticmethod
    def generate(parameters: Parameters) -> SecretKey: ...

    @overload
    @staticmethod
    def generate(parameters: tfhe.Parameters) -> tfhe.SecretKey: ...

    @overload
    @staticmethod
    def generate(parameters: ckks.Parameters) -> ckks.SecretKey: ...

    @staticmethod
    def generate(
        parameters: Parameters | tfhe.Parameters | ckks.Parameters,
    ) -> SecretKey | tfhe.SecretKey | ckks.SecretKey:
        """A new key of the parameters' scheme from the operating system's randomness."""
        if isinstance(parameters, tfhe.Parameters):
            return tfhe.SecretKey.generate(parameters)
        if isinstance(parameters, ckks.Parameters):
            return ckks.SecretKey.generate(parameters)
        return SecretKey(_core.SecretKey.generate(of_kind(parameters, Parameters, _FROM)._core))

    @property
    def parameters(self) -> Parameters:
        """The parameter set."""
        return Parameters(self._core.parameters)

    @property
    def id(self) -> str:
        """16 random bytes, hex: every ciphertext and key made with it carries them."""
        return self._core.key_id

    def public_key(self) -> PublicKey:
        """A key others can encrypt with."""
        return PublicKey(self._core.public_key())

    def evaluation_keys(
        self,
        *,
        relinearize: bool = True,
        rotations: Iterable[int] = (),
        columns: bool = False,
        progress: Progress | None = None,
    ) -> EvaluationKeys:
        """What a server gets: a relinearization key, a key for each row step, one to exchange the rows."""
        return EvaluationKeys(
            self._core.evaluation_keys(relinearize, whole_numbers(rotations, "a rotation"), columns, progress)
        )

    def encrypt(
        self,
        values: Any,
        *,
        slots: int | None = None,
        coefficients: int | None = None,
        pad: bool = False,
        moduli: range | None = None,
        progress: Progress | None = None,
    ) -> Tensor:
        """Encrypts integers. The axis `slots` (default the last) lies inside the ciphertexts, the others are the tensor's.

        There must be as many values along it as slots, or fewer with ``pad=True``. `coefficients` in place of `slots`
        puts values in the polynomial's coefficients. The result is seeded: half the bytes when saved. `moduli` takes some of
        the plaintext moduli only (``range(3, 5)``: the fourth and fifth), to compute with them one after another.
        Raises DtypeError, ShapeError, PlaintextRangeError, SlotsError, OutOfMemoryError (before anything is computed).
        """
        first, count = _moduli(self.parameters, moduli)
        array, packing = _values(self.parameters, values, slots, coefficients, pad, count)
        return Tensor(self._core.encrypt(array, packing, progress, first, count))

    def decrypt(
        self, tensor: Tensor, *, slots: int = -1, beyond_estimate: bool = False, progress: Progress | None = None
    ) -> npt.NDArray[Any]:
        """The integers, centred: int64, or Python's where 63 bits do not hold them. `slots` places the slot axis.

        Raises WrongKeyError, MismatchError (also where plaintext moduli are missing: `join_moduli`); NoiseError where the noise
        estimate (`Tensor.noise_budget`) is exhausted, and where the noise measured is beyond it. The estimate is a bound: a
        result may be right beyond it. ``beyond_estimate=True`` decrypts it, and raises NoiseError only where the noise measured
        leaves less than a bit. It is no proof: noise of few different values (of constant data, doubled often) may have wrapped
        and show nothing.
        """
        if not isinstance(tensor, Tensor):
            raise _core.DtypeError(f"decrypt takes a tensor, not {type(tensor).__name__}")
        residues: Any = self._core.decrypt(tensor._core, progress, bool(beyond_estimate))
        return moved_from_last(from_residues(residues, self.parameters.plain_moduli), slots)

    def noise_budget(self, tensor: Tensor, *, beyond_estimate: bool = False) -> float:
        """Bits of noise left, measured: the least over all ciphertexts of the tensor. 0 where `decrypt` raises NoiseError."""
        return self._core.noise_budget(tensor._core, bool(beyond_estimate))

    def save(self, path: Any) -> None:
        """Writes the key to a file only its owner can read (mode 0600)."""
        self._core.save(path_of(path))

    @staticmethod
    def load(path: Any) -> Any:
        """Reads `save`, of any scheme. Raises FormatError, DamagedFileError, VersionError."""
        scheme = _OTHERS.get(_scheme_of(path))
        if scheme is not None:
            return scheme.SecretKey.load(path)
        return SecretKey(_core.load_secret_key(path_of(path)))

    def __repr__(self) -> str:
        return f"<{self.parameters.scheme} secret key {self.id[:8]}: {self.parameters!r}>"


AnyTensor = TypeVar("AnyTensor", Tensor, tfhe.Tensor, ckks.Tensor)
#: The schemes with objects of their own.
_OTHERS: dict[str, Any] = {"tfhe": tfhe, "ckks": ckks}
_CALLS: dict[str, dict[str, Any]] = {
    "tfhe": {"ciphertext": _core.tfhe_load_ciphertext, "evaluation-keys": _core.tfhe_load_evaluation_keys},
    "ckks": {
        "ciphertext": _core.ckks_load_ciphertext,
        "public-key": _core.ckks_load_public_key,
        "evaluation-keys": _core.ckks_load_evaluation_keys,
    },
}
_NAMES = {"ciphertext": "Tensor", "public-key": "PublicKey", "evaluation-keys": "EvaluationKeys"}


class Server:
    """A party that computes: it holds evaluation keys and no secret. Of any scheme.

    `limit` is how many bytes of memory one tensor from a file or message may take (`Tensor.nbytes`: seeds expanded; an axis of
    length zero counts as one); None: as many as the device has left at the time. What the file holds is within it too.
    """

    def __init__(
        self, keys: EvaluationKeys | tfhe.EvaluationKeys | ckks.EvaluationKeys, *, limit: int | None = None
    ) -> None:
        if not isinstance(keys, (EvaluationKeys, tfhe.EvaluationKeys, ckks.EvaluationKeys)):
            raise _core.DtypeError(f"a server is made from evaluation keys, not {type(keys).__name__}")
        if limit is not None and not is_whole(limit):
            raise _core.DtypeError(f"a limit is a number of bytes, not {described(limit)}")
        if limit is not None and limit < 0:
            raise _core.ParameterError(f"a limit counts bytes, not {described(limit)}")
        self.keys: Any = keys  # of the scheme its user knows
        self.limit = limit

    @property
    def parameters(self) -> Any:
        """The parameter set."""
        return self.keys.parameters

    def bind(self, tensor: AnyTensor) -> AnyTensor:
        """The tensor with this server's keys at hand. Raises MismatchError, WrongKeyError for a foreign one."""
        if not isinstance(tensor, (Tensor, tfhe.Tensor, ckks.Tensor)):
            raise _core.DtypeError(f"a server binds tensors, not {type(tensor).__name__}")
        if tensor.parameters != self.keys.parameters:
            raise _core.MismatchError(
                f"the tensor is of other parameters ({tensor.parameters!r}) than these keys ({self.parameters!r})"
            )
        if tensor.key_id and tensor.key_id != self.keys.id:
            raise _core.WrongKeyError(
                f"the tensor is of key {tensor.key_id[:8]}, this server's keys are of {self.keys.id[:8]}"
            )
        return type(tensor)(tensor._core, self.keys)

    def _allowed(self) -> int:
        """Bytes, as the engine counts them."""
        left: int = self.parameters.free_memory if self.limit is None else self.limit
        return min(left, WORD)

    def load(self, path: Any) -> Any:
        """A tensor from a file, bound to the keys.

        Raises FormatError and its kinds, MismatchError, WrongKeyError; LimitError, before memory is taken, beyond the limit.
        """
        return self.bind(self.keys._load(path_of(path), self._allowed()))

    def from_bytes(self, data: Buffer) -> Any:
        """A tensor from bytes, bound to the keys. Raises as `load`."""
        return self.bind(self.keys._parse(data, self._allowed()))

    def encode(
        self,
        values: Any,
        *,
        slots: int | None = None,
        coefficients: int | None = None,
        level: int | None = None,
        scale: float | None = None,
    ) -> Any:
        """Plaintext values for these parameters; see `hg.encode`, and `hg.ckks.encode` for `level` and `scale`."""
        if isinstance(self.keys, ckks.EvaluationKeys):
            if coefficients is not None:
                raise _core.ParameterError("CKKS encodes into slots")
            axis = -1 if slots is None else slots
            return ckks.encode(self.keys.parameters, values, slots=axis, level=level, scale=scale)
        if level is not None or scale is not None:
            raise _core.ParameterError("level and scale are of CKKS's plaintexts")
        if not isinstance(self.keys, EvaluationKeys):
            raise _core.MismatchError(
                "TFHE has no plaintexts: operators take integers, hg.tfhe.trivial makes tensors of them"
            )
        return encode(self.keys.parameters, values, slots=slots, coefficients=coefficients)

    def __repr__(self) -> str:
        return f"<server of {self.keys!r}>"


def _scheme_of(path: Any) -> str:
    """ "bfv", "tfhe", "ckks": whose object a file holds; "program"."""
    kind: str = json.loads(_core.inspect(path_of(path)))["type"]
    if kind == "heliograph.program":
        return "program"
    scheme = kind.split(".")[-2:-1]
    return scheme[0] if scheme and scheme[0] in _OTHERS else "bfv"


def load(path: Any) -> Any:
    """What a file holds, of any scheme: a tensor, a public key, evaluation keys. Secret keys only by `SecretKey.load`."""
    name = path_of(path)
    scheme = _scheme_of(name)
    if scheme == "program":
        raise _core.FormatError(f"{printable(name)} holds a recorded program, which hg.Program.load reads")
    if scheme in _OTHERS:
        return _load_other(name, scheme)
    kind = _core.kind_of(name)
    if kind == "ciphertext":
        return Tensor(_core.load_ciphertext(name))
    if kind == "public-key":
        return PublicKey(_core.load_public_key(name))
    if kind == "evaluation-keys":
        return EvaluationKeys(_core.load_evaluation_keys(name))
    raise _core.FormatError(f"{printable(name)} holds a {printable(kind)}; secret keys are read by SecretKey.load alone")


def _load_other(name: str, scheme: str) -> Any:
    kind = json.loads(_core.inspect(name))["type"].rsplit(".", 1)[-1]
    if kind in _CALLS[scheme]:
        return getattr(_OTHERS[scheme], _NAMES[kind])(_CALLS[scheme][kind](name))
    raise _core.FormatError(f"{printable(name)} holds a {printable(kind)}; secret keys are read by SecretKey.load alone")
