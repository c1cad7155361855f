"""Files of results: JSON Lines. The first line describes the run (date, commit, machine); each further line is a case."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

Row = dict[str, Any]
#: A report of a run: the fields of the file's first line, and the cases as `results`.
Report = dict[str, Any]
FOLDER = Path(__file__).resolve().parents[1] / "results"


def file(name: str) -> Path:
    """Returns the path of results to write; argparse reports other names."""
    if not name.endswith(".jsonl"):
        raise argparse.ArgumentTypeError(
            f"cannot write results to {name}: results are JSON Lines, so the name must end in .jsonl"
        )
    return Path(name)


def read(path: Path) -> Report:
    """Returns the report in a file. The workbench's programs write one JSON object; reports of this kind have no `results`."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".json":
        report: Report = json.loads(text)
        return report
    run, *rows = map(json.loads, text.splitlines())
    return {**run, "results": rows}


def text_of(report: Report) -> str:
    """Returns the lines of a report."""
    run = {name: value for name, value in report.items() if name != "results"}
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in (run, *report["results"]))


def save(path: Path | None, report: Report) -> None:
    """Writes a report atomically; does nothing if `path` is None."""
    if path is not None:
        aside = path.with_suffix(".part")
        aside.write_text(text_of(report), encoding="utf-8")
        aside.replace(path)
