"""CKKS parameter sets: real and complex numbers to a precision, many to a ciphertext."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from heliograph import _core
from heliograph._arrays import complexes, count_of, described, flag, readable_bytes, real, require_alone, set_name
from heliograph._parameters import RingParameters
from heliograph._schemes import told
from heliograph.ckks.scheme import CKKS

if TYPE_CHECKING:
    from heliograph.ckks.keys import SecretKey  # noqa: F401


class Parameters(RingParameters["SecretKey"], core=_core.CkksParameters):
    """A parameter set: ring degree, moduli by level, gadget, scale. Immutable; equal sets are interchangeable.

    >>> params
    <CKKS parameters: N=2^14, log q 256, 4 multiplications, scale 2^43.0, 4 slots, 128-bit, w64>
    >>> params.levels, params.security
    (5, '128-bit')
    """

    _scheme = CKKS

    period = told(
        "period",
        int,
        "Slots that rotations turn: a power of two of slots that repeats through the N/2 places, else all N/2 places.",
    )

    @property
    def room(self) -> float:
        """The largest values that fit the lowest level, before noise.

        >>> params.room > 2.0**30
        True

        Results beyond it do not decrypt.
        """
        return float(self._core.room)

    @property
    def bound(self) -> float:
        """Public bound on the magnitude of inputs that encryption assumes unless a call says its own.

        >>> hg.ckks.parameters(depth=1, precision=20).bound, hg.ckks.parameters(depth=3, bound=100).bound
        (1048576.0, 100.0)

        Without ``parameters(..., bound=)`` it lies 14 bits below the room, but from 2^10 to 2^20 if the room holds it.
        """
        return float(self._core.input_bound)

    levels = told("top_level", int, "The level of a fresh ciphertext; each rescaling takes one, and 1 is the lowest.")

    bootstrapping_level = told(
        "bootstrapping_level", int, "The level that bootstrapping starts at; 0 where the set has none."
    )

    bootstrapping_key_bytes = told(
        "bootstrapping_key_bytes",
        int,
        "Bytes in memory of evaluation keys for bootstrapping and nothing else; half of that in a file; 0 where the set has none.",
    )

    @property
    def depth(self) -> int:
        """Multiplications in sequence that a fresh ciphertext has levels for."""
        return self.levels - 1

    @property
    def depth_between(self) -> int:
        """Multiplications in sequence between one bootstrap and the next; 0 where the set has no bootstrapping."""
        return self.levels - self.bootstrapping_level if self.bootstrapping_level else 0

    def bootstrapping_precision(self, bound: float = 1.0, iterations: int = 1) -> float:
        """Bits after the binary point that are right after a bootstrap of values up to `bound`, with `iterations` as
        `hg.ckks.bootstrap` takes them: what `Tensor.precision` promises of such a tensor at least. Errors are usually some bits smaller.

        The first call for a set makes its keys on the device that computes nothing: about a second at N = 2^16. Raises ParameterError
        for a set without bootstrapping, for a bound outside of 2^-20 to 2^20 and for other than 1 to 4 iterations.

        >>> again = hg.ckks.parameters(n=2**11, depth=3, log_scale=39, bootstrap=True, insecure=True)
        >>> again.bootstrapping_precision() > again.bootstrapping_precision(bound=4) > 10
        True
        """
        if not self.bootstrapping_level:
            raise _core.ParameterError("this set has no bootstrapping: parameters(..., bootstrap=True) finds one that has")
        most = real(bound, "the bound")
        if not 2.0**-20 <= most <= 2.0**20:
            raise _core.ParameterError(f"the bound of a bootstrap lies between 2^-20 and 2^20, not at {described(bound)}")
        return _after_bootstrap(self, most, count_of(iterations, "iterations", 1))

    log_scale = told(
        "spec.log_scale", float, "log2 of the scale of a fresh ciphertext: values are kept in steps of 1/scale."
    )

    def scale(self, level: int) -> float:
        """What operations keep ciphertexts of a level at. Raises LevelError.

        >>> params.scale(params.levels) == x.scale
        True
        """
        return float(self._core.scale(level))

    def ciphertext_bytes(self, degree: int = 1, level: int = 0) -> int:
        """Bytes of one ciphertext in memory at a level (0: the top); a fresh one takes half of that in a file.

        >>> params.ciphertext_bytes(level=1) < params.ciphertext_bytes()
        True
        """
        return int(self._core.ciphertext_bytes(degree, level))

    def _rows(self) -> list[tuple[str, str]]:
        limbs = [self._core.level_limbs(level) for level in (1, self.levels)]
        levels = f"{self.levels}: {self.depth} multiplications in sequence, from {limbs[1]} primes down to {limbs[0]}"
        rows = self._moduli_rows()
        return [
            *rows[:3],
            ("levels", levels),
            *rows[3:],
            (
                "scale",
                f"2^{self.log_scale:.1f}; at the lowest level values up to {_power(self.room)} fit (the room){self._shorter()}",
            ),
            ("inputs", f"encryption takes values up to {_magnitude(self.bound)}, or up to a bound that its call says"),
            ("packing", f"{self.slots:,} real or complex numbers{self._repeats()}"),
            self._security_row(),
            ("publishing", "decrypted values may tell of the key: see SecretKey.decrypt, publish_bits"),
            *self._byte_rows(f", at the lowest level {readable_bytes(self.ciphertext_bytes(1, 1))}"),
            *self._bootstrapping_rows(),
        ]

    def _repeats(self) -> str:
        """Of `explain`: what the other places hold."""
        if self.slots == self.n // 2:
            return ""
        return ", repeated through the ciphertext" if self.period == self.slots else ", zeros behind them"

    def _shorter(self) -> str:
        """Of `explain`: the price of a lowest level that has more primes than `integer_bits=10` takes."""
        limbs, longest = self._core.level_limbs(1), _LONGEST_PRIMES[self.edition]
        if self.bootstrapping_level or math.ceil(self.log_scale + 1.3) + _LEAST_BITS > longest * (limbs - 1):
            return ""
        saved = self.ciphertext_bytes() // self._core.level_limbs(self.levels)
        return (
            f"; integer_bits={_LEAST_BITS} takes a prime less in each level: ciphertexts have {readable_bytes(saved)} less "
            f"({100 / self._core.level_limbs(self.levels):.0f}%, at the lowest level {100 / limbs:.0f}%)"
        )

    def _differs_from(self, other: object) -> str:
        if isinstance(other, Parameters):
            return str(self._core.difference(other._core))
        return super()._differs_from(other)

    def _bootstrapping_rows(self) -> list[tuple[str, str]]:
        """Of `explain`, where the set has bootstrapping."""
        if not self.bootstrapping_level:
            return []
        keys = self.bootstrapping_key_bytes
        return [
            (
                "bootstrapping",
                f"from level {self.bootstrapping_level} back to {self.levels}: {self.depth_between} multiplications, again and "
                f"again; a ciphertext fails with probability 2^{_LOG2_FAILURE + math.log2(self.n):.1f}",
            ),
            ("its precision", self._after()),
            ("its keys", f"{readable_bytes(keys)} in all, in a file {readable_bytes(keys / 2)}"),
        ]

    def _after(self) -> str:
        """Of `explain`: what a bootstrap leaves of values up to 1."""
        known = _PROMISED.get(self.name) if self.slots == self.n // 2 else None
        one, two = known or tuple(self.bootstrapping_precision(iterations=n) for n in (1, 2))
        better = f" ({two:.1f} with iterations=2)" if two > one + 0.5 else ""
        mean = _BOOTSTRAPPING.get(self.name)
        usual = f"; the mean error is near 2^-{mean[1]}{' with iterations=2' if self.name in _TWICE else ''}" if mean else ""
        return f"values up to 1 are right to at least {one:.1f} bits after the point{better}{usual}"

    def _summary(self) -> str:
        again = f" ({self.depth_between} after a bootstrap)" if self.bootstrapping_level else ""
        return (
            f"N=2^{self.n.bit_length() - 1}, log q {self.log_q:.0f}, {self.depth} multiplications{again}, "
            f"scale 2^{self.log_scale:.1f}, {self.slots:,} slots, {self.security}, {self.edition}"
        )


#: log2 of how likely one coefficient leaves what bootstrapping's sine covers: the sum of 32 terms of at most a half, one for
#: each coefficient of the sparse key that is not 0, is beyond 15.5.
_LOG2_FAILURE = 1 - 32 - math.log2(math.factorial(32))

#: The named sets with bootstrapping, the cheapest first, by what it leaves: multiplications, bits after the point of values of at
#: most 1 (the mean over slots; n16-b10-h with two iterations), bits before it that the lowest level has room for.
_BOOTSTRAPPING = {
    "n15-b4": (4, 17, 9),
    "n16-b9": (9, 20, 10),
    "n16-b10-h": (10, 30, 2),
    "n16-b13": (13, 20, 10),
    "n16-b18": (18, 20, 10),
    "n16-b11-c": (11, 24, 10),
    "n16-b13/w32": (13, 15, 29),
    "n16-b11/w32": (11, 26, 13),
}
#: Those whose precision there is with two iterations.
_TWICE = ("n16-b10-h",)
#: `Parameters.bootstrapping_precision` of each, with one iteration and with two: for all slots.
_PROMISED = {
    "n15-b4": (9.1, 14.9),
    "n16-b9": (14.7, 18.2),
    "n16-b10-h": (14.7, 26.0),
    "n16-b13": (14.7, 18.2),
    "n16-b18": (14.5, 18.2),
    "n16-b11-c": (17.4, 18.2),
    "n16-b13/w32": (9.7, 8.7),
    "n16-b11/w32": (19.5, 24.0),
}
#: Its own scales, by edition, and levels before it, of sets by numbers.
_TOP_SCALES, _ENTRY = {"w64": 49.9, "w32": 59.2}, 3


#: Bits of the longest primes, by edition; integer bits of a request that says none.
_LONGEST_PRIMES, _LEAST_BITS = {"w64": 50, "w32": 30}, 10
#: Heliographs whose rules choose a set; the first is the present one.
_VERSIONS = ("0.3", "0.2")


@functools.lru_cache(maxsize=32)
def _after_bootstrap(parameters: Parameters, bound: float, iterations: int) -> float:
    """`Parameters.bootstrapping_precision`: the bound of a bootstrap on the null device, of two items, which go as a pair."""
    secret, keys = _trial(parameters)
    values = np.full((2, parameters.slots), bound, dtype=np.complex128)
    x = secret.encrypt(values, False, parameters.bootstrapping_level, None, (-bound, bound))
    return max(0.0, float(_core.ckks_bootstrap(x, keys, bound, None, iterations).precision))


@functools.lru_cache(maxsize=1)
def _trial(parameters: Parameters) -> tuple[Any, Any]:
    """A key and its keys of bootstrapping, on the device that computes nothing."""
    secret = _core.CkksSecretKey.generate(parameters._core.on_device("null"))
    return secret, secret.evaluation_keys(True, [], False, None, True)


def _power(value: float) -> str:
    """The power of two at most `value`."""
    return f"2^{math.floor(math.log2(value))}"


def _magnitude(value: float) -> str:
    """A bound as a number, or as a power of two if it is a long one."""
    return f"2^{math.log2(value):.4g}" if value >= 1 << 14 else f"{value:,.6g}"


def parameters(
    name: str | None = None,
    *,
    depth: int | None = None,
    precision: int | None = None,
    integer_bits: int | None = None,
    bound: float | None = None,
    slots: int = 0,
    repeat: bool = True,
    like: Any = None,
    n: int | None = None,
    levels: int | None = None,
    log_scale: float | None = None,
    base_bits: int | None = None,
    special: int | None = None,
    edition: str = "w64",
    bootstrap: bool = False,
    insecure: bool = False,
    version: str | None = None,
) -> Parameters:
    """A CKKS parameter set, in one of three ways.

    - By name: ``parameters("n16-l24")``; ``/w32`` after it names the 32-bit edition.
    - By need: ``parameters(depth=10, precision=30)``: the smallest 128-bit set for `depth` multiplications in sequence, with
      results right to `precision` bits (30) after the binary point and at least `slots` slots.
    - By numbers: ``parameters(n=2**14, levels=6, log_scale=40, base_bits=50, special=2)``: levels of `log_scale` bits above a
      base of `base_bits`, `special` primes for key switching.

    With ``bootstrap=True`` a set whose ciphertexts `hg.ckks.bootstrap` brings back to the top, for `depth` multiplications in
    sequence between one and the next, without end: by need, a named one (`precision` 20 and `integer_bits` 9 unless said; above 20
    with two iterations and 2 integer bits; here `precision` is that of the mean error of values up to 1, where the largest of many
    is some 3 to 4 bits worse, and `Parameters.bootstrapping_precision` bounds it); by numbers, of `n`, `depth` and `log_scale`. With few `slots`, a power of two,
    bootstraps are faster: complex values and pairs of real tensors take what one of real ones does.

    Room and inputs:

    - Results up to `Parameters.room` fit the lowest level. A set by need has the most room up to 2^41 that its N, primes and
      digits hold. Below a `precision` of 22 and a room of 2^26 each level has a prime more, unless N would grow. From 22 on and below
      2^30 it has other digits: switching keys are up to twice as large, ciphertexts are not.
    - `integer_bits`: the room is 2^`integer_bits` at least, and no prime is added to have more.
    - `bound`: encryption takes inputs up to this magnitude unless a call says its own bound. It is public.
    - `like`: clear values, as an array. The bound is the next power of two above twice their largest magnitude, the slots are as
      many as their last axis has, unless said. The bound is public, and so are these two numbers about the values.
    - `repeat`: a power of two of `slots` repeats through the N/2 places, and rotations turn the slots alone. With
      ``repeat=False`` zeros follow the values. Then all N/2 places turn, small vectors have up to 4.5 bits more room, and
      decryption sees by the zeros whether a result left the room.
    - `version`: ``"0.2"`` gives the numbers that Heliograph 0.2 chose for a need, ``"0.3"`` the present ones. Sets of different
      numbers do not mix.

    Raises ParameterError if no such set exists, SecurityError below 128 bits without ``insecure=True``.

    >>> hg.ckks.parameters("n14-l8").levels
    8
    >>> hg.ckks.parameters(depth=3, precision=30, slots=1000).n
    16384
    >>> hg.ckks.parameters(n=2**14, levels=6, log_scale=40, base_bits=50, special=2).security
    '128-bit'
    >>> hg.ckks.parameters(depth=12, precision=20, bootstrap=True)  # doctest: +ELLIPSIS
    <CKKS parameters n16-b13: N=2^16, log q 1194, 16 multiplications (13 after a bootstrap), ..., 128-bit, w64>
    >>> hg.ckks.parameters(n=2**11, depth=3, log_scale=39, bootstrap=True, insecure=True).bootstrapping_level
    4
    >>> hg.ckks.parameters(depth=9, bootstrap=True, slots=512).period
    512
    >>> hg.ckks.parameters(depth=2, slots=4).period, hg.ckks.parameters(depth=2, slots=4, repeat=False).period
    (4, 4096)
    >>> measured = hg.ckks.parameters(depth=2, like=[171.3, 180.0, 165.2])
    >>> measured.bound, measured.slots
    (512.0, 3)
    >>> old = hg.ckks.parameters(depth=1, precision=20, version="0.2")
    >>> old.room < 2**12, hg.ckks.parameters(depth=1, precision=20).room > 2**40
    (True, True)
    """
    insecure, bootstrap = flag(insecure, "insecure"), flag(bootstrap, "bootstrap")
    depth, n, levels = (
        None if count is None else count_of(count, label)
        for label, count in (("depth", depth), ("n", n), ("levels", levels))
    )
    of_values = {"precision": precision is not None, "integer_bits": integer_bits is not None}
    of_gadget = {"base_bits": base_bits is not None, "special": special is not None}
    of_levels = {"log_scale": log_scale is not None, **of_gadget}
    precision = count_of((20 if bootstrap else 30) if precision is None else precision, "precision")
    integer_bits = None if integer_bits is None else count_of(integer_bits, "integer_bits")
    repeat, version = flag(repeat, "repeat"), _version(version)
    slots, base_bits = count_of(slots, "slots"), count_of(50 if base_bits is None else base_bits, "base_bits")
    special, log_scale = count_of(1 if special is None else special, "special"), 40 if log_scale is None else log_scale
    if not isinstance(log_scale, (int, float, np.integer, np.floating)) or not 1 <= log_scale <= 1024:
        raise _core.ParameterError(f"log_scale is a number of bits, not {described(log_scale)}")
    numbers = {"n": n is not None, "levels": levels is not None}
    limit, width = _inputs(bound, like)
    if name is not None:
        name = set_name(
            name, edition, **numbers, depth=depth is not None, slots=slots, bootstrap=bootstrap, repeat=not repeat
        )
        spec = _core.ckks_named_spec(name, insecure)
        return _of(spec, width, limit)
    slots = slots or width
    if bootstrap:
        if depth is None:
            raise _core.ParameterError("with bootstrap=True say a depth: multiplications between one bootstrap and the next")
        require_alone("a set with bootstrapping", levels=levels is not None, **of_gadget)
        if n is not None:
            require_alone("a set with bootstrapping by n", **of_values)
            spec = _core.ckks_make_bootstrapping_spec(
                n, depth, float(log_scale), _TOP_SCALES.get(edition, 49.9), _ENTRY, edition, insecure
            )
        else:
            require_alone("a set with bootstrapping by depth and precision", **of_levels)
            set_name("", edition)  # which refuses other editions
            bits = max(9, math.ceil(math.log2(limit)) if limit else 0) if integer_bits is None else integer_bits
            spec = _core.ckks_named_spec(_bootstrapping_name(depth, precision, bits, edition), insecure)
        spec.slots, spec.repeat = slots, repeat
        return _of(spec, width, limit)
    if n is not None and levels is not None:
        require_alone("a set by n and levels", depth=depth is not None)
        spec = _core.ckks_make_spec(n, levels, float(log_scale), base_bits, special, edition, slots, insecure)
        spec.repeat = repeat
        return _of(spec, width, limit)
    if depth is None:
        raise _core.ParameterError("say a name, or depth and precision, or n and levels")
    require_alone("a set by depth and precision", **numbers)
    return _of(_core.ckks_choose(depth, precision, integer_bits, slots, edition, repeat, limit, version), width, limit)


def _version(version: Any) -> str:
    """Whose rules choose a set; empty for the present ones."""
    if version is None:
        return ""
    if not isinstance(version, str) or version not in _VERSIONS:
        known = " and ".join(f'"{v}"' for v in sorted(_VERSIONS))
        raise _core.ParameterError(f"version must be one of {known}, whose numbers are known, not {described(version)}")
    return version


def _inputs(bound: Any, like: Any) -> tuple[float, int]:
    """Bound on inputs, 0 for the rule of the room; and the values in a ciphertext, 0 without `like`."""
    limit = 0.0
    if bound is not None:
        limit = real(bound, "the bound on inputs")
        if not 0 < limit < math.inf:
            raise _core.ParameterError(f"the bound on inputs must be a finite number above 0, not {described(bound)}")
    if like is None:
        return limit, 0
    values, _ = complexes(like, "the values of `like`")
    if values.ndim == 0 or values.size == 0:
        raise _core.ShapeError(f"`like` must have at least one axis and one value, not shape {values.shape}")
    largest = float(np.abs(values).max())
    if limit == 0:
        limit = 2.0 ** math.ceil(math.log2(2 * largest)) if largest > 2.0**-1000 else 1.0
    elif largest > limit:
        raise _core.ParameterError(f"the values of `like` reach {largest:g}, beyond the bound of {limit:g} on inputs")
    return limit, values.shape[-1]


def _of(spec: Any, width: int, bound: float) -> Parameters:
    """The set of these numbers and of a bound on inputs. Raises ParameterError if it has too few slots."""
    if spec.slots > spec.n // 2:
        raise _core.ParameterError(f"N=2^{spec.n.bit_length() - 1} has {spec.n // 2:,} slots, not {spec.slots:,}")
    if width > (spec.slots or spec.n // 2):
        raise _core.ParameterError(f"this set has {spec.slots or spec.n // 2:,} slots, and `like` {width:,} values in a row")
    if bound:
        spec.bound = bound
    return Parameters(_core.CkksParameters(spec))


def _bootstrapping_name(depth: int, precision: int, integer_bits: int, edition: str) -> str:
    """The cheapest named set with bootstrapping for a need: of w32 where that is asked, or no other is as precise. Raises
    ParameterError telling what there is.
    """
    for name, (between, after, before) in _BOOTSTRAPPING.items():
        if edition == "w32" and not name.endswith("/w32"):
            continue
        if depth <= between and precision <= after and integer_bits <= before:
            return name
    there = ", ".join(f"{name} ({between}; {after}; {before})" for name, (between, after, before) in _BOOTSTRAPPING.items())
    raise _core.ParameterError(
        f"no named set with bootstrapping has {depth} multiplications after it, a precision of {precision} bits and {integer_bits} "
        f"bits before the point; there are {there}, and others by n, depth and log_scale"
    )


def named() -> list[str]:
    """The named sets: by log2 N and, behind l, the primes of the top level or, behind b, the multiplications after a bootstrap.

    >>> hg.ckks.named()
    ['n13-l4', 'n14-l8', 'n15-l20', 'n16-l24', 'n16-l28', 'n15-b4', 'n16-b9', 'n16-b10-h', 'n16-b13', 'n16-b18', 'n16-b11-c', 'n16-b11/w32', 'n16-b13/w32']
    """
    return _core.ckks_named_specs()
