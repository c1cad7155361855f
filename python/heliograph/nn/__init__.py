"""Encrypted neural networks with integer weights.

The shipped networks run in three layouts:

- `Network.evaluate`: many images at once. Each ciphertext holds one pixel of all images, with one image in each slot.
- `PackedNetwork`: one image at low latency. The image's pixels are packed into the slots.
- `TiledNetwork`: some images in the smallest ring. The images' pixels are tiled over the slots.

`hg.ml.compile` makes models of fitted estimators and of ensembles of trees.

The examples of this module's functions continue this one.

>>> import numpy as np
>>> import heliograph as hg
>>> from heliograph import nn
>>> network = nn.load("digits")
>>> image = np.random.default_rng(1).integers(0, 17, (8, 8))  # of 0 to 16
>>> network.clear_logits([image]).shape
(1, 10)
"""

from heliograph.nn.networks import Counts, Layer, Network, load, names
from heliograph.nn.packed import PackedNetwork, PackedServer
from heliograph.nn.sets import SETUPS, Setup, setup
from heliograph.nn.tiled import TiledNetwork, TiledServer

__all__ = [
    "SETUPS",
    "Counts",
    "Layer",
    "Network",
    "PackedNetwork",
    "PackedServer",
    "Setup",
    "TiledNetwork",
    "TiledServer",
    "load",
    "names",
    "setup",
]
