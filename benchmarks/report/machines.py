"""Texts that describe the machines of results."""

from __future__ import annotations

from benchmarks.report.render import Lines, Reports, Writer, commit
from benchmarks.report.results import Report, Row

#: Names of AMD's generations by the prefix of the file's name, because /proc/cpuinfo does not distinguish them.
GENERATIONS = {"zen4": "AMD EPYC (Zen 4)", "zen5": "AMD EPYC (Zen 5)"}


def processor(machine: Row, name: str = "") -> str:
    """Returns a short name of the processor. `name` is the file's name; it distinguishes AMD's generations. For Intel's
    processors, the short name has a model number.
    """
    known = GENERATIONS.get(name.partition("-")[0].removesuffix(".jsonl"))
    vendor, _, model = str(machine.get("family", "")).partition(" family ")
    model = f" (model {model.rpartition(' ')[2]})" if vendor == "GenuineIntel" else ""
    return known or str(machine["processor"]).replace("(R)", "").removesuffix(" Processor") + model


def gpu(report: Report) -> str:
    """Returns the GPU, its memory and its driver."""
    machine = report["machine"]
    if not machine.get("gpu"):
        return str(machine.get("device", "?"))
    several = f"{machine['gpus']} " if machine.get("gpus", 1) > 1 else ""
    return f"{several}{machine['gpu']}, {machine['gpu_memory_gib']:.0f} GiB, driver {machine['gpu_driver']}"


def cores(threads: int) -> str:
    """Returns a text such as "2 cores"."""
    return f"{threads} core{'s' if threads > 1 else ''}"


def busy(load: float, threads: int, machine: Row) -> bool:
    """Returns whether the load of other processes exceeded one thread and half of the free cores."""
    return bool(load - threads > max(1.0, (machine.get("cores", 0) - threads) / 2))


def engine(report: Report, threads: int | None = None) -> str:
    """Returns the GPU of the engine, or the number of cores, with the processor."""
    machine, device = report["machine"], report["engine"]["device"]
    count = threads or machine["cores"]
    where = device.split(",")[0].removeprefix("cuda: ") if device.startswith("cuda") else f"{count} core{'s'[: count > 1]}"
    return f"{where} ({machine['processor']})"


def rank(report: Report) -> str:
    """Returns the name of the ranks' first device."""
    return str(report["machine"]["ranks"][0]).partition(": ")[2].partition(",")[0]


def heading(name: str, report: Report) -> str:
    """Returns a text with machine, commit and date of a results file."""
    machine, where = report["machine"], ""
    host = f"{machine['processor']}, {machine['cores']} cores, {machine['memory_gib']} GiB"
    end = f"; commit {commit(report['commit'])}; {report['date']}"
    if "ranks" in machine:
        return f"**{name}**: {rank(report)} (host: {host}){end}"
    doublecrt = str(report.get("kind", "")).startswith("doublecrt")
    if "gpu" in machine or (not doublecrt and any("pipe_s" in r or "devices" in r for r in report["results"])):
        return f"**{name}**: {gpu(report)} (host: {host}){end}"
    load = report.get("load") or []
    where = f"; load {' to '.join(map(str, load if isinstance(load, list) else [load]))}" if load else ""
    return f"**{name}**: {host}{end}{where}"


def headed(writer: Writer) -> Writer:
    """Returns a function that writes the headings of all files before the table."""

    def lines(reports: Reports) -> Lines:
        return [line for name, report in reports.items() for line in (heading(name, report), "")] + writer(reports)

    return lines
