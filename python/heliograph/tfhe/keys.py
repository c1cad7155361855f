"""Keys of TFHE: the secret key encrypts and decrypts, evaluation keys compute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from heliograph import _core
from heliograph._arrays import Buffer, of_kind, path_of, readable_bytes, require_memory
from heliograph.tfhe.dtypes import array_of, name_of, values_of, words_of
from heliograph.tfhe.parameters import Parameters
from heliograph.tfhe.tensor import Tensor

Progress = Callable[[float], None]


class EvaluationKeys:
    """Bootstrapping and key-switching key: all that a server needs. Nothing in it decrypts."""

    def __init__(self, core: _core.TfheEvaluationKeys) -> None:
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
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self._core.nbytes

    def _load(self, path: str, limit: int) -> Tensor:
        return Tensor(_core.tfhe_load_ciphertext(path, limit, self.parameters.hash))

    def _parse(self, data: Buffer, limit: int) -> Tensor:
        return Tensor(_core.tfhe_ciphertext_from_bytes(data, limit, self.parameters.hash))

    def to_bytes(self) -> bytes:
        """The keys as a file's bytes."""
        return self._core.to_bytes()

    @staticmethod
    def from_bytes(data: Buffer) -> EvaluationKeys:
        """Reads `to_bytes`. Raises FormatError, DamagedFileError, VersionError."""
        return EvaluationKeys(_core.tfhe_evaluation_keys_from_bytes(data))

    def save(self, path: Any) -> None:
        """Writes a file, all or nothing."""
        self._core.save(path_of(path))

    def __repr__(self) -> str:
        return f"<TFHE evaluation keys {self.id[:8]}: {self.parameters!r}, {readable_bytes(self.nbytes)}>"


class SecretKey:
    """The data owner's key: encrypts, decrypts, makes the evaluation keys. Keep it."""

    def __init__(self, core: _core.TfheSecretKey) -> None:
        self._core = core

    @staticmethod
    def generate(parameters: Parameters) -> SecretKey:
        """A new key from the operating system's randomness."""
        return SecretKey(
            _core.TfheSecretKey.generate(of_kind(parameters, Parameters, "a secret key of TFHE is generated from")._core)
        )

    @property
    def parameters(self) -> Parameters:
        """The parameter set."""
        return Parameters(self._core.parameters)

    @property
    def id(self) -> str:
        """16 random bytes, hex: every ciphertext and key made with it carries them."""
        return self._core.key_id

    def evaluation_keys(self, *, progress: Progress | None = None) -> EvaluationKeys:
        """What a server gets."""
        return EvaluationKeys(self._core.evaluation_keys(progress))

    def encrypt(self, values: Any, dtype: Any = None, *, progress: Progress | None = None) -> Tensor:
        """Encrypts booleans and integers, an element each, in the array's own dtype or in `dtype` (also "uint24").

        The result is seeded: it is small when saved. Values beyond the dtype are refused, never wrapped. Raises DtypeError,
        PlaintextRangeError, ShapeError, OutOfMemoryError (before anything is computed).
        """
        array = array_of(values, "the values to encrypt")
        if dtype is None and array.dtype == object:
            raise _core.PlaintextRangeError("the values to encrypt are beyond 64 bits")
        name = name_of(array.dtype if dtype is None else dtype)
        require_memory(self.parameters, array.size * self.parameters.ciphertext_bytes(name), "encrypting this array")
        return Tensor(self._core.encrypt(words_of(array, name, "the values to encrypt"), name, progress))

    def decrypt(self, tensor: Tensor, *, progress: Progress | None = None) -> npt.NDArray[Any]:
        """The values in the tensor's dtype (uint24 in uint32). Raises WrongKeyError, MismatchError."""
        if not isinstance(tensor, Tensor):
            raise _core.DtypeError(f"decrypt takes a tensor of TFHE, not {type(tensor).__name__}")
        words: Any = self._core.decrypt(tensor._core, progress)
        return values_of(np.asarray(words), tensor._name)

    def save(self, path: Any) -> None:
        """Writes the key to a file only its owner can read (mode 0600)."""
        self._core.save(path_of(path))

    @staticmethod
    def load(path: Any) -> SecretKey:
        """Reads `save`. Raises FormatError, DamagedFileError, VersionError."""
        return SecretKey(_core.tfhe_load_secret_key(path_of(path)))

    def __repr__(self) -> str:
        return f"<TFHE secret key {self.id[:8]}: {self.parameters!r}>"


def trivial(keys: EvaluationKeys, values: Any, dtype: Any = None) -> Tensor:
    """Clear values as a tensor to compute with; anyone can read them. Raises DtypeError, PlaintextRangeError."""
    keys = of_kind(keys, EvaluationKeys, "clear values become tensors by")
    array = array_of(values, "the values")
    name = name_of(array.dtype if dtype is None else dtype)
    return Tensor(_core.tfhe_trivial(keys._core, words_of(array, name, "the values"), name), keys)
