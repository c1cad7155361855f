"""Tables of operations: on cores, on one GPU, on a mesh of several devices."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from benchmarks.report import machines
from benchmarks.report.render import (
    Column,
    Lines,
    Reports,
    Table,
    blocks,
    cases,
    columns,
    commit,
    commits,
    links,
    markdown,
    render,
    seconds,
)
from benchmarks.report.results import Report, Row

Alone = dict[str, Row]
TIMES = "one call: {median_s:time} | among many: {pipe_s:time}"


def having(field: str) -> Callable[[Reports], Iterable[Row]]:
    """Returns the cases that have a field."""
    return lambda reports: (row for row in cases(reports) if field in row)


# Cores and one GPU

CORES = Table(
    columns(
        "what: {what} | threads: {threads} | median: {median_s:time} | floor: {floor_s:time}",
        "over floor: {over_floor:.2f} | target: {asked_s:time}",
    ),
    having("what"),
)
GPU = Table(
    columns(
        "what: {what}",
        TIMES,
        "floor: {floor_s:time} | among many, over floor: {pipe_s/floor_s:.2f} | target: {asked_s:time}",
        "energy a call: {joules:energy}",
    ),
    having("what"),
)
GPU_KERNELS = Table(
    columns(
        "kernel: {kernel}",
        TIMES,
        "rate: {rate} | target: {asked_s:time} | floor: {floor_s:time}",
        rate=lambda r: f"{r['units'] / r['pipe_s']:.3g} {r['unit']}/s" if r["units"] else None,
    ),
    having("kernel"),
)


def layers(reports: Reports) -> Lines:
    """Returns the layers of each network."""
    found = [(r["what"], r["extra"]["layers_s"]) for r in having("what")(reports) if r["extra"].get("layers_s")]
    heads = "time, waited for alone"
    return blocks(
        *(markdown([f"{what}: step", heads], [[n, seconds(t)] for n, t in times.items()]) for what, times in found)
    )


def core_kernels(reports: Reports) -> Lines:
    """Returns a row per kernel, with a column per instruction set."""
    found: dict[str, dict[str, str]] = {}
    for r in having("kernel")(reports):
        found.setdefault(r["kernel"], {})[r["level"]] = seconds(r["median_s"])
    sets = list(dict.fromkeys(level for times in found.values() for level in times))
    return markdown(
        ["kernel, one core", *sets], [[name, *(times.get(s, "-") for s in sets)] for name, times in found.items()]
    )


def is_mesh(report: Report) -> bool:
    """Returns whether a report has cases on a mesh of several devices."""
    return any("devices" in r for r in report["results"])


def is_gpu(report: Report) -> bool:
    """Returns whether a report has cases on one GPU."""
    return any("pipe_s" in r for r in report["results"]) and not is_mesh(report)


def single(reports: Reports) -> Lines:
    """Returns all tables of each file on one device, one file after the other."""
    parts: list[Lines] = []
    for name, report in reports.items():
        one = {name: report}
        parts.append([machines.heading(name, report)])
        parts += [GPU(one), layers(one), GPU_KERNELS(one)] if is_gpu(report) else [CORES(one), core_kernels(one)]
    return blocks(*parts)


SCREEN = (
    ("hcnn5-2020", 2, "HCNN-5 on 16,384 encrypted MNIST images (99.20% right, every logit exact)"),
    ("digit-28x28", 2, "one encrypted 28x28 digit (99.04% right), keys ready"),
    ("hvmul250-2^15", 2, "250 multiplications + relinearizations, N=2^15, log q 600, one call"),
    ("multiply-2^15", 1, "one multiplication + relinearization, N=2^15, log q 600"),
    ("multiply-2^14", 1, "one multiplication + relinearization, N=2^14, log q 330"),
    ("add-2^15", 1, "one addition, N=2^15, log q 600"),
)
PEERS = {"multiply-2^15": "peer-tenseal-2^15", "multiply-2^14": "peer-tenseal-2^14"}


def screen_rows(reports: Reports) -> Iterable[Row]:
    """Yields the headlines of cores, with the peer's time."""
    rows = {(r["case"], r["threads"]): r for r in having("case")(reports)}
    for case, threads, words in SCREEN:
        yield rows[case, threads] | {"words": words, "peer": rows.get((PEERS.get(case, ""), threads))}


def screen_note(reports: Reports) -> str:
    """Returns the sources of the headlines of cores."""
    first = next(iter(reports.values()))
    where = f"{first['machine']['processor']} (Zen 4, AVX-512 IFMA), commit {commit(first['commit'])}"
    return f"Medians on {where}; accuracies from the weight files: {links(reports)}."


CORES_SCREEN = Table(
    columns(
        "what, at 128 bits: {words} | cores: {threads} | time: {median_s:time} | floor: {floor_s:time}",
        "tenseal, same run: {peer.median_s:time}",
    ),
    screen_rows,
    screen_note,
)
GPU_CASES = (
    ("hcnn5-2020", "HCNN-5 on 16,384 encrypted MNIST images"),
    ("digit-28x28", "one encrypted 28x28 digit, keys ready"),
    ("hvmul-2^15-x250", "250 multiplications + relinearizations, N=2^15, log q 600, one call"),
    ("hvadd-2^15-x500", "500 additions, N=2^15, log q 600, one call"),
    ("multiply-2^15-x1", "one multiplication + relinearization, N=2^15, log q 600"),
    ("multiply-2^14-x1", "one multiplication + relinearization, N=2^14, log q 330"),
)


def gpu_screen_rows(reports: Reports) -> Iterable[Row]:
    """Yields the headlines of a GPU with both word sizes, and floor and energy of the faster one."""
    rows = {r["case"]: r for r in having("what")(reports)}
    for case, words in GPU_CASES:
        both = {"w64": rows.get(f"{case}-w64", rows.get(case)), "w32": rows.get(f"{case}-w32")}
        if found := [r for r in both.values() if r]:
            yield both | {"words": words, "best": min(found, key=lambda r: float(r["median_s"]))}


def gpu_screen_note(reports: Reports) -> str:
    """Returns the sources of the headlines of a GPU."""
    first = next(iter(reports.values()))
    where = f"{machines.gpu(first)}, commit {commit(first['commit'])}"
    said = "floor and energy (of the whole board) are those of the faster word size"
    return f"Medians of single calls, waited for, on {where}; {said}: {links(reports)}."


GPU_SCREEN = Table(
    columns(
        "what, at 128 bits, on one GPU: {words} | 64-bit words: {w64.median_s:time}",
        "32-bit words: {w32.median_s:time} | floor: {best.floor_s:time} | energy: {best.joules:energy}",
    ),
    gpu_screen_rows,
    gpu_screen_note,
)

# CKKS and BGV

#: Description; case on cores; seconds of OpenFHE 1.5.1 with HEXL (memory retained, one core); case on a GPU, alone and in a batch.
#: The last field is the fastest peer's time on a GPU: Cheddar 8df8b26 with 32-bit words and log QP near 1770, Phantom 1f4a198.
LEVELLED_CASES: tuple[tuple[str, str, float | None, str, str, str], ...] = (
    ("CKKS multiply + relinearize + rescale, N=2^16", "ckks-rescaled-2^16", None, "ckks-rescaled-2^16-x1-w64",
     "ckks-rescaled-2^16-x16-w64", "Cheddar 429 us"),
    ("CKKS multiply + relinearize, N=2^16", "ckks-multiply-2^16", 0.171, "ckks-multiply-2^16-x1-w64",
     "ckks-multiply-2^16-x16-w64", ""),
    ("CKKS rotation, N=2^16", "ckks-rotate-2^16", 0.163, "ckks-rotate-2^16-x1-w64", "ckks-rotate-2^16-x16-w64",
     "Cheddar 411 us"),
    ("CKKS rescale, N=2^16", "ckks-rescale-2^16", 0.0191, "ckks-rescale-2^16-x1-w64", "ckks-rescale-2^16-x16-w64", ""),
    ("CKKS multiply + relinearize, N=2^15, 20 limbs", "ckks-multiply-2^15", 0.0657, "", "", ""),
    ("CKKS rotation, N=2^15, 20 limbs", "ckks-rotate-2^15", 0.063, "", "", ""),
    ("CKKS rescale, N=2^15, 20 limbs", "ckks-rescale-2^15", 0.0056, "", "", ""),
    ("BGV multiply + relinearize, N=2^15, 11 limbs", "bgv-multiply-2^15", 0.0279, "bgv-multiply-2^15-x1-w64",
     "bgv-multiply-2^15-x16-w64", "Phantom 323 us"),
    ("BGV multiply + relinearize, N=2^14, 6 limbs", "bgv-multiply-2^14", 0.006, "bgv-multiply-2^14-x1-w64",
     "bgv-multiply-2^14-x64-w64", "Phantom 218 us"),
)  # fmt: skip


def is_levelled(report: Report) -> bool:
    """Returns whether a report has only cases of CKKS and BGV (and peers), on one device."""
    names = [r["case"] for r in report["results"] if "case" in r and "devices" not in r]
    own = [n for n in names if n.startswith(("ckks-", "bgv-"))]
    return bool(own) and all(n.startswith("peer-") for n in names if n not in own)


def levelled_rows(reports: Reports) -> Iterable[Row]:
    """Yields the headlines: cores and a GPU, with peers' times on similar machines."""
    rows = {r["case"]: r for r in having("median_s")(reports)}
    for words, core, openfhe, alone, batch, peer in LEVELLED_CASES:
        if {core, alone, batch} & rows.keys():
            one, each = rows.get(alone), rows.get(batch)
            share = each["median_s"] / each.get("items", 1) if each else None
            yield {
                "words": words,
                "core": rows.get(core),
                "openfhe": openfhe,
                "one": one,
                "each": share,
                "peer": peer or "-",
            }


def levelled_note(reports: Reports) -> str:
    """Returns the parameters of the headlines and their sources."""
    return (
        "Medians of single calls, waited for. N=2^16 has 24 primes and log QP 1593 on the core, 28 primes and log QP 1742 on the GPU, "
        "all of 50 bits. OpenFHE and the GPU's peers were measured earlier on similar machines, OpenFHE with log QP 1630 at 2^16. "
        f"Commit {commits(reports)}: {links(reports)}."
    )


LEVELLED_SCREEN = Table(
    columns(
        "CKKS and BGV, at 128 bits: {words} | one core: {core.median_s:time} | OpenFHE with HEXL: {openfhe:time}",
        "one H200: {one.median_s:time} | each of many in one call: {each:time} | peer: {peer}",
    ),
    levelled_rows,
    levelled_note,
)

# A mesh of several devices

#: A first call is listed separately if it takes COLD times as long as the other calls, and the other calls take at least
#: LONG seconds.
COLD, LONG = 1.5, 0.5


def alone_of(rows: Iterable[Row]) -> Alone:
    """Returns the rows of one device without a mesh, by case."""
    return {r["case"]: r for r in rows if r["devices"] == 1 and r.get("layout", "auto") == "auto"}


def faster(row: Row, alone: Alone) -> str:
    """Returns the speed-up over the same case on one device without a mesh."""
    one = alone.get(row["case"])
    return f"{one['median_s'] / row['median_s']:.2f}" if one else "-"


def by_count(rows: list[Row], alone: Alone) -> Lines:
    """Returns workloads by the number of devices in the mesh's own layout: the time and the speed-up over one device."""
    counts = sorted({r["devices"] for r in rows})
    lines = []
    for case in dict.fromkeys(r["case"] for r in rows):
        found = {r["devices"]: r for r in rows if r["case"] == case and r["layout"] == "auto"}
        if not found:
            continue
        what = next(iter(found.values()))["what"]
        times = {n: seconds(r["median_s"]) + (f" ({faster(r, alone)})" if n > 1 else "") for n, r in found.items()}
        lines.append([what, *(times.get(n, "-") for n in counts)])
        if any(r["median_s"] > LONG and r.get("first_s", 0) > COLD * r["median_s"] for r in found.values()):
            first = [seconds(found[n]["first_s"]) if "first_s" in found.get(n, {}) else "-" for n in counts]
            lines.append([f"{what}: the first call of a process", *first])
    heads = [f"{n} GPU{'s' if n > 1 else ''}" for n in counts]
    return markdown(["one call (times faster than one GPU)", *heads], lines)


def placed_columns(head: str, alone: Alone, one: str) -> list[Column]:
    """Returns the columns of operation, devices, layout (`one` without a mesh), times of a call and speed-up over one device."""
    return columns(
        f"{head}: {{what}} | GPUs: {{devices}} | layout: {{layout}}",
        TIMES,
        "times faster: {faster}",
        layout=lambda r: one if r["devices"] == 1 and r["layout"] == "auto" else r["layout"],
        faster=lambda r: faster(r, alone),
    )


MOVED = "exchanges a call: {traffic.exchanges:.3g} | moved a call: {traffic.exchanged_bytes:size} | energy a call: {joules:energy}"
FLOORS = "floor: {floor_s:time} | among many, over floor: {pipe_s/floor_s:.2f}"
SETS = "words: {parameters.edition} | security: {parameters.security}"


def is_one_product(row: Row) -> bool:
    """Returns whether a case is a product of single ciphertexts."""
    return str(row["case"]).startswith("multiply") and "-x1-" in row["case"]


def mesh(reports: Reports) -> Lines:
    """Returns all tables of several devices; files of one machine are joined."""
    every = [r for r in cases(reports) if "devices" in r]
    rows, moves = ([r for r in every if key in r and "skipped" not in r] for key in ("case", "exchange"))
    alone, of_cases = alone_of(rows), [r["case"] for r in rows]
    one = sorted(
        (r for r in rows if is_one_product(r)), key=lambda r: (of_cases.index(r["case"]), r["devices"], r["median_s"])
    )
    what = [r["what"] for r in rows]
    rest = sorted((r for r in rows if not is_one_product(r)), key=lambda r: (what.index(r["what"]), r["devices"]))
    missing = [
        f"Not measured: {r.get('case', 'exchanges')} on {r.get('device', r['devices'])}: {r['skipped']}"
        for r in every
        if "skipped" in r
    ]
    return blocks(
        by_count(rows, alone) if rows else [],
        render([*placed_columns("one ciphertext", alone, "no mesh"), *columns(MOVED)], one),
        render([*placed_columns("what", alone, "-"), *columns(FLOORS, MOVED, SETS)], rest),
        repartitioning(moves),
        exchanging(moves),
        missing,
    )


def rate(row: Row) -> str | None:
    """Returns the rate of an exchange in GB/s."""
    return f"{row['bytes_s'] / 1e9:.3g}" if row["bytes"] else None


EXCHANGE = f"{TIMES} | GB/s: {{rate}}"


def repartitioning(rows: list[Row]) -> Lines:
    """Returns times from rows to columns and back, directly and through the host. Matrices of papers are on the papers' pages."""
    ours = [r for r in rows if r["exchange"] == "repartition" and not r["matrix"].startswith("Figure")]
    key = ("matrix", "what", "devices")
    host = {tuple(r.get(k) for k in key): r for r in reversed(ours) if r["path"] == "host"}
    direct = [r | {"host": host.get(tuple(r[k] for k in key))} for r in ours if r["path"] == "direct"]
    matrix = "{matrix}: {rows} x {columns:,} words of {word_bytes} bytes"
    shapes = [(r["matrix"], r["word_bytes"]) for r in direct]
    of_matrices = columns(
        f"matrix: {matrix} | direction: {{what}} | GPUs: {{devices}} | moved: {{bytes:size}}",
        EXCHANGE,
        "through the host, one call: {host.median_s:time} | among many: {host.pipe_s:time}",
        rate=rate,
    )
    return render(of_matrices, sorted(direct, key=lambda r: shapes.index((r["matrix"], r["word_bytes"]))))


EVERY = "each member its neighbour's"


def exchanging(rows: list[Row]) -> Lines:
    """Returns exchanges by size, and the rates of links without a mesh."""
    fewest = {r["what"]: r["devices"] for r in sorted(rows, key=lambda r: -r["devices"]) if r["exchange"] == "link"}
    if EVERY in fewest:  # the only case that depends on the number of devices
        rows = [r | {"what": f"{EVERY}, of {r['devices']}"} if r.get("what") == EVERY else r for r in rows]
        fewest |= {r["what"]: r["devices"] for r in rows if r["exchange"] == "link" and r["what"].startswith(EVERY)}
    found = [r for r in rows if r["exchange"] == "exchange" and r["devices"] > 1]
    found += [r for r in rows if r["exchange"] == "link" and r["devices"] == fewest[r["what"]]]
    of_sizes = columns(
        "what: {what} | size: {size} | GPUs: {devices} | read: {bytes:size}", EXCHANGE, rate=rate, size=_mebibytes
    )
    return render(of_sizes, found)


def _mebibytes(row: Row) -> str:
    return f"{row['tensor_bytes'] / 2**20:.3g} MiB"


def mesh_screen(reports: Reports) -> Lines:
    """Returns the headlines of several devices: workloads by the number of GPUs."""
    rows = [r for r in cases(reports) if "devices" in r and "skipped" not in r and "case" in r]
    where = f"{machines.gpu(next(iter(reports.values())))}, commit {commits(reports)}"
    note = f"Medians of single calls, waited for, on {where}: {links(reports)}."
    return [*by_count(rows, alone_of(rows)), "", note]


def scaling(reports: Reports) -> Lines:
    """Returns speed-ups by the number of devices, over one device of the same file; then the cases beyond the time limit."""
    parts: list[Lines] = []
    for report in reports.values():
        rows = [r for r in report["results"] if "median_s" in r]
        missing = [
            f"Not measured: {r['case']} on {r['devices']}: {r['skipped']}" for r in report["results"] if "skipped" in r
        ]
        parts += [by_count(rows, {r["case"]: r for r in rows if r["devices"] == 1}), missing]
    return blocks(*parts)


# Two source trees

LIMIT = 1.03


def before_and_after(reports: Reports) -> Lines:
    """Returns a summary of each file, then a row per case."""
    parts: list[Lines] = []
    for name, report in reports.items():
        found = [r for r in report["results"] if "ratio" in r]
        ratios = sorted(r["ratio"] for r in found)
        machine = report["machine"]
        where = f"{machine['device'].split(',')[0]} ({machine['processor']})"
        against = f"commit {commit(report['commit'])} against {commit(report['before_commit'])}"
        median = (ratios[(len(ratios) - 1) // 2] + ratios[len(ratios) // 2]) / 2
        slower = "; ".join(f"{r['what']} {r['ratio']:.3f} ({_turns(r)})" for r in found if r["ratio"] > LIMIT) or "none"
        said = f"{len(found)} cases; now over before {median:.3f} (median), {ratios[0]:.3f} to {ratios[-1]:.3f}"
        parts += [[f"**{name}**: {where}; {against}; {report['date']}"], [f"{said}; above {LIMIT}: {slower}."]]
        parts.append(render(COMPARED, found))
    return blocks(*parts)


COMPARED = columns(
    "what: {what} | before: {before.median_s:time} | now: {after.median_s:time} | now over before: {ratio:.3f}",
    "host before: {before.call_s:time} | host now: {after.call_s:time}",
)


def _turns(row: Row) -> str:
    """Returns the spread of the turns of both trees."""
    spread = (
        f"{seconds(min(row[tree]['turns_s']))} to {seconds(max(row[tree]['turns_s']))}" for tree in ("before", "after")
    )
    return "turns {} before, {} now".format(*spread)


# Two GPUs in words

WORKLOADS = (
    ("hvmul-2^15-x250-w64", "250 multiplications + relinearizations"),
    ("hvadd-2^15-x500-w64", "500 additions"),
    ("hcnn5-2020-w64", "HCNN-5"),
    ("ckks-rescaled-2^16-x16-w64", "16 CKKS products at N=2^16"),
    ("ckks-slice-2^16-x8-w64", "the products of 8 of 64 of them as a slice"),
)
COLOURS = (("hcnn11-all-w64", "at"), ("hcnn11-2020-all-w64", "at the paper's set, which is"))
GATES = (("gates/nand/boolean/x65536", "65,536 gates"), ("table9/2_2/default/16x32", "a 16x16 product of 32-bit integers"))
PROGRAM = "ten-ckks-2^16"


def two_gpus(reports: Reports) -> Lines:
    """Returns a sentence per kind of work. Files in order: workloads, HCNN-11, TFHE on one GPU and on two, programs on one
    GPU and on two.
    """
    work, colours, *others = reports.values()
    names = list(reports)

    def pair(report: Report, case: str) -> tuple[Row, Row]:
        found = {r["devices"]: r for r in report["results"] if r.get("case") == case and r["layout"] == "auto"}
        return found[1], found[2]

    def timed(name: str, one: Row, two: Row) -> str:
        return f"{name} {seconds(two['median_s'])} ({one['median_s'] / two['median_s']:.2f} times one)"

    def first(report: Report, **wanted: Any) -> Row:
        return next(r for r in report["results"] if all(r.get(k) == v for k, v in wanted.items()))

    products = [timed(said, *pair(work, case)) for case, said in WORKLOADS]
    pictures = []
    for case, said in COLOURS:
        one, two = pair(colours, case)
        times = f"{seconds(one['median_s'])} on one and {seconds(two['median_s'])} on two"
        pictures.append(f"{times} {said} {two['parameters']['security']}")
    gates = [timed(said, *(first(report, case=case) for report in others[:2])) for case, said in GATES]
    one, two = (first(report, program=PROGRAM) for report in others[2:])
    gains = f"{one['eager_s'] / two['program_s']:.2f} times one GPU's function, {one['program_s'] / two['program_s']:.2f} times its program"
    recorded = f"{one['what'][0].upper()}{one['what'][1:]}, recorded, {seconds(two['program_s'])} ({gains})"
    return [
        f"- On two H200s, the program unchanged: {', '.join(products)}: {links(names[:1])}.",
        f"- {recorded}: {links(names[4:])}.",
        f"- HCNN-11 on 8,192 encrypted CIFAR-10 images: {', '.join(pictures)} (paper: 11,207 s on eight K80): {links(names[1:2])}.",
        f"- TFHE: {', '.join(gates)}: {links(names[2:4])}.",
    ]


TABLES = {
    "operations": single,
    "cores in short": CORES_SCREEN,
    "GPU in short": GPU_SCREEN,
    "CKKS and BGV in short": LEVELLED_SCREEN,
    "mesh": machines.headed(mesh),
    "mesh in short": mesh_screen,
    "scaling": machines.headed(scaling),
    "before and after": before_and_after,
    "two GPUs": two_gpus,
}
