"""How often models made of scikit-learn's estimators differ from them without an error: estimators and options, encrypted.

    python benchmarks/estimators.py --out benchmarks/results/mine-estimators.json

Each case of tests/python/estimator_cases.py is fitted, mirrored, written to a file, and run on encrypted samples by a client that has no
weights. The client's predictions, and probabilities where the estimator has some, are compared with the estimator's own. The counts
depend on no machine but for noise.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import run as runner

import heliograph as hg

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "python"))
import estimator_cases as cases

#: The error of CKKS that a value may have besides the one that the model's report states.
SLACK = 2.0**-20


def own(estimator: Any, case: cases.Case, method: str) -> Any:
    """What the estimator's method gives for the case's samples; None without."""
    return getattr(estimator, method)(case.copy()) if hasattr(estimator, method) else None


def answered(model: hg.nn.Model, case: cases.Case, folder: Path) -> tuple[hg.SealedModel, Any]:
    """The client's half of a file of the model, and its decrypted scores [samples, outputs]."""
    whole = model.seal(folder / "model.hgm", samples=cases.COUNT)
    half = hg.SealedModel.load(whole.client().to_bytes())
    secret = hg.SecretKey.generate(half.parameters)
    answer = whole.run(hg.Server(half.keys(secret)), half.encrypt(secret, case.samples))
    return half, half.decrypt(secret, answer, like=case.samples)


def differences(model: hg.nn.Model, half: hg.SealedModel, scores: Any, estimator: Any, case: cases.Case) -> dict[str, float]:
    """The largest differences from the estimator: of predictions of numbers, decision values and probabilities; the share of other
    classes.
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
    """One case: right, refused with an error, or wrong."""
    case, estimator = cases.CASES[name], cases.fitted(name)
    try:
        model = hg.nn.from_sklearn(estimator, case.copy())
        half, scores = answered(model, case, folder)
    except hg.HeliographError as error:
        kind = "refused" if case.refused else "refused, and should not be"
        return {"case": name, "kind": kind, "error": type(error).__name__, "says": str(error)[:300]}
    off, stated = differences(model, half, scores, estimator, case), model.report.largest_error
    agreement = model.report.agreement
    wrong = any(value > stated + SLACK for what, value in off.items() if what != "classes")
    wrong = wrong or (agreement is not None and off.get("classes", 0) > 1 - agreement + 1e-9)
    kind = "wrong" if wrong or case.refused else "right"
    return {"case": name, "kind": kind, "exact": case.clear, "stated": stated, "agreement": agreement, "off": off}


def main() -> None:
    """Counts, shows and writes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in cases.CASES:
            rows.append(row_of(name, Path(folder)))
            if rows[-1]["kind"] not in ("right", "refused"):
                print(rows[-1], flush=True)
    print(dict(Counter(row["kind"] for row in rows)))
    runner.save(given.out, runner.report(rows, kind="estimators", scikit_learn=cases.VERSION))


if __name__ == "__main__":
    main()
