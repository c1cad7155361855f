"""Markdown of a service's figures, from what benchmarks/serving.py wrote."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

Row = dict[str, Any]
Time = Callable[[float | None], str]
Cell = tuple[str, str, float | None]  # what, time, bytes of memory

FILES = ("xeon167-serving.json", "xeon-serving.json", "zen4-serving.json", "xeon-serving-hostile.json")
#: What happens to connections, and to the service.
_EVENTS = {
    **{"reset": "resets", "close": "closes", "corrupt": "flipped bits", "duplicate": "repeated pieces", "stall": "stalls"},
    **{"restart": "restarts (SIGTERM)", "kill": "kills (SIGKILL)"},
}


def service(reports: dict[str, Row], seconds: Time) -> list[str]:
    """A line for each thing measured."""
    lines = ["| over loopback TLS | time | memory of the service's process | machine | from |", "|---|---|---|---|---|"]
    for name, report in reports.items():
        machine = report["machine"]
        where = f"{machine['cores']} cores ({machine['processor']}), load {report['load']}"
        source = f"[{name}](benchmarks/results/{name}), {report['commit'][:12]}"
        for part, cells in _PARTS.items():
            for what, time, memory in cells(report[part], seconds) if part in report else ():
                shown = f"{memory / 2**20:.0f} MiB" if memory else "-"
                lines.append(f"| {what} | {time} | {shown} | {where} | {source} |")
    return [
        *lines,
        "",
        "Service and clients share the cores. Medians; the library reads the request's bytes, computes and writes the answer's.",
    ]


def _requests(runs: list[Row], seconds: Time) -> Iterator[Cell]:
    for run in runs:
        what = f"one request of {run['model']}, {run['request_bytes'] / 2**20:.2f} MiB"
        yield what, f"{seconds(run['service']['median'])}; by the library {seconds(run['library']['median'])}", None


def _uploads(uploads: Row, seconds: Time) -> Iterator[Cell]:
    whole, cut = uploads["whole"], uploads["cut"]
    yield f"keys of {whole['bytes'] / 1e6:.0f} MB uploaded", seconds(whole["seconds"]), uploads["peak_bytes"]
    yield "the same gone on with after a cut in the middle", seconds(cut["seconds"]), None


def _shared(shared: list[Row], seconds: Time) -> Iterator[Cell]:
    for one in shared:
        what = f"weights of {one['model']}, of the processor's time"
        part = f"products with them {one['products'] / one['call']:.1%} of a call's {seconds(one['call'])}"
        yield what, f"encoded once in {seconds(one['encoded'])}; {part}", None


def _mixed(mixed: Row, seconds: Time) -> Iterator[Cell]:
    what = f"{mixed['users']} users at once, each sending batches of {mixed['images']:,} images, {mixed['model']}"
    rates = f"{mixed['service']:,.0f} images a second; by the library {mixed['library']:,.0f}"
    yield what, f"{rates} ({mixed['service'] / mixed['library']:.0%})", mixed["peak_bytes"]


def _crowd(crowd: Row, seconds: Time) -> Iterator[Cell]:
    what = f"{crowd['clients']} clients at once, {crowd['model']}, for {crowd['seconds']:.0f} s"
    times = f"{crowd['a_second']:.1f} answers a second; median {seconds(crowd['median'])}, p99 {seconds(crowd['p99'])}"
    if killed := crowd.get("killed"):
        what += f", the service killed after {killed['after']:.0f} s and started again"
        lost = crowd["asked"] - crowd["answers"]
        times += f"; of {crowd['asked']:,} calls {lost} without an answer, the longest {seconds(crowd['longest'])}"
    for one in crowd.get("memory", ()):
        times += f"; memory {one['first'] / 2**20:.0f} MiB at first, {one['last'] / 2**20:.0f} at last"
    yield f"{what}; {len(crowd['refused'])} refused", times, crowd["peak_bytes"]


def _cuts(cuts: Row, seconds: Time) -> Iterator[Cell]:
    kinds = ", ".join(f"{cuts['kinds'].get(kind, 0)} {words}" for kind, words in _EVENTS.items())
    asking = f"{cuts['clients']} client{'s ask' if cuts['clients'] > 1 else ' asks'} {cuts['model']}"
    what = f"{cuts['events']:,} events while {asking} and one uploads: {kinds}"
    times = f"median {seconds(cuts['median'])}, the longest {seconds(cuts['longest'])} of {cuts['timeout']:.0f} s"
    lost = f"of {cuts['calls']:,} calls and {cuts['uploads']:,} uploads {len(cuts['lost'])} lost, {cuts['wrong']} wrong"
    yield what, f"{lost}; {times}", None


def _lookups(lookups: Row, seconds: Time) -> Iterator[Cell]:
    library, size = lookups["library"], f"{lookups['bytes'] / 2**30:.3g} GiB of {lookups['row_bytes']} B"
    for crowd in lookups["crowds"]:
        what = f"private look-ups in {size}, {crowd['clients']} {'clients at once' if crowd['clients'] > 1 else 'client'}"
        rates = f"{crowd['a_second']:,.1f} answers a second, {crowd['together']:.1f} a reading"
        times = f"median {seconds(crowd['median'])}, p99 {seconds(crowd['p99'])}"
        own = f"by the library {library['alone']:,.1f} alone, {library['together']:,.1f} by {lookups['together']} together"
        yield f"{what}; {len(crowd['refused'])} refused", f"{rates}; {times}; {own}", lookups["peak_bytes"]


def _hostile(hostile: Row, seconds: Time) -> Iterator[Cell]:
    """The pair in the middle, by the ratio of its p99."""
    pairs = sorted(hostile["pairs"], key=lambda one: one["beside"]["p99"] / one["alone"]["p99"])
    for name, middle in (("alone", pairs[len(pairs) // 2]["alone"]), ("beside", pairs[len(pairs) // 2]["beside"])):
        what = (
            f"{hostile['tenants']} tenants at once, {hostile['model']}, {name}{' a hostile one' if name == 'beside' else ''}"
        )
        times = f"median {seconds(middle['median'])}, p99 {seconds(middle['p99'])}"
        if name == "beside":
            failures = sum(len(one["beside"]["failures"]) for one in pairs)
            times += f"; p99 {hostile['ratio']:.2f} times that alone, the median of {len(pairs)} pairs; {failures} failures"
        yield f"{what}, load {middle['load']:g}", times, hostile["peak_bytes"] if name == "beside" else None


def _large(large: Row, seconds: Time) -> Iterator[Cell]:
    what = f"keys of {large['bytes'] / 1e9:.1f} GB, more than an engine may take, uploaded; the client killed half-way"
    both = f"{seconds(large['cut']['seconds'])} and {seconds(large['rest']['seconds'])}"
    client = max(large[part]["peak_bytes"] for part in ("cut", "rest")) / 2**20
    yield what, f"{both}; the client's memory {client:.0f} MiB", large["peak_bytes"]
    times = (
        f"{seconds(large['session_seconds'])} until they are known to fit, then {seconds(large['second_seconds'])} a request"
    )
    yield f"{large['model']} by these keys, which stay in their file", times, None


_PARTS: dict[str, Callable[[Any, Time], Iterator[Cell]]] = {
    **{"runs": _requests, "uploads": _uploads, "shared": _shared, "mixed": _mixed, "crowd": _crowd, "cuts": _cuts},
    **{"lookups": _lookups, "hostile": _hostile, "large": _large},
}
