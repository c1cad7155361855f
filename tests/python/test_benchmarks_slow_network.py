"""Hosts on slow links: the switch's times, what is left when a run is killed, and the tables."""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from figures_rig import FOLDER, program_of

pytestmark = pytest.mark.usefixtures("benchmarks")


def reason_for_none() -> str | None:
    """Why this test cannot have hosts."""
    sys.path.insert(0, str(FOLDER))
    try:
        import hosts

        return hosts.reason_for_none()
    finally:
        sys.path.remove(str(FOLDER))


_REASON = reason_for_none()
by_root = pytest.mark.skipif(_REASON is not None, reason=_REASON or "hosts can be made")


def frame(target: int, size: int, segment: int = 0) -> bytes:
    """As the kernel hands it over: a header of offloads, then `size` bytes for host `target` (255: all)."""
    address = b"\xff" * 6 if target == 255 else bytes([2, 0, 0, 0, 0, target])
    return struct.pack("<BBHHHH", 0, 1 if segment else 0, 66 if segment else 0, segment, 0, 0) + address.ljust(size, b"x")


def test_a_frame_takes_its_bytes_and_the_delay() -> None:
    """Each segment has its headers and what Ethernet adds: 1,500 bytes of data in three segments are 3 x 90 bytes more."""
    import hosts

    assert hosts.wire_bytes(frame(1, 100)) == 124
    assert hosts.wire_bytes(frame(1, 66 + 1500, 500)) == 1500 + 3 * 90


def test_lines_are_shared_and_idle_for_nobody(tmp_path: Path) -> None:
    """One nanosecond a byte, a microsecond of delay: a line carries one frame after the other; a receiver's line is given to what
    arrives first, whoever queued first.
    """
    import hosts

    pipes = [os.pipe() for _ in range(3)]
    switch = hosts.Switch([write for _, write in pipes], 1.0, 1000)
    for _ in range(3):
        switch.take(0, frame(1, 976), 0)  # 1,000 bytes each, the last leaves at 2,000
    switch.take(0, frame(2, 976), 0)  # behind them
    switch.take(2, frame(1, 476), 100)  # 500 bytes from another line
    arrived: list[tuple[float, int]] = []
    now: float | None = 0.0
    while now is not None:
        following = switch.deliver(now)
        for number, (read, _) in enumerate(pipes):
            os.set_blocking(read, False)
            try:
                while os.read(read, hosts.HEADER.size + (476 if now == 2500 else 976)):
                    arrived.append((now, number))
            except BlockingIOError:
                pass
        now = following
    for read, write in pipes:
        os.close(read)
        os.close(write)
    # To host 1: at 2,000; the short one of the other line right behind; then the rest, as the first line sent them.
    assert arrived == [(2000, 1), (2500, 1), (3500, 1), (4500, 1), (5000, 2)]


@by_root
def test_hosts_have_the_rate_and_the_delay_asked_for_and_go(tmp_path: Path) -> None:
    """By TCP; nothing of them is left, also where whoever made them is killed."""
    import hosts

    link = hosts.Link("slow", 50e6, 5e-3)
    with hosts.joined(2, link) as places:
        names = list(places.names)
        command = [sys.executable, str(FOLDER / "links.py")]
        processes = [
            subprocess.Popen(places.command(k, [*command, str(k), "29700", *places.addresses]), stdout=subprocess.PIPE)
            for k in range(2)
        ]
        said = json.loads(processes[0].communicate(timeout=60)[0])
        processes[1].communicate(timeout=60)
    assert 0.010 < said["round_trip_s"] < 0.030
    assert 2e6 < said["stream_bytes_s"] < 6.25e6
    assert not set(names) & set(_names())
    program = f"import sys, time; sys.path.insert(0, {str(FOLDER)!r})\nimport hosts, subprocess\n" + (
        "with hosts.joined(2, hosts.Link('x', 1e9, 1e-3)) as places:\n"
        "    running = subprocess.Popen(places.command(0, ['sleep', '600']))\n"
        "    print(places.names[0], flush=True)\n    time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        name = process.stdout.readline().strip()
        assert name in _names()
        os.kill(process.pid, signal.SIGKILL)
    end = time.monotonic() + 20
    while name in _names() and time.monotonic() < end:
        time.sleep(0.1)
    assert name not in _names()


def _names() -> list[str]:
    done = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True)
    return [line.split()[0] for line in done.stdout.splitlines()]


#: Says what it was told, as benchmarks/cpp/doublecrt.cpp would.
PROGRAM = """\
import json, os, sys
given = dict(zip(sys.argv[1::2], sys.argv[2::2]))
if "--json" not in given: sys.exit(0)
assert ("HELIOGRAPH_MEET" in os.environ) == (os.environ.get("HELIOGRAPH_RANKS") == "4")
several = os.environ.get("HELIOGRAPH_RANKS") == "4"
split = several and given["--device"].endswith(("limb", "coefficient"))
common = {"items": 1, "runs": 3, "row_size": 8192}
counted = {"moved": 8e5 * split, "sent": 1e5 * split, "exchanges": 5 * split}
lines = [
    {"device": given["--device"], "description": "D", "products_s": 1e9},
    common | counted | {"level": "circuit", "operation": "multiply", "ring": True, "parts": 2, "median_s": 2e-3 if several else 8e-3,
     "bytes": 1, "products": 1, "pipe_s": 1e-3},
    common | {"level": "phase", "operation": "mul", "ring": False, "parts": 1, "dealt": 3000, "moved": 0, "setup_s": 1, "in_s": 1,
     "compute_s": 1, "out_s": 1, "median_s": 4e-3},
]
open(given["--json"], "w").write("\\n".join(map(json.dumps, lines)))
"""


def test_every_layout_is_measured_and_has_a_floor(tmp_path: Path) -> None:
    """On loopback, which needs no hosts: four layouts, then one rank; the tables have bytes, floors and what pays."""
    import slow_network_tables

    program = program_of(tmp_path / "doublecrt", PROGRAM)
    out = tmp_path / "x-slow-network.json"
    command = [sys.executable, str(FOLDER / "slow_network.py"), "--program", str(program), "--out", str(out)]
    subprocess.run(
        [*command, "--quick", "--links", "loopback", "--only", "links,doublecrt"], check=True, capture_output=True
    )
    report = json.loads(out.read_text())
    assert report["kind"] == "slow-network"
    rows: list[dict[str, Any]] = report["results"]
    link = rows[0]
    assert (link["part"], link["link"], link["bits_a_second"]) == ("links", "loopback", None)
    products = [r for r in rows if r.get("level") == "circuit"]
    assert [(r["ranks"], r["layout"]) for r in products] == [
        (4, "auto"), (4, "batch"), (4, "limb"), (4, "coefficient"), (1, "batch"),
    ]  # fmt: skip
    most = max(link["stream_bytes_s"], link["received_by_each_bytes_s"])
    assert products[2]["floor_s"] == pytest.approx(1e5 / most + 5 * link["round_trip_s"] / 2)
    assert "floor_s" not in products[-1]
    # As if the same had been measured on a slow link as well.
    slow = {"link": "slow", "bits_a_second": 8e6, "delay_s": 1e-3, "round_trip_s": 2e-3}
    report["results"] = rows + [r | slow for r in rows if r.get("ranks") != 1]
    lines = slow_network_tables.tables({"x.json": report}, None)
    text = "\n".join(lines)
    assert "| slow | 2 ms | " in text
    what = "1 BGV multiplication + relinearization, N=8,192"
    assert f"| {what} | limbs (`limb`) | 100 kB | 5 | 2 ms (" in text
    (verdict,) = [line for line in lines if line.startswith(f"| {what} | 8 ms |")]
    assert verdict.startswith(f"| {what} | 8 ms | limbs (`limb`): 2.")
    assert verdict.endswith(" | one rank | 0.8 Gbit/s |")  # 100 kB at 1 MB/s


def test_what_is_not_there_is_refused(tmp_path: Path) -> None:
    """Parts and links, by the names that there are."""
    command = [sys.executable, str(FOLDER / "slow_network.py"), "--program", "x", "--out", str(tmp_path / "x.json")]
    done = subprocess.run([*command, "--only", "all"], capture_output=True, text=True)
    assert "no part is called all; there are links, doublecrt, hcnn5" in done.stderr
    done = subprocess.run([*command, "--links", "modem"], capture_output=True, text=True)
    assert "no link begins with modem; there are loopback; 10 Gbit/s, 1 ms; 1 Gbit/s, 1 ms" in done.stderr
