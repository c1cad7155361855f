"""Measures cycles of the simulated co-processor: its transforms, and ciphertext operations on the device "rtl".

    python -m benchmarks.runners.coprocessor --tests build/release --out benchmarks/results/mine-coprocessor.jsonl

`--tests` is the build folder of the benches (rtl/README.md), which count the cycles of an engine alone. Each other row is one operation on
resident ciphertexts, with keys and operands in the card's memory. The row has the card's cycles from the first descriptor to
the end of the last, the cycle model's prediction, and the processor time of the simulation. The clock is assumed.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.cases.cores import describe
from benchmarks.report import results
from benchmarks.runners import common

Row = dict[str, Any]
#: Properties that the tests of the card record, with their descriptions.
CARDS = {
    "cycles": "eight limbs through the NTT, from memory to memory",
    "cycles_permutations": "eight permutations",
    "cycles_pointwise": "eight element-wise instructions",
    "cycles_conversion": "seven primes to eight",
    "cycles_lift": "seven primes to eight, from memory to memory",
    "cycles_scale": "fifteen primes to eight, from memory to memory",
}
CARD = "rtl"  #: 8 butterflies, 200 MHz assumed


def bench(tests: Path, name: str, only: str = "*") -> dict[str, int]:
    """Runs a test program and returns the cycles that it recorded."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.json"
        subprocess.run(
            [tests / f"test_{name}", f"--gtest_filter={only}", f"--gtest_output=json:{out}"],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        suites = json.loads(out.read_text(encoding="utf-8"))["testsuites"]
    found = {}
    for suite in suites:
        for test in suite["testsuite"]:
            found |= {key: int(value) for key, value in test.items() if key.startswith("cycles")}
    return found


def transforms(tests: Path) -> list[Row]:
    """Returns NTTs of one limb in an engine, and of eight limbs from memory to memory."""
    rows = []
    for key, cycles in bench(tests / "rtl", "rtl_ntt").items():
        n, butterflies = map(int, re.findall(r"\d+", key))
        rows.append({"what": "ntt", "n": n, "butterflies": butterflies, "cycles": cycles})
    conversions = bench(tests / "tests" / "cpp", "rtl", "*RtlConversion*")
    for key, cycles in (bench(tests / "rtl", "rtl_card") | conversions).items():
        rows.append({"what": CARDS[key], "n": 8192, "butterflies": 8, "cycles": cycles})
    return sorted(rows, key=lambda row: (row["what"], row["n"], row["butterflies"]))


def operations() -> list[Row]:
    """Returns operations on ciphertexts."""
    import heliograph as hg

    def party(**of: Any) -> tuple[Any, Any, Any]:
        parameters = hg.bfv.parameters(word_size=32, special=0, plain_modulus=65537, **of)
        secret = hg.SecretKey.generate(parameters)
        return parameters, secret, hg.Server(secret.evaluation_keys(rotations=[1]))

    rows = []

    def counted(what: str, parameters: Any, call: Callable[[], Any]) -> None:
        call().wait()  # the first call moves constants and twiddles to the card's memory
        before, start = hg.cycles(), time.process_time()
        call().wait()
        after = hg.cycles()
        if before is None or after is None:
            raise SystemExit(f"{hg.devices()[0]} counts no cycles")
        spent, seconds = after - before, time.process_time() - start
        rows.append(
            {
                "what": what,
                "parameters": describe(parameters),
                "butterflies": 8,
                "cycles": spent.cycles,
                "predicted": spent.predicted,
                "busy": dict(spent.busy),
                "bytes": spent.bytes_read + spent.bytes_written,
                "clock": spent.clock,
                "simulated_s": seconds,
            }
        )
        print(f"{what}: {spent.cycles:,} cycles, {spent.predicted:,} predicted, {seconds:.2f} s", flush=True)

    for of in ({"n": 4096, "log_q": 106}, {"n": 4096, "log_q": 180, "insecure": True}, {"n": 8192, "log_q": 214}):
        p, secret, server = party(**of)
        x, y = (server.bind(secret.encrypt([k], pad=True)) for k in (1, 2))
        counted("add", p, lambda x=x, y=y: x + y)
        counted("rotate (a key switch)", p, lambda x=x: hg.rotate_rows(x, 1))
        counted("multiply", p, lambda x=x, y=y: x * y)
        counted("multiply and relinearize", p, lambda x=x, y=y: hg.relinearize(x * y))
    return rows


def main() -> None:
    """Measures and writes."""
    given = common.parser(__doc__, needs=("tests",), tests=(Path, "build folder of the tests")).parse_args()
    os.environ["HELIOGRAPH_DEVICE"] = CARD  # read at the engine's first use
    rows = transforms(given.tests) + operations()
    found = common.machine() | common.engine()
    results.save(given.out, common.report(rows, found, kind="coprocessor", load=common.load()))


if __name__ == "__main__":
    main()
