"""Writes python/heliograph/ml/bootstraps.json: counts of bootstraps to each level, of the sets that networks choose among.

    python -m benchmarks.runners.bootstrap_counts

They follow from recordings on the null device, which take some minutes. tests/python/test_ml_costs.py compares some of them."""

from __future__ import annotations

import json

from benchmarks.runners import common
from heliograph import ckks
from heliograph.ml import costs
from heliograph.ml.networks.sets import NAMED

PATH = common.ROOT / "python" / "heliograph" / "ml" / "bootstraps.json"


def rows_of(p: ckks.Parameters) -> dict[str, str]:
    """Returns the counts by level, as JSON."""
    rows = {}
    for level in range(p.bootstrapping_level + 1, p.levels + 1):
        made = costs._recorded_bootstrap(p, level, None)
        rows[str(level)] = json.dumps({"calls": dict(sorted(made.calls.items())), "products": made.products})
    return rows


def main() -> None:
    """Records all sets and writes the file."""
    common.parser(__doc__).parse_args()
    sets = []
    for name in NAMED:
        p = ckks.parameters(name)
        rows = ",\n".join(f'  "{level}": {row}' for level, row in rows_of(p).items())
        sets.append(f' "{name} w{p.word_size}": {{\n{rows}\n }}')
    PATH.write_text("{\n" + ",\n".join(sets) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
