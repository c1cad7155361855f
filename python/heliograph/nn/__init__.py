"""Encrypted neural networks and scikit-learn models.

The shipped networks have integer weights and run in three layouts:

- `Network.evaluate`: many images at once. Each ciphertext holds one pixel of all images, with one image in each slot.
- `PackedNetwork`: one image at low latency. The image's pixels are packed into the slots.
- `TiledNetwork`: some images in the smallest ring. The images' pixels are tiled over the slots.

`from_sklearn` makes models of fitted estimators of scikit-learn.

The examples of this module's functions continue this one.

>>> import numpy as np
>>> import heliograph as hg
>>> from heliograph import nn
>>> network = nn.load("digits")
>>> image = np.random.default_rng(1).integers(0, 17, (8, 8))  # of 0 to 16
>>> network.clear_logits([image]).shape
(1, 10)
>>> layer = nn.Dense(np.array([[2.0, 1.0]]), np.array([0.5]))
>>> model = nn.Model("a line", (layer,), None, False, 8.0)  # `from_sklearn` makes one of an estimator
"""

from heliograph.nn.estimators import Model, Report, from_sklearn
from heliograph.nn.inputs import Inputs
from heliograph.nn.layers import Activation, Dense
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
