"""Computes the roofline of a transform's kernels by radix from radix.cu's times and ncu's counters.

    python workbench/roofline.py --radix radix.json --counters radix.csv --out workbench/results/mine-roofline.json

Without --counters, bytes are theoretical. README.md has the ncu command. docs/pictures/kim.py draws the output.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
from pathlib import Path
from typing import Any

#: ncu metric to field name.
METRICS = {
    "gpu__time_duration.sum": "seconds",
    "dram__bytes.sum": "dram_bytes",
    "lts__t_bytes.sum": "l2_bytes",
    "l1tex__t_bytes.sum": "l1_bytes",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum": "shared_wavefronts",
    "smsp__inst_executed.sum": "instructions",
    "smsp__sass_thread_inst_executed_op_integer_pred_on.sum": "integer_operations",
}
#: ncu unit to factor, in seconds or bytes.
UNITS = {"ns": 1e-9, "us": 1e-6, "usecond": 1e-6, "nsecond": 1e-9, "ms": 1e-3, "msecond": 1e-3, "s": 1.0, "second": 1.0}
UNITS |= {"byte": 1.0, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9}
LEVELS = ("dram", "l2")
WAVEFRONT = 128  # bytes of shared memory at most


def kernel_of(name: str) -> tuple[str, int, str] | None:
    """Returns the source, radix and stage of a kernel by its name in ncu's output."""
    if ours := re.search(r"stage_([12])<(?:\(int\))?(\d+)>", name):
        return "radix", 1 << int(ours[2]), f"stage {ours[1]}"
    if theirs := re.search(r"ntt_(columns|rows)<", name):
        return "product", 16, "stage 1" if theirs[1] == "columns" else "stage 2"
    return None


def counted(path: Path) -> list[dict[str, Any]]:
    """Reads ncu's output of `--csv` (a line a metric) or `--csv --page raw` (a line a launch, below a line of units)."""
    lines = path.read_text(encoding="utf-8").splitlines()
    start = next((i for i, text in enumerate(lines) if text.startswith('"ID"')), None)
    if start is None:
        raise SystemExit(f'{path} is not an ncu table: no line starts with "ID"')
    table = list(csv.DictReader(lines[start:]))
    found: dict[str, dict[str, Any]] = {}
    units = table[0] if table and not table[0]["ID"] else {}
    for row in table:
        known = kernel_of(row["Kernel Name"])
        if known is None:
            continue
        entry = found.setdefault(row["ID"], dict(zip(("kernel", "radix", "stage"), known, strict=True)))
        if "Metric Name" in row:
            given = {row["Metric Name"]: (row["Metric Value"], row["Metric Unit"])}
        else:
            given = {metric: (row[metric], units.get(metric, "")) for metric in METRICS if metric in row}
        for metric, (value, unit) in given.items():
            if metric in METRICS and value not in ("", "n/a"):
                entry[METRICS[metric]] = float(value.replace(",", "")) * UNITS.get(unit, 1.0)
    if not found:
        raise SystemExit(f"{path} contains none of radix.cu's kernels")
    return list(found.values())


def rows_of(radix: dict[str, Any], launches: list[dict[str, Any]], data: str, limbs: int) -> list[dict[str, Any]]:
    """Returns a row for each kernel: theoretical operations over counted (or theoretical) time and bytes."""
    rows = []
    for t in radix["transforms"]:
        if t["stage"] == "both" or t["data"] != data or (data != "one launch" and t["limbs_a_launch"] != limbs):
            continue
        same = [c for c in launches if all(c[key] == t[key] for key in ("kernel", "radix", "stage"))]
        row = {key: t[key] for key in ("kernel", "radix", "stage", "data")}
        row |= {"operations": t["operations_a_limb"] * limbs, "products": t["products_a_limb"] * limbs}
        row |= {
            "theory_bytes": (t["bytes_a_limb"] + t["twiddle_bytes_a_limb"]) * limbs,
            "shared_bytes": t["shared_bytes_a_limb"] * limbs,
        }
        row |= {"seconds": t["seconds_a_limb"] * limbs, "dram_bytes": row["theory_bytes"], "l2_bytes": row["theory_bytes"]}
        if same:
            row |= {
                key: value
                for key, value in same[0].items()
                if key not in row or key in ("seconds", "dram_bytes", "l2_bytes")
            }
        row |= {"counted": bool(same), "operations_per_second": row["operations"] / row["seconds"]}
        for level in LEVELS:
            row[f"operations_a_{level}_byte"] = row["operations"] / row[f"{level}_bytes"] if row[f"{level}_bytes"] else None
            row[f"{level}_bytes_per_second"] = row[f"{level}_bytes"] / row["seconds"]
        if "shared_wavefronts" in row:
            row["shared_wavefront_bytes"] = row["shared_wavefronts"] * WAVEFRONT
        rows.append(row)
    return rows


def main() -> None:
    """Joins times and counters and writes the roofline."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--radix", type=Path, required=True, help="JSON file of radix.cu")
    parser.add_argument("--counters", type=Path, help="CSV file of ncu")
    parser.add_argument(
        "--data",
        default="in turn",
        choices=("in turn", "in L2", "one launch"),
        help="the data whose times are used without --counters",
    )
    parser.add_argument("--limbs", type=int, default=64, help="limbs a launch, as in the ncu run")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    radix = json.loads(given.radix.read_text(encoding="utf-8"))
    rows = rows_of(radix, counted(given.counters) if given.counters else [], given.data, given.limbs)
    settings = radix["settings"] | {"program": "roofline", "limbs": given.limbs, "counted": bool(given.counters)}
    found = {"settings": settings, "roofs": radix["roofs"], "kernels": rows}
    given.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    for row in rows:
        print(
            f"{row['kernel']:8s} {row['radix']:3d} {row['stage']} {row['seconds'] * 1e6:8.1f} us, {row['operations_per_second'] / 1e12:6.2f} T operations/s, "
            f"DRAM {row['dram_bytes_per_second'] / 1e9:6.0f} GB/s, L2 {row['l2_bytes_per_second'] / 1e9:6.0f} GB/s"
        )


if __name__ == "__main__":
    main()
