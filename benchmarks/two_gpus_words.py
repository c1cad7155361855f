"""What docs/benchmarks.md says of two GPUs: a sentence for each kind of work, from the committed files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Row = dict[str, Any]
Time = Callable[[float | None], str]
MESH = (
    ("hvmul-2^15-x250-w64", "250 multiplications + relinearizations"),
    ("hvadd-2^15-x500-w64", "500 additions"),
    ("hcnn5-2020-w64", "HCNN-5"),
    ("ckks-rescaled-2^16-x16-w64", "16 CKKS products at N=2^16"),
    ("ckks-slice-2^16-x8-w64", "the products of 8 of 64 of them as a slice"),
)
COLOURS = (("hcnn11-all-w64", "at"), ("hcnn11-2020-all-w64", "at the paper's set, which is"))
TFHE = (("gates/nand/boolean/x65536", "65,536 gates"), ("table9/2_2/default/16x32", "a 16x16 product of 32-bit integers"))
PROGRAM = "ten-ckks-2^16"


def _links(*names: str) -> str:
    return ", ".join(f"[{name}](benchmarks/results/{name})" for name in names)


def words(reports: dict[str, Row], seconds: Time) -> list[str]:
    """Of the files, in this order: several GPUs' workloads, HCNN-11, TFHE on one and on two, programs on one and on two."""
    work, colours, tfhe_one, tfhe_two, program_one, program_two = reports.values()
    names = list(reports)

    def pair(report: Row, case: str) -> tuple[Row, Row]:
        found = {r["devices"]: r for r in report["results"] if r.get("case") == case and r["layout"] == "auto"}
        return found[1], found[2]

    def timed(name: str, one: float, two: float) -> str:
        return f"{name} {seconds(two)} ({one / two:.2f} times one)"

    mesh = [timed(said, *(r["median_s"] for r in pair(work, case))) for case, said in MESH]
    pictures = []
    for case, said in COLOURS:
        one, two = pair(colours, case)
        times = f"{seconds(one['median_s'])} on one and {seconds(two['median_s'])} on two"
        pictures.append(f"{times} {said} {two['parameters']['security']}")
    lwe = []
    for case, said in TFHE:
        one, two = (next(r for r in report["results"] if r.get("case") == case) for report in (tfhe_one, tfhe_two))
        lwe.append(timed(said, one["median_s"], two["median_s"]))
    one, two = (next(r for r in report["results"] if r["program"] == PROGRAM) for report in (program_one, program_two))
    recorded = (
        f"{one['what']}, recorded, {seconds(two['program_s'])} ({one['eager_s'] / two['program_s']:.2f} times one GPU's function, "
        f"{one['program_s'] / two['program_s']:.2f} times its program)"
    )
    return [
        f"- On two H200s, the program unchanged: {', '.join(mesh)}: {_links(names[0])}.",
        f"- {recorded[0].upper()}{recorded[1:]}: {_links(*names[4:])}.",
        f"- HCNN-11 on 8,192 encrypted CIFAR-10 images: {', '.join(pictures)} (paper: 11,207 s on eight K80): {_links(names[1])}.",
        f"- TFHE: {', '.join(lwe)}: {_links(*names[2:4])}.",
    ]
