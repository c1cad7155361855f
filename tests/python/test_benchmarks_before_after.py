"""Tests the benchmark that compares two source trees in alternating turns. The trees are simulated."""

from __future__ import annotations

from typing import Any

import pytest


class Timed:
    """A simulated source tree whose turns take given times."""

    def __init__(self, times: list[float], skipped: str = "") -> None:
        self.times, self.skipped, self.asked = times, skipped, 0

    def ask(self, **what: Any) -> None:
        """Receives a request and counts the turns."""
        self.asked += "seconds" in what
        self.last = what

    def reply(self) -> dict[str, Any]:
        """Returns the answer for a case or for a turn."""
        if "case" in self.last:
            return {"skipped": self.skipped} if self.skipped else {"parameters": {}, "device": "D, 1"}
        time = self.times[self.asked - 1]
        return {"median_s": time, "call_s": None, "pipe_s": time, "runs": 1}


def test_seemingly_slower_cases_are_timed_again() -> None:
    """A case that seems slower is timed again, and its fastest turn is the result. A case that is missing in one tree is
    skipped.
    """
    from benchmarks.runners import before_after

    def compare(before: Timed, after: Timed) -> dict[str, Any]:
        return before_after.compare("add", (before, after), 0.1, 2, 1.03)  # type: ignore[arg-type]

    steady = compare(Timed([1.0, 1.1]), Timed([1.2, 1.02]))
    assert (steady["ratio"], len(steady["after"]["turns_s"])) == (pytest.approx(1.02), 2)
    assert "call_s" not in steady["after"]
    again = compare(Timed([1.0, 1.0, 1.0, 1.0]), Timed([1.2, 1.3, 1.01, 1.1]))
    assert (again["ratio"], len(again["before"]["turns_s"])) == (pytest.approx(1.01), 4)
    slower = compare(Timed([1.0] * 4), Timed([1.2] * 4))
    assert slower["ratio"] == pytest.approx(1.2)
    assert compare(Timed([]), Timed([], "no such case")) == {"beside": "add", "skipped": "no such case"}


def test_the_table_of_two_trees_names_slower_cases() -> None:
    """The table names slower cases and the spread of their turns."""
    from benchmarks import tables

    def row(what: str, before: float, after: float) -> dict[str, Any]:
        times = [{"median_s": t, "call_s": t / 2, "turns_s": [t, 2 * t]} for t in (before, after)]
        return {"what": what, "beside": what, "before": times[0], "after": times[1], "ratio": after / before}

    report = {"kind": "beside", "commit": "a" * 40, "before_commit": "b" * 40, "date": "d"} | {
        "machine": {"device": "G, 1", "processor": "P"},
        "results": [row("sum", 1.0, 1.1), row("product", 1.0, 0.9), {"what": "x", "beside": "x", "skipped": "no"}],
    }
    assert tables.name_of(report) == "before and after"
    lines = tables.TABLES["before and after"]({"f.jsonl": report})
    assert lines[0] == "**f.jsonl**: G (P); commit aaaaaaaaaaaa against bbbbbbbbbbbb; d"
    assert "2 cases" in lines[2]
    assert "above 1.03: sum 1.100 (turns 1 s to 2 s before, 1.1 s to 2.2 s now)." in lines[2]
    assert lines[-1] == "| product | 1 s | 900 ms | 0.900 | 500 ms | 450 ms |"
