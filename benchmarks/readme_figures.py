"""The README's five figures, in words that need no other page: from the committed files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tfhe_tables
from levelled_tables import LINES
from tfhe_facts import PEERS

Row = dict[str, Any]
Time = Callable[[float | None], str]
#: The files, in the order that `lines` takes them in: cores, networks on cores, a GPU, CKKS on cores and a GPU; then TFHE's.
FILES = ("zen4.json", "zen4-hcnn5.json", "h200.json", "zen4-levelled.json", "h200-levelled.json")
TFHE = ("zen4-tfhe.json", "h200-tfhe-large.json")
ADD = "integers/add/2_2/x1"


def _row(report: Row, case: str, **wanted: Any) -> Row:
    """The one row of a case. Raises SystemExit where there is none: a figure is never left out silently."""
    found = [r for r in report["results"] if r.get("case") == case and all(r.get(k) == v for k, v in wanted.items())]
    if not found:
        raise SystemExit(f"no figure of {case} {wanted or ''}")
    return found[-1]


def lines(reports: dict[str, Row], seconds: Time) -> list[str]:
    """The table and where its figures come from."""
    cores, networks, gpu, levelled, levelled_gpu = (reports[name] for name in FILES)
    sums = {r["where"]: r for r in tfhe_tables.rows({name: reports[name] for name in TFHE}) if r.get("case") == ADD}

    def timed(row: Row, count: int) -> str:
        return f"{seconds(row['median_s'])}, {count} core{'s' if count > 1 else ''}"

    product = _row(cores, "multiply-2^14", threads=1)
    pairs = f"{product['parameters']['n']:,}"
    reals = _row(levelled, "ckks-multiply-2^16", threads=1)
    openfhe = next(peer for _, case, peer, *_ in LINES if case == "ckks-multiply-2^16")
    peer = next(p for p in PEERS if p.case == ADD and p.where == "1 core")
    rows = [
        (
            "read one encrypted handwritten digit, 28 x 28 pixels",
            timed(_row(cores, "digit-28x28", threads=2), 2),
            seconds(_row(gpu, "digit-28x28")["median_s"]),
            "-",
        ),
        (
            "read 16,384 of them in one go",
            timed(_row(networks, "hcnn5-2020", threads=2), 2),
            seconds(_row(gpu, "hcnn5-2020-w64")["median_s"]),
            "-",
        ),
        (
            f"multiply {pairs} pairs of integers",
            timed(product, 1),
            seconds(_row(gpu, "multiply-2^14-x1-w64")["median_s"]),
            f"SEAL: {timed(_row(cores, 'peer-tenseal-2^14', threads=1), 1)}",
        ),
        (
            f"multiply {reals['parameters']['n'] // 2:,} pairs of real numbers",
            timed(reals, 1),
            seconds(_row(levelled_gpu, "ckks-multiply-2^16-x1-w64")["median_s"]),
            f"OpenFHE: {seconds(openfhe)}, 1 core",
        ),
        (
            "add two 32-bit integers, wrapping as a processor's",
            timed(sums["1 core"], 1),
            seconds(sums["H200"]["median_s"]),
            f"tfhe-rs: {seconds(peer.seconds)}, 1 core",
        ),
    ]
    table = ["| on encrypted data | CPU | GPU | another library, on a CPU |", "|---|---|---|---|"]
    table += ["| " + " | ".join(row) + " |" for row in rows]
    links = ", ".join(f"[{name}](benchmarks/results/{name})" for name in (*FILES, *TFHE))
    return [
        *table,
        "",
        f"Medians with keys ready, at 128 bits of security; CPU: {cores['machine']['processor']} (Zen 4), GPU: "
        f"{gpu['machine']['gpu']}. SEAL ran beside ours, through TenSEAL; the other two earlier, on like machines. From {links}.",
    ]
