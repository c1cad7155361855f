"""Statistics and regressions of an encrypted data frame: scikit-learn's table of diabetes patients.

Use
    python data_frame.py
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LinearRegression, LogisticRegression

import heliograph as hg


def main() -> None:
    """Compares the owner's results with those of pandas and scikit-learn."""
    patients = load_diabetes(as_frame=True, scaled=False).frame
    patients["sex"] = np.where(patients["sex"] == 1, "a", "b")
    patients["worse"] = patients["target"] > 150
    params = hg.frame.parameters_for(patients)
    print(params.explain())

    owner = hg.frame.SecretKey.generate(params)
    frame = hg.frame.Server(owner.evaluation_keys()).bind(owner.encrypt(patients))

    print(owner.decrypt(frame.describe()).round(3))
    print(owner.decrypt(frame.groupby("sex").agg({"bmi": ["mean", "std"], "target": "mean"})).round(3))

    features = ["age", "bmi", "bp", "s5"]
    found = owner.decrypt(frame.least_squares("target", features))
    model = LinearRegression().fit(patients[features], patients["target"])
    print("least squares:", found.round(4).to_dict())
    print(f"largest difference from scikit-learn: {np.abs(found[features] - model.coef_).max():.1e}")

    found = owner.decrypt(frame.logistic_regression("worse", features))
    chances = (
        LogisticRegression(max_iter=10_000).fit(patients[features], patients["worse"]).predict_proba(patients[features])
    )
    scores = patients[features].to_numpy() @ found[features].to_numpy() + found["intercept"]
    print("logistic regression:", found.round(4).to_dict())
    print(f"largest difference of a probability: {np.abs(1 / (1 + np.exp(-scores)) - chances[:, 1]).max():.1e}")


if __name__ == "__main__":
    main()
