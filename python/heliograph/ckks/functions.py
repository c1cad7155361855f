"""Functions on encrypted real and complex numbers. Each is one call of the engine; `hg`'s own functions take them too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from heliograph import _core
from heliograph._arrays import whole
from heliograph._shapes import Progress, of_tensors
from heliograph.ckks.keys import EvaluationKeys
from heliograph.ckks.tensor import Tensor


def _of(x: Any, what: str) -> Tensor:
    return of_tensors([x], Tensor, what)[0]


def multiply(
    a: Any,
    b: Any,
    *,
    relinearize: bool = True,
    rescale: bool = True,
    keys: EvaluationKeys | None = None,
    progress: Progress | None = None,
) -> Tensor:
    """a * b. Without `relinearize` it is of degree two, without `rescale` at the product of both scales and on the same level:
    sums of such products are relinearized and rescaled once (`hg.ckks.relinearize_rescale`). Raises MissingKeyError,
    LevelError, ScaleError, ShapeError.

    >>> y = hg.ckks.multiply(x, x, relinearize=False, rescale=False)
    >>> y.degree, y.level == x.level
    (2, True)
    >>> secret.decrypt(hg.ckks.relinearize_rescale(hg.ckks.sum(y))).round(4)
    array([ 1.25,  6.25, 15.25, 28.25])
    """
    if not isinstance(a, Tensor):
        a, b = b, a
    return _of(a, "multiply").multiply(b, relinearize=relinearize, rescale=rescale, keys=keys, progress=progress)


def relinearize_rescale(x: Tensor, *, keys: EvaluationKeys | None = None, progress: Progress | None = None) -> Tensor:
    """Both in one, with one rounding. Raises MissingKeyError, LevelError at level 1.

    >>> y = hg.ckks.sum(hg.ckks.multiply(x, x, relinearize=False, rescale=False))  # a sum of products, finished once
    >>> secret.decrypt(hg.ckks.relinearize_rescale(y)).round(4)
    array([ 1.25,  6.25, 15.25, 28.25])
    """
    return _of(x, "relinearize_rescale").relinearize_rescale(keys=keys, progress=progress)


def lower(x: Tensor, level: int) -> Tensor:
    """The same values at a lower level: fewer bytes, faster operations. Raises LevelError for a higher one.

    >>> hg.ckks.lower(x, 1).nbytes < x.nbytes
    True
    """
    return _of(x, "lower").lower(level)


def rotate(
    x: Tensor,
    steps: int | Sequence[int],
    *,
    keys: EvaluationKeys | None = None,
    compose: bool | int | None = None,
    progress: Progress | None = None,
) -> Tensor:
    """Slots turned left by `steps` (right where negative), cyclically over the set's `period`. Several steps give a new first
    axis, one entry each, for little more than the price of one (hoisting). Behind fewer values than places come zeros; something
    unknown there (in x less its mean) is hidden first, at a level.

    `compose`: True makes steps that have no key from those that have one, by the fewest key switches
    (`EvaluationKeys.composition`), at most 32 for each step, a number: at most so many; False makes none. None: as the tensor's `Server`
    was told (``compose_rotations=``), which is none unless it was. Each key switch takes as long as a rotation by a key and adds noise,
    which `Tensor.precision` counts.

    Raises MissingKeyError naming the steps there are keys for, and what a composition takes; LevelError where there is no level to hide
    what is unknown; ParameterError, DtypeError for another `compose`.

    >>> secret.decrypt(hg.ckks.rotate(x[0], 1)).round(4)
    array([1.5, 2.5, 3.5, 0.5])
    >>> hg.ckks.rotate(x, [1, 2]).shape  # several for little more than the price of one
    (2, 2)
    >>> secret.decrypt(hg.ckks.rotate(x[0], 3, compose=True)).round(4)  # by the keys of 1 and 2
    array([3.5, 0.5, 1.5, 2.5])
    """
    return _of(x, "rotate").rotate(steps, keys=keys, compose=compose, progress=progress)


def conjugate(x: Tensor, *, keys: EvaluationKeys | None = None, progress: Progress | None = None) -> Tensor:
    """The conjugates of complex values. Raises MissingKeyError.

    >>> secret.decrypt(hg.ckks.conjugate(server.bind(secret.encrypt([1 + 2j, 2 - 1j, 3 + 1j, 4 - 3j])))).round(4)
    array([1.-2.j, 2.+1.j, 3.-1.j, 4.+3.j])
    """
    return _of(x, "conjugate").conjugate(keys=keys, progress=progress)


def sum_slots(
    x: Tensor, count: int | None = None, *, keys: EvaluationKeys | None = None, progress: Progress | None = None
) -> Tensor:
    """Slot i gets the sum of slots i to i + count - 1, cyclically; `count` is a power of two, by default all: then every slot
    holds the sum of the values, as `hg.sum(x, axis="slots")`. Needs the rotations `sum_rotations(count)`. Raises MissingKeyError,
    ShapeError, LevelError.

    >>> secret.decrypt(hg.ckks.sum_slots(x)).round(4)
    array([[ 8.,  8.,  8.,  8.],
           [10., 10., 10., 10.]])
    """
    return _of(x, "sum_slots").sum_slots(count, keys=keys, progress=progress)


def inner_product(
    a: Tensor, b: Any, axis: int = 0, count: int = 1, *, keys: EvaluationKeys | None = None, progress: Progress | None = None
) -> Tensor:
    """The sum over a ciphertext axis of a * b, then over `count` neighbouring slots (a power of two; 1: none): one
    relinearization and one rescaling for all products. b is a tensor of a's shape, or an array of shape (*a.shape, slots).

    Raises MissingKeyError, LevelError, ShapeError.

    >>> secret.decrypt(hg.ckks.inner_product(x, x)).round(4)  # slot by slot
    array([ 1.25,  6.25, 15.25, 28.25])
    >>> secret.decrypt(hg.ckks.inner_product(x, x, count=4)).round(3)  # and over the slots
    array([51., 51., 51., 51.])
    """
    return _of(a, "inner_product").inner_product(b, axis, count, keys=keys, progress=progress)


def polynomial(
    x: Tensor,
    coefficients: Any,
    basis: str = "monomial",
    *,
    keys: EvaluationKeys | None = None,
    progress: Progress | None = None,
) -> Tensor:
    """p(x) of real coefficients, lowest first, in ceil(log2(degree + 1)) levels (`polynomial_depth`).

    Basis "monomial": coefficients of 1, x, x^2, ...; "chebyshev": of T_0, T_1, ... for values in [-1, 1], as
    `numpy.polynomial.chebyshev` has them, and of higher degrees far more precise. A tensor whose bound leaves that interval is refused:
    PlaintextRangeError (scale it, or say `within(x, 1)`). Baby steps and giant steps (Paterson and Stockmeyer; Bossuat et al., ePrint 2020/1203).
    Raises LevelError telling how many levels it takes, DtypeError, ShapeError, ParameterError, MissingKeyError.

    >>> secret.decrypt(hg.ckks.polynomial(x[0], [1, 0, 2])).round(4)  # 1 + 2 x^2
    array([ 1.5,  5.5, 13.5, 25.5])
    """
    return _of(x, "polynomial").polynomial(coefficients, basis, keys=keys, progress=progress)


def bootstrap(
    x: Tensor,
    bound: float | None = None,
    *,
    iterations: int = 1,
    keys: EvaluationKeys | None = None,
    progress: Progress | None = None,
) -> Tensor:
    """The same values at the top level again, from the level `Parameters.bootstrapping_level` or any above. It needs a set with
    bootstrapping (`parameters(..., bootstrap=True)`) and keys of ``evaluation_keys(bootstrap=True)``.

    `bound`: no value is larger in magnitude; the smaller the bound, the smaller the error. Default: the tensor's own bound, by what this
    process encrypted, by what files say, or by `within`. All of a tensor is one call: items share each key that is read, real ones go in pairs. What it costs in precision,
    `Tensor.precision` tells (docs/ckks.md). With more `iterations` each bootstraps what the one before left out, down to the
    rounding at the set's scale ("n16-b10-h" has a long one).

    Raises LevelError below that level, PlaintextRangeError if the tensor's bound is larger than `bound`, unknown or above 2^20 (say
    `within`), ScaleError for a product that nobody rescaled, MissingKeyError, ParameterError for sets without bootstrapping.

    >>> y = party.bind(owner.encrypt(np.linspace(-1, 1, 1024), level=small.bootstrapping_level))
    >>> y.level, hg.ckks.bootstrap(y).level
    (4, 7)
    >>> owner.decrypt(hg.ckks.bootstrap(y)).round(3)[:4]
    array([-1.   , -0.998, -0.996, -0.994])
    """
    return _of(x, "bootstrap").bootstrap(bound, iterations=iterations, keys=keys, progress=progress)


def lookup(x: Tensor, table: Any, *, keys: EvaluationKeys | None = None, progress: Progress | None = None) -> Tensor:
    """table[m] of each value, which is a whole number m up to noise, modulo the table's size p: at the top level again, as
    `bootstrap`, which takes about as long, less the levels of a polynomial of degree p - 1, none where p is 2 and the table real.
    Its sizes are 2 to 64, its numbers real or complex, the values real.

    Values may be off by a part e of 1, up to about a quarter: the result is by at most 3.3 e^2 times the largest distance of two
    numbers of the table, and by its own noise. `Tensor.precision` tells of both as if values were whole numbers but for the noise
    that it knows of. However far off values are, the result is a mean of the table's numbers. So comparisons, rounding and sums
    modulo p exist for whole numbers, whose noise each such call takes away.

    Raises ParameterError for tables of other sizes and for sets without bootstrapping, PlaintextRangeError where a number is not
    finite or does not fit the result's level, DtypeError for complex values, LevelError where the tensor is below
    `Parameters.bootstrapping_level` or the set leaves too few levels, ScaleError for products that were not rescaled,
    MissingKeyError.

    >>> tiny = hg.ckks.parameters(n=2**11, depth=6, bootstrap=True, insecure=True)
    >>> owner = hg.SecretKey.generate(tiny)
    >>> party = hg.Server(owner.evaluation_keys(bootstrap=True))
    >>> digits = party.bind(owner.encrypt([3.01, 0.02, 1.99, 1.0], pad=True))
    >>> owner.decrypt(hg.ckks.lookup(digits, [-1, -1, 1, 1])).round(2)  # 1: at least two
    array([ 1., -1.,  1., -1.])
    """
    return _of(x, "lookup").lookup(table, keys=keys, progress=progress)


def within(x: Tensor, bound: float) -> Tensor:
    """The same tensor, of which you know that no value is larger than `bound` in magnitude. Tracked bounds take sums and products at their
    worst and may be far larger. If they are, this process vouches for neither precision nor range from here on (`precision`, ``checked=True``),
    and other results rest on your word: values beyond it make wrong results.

    >>> y = party.bind(owner.encrypt(np.linspace(-1, 1, 1024)))
    >>> y = y * (2 - y * y)  # within 1.1; at its worst 3
    >>> owner.decrypt(hg.ckks.bootstrap(hg.ckks.within(y, 1.1), bound=1.1)).round(3)[:4]
    array([-1.   , -1.002, -1.004, -1.006])
    """
    return _of(x, "within").within(bound)


def polynomial_depth(degree: int) -> int:
    """Levels that a polynomial of a degree takes.

    >>> hg.ckks.polynomial_depth(7)
    3
    """
    if whole(degree, "a degree") < 0:
        raise _core.ParameterError(f"a degree is at least 0, not {degree}")
    return _core.ckks_polynomial_depth(degree)
