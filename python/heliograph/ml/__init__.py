"""From a trained model to a model of encrypted data.

`compile` takes a fitted estimator of scikit-learn, an ensemble of trees of scikit-learn, XGBoost or LightGBM, or a file of
one. It returns a `Model` with the steps of an encrypted run and scikit-learn's methods.

The examples of this module's functions continue this one.

>>> import numpy as np
>>> import heliograph as hg
>>> from heliograph import ml
>>> layer = ml.Dense(np.array([[2.0, 1.0]]), np.array([0.5]))
>>> model = ml.EstimatorModel("a line", (layer,), None, False, 8.0)  # `compile` makes one of an estimator
>>> from sklearn.datasets import load_iris
>>> from sklearn.ensemble import RandomForestClassifier
>>> flowers, kinds = load_iris(return_X_y=True)
>>> forest = ml.compile(RandomForestClassifier(5, max_depth=3, random_state=0).fit(flowers, kinds), calibrate=flowers)
>>> from heliograph.ml.graph import Graph, Node
>>> weight, names = np.array([[1.0, -1.0], [0.5, 2.0], [-1.0, 0.5]]), {"function": "relu", "parameters": {}}
>>> first = Node("dense", ("x",), "h", {"weight": weight, "bias": np.zeros(3)}, "/first")
>>> second = Node("dense", ("r",), "y", {"weight": weight.T, "bias": np.zeros(2)}, "/second")
>>> nodes = (first, Node("activation", ("h",), "r", names, "/relu"), second)
>>> graph = Graph(("x",), ("y",), nodes, {"x": (2,), "h": (3,), "r": (3,), "y": (2,)})
>>> points = np.random.default_rng(1).uniform(-1, 1, (200, 2))
>>> net = ml.compile(graph, points, accuracy=0.05)  # a file or a PyTorch module in place of a graph
"""

from heliograph.ml.compiling import compile
from heliograph.ml.errors import AccuracyError, ModelError
from heliograph.ml.estimators import EstimatorModel, Report
from heliograph.ml.inputs import Inputs
from heliograph.ml.layers import Activation, Dense
from heliograph.ml.model import Model
from heliograph.ml.networks import (
    Approximated,
    Comparison,
    LayerError,
    Loss,
    NetworkModel,
    NetworkReport,
    compare,
)
from heliograph.ml.outputs import Output
from heliograph.ml.ranges import Ranges
from heliograph.ml.trees.model import EnsembleModel, TreeReport

__all__ = [
    "AccuracyError",
    "Activation",
    "Approximated",
    "Comparison",
    "Dense",
    "EnsembleModel",
    "EstimatorModel",
    "Inputs",
    "LayerError",
    "Loss",
    "Model",
    "ModelError",
    "NetworkModel",
    "NetworkReport",
    "Output",
    "Ranges",
    "Report",
    "TreeReport",
    "compare",
    "compile",
]
