"""Functions on tensors of TFHE. Each function is one call of the engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from heliograph import _core
from heliograph._common.matrices import Axis, require_vectors
from heliograph._common.operations import composite
from heliograph._common.tensor import Progress
from heliograph.tfhe.dtypes import array_of, name_of, words_of
from heliograph.tfhe.keys import EvaluationKeys
from heliograph.tfhe.tables import BYTE, look_up_rows, require_entries
from heliograph.tfhe.tensor import Tensor, binaries, binary, product_of, require_tensors, run, trivial

# Arithmetic. `variant` names an algorithm; `goal` is "fewest" (bootstraps) or "shallow" (fewest layers). By default the
# engine chooses the fastest circuit for the tensor's size and the device.


@composite
def add(a: Any, b: Any, *, variant: str = "", goal: str = "", progress: Progress | None = None) -> Tensor:
    """Returns ``a + b``.

    Variants are "ripple" (sequential carries, fewest bootstraps) and "prefix" (fewest layers). Sets of bits also have
    "bitwise", another name of "ripple", and "numberwise" (Morshed et al. 2020). Raises DtypeError, ShapeError,
    MissingKeyError, and ParameterError for other variants.

    >>> secret.decrypt(hg.tfhe.add(a, b, goal="shallow"))
    array([ 10, 212], dtype=uint8)
    """
    return binary("add", a, b, variant=variant, goal=goal, progress=progress)


@composite
def subtract(a: Any, b: Any, *, variant: str = "", goal: str = "", progress: Progress | None = None) -> Tensor:
    """Returns ``a - b``. The variants are those of `add`.

    >>> secret.decrypt(hg.tfhe.subtract(a, b))
    array([ 4, 68], dtype=uint8)
    """
    return binary("subtract", a, b, variant=variant, goal=goal, progress=progress)


@composite
def multiply(a: Any, b: Any, *, variant: str = "", goal: str = "", progress: Progress | None = None) -> Tensor:
    """Returns ``a * b``.

    Two encrypted operands have the variant "karatsuba". Sets of bits also have "wallace", "booth" and "tree" (Morshed et al.
    2020); sets of digits have "schoolbook" (the default), "ripple" and "prefix". With a clear operand, sets of digits have
    "ripple" and "prefix". Raises ParameterError for other variants.

    >>> secret.decrypt(hg.tfhe.multiply(a, 3))
    array([21, 36], dtype=uint8)
    """
    return binary("multiply", a, b, variant=variant, goal=goal, progress=progress)


@composite
def floor_divide(a: Any, b: Any, *, goal: str = "", progress: Progress | None = None) -> Tensor:
    """Returns ``a // b``, rounded down.

    An encrypted zero divisor gives all ones (-1 if signed); a clear zero divisor raises ParameterError.

    >>> secret.decrypt(hg.tfhe.floor_divide(a, 5))
    array([1, 2], dtype=uint8)
    """
    return binary("floor_divide", a, b, goal=goal, progress=progress)


@composite
def remainder(a: Any, b: Any, *, goal: str = "", progress: Progress | None = None) -> Tensor:
    """Returns ``a % b`` with the divisor's sign, as NumPy does. For an encrypted zero divisor, the result is a.

    >>> secret.decrypt(hg.tfhe.remainder(a, 5))
    array([2, 2], dtype=uint8)
    """
    return binary("floor_remainder", a, b, goal=goal, progress=progress)


@composite
def divmod(a: Any, b: Any, *, goal: str = "", progress: Progress | None = None) -> tuple[Tensor, Tensor]:
    """Returns (a // b, a % b) by one division.

    >>> q, r = hg.tfhe.divmod(a, 5)
    >>> secret.decrypt(q), secret.decrypt(r)
    (array([1, 2], dtype=uint8), array([2, 2], dtype=uint8))
    """
    q, r = binaries("floor_divmod", a, b, goal=goal, progress=progress)
    return q, r


@composite
def truncated_divmod(a: Any, b: Any, *, goal: str = "", progress: Progress | None = None) -> tuple[Tensor, Tensor]:
    """Returns the quotient rounded toward zero and the remainder with the dividend's sign, as in C. Rounding toward zero is
    the cheapest division.

    >>> z = server.bind(secret.encrypt(np.array([-7, 7], dtype=np.int8)))
    >>> q, r = hg.tfhe.truncated_divmod(z, 5)
    >>> secret.decrypt(q), secret.decrypt(r)
    (array([-1,  1], dtype=int8), array([-2,  2], dtype=int8))
    """
    q, r = binaries("divmod", a, b, goal=goal, progress=progress)
    return q, r


@composite
def minimum(a: Any, b: Any, *, goal: str = "", progress: Progress | None = None) -> Tensor:
    """Returns the elementwise minimum.

    >>> secret.decrypt(hg.tfhe.minimum(a, b))
    array([ 3, 12], dtype=uint8)
    """
    return binary("minimum", a, b, goal=goal, progress=progress)


@composite
def maximum(a: Any, b: Any, *, goal: str = "", progress: Progress | None = None) -> Tensor:
    """Returns the elementwise maximum.

    >>> secret.decrypt(hg.tfhe.maximum(a, b))
    array([  7, 200], dtype=uint8)
    """
    return binary("maximum", a, b, goal=goal, progress=progress)


@composite
def shift_left(a: Any, amount: Any, *, goal: str = "", progress: Progress | None = None) -> Tensor:
    """Returns ``a << amount``. A clear amount of at least the width gives 0; an encrypted amount counts modulo the width if
    the width is a power of two.

    >>> secret.decrypt(hg.tfhe.shift_left(a, 2))
    array([28, 48], dtype=uint8)
    """
    return binary("shift_left", a, amount, goal=goal, progress=progress)


@composite
def shift_right(a: Any, amount: Any, *, goal: str = "", progress: Progress | None = None) -> Tensor:
    """Returns ``a >> amount``, extended by the sign if a is signed. The rules for amounts are those of `shift_left`.

    >>> secret.decrypt(hg.tfhe.shift_right(b, 1))
    array([  1, 100], dtype=uint8)
    """
    return binary("shift_right", a, amount, goal=goal, progress=progress)


@composite
def rotate_left(a: Any, amount: Any, *, goal: str = "", progress: Progress | None = None) -> Tensor:
    """Rotates the bits left. Amounts of rotation count modulo the width.

    >>> secret.decrypt(hg.tfhe.rotate_left(b, 1))
    array([  6, 145], dtype=uint8)
    """
    return binary("rotate_left", a, amount, goal=goal, progress=progress)


@composite
def rotate_right(a: Any, amount: Any, *, goal: str = "", progress: Progress | None = None) -> Tensor:
    """Rotates the bits right. Amounts of rotation count modulo the width.

    >>> secret.decrypt(hg.tfhe.rotate_right(a, 1))
    array([131,   6], dtype=uint8)
    """
    return binary("rotate_right", a, amount, goal=goal, progress=progress)


@composite
def select(condition: Tensor, a: Any, b: Any, *, goal: str = "", progress: Progress | None = None) -> Tensor:
    """Returns a where the encrypted condition is true and b elsewhere, as NumPy's where. a and b may be clear. Raises
    DtypeError.

    >>> secret.decrypt(hg.tfhe.select(a < b, a, b))
    array([ 3, 12], dtype=uint8)
    """
    if not isinstance(condition, Tensor):
        raise _core.DtypeError(f"a condition must be a tensor of booleans, not {type(condition).__name__}")
    if not isinstance(a, Tensor) and not isinstance(b, Tensor):
        # A Python integer takes the other operand's type, as in NumPy.
        kind = name_of(np.result_type(*(v if type(v) is int else array_of(v, "the values") for v in (a, b))))
        a = trivial(a, condition, "the values where true", kind)
    x = a if isinstance(a, Tensor) else trivial(a, _bound(b, condition), "the values where true")
    y = b if isinstance(b, Tensor) else trivial(b, _bound(x, condition), "the values where false")
    return run("select", [condition, x, y], goal=goal, progress=progress)[0]


def _bound(x: Tensor, other: Tensor) -> Tensor:
    """Returns x with its own keys, or with those of another tensor."""
    return x if x._keys is not None else Tensor(x._core, other._keys)


@composite
def look_up(a: Tensor, table: Any, dtype: Any = None, *, goal: str = "", progress: Progress | None = None) -> Tensor:
    """Returns table[a] for a clear table with an entry for each value of a, which has at most 16 bits.

    The entries of the table are in the order of the unsigned values of a. The result has the type `dtype`, by default the
    table's.

    Up to 8 bits, a look-up is one circuit; `Parameters.cost` counts its bootstraps. For wider integers, the index is looked
    up in each distinct row of 256 entries, and a tree of selections chooses one result. With the set "2_2", an element of
    uint16 takes 69 bootstraps for a threshold at 12,345, 6,050 for the integer square root (a byte), 40,463 for random
    bytes. `hg.forecast` predicts seconds.

    Raises DtypeError, ShapeError, and ParameterError for a wrong number of entries.

    >>> import heliograph as hg, numpy as np
    >>> secret = hg.SecretKey.generate(hg.tfhe.parameters())
    >>> x = hg.Server(secret.evaluation_keys()).bind(secret.encrypt(np.array([3, 40_000], dtype=np.uint16)))
    >>> table = np.where(np.arange(1 << 16) < 30_000, 7, 9).astype(np.uint8)
    >>> secret.decrypt(hg.tfhe.look_up(x, table)).tolist()
    [7, 9]
    """
    require_tensors([a], "look_up")
    entries = array_of(table, "the table")
    if entries.ndim != 1:
        raise _core.ShapeError(f"a table must have one axis, not shape {entries.shape}")
    name = name_of(entries.dtype if dtype is None else dtype)
    words = words_of(entries, name, "the table")
    if require_entries(a._name, len(words)) > BYTE:
        return look_up_rows(a, words, name, goal, progress)
    return run("look_up", [a], words.view(np.int64).tolist(), dtype=name, goal=goal, progress=progress)[0]


# Along axes


@composite
def sum(
    a: Tensor, axis: Axis = None, *, dtype: Any = None, keys: EvaluationKeys | None = None, progress: Progress | None = None
) -> Tensor:
    """Returns the sum along axes, or of all elements.

    By default the result has the narrowest NumPy type that holds any sum of these values (uint16 for 2 to 256 values of
    uint8), at most 64 bits; there it wraps as in NumPy. With `dtype`, values are converted first; the tensor's own dtype is
    cheapest, and wraps. Booleans are counted, in int64 or in `dtype`.

    Up to 64 terms share one carry propagation, which takes as many bootstraps as the result has digits. Raises DtypeError,
    ShapeError.

    >>> secret.decrypt(hg.tfhe.sum(a)), secret.decrypt(hg.tfhe.sum(a, dtype=a.dtype))
    (array(19, dtype=uint16), array(19, dtype=uint8))
    >>> secret.decrypt(hg.tfhe.sum(p, dtype="uint8"))
    array(2, dtype=uint8)
    """
    require_tensors([a], "sum")
    return a.sum(axis, dtype=dtype, keys=keys, progress=progress)


@composite
def matmul(
    a: Any, b: Any, *, algorithm: str = "", variant: str = "", goal: str = "", progress: Progress | None = None
) -> Tensor:
    """Returns the matrix product with NumPy's shapes, in the tensors' dtype, in which it wraps.

    By default each element is one dot product with one carry propagation. The `algorithm` "cannon" multiplies square
    matrices by Cannon's algorithm, with the variants of `multiply`. Without an `algorithm`, sets of digits have the
    variants "ripple" and "prefix", and sets of bits have none. Raises DtypeError, ShapeError, ParameterError.

    >>> secret.decrypt(hg.tfhe.matmul(a, np.array([[1, 0], [0, 2]], dtype=np.uint8)))
    array([ 7, 24], dtype=uint8)
    """
    return product_of(a, b, algorithm=algorithm, variant=variant, goal=goal, progress=progress)


@composite
def dot(a: Any, b: Any, *, variant: str = "", goal: str = "", progress: Progress | None = None) -> Tensor:
    """Returns the dot product of two vectors: one carry-save tree of all partial products, with one carry propagation.

    >>> secret.decrypt(hg.tfhe.dot(a, np.array([2, 1], dtype=np.uint8)))
    array(26, dtype=uint8)
    """
    require_vectors(*(x.shape if isinstance(x, Tensor) else array_of(x, "the factors").shape for x in (a, b)))
    return product_of(a, b, variant=variant, goal=goal, progress=progress)


# Gates, on booleans and on the bits of integers


@composite
def and_(a: Any, b: Any) -> Tensor:
    """Returns ``a and b``.

    >>> secret.decrypt(hg.tfhe.and_(p, q))
    array([ True, False, False, False])
    """
    return binary("and", a, b)


@composite
def nand(a: Any, b: Any) -> Tensor:
    """Returns ``not (a and b)``.

    >>> secret.decrypt(hg.tfhe.nand(p, q))
    array([False,  True,  True,  True])
    """
    return binary("nand", a, b)


@composite
def or_(a: Any, b: Any) -> Tensor:
    """Returns ``a or b``.

    >>> secret.decrypt(hg.tfhe.or_(p, q))
    array([ True,  True,  True, False])
    """
    return binary("or", a, b)


@composite
def nor(a: Any, b: Any) -> Tensor:
    """Returns ``not (a or b)``.

    >>> secret.decrypt(hg.tfhe.nor(p, q))
    array([False, False, False,  True])
    """
    return binary("nor", a, b)


@composite
def xor(a: Any, b: Any) -> Tensor:
    """Returns ``a != b``.

    >>> secret.decrypt(hg.tfhe.xor(p, q))
    array([False,  True,  True, False])
    """
    return binary("xor", a, b)


@composite
def xnor(a: Any, b: Any) -> Tensor:
    """Returns ``a == b``.

    >>> secret.decrypt(hg.tfhe.xnor(p, q))
    array([ True, False, False,  True])
    """
    return binary("xnor", a, b)


@composite
def andny(a: Any, b: Any) -> Tensor:
    """Returns ``(not a) and b``.

    >>> secret.decrypt(hg.tfhe.andny(p, q))
    array([False, False,  True, False])
    """
    return binary("andny", a, b)


@composite
def andyn(a: Any, b: Any) -> Tensor:
    """Returns ``a and (not b)``.

    >>> secret.decrypt(hg.tfhe.andyn(p, q))
    array([False,  True, False, False])
    """
    return binary("andyn", a, b)


@composite
def orny(a: Any, b: Any) -> Tensor:
    """Returns ``(not a) or b``.

    >>> secret.decrypt(hg.tfhe.orny(p, q))
    array([ True, False,  True,  True])
    """
    return binary("orny", a, b)


@composite
def oryn(a: Any, b: Any) -> Tensor:
    """Returns ``a or (not b)``.

    >>> secret.decrypt(hg.tfhe.oryn(p, q))
    array([ True,  True, False,  True])
    """
    return binary("oryn", a, b)


@composite
def not_(a: Tensor) -> Tensor:
    """Returns ``not a``, without a bootstrap.

    >>> secret.decrypt(hg.tfhe.not_(p))
    array([False, False,  True,  True])
    """
    return run("not", [a])[0]


def _booleans(name: str, operands: Sequence[Any]) -> list[Tensor]:
    """Returns operands as tensors of booleans; some operands may be clear. Raises DtypeError, MissingKeyError."""
    if not any(isinstance(t, Tensor) for t in operands):
        raise _core.DtypeError(f"{name} takes at least one tensor of TFHE")
    like = next((t for t in operands if isinstance(t, Tensor) and t._keys is not None), None)
    if like is None:
        raise _core.MissingKeyError(f"{name} needs evaluation keys: load a tensor through a Server")
    return [t if isinstance(t, Tensor) else trivial(t, like, f"an operand of {name}", "bool") for t in operands]


@composite
def and3(a: Any, b: Any, c: Any) -> Tensor:
    """Returns ``a and b and c``, for booleans.

    >>> secret.decrypt(hg.tfhe.and3(p, q, hg.tfhe.not_(q)))
    array([False, False, False, False])
    """
    return run("and3", _booleans("and3", [a, b, c]))[0]


@composite
def or3(a: Any, b: Any, c: Any) -> Tensor:
    """Returns ``a or b or c``, for booleans.

    >>> secret.decrypt(hg.tfhe.or3(p, q, hg.tfhe.not_(q)))
    array([ True,  True,  True,  True])
    """
    return run("or3", _booleans("or3", [a, b, c]))[0]


@composite
def xor3(a: Any, b: Any, c: Any) -> Tensor:
    """Returns the parity of three booleans.

    >>> secret.decrypt(hg.tfhe.xor3(p, q, hg.tfhe.nand(p, q)))
    array([False, False, False,  True])
    """
    return run("xor3", _booleans("xor3", [a, b, c]))[0]


@composite
def majority(a: Any, b: Any, c: Any) -> Tensor:
    """Tells whether at least two of three booleans are true.

    >>> secret.decrypt(hg.tfhe.majority(p, q, hg.tfhe.nand(p, q)))
    array([ True,  True,  True, False])
    """
    return run("majority", _booleans("majority", [a, b, c]))[0]


mux = select


@composite
def half_adder(a: Any, b: Any) -> tuple[Tensor, Tensor]:
    """Returns (sum, carry) of two booleans.

    >>> total, carry = hg.tfhe.half_adder(p, q)
    >>> secret.decrypt(total), secret.decrypt(carry)
    (array([False,  True,  True, False]), array([ True, False, False, False]))
    """
    s, carry = run("half_adder", _booleans("half_adder", [a, b]))
    return s, carry


@composite
def full_adder(a: Any, b: Any, c: Any) -> tuple[Tensor, Tensor]:
    """Returns (sum, carry) of three booleans.

    >>> total, carry = hg.tfhe.full_adder(p, q, hg.tfhe.nand(p, q))
    >>> secret.decrypt(total), secret.decrypt(carry)
    (array([False, False, False,  True]), array([ True,  True,  True, False]))
    """
    s, carry = run("full_adder", _booleans("full_adder", [a, b, c]))
    return s, carry


@composite
def truth_table(operands: Sequence[Any], table: Any) -> Tensor:
    """Returns ``table[i]``, where operand j is bit j of i: any function of 1 to 8 booleans.

    Up to three operands take one to three bootstraps. Raises DtypeError, ParameterError.

    >>> secret.decrypt(hg.tfhe.truth_table([p, q], [0, 0, 1, 0]))  # entry 2: p is false, q is true
    array([False, False,  True, False])
    """
    entries = words_of(table, "bool", "the truth table")
    return run("truth_table", _booleans("truth_table", operands), entries.ravel().tolist())[0]
