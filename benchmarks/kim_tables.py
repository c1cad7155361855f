"""What docs/papers/kim-2025.md says of the figures of Kim's thesis (2025): theirs as published, ours from the committed files."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

Row = dict[str, Any]
Time = Callable[[float | None], str]

CASE = "bootstrap-28"
RESULTS = Path(__file__).resolve().parent / "results"


def cards_of(names: list[str]) -> tuple[str, ...]:
    """Those that files of these names are of, the H200 and the H100 first; processors are none."""
    found = {
        match[1]
        for name in names
        if (match := re.fullmatch(r"([a-z]+\d+[a-z]*?)(?:x\d+)?-(?:instructions|steps|timeline)\.json", name))
    }
    first = ("h200", "h100")
    return (*first, *sorted(card for card in found if card not in first and not card.startswith(("zen", "xeon"))))


def _there(*names: str) -> str:
    """The first of some files that is there; the first where none is."""
    return next((name for name in names if (RESULTS / name).exists()), names[0])


CARDS = cards_of([path.name for path in RESULTS.glob("*.json")])
ONE = _there(*(f"{card}-instructions.json" for card in CARDS))
HINTS = _there(*(f"{card}-instructions-hints.json" for card in CARDS))
CPU = _there("xeon-instructions.json", *sorted(path.name for path in RESULTS.glob("[xz]e*-instructions.json")))
#: On one card and on several of it, in the order of preference.
SEVERAL = tuple((f"{card}-steps.json", f"{card}x{n}-steps.json", n) for n in (2, 3, 4, 8) for card in CARDS)
FP64 = tuple(f"{card}-instructions-fp64.json" for card in CARDS)
INTEGER = tuple(f"{card}-instructions-integer.json" for card in CARDS)  # by the same machine as FP64's
TIMELINES = tuple(f"{card}-timeline.json" for card in CARDS)
ROOFLINES = tuple(f"../../workbench/results/{card}-roofline.json" for card in CARDS)
EXCHANGES = _there(*(f"../../workbench/results/{card}x2-chip-exchanges.json" for card in CARDS))
#: A program on two GPUs that reach each other's memory, and the same where they do not.
PEER, HOST = (_there(*(f"{card}x2-{what}.json" for card in CARDS)) for what in ("peer", "host"))
TRITONS = tuple(f"../../workbench/results/{card}-sums-triton.json" for card in CARDS)
FILES = (
    *(ONE, HINTS, CPU),
    *dict.fromkeys(name for one, several, _ in SEVERAL for name in (one, several)),
    *(*FP64, *INTEGER, *TIMELINES, *ROOFLINES, *TRITONS, EXCHANGES, PEER, HOST),
)

#: In milliseconds on an A30, as printed or by the printed ratios; two A30 by 9.87 over the first.
BASELINE, GRAPH, FUSED, HINTED, TWO, PROCESSOR = 1450, 400, 400 / 1.43, 400 / 1.43 / 1.2, 1450 / 9.87, 33000


def _link(name: str) -> str:
    """To a file of results, ours or the workbench's."""
    away = name if name.startswith("../") else f"benchmarks/results/{name}"
    return f"[{Path(name).name}]({away})"


def _card(report: Row) -> str:
    """Which, and at which commit."""
    machine = report.get("machine", report.get("settings", {}))
    commit = report.get("commit", machine.get("commit", "?"))
    return f"{machine.get('gpu') or machine.get('device') or machine['processor']}, {commit[:12]}"


def _source(reports: dict[str, Row], *names: str) -> str:
    """Where figures are from: machine, commit, file."""
    return "; ".join(f"{_card(reports[name])} ({_link(name)})" for name in names)


def _first(reports: dict[str, Row], names: tuple[str, ...]) -> str | None:
    return next((name for name in names if name in reports), None)


def _case(report: Row) -> Row:
    return next(r for r in report["results"] if r["program"] == CASE)


def _replay(report: Row, variant: str) -> float | None:
    """Median over those of the name: a file may have a variant more than once."""
    times = sorted(v["replay_s"] for v in _case(report)["variants"] if v["variant"] == variant)
    return (times[(len(times) - 1) // 2] + times[len(times) // 2]) / 2 if times else None


def _arithmetic(reports: dict[str, Row]) -> tuple[str, str] | None:
    """The file of FP64 arithmetic, and the one to compare it with."""
    name = _first(reports, FP64)
    beside = name and (name.replace("-fp64", "-integer"), name.replace("-fp64", ""))
    other = _first(reports, beside) if beside else None
    return (name, other) if name and other else None


def steps(reports: dict[str, Row], seconds: Time) -> list[str]:
    """Figure 5.1: each step's time and what it is worth over the one before."""
    one, hints = reports[ONE], reports[HINTS]
    calls, stream, branches, fused, merged, everything = (
        _replay(one, v) or 0.0 for v in ("calls", "stream", "branches", "fused", "merged", "all")
    )
    plain, hinted = _replay(hints, "all-plain") or 0.0, _replay(hints, "all") or 0.0
    lines = [
        "| step | thesis, A30 | over the step before | ours | over the step before | why it differs |",
        "|---|---|---|---|---|---|",
        f"| kernel by kernel | {BASELINE} ms | | {seconds(calls)} | | |",
        f"| a graph in sequence | {BASELINE / 1.58:.0f} ms | 1.58 | {seconds(stream)} | {calls / stream:.2f} | a kernel of one limb takes 3 to 4 us on this card "
        "however it is started, so that a graph saves the host's part alone |",
        f"| a graph with branches | {GRAPH} ms | 2.3 | {seconds(branches)} | {stream / branches:.2f} | one limb fills a small part of this card, so that more kernels "
        "run at once |",
        f"| element-wise kernels fused | | | {seconds(fused)} | {branches / fused:.2f} | a sum of products of any length is one kernel (ADR 23): the bytes moved fall to "
        f"{_bytes(one, 'fused') / _bytes(one, 'branches'):.0%} |",
        f"| alike kernels merged instead | | | {seconds(merged)} | {branches / merged:.2f} | what is ready at a step is one launch, transforms and all else |",
        f"| fused and merged (the thesis's fusion) | {FUSED:.0f} ms | 1.43 | {seconds(everything)} | {branches / everything:.2f} | both of the above; the thesis merges transforms "
        "alone |",
        f"| cache hints | {HINTED:.0f} ms | 1.2 | {seconds(hinted)}, without {seconds(plain)} | {plain / hinted:.2f} | fused sums read little twice, and the card has the larger L2 |",
    ]
    if found := _arithmetic(reports):
        integer, real = (_replay(reports[name], "all") or 0.0 for name in reversed(found))
        lines.append(
            f"| FP64 arithmetic | slower by 1.5 | 0.67 | {seconds(real)}, in integers {seconds(integer)} | {integer / real:.2f} | transforms and sums, without casts; conversions between "
            "bases stay in integers |"
        )
    if name := _first(reports, TRITONS):
        ways = {r["way"]: r["seconds"] for r in reports[name]["results"]}
        lines.append(
            f"| Triton for CUDA, an instruction a kernel | slower by 1.2 to 1.4 | 0.71 to 0.83 | {seconds(ways['triton-calls'])}, in CUDA {seconds(ways['cuda-calls'])} "
            f"| {ways['cuda-calls'] / ways['triton-calls']:.2f} | sums of products alone; as a graph {ways['cuda-calls-graph'] / ways['triton-calls-graph']:.2f}, and as one kernel each "
            f"{ways['cuda-table'] / ways['triton-fused']:.2f} |"
        )
    used = [ONE, HINTS, *(_arithmetic(reports) or ()), *filter(None, [_first(reports, TRITONS)])]
    return [*lines, "", f"Ours: {_source(reports, *dict.fromkeys(used))}."]


def _bytes(report: Row, variant: str) -> float:
    found = next(v for v in _case(report)["variants"] if v["variant"] == variant)
    return float(found["bytes_read"] + found["bytes_written"])


def _picture(name: str, words: str) -> list[str]:
    path = Path(__file__).resolve().parents[1] / "docs" / "pictures" / name
    return [f"![{words}](../pictures/{name})", ""] if path.is_file() else []


def gaps(reports: dict[str, Row], seconds: Time) -> list[str]:
    """Figure 5.2: when no kernel runs."""
    name = _first(reports, TIMELINES)
    if name is None:
        return []
    lines = [
        *_picture("timeline.svg", "kernels over time: kernel by kernel, as graphs, merged and fused"),
        "| run as | replay | kernels | median kernel | no kernel runs | kernels at once |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {r['words']} | {seconds(r['replay_s'])} | {r['kernels']:,} | {seconds(r['median_kernel_s'])} | {max(0.0, r['idle_share_of_replay']):.0%} | {r['running_at_once']:.1f} |"
        for r in reports[name]["results"]
    ]
    return [
        *lines,
        "",
        f"Shares are of the time of an unprofiled run; kernels' times are the profiler's. Ours: {_source(reports, name)}.",
    ]


def roofline(reports: dict[str, Row], seconds: Time) -> list[str]:
    """Figure 5.3: a transform's kernels by radix."""
    name = _first(reports, ROOFLINES)
    if name is None:
        return []
    found = reports[name]
    roofs = {r["what"]: r["per_second"] for r in found["roofs"]}
    lines = [
        *_picture("roofline.svg", "operations a second over operations a byte, by radix and stage"),
        "| kernel | stage | time | operations a second, of the ceiling | DRAM, of a copy | L2, of a copy |",
        "|---|---|---|---|---|---|",
    ]
    for r in found["kernels"]:
        share = [
            r[f"{level}_bytes_per_second"] / roofs[f"copy in {said}"] for level, said in (("dram", "DRAM"), ("l2", "L2"))
        ]
        lines.append(
            f"| {'the product, ' if r['kernel'] == 'product' else ''}radix {r['radix']} | {r['stage'][-1]} | {seconds(r['seconds'])} "
            f"| {r['operations_per_second'] / 1e12:.1f} T, {r['operations_per_second'] / roofs['forward butterfly']:.0%} | {share[0]:.0%} | {share[1]:.0%} |"
        )
    bytes_by = "counted by ncu, caches empty" if found["settings"]["counted"] else "by theory"
    said = f"{found['settings']['limbs']} limbs a launch, bytes {bytes_by}. The ceiling is butterflies in registers."
    return [*lines, "", f"{said} Ours: {_source(reports, name)}."]


def scaling(reports: dict[str, Row], seconds: Time) -> list[str]:
    """Figure 5.4: over several GPUs."""
    lines = [
        "| program | GPUs | thesis, A30 | over one | ours | over one | card |",
        "|---|---|---|---|---|---|---|",
    ]
    used: list[str] = []
    for variant, words, theirs, two in (
        ("branches", "a graph with branches", 2.10, GRAPH / 2.10),
        ("all", "everything on", 1.64, TWO),
    ):
        for one, several, count in SEVERAL:
            if one not in reports or several not in reports:
                continue
            before, after = _replay(reports[one], variant), _replay(reports[several], variant)
            if before is None or after is None:
                continue
            said = f"{two:.0f} ms | {theirs:.2f}" if count == 2 else " | "
            card = reports[several]["machine"].get("gpu", "")
            lines.append(f"| {words} | {count} | {said} | {seconds(after)} | {before / after:.2f} | {card} |")
            used += [one, several]
    return [*lines, "", f"Ours: {_source(reports, *dict.fromkeys(used))}."]


def loads(reports: dict[str, Row], seconds: Time) -> list[str]:
    """What two chips send each other, by each way there is."""
    found = reports[EXCHANGES]["exchanges"]
    ways = list(dict.fromkeys(r["way"] for r in found))
    lines = [
        "| between two GPUs | " + " | ".join(ways) + " |",
        "|---|" + "---|" * len(ways),
    ]
    words = {"dis": "each has half of {} limbs and gets the other", "joi": "each adds up half of {} limbs"}
    for instruction, what in words.items():
        for limbs in (2, 16, 64):
            row = [r for r in found if (r["instruction"], r["limbs"]) == (instruction, limbs)]
            times = [seconds(r.get("seconds_in_a_graph", r["seconds"])) for r in row]
            lines.append(f"| `{instruction}`: {what.format(limbs)} | " + " | ".join(times) + " |")
    peer, host = (_replay(reports[name], "all") for name in (PEER, HOST))
    said = (
        f"Limbs of 2^16 words of 4 bytes; in graphs, but for host memory that is not pinned. The bootstrap of figure 5.4 takes {seconds(peer)} by peer loads, and "
        f"{seconds(host)} where the GPUs do not reach each other (`HELIOGRAPH_PEER=0`): through the host's memory, limb by limb, without a graph."
    )
    return [*lines, "", f"{said} Ours: {_source(reports, EXCHANGES, PEER, HOST)}."]


def ratios(reports: dict[str, Row], seconds: Time) -> list[str]:
    """The two ratios of the whole."""
    calls, one = (_replay(reports[ONE], v) or 0.0 for v in ("calls", "all"))
    processor = reports[CPU]
    cores, recorded = _replay(processor, "all") or 0.0, _case(processor)["program_s"]
    by_hand = _case(reports[ONE])["program_s"]
    pair = next(((o, s) for o, s, n in SEVERAL if n == 2 and o in reports and s in reports), None)
    lines = [
        "| ratio | thesis | ours | why it differs |",
        "|---|---|---|---|",
    ]
    used = [ONE, CPU]
    if pair:
        two, alone = _replay(reports[pair[1]], "all") or 0.0, _replay(reports[pair[0]], "calls")
        used += pair if alone else pair[1:]
        calls_there, said = alone or calls, "" if alone else ", another card"
        lines.append(
            f"| two GPUs with everything on, over one kernel by kernel | 9.87 | {calls_there / two:.1f} ({seconds(calls_there)} on one{said}, {seconds(two)} on two) "
            "| fusing and merging are worth more, and the second card less |"
        )
    lines += [
        f"| one GPU with everything on, over one kernel by kernel | {BASELINE / HINTED:.1f} | {calls / one:.1f} | as in figure 5.1 |",
        f"| a GPU over a processor | over 200 (33 s over two A30) | {cores / one:.0f} ({seconds(cores)} over {seconds(one)}) | this processor's run is of {processor['machine']['cores']} threads and "
        f"vector units, {PROCESSOR / 1000 / cores:.0f} times as fast as theirs |",
        f"| a GPU kernel by kernel, over a processor | 22.8 | {cores / calls:.2g} ({seconds(cores)} over {seconds(calls)}) | the same processor; and the host that starts kernels sets the pace |",
        f"| a GPU over a processor, each as recorded and not as instructions | | {recorded / by_hand:.0f} ({seconds(recorded)} over {seconds(by_hand)}) | |",
        f"| everything on, over the recorded program on one GPU | | {one / by_hand:.2f} | 1 would be no cost of the instruction form |",
    ]
    return [*lines, "", f"Ours: {_source(reports, *dict.fromkeys(used))}."]


#: Mark on the page, and what writes it.
TABLES = {
    "kim steps": steps,
    "kim gaps": gaps,
    "kim roofline": roofline,
    "kim scaling": scaling,
    "kim loads": loads,
    "kim ratios": ratios,
}
