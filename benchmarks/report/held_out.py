"""Tables of networks that no test has: random ones, published files, and the same networks in other libraries."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable

from benchmarks.report.render import Lines, Reports, commit, link, markdown, seconds, size
from benchmarks.report.results import Report, Row

_NEAR = 0.25  # relative error of forecast seconds that counts as near


def _rows(reports: Reports) -> list[Row]:
    return [row for report in reports.values() for row in report["results"]]


def _ran(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row.get("encrypted")]


def _share(count: int, whole: int) -> str:
    return f"{count} of {whole}"


def _near(rows: list[Row], name: str) -> str:
    ratios = [row[name] / row["seconds"] for row in rows if row.get(name)]
    if not ratios:
        return "-"
    near = sum(abs(ratio - 1) <= _NEAR for ratio in ratios)
    return (
        f"{_share(near, len(ratios))}; ratios {min(ratios):.2f} to {max(ratios):.2f}, median {statistics.median(ratios):.2f}"
    )


def _source(reports: Reports) -> str:
    def load(report: Report) -> str:
        found = [row["load"] for row in report["results"] if "load" in row]
        return f"load of the machine {min(found):.0f} to {max(found):.0f}" if found else f"load {report['load']}"

    texts = []
    for name, report in reports.items():
        machine = report["machine"]
        texts.append(
            f"{link(name)}, {machine['processor']}, {machine['cores']} cores, {commit(report['commit'])}, {load(report)}"
        )
    return "; ".join(texts)


def networks(reports: Reports) -> Lines:
    """Returns the score of random networks."""
    rows = _rows(reports)
    compiled = [row for row in rows if row["result"] == "compiled"]
    ran = _ran(compiled)
    report = next(iter(reports.values()))
    accuracy, noise = report["accuracy"], report["noise"]
    refused = Counter(row["error"] for row in rows if row["result"] == "refused")
    reasons = ", ".join(f"{count} {name}" for name, count in refused.most_common()) or "none"
    within = sum(row["new_loss"] <= accuracy for row in compiled)
    # Two standard deviations of a share that is estimated from the samples of the calibration and from new ones.
    spread = [accuracy + 2 * math.sqrt(accuracy * (1 - accuracy) * (1 / 512 + 1 / row["images"])) for row in compiled]
    chance = sum(row["new_loss"] <= most for row, most in zip(compiled, spread, strict=True))
    read = [row["reader_difference"] for row in rows if row.get("reader_difference") is not None]
    bytes_of = [
        (row["predicted_key_bytes"] + row["predicted_matrix_bytes"]) / (row["key_bytes"] + row["matrix_bytes"])
        for row in ran
    ]
    largest = max(row["difference"] for row in ran)
    lines = [
        ["networks", f"{len(rows)}, seeds {min(row['seed'] for row in rows)} to {max(row['seed'] for row in rows)}"],
        ["operators", f"{len({name for row in rows for name in row.get('operators', ())})} different ones"],
        ["values as onnxruntime", f"{_share(sum(one < 1e-3 for one in read), len(read))}"],
        ["compiled", f"{_share(len(compiled), len(rows))}"],
        ["refused", reasons],
        ["other errors", str(sum(row["result"] == "fault" for row in rows))],
        [f"loss on new samples at most {accuracy:g}", f"{_share(within, len(compiled))}"],
        ["the same, within two standard deviations of the samples", f"{_share(chance, len(compiled))}"],
        [
            "encrypted as the polynomials",
            f"{_share(sum(row['difference'] <= noise for row in ran), len(ran))}, "
            f"within 2^{math.log2(largest):.1f} of the largest output",
        ],
        ["forecast seconds within 25%", _near(ran, "predicted_seconds")],
        ["the same, profile measured beside", _near(ran, "predicted_seconds_here")],
        ["forecast bytes", f"within {100 * max(abs(one - 1) for one in bytes_of):.2g}% of those of keys and matrices"],
        ["seconds of a call", f"{seconds(min(r['seconds'] for r in ran))} to {seconds(max(r['seconds'] for r in ran))}"],
        [
            "compilation, processor time",
            f"median {seconds(statistics.median(r['compile_processor_seconds'] for r in compiled))}",
        ],
    ]
    note = (
        "Seconds are processor time over threads, the least of some calls. A network is compiled on 1,000 normal samples and simulated on "
        f"{compiled[0]['images']} new ones. From {_source(reports)}."
    )
    return [*markdown(["random networks", "result"], lines), "", note]


def sentence(reports: Reports) -> Lines:
    """Returns the score of random networks in one sentence, for the README."""
    rows = _rows(reports)
    compiled = [row for row in rows if row["result"] == "compiled"]
    accuracy = next(iter(reports.values()))["accuracy"]
    within = sum(row["new_loss"] <= accuracy for row in compiled)
    errors = [abs(row["predicted_seconds"] / row["seconds"] - 1) for row in _ran(compiled)]
    return [
        f"Of {len(rows)} random networks that no test has, `hg.ml.compile` compiled {len(compiled)} at `accuracy={accuracy:g}`. On new samples "
        f"{within} of these lost at most {100 * accuracy:g}%. The median error of the forecast seconds was {100 * statistics.median(errors):.0f}% "
        f"({', '.join(link(name) for name in reports)})."
    ]


def files(reports: Reports) -> Lines:
    """Returns the results of published files."""
    lines = []
    for row in _rows(reports):
        if row["result"] == "refused":
            result = f"`{row['error']}`: {row['message']}"
        else:
            result = (
                f"compiled, {row['scheme']}, {seconds(row['processor_seconds'] / row['rows'])} of processor time a row; probabilities "
                f"differ by {row['encrypted_difference']:.1g}"
            )
        read = f"within {row['reader_difference']:.1g} of onnxruntime" if "reader_difference" in row else "-"
        lines.append([row["file"], read, result])
    return [*markdown(["file", "clear values", "encrypted"], lines), "", f"From {_source(reports)}."]


def beside(reports: Reports) -> Lines:
    """Returns the times of the same networks in several libraries."""

    def versions(row: Row) -> str:
        found = {
            name: text for name, text in row.get("versions", {}).items() if name in ("orion-v2-compiler", "concrete-ml")
        }
        return row["who"] + "".join(f" {text}" for text in found.values())

    def cells(row: Row) -> list[str]:
        if "error" in row:
            return [row["error"], *["-"] * 4]
        processor = row.get("row_processor_seconds")
        return [
            seconds(statistics.median(row["row_seconds"])),
            seconds(statistics.median(processor)) if processor else "-",
            seconds(row["key_seconds"]),
            size(row["key_bytes"]) if "key_bytes" in row else "-",
            f"{row['equal_rows']} of {row['rows']}",
        ]

    heads = [
        "network",
        "library",
        "one sample, clock",
        "processor",
        "keys made in",
        "keys",
        "same class as the clear network",
    ]
    lines = [[row["network"], versions(row), *cells(row)] for row in _rows(reports)]
    note = (
        "Clock times suffer from the other load of the machine. Processor time is that of all threads together. From "
        f"{_source(reports)}."
    )
    return [*markdown(heads, lines), "", note]


def forecasts(reports: Reports) -> Lines:
    """Returns predicted and measured seconds and bytes of compiled models."""
    heads = [
        "model",
        "predicted",
        "processor time over threads",
        "clock",
        "first call",
        "predicted bytes over keys and matrices",
    ]
    lines = [
        [
            row["case"],
            seconds(row["predicted_seconds"]),
            seconds(row["seconds"]),
            seconds(row["clock_seconds"]),
            seconds(row["first_seconds"]),
            f"{row['predicted_bytes'] / row['bytes']:.3f}" if "bytes" in row else "-",
        ]
        for row in _rows(reports)
    ]
    return [*markdown(heads, lines), "", f"Least times of some calls. From {_source(reports)}."]


TABLES: dict[str, Callable[[Reports], Lines]] = {
    "held-out networks": networks,
    "held-out sentence": sentence,
    "held-out files": files,
    "networks beside others": beside,
    "model forecasts": forecasts,
}
