"""Measures the seconds from ``pip install`` of a wheel to the first decrypted result, in an empty environment.

python -m benchmarks.runners.first_result dist/heliograph-*-cp311-*.whl --out benchmarks/results/first-result.jsonl

pip's cache is warm: a first installation, which is not counted, downloads the wheel's requirements. The time includes pip, the start of
Python, and `examples/quickstart.py`: parameters, keys, encryption, three computations, decryption.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import tempfile
import time
import venv
from pathlib import Path

from benchmarks.report import results
from benchmarks.runners import common

PROGRAM = common.ROOT / "examples" / "quickstart.py"


def once(wheel: Path) -> dict[str, float]:
    """Returns the seconds of pip and of the program."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = f"{folder}/bin/python"
        start = time.perf_counter()
        subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", str(wheel)], check=True)
        installed = time.perf_counter()
        subprocess.run([python, "-I", str(PROGRAM)], check=True, stdout=subprocess.DEVNULL)
        return {"pip_s": installed - start, "program_s": time.perf_counter() - installed}


def main() -> None:
    """Measures and writes."""
    parser = common.parser(__doc__, runs=5)
    parser.add_argument("wheel", type=Path)
    given = parser.parse_args()
    once(given.wheel)
    runs = [once(given.wheel) for _ in range(given.runs)]
    totals = [sum(r.values()) for r in runs]
    row = {
        "case": "first-result",
        "what": "pip install of the wheel and examples/quickstart.py, cache warm",
        "wheel": given.wheel.name,
        "wheel_bytes": given.wheel.stat().st_size,
        "median_s": statistics.median(totals),
        "fastest_s": min(totals),
        "slowest_s": max(totals),
        "pip_s": statistics.median(r["pip_s"] for r in runs),
        "program_s": statistics.median(r["program_s"] for r in runs),
        "asked_s": 15,
        "runs": len(runs),
    }
    report = common.report([row], kind="first-result")
    results.save(given.out, report)
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
