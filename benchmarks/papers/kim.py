"""Tables of docs/papers/kim-2025.md: the thesis's numbers as published, and Heliograph's."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from statistics import median

from benchmarks.report.render import ROOT, Lines, Reports, columns, commit, link, markdown, render, seconds
from benchmarks.report.results import Report, Row

CASE = "bootstrap-28"
#: Milliseconds on an A30, as printed, or computed from the printed ratios. Two A30 GPUs are 9.87 times as fast as the
#: baseline.
BASELINE, GRAPH, FUSED, HINTED, TWO, PROCESSOR = 1450, 400, 400 / 1.43, 400 / 1.43 / 1.2, 1450 / 9.87, 33000
WORKBENCH = "workbench/results/"


def cards_of(names: Iterable[str]) -> tuple[str, ...]:
    """Returns the GPUs named by result files, the H200 and the H100 first; processors are excluded."""
    found = {
        match[1]
        for name in names
        if (match := re.fullmatch(r"([a-z]+\d+[a-z]*?)(?:x\d+)?-(?:instructions|steps|timeline)\.jsonl", name))
    }
    first = ("h200", "h100")
    return (*first, *sorted(card for card in found if card not in first and not card.startswith(("zen", "xeon"))))


def named(reports: Reports, pattern: str) -> str | None:
    """Returns the file of the first card for a pattern such as "{}-steps.jsonl"."""
    return next((name for card in cards_of(reports) if (name := pattern.format(card)) in reports), None)


def needed(reports: Reports, pattern: str) -> str:
    """Returns the file of the first card for a pattern. Raises SystemExit if no card has such a file."""
    if name := named(reports, pattern):
        return name
    raise SystemExit(f"no file {pattern.format('CARD')}")


def one(reports: Reports) -> str:
    """Returns the file of programs on one GPU."""
    return needed(reports, "{}-instructions.jsonl")


def processor(reports: Reports) -> str:
    """Returns the file of programs on cores."""
    return next(name for name in sorted(reports) if re.fullmatch(r"(xeon|zen).*-instructions\.jsonl", name))


def several(reports: Reports) -> Iterator[tuple[str, str, int]]:
    """Yields the files of one GPU and of several of its kind, and their number, in the order of preference."""
    for count in (2, 3, 4, 8):
        for card in cards_of(reports):
            pair = f"{card}-steps.jsonl", f"{card}x{count}-steps.jsonl"
            if all(name in reports for name in pair):
                yield (*pair, count)


def sources(reports: Reports, *names: str | None) -> str:
    """Returns the sources of numbers: machine, commit, file."""
    words = []
    for name in dict.fromkeys(filter(None, names)):
        report = reports[name]
        machine: Row = report.get("machine") or report["settings"]
        card = machine.get("gpu") or machine.get("device") or machine["processor"]
        words.append(f"{card}, {commit(report.get('commit') or machine['commit'])} ({link(name)})")
    return f"Ours: {'; '.join(words)}."


def case_of(report: Report) -> Row:
    """Returns the row of the bootstrap in a report."""
    row: Row = next(r for r in report["results"] if r["program"] == CASE)
    return row


def replay(report: Report, variant: str) -> float | None:
    """Returns the median over all rows of a variant: a file may have a variant more than once."""
    times = [v["replay_s"] for v in case_of(report)["variants"] if v["variant"] == variant]
    return median(times) if times else None


def moved(report: Report, variant: str) -> float:
    """Returns a text with the bytes that a variant's kernels read and write."""
    found = next(v for v in case_of(report)["variants"] if v["variant"] == variant)
    return float(found["bytes_read"] + found["bytes_written"])


def arithmetic(reports: Reports) -> tuple[str, str] | None:
    """Returns the results file of FP64 arithmetic, and that of integer arithmetic for comparison."""
    name = named(reports, "{}-instructions-fp64.jsonl")
    beside = (name.replace("-fp64", "-integer"), name.replace("-fp64", "")) if name else ()
    other = next((one for one in beside if one in reports), None)
    return (name, other) if name and other else None


def steps(reports: Reports) -> Lines:
    """Returns Figure 5.1: the time of each step, and its gain over the previous step."""
    file, hints = one(reports), needed(reports, "{}-instructions-hints.jsonl")
    names = ("calls", "stream", "branches", "fused", "merged", "all")
    calls, stream, branches, fused, merged, everything = (replay(reports[file], v) or 0.0 for v in names)
    plain, hinted = (replay(reports[hints], v) or 0.0 for v in ("all-plain", "all"))
    traffic = moved(reports[file], "fused") / moved(reports[file], "branches")
    lines = [
        ["kernel by kernel", f"{BASELINE} ms", "", seconds(calls), "", ""],
        ["a graph in sequence", f"{BASELINE / 1.58:.0f} ms", "1.58", seconds(stream), f"{calls / stream:.2f}",
         "a kernel of one limb takes 3 to 4 us on this GPU however it is launched, so a graph saves only host time"],
        ["a graph with branches", f"{GRAPH} ms", "2.3", seconds(branches), f"{stream / branches:.2f}",
         "one limb fills a small part of this GPU, so more kernels run concurrently"],
        ["element-wise kernels fused", "", "", seconds(fused), f"{branches / fused:.2f}",
         f"a sum of products of any length is one kernel (ADR 23): the traffic falls to {traffic:.0%}"],
        ["similar kernels merged instead", "", "", seconds(merged), f"{branches / merged:.2f}",
         "all ready actions of a step are one launch, transforms and others"],
        ["fused and merged (the thesis's fusion)", f"{FUSED:.0f} ms", "1.43", seconds(everything), f"{branches / everything:.2f}",
         "both of the above; the thesis merges only transforms"],
        ["cache hints", f"{HINTED:.0f} ms", "1.2", f"{seconds(hinted)}, without {seconds(plain)}", f"{plain / hinted:.2f}",
         "fused sums read few words twice, and this GPU has a larger L2"],
    ]  # fmt: skip
    both, triton = arithmetic(reports), named(reports, WORKBENCH + "{}-sums-triton.jsonl")
    if both:
        real, integer = (replay(reports[name], "all") or 0.0 for name in both)
        why = "transforms and sums, without casts; conversions between bases use integers"
        times = f"{seconds(real)}, with integers {seconds(integer)}"
        lines.append(["FP64 arithmetic", "slower by 1.5", "0.67", times, f"{integer / real:.2f}", why])
    if triton:
        ways = {r["way"]: r["seconds"] for r in reports[triton]["results"]}
        graph, each = ways["cuda-calls-graph"] / ways["triton-calls-graph"], ways["cuda-table"] / ways["triton-fused"]
        times = f"{seconds(ways['triton-calls'])}, in CUDA {seconds(ways['cuda-calls'])}"
        gain = f"{ways['cuda-calls'] / ways['triton-calls']:.2f}"
        why = f"only sums of products; as a graph {graph:.2f}, and as one kernel each {each:.2f}"
        what = "Triton for CUDA, one kernel per instruction"
        lines.append([what, "slower by 1.2 to 1.4", "0.71 to 0.83", times, gain, why])
    heads = ["step", "thesis, A30", "over the step before", "ours", "over the step before", "why it differs"]
    return [*markdown(heads, lines), "", sources(reports, file, hints, *(both or ()), triton)]


def picture(name: str, words: str) -> Lines:
    """Returns a picture if it exists."""
    return [f"![{words}](../pictures/{name})", ""] if (ROOT / "docs" / "pictures" / name).is_file() else []


GAPS = columns(
    "run as: {words} | replay: {replay_s:time} | kernels: {kernels:,} | median kernel: {median_kernel_s:time}",
    "no kernel runs: {idle} | kernels at once: {running_at_once:.1f}",
    idle=lambda r: f"{max(0.0, r['idle_share_of_replay']):.0%}",
)


def gaps(reports: Reports) -> Lines:
    """Returns Figure 5.2: shares of time without a running kernel."""
    name = named(reports, "{}-timeline.jsonl")
    if name is None:
        return []
    shown = picture("timeline.svg", "kernels over time: kernel by kernel, as graphs, merged and fused")
    note = f"Shares relate to the time of an unprofiled run; kernel times are the profiler's. {sources(reports, name)}"
    return [*shown, *render(GAPS, reports[name]["results"]), "", note]


def roofline(reports: Reports) -> Lines:
    """Returns Figure 5.3: kernels of a transform by radix."""
    name = named(reports, WORKBENCH + "{}-roofline.json")
    if name is None:
        return []
    found = reports[name]
    roofs = {r["what"]: r["per_second"] for r in found["roofs"]}

    def share(of: str, roof: str) -> Callable[[Row], str]:
        return lambda r: f"{r[of] / roofs[roof]:.0%}"

    rates = share("operations_per_second", "forward butterfly")
    of_kernels = columns(
        "kernel: {kernel} | stage: {stage} | time: {seconds:time}",
        "operations a second, share of the ceiling: {operations} | DRAM, share of a copy: {dram}",
        "L2, share of a copy: {cached}",
        kernel=lambda r: f"{'the product, ' if r['kernel'] == 'product' else ''}radix {r['radix']}",
        stage=lambda r: str(r["stage"][-1]),
        operations=lambda r: f"{r['operations_per_second'] / 1e12:.1f} T, {rates(r)}",
        dram=share("dram_bytes_per_second", "copy in DRAM"),
        cached=share("l2_bytes_per_second", "copy in L2"),
    )
    bytes_by = "counted by ncu, caches empty" if found["settings"]["counted"] else "by theory"
    said = f"{found['settings']['limbs']} limbs per launch, bytes {bytes_by}. The ceiling is the rate of butterflies in registers."
    shown = picture("roofline.svg", "operations a second over operations a byte, by radix and stage")
    return [*shown, *render(of_kernels, found["kernels"]), "", f"{said} {sources(reports, name)}"]


def scaling(reports: Reports) -> Lines:
    """Returns the lines of Figure 5.4, times on several GPUs."""
    lines, used = [], list[str]()
    for variant, words, theirs, two in (
        ("branches", "a graph with branches", 2.10, GRAPH / 2.10),
        ("all", "everything on", 1.64, TWO),
    ):
        for single, more, count in several(reports):
            before, after = replay(reports[single], variant), replay(reports[more], variant)
            if before is None or after is None:
                continue
            printed = [f"{two:.0f} ms", f"{theirs:.2f}"] if count == 2 else ["", ""]
            card = reports[more]["machine"].get("gpu", "")
            lines.append([words, str(count), *printed, seconds(after), f"{before / after:.2f}", card])
            used += [single, more]
    heads = ["program", "GPUs", "thesis, A30", "over one", "ours", "over one", "GPU"]
    return [*markdown(heads, lines), "", sources(reports, *used)]


def loads(reports: Reports) -> Lines:
    """Returns the table of exchanges between two chips, by each method."""
    exchanges = needed(reports, WORKBENCH + "{}x2-chip-exchanges.json")
    found = reports[exchanges]["exchanges"]
    lines = []
    words = {"dis": "each has half of {} limbs and gets the other", "joi": "each adds up half of {} limbs"}
    for instruction, what in words.items():
        for limbs in (2, 16, 64):
            row = [r for r in found if (r["instruction"], r["limbs"]) == (instruction, limbs)]
            times = [seconds(r.get("seconds_in_a_graph", r["seconds"])) for r in row]
            lines.append([f"`{instruction}`: {what.format(limbs)}", *times])
    both = [needed(reports, f"{{}}x2-{what}.jsonl") for what in ("peer", "host")]
    peer, host = (seconds(replay(reports[name], "all")) for name in both)
    said = (
        f"Limbs of 2^16 words of 4 bytes; in graphs, except with pageable host memory. The bootstrap of figure 5.4 takes {peer} with peer loads, and "
        f"{host} without peer access (`HELIOGRAPH_PEER=0`): through the host's memory, limb by limb, without a graph."
    )
    heads = ["between two GPUs", *dict.fromkeys(r["way"] for r in found)]
    return [*markdown(heads, lines), "", f"{said} {sources(reports, exchanges, *both)}"]


def ratios(reports: Reports) -> Lines:
    """Returns the speed-ups of the complete program, ours and the thesis's."""
    file, on_cores = one(reports), processor(reports)
    calls, everything = (replay(reports[file], v) or 0.0 for v in ("calls", "all"))
    cores, recorded = replay(reports[on_cores], "all") or 0.0, case_of(reports[on_cores])["program_s"]
    by_hand = case_of(reports[file])["program_s"]
    lines, used = [], [file, on_cores]
    if pair := next(((single, more) for single, more, count in several(reports) if count == 2), None):
        two, alone = replay(reports[pair[1]], "all") or 0.0, replay(reports[pair[0]], "calls")
        used += pair if alone else pair[1:]
        there, said = alone or calls, "" if alone else ", another GPU"
        ours = f"{there / two:.1f} ({seconds(there)} on one{said}, {seconds(two)} on two)"
        what = "two GPUs with everything on, over one kernel by kernel"
        lines.append([what, "9.87", ours, "fusion and merging gain more, and the second GPU gains less"])
    threads, gain = reports[on_cores]["machine"]["cores"], PROCESSOR / 1000 / cores
    lines += [
        ["one GPU with everything on, over one kernel by kernel", f"{BASELINE / HINTED:.1f}", f"{calls / everything:.1f}",
         "as in figure 5.1"],
        ["a GPU over a processor", "over 200 (33 s over two A30)",
         f"{cores / everything:.0f} ({seconds(cores)} over {seconds(everything)})",
         f"our processor's run, with {threads} threads and vector units, is {gain:.0f} times as fast as the thesis's"],
        ["a GPU kernel by kernel, over a processor", "22.8", f"{cores / calls:.2g} ({seconds(cores)} over {seconds(calls)})",
         "the same processor; the host's launches limit the speed"],
        ["a GPU over a processor, both as recorded programs, not as instructions", "",
         f"{recorded / by_hand:.0f} ({seconds(recorded)} over {seconds(by_hand)})", ""],
        ["everything on, over the recorded program on one GPU", "", f"{everything / by_hand:.2f}",
         "1 means no cost of the instruction form"],
    ]  # fmt: skip
    return [*markdown(["ratio", "thesis", "ours", "why it differs"], lines), "", sources(reports, *used)]


TABLES: dict[str, Callable[[Reports], Lines]] = {
    "kim steps": steps,
    "kim gaps": gaps,
    "kim roofline": roofline,
    "kim scaling": scaling,
    "kim loads": loads,
    "kim ratios": ratios,
}
