"""Look-ups in tables of up to 65,536 entries give NumPy's values and take the stated number of bootstraps."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import heliograph as hg
from heliograph import _core
from heliograph.programs import forecast as forecasting
from heliograph.tfhe import tables
from tfhe_rig import Party, party

EVERY = np.arange(1 << 16)
INDEX = np.array([0, 255, 256, 12_344, 12_345, 65_535], dtype=np.uint16)
TABLES: dict[str, Any] = {
    "threshold": EVERY >= 12_345,
    "of the lower byte": (EVERY % 256 * 3).astype(np.uint16),
    "of the upper byte": (EVERY // 256 * 5).astype(np.int16),
    "one value": np.full(1 << 16, 40_000, dtype=np.uint16),
    "four rows": np.repeat(np.random.default_rng(1).integers(0, 256, (4, 256)), 64, axis=0).ravel().astype(np.uint8),
}


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Returns a list with the bootstraps per element of each run, for the default set."""
    counts: list[int] = []
    run, parameters = tables.run, hg.tfhe.parameters()

    def counting(name: str, operands: Any, arguments: Any = (), **options: Any) -> Any:
        kinds = [x._name for x in operands]
        bootstraps, _ = parameters.cost(name, *kinds, arguments=arguments, dtype=options.get("dtype") or None, goal="fewest")
        counts.append(bootstraps)
        return run(name, operands, arguments, **options)

    monkeypatch.setattr(tables, "run", counting)
    return counts


@pytest.mark.parametrize("encoding", ["digits", "bits"])
@pytest.mark.parametrize("name", TABLES)
def test_values(name: str, encoding: str) -> None:
    """Look-ups are right at the boundaries of the table's rows, for results of any dtype and shape."""
    p, table = party(encoding), TABLES[name]
    p.check(hg.tfhe.look_up(p.tensor(INDEX.reshape(2, 3)), table), table[INDEX.reshape(2, 3)])


def test_signed_and_odd_widths() -> None:
    """Signed indices are ordered like unsigned values; 12-bit indices have 4,096 entries."""
    p, table = party(), (EVERY // 256).astype(np.uint8)
    values = np.array([-1, 0, -32_768, 300], dtype=np.int16)
    p.check(hg.tfhe.look_up(p.tensor(values), table), table[values.view(np.uint16)])
    p.check(hg.tfhe.look_up(p.tensor(np.array([4_095, 17, 256]), "uint12"), table[:4_096] + 1), np.uint8([16, 1, 2]))
    wide = hg.tfhe.look_up(p.tensor(INDEX), table, "uint24")
    np.testing.assert_array_equal(p.secret.decrypt(wide), table[INDEX])


def test_counts_of_bootstraps(counted: list[int]) -> None:
    """Counts of bootstraps are as in the docstring. A table with few distinct rows takes few bootstraps, whichever byte
    selects these rows.
    """
    p = party()
    x = p.tensor(INDEX[:1])
    for table, asked in ((TABLES["threshold"], 69), (np.sqrt(EVERY).astype(np.uint8), 6_050)):
        counted.clear()
        hg.forecast(lambda x, table=table: hg.tfhe.look_up(x, table), x)
        assert sum(counted) == asked
        assert f"{asked:,} " in " ".join((hg.tfhe.look_up.__doc__ or "").split())
        dtype = np.asarray(table).dtype
        assert p.parameters.cost("look_up", "uint16", arguments=table, dtype=dtype, goal="fewest") == (asked, 28)
    for name, few in (("of the lower byte", 100), ("of the upper byte", 100), ("one value", 0)):
        counted.clear()
        hg.forecast(lambda x, name=name: hg.tfhe.look_up(x, TABLES[name]) + 0, x)
        assert sum(counted) <= few


def test_progress_and_errors() -> None:
    """Progress rises to 1. A wrong number of entries is refused, and so are widths beyond 16 bits."""
    p = party()
    x = p.tensor(INDEX[:1])
    for name in ("four rows", "threshold", "one value"):
        shares: list[float] = []
        hg.tfhe.look_up(x, TABLES[name], progress=shares.append)
        assert shares == sorted(shares)
        assert 0 < shares[0] <= shares[-1] == 1
    with pytest.raises(hg.ParameterError, match="65,536 entries, one for each value, not 256"):
        hg.tfhe.look_up(x, TABLES["four rows"][:256])
    with pytest.raises(hg.DtypeError, match="at most 16 bits, not uint32"):
        hg.tfhe.look_up(x.astype("uint32"), TABLES["four rows"])


def test_look_ups_need_evaluation_keys() -> None:
    """Look-ups are refused without evaluation keys."""
    p: Party = party()
    with pytest.raises(hg.MissingKeyError):
        hg.tfhe.look_up(p.secret.encrypt(INDEX), TABLES["threshold"])


def test_costs_without_a_table_are_the_worst_case() -> None:
    """If no table is given, costs are those of a random table, which is the worst case. Signed indices and odd widths have
    costs, too.
    """
    p = hg.tfhe.parameters()
    assert p.cost("look_up", "uint16", dtype="uint8", goal="fewest") == (40_463, 28)
    assert "40,463 for random bytes" in " ".join((hg.tfhe.look_up.__doc__ or "").split())
    assert (
        p.cost("look_up", "int16", dtype="uint8") >= p.cost("look_up", "int12", dtype="uint8") > p.cost("look_up", "uint8")
    )
    assert p.cost("look_up", "uint8") >= p.cost("look_up", "uint8", arguments=range(256), dtype="uint8")
    assert p.cost("look_up", "uint16", arguments=np.full(1 << 16, 7), dtype="uint8")[0] < 100
    for index, table, error in (
        ("uint16", [1, 2], hg.ParameterError),
        ("uint8", [1, 2], hg.ParameterError),
        ("uint32", (), hg.DtypeError),
        ("uint16", np.full(1 << 16, 256), hg.PlaintextRangeError),
    ):
        with pytest.raises(error):
            p.cost("look_up", index, arguments=table, dtype="uint8")


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulates a device that takes 100 seconds per layer of bootstraps."""
    monkeypatch.setattr(forecasting, "rates_of", lambda _: forecasting._Bootstraps(100.0, 1e-9))


def test_long_calls_are_announced(slow: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long call gives one warning with its expected time before it begins. If the warning is raised as an error, the call
    does not run.

    """
    p = party()
    x = p.tensor(INDEX[:1])
    computed: list[str] = []
    compute = _core.tfhe.compute

    def counting(keys: Any, name: str, *rest: Any) -> Any:
        computed.append(name)
        return compute(keys, name, *rest)

    table = np.random.default_rng(1).integers(0, 256, 1 << 16).astype(np.uint8)
    with warnings.catch_warnings():
        warnings.simplefilter("error", hg.LongCallWarning)
        with pytest.raises(
            hg.LongCallWarning, match=r"look_up of \(1,\) elements in 65,536 entries is forecast to take \d+ .*Ctrl-C"
        ):
            hg.tfhe.look_up(x, table)
        many = x.broadcast_to((2000,)).astype("uint8")
        for what, call in (
            ("multiply", lambda: many * many),
            ("floor_divmod|floor_divide", lambda: many // many),
            ("add", lambda: hg.tfhe.sum(many.reshape(2, 1000), axis=0)),
            ("multiply", lambda: many.reshape(2, 1000) @ many.reshape(1000, 2)),
        ):
            with pytest.raises(hg.LongCallWarning, match=f"({what}) of .* is forecast to take"):
                call()
        monkeypatch.setattr(_core.tfhe, "compute", counting)
        p.check(hg.tfhe.look_up(x, TABLES["threshold"]), TABLES["threshold"][INDEX[:1]])
    assert computed  # the look-up was computed and gave no warning
    monkeypatch.setattr(tables, "_FEW", 4)
    shares: list[float] = []
    with pytest.warns(hg.LongCallWarning) as told:
        hg.tfhe.look_up(x, TABLES["four rows"], progress=shares.append)
    assert shares == sorted(shares)  # a forecast reports no progress
    assert len(told) == 1
    assert told[0].filename == __file__
    assert issubclass(hg.LongCallWarning, hg.HeliographWarning)
    with warnings.catch_warnings(record=True) as silent:
        warnings.simplefilter("ignore", hg.LongCallWarning)
        hg.forecast(lambda x: hg.tfhe.look_up(x, table), x)
    assert not silent
