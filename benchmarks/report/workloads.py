"""Tables of bootstraps, recorded programs, networks, regressions and ranks."""

from __future__ import annotations

from collections.abc import Iterable

from benchmarks.report import machines
from benchmarks.report.render import Lines, Reports, Table, blocks, cases, columns, commit, link, markdown, render, seconds
from benchmarks.report.results import Row

# Bootstraps


def on_gpu(row: Row) -> bool:
    """Returns whether a row was measured on GPUs. The machine's description does not decide this, because a machine with
    GPUs also has processor cores.

    """
    return str(row["device"]).startswith("cuda")


def place(row: Row) -> str:
    """Returns the number of cores or the GPUs of a row."""
    if on_gpu(row):
        gpu = row["run"]["machine"]["gpu"]
        return f"{row['devices']} {gpu}" if row["devices"] > 1 else str(gpu)
    return machines.cores(row["threads"]) if row.get("threads") else str(row["device"])


def set_name(row: Row) -> str:
    """Returns the parameter set, and the slots if they are fewer than N/2."""
    p = row["parameters"]
    some = p.get("slots", p["n"] // 2) != p["n"] // 2
    return (p["name"] or f"N={p['n']:,}") + (f", {p['slots']:,} slots" if some else "")


def bits(row: Row | None) -> str | None:
    """Returns the mean and the worst precision."""
    return f"{row['mean_bits']:.1f} / {row['worst_bits']:.1f} of {row['ciphertexts']}" if row else None


BOOTSTRAP = columns(
    "where: {place} | set: {set_name} | what: {what} | one call, alone: {median_s:time} | in a row: {pipe_s:time}",
    "each ciphertext: {pipe_s/items:time} | floor: {floor_s:time} | target: {target}",
    "correct bits, mean / worst: {correct} | levels: {levels}",
    place=place,
    set_name=set_name,
    what=lambda r: r["what"].removeprefix("CKKS ").rpartition(", ")[0],
    target=lambda r: seconds(r["asked_s"] if on_gpu(r) and r["devices"] == 1 else None),
    correct=lambda r: bits(r["extra"].get("precision")),
    levels=lambda r: _levels(r["parameters"], "precision" in r["extra"]),
)
KEYS = columns(
    "where: {place} | set: {set_name} | security: {parameters.security}",
    "keys on the device: {extra.keys_bytes:GiB} | in a file: {extra.keys_file_bytes:GiB}",
    "made in: {extra.keys_s:time} | memory of the process: {extra.peak_gib:.1f} GiB",
    place=place,
    set_name=set_name,
)


def _levels(p: Row, bootstrapped: bool) -> str:
    return f"{p['level_before']} to {p['level_after']}" if bootstrapped else str(p["levels"])


def bootstraps(reports: Reports) -> Lines:
    """Returns a row per case, then a row per set of keys, then the cases that were not measured."""
    rows = [r for r in cases(reports) if "what" in r and "skipped" not in r]
    keys: dict[tuple[str, str], Row] = {}
    for row in rows:  # the last case of a set has the process's memory; sets are in the order of their first case
        keys[place(row), set_name(row)] = row
    missing = [f"Not measured: {r['case']} on {r['device']}: {r['skipped']}" for r in cases(reports) if "skipped" in r]
    return blocks(render(BOOTSTRAP, rows), render(KEYS, keys.values()), missing)


# Beside OpenFHE

SIDES = ("ours", "peer")
BESIDE = columns(
    "what: {what} | cores: {threads} | ours: {ours.median_s:time} | OpenFHE: {peer.median_s:time}",
    "times as fast: {ratio:.2f} | target: {target} | ours, over one core: {over_ours:.2f}",
    "OpenFHE, over one core: {over_peer:.2f}",
    target=lambda r: f"{r['asked']:g}" if r["asked"] and r["threads"] == 1 else None,
)
ABOUT = columns(
    "for: {for} | by: {by} | security: {parameters.security} | N: {parameters.n:,}",
    "log Q: {parameters.log_q:.0f} | log QP: {parameters.log_qp:.0f} | scale: 2^{parameters.log_scale:g}",
    "limbs + special: {parameters.limbs} + {parameters.special} | digits: {parameters.digits} | levels: {levels}",
    "correct bits, mean / worst: {correct} | keys made in: {keys_s:time}",
    levels=lambda r: _levels(r["parameters"], r["bootstraps"]),
    correct=lambda r: bits(r.get("precision")),
)


def library(side: str, facts: Row) -> str:
    """Returns the name of a library, with its version."""
    with_hexl = " with HEXL" if facts.get("hexl") else ""
    return "ours" if side == "ours" else f"OpenFHE {facts['version'].removeprefix('v')}{with_hexl}"


def openfhe(reports: Reports) -> Lines:
    """Returns a row per case and number of cores, then a row per library with its parameters."""
    times, about = list[Row](), list[Row]()
    for report in reports.values():
        alone = {r["case"]: r for r in report["results"] if r["threads"] == 1}
        for r in report["results"]:
            one = alone.get(r["case"], r)
            gains = {f"over_{s}": None if one is r else one[s]["median_s"] / r[s]["median_s"] for s in SIDES}
            times.append(r | gains)
        last = {r["bootstraps"]: r for r in report["results"]}  # only bootstraps have a precision
        for bootstraps, r in last.items():
            what = {"bootstraps": bootstraps, "for": "bootstraps" if bootstraps else "the others"}
            about += [r[side] | what | {"by": library(side, r[side])} for side in SIDES]
    parameters = list(dict.fromkeys(render(ABOUT, about)))  # the reports of one set differ only in the number of cores
    return blocks(render(BESIDE, times), parameters)


# Forecasts


def forecast_note(reports: Reports) -> str:
    """Returns the number of forecasts within a factor of two."""
    ratios = [r["forecast_s"] / r["least_s"] for r in cases(reports)]
    off = [max(ratio, 1 / ratio) for ratio in ratios]
    loads = ", ".join(
        f"{report['load']:.1f} (of {report['machine']['cores']} cores, {report['machine']['threads']} used)"
        for report in reports.values()
    )
    near = f"{sum(ratio <= 2 for ratio in off)} of {len(off)} within a factor of two, the worst off by {max(off):.2f}"
    return f"{near}; load of the machine: {loads}."


FORECASTS = Table(
    columns(
        "what: {what} | forecast: {forecast_s:time} | least time: {least_s:time} | median: {median_s:time}",
        "forecast over least: {forecast_s/least_s:.2f}",
    ),
    note=forecast_note,
)

# Regressions


def device(row: Row) -> str:
    """Returns the kind of the device in use."""
    return str(row["run"]["machine"]["device"].partition(",")[0].partition(": ")[2])


HELR = Table(
    columns(
        "where: {device} | rows of: {table}: {rows:,} of {attributes} attributes, {test_rows:,} more for the test",
        "iterations: {iterations} | set: N={n:,}, log QP {log_qp:.0f}, {security} | an iteration: {iteration_s:time}",
        "training: {training_s:time} | inference: {inference_s:time} | AUC encrypted: {encrypted.auc:.4f}",
        "in the clear: {same_steps_in_the_clear.auc:.4f} | converged: {converged.auc:.4f} | file: {file}",
        device=device,
    )
)
HELR_BOOTSTRAP = Table(
    columns(
        "where: {device} | rows of: {table}: {rows:,} of {features} features, {minibatch:,} a minibatch",
        "iterations: {iterations} | bootstraps: {bootstraps}",
        "set: {parameters.name}, log QP {parameters.log_qp:.0f}, {parameters.security}",
        "an iteration: {iteration_s:time} | target: {target} | training: {training_s:time}",
        "accuracy encrypted: {encrypted.accuracy:.2%} | in the clear: {same_steps_in_the_clear.accuracy:.2%}",
        "file: {file}",
        device=device,
        target=lambda r: seconds(r["asked_s"] if "gpu" in r["run"]["machine"] else None),
    )
)

# Networks and queries in small rings

KIND = "N={parameters.n:,}, log q {parameters.log_q:.0f}, {parameters.edition}"
MEMORY = ("bytes_read", "bytes_written")
NETWORKS = columns(
    "network: {network} | set: {KIND} | images a request: {images} | encrypt: {encrypt_s:time} ({encrypt_least_s:time})",
    "classify: {run_s:time} ({run_least_s:time}) | decrypt: {decrypt_s:time} ({decrypt_least_s:time})",
    "correct: {right:,} of {of:,} | logits exact: {exact:all/NO} | noise budget left: {least_noise_bits:.0f} bits",
    "file: {file}",
    KIND=KIND,
)
QUERIES = columns(
    "query: {what} | set: {KIND} | time: {run_s:time} ({run_least_s:time}) | question: {question_bytes:,} bytes",
    "answer: {answer_bytes:,} bytes | exact: {exact:all/NO} | file: {file}",
    KIND=KIND,
)
CYCLES = columns(
    "simulated: {simulated} | set: {KIND} | cycles: {cycles.cycles:,} | by the model: {cycles.predicted:,}",
    "at the assumed clock: {assumed} | memory read, written: {memory} | busiest unit: {busiest}",
    "simulated in: {run_s:time} | file: {file}",
    simulated=lambda r: r["what"] if "query" in r else f"{r['network']}, a request of {min(r['of'], r['images'])}",
    KIND=KIND,
    assumed=lambda r: f"{seconds(r['assumed_clock_s'])} ({r['cycles']['clock'] / 1e6:g} MHz)",
    memory=lambda r: "{:,.1f}, {:,.1f} MB".format(*(r["cycles"][k] / 1e6 for k in MEMORY)),
    busiest=lambda r: busiest(r["cycles"]),
)


def busiest(cycles: Row) -> str:
    """Returns the busiest unit and its share of the cycles."""
    unit = max(cycles["busy"], key=cycles["busy"].get)
    return f"{unit} {cycles['busy'][unit] / cycles['cycles']:.0%}"


def small_rings(reports: Reports) -> Lines:
    """Returns a row per network, then a row per query, with the least time in brackets. Simulated devices have rows of cycles."""
    real, simulated = ([r for r in cases(reports) if ("cycles" in r) == cycles] for cycles in (False, True))
    networks, queries = ([r for r in real if ("query" in r) == query] for query in (False, True))
    return blocks(render(NETWORKS, networks), render(QUERIES, queries), render(CYCLES, simulated))


# Recorded programs

ALONE = columns(
    "what: {what} | calls: {calls} | launches: {launches} | function: {eager_s:time}",
    "its host time: {eager_host_s:time} | program: {program_s:time} | its host time: {program_host_s:time}",
    "function over program: {eager_s/program_s:.2f}",
    launches=lambda r: f"{r['launches']}, a graph" if r["graphs"] else None,
)


def programs(reports: Reports) -> Lines:
    """Returns a row per case. Cases on several GPUs are in separate tables, compared with one GPU."""
    several = {name: report["machine"].get("gpus", 1) > 1 for name, report in reports.items()}
    rows = [r for r in cases(reports) if not several[r["file"]]]
    one = {r["program"]: r for r in rows}
    parts = [render(ALONE, rows)]
    for report in (report for name, report in reports.items() if several[name]):
        beside = columns(
            f"on {report['machine']['gpus']} GPUs: {{what}}",
            "function: {eager_s:time} | program: {program_s:time} | its host time: {program_host_s:time}",
            "times faster than one GPU's function: {one_eager_s/program_s:.2f}",
            "than one GPU's program: {one_program_s/program_s:.2f}",
        )
        found = [(r, one.get(r["program"], {})) for r in report["results"]]
        times = ("eager_s", "program_s")
        parts.append(render(beside, [r | {f"one_{time}": first.get(time) for time in times} for r, first in found]))
    return blocks(*parts)


def schedules(reports: Reports) -> Lines:
    """Returns a row per program: its time on one device, and on several with the speed-up in the same run."""
    counts = sorted({r["devices"] for r in cases(reports)})
    found: dict[str, dict[int, str]] = {}
    for r in cases(reports):
        gain = f" ({r['over_first']:.2f})" if r["devices"] > 1 and "skipped" not in r else ""
        found.setdefault(r["what"], {}).setdefault(r["devices"], "-" if "skipped" in r else seconds(r["program_s"]) + gain)
    lines = [[what, *(times.get(count, "-") for count in counts)] for what, times in found.items()]
    sources = [f"{link(name)}: {r['machine']['gpu']}, commit {commit(r['commit'])}" for name, r in reports.items()]
    return [*markdown(["program", *map(str, counts)], lines), "", f"{'; '.join(sources)}."]


# Programs of instructions

INSTRUCTIONS = columns(
    "what: {what} | instructions, chips: {instructions} | parsed in: {parsed} | run as: {words} | calls: {calls}",
    "bytes moved: {moved} | first run: {first} | replay: {replay_s:time} | its host time: {host_s:time}",
    "over the recorded program: {over}",
)


def _instruction_rows(report: Row) -> Iterable[Row]:
    """Yields a row per case, for its recorded program, and a row per variant."""
    for r in report["results"]:
        p = r["parameters"]
        chips = f"{r['instructions']:,}, {r['chips']}" + (f" {r['switching']}" if r["chips"] > 1 else "")
        what = f"{r['what']} ({p['name'] or f'''{p['limbs']} + {p['special']} primes'''})"
        known = {"what": what, "instructions": chips, "parsed": seconds(r["parse_s"]), "words": "recorded program"}
        yield known | {
            "calls": "",
            "moved": "",
            "first": "",
            "replay_s": r["program_s"],
            "host_s": r["program_host_s"],
            "over": 1,
        }
        for v in r["variants"]:
            words = v["words"] + (f", {v['devices']} devices" if v["devices"] > 1 else "")
            moved = f"{(v['bytes_read'] + v['bytes_written']) / 1e9:.1f} GB"
            fields = {"words": words, "calls": f"{v['calls']:,}", "moved": moved, "first": seconds(v["first_s"])}
            yield (
                v
                | fields
                | dict.fromkeys(("what", "instructions", "parsed"), "")
                | {"over": f"{v['replay_s'] / r['program_s']:.2f}"}
            )


def instructions(reports: Reports) -> Lines:
    """Returns a table per file."""
    parts: list[Lines] = []
    for name, report in reports.items():
        machine = report["machine"]
        where = machine.get("gpu") or machine.get("device") or machine["processor"]
        parts += [[f"{where} ({link(name)}):"], render(INSTRUCTIONS, _instruction_rows(report))]
    return blocks(*parts)


# Ranks

RANKS = columns(
    "batch: {what} | ranks: {count} | time: {median_s:time} | over one: {one_s/median_s:.2f}x",
    "one process of as many devices: {beside_s:time} | ranks over one process: {median_s/beside_s:.2f}",
    "sent to other ranks in a call: {sent_bytes/calls:,.0f} bytes",
)


def is_ranks(report: Row) -> bool:
    """Returns whether a report is of ranks."""
    return any(row.get("form") == "ranks" for row in report["results"])


def ranks(reports: Reports) -> Lines:
    """Returns a table per file, with a row per case and number of ranks."""
    return blocks(*(render(RANKS, rank_rows(report)) for report in reports.values()))


def rank_rows(report: Row) -> list[Row]:
    """Returns the rows of several ranks, by case and number of ranks. Each row also has the times of one rank, and of one
    process with as many devices, for comparison.

    """
    rows = report["results"]
    one = {r["case"]: r["median_s"] for r in rows if r["count"] == 1}
    together = {(r["case"], r["count"]): r["median_s"] for r in rows if r["form"] == "one process"}
    found = [
        r | {"one_s": one[r["case"]], "beside_s": together[r["case"], r["count"]]}
        for r in rows
        if r["form"] == "ranks" and r["case"] in one
    ]
    return sorted(found, key=lambda r: (list(one).index(r["case"]), r["count"]))


def megabytes(count: float) -> str:
    """Formats bytes in MB."""
    return f"{count / 1e6:,.1f} MB" if count else "0"


NETWORK = columns(
    "HCNN-5, as many images as slots, over: {where} | time: {median_s:time}",
    "over one rank: {one_s/median_s:.2f}x | one process of as many devices: {one_s/beside_s:.2f}x",
    "sent in a call: {sent} | from: {file:link}",
    sent=lambda r: megabytes(r["sent_bytes"] / r["calls"]),
)


def network_over_ranks(reports: Reports) -> Lines:
    """Returns a network over ranks: a row per file and number of ranks, and the bytes of each operation, if counted."""
    rows = []
    for name, report in reports.items():
        if not is_ranks(report):
            continue
        what = machines.rank(report)
        core = f" ({report['machine']['processor']})" if what.endswith("thread") else ""
        for row in rank_rows(report | {"results": [r for r in report["results"] if r["case"] == "hcnn5-paper"]}):
            where = f"{row['count']} ranks of {what}{core}, {commit(report['commit'])}"
            rows.append(row | {"where": where, "file": name})
    parts = [render(NETWORK, rows)]
    for row in (row for row in rows if row.get("steps")):
        lines = [
            [
                step["what"],
                f"{step['outputs']}, {megabytes(step['outputs_bytes'])}",
                *(megabytes(step[f"{way}_bytes"]) for way in ("exchanged", "sent")),
            ]
            for step in row["steps"]
        ]
        lines.append(["the first call, with keys and cached images", "", "", megabytes(row["first_sent_bytes"])])
        parts.append(markdown([f"{row['where']}: operation", "its ciphertexts", "moved, as words", "sent"], lines))
    return blocks(*parts)


TABLES = {
    "bootstraps": machines.headed(bootstraps),
    "beside OpenFHE": machines.headed(openfhe),
    "forecasts": machines.headed(FORECASTS),
    "HELR": machines.headed(HELR),
    "HELR with bootstraps": machines.headed(HELR_BOOTSTRAP),
    "small rings": machines.headed(small_rings),
    "programs": machines.headed(programs),
    "schedules": schedules,
    "instructions": machines.headed(instructions),
    "ranks": machines.headed(ranks),
    "network over ranks": network_over_ranks,
}
