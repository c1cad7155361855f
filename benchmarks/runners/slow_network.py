"""Measures four hosts on links of 1 and 10 Gbit/s and on loopback: traffic of each layout, and when distribution pays.

    python -m benchmarks.runners.slow_network --program build/bench/benchmarks/doublecrt --out FILE.jsonl            # as root
    python -m benchmarks.runners.slow_network --program ... --only links,doublecrt --links loopback --out FILE.jsonl

Hosts are network namespaces (hosts.py) with a rank of one thread each, and 1 ms of delay between two hosts on all links except loopback.
For each link: its rate and delay (links.py), operations on DoubleCRT objects in each layout (doublecrt.py; "auto" is the mesh's own choice,
by its own measurement of the links), and HCNN-5 (ranks.py). One rank alone is measured last. `floor_s` of a row is the least time that the
row's transfers need. The least time is that of a rank's bytes at the highest rate that a host received, plus half a round
trip for each exchange. Four ranks that share fewer cores compute slower than four hosts would; bytes, exchanges and floors
do not depend on that.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.report import results
from benchmarks.runners import common, doublecrt, hosts, mesh, ranks

Row = dict[str, Any]
COUNT = 4
LINKS = (hosts.Link("loopback"), hosts.Link("10 Gbit/s, 1 ms", 10e9, 1e-3), hosts.Link("1 Gbit/s, 1 ms", 1e9, 1e-3))
PARTS = ("links", "doublecrt", "hcnn5")
LAYOUTS = (mesh.AUTO, *doublecrt.LAYOUTS)
OBJECTS = (
    "--levels",
    "function,phase,circuit",
    "--sizes",
    "400000",
    "--rings",
    "8192,65536",
    "--operations",
    "mul,multiply",
)
QUICK = (
    "--levels",
    "function,phase,circuit",
    "--sizes",
    "1000",
    "--rings",
    "1024",
    "--operations",
    "mul,multiply",
    "--batch",
    "2",
)


def measured(link: hosts.Link, places: hosts.Hosts, limit: float) -> Row:
    """Measures a link."""
    port = str(doublecrt.free_port())
    command = common.module("runners.links")
    processes = [
        subprocess.Popen(
            places.command(rank, [*command, str(rank), port, *places.addresses]),
            cwd=common.ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(COUNT)
    ]
    said = [process.communicate(timeout=limit)[0] for process in processes]
    if any(process.returncode for process in processes):
        raise SystemExit(f"links.py failed on {link.name}")
    found: Row = json.loads(said[0])
    return {"part": "links", "bits_a_second": link.bits_a_second or None, "delay_s": link.delay_s} | found


def objects(program: Path, places: hosts.Hosts, layout: str, count: int, more: tuple[str, ...], limit: float) -> list[Row]:
    """Measures operations on DoubleCRT objects over `count` ranks."""
    plan = doublecrt.Plan("cpu", threads=1, ranks=count, layout=layout)
    rows = doublecrt.measure(program, plan, list(more), limit, places)
    if lost := [row["skipped"] for row in rows if "skipped" in row]:
        raise SystemExit(f"DoubleCRT objects, {layout}: {lost[0]}")
    return [{"part": "doublecrt", "ranks": count, "layout": layout} | row for row in rows if "level" in row]


def network(places: hosts.Hosts, count: int, case: str, limit: float) -> list[Row]:
    """Measures a network over `count` ranks."""
    words = ["--only", case, *(["--quick"] if case in ranks.QUICK else [])]
    with tempfile.TemporaryDirectory() as folder:
        ranks.start(count, "cpu", "sockets", [*words, "--child", folder], "1", limit, places)
        rows = ranks.rows_of(Path(folder))
    if not all(row["correct"] for row in rows):
        raise SystemExit("wrong results")
    return [{"part": "hcnn5", "ranks": count, "layout": mesh.AUTO} | row for row in rows]


def with_floor(row: Row, link: Row) -> Row:
    """Adds the least time of a row's bytes and exchanges on a link. Copies go from and to rank 0, at the rate of one stream."""
    if row["part"] == "links" or row["ranks"] == 1:
        return row
    if row.get("level") == "phase":
        return row | {"floor_s": (row["dealt"] + row["moved"]) / link["stream_bytes_s"]}
    calls = row.get("calls", 1)
    sent, exchanges = row["most_sent_bytes"] if "calls" in row else row["sent"], row["exchanges"]
    bytes_s, trip = max(link["received_by_each_bytes_s"], link["stream_bytes_s"]), link["round_trip_s"]
    return row | {"floor_s": (sent / bytes_s + exchanges * trip / 2) / calls}


def show(row: Row) -> None:
    """Prints a row for the terminal."""
    where = f"{row['link']:16} {row.get('ranks', COUNT)} ranks {row.get('layout', ''):12}"
    if row["part"] == "links":
        rates = f"round trip {row['round_trip_s'] * 1e3:.3f} ms, a stream {row['stream_bytes_s'] / 1e6:.0f} MB/s, "
        print(f"{where} {rates}each receives {row['received_by_each_bytes_s'] / 1e6:.0f} MB/s with all sending", flush=True)
        return
    what = row.get("case") or f"{row['level']} {row['operation']} {row['row_size']:,} x{row['items']}"
    floor = f" floor {row['floor_s'] * 1e3:10.3f}" if "floor_s" in row else ""
    print(f"{where} {what:34} {row['median_s'] * 1e3:10.3f} ms{floor}", flush=True)


def main() -> None:
    """Parses the command line and writes the results."""
    parser = common.parser(
        __doc__,
        needs=("program", "out"),
        program=Path,
        links=("", f"comma-separated prefixes of {', '.join(link.name for link in LINKS)}"),
        only=(",".join(PARTS), "comma-separated parts to run"),
        seconds=(0.1, "seconds per row of DoubleCRT objects"),
        limit=(240.0, "seconds per set of processes"),
        quick=(False, "small objects and one small batch, for tests"),
    )
    options = parser.parse_args()
    parts = options.only.split(",")
    if unknown := [part for part in parts if part not in PARTS]:
        parser.error(f"unknown part {unknown[0]}: use {', '.join(PARTS)}")
    links = [link for link in LINKS if link.name.startswith(tuple(options.links.split(",")))]
    if not links:
        parser.error(f"unknown link {options.links}: use {'; '.join(link.name for link in LINKS)}")
    if any(link.bits_a_second for link in links) and (reason := hosts.reason_for_none()):
        raise SystemExit(f"cannot emulate hosts: {reason}; use --links loopback")
    program = options.program.resolve()
    more = (*(QUICK if options.quick else OBJECTS), "--seconds", "0.001" if options.quick else str(options.seconds))
    case = next(iter(ranks.QUICK)) if options.quick else "hcnn5-paper"
    found = common.machine()
    rows: list[Row] = []

    def add(link: hosts.Link, some: list[Row]) -> None:
        for row in some:
            mine = next((r for r in rows if r["part"] == "links" and r["link"] == link.name), row)
            rows.append(with_floor({"link": link.name} | row, mine))
            show(rows[-1])
        report = common.report(rows, found, kind="slow-network", hosts=COUNT, load=common.load())
        results.save(options.out, report)

    for link in links:
        with hosts.joined(COUNT, link) as places, tempfile.TemporaryDirectory() as cache:
            os.environ["XDG_CACHE_HOME"] = cache  # folder for the mesh's cache of measured links
            add(link, [measured(link, places, options.limit)])
            for layout in LAYOUTS if "doublecrt" in parts else ():
                add(link, objects(program, places, layout, COUNT, more, options.limit))
            if "hcnn5" in parts:
                add(link, network(places, COUNT, case, options.limit))
    alone = hosts.loopback(1)
    if "doublecrt" in parts:
        add(LINKS[0], objects(program, alone, "batch", 1, more, options.limit))
    if "hcnn5" in parts:
        add(LINKS[0], network(alone, 1, case, options.limit))


if __name__ == "__main__":
    main()
