"""Look-ups in tables of up to 65,536 entries: values against NumPy's, and how many bootstraps they take."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import heliograph as hg
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
    """The bootstraps of what is run, of the default set, an element."""
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
    """Edges of rows, any dtype of the results, any shape."""
    p, table = party(encoding), TABLES[name]
    p.check(hg.tfhe.look_up(p.tensor(INDEX.reshape(2, 3)), table), table[INDEX.reshape(2, 3)])


def test_signed_and_odd_widths() -> None:
    """Entries in the order of the unsigned values; 12 bits have 4,096."""
    p, table = party(), (EVERY // 256).astype(np.uint8)
    values = np.array([-1, 0, -32_768, 300], dtype=np.int16)
    p.check(hg.tfhe.look_up(p.tensor(values), table), table[values.view(np.uint16)])
    p.check(hg.tfhe.look_up(p.tensor(np.array([4_095, 17, 256]), "uint12"), table[:4_096] + 1), np.uint8([16, 1, 2]))
    wide = hg.tfhe.look_up(p.tensor(INDEX), table, "uint24")
    np.testing.assert_array_equal(p.secret.decrypt(wide), table[INDEX])


def test_what_it_takes(counted: list[int]) -> None:
    """As the docstring says; a table of few different rows takes few, whichever byte they are by."""
    p = party()
    x = p.tensor(INDEX[:1])
    for table, asked in ((TABLES["threshold"], 69), (np.sqrt(EVERY).astype(np.uint8), 6_050)):
        counted.clear()
        hg.forecast(lambda x, table=table: hg.tfhe.look_up(x, table), x)
        assert sum(counted) == asked
        assert f"{asked:,} " in (hg.tfhe.look_up.__doc__ or "")
    for name, few in (("of the lower byte", 100), ("of the upper byte", 100), ("one value", 0)):
        counted.clear()
        hg.forecast(lambda x, name=name: hg.tfhe.look_up(x, TABLES[name]) + 0, x)
        assert sum(counted) <= few


def test_progress_and_errors() -> None:
    """Shares rise to 1; another number of entries, a width beyond 16."""
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


def test_keys_are_needed() -> None:
    """As of any look-up."""
    p: Party = party()
    with pytest.raises(hg.MissingKeyError):
        hg.tfhe.look_up(p.secret.encrypt(INDEX), TABLES["threshold"])
