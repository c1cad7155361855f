"""Tables of a service, of private look-ups, queries and searches, and of wrong values."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from benchmarks.report import machines
from benchmarks.report.render import Lines, Reports, Table, cases, columns, commit, link, markdown, render, seconds
from benchmarks.report.results import Report, Row


def first(reports: Reports) -> Row:
    """Returns the first case of the first file."""
    row: Row = next(iter(reports.values()))["results"][0]
    return row


def loads(reports: Reports) -> str:
    """Returns the load of each machine before its run."""
    return ", ".join(f"{report['load']:g}" for report in reports.values())


# Look-ups


def best_batch(row: Row) -> str:
    """Returns a text with the highest rate of look-ups in a batch."""
    best = max(row["batches"], key=lambda b: b["questions"] / b["seconds"])
    return f"{best['questions'] / best['seconds']:,.0f}/s, {best['questions']} at once"


def lookup_note(reports: Reports) -> str:
    """Returns the client's times."""
    times = first(reports)["seconds"]
    return (
        f"Look-ups by number; the upload includes keys. The client takes {seconds(times['ask'])} to ask and {seconds(times['read'])} to read. "
        "Medians. The copy rate is NumPy's on the host, reads plus writes."
    )


LOOKUPS = Table(
    columns(
        "look-up on: {look} | table: {table} | answer one: {seconds.answer:time} | read: {bytes/seconds.answer:GB/s}",
        "up: {up_bytes:kB} | down: {down_bytes:kB} | in a batch: {best_batch} | prepare: {seconds.prepare:time}",
        "update a row: {seconds.update:time} | copy rate: {copy_bytes_per_second:GB/s}",
        "from: {file:link}, {run.commit:commit}",
        look=lambda r: machines.engine(r["run"], r["run"]["cores"]),
        table=lambda r: f"{r['bytes'] / 2**30:g} GiB of {r['row_bytes']} B",
        best_batch=best_batch,
    ),
    note=lookup_note,
)


def simplepir_rows(reports: Reports) -> Iterator[Row]:
    """Yields two rows per machine, Heliograph's and SimplePIR's."""
    for row in cases(reports):
        run = row["run"]
        for side, who, at in (("ours", "ours", run["commit"]), ("peer", "SimplePIR's own code", run["peer_commit"])):
            where = f"{who} ({run['machine']['processor']})"
            yield row[side] | {"where": where, "row_bytes": row["row_bytes"], "file": row["file"], "at": at}


def simplepir_note(reports: Reports) -> str:
    """Returns the peer's parameters."""
    of = first(reports)["peer"]["parameters"]
    return (
        f"In turns on the same core, medians; load of the machine before: {loads(reports)}. SimplePIR (ePrint 2022/949): LWE of dimension {of['dimension']:,}, "
        f"modulus 2^{of['log_q']}, deviation {of['deviation']:g}, entries modulo {of['plain_modulus']}; its hint changes with the table."
    )


SIMPLEPIR = Table(
    columns(
        "1 core: {where} | table: {table} | read: {bytes_per_second:GB/s} | answer one: {median_s:time}",
        "hint, once per client: {hint} | up: {up_bytes:kB} | down: {down_bytes:kB} | prepare: {prepare_s:time}",
        "ask: {ask_s:time} | security: {security} | from: {file:link}, {at:commit}",
        table=lambda r: f"{r['table_bytes'] / 2**30:g} GiB of {r['row_bytes']} B",
        hint=lambda r: f"{r['hint_bytes'] / 1e6:.0f} MB" if r["hint_bytes"] else "nothing",
    ),
    simplepir_rows,
    simplepir_note,
)

# Queries and searches


def place(row: Row) -> str:
    """Returns the device and the processor of a case."""
    return machines.engine(row["run"])


def depth(row: Row) -> str:
    """Returns the depth of an encrypted table, from its layout."""
    return next(str(line).split()[1] for line in row["layout"] if line.strip().startswith("depth"))


def query_note(reports: Reports) -> str:
    """Returns the note below a table of queries: number of rows, scheme, and sizes of answer and key."""
    of = first(reports)
    return (
        f"{of['rows']:,} rows, {of['scheme'].upper()}, {of['security']} security; an answer has {of['answer_bytes'] / 2**20:.2f} MiB, the key "
        f"{of['key_bytes'] / 2**20:.1f} MiB. Medians of five answers, the file in the system's cache."
    )


QUERIES = Table(
    columns(
        "Q6 on: {place} | depth: {depth} | table: {file_bytes:GiB} | encrypt: {seconds.encrypt:time}",
        "load: {seconds.load:time} | answer: {seconds.answer:time} | decrypt: {seconds.decrypt:time}",
        "peak memory of owner and server: {peak_bytes:MiB} | from: {file:link}, {run.commit:commit}",
        place=place,
        depth=depth,
    ),
    note=query_note,
)


def integer_note(reports: Reports) -> str:
    """Returns the parameters and the number of answers."""
    of = first(reports)
    return (
        f"{of['security']} security, {of['parameters'].strip('<>')}; medians of {len(of['answers'])} answers; "
        f"load of the machine before: {loads(reports)}."
    )


INTEGERS = Table(
    columns(
        "Q6 by TFHE on: {place} | rows: {rows:,} | table: {file_bytes:kB} | key: {key}",
        "encrypt: {seconds.encrypt:time} | answer: {seconds.answer:time} | a row: {seconds.answer/rows:time}",
        "forecast: {forecast:time} | decrypt: {seconds.decrypt:time} | from: {file:link}, {run.commit:commit}",
        place=place,
        key=lambda r: f"{r['key_bytes'] / 2**20:.1f} MiB",
    ),
    note=integer_note,
)


def frame_note(reports: Reports) -> str:
    """Returns rows, columns and bytes."""
    of = first(reports)
    return (
        f"{of['rows']:,} rows, {next(iter(reports.values()))['parameters']['columns']} columns, {of['frame_bytes'] / 2**20:.1f} MiB encrypted; sets, keys and "
        f"encryption take {of['prepared']:.2f} s. Medians of five calls, the answer written as a file's bytes; load of the machine before: "
        f"{loads(reports)}."
    )


FRAMES = Table(
    columns(
        "statistic: {statistic} | largest error: {error:.1e} | server: {server_seconds:time} | owner: {owner_seconds:time}",
        "answer: {answer_bytes:MiB} | on: {place} | from: {file:link}, {run.commit:commit}",
        place=place,
    ),
    note=frame_note,
)


def function_note(reports: Reports) -> str:
    """Returns the set and the load."""
    of = next(iter(reports.values()))["parameters"]
    return (
        f"Set {of['name']}, {of['slots']:,} slots, {of['security']} security; largest errors are those of all slots. Medians of {first(reports)['calls']} "
        f"calls; load of the machine before: {loads(reports)}."
    )


FUNCTIONS = Table(
    columns(
        "function: {function} | options: {options} | interval: {between} | promised error: {promised} | largest error: {largest}",
        "levels: {used} | bootstraps: {bootstraps} | one call: {seconds:time} | on: {place} | from: {file:link}, {run.commit:commit}",
        place=place,
        between=lambda r: f"[{r['interval'][0]:g}, {r['interval'][1]:g}]",
        promised=lambda r: f"2^{r['log2_promised']:.1f}",
        largest=lambda r: f"2^{r['log2_largest']:.1f}",
        used=lambda r: "-" if r["levels"] is None else str(r["levels"]),
    ),
    note=function_note,
)


def beside_note(reports: Reports) -> str:
    """Returns the peer's version and build, the error, and the load."""
    of, run = first(reports), next(iter(reports.values()))
    return (
        f"OpenFHE {of['peer']['version'].removeprefix('v')}, {run['build']}. Both sides have {of['peer']['parameters']['security']} security. Medians of "
        f"calls in turns; load of the machine: {', '.join(str(r['load']) for r in cases(reports))}."
    )


BESIDE_OPENFHE = Table(
    columns(
        "function: {what} | ours: {ours_function} | OpenFHE: {peer_function} | cores: {threads}",
        "N, ours and OpenFHE: {sizes} | largest error, ours: {own} | OpenFHE: {theirs}",
        "ours: {ours.median_s:time} | OpenFHE: {peer.median_s:time} | times as fast: {ratio:.1f} | from: {file:link}, {run.commit:commit}",
        sizes=lambda r: f"2^{math.log2(r['ours']['parameters']['n']):.0f}, 2^{math.log2(r['peer']['parameters']['n']):.0f}",
        own=lambda r: f"2^{r['ours']['log2_error']:.1f}",
        theirs=lambda r: f"2^{r['peer']['log2_error']:.1f}",
    ),
    note=beside_note,
)


def order_note(reports: Reports) -> str:
    """Returns the number of calls and the load."""
    return (
        f"Medians of {first(reports)['calls']} calls, all results compared with clear ones. The processor's time is the sum of all threads. Load of the "
        f"machine: {', '.join(str(r['load']) for r in cases(reports))}."
    )


ORDERS = Table(
    columns(
        "case: {what} | set: {set} | values: {values:,} | promised error: {promised} | largest error: {largest} | bootstraps: {bootstraps}",
        "one call: {seconds:time} | processor: {cpu_seconds:time} | on: {place} | from: {file:link}, {run.commit:commit}",
        place=place,
        promised=lambda r: f"2^{r['log2_promised']:.1f}",
        largest=lambda r: f"2^{r['log2_largest']:.1f}",
    ),
    note=order_note,
)


def vector_note(reports: Reports) -> str:
    """Returns rows and sizes."""
    of = first(reports)
    return (
        f"{of['rows']:,} rows of {of['dimension']} components, {of['security']} security. Up: keys of {of['key_bytes'] / 1e6:.2f} MB once, "
        f"{of['question_bytes'] / 1e3:.0f} kB a vector; down: {of['answer_bytes'] / 1e6:.2f} MB. Medians, the answer written as a file's bytes; all scores are "
        f"compared with NumPy's: recall is 1."
    )


VECTORS = Table(
    columns(
        "on: {place} | prepare all: {seconds.index:time} | encrypt a vector: {seconds.encrypt:time}",
        "all scores: {seconds.scores:time} | of 4 vectors at once: {seconds.together:time}",
        "write the answer: {seconds.write:time} | open, find 10: {seconds.nearest:time}",
        "prepared: {prepared_bytes:GiB} | from: {file:link}, {run.commit:commit}",
        place=place,
    ),
    note=vector_note,
)

# A service

Cell = tuple[str, str, float | None]  # measurement, time, bytes of memory
#: Names of the events that the measurement injects into connections and the service.
EVENTS = {
    **{"reset": "resets", "close": "closes", "corrupt": "flipped bits", "duplicate": "repeated pieces", "stall": "stalls"},
    **{"restart": "restarts (SIGTERM)", "kill": "kills (SIGKILL)"},
}


def _request(run: Row) -> Iterator[Cell]:
    what = f"one request of {run['model']}, {run['request_bytes'] / 2**20:.2f} MiB"
    yield what, f"{seconds(run['service']['median'])}; by the library {seconds(run['library']['median'])}", None


def _uploads(uploads: Row) -> Iterator[Cell]:
    whole, cut = uploads["whole"], uploads["cut"]
    yield f"keys of {whole['bytes'] / 1e6:.0f} MB uploaded", seconds(whole["seconds"]), uploads["peak_bytes"]
    yield "the same, resumed after a disconnect in the middle", seconds(cut["seconds"]), None


def _shared(one: Row) -> Iterator[Cell]:
    part = f"products with them {one['products'] / one['call']:.1%} of a call's {seconds(one['call'])}"
    yield f"weights of {one['model']}, processor time", f"encoded once in {seconds(one['encoded'])}; {part}", None


def _mixed(mixed: Row) -> Iterator[Cell]:
    what = f"{mixed['users']} users at once, each sending batches of {mixed['images']:,} images, {mixed['model']}"
    rates = f"{mixed['service']:,.0f} images a second; the library alone {mixed['library']:,.0f}"
    yield what, f"{rates} ({mixed['service'] / mixed['library']:.0%})", mixed["peak_bytes"]


def _crowd(crowd: Row) -> Iterator[Cell]:
    what = f"{crowd['clients']} clients at once, {crowd['model']}, for {crowd['seconds']:.0f} s"
    times = f"{crowd['a_second']:.1f} answers a second; median {seconds(crowd['median'])}, p99 {seconds(crowd['p99'])}"
    if killed := crowd.get("killed"):
        what += f", the service killed after {killed['after']:.0f} s and started again"
        lost = crowd["asked"] - crowd["answers"]
        times += f"; of {crowd['asked']:,} calls {lost} without an answer, the longest {seconds(crowd['longest'])}"
    for one in crowd.get("memory", ()):
        times += f"; memory {one['first'] / 2**20:.0f} MiB initially, {one['last'] / 2**20:.0f} finally"
    yield f"{what}; {len(crowd['refused'])} refused", times, crowd["peak_bytes"]


def _cuts(cuts: Row) -> Iterator[Cell]:
    kinds = ", ".join(f"{cuts['kinds'].get(kind, 0)} {words}" for kind, words in EVENTS.items())
    asking = f"{cuts['clients']} client{'s ask' if cuts['clients'] > 1 else ' asks'} {cuts['model']}"
    what = f"{cuts['events']:,} events while {asking} and one uploads: {kinds}"
    times = f"median {seconds(cuts['median'])}, the longest {seconds(cuts['longest'])} of {cuts['timeout']:.0f} s"
    lost = f"of {cuts['calls']:,} calls and {cuts['uploads']:,} uploads {len(cuts['lost'])} lost, {cuts['wrong']} wrong"
    yield what, f"{lost}; {times}", None


def _lookups(lookups: Row) -> Iterator[Cell]:
    library, size = lookups["library"], f"{lookups['bytes'] / 2**30:.3g} GiB of {lookups['row_bytes']} B"
    for crowd in lookups["crowds"]:
        what = f"private look-ups in {size}, {crowd['clients']} {'clients at once' if crowd['clients'] > 1 else 'client'}"
        rates = f"{crowd['a_second']:,.1f} answers a second, {crowd['together']:.1f} per batch"
        times = f"median {seconds(crowd['median'])}, p99 {seconds(crowd['p99'])}"
        own = f"the library {library['alone']:,.1f} alone, {library['together']:,.1f} in batches of {lookups['together']}"
        yield f"{what}; {len(crowd['refused'])} refused", f"{rates}; {times}; {own}", lookups["peak_bytes"]


def _hostile(hostile: Row) -> Iterator[Cell]:
    """Yields the median pair of phases, by the ratio of the 99th percentiles."""
    pairs = sorted(hostile["pairs"], key=lambda one: one["beside"]["p99"] / one["alone"]["p99"])
    for name, middle in (("alone", pairs[len(pairs) // 2]["alone"]), ("beside", pairs[len(pairs) // 2]["beside"])):
        what = f"{hostile['tenants']} tenants at once, {hostile['model']}, {name}{' a hostile tenant' if name == 'beside' else ''}"
        times = f"median {seconds(middle['median'])}, p99 {seconds(middle['p99'])}"
        if name == "beside":
            failures = sum(len(one["beside"]["failures"]) for one in pairs)
            times += f"; p99 {hostile['ratio']:.2f} times that alone, the median of {len(pairs)} pairs; {failures} failures"
        yield f"{what}, load {middle['load']:g}", times, hostile["peak_bytes"] if name == "beside" else None


def _large(large: Row) -> Iterator[Cell]:
    what = f"keys of {large['bytes'] / 1e9:.1f} GB, more than an engine's memory limit, uploaded; the client killed half-way"
    both = f"{seconds(large['cut']['seconds'])} and {seconds(large['rest']['seconds'])}"
    client = max(large[part]["peak_bytes"] for part in ("cut", "rest")) / 2**20
    yield what, f"{both}; the client's memory {client:.0f} MiB", large["peak_bytes"]
    times = f"{seconds(large['session_seconds'])} until the engine has checked that they fit, then {seconds(large['second_seconds'])} a request"
    yield f"{large['model']} by these keys, which stay in their file", times, None


#: Cells of each measurement, in the order of the page.
PARTS: dict[str, Callable[[Any], Iterator[Cell]]] = {
    **{"runs": _request, "uploads": _uploads, "shared": _shared, "mixed": _mixed, "crowd": _crowd, "cuts": _cuts},
    **{"lookups": _lookups, "hostile": _hostile, "large": _large},
}


def service_rows(reports: Reports) -> Iterator[Row]:
    """Yields a row per measurement, file by file."""
    for name, report in reports.items():
        machine = report["machine"]
        where = f"{machine['cores']} cores ({machine['processor']}), load {report['load']}"
        for row in sorted(report["results"], key=lambda row: list(PARTS).index(row["part"])):
            for what, time, memory in PARTS[row["part"]](row):
                yield {"what": what, "time": time, "memory": memory or None, "where": where, "file": name, "run": report}


SERVICE = Table(
    columns(
        "over loopback TLS: {what} | time: {time} | memory of the service's process: {memory:MiB} | machine: {where}",
        "from: {file:link}, {run.commit:commit}",
    ),
    service_rows,
    lambda _: (
        "Service and clients share the cores. Times are medians. The library reads the request's bytes, computes, and writes the answer's."
    ),
)

# Wrong and refused values

KNOWN = {
    "process": "known in the process, nothing through files",
    "said": "a bound given: the next power of two",
    "nothing": "no bound given: `Parameters.bound`",
}
#: log2 of the rooms (largest magnitudes that fit).
ROOMS = ((0, 13), (13, 26), (26, 36), (36, 99))
RANGES = columns(
    "inputs: {what} | computations: {runs:,} | wrong without an error: {wrong:,} | correct, refused: {correct}",
    "beyond the room, refused: {beyond the room, refused:,} | refused at encryption: {unencrypted:,}",
    correct=lambda c: _part(c["refused"], c["right"] + c["refused"]),
)
CHAINS = columns(
    "chains of 1 to 10 bootstraps, one asserted range: {what} | chains: {runs}",
    "wrong without an error: {wrong, not refused} | wrong and refused: {wrong} | correct and refused: {correct}",
    wrong=lambda c: str(c["wrong"] - c["wrong, not refused"]),
    correct=lambda c: str(c["refused"] - c["wrong"] + c["wrong, not refused"]),
)
COUNTS = ("right", "wrong", "refused", "beyond the room, refused", "unencrypted", "wrong, not refused")


def _part(count: int, of: int) -> str:
    return f"{count:,} of {of:,} ({100 * count / max(1, of):.2f}%)"


def _sum(what: str, rows: Iterable[Row]) -> Row:
    total = Counter[str](dict.fromkeys(COUNTS, 0))
    for row in rows:
        total.update({"runs": row["runs"], **row["counts"]})
    return {"what": what, **total}


def ranges(reports: Reports) -> Lines:
    """Returns the tables of results: by the source of input ranges, by room, by named parameter set, and of chains of bootstraps."""
    ((name, report),) = reports.items()
    computations, chains = ([r for r in report["results"] if r["kind"] == kind] for kind in ("computations", "chains"))
    default, named = ([r for r in computations if r["sets"] == which] for which in ("default", "named"))
    rows = [_sum(words, [r for r in default if r["known"] == known]) for known, words in KNOWN.items()]
    for low, high in ROOMS:
        if some := [r for r in default if low <= r["room"] < high]:
            least, most = (pick(r["room"] for r in some) for pick in (min, max))
            rows.append(_sum(f"rooms of 2^{least:g} to 2^{most:g}", some))
    for r in named:
        source = KNOWN[r["known"]].partition(":")[0].partition(",")[0]
        rows.append(_sum(f"{r['name']}, room 2^{r['room']:g}: {source}", [r]))
    sums = []
    for behind, words in sorted({(r["zeros_behind"], r["word_too_small"]) for r in chains}):
        where = "zeros behind the values" if behind else "all places are values"
        word = "true" if words == 1 else f"{words} times too small"
        some = [r for r in chains if (r["zeros_behind"], r["word_too_small"]) == (behind, words)]
        sums.append(_sum(f"{word}, {where}", some))
    return [
        *[*render(RANGES, rows), "", *render(CHAINS, sums), ""],
        f"From {link(name)}, {commit(report['commit'])}: sets of 128 bits, with 4 to 4,096 slots. "
        "A value counts as wrong if its error exceeds 2^-8 of the largest value.",
    ]


def _most(rows: list[Row], what: str) -> str:
    values = [row["off"][what] for row in rows if what in row["off"]]
    return f"{max(values):.1e}" if values else "-"


def estimators(reports: Reports) -> Lines:
    """Returns the numbers of correct, refused and wrong cases, and the largest differences."""
    ((name, report),) = reports.items()
    heads = ["estimators and options", "cases", "wrong without an error", "largest difference: decision values"]
    heads += ["probabilities", "predictions of numbers", "other classes"]
    lines = []
    for words, exact in (
        ("linear, and perceptrons without a polynomial", True),
        ("perceptrons with polynomials of degree 7", False),
    ):
        taken = [row for row in report["results"] if "off" in row and row["exact"] == exact]
        wrong = sum(row["kind"] == "wrong" for row in taken)
        most = (_most(taken, what) for what in ("decision_function", "predict_proba", "predict", "classes"))
        lines.append([words, str(len(taken)), str(wrong), *most])
    refused = sum("error" in row for row in report["results"])
    return [
        *markdown(heads, [*lines, ["refused by a typed error", str(refused), *["-"] * 5]]),
        "",
        f"From {link(name)}, {commit(report['commit'])}, scikit-learn {report['scikit_learn']}: encrypted, by a client without the weights. "
        "A case counts as wrong if it differs by more than its report states and by more than 2^-20. Differences of exponentials are relative where they are above 1.",
    ]


TABLES: dict[str, Callable[[dict[str, Report]], Lines]] = {
    "look-ups": LOOKUPS,
    "beside SimplePIR": SIMPLEPIR,
    "frames": FRAMES,
    "functions": FUNCTIONS,
    "functions beside OpenFHE": BESIDE_OPENFHE,
    "orders": ORDERS,
    "queries": QUERIES,
    "queries with TFHE": INTEGERS,
    "vectors": VECTORS,
    "service": SERVICE,
    "ranges": ranges,
    "estimators": estimators,
}
