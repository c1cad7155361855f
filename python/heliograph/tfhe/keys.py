"""Keys of TFHE."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from heliograph import _core, keys
from heliograph._common.arguments import of_kind, require_memory
from heliograph._common.operations import composite
from heliograph._common.tensor import Progress, of_tensors
from heliograph.tfhe.dtypes import array_of, name_of, values_of, words_of
from heliograph.tfhe.evaluation_keys import EvaluationKeys as EvaluationKeys
from heliograph.tfhe.parameters import Parameters
from heliograph.tfhe.scheme import TFHE
from heliograph.tfhe.tensor import Tensor


class SecretKey(keys.SecretKey[Parameters, EvaluationKeys[Tensor]], core=_core.tfhe.SecretKey):
    """The data owner's key: it encrypts, decrypts and makes the evaluation keys. Keep the key secret.

    >>> secret.decrypt(secret.encrypt([1, 2, 3]))
    array([1, 2, 3])
    """

    _scheme = TFHE

    def evaluation_keys(self, *, for_: Any = None, progress: Progress | None = None) -> EvaluationKeys[Tensor]:
        """Makes a server's keys, which are the same for every computation.

        `for_` is one purpose or a list, as for `hg.bfv.SecretKey.evaluation_keys`. `for_` does not select keys; a purpose
        that TFHE cannot compute raises the error of that computation.

        >>> hg.Server(secret.evaluation_keys()).parameters == secret.parameters
        True
        >>> secret.evaluation_keys(for_=[hg.tfhe.sum, lambda x: x < 3]).nbytes == server.keys.nbytes
        True
        """
        self._key_options(for_, {}, ())
        return EvaluationKeys(self._core.evaluation_keys(progress))

    def _trial(self, function: Callable[..., Any], examples: Sequence[Any] | None) -> dict[str, Any]:
        core = self.parameters._core
        if self.parameters.name:  # small keys suffice: a trial run computes nothing with them
            spec = _core.tfhe.named_spec(self.parameters.name, True)
            spec.n, spec.insecure = 8 * spec.group, True
            core = _core.tfhe.Parameters(spec)
        owner = SecretKey(_core.tfhe.SecretKey.generate(core.on_device("null")))
        trial_keys = owner.evaluation_keys()
        function(
            *(owner._stand_in(x, trial_keys) for x in ([np.zeros(2, dtype=np.uint8)] if examples is None else examples))
        )
        return {}

    def _stand_in(self, example: Any, trial_keys: EvaluationKeys) -> Tensor:
        """Returns an encrypted tensor of zeros in the shape and type of an example, a tensor or array."""
        array = np.zeros(example.shape, dtype=np.uint8) if isinstance(example, Tensor) else array_of(example, "the example")
        name = example._name if isinstance(example, Tensor) else name_of(array.dtype)
        return Tensor(self.encrypt(np.zeros(array.shape, dtype=np.uint8), name)._core, trial_keys)

    @composite
    def encrypt(self, values: Any, dtype: Any = None, *, progress: Progress | None = None) -> Tensor:
        """Encrypts an array of booleans or integers, in its own dtype or in `dtype`, also "uint24" and "int24".

        The result is seeded, which makes its files small. Raises DtypeError, ShapeError, PlaintextRangeError for values
        outside the dtype, and OutOfMemoryError before anything is computed.

        >>> secret.encrypt([1, 2, 3], "uint24").shape
        (3,)
        >>> secret.encrypt([True, False]).dtype
        dtype('bool')
        """
        array = array_of(values, "the values to encrypt")
        if dtype is None and array.dtype == object:
            raise _core.PlaintextRangeError(
                "the values to encrypt must be integers of at most 64 bits; they hold larger ones"
            )
        name = name_of(array.dtype if dtype is None else dtype)
        require_memory(self.parameters, array.size * self.parameters.ciphertext_bytes(name), "encrypting this array")
        return Tensor(self._core.encrypt(words_of(array, name, "the values to encrypt"), name, progress))

    def decrypt(self, tensor: Tensor, *, progress: Progress | None = None) -> npt.NDArray[Any]:
        """Decrypts to an array of the tensor's dtype (uint24 as uint32). Raises DtypeError, WrongKeyError, MismatchError.

        >>> secret.decrypt(a), secret.decrypt(p)
        (array([ 7, 12], dtype=uint8), array([ True,  True, False, False]))
        """
        of_tensors([tensor], Tensor, "decrypt")
        words: Any = self._core.decrypt(tensor._core, progress)
        return values_of(np.asarray(words), tensor._name)


@composite
def trivial(keys: EvaluationKeys, values: Any, dtype: Any = None) -> Tensor:
    """Makes a trivial tensor of clear values, as an operand: it is not encrypted. Raises DtypeError, PlaintextRangeError.

    >>> secret.decrypt(hg.tfhe.trivial(server.keys, [1, 2], 'uint8') + a)
    array([ 8, 14], dtype=uint8)
    """
    keys = of_kind(keys, EvaluationKeys, "clear values become tensors by")
    array = array_of(values, "the values")
    name = name_of(array.dtype if dtype is None else dtype)
    return Tensor(_core.tfhe.trivial(keys._core, words_of(array, name, "the values"), name), keys)
