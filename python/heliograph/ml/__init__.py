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
"""

from heliograph.ml.compiling import compile
from heliograph.ml.errors import AccuracyError, ModelError
from heliograph.ml.estimators import EstimatorModel, Report
from heliograph.ml.inputs import Inputs
from heliograph.ml.layers import Activation, Dense
from heliograph.ml.model import Model
from heliograph.ml.outputs import Output
from heliograph.ml.ranges import Ranges
from heliograph.ml.trees.model import EnsembleModel, TreeReport

__all__ = [
    "AccuracyError",
    "Activation",
    "Dense",
    "EnsembleModel",
    "EstimatorModel",
    "Inputs",
    "Model",
    "ModelError",
    "Output",
    "Ranges",
    "Report",
    "TreeReport",
    "compile",
]
