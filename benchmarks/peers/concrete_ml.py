"""Times Concrete-ML's boosted trees on one encrypted row. `benchmarks.runners.trees --peer PYTHON` starts this program.

    PYTHON benchmarks/peers/concrete_ml.py

PYTHON is an interpreter of an environment with `pip install concrete-ml==1.9.0`, because Concrete-ML needs other versions of NumPy and
scikit-learn. The program prints one JSON object: versions, seconds to compile, seconds to make keys, and seconds of each row. It counts the
rows whose encrypted class equals the class of the quantized model in the clear.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from importlib.metadata import version
from typing import Any


def measured(rows: int, trees: int, depth: int, bits: int) -> dict[str, Any]:
    """Returns the times of compilation, keys and each row."""
    from concrete.ml.sklearn import XGBClassifier
    from sklearn.datasets import load_breast_cancer
    from sklearn.model_selection import train_test_split

    train, test, labels, expected = train_test_split(*load_breast_cancer(return_X_y=True), test_size=0.3, random_state=0)
    model = XGBClassifier(n_bits=bits, n_estimators=trees, max_depth=depth, n_jobs=1)
    model.fit(train, labels)
    start = time.perf_counter()
    model.compile(train)
    compiled = time.perf_counter()
    model.fhe_circuit.keygen()
    keys = time.perf_counter()
    seconds, equal = [], 0
    for i in range(rows):
        row = test[i : i + 1]
        begin = time.perf_counter()
        found = model.predict(row, fhe="execute")
        seconds.append(time.perf_counter() - begin)
        equal += int(found[0] == model.predict(row)[0])
    return {
        "peer": "concrete-ml",
        "versions": {name: version(name) for name in ("concrete-ml", "concrete-python", "scikit-learn", "xgboost", "numpy")},
        "trees": trees,
        "depth": depth,
        "bits": bits,
        "compile_seconds": compiled - start,
        "key_seconds": keys - compiled,
        "row_seconds": seconds,
        "equal_rows": equal,
        "clear_accuracy": float((model.predict(test) == expected).mean()),
    }


def main() -> None:
    """Prints the measurements as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=3, help="number of encrypted rows")
    parser.add_argument("--trees", type=int, default=50)
    parser.add_argument("--depth", type=int, default=4)
    parser.add_argument("--bits", type=int, default=6, help="bits of quantized features")
    options = parser.parse_args()
    json.dump(measured(options.rows, options.trees, options.depth, options.bits), sys.stdout)
    print()


if __name__ == "__main__":
    main()
