"""Tests the benchmark over slow links: times of the simulated switch, the cleanup after a run is killed, and the tables."""

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

from benchmarks.report import results
from figures_rig import ROOT, module, program_of


def reason_for_none() -> str | None:
    """Returns the reason why this machine cannot make virtual hosts, or None if it can."""
    from benchmarks.runners import hosts

    return hosts.reason_for_none()


_REASON = reason_for_none()
by_root = pytest.mark.skipif(_REASON is not None, reason=_REASON or "virtual hosts are available")


def frame(target: int, size: int, segment: int = 0) -> bytes:
    """Returns a frame as the kernel delivers it: an offload header, then `size` bytes for host `target` (255: all hosts)."""
    address = b"\xff" * 6 if target == 255 else bytes([2, 0, 0, 0, 0, target])
    return struct.pack("<BBHHHH", 0, 1 if segment else 0, 66 if segment else 0, segment, 0, 0) + address.ljust(size, b"x")


def test_a_frame_takes_the_time_of_its_bytes() -> None:
    """Each segment has headers and Ethernet overhead of its own: three segments with 1,500 bytes in total cost 3 x 90 bytes
    more.
    """
    from benchmarks.runners import hosts

    assert hosts.wire_bytes(frame(1, 100)) == 124
    assert hosts.wire_bytes(frame(1, 66 + 1500, 500)) == 1500 + 3 * 90


def test_a_link_carries_frames_in_order_of_arrival(tmp_path: Path) -> None:
    """At 1 ns per byte and 1 us of delay, a link carries one frame after another. A receiver's link takes frames in the
    order in which they arrive, not in the order in which they were queued.

    """
    from benchmarks.runners import hosts

    pipes = [os.pipe() for _ in range(3)]
    switch = hosts.Switch([write for _, write in pipes], 1.0, 1000)
    for _ in range(3):
        switch.take(0, frame(1, 976), 0)  # three frames of 1,000 bytes; the last leaves at 2,000 ns
    switch.take(0, frame(2, 976), 0)  # queued after these three frames
    switch.take(2, frame(1, 476), 100)  # 500 bytes on another host's link
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
    # Host 1 receives a frame at 2,000 ns and directly after it the short frame of the other link. Then host 1 receives the
    # other frames in their order.
    assert arrived == [(2000, 1), (2500, 1), (3500, 1), (4500, 1), (5000, 2)]


@by_root
def test_hosts_have_the_requested_rate_and_delay_and_are_removed(tmp_path: Path) -> None:
    """Hosts have the requested rate and delay, measured by TCP. If the process that made the hosts is killed, no interface
    or process remains.

    """
    from benchmarks.runners import hosts

    for slower in (1, 4, 16):  # repeats with longer transfers until the time that a busy machine adds is small
        with hosts.joined(2, hosts.Link("slow", 50e6 / slower, 5e-3 * slower)) as places:
            names = list(places.names)
            command = module("runners.links")
            processes = [
                subprocess.Popen(
                    places.command(k, [*command, str(k), "29700", *places.addresses]), cwd=ROOT, stdout=subprocess.PIPE
                )
                for k in range(2)
            ]
            said = json.loads(processes[0].communicate(timeout=120)[0])
            processes[1].communicate(timeout=120)
        trip, stream = said["round_trip_s"] / slower, said["stream_bytes_s"] * slower
        assert not set(names) & set(_names())
        assert trip > 0.010
        assert stream < 6.25e6
        if trip < 0.030 and stream > 2e6:
            break
    assert trip < 0.030
    assert stream > 2e6
    program = (
        f"import sys, time; sys.path.insert(0, {str(ROOT)!r})\nimport subprocess\nfrom benchmarks.runners import hosts\n"
        + (
            "with hosts.joined(2, hosts.Link('x', 1e9, 1e-3)) as places:\n"
            "    running = subprocess.Popen(places.command(0, ['sleep', '600']))\n"
            "    print(places.names[0], flush=True)\n    time.sleep(600)\n"
        )
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        name = process.stdout.readline().strip()
        assert name in _names()
        os.kill(process.pid, signal.SIGKILL)
    end = time.monotonic() + 120
    while name in _names() and time.monotonic() < end:
        time.sleep(0.1)
    assert name not in _names()


def _names() -> list[str]:
    done = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True)
    return [line.split()[0] for line in done.stdout.splitlines()]


#: A simulated program that reports its arguments in the format of benchmarks/cpp/doublecrt.cpp.
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
    """On loopback four layouts are measured, then one rank. The tables have bytes, floors and the fastest layout."""
    from benchmarks.papers import slow_network as slow_network_tables

    program = program_of(tmp_path / "doublecrt", PROGRAM)
    out = tmp_path / "x-slow-network.jsonl"
    command = [*module("runners.slow_network"), "--program", str(program), "--out", str(out)]
    subprocess.run(
        [*command, "--quick", "--links", "loopback", "--only", "links,doublecrt"], cwd=ROOT, check=True, capture_output=True
    )
    report = results.read(out)
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
    # Adds the same rows as if they were measured on a slow link.
    slow = {"link": "slow", "bits_a_second": 8e6, "delay_s": 1e-3, "round_trip_s": 2e-3}
    report["results"] = rows + [r | slow for r in rows if r.get("ranks") != 1]
    lines = slow_network_tables.tables({"x.jsonl": report})
    text = "\n".join(lines)
    assert "| slow | 2 ms | " in text
    what = "1 BGV multiplication + relinearization, N=8,192"
    assert f"| {what} | limbs (`limb`) | 100 kB | 5 | 2 ms (" in text
    (verdict,) = [line for line in lines if line.startswith(f"| {what} | 8 ms |")]
    assert verdict.startswith(f"| {what} | 8 ms | limbs (`limb`): 2.")
    assert verdict.endswith(" | one rank | 0.8 Gbit/s |")  # floor: 100 kB at a rate of 1 MB/s


def test_unknown_parts_and_links_are_refused(tmp_path: Path) -> None:
    """Unknown parts and links are refused, with the known names."""
    command = [*module("runners.slow_network"), "--program", "x", "--out", str(tmp_path / "x.jsonl")]
    done = subprocess.run([*command, "--only", "all"], cwd=ROOT, capture_output=True, text=True)
    assert "unknown part all: use links, doublecrt, hcnn5" in done.stderr
    done = subprocess.run([*command, "--links", "modem"], cwd=ROOT, capture_output=True, text=True)
    assert "unknown link modem: use loopback; 10 Gbit/s, 1 ms; 1 Gbit/s, 1 ms" in done.stderr
