"""Writes the tables of all pages anew from the committed results: of README, docs/benchmarks.md and the pages beside the results.

python benchmarks/pages.py           # writes
python benchmarks/pages.py --check   # names the pages that differ from their files, and exits 1 if there is one
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import al_badawi_tables
import coprocessor_tables
import estimators_tables
import kim_tables
import lookup_tables
import morshed_tables
import programs_tables
import query_tables
import ranges_tables
import ranks_tables
import readme_figures
import serving_tables
import slow_network_tables
import table
import two_gpus_words
import vectors_tables

ROOT = Path(__file__).resolve().parents[1]
#: Files of one kind, which make one table.
CORES = ("zen4.json", "zen4-hcnn5.json")
GPU = ("h200.json",)
TWO_GPUS = ("h200x2-mesh.json", "h200x2-hcnn11.json", "h200x2-levelled.json")  # every layout, and what moves
WORK_ON_TWO = ("h200x2-workloads.json", "h200x2-hcnn11.json")
LIMBS_ON_TWO = ("h200x2-workloads.json", "h200x2-limbs.json")
FOUR_GPUS = ("h200x4-mesh.json", "h200x4-hcnn11.json")
FOUR_WITH_FLAGS = ("h200x4-flags.json",)
TFHE = ("zen4-tfhe.json", "h200-tfhe-kernels.json", "h200-tfhe.json", "h200-tfhe-large.json")
TFHE_ON_ONE = ("h200x2-tfhe-one.json",)
TFHE_ON_TWO = ("h200x2-tfhe-two.json",)
LEVELLED = ("zen4-levelled.json", "h200-levelled.json")
PROGRAMS = ("h200-programs.json", "h200x2-programs.json")
FORECASTS = ("zen5-forecasts.json",)
BESIDE = ("h200-beside.json",)
HELR = ("zen4-helr.json", "h200-helr.json")
DOUBLECRT = ("zen4-doublecrt.json", "zen4-helib.json", "h200-doublecrt.json", "h200x4-doublecrt.json")
ROWS_15 = ("h200-doublecrt-15-rows.json",)


def _measured(*names: str) -> tuple[str, ...]:
    """Those of some files that are there yet."""
    return tuple(name for name in names if (table.RESULTS / name).exists())


def _like(pattern: str) -> tuple[str, ...]:
    """Files of a paper's runs, of whichever machines."""
    return tuple(sorted(path.name for path in table.RESULTS.glob(pattern)))


BOOTSTRAP = _measured("zen5-bootstrap.json", "h200-bootstrap.json")
BESIDE_OPENFHE = _measured("zen4-beside-openfhe.json", "zen4-beside-openfhe-two.json")
RANKS = ("h200x4-ranks.json", "zen4-ranks.json", *_like("*-hcnn5-ranks.json"))
SMALL = _measured("zen4-mnist.json", "rtl-mnist.json")
SCALING = _like("*-scaling.json")
INSTRUCTIONS = tuple(
    dict.fromkeys(
        (
            *_measured("h200-instructions.json", "h100-instructions.json", "h100x2-instructions.json"),
            *_like("*-instructions.json"),
        )
    )
)
HELR_BOOTSTRAP = _measured("zen5-helr-bootstrap.json", "h200-helr-bootstrap.json")
KIM = _measured(*kim_tables.FILES)
AL_BADAWI = (
    *("zen4.json", "zen4-hcnn5.json", "h200.json", "h200x2-mesh.json", "h200x2-hcnn11.json", "h200x2-workloads.json"),
    *(*FOUR_GPUS, "h200x4-exchanges.json", *SCALING),
    *_like("*al-badawi*.json"),
    *(f"../../workbench/results/{name}" for name in _like("../../workbench/results/*-partition.json")),
)
FRAME = (*DOUBLECRT, *_like("*-frame*.json"))
MORSHED = (*TFHE, *TFHE_ON_ONE, *TFHE_ON_TWO, "zen4.json", "h200.json", *_like("*-morshed*.json"))
#: Regions that are not a table of one kind: their page, their mark, what writes them, and the files in the order that they are taken in.
WORDS: tuple[tuple[str, str, Callable[..., list[str]], tuple[str, ...]], ...] = (
    ("README.md", "five figures", readme_figures.lines, (*readme_figures.FILES, *readme_figures.TFHE)),
    *(
        (
            "docs/coprocessor.md",
            f"coprocessor {lines.__name__}",
            lines,
            (coprocessor_tables.AREAS, coprocessor_tables.CYCLES),
        )
        for lines in coprocessor_tables.TABLES
    ),
    *(
        ("docs/coprocessor.md", f"coprocessor {mark}", lines, (coprocessor_tables.PLACED, coprocessor_tables.CYCLES))
        for mark, lines in (
            ("placed", coprocessor_tables.placed),
            ("at both clocks", coprocessor_tables.at_both_clocks),
            ("clock", coprocessor_tables.clock),
        )
    ),
    ("rtl/README.md", "clock", coprocessor_tables.clock, (coprocessor_tables.PLACED,)),
    ("docs/papers/co-processor.md", "clock", coprocessor_tables.clock, (coprocessor_tables.PLACED,)),
    (
        "docs/papers/co-processor.md",
        "coprocessor in short",
        coprocessor_tables.short,
        (coprocessor_tables.AREAS, coprocessor_tables.CYCLES),
    ),
    *(("docs/papers/kim-2025.md", mark, lines, KIM) for mark, lines in kim_tables.TABLES.items()),
    *(("docs/papers/al-badawi-2020.md", mark, lines, AL_BADAWI) for mark, lines in al_badawi_tables.TABLES.items()),
    ("docs/papers/frame-2015.md", "network over ranks", ranks_tables.network, RANKS),
    ("docs/papers/frame-2015.md", "slow network", slow_network_tables.tables, _like("*-slow-network.json")),
    *(("docs/papers/morshed-2020.md", mark, lines, MORSHED) for mark, lines in morshed_tables.TABLES.items()),
    ("docs/query.md", "query figures", query_tables.queries, _measured(*query_tables.FILES)),
    ("docs/query.md", "figures of whole queries", query_tables.integers, _measured(*query_tables.INTEGERS)),
    ("docs/query.md", "vector figures", vectors_tables.vectors, _measured(*vectors_tables.FILES)),
    ("docs/query.md", "look-up figures", lookup_tables.lookups, _measured(*lookup_tables.FILES)),
    ("docs/query.md", "figures beside SimplePIR", lookup_tables.beside, _measured(*lookup_tables.BESIDE)),
    ("docs/programs.md", "schedules", programs_tables.schedules, _like("*-schedules*.json")),
    ("docs/serving.md", "service figures", serving_tables.service, _measured(*serving_tables.FILES)),
    ("rtl/README.md", "areas", coprocessor_tables.areas, (coprocessor_tables.AREAS,)),
    ("rtl/README.md", "mutants", coprocessor_tables.mutants, (coprocessor_tables.MUTANTS,)),
    ("docs/benchmarks.md", "range figures", ranges_tables.ranges, ranges_tables.FILES),
    ("docs/benchmarks.md", "estimator figures", estimators_tables.estimators, estimators_tables.FILES),
    ("docs/benchmarks.md", "two GPUs", two_gpus_words.words, (*WORK_ON_TWO, *TFHE_ON_ONE, *TFHE_ON_TWO, *PROGRAMS)),
)
#: Which files a page shows, whether every case or the headlines, and words that tell two places of one kind apart.
PAGES: dict[str, tuple[tuple[tuple[str, ...], bool, str], ...]] = {
    "README.md": (),
    "rtl/README.md": (),
    "docs/coprocessor.md": (),
    "docs/benchmarks.md": (
        (CORES, False, ""),
        (GPU, False, ""),
        (SCALING, True, ""),
        (WORK_ON_TWO, False, " of two"),
        (FOUR_GPUS, False, " of four"),
        (TFHE, False, ""),
        (LEVELLED, False, ""),
        (HELR, False, ""),
        (SMALL, True, ""),
        (PROGRAMS, False, ""),
        (RANKS, False, ""),
        ((*FRAME, *ROWS_15), False, ""),
    ),
    "docs/watching.md": ((FORECASTS, True, ""),),
    "docs/papers/co-processor.md": (),
    "docs/papers/frame-2015.md": ((FRAME, True, ""), ((*FRAME, *ROWS_15), False, " in short")),
    "docs/papers/kim-2025.md": (),
    "docs/papers/al-badawi-2020.md": (),
    "docs/papers/morshed-2020.md": (),
    "docs/programs.md": (),
    "docs/query.md": (),
    "docs/serving.md": (),
    "docs/cinnamon.md": ((INSTRUCTIONS, True, ""),),
    "benchmarks/results/cores.md": ((CORES, True, ""),),
    "benchmarks/results/gpu.md": ((GPU, True, ""),),
    "benchmarks/results/two-gpus.md": (
        (TWO_GPUS, True, ""),
        (LIMBS_ON_TWO, True, " since"),
        (TFHE_ON_ONE, True, " on one"),
        (TFHE_ON_TWO, True, " on two"),
    ),
    "benchmarks/results/four-gpus.md": ((FOUR_GPUS, True, ""), (FOUR_WITH_FLAGS, True, " with flags")),
    "benchmarks/results/beside.md": ((BESIDE, True, ""),),
    "benchmarks/results/tfhe.md": ((TFHE, True, ""),),
    "benchmarks/results/ckks-bgv.md": (
        (LEVELLED, True, ""),
        (BOOTSTRAP, True, ""),
        (BESIDE_OPENFHE, True, ""),
        (HELR, True, ""),
        (HELR_BOOTSTRAP, True, ""),
    ),
    "benchmarks/results/ranks.md": ((RANKS, True, ""),),
}


def text_of(page: str) -> str:
    """A page with the tables that its files make now."""
    where = ROOT / page
    text = where.read_text(encoding="utf-8")
    for files, whole, more in PAGES[page]:
        for kind, reports in table.by_kind([table.RESULTS / name for name in files]).items():
            lines = (table.WHOLE if whole else table.HEADLINES)[kind](reports)
            text = table.replace_figures(text, where, lines, kind + more)
    for at, mark, words, files in WORDS:
        if at == page:
            reports = {name: json.loads((table.RESULTS / name).read_text(encoding="utf-8")) for name in files}
            text = table.replace_figures(text, where, words(reports, table.seconds), mark)
    return text


def main() -> int:
    """Writes the pages, or says which are old."""
    old = [page for page in PAGES if (ROOT / page).read_text(encoding="utf-8") != text_of(page)]
    for page in old:
        if "--check" in sys.argv:
            print(f"{page} is not what its files make: python benchmarks/pages.py")
        else:
            (ROOT / page).write_text(text_of(page), encoding="utf-8")
            print(page)
    return 1 if old and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
