"""Keys of TFHE: the secret key encrypts and decrypts, evaluation keys compute."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from heliograph import _core, keys
from heliograph._arrays import of_kind, readable_bytes, require_memory
from heliograph._shapes import Progress, of_tensors
from heliograph.tfhe.dtypes import array_of, name_of, values_of, words_of
from heliograph.tfhe.parameters import Parameters
from heliograph.tfhe.scheme import TFHE
from heliograph.tfhe.tensor import Tensor


class EvaluationKeys(keys.EvaluationKeys[Parameters, Tensor], core=_core.TfheEvaluationKeys):
    """Bootstrapping and key-switching key: all that a server needs. Nothing in it decrypts.

    >>> server.keys.id == secret.id
    True
    """

    _scheme = TFHE
    _noted: list[Any] | None = None  #: what a trial run asks of them (`hg.parameters_for`)

    def __repr__(self) -> str:
        return f"<{self._named()}: {self.parameters!r}, {readable_bytes(self.nbytes)}>"


class SecretKey(keys.SecretKey[Parameters, EvaluationKeys], core=_core.TfheSecretKey):
    """The data owner's key: encrypts, decrypts, makes the evaluation keys. Keep it.

    >>> secret.decrypt(secret.encrypt([1, 2, 3]))
    array([1, 2, 3])
    """

    _scheme = TFHE

    def evaluation_keys(self, *, for_: Any = None, progress: Progress | None = None) -> EvaluationKeys:
        """What a server gets: the same keys for every computation. `for_`, which other schemes make other keys by, is one purpose or a
        list, as `hg.bfv.SecretKey.evaluation_keys` takes it; what TFHE cannot compute is refused as the computation would be.

        >>> hg.Server(secret.evaluation_keys()).parameters == secret.parameters
        True
        >>> secret.evaluation_keys(for_=[hg.tfhe.sum, lambda x: x < 3]).nbytes == server.keys.nbytes
        True
        """
        self._asked(for_, {}, ())
        return EvaluationKeys(self._core.evaluation_keys(progress))

    def _trial(self, function: Callable[..., Any], examples: Sequence[Any] | None) -> dict[str, Any]:
        core = self.parameters._core
        if self.parameters.name:  # with small keys: nothing is computed with them
            spec = _core.tfhe_named_spec(self.parameters.name, True)
            spec.n, spec.insecure = 8 * spec.group, True
            core = _core.TfheParameters(spec)
        owner = SecretKey(_core.TfheSecretKey.generate(core.on_device("null")))
        held = owner.evaluation_keys()
        function(*(owner._stand_in(x, held) for x in ([np.zeros(2, dtype=np.uint8)] if examples is None else examples)))
        return {}

    def _stand_in(self, example: Any, held: EvaluationKeys) -> Tensor:
        """A tensor like an example, a tensor or an array."""
        array = np.zeros(example.shape, dtype=np.uint8) if isinstance(example, Tensor) else array_of(example, "the example")
        name = example._name if isinstance(example, Tensor) else name_of(array.dtype)
        return Tensor(self.encrypt(np.zeros(array.shape, dtype=np.uint8), name)._core, held)

    def encrypt(self, values: Any, dtype: Any = None, *, progress: Progress | None = None) -> Tensor:
        """Encrypts booleans and integers, an element each, in the array's own dtype or in `dtype` (also "uint24").

        The result is seeded: it is small when saved. Values beyond the dtype are refused, never wrapped. Raises DtypeError,
        PlaintextRangeError, ShapeError, OutOfMemoryError (before anything is computed).

        >>> secret.encrypt([1, 2, 3], "uint24").shape
        (3,)
        >>> secret.encrypt([True, False]).dtype
        dtype('bool')
        """
        array = array_of(values, "the values to encrypt")
        if dtype is None and array.dtype == object:
            raise _core.PlaintextRangeError("the values to encrypt are beyond 64 bits")
        name = name_of(array.dtype if dtype is None else dtype)
        require_memory(self.parameters, array.size * self.parameters.ciphertext_bytes(name), "encrypting this array")
        return Tensor(self._core.encrypt(words_of(array, name, "the values to encrypt"), name, progress))

    def decrypt(self, tensor: Tensor, *, progress: Progress | None = None) -> npt.NDArray[Any]:
        """The values in the tensor's dtype (uint24 in uint32). Raises WrongKeyError, MismatchError.

        >>> secret.decrypt(a), secret.decrypt(p)
        (array([ 7, 12], dtype=uint8), array([ True,  True, False, False]))
        """
        of_tensors([tensor], Tensor, "decrypt")
        words: Any = self._core.decrypt(tensor._core, progress)
        return values_of(np.asarray(words), tensor._name)


def trivial(keys: EvaluationKeys, values: Any, dtype: Any = None) -> Tensor:
    """Clear values as a tensor to compute with; anyone can read them. Raises DtypeError, PlaintextRangeError.

    >>> secret.decrypt(hg.tfhe.trivial(server.keys, [1, 2], 'uint8') + a)
    array([ 8, 14], dtype=uint8)
    """
    keys = of_kind(keys, EvaluationKeys, "clear values become tensors by")
    array = array_of(values, "the values")
    name = name_of(array.dtype if dtype is None else dtype)
    return Tensor(_core.tfhe_trivial(keys._core, words_of(array, name, "the values"), name), keys)
