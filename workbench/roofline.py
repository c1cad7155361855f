"""The roofline of a transform's kernels by their radix, from what radix.cu measured and what ncu counted.

    python workbench/roofline.py --radix radix.json --counters radix.csv --out workbench/results/mine-roofline.json
    python workbench/roofline.py --draw workbench/results/mine-roofline.json --picture docs/pictures/roofline.svg

Without --counters the bytes are those by theory. The second needs matplotlib (the extra "plot") alone. README.md has the line for ncu.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import sys
from pathlib import Path
from typing import Any

#: What a launch is asked for, and its name here.
METRICS = {
    "gpu__time_duration.sum": "seconds",
    "dram__bytes.sum": "dram_bytes",
    "lts__t_bytes.sum": "l2_bytes",
    "l1tex__t_bytes.sum": "l1_bytes",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum": "shared_wavefronts",
    "smsp__inst_executed.sum": "instructions",
    "smsp__sass_thread_inst_executed_op_integer_pred_on.sum": "integer_operations",
}
#: Of ncu's units to seconds and bytes.
UNITS = {"ns": 1e-9, "us": 1e-6, "usecond": 1e-6, "nsecond": 1e-9, "ms": 1e-3, "msecond": 1e-3, "s": 1.0, "second": 1.0}
UNITS |= {"byte": 1.0, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9}
LEVELS = {"dram": ("DRAM", "copy in DRAM", "o"), "l2": ("L2", "copy in L2", "s")}
COLOURS = {2: "#c8553d", 4: "#d9b44a", 8: "#4f7cac", 16: "#1b2a41"}
WAVEFRONT = 128  # bytes of shared memory at most


def kernel_of(name: str) -> tuple[str, int, str] | None:
    """A kernel's name by ncu: whose, its radix, its stage."""
    if ours := re.search(r"stage_([12])<(?:\(int\))?(\d+)>", name):
        return "radix", 1 << int(ours[2]), f"stage {ours[1]}"
    if theirs := re.search(r"ntt_(columns|rows)<", name):
        return "product", 16, "stage 1" if theirs[1] == "columns" else "stage 2"
    return None


def counted(path: Path) -> list[dict[str, Any]]:
    """What ncu wrote, as `--csv` (a line a metric) or `--csv --page raw` (a line a launch, below one of units)."""
    lines = path.read_text(encoding="utf-8").splitlines()
    start = next((i for i, text in enumerate(lines) if text.startswith('"ID"')), None)
    if start is None:
        raise SystemExit(f"{path} is no table of ncu: it has no line that begins with \"ID\"")
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
        raise SystemExit(f"{path} has none of the kernels")
    return list(found.values())


def rows_of(radix: dict[str, Any], launches: list[dict[str, Any]], data: str, limbs: int) -> list[dict[str, Any]]:
    """A row for each kernel: operations by theory, over time and bytes by the counters, or by theory too."""
    rows = []
    for t in radix["transforms"]:
        if t["stage"] == "both" or t["data"] != data or (data != "one launch" and t["limbs_a_launch"] != limbs):
            continue
        same = [c for c in launches if all(c[key] == t[key] for key in ("kernel", "radix", "stage"))]
        row = {key: t[key] for key in ("kernel", "radix", "stage", "data")}
        row |= {"operations": t["operations_a_limb"] * limbs, "products": t["products_a_limb"] * limbs}
        row |= {"theory_bytes": (t["bytes_a_limb"] + t["twiddle_bytes_a_limb"]) * limbs, "shared_bytes": t["shared_bytes_a_limb"] * limbs}
        row |= {"seconds": t["seconds_a_limb"] * limbs, "dram_bytes": row["theory_bytes"], "l2_bytes": row["theory_bytes"]}
        if same:
            row |= {key: value for key, value in same[0].items() if key not in row or key in ("seconds", "dram_bytes", "l2_bytes")}
        row |= {"counted": bool(same), "operations_per_second": row["operations"] / row["seconds"]}
        for level in LEVELS:
            row[f"operations_a_{level}_byte"] = row["operations"] / row[f"{level}_bytes"] if row[f"{level}_bytes"] else None
            row[f"{level}_bytes_per_second"] = row[f"{level}_bytes"] / row["seconds"]
        if "shared_wavefronts" in row:
            row["shared_wavefront_bytes"] = row["shared_wavefronts"] * WAVEFRONT
        rows.append(row)
    return rows


def draw(found: dict[str, Any], picture: Path) -> None:
    """Operations a second over operations a byte, a panel a stage."""
    import matplotlib as mpl

    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "heliograph", "font.size": 9})
    from matplotlib import pyplot
    from matplotlib.lines import Line2D

    roofs = {r["what"]: r["per_second"] for r in found["roofs"]}
    top = roofs["forward butterfly"]
    figure, axes = pyplot.subplots(1, 2, figsize=(8, 4), sharey=True, layout="constrained")
    reach = [row[f"operations_a_{level}_byte"] for row in found["kernels"] for level in LEVELS if row[f"operations_a_{level}_byte"]]
    left, right = min(reach) / 2, max(*reach, top / roofs["copy in DRAM"]) * 2
    for axis, stage in zip(axes, ("stage 1", "stage 2"), strict=True):
        axis.plot([left, right], [top, top], color="#1b2a41", linewidth=1)
        for level, (_, roof, mark) in LEVELS.items():
            ends = [left, min(right, top / roofs[roof])]
            axis.plot(ends, [x * roofs[roof] for x in ends], color="#8a94a6", linewidth=1, linestyle="-" if level == "dram" else "--")
            for row in (r for r in found["kernels"] if r["stage"] == stage and r[f"operations_a_{level}_byte"]):
                ours = row["kernel"] == "product"
                axis.plot(
                    row[f"operations_a_{level}_byte"],
                    row["operations_per_second"],
                    mark,
                    color=COLOURS[row["radix"]],
                    markerfacecolor=COLOURS[row["radix"]] if ours else "white",
                    markersize=7,
                )
        axis.set_title(stage, loc="left", fontsize=9)
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_xlim(left, right)
        axis.set_xlabel("integer operations a byte")
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("integer operations a second")
    said = [Line2D([], [], color=c, marker="o", linestyle="", markerfacecolor="white", label=f"radix {r}") for r, c in COLOURS.items()]
    said.append(Line2D([], [], color=COLOURS[16], marker="o", linestyle="", label="the product's"))
    said += [Line2D([], [], color="#8a94a6", marker="o", linestyle="-", label="DRAM"), Line2D([], [], color="#8a94a6", marker="s", linestyle="--", label="L2")]
    said.append(Line2D([], [], color="#1b2a41", label="butterflies in registers"))
    figure.legend(handles=said, loc="outside lower center", ncols=4, frameon=False)
    figure.savefig(picture, **({"metadata": {"Date": None}} if picture.suffix == ".svg" else {"dpi": 150}))
    if picture.suffix == ".svg":
        picture.write_text("\n".join(row.rstrip() for row in picture.read_text(encoding="utf-8").splitlines()) + "\n", encoding="utf-8")


def main() -> int:
    """Joins, or draws."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--radix", type=Path, help="of radix.cu")
    parser.add_argument("--counters", type=Path, help="of ncu")
    parser.add_argument("--data", default="in turn", choices=("in turn", "in L2", "one launch"), help="whose times, where nothing is counted")
    parser.add_argument("--limbs", type=int, default=64, help="of a launch, as counted")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--draw", type=Path, help="what --out wrote")
    parser.add_argument("--picture", type=Path, default=Path("roofline.svg"))
    given = parser.parse_args()
    if given.draw:
        draw(json.loads(given.draw.read_text(encoding="utf-8")), given.picture)
        return 0
    if given.radix is None or given.out is None:
        parser.error("--radix and --out, or --draw")
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
    return 0


if __name__ == "__main__":
    sys.exit(main())
