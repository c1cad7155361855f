"""CKKS parameter sets: real and complex numbers to a precision, many to a ciphertext."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from heliograph import _core
from heliograph._arrays import count_of, described, flag, readable_bytes, require_alone, set_name
from heliograph._parameters import RingParameters
from heliograph._schemes import told
from heliograph.ckks.scheme import CKKS

if TYPE_CHECKING:
    from heliograph.ckks.keys import SecretKey  # noqa: F401


class Parameters(RingParameters["SecretKey"], core=_core.CkksParameters):
    """A parameter set: ring degree, moduli by level, gadget, scale. Immutable; equal sets are interchangeable.

    >>> params
    <CKKS parameters: N=2^14, log q 234, 4 multiplications, scale 2^43.0, 4 slots, 128-bit, w64>
    >>> params.levels, params.security
    (5, '128-bit')
    """

    _scheme = CKKS

    @property
    def period(self) -> int:
        """What rotations turn: the slots where they are a power of two, else all N/2 places."""
        return self.slots if self.slots & (self.slots - 1) == 0 else self.n // 2

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
        room = _log2_product(self._core, 1) - 1 - math.log2(self.scale(1))
        levels = f"{self.levels}: {self.depth} multiplications in sequence, from {limbs[1]} primes down to {limbs[0]}"
        rows = self._moduli_rows()
        return [
            *rows[:3],
            ("levels", levels),
            *rows[3:],
            ("scale", f"2^{self.log_scale:.1f}; at the lowest level values up to 2^{room:.0f} fit"),
            ("packing", f"{self.slots:,} real or complex numbers"),
            self._security_row(),
            ("publishing", "decrypted values may tell of the key: see SecretKey.decrypt, publish_bits"),
            *self._byte_rows(f", at the lowest level {readable_bytes(self.ciphertext_bytes(1, 1))}"),
            *self._bootstrapping_rows(),
        ]

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
            ("its keys", f"{readable_bytes(keys)} in all, in a file {readable_bytes(keys / 2)}"),
        ]

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
#: Its own scales, by edition, and levels before it, of sets by numbers.
_TOP_SCALES, _ENTRY = {"w64": 49.9, "w32": 59.2}, 3


def _log2_product(core: _core.CkksParameters, level: int) -> float:
    """log2 of a level's modulus."""
    s = core.spec
    primes = [s.chain[i] for i in s.levels[level - 1]] if s.levels else s.chain[:level]
    return sum(math.log2(q) for q in primes)


def parameters(
    name: str | None = None,
    *,
    depth: int | None = None,
    precision: int | None = None,
    integer_bits: int | None = None,
    slots: int = 0,
    n: int | None = None,
    levels: int | None = None,
    log_scale: float | None = None,
    base_bits: int | None = None,
    special: int | None = None,
    edition: str = "w64",
    bootstrap: bool = False,
    insecure: bool = False,
) -> Parameters:
    """A CKKS parameter set, in one of three ways.

    - By name: ``parameters("n16-l24")``; ``/w32`` after it names the 32-bit edition.
    - By need: ``parameters(depth=10, precision=30)``: the smallest 128-bit set for `depth` multiplications in sequence of
      values below 2^`integer_bits` (10) with results right to `precision` bits (30) after the binary point, with at least `slots`
      slots.
    - By numbers: ``parameters(n=2**14, levels=6, log_scale=40, base_bits=50, special=2)``: levels of `log_scale` bits above a
      base of `base_bits`, `special` primes for key switching.

    With ``bootstrap=True`` a set whose ciphertexts `hg.ckks.bootstrap` brings back to the top, for `depth` multiplications in
    sequence between one and the next, without end: by need, a named one (`precision` 20 and `integer_bits` 9 unless said; above 20
    with two iterations and 2 integer bits; here `precision` is that of the mean error of values up to 1, where the largest of many
    is some 3 to 4 bits worse, and a tensor's own `precision` bounds it); by numbers, of `n`, `depth` and `log_scale`. With few `slots`, a power of two,
    bootstraps are faster: complex values and pairs of real tensors take what one of real ones does.

    Raises ParameterError where no such set exists, SecurityError below 128 bits without ``insecure=True``.

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
    integer_bits = count_of((9 if bootstrap else 10) if integer_bits is None else integer_bits, "integer_bits")
    slots, base_bits = count_of(slots, "slots"), count_of(50 if base_bits is None else base_bits, "base_bits")
    special, log_scale = count_of(1 if special is None else special, "special"), 40 if log_scale is None else log_scale
    if not isinstance(log_scale, (int, float, np.integer, np.floating)) or not 1 <= log_scale <= 1024:
        raise _core.ParameterError(f"log_scale is a number of bits, not {described(log_scale)}")
    numbers = {"n": n is not None, "levels": levels is not None}
    if name is not None:
        name = set_name(name, edition, **numbers, depth=depth is not None, slots=slots, bootstrap=bootstrap)
        return Parameters(_core.CkksParameters(_core.ckks_named_spec(name, insecure)))
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
            spec = _core.ckks_named_spec(_bootstrapping_name(depth, precision, integer_bits, edition), insecure)
        if slots > spec.n // 2:
            raise _core.ParameterError(f"N=2^{spec.n.bit_length() - 1} has {spec.n // 2:,} slots, not {slots:,}")
        spec.slots = slots
        return Parameters(_core.CkksParameters(spec))
    if n is not None and levels is not None:
        require_alone("a set by n and levels", depth=depth is not None)
        spec = _core.ckks_make_spec(n, levels, float(log_scale), base_bits, special, edition, slots, insecure)
        return Parameters(_core.CkksParameters(spec))
    if depth is None:
        raise _core.ParameterError("say a name, or depth and precision, or n and levels")
    require_alone("a set by depth and precision", **numbers)
    return Parameters(_core.CkksParameters(_core.ckks_choose(depth, precision, integer_bits, slots, edition)))


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
