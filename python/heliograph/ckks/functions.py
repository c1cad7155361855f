"""Functions on tensors of CKKS. Each is one call of the engine; the functions of `hg` take these tensors too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from heliograph import _core
from heliograph._common.arguments import whole
from heliograph._common.operations import composite
from heliograph._common.tensor import Progress, of_tensors
from heliograph.ckks.keys import EvaluationKeys
from heliograph.ckks.tensor import Tensor


def _of(x: Any, what: str) -> Tensor:
    return of_tensors([x], Tensor, what)[0]


@composite
def multiply(
    a: Any,
    b: Any,
    *,
    relinearize: bool = True,
    rescale: bool = True,
    keys: EvaluationKeys | None = None,
    progress: Progress | None = None,
) -> Tensor:
    """Returns ``a * b``, elementwise. At least one operand is a tensor of CKKS.

    With ``relinearize=False`` the product has degree two. With ``rescale=False`` the product stays at its level, and its
    scale is the product of both scales. A sum of such products is relinearized and rescaled once
    (`hg.ckks.relinearize_rescale`). Raises MissingKeyError, LevelError, ScaleError, ShapeError.

    >>> y = hg.ckks.multiply(x, x, relinearize=False, rescale=False)
    >>> y.degree, y.level == x.level
    (2, True)
    >>> secret.decrypt(hg.ckks.relinearize_rescale(hg.ckks.sum(y))).round(4)
    array([ 1.25,  6.25, 15.25, 28.25])
    """
    if not isinstance(a, Tensor):
        a, b = b, a
    return _of(a, "multiply").multiply(b, relinearize=relinearize, rescale=rescale, keys=keys, progress=progress)


@composite
def relinearize_rescale(x: Tensor, *, keys: EvaluationKeys | None = None, progress: Progress | None = None) -> Tensor:
    """Relinearizes and rescales in one operation, with one rounding. Raises MissingKeyError, and LevelError at level 1.

    >>> y = hg.ckks.sum(hg.ckks.multiply(x, x, relinearize=False, rescale=False))  # a sum of products, finished once
    >>> secret.decrypt(hg.ckks.relinearize_rescale(y)).round(4)
    array([ 1.25,  6.25, 15.25, 28.25])
    """
    return _of(x, "relinearize_rescale").relinearize_rescale(keys=keys, progress=progress)


@composite
def lower(x: Tensor, level: int) -> Tensor:
    """Returns the same values at a lower level, with fewer bytes and faster operations. Raises LevelError if `level` is
    above the level of `x`.

    >>> hg.ckks.lower(x, 1).nbytes < x.nbytes
    True
    """
    return _of(x, "lower").lower(level)


@composite
def rotate(
    x: Tensor,
    steps: int | Sequence[int],
    *,
    keys: EvaluationKeys | None = None,
    compose: bool | int | None = None,
    progress: Progress | None = None,
) -> Tensor:
    """Returns the slots rotated left by `steps`, cyclically over the set's `period`; negative steps rotate right.

    Several steps give a new first axis with one entry for each step. Several steps take little longer than one rotation
    (hoisting). Unused places count as zeros. If their content is unknown, as after ``x - mean``, a plaintext mask clears
    them first, at one level.

    `compose` controls rotations by steps that have no key. Such steps can be composed of keyed rotations, by the fewest key
    switches (`EvaluationKeys.composition`). Each key switch takes as long as a rotation with a key and adds noise, which
    `Tensor.precision` includes. The values are:

    - True: compose, with at most 32 key switches for each step.
    - an integer: compose, with at most that number of key switches.
    - False: do not compose.
    - None: use the setting of ``hg.Server(compose_rotations=)``, which by default does not compose.

    Raises MissingKeyError, which lists the available steps and the cost of a composition; LevelError if no level is left for
    a mask; ParameterError or DtypeError for an invalid `compose`.

    >>> secret.decrypt(hg.ckks.rotate(x[0], 1)).round(4)
    array([1.5, 2.5, 3.5, 0.5])
    >>> hg.ckks.rotate(x, [1, 2]).shape  # two rotations take little longer than one
    (2, 2)
    >>> secret.decrypt(hg.ckks.rotate(x[0], 3, compose=True)).round(4)  # rotates by 1 and by 2
    array([3.5, 0.5, 1.5, 2.5])
    """
    return _of(x, "rotate").rotate(steps, keys=keys, compose=compose, progress=progress)


@composite
def conjugate(x: Tensor, *, keys: EvaluationKeys | None = None, progress: Progress | None = None) -> Tensor:
    """Returns the complex conjugates of the values. Raises MissingKeyError.

    >>> secret.decrypt(hg.ckks.conjugate(server.bind(secret.encrypt([1 + 2j, 2 - 1j, 3 + 1j, 4 - 3j])))).round(4)
    array([1.-2.j, 2.+1.j, 3.-1.j, 4.+3.j])
    """
    return _of(x, "conjugate").conjugate(keys=keys, progress=progress)


@composite
def sum_slots(
    x: Tensor, count: int | None = None, *, keys: EvaluationKeys | None = None, progress: Progress | None = None
) -> Tensor:
    """Returns, in slot i, the sum of slots i to i + count - 1, cyclically.

    `count` is a power of two. By default the sum is over all slots, and every slot holds this sum, as for `hg.sum(x,
    axis="slots")`. The sum needs keys for the rotations `sum_rotations(count)`. Raises MissingKeyError, ShapeError,
    LevelError.

    >>> secret.decrypt(hg.ckks.sum_slots(x)).round(4)
    array([[ 8.,  8.,  8.,  8.],
           [10., 10., 10., 10.]])
    """
    return _of(x, "sum_slots").sum_slots(count, keys=keys, progress=progress)


@composite
def inner_product(
    a: Tensor, b: Any, axis: int = 0, count: int = 1, *, keys: EvaluationKeys | None = None, progress: Progress | None = None
) -> Tensor:
    """Returns the sum of ``a * b`` over a ciphertext axis, then over `count` neighbouring slots, a power of two.

    All products share one relinearization and one rescaling. `b` is a tensor of a's shape or an array of shape (*a.shape,
    slots). With ``count=1`` slots are not summed.

    Raises MissingKeyError, LevelError, ShapeError.

    >>> secret.decrypt(hg.ckks.inner_product(x, x)).round(4)  # slot by slot
    array([ 1.25,  6.25, 15.25, 28.25])
    >>> secret.decrypt(hg.ckks.inner_product(x, x, count=4)).round(3)  # and over the slots
    array([51., 51., 51., 51.])
    """
    return _of(a, "inner_product").inner_product(b, axis, count, keys=keys, progress=progress)


@composite
def polynomial(
    x: Tensor,
    coefficients: Any,
    basis: str = "monomial",
    *,
    keys: EvaluationKeys | None = None,
    guard: bool | None = None,
    progress: Progress | None = None,
) -> Tensor:
    """Evaluates a polynomial of real coefficients, lowest first, in ceil(log2(degree + 1)) levels (`polynomial_depth`).

    In the basis "monomial" the coefficients are those of 1, x, x^2, ... In the basis "chebyshev" the coefficients are those
    of T_0, T_1, ... for values in [-1, 1], as in `numpy.polynomial.chebyshev`; this is far more precise for high degrees. A
    tensor whose bound exceeds [-1, 1] then raises PlaintextRangeError: scale it, or declare `within(x, 1)`. For a declared
    bound, and for a tensor without bounds, the result has a guard: decryption raises OutOfIntervalError if a value was
    outside. ``guard=True`` makes a strong guard, ``guard=False`` none (`exp`). Complex values have no guard.

    Source: baby steps and giant steps (Paterson and Stockmeyer, SIAM J. Comput. 1973; Bossuat et al., ePrint 2020/1203).

    Raises LevelError with the number of levels needed, PlaintextRangeError, DtypeError, ShapeError, ParameterError,
    MissingKeyError.

    >>> secret.decrypt(hg.ckks.polynomial(x[0], [1, 0, 2])).round(4)  # 1 + 2 x^2
    array([ 1.5,  5.5, 13.5, 25.5])
    """
    return _of(x, "polynomial").polynomial(coefficients, basis, keys=keys, guard=guard, progress=progress)


@composite
def bootstrap(
    x: Tensor,
    bound: float | None = None,
    *,
    iterations: int = 1,
    level: int | None = None,
    period: int | None = None,
    keys: EvaluationKeys | None = None,
    progress: Progress | None = None,
) -> Tensor:
    """Returns the same values at the top level, from a tensor at the level `Parameters.bootstrapping_level` or above.

    A bootstrap needs a set with bootstrapping (`parameters(..., bootstrap=True)`) and keys of
    ``evaluation_keys(bootstrap=True)``.

    `bound` is the largest magnitude of a value; a smaller bound gives a smaller error. The default is the tensor's own
    bound, from encryption in this process, from a file, or from `within`. `Tensor.precision` of the result includes the
    error (docs/ckks.md).

    All ciphertexts of a tensor are bootstrapped in one call, which reads each key once; real ciphertexts are packed in
    pairs. With more `iterations`, each iteration bootstraps the error of the previous iteration (Bae, Cheon, Cho, Kim, Kim,
    ePrint 2022/1167). The rounding error at the set's scale remains; "n16-b10-h" has a large scale.

    With `level` the result is at this level, above `Parameters.bootstrapping_level`. A bootstrap to a lower level takes less
    time and memory, and its first call prepares plaintexts for that level.

    `period` declares that the values of each ciphertext repeat with this power of two of slots. The bootstrap then takes
    less time with the same keys. With a key for the rotation by `period`, at most half of the slots, complex values and
    pairs of real ciphertexts take one sine instead of two: ``evaluation_keys(bootstrap=True, rotations=[period])``. Values
    that do not repeat give wrong results, so the result has no trusted `precision`. Noise need not repeat.

    Raises LevelError for a tensor below that level or an impossible `level`, ScaleError for a product that is not rescaled,
    MissingKeyError, and ParameterError for sets without bootstrapping. Raises ParameterError for another `period`, and
    ShapeError for a `period` below the slots if there are unused slots behind the values. Raises PlaintextRangeError if the
    tensor's bound is larger than `bound`, unknown or above 2^20. In that case declare a bound by `within`.

    >>> y = party.bind(owner.encrypt(np.linspace(-1, 1, 1024), level=small.bootstrapping_level))
    >>> y.level, hg.ckks.bootstrap(y).level
    (4, 7)
    >>> hg.ckks.bootstrap(y, level=5).level
    5
    >>> owner.decrypt(hg.ckks.bootstrap(y)).round(3)[:4]
    array([-1.   , -0.998, -0.996, -0.994])
    >>> z = party.bind(owner.encrypt(np.tile(np.linspace(-1, 1, 256), 4), bound=1))
    >>> owner.decrypt(hg.ckks.bootstrap(z, level=5, period=256)).round(3)[254:258]
    array([ 0.992,  1.   , -1.   , -0.992])
    """
    return _of(x, "bootstrap").bootstrap(
        bound, iterations=iterations, level=level, period=period, keys=keys, progress=progress
    )


@composite
def functional_bootstrap(
    x: Tensor, table: Any, *, keys: EvaluationKeys | None = None, progress: Progress | None = None
) -> Tensor:
    """Returns table[m mod p] for each value, an integer m plus noise: a functional bootstrap. p is the table's size.

    The values are real. The table has 2 to 256 real or complex numbers. The result is at the top level, less the levels of a
    polynomial of degree p - 1; none for p = 2 and a real table. The call takes about as long as `bootstrap`.

    A value may differ from an integer by e, up to about 1/4. The result's error is at most 3.3 e^2 times the largest
    distance of two numbers of the table, plus its own noise. If the values are integers up to the tracked noise,
    `Tensor.precision` includes this error. For larger errors e the result is a mean of the table's numbers.

    Odd waves, real tables with table[-m] = -table[m] = table[m + p / 2], make polynomials of half the powers. An odd wave
    may have p = 258 numbers, at the levels of 256 numbers. Its polynomial lacks the highest power. Therefore results for 0
    and p / 2 have an error of at most pi e times the largest number.

    With such tables, comparisons, rounding and sums modulo p are possible on integers, and each call reduces the noise of
    the integers. Source: Alexandru, Kim, Polyakov, ePrint 2024/1623.

    Raises ParameterError for tables of other sizes and for sets without bootstrapping; PlaintextRangeError for a number that
    is not finite or does not fit the result's level; DtypeError for complex values; LevelError if the tensor is below
    `Parameters.bootstrapping_level` or the set leaves too few levels; ScaleError for products that are not rescaled;
    MissingKeyError.

    >>> tiny = hg.ckks.parameters(n=2**11, depth=6, bootstrap=True, insecure=True)
    >>> owner = hg.SecretKey.generate(tiny)
    >>> party = hg.Server(owner.evaluation_keys(bootstrap=True))
    >>> digits = party.bind(owner.encrypt([3.01, 0.02, 1.99, 1.0], pad=True))
    >>> owner.decrypt(hg.ckks.functional_bootstrap(digits, [-1, -1, 1, 1])).round(2)  # 1: at least two
    array([ 1., -1.,  1., -1.])
    """
    return _of(x, "functional_bootstrap").functional_bootstrap(table, keys=keys, progress=progress)


@composite
def within(x: Tensor, bound: float) -> Tensor:
    """Declares that no value exceeds `bound` in magnitude. Returns the same tensor with that bound.

    Tracked bounds assume the worst case of sums and products and may be far larger. If the tracked bound is larger, this
    process no longer proves precision or range of later results (`precision`, ``checked=True``). Later results then depend
    on the declaration: values beyond it give wrong results. Raises DtypeError.

    >>> y = party.bind(owner.encrypt(np.linspace(-1, 1, 1024)))
    >>> y = y * (2 - y * y)  # within 1.1; at its worst 3
    >>> owner.decrypt(hg.ckks.bootstrap(hg.ckks.within(y, 1.1), bound=1.1)).round(3)[:4]
    array([-1.   , -1.002, -1.004, -1.006])
    """
    return _of(x, "within").within(bound)


@composite
def unguarded(x: Tensor) -> Tensor:
    """Returns x without its guards: decryption no longer notices arguments outside their declared intervals.

    Later functions make no guards for intervals that were declared before.

    >>> y = hg.ckks.unguarded(hg.ckks.exp(v, domain=(0, 4), error=1e-4))
    >>> y.guards
    ()
    """
    return _of(x, "unguarded")._unguarded()


def polynomial_depth(degree: int) -> int:
    """Returns the number of levels that a polynomial of a degree takes. Raises DtypeError, ParameterError.

    >>> hg.ckks.polynomial_depth(7)
    3
    """
    if whole(degree, "a degree") < 0:
        raise _core.ParameterError(f"a degree must be at least 0, not {degree}")
    return _core.ckks.polynomial_depth(degree)
