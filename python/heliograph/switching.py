"""Switching between CKKS and TFHE: values in slots become exact encrypted integers, and integers or booleans become values.

CKKS is fast for sums and products of many approximate numbers. TFHE is exact: comparisons, tables and integers of any depth.
One owner has a secret key of each scheme and makes the keys that switch between them.

The examples of this module's functions continue this example. The example's small sets are insecure; use sets such as
``hg.ckks.parameters("n16-b13")`` and ``hg.tfhe.parameters("2_2")``.

>>> import heliograph as hg
>>> ckks_secret = hg.SecretKey.generate(
...     hg.ckks.parameters(n=2**11, depth=5, log_scale=39, slots=4, bootstrap=True, insecure=True)
... )
>>> tfhe_secret = hg.SecretKey.generate(
...     hg.tfhe.parameters(
...         n=32, k=1, degree=1024, lwe_noise=("gaussian", -22), glwe_noise=("gaussian", -40), bootstrap=(18, 1),
...         switch=(4, 4), message_bits=2, carry_bits=2, norm=17, insecure=True,
...     )
... )
>>> keys = hg.switching.keys(ckks_secret, tfhe_secret)
>>> server = hg.switching.Server(keys, ckks_secret.evaluation_keys(bootstrap=True), tfhe_secret.evaluation_keys())
>>> x = ckks_secret.encrypt([0.5, -0.25, 0.75, 0.25], bound=1)
>>> y = server.to_tfhe(x, bits=8, unit=2**-6)
>>> tfhe_secret.decrypt(y)
array([ 32, -16,  48,  16], dtype=int8)
"""

from __future__ import annotations

from typing import Any, Self

from heliograph import _core, ckks, tfhe
from heliograph import keys as key_classes
from heliograph._common.arguments import (
    Buffer,
    described,
    is_real,
    of_kind,
    path_of,
    readable_bytes,
    real,
    text_of,
    whole,
)
from heliograph._common.operations import composite
from heliograph._common.tensor import Progress, of_tensors

__all__ = ["Keys", "Server", "keys", "load", "log2_failure", "unit_for"]

_RELATIONS = {"<": "less", "<=": "less_equal", ">": "greater", ">=": "greater_equal"}


class Keys:
    """The keys that switch between one CKKS key and one TFHE key, for a server. Switching keys do not decrypt.

    >>> keys.ckks_id == ckks_secret.id, keys.tfhe_id == tfhe_secret.id
    (True, True)
    """

    __slots__ = ("_core",)

    def __init__(self, core: _core.switching.Keys) -> None:
        self._core = core

    @property
    def ckks_id(self) -> str:
        """Id of the CKKS secret key."""
        return self._core.ckks_key_id

    @property
    def tfhe_id(self) -> str:
        """Id of the TFHE secret key."""
        return self._core.tfhe_key_id

    @property
    def nbytes(self) -> int:
        """Size in memory, in bytes; a file takes half of it."""
        return self._core.nbytes

    def save(self, path: Any) -> None:
        """Writes the keys to a file, atomically. `hg.switching.load` reads this file.

        >>> keys.save("switching.hg")
        >>> hg.switching.load("switching.hg").tfhe_id == tfhe_secret.id
        True
        """
        self._core.save(path_of(path))

    def to_bytes(self) -> bytes:
        """Returns the keys in the format of a file.

        >>> len(keys.to_bytes()) < keys.nbytes  # seeded
        True
        """
        return bytes(self._core.to_bytes())

    @classmethod
    def from_bytes(cls, data: Buffer) -> Self:
        """Reads bytes that `to_bytes` returned. Raises FormatError, DamagedFileError, VersionError.

        >>> hg.switching.Keys.from_bytes(keys.to_bytes()).ckks_id == ckks_secret.id
        True
        """
        return cls(_core.switching.Keys.from_bytes(data))

    def __reduce__(self) -> Any:
        """Supports pickle by the file's bytes."""
        return Keys.from_bytes, (self.to_bytes(),)

    def __repr__(self) -> str:
        return (
            f"<switching keys of CKKS key {self.ckks_id[:8]} and TFHE key {self.tfhe_id[:8]}, {readable_bytes(self.nbytes)}>"
        )


def keys(ckks_secret: ckks.SecretKey, tfhe_secret: tfhe.SecretKey, *, progress: Progress | None = None) -> Keys:
    """Makes the keys that switch between two secret keys of one owner.

    The CKKS set needs bootstrapping and 64-bit words. The TFHE set must encrypt digits, as "2_2" and "1_1".

    Raises ParameterError for a pair of sets that cannot switch, SecurityError if the keys would have less than 128 bits.

    >>> hg.switching.keys(ckks_secret, tfhe_secret).ckks_id == ckks_secret.id
    True
    """
    first = of_kind(ckks_secret, ckks.SecretKey, "the first key must be")
    second = of_kind(tfhe_secret, tfhe.SecretKey, "the second key must be")
    return Keys(_core.switching.Keys.make(first._core, second._core, progress))


def load(path: Any) -> Keys:
    """Reads switching keys from a file. Raises FormatError, DamagedFileError, VersionError.

    >>> keys.save("switching.hg")
    >>> hg.switching.load("switching.hg").ckks_id == ckks_secret.id
    True
    """
    return Keys(_core.switching.Keys.load(path_of(path)))


def unit_for(x: ckks.Tensor, bits: int = 16) -> float:
    """Returns the unit that `Server.to_tfhe` takes by default: the smallest power of two for which every value within the
    bound of `x` fits a signed integer of `bits` bits. Raises PlaintextRangeError if `x` has no bound.

    >>> hg.switching.unit_for(ckks_secret.encrypt([1, 2, 3, 4], bound=100), bits=8)  # up to 127
    1.0
    """
    of_tensors([x], ckks.Tensor, "unit_for")
    return float(_core.switching.unit_for(x._core, _bits(bits)))


def log2_failure(switching_keys: Keys, bits: int = 16) -> float:
    """Returns log2 of the probability that a value, an exact multiple of the unit, becomes another integer. The error of
    the CKKS value is not included.

    >>> hg.switching.log2_failure(keys, bits=16) < -128
    True
    """
    held = _switching_keys(switching_keys)
    return float(_core.switching.log2_failure(held._core, _bits(bits)))


class Server:
    """A party that switches tensors between the schemes. The server holds evaluation keys of both schemes, and switching
    keys.

    `ckks_keys` (made with ``bootstrap=True``) and `tfhe_keys` are evaluation keys, or servers that hold them. Raises
    MissingKeyError for CKKS keys without bootstrapping; WrongKeyError if the keys do not belong together.

    >>> server.ckks_keys.bootstrap, server.tfhe_keys.id == tfhe_secret.id
    (True, True)
    """

    def __init__(self, switching_keys: Keys, ckks_keys: Any, tfhe_keys: Any) -> None:
        self.keys = _switching_keys(switching_keys)
        self.ckks_keys = _evaluation_keys(ckks_keys, ckks.EvaluationKeys, "CKKS", self.keys.ckks_id)
        self.tfhe_keys = _evaluation_keys(tfhe_keys, tfhe.EvaluationKeys, "TFHE", self.keys.tfhe_id)
        if not self.ckks_keys.bootstrap:
            raise _core.MissingKeyError("switching needs CKKS keys with bootstrapping (make them with bootstrap=True)")

    def __repr__(self) -> str:
        return f"<server that switches by {self.keys!r}>"

    @composite
    def to_tfhe(
        self, x: ckks.Tensor, bits: int = 16, *, unit: float | None = None, progress: Progress | None = None
    ) -> tfhe.Tensor:
        """Returns round(x / unit) as TFHE integers of `bits` bits, signed. The slots become the last axis.

        `unit` is the value of the last bit; None: `unit_for(x, bits)`. A value within a tenth of a unit of the middle
        between two multiples may be rounded to either multiple. `bits` is a multiple of the message bits of the TFHE set.
        Each value takes ``2 * bits / message_bits - 1`` bootstraps of TFHE. `x` needs at least the level
        `Parameters.bootstrapping_level`.

        Raises WrongKeyError, MismatchError, LevelError, ScaleError; DtypeError for complex values and other `bits`. Raises
        PlaintextRangeError if the bound of x exceeds the integers, NoiseError if an error may reach half a unit.

        >>> tfhe_secret.decrypt(server.to_tfhe(x, bits=8, unit=2**-6) > 0)
        array([ True, False,  True,  True])
        """
        of_tensors([x], ckks.Tensor, "to_tfhe")
        core = _core.switching.to_tfhe(
            x._core, _bits(bits), _unit(unit), self.keys._core, self.ckks_keys._core, self.tfhe_keys._core, progress
        )
        return tfhe.Tensor(core, self.tfhe_keys)

    @composite
    def compare(
        self,
        x: ckks.Tensor,
        relation: str,
        y: Any = 0,
        bits: int = 16,
        *,
        unit: float | None = None,
        progress: Progress | None = None,
    ) -> tfhe.Tensor:
        """Returns whether round((x - y) / unit) has a relation to 0, as TFHE booleans. The slots become the last axis.

        `relation` is "<", "<=", ">", ">=", "==" or "!=". `y` is a CKKS tensor, a number or an array. `unit` is the value of
        the last bit of the differences x - y, which must fit signed integers of `bits` bits; None: `unit_for(x - y, bits)`.
        Equal values are exact in every relation.

        With the set "2_2" a difference takes about ``bits / 4`` bootstraps, 4 for 16 bits; "==" and "!=" take twice as many
        and one more. The number is the smallest for which each result is wrong with probability at most 2^-128.

        Raises the errors of `to_tfhe`; ParameterError for other relations.

        >>> tfhe_secret.decrypt(server.compare(x, ">", 0.25, bits=8, unit=2**-6))
        array([ True, False,  True, False])
        """
        of_tensors([x], ckks.Tensor, "compare")
        text_of(relation, "relation", (*_RELATIONS, "==", "!="))
        width, step = _bits(bits), _unit(unit)
        difference = x if is_real(y) and y == 0 else x - y

        def holds(name: str) -> tfhe.Tensor:
            core = _core.switching.compare(
                difference._core, getattr(_core.switching.Relation, _RELATIONS[name]), width, step, self.keys._core,
                self.ckks_keys._core, self.tfhe_keys._core, progress,
            )  # fmt: skip
            return tfhe.Tensor(core, self.tfhe_keys)

        if relation in _RELATIONS:
            return holds(relation)
        return holds("<=") & holds(">=") if relation == "==" else holds("<") | holds(">")

    @composite
    def to_ckks(self, y: tfhe.Tensor, *, unit: float = 1.0, progress: Progress | None = None) -> ckks.Tensor:
        """Returns ``unit * y`` as CKKS values at a high level. The last axis of `y` becomes the slots.

        Booleans become 0 and `unit`. Every digit of an integer takes a functional bootstrap of CKKS. The functional
        bootstrap also reduces the error of the TFHE ciphertext. So shorter integers and booleans are cheaper.

        Raises WrongKeyError, MismatchError, LevelError; ShapeError if the last axis is longer than the slots; NoiseError.

        >>> ckks_secret.decrypt(server.to_ckks(y > 0)).round(2)
        array([1., 0., 1., 1.])
        >>> ckks_secret.decrypt(server.to_ckks(y, unit=2**-6)).round(2)
        array([ 0.5 , -0.25,  0.75,  0.25])
        """
        of_tensors([y], tfhe.Tensor, "to_ckks")
        step = real(unit, "the unit")
        return ckks.Tensor(
            _core.switching.to_ckks(y._core, step, self.keys._core, self.ckks_keys._core, progress), self.ckks_keys
        )


def _unit(unit: float | None) -> float:
    """Returns a unit, or 0 for None."""
    if unit is None:
        return 0.0
    step = real(unit, "the unit")
    if not step > 0:
        raise _core.ParameterError(f"the unit must be a number above 0, not {described(unit)}")
    return step


def _bits(bits: int) -> int:
    number = whole(bits, "the bits")
    if not 1 <= number <= 64:
        raise _core.ParameterError(f"integers have 1 to 64 bits, not {number}")
    return number


def _switching_keys(given: Keys) -> Keys:
    if not isinstance(given, Keys):
        raise _core.DtypeError(f"switching keys are made by hg.switching.keys, not {described(given)}")
    return given


def _evaluation_keys(given: Any, kind: type[Any], scheme: str, wanted: str) -> Any:
    held = given.keys if isinstance(given, key_classes.Server) else given
    held = of_kind(held, kind, "a server that switches needs")
    if held.id != wanted:
        raise _core.WrongKeyError(
            f"the switching keys belong to {scheme} key {wanted[:8]}, the evaluation keys to key {held.id[:8]}"
        )
    return held
