"""The README's five measurements, in words that readers understand without other pages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from benchmarks.report import tfhe
from benchmarks.report.operations import LEVELLED_CASES
from benchmarks.report.render import Reports, Table, columns, links, seconds
from benchmarks.report.results import Report, Row

ADD = "integers/add/2_2/x1"


def _row(report: Report, case: str, **wanted: Any) -> Row:
    """Returns the row of a case. Raises SystemExit if there is no such row, so that no row is omitted silently."""
    found = [r for r in report["results"] if r.get("case") == case and all(r.get(k) == v for k, v in wanted.items())]
    if not found:
        raise SystemExit(f"no figure of {case} {wanted or ''}")
    return dict(found[-1])


def five(reports: Reports) -> Iterable[Row]:
    """Yields the measurements. Files in order: cores, networks on cores, a GPU, CKKS on cores and on a GPU; then TFHE's."""
    cores, networks, gpu, levelled, levelled_gpu, *of_tfhe = reports.values()
    sums = {r["where"]: r for r in tfhe.rows(dict(enumerate(of_tfhe))) if r.get("case") == ADD}  # type: ignore[arg-type]

    def line(what: str, core: Row, count: int, on_gpu: Row, other: str = "-") -> Row:
        return {
            "what": what,
            "cpu": f"{seconds(core['median_s'])}, {count} core{'s'[: count > 1]}",
            "gpu": on_gpu,
            "other": other,
        }

    product, reals = _row(cores, "multiply-2^14", threads=1), _row(levelled, "ckks-multiply-2^16", threads=1)
    seal = _row(cores, "peer-tenseal-2^14", threads=1)["median_s"]
    openfhe = next(peer for _, case, peer, *_ in LEVELLED_CASES if case == "ckks-multiply-2^16")
    peer = next(p for p in tfhe.PEERS if (p["case"], p["where"]) == (ADD, "1 core"))
    digit, many = _row(cores, "digit-28x28", threads=2), _row(networks, "hcnn5-2020", threads=2)
    pairs = f"multiply {product['parameters']['n']:,} pairs of integers"
    real_pairs = f"multiply {reals['parameters']['n'] // 2:,} pairs of real numbers"
    yield line("read one encrypted handwritten digit, 28 x 28 pixels", digit, 2, _row(gpu, "digit-28x28"))
    yield line("read 16,384 of them in one go", many, 2, _row(gpu, "hcnn5-2020-w64"))
    yield line(pairs, product, 1, _row(gpu, "multiply-2^14-x1-w64"), f"SEAL: {seconds(seal)}, 1 core")
    yield line(real_pairs, reals, 1, _row(levelled_gpu, "ckks-multiply-2^16-x1-w64"), f"OpenFHE: {seconds(openfhe)}, 1 core")
    what = "add two 32-bit integers, wrapping as a processor's"
    yield line(what, sums["1 core"], 1, sums["H200"], f"tfhe-rs: {seconds(peer['seconds'])}, 1 core")


def sources(reports: Reports) -> str:
    """Returns the machines and the files."""
    cores, _, gpu, *_ = reports.values()
    return (
        f"Medians with keys ready, at 128 bits of security; CPU: {cores['machine']['processor']} (Zen 4), GPU: "
        f"{gpu['machine']['gpu']}. SEAL ran in the same run, through TenSEAL; the other two earlier, on similar machines. From {links(reports)}."
    )


FIVE = Table(
    columns("on encrypted data: {what} | CPU: {cpu} | GPU: {gpu.median_s:time} | another library, on a CPU: {other}"),
    five,
    sources,
)
TABLES = {"five figures": FIVE}
