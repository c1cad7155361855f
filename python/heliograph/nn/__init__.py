"""Encrypted neural networks: shipped integer weights, and three ways to run them on ciphertexts.

Many images at once (`Network.evaluate`: one pixel a ciphertext, one image a slot); one image at low latency (`PackedNetwork`: its
pixels side by side in the slots); some images in the smallest ring (`TiledNetwork`: theirs side by side). And models that
scikit-learn has fitted (`from_sklearn`).

The examples of its functions go on from these lines.

>>> import numpy as np
>>> import heliograph as hg
>>> from heliograph import nn
>>> network = nn.load("digits")
>>> image = np.random.default_rng(1).integers(0, 17, (8, 8))  # of 0 to 16
>>> network.clear_logits([image]).shape
(1, 10)
>>> layer = nn.Dense(np.array([[2.0, 1.0]]), np.array([0.5]))
>>> model = nn.Model("a line", (layer,), None, False, 8.0)  # by hand; `from_sklearn` makes one of an estimator
"""

from heliograph.nn import sealed_estimators as sealed_estimators
from heliograph.nn import sealing as sealing
from heliograph.nn.estimators import Activation, Dense, Model, Report, from_sklearn
from heliograph.nn.inputs import Inputs
from heliograph.nn.networks import Counts, Layer, Network, load, names
from heliograph.nn.outputs import Output
from heliograph.nn.packed import PackedNetwork, PackedServer
from heliograph.nn.ranges import Ranges
from heliograph.nn.sets import SETUPS, Setup, setup
from heliograph.nn.tiled import TiledNetwork, TiledServer

__all__ = [
    "SETUPS",
    "Activation",
    "Counts",
    "Dense",
    "Inputs",
    "Layer",
    "Model",
    "Network",
    "Output",
    "PackedNetwork",
    "PackedServer",
    "Ranges",
    "Report",
    "Setup",
    "TiledNetwork",
    "TiledServer",
    "from_sklearn",
    "load",
    "names",
    "setup",
]
