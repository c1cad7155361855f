"""Compares encrypted models made from scikit-learn's estimators with the estimators, for many estimators and options.

    python -m benchmarks.runners.estimators --out benchmarks/results/mine-estimators.jsonl

Each case of tests/python/estimator_cases.py is fitted, mirrored, written to a file, and run on encrypted samples by a client without
weights. The client's predictions, and probabilities if the estimator has them, are compared with the estimator's own. Except for noise,
the counts do not depend on the machine.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

import heliograph as hg
from benchmarks.runners import common

sys.path.append(str(common.ROOT / "tests" / "python"))
import estimator_cases as cases
from benchmarks.report import results

#: Allowed CKKS error, in addition to the error stated in the model's report.
SLACK = 2.0**-20


def own(estimator: Any, case: cases.Case, method: str) -> Any:
    """Returns the result of the estimator's method for the case's samples; None if the estimator lacks the method."""
    return getattr(estimator, method)(case.copy()) if hasattr(estimator, method) else None


def answered(model: hg.ml.EstimatorModel, case: cases.Case, folder: Path) -> tuple[hg.ModelBundle, Any]:
    """Returns the client's part of the model file, and the decrypted scores [samples, outputs]."""
    whole = model.export(folder / "model.hgm", samples=cases.COUNT)
    half = hg.ModelBundle.load(whole.client().to_bytes())
    secret = hg.SecretKey.generate(half.parameters)
    answer = whole.run(hg.Server(half.keys(secret)), half.encrypt(secret, case.samples))
    return half, half.decrypt(secret, answer, like=case.samples)


def differences(
    model: hg.ml.EstimatorModel, half: hg.ModelBundle, scores: Any, estimator: Any, case: cases.Case
) -> dict[str, float]:
    """Returns the largest differences from the estimator in predictions of numbers, decision values and probabilities, and
    the share of samples with another class.
    """
    found, right = half.predict(scores), np.asarray(own(estimator, case, "predict"))
    if found.shape != right.shape:
        return {"shape": float("inf")}
    if model.classes is None:
        relative = np.maximum(1, np.abs(right)) if model.output.link == "exp" else 1
        off = {"predict": float((np.abs(found - right) / relative).max())}
    else:
        off = {"classes": float(np.mean((found != right).reshape(len(right), -1).any(1)))}
    decided, chances = own(estimator, case, "decision_function"), own(estimator, case, "predict_proba")
    if decided is not None:
        off["decision_function"] = float(np.abs((scores[:, 0] if decided.ndim == 1 else scores) - decided).max())
    if chances is not None:
        off["predict_proba"] = float(np.abs(half.predict_proba(scores) - chances).max())
    return off


def row_of(name: str, folder: Path) -> dict[str, Any]:
    """Runs one case; its outcome is right, refused with an error, or wrong."""
    case, estimator = cases.CASES[name], cases.fitted(name)
    try:
        model = hg.ml.compile(estimator, case.copy())
        half, scores = answered(model, case, folder)
    except hg.HeliographError as error:
        kind = "refused" if case.refused else "refused, although the case expects a conversion"
        return {"case": name, "kind": kind, "error": type(error).__name__, "says": str(error)[:300]}
    off, stated = differences(model, half, scores, estimator, case), model.report.largest_error
    agreement = model.report.agreement
    wrong = any(value > stated + SLACK for what, value in off.items() if what != "classes")
    wrong = wrong or (agreement is not None and off.get("classes", 0) > 1 - agreement + 1e-9)
    kind = "wrong" if wrong or case.refused else "right"
    return {"case": name, "kind": kind, "exact": case.clear, "stated": stated, "agreement": agreement, "off": off}


def main() -> None:
    """Counts the outcomes, prints and writes them."""
    given = common.parser(__doc__).parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in cases.CASES:
            rows.append(row_of(name, Path(folder)))
            if rows[-1]["kind"] not in ("right", "refused"):
                print(rows[-1], flush=True)
    print(dict(Counter(row["kind"] for row in rows)))
    results.save(given.out, common.report(rows, kind="estimators", scikit_learn=cases.VERSION))


if __name__ == "__main__":
    main()
