"""Encrypted neural networks: shipped integer weights, and two ways to run them on ciphertexts.

Many images at once (`Network.evaluate`: one pixel a ciphertext, one image a slot), or one image at low latency
(`PackedNetwork`: one image's pixels side by side in the slots). And models that scikit-learn has fitted (`from_sklearn`).
"""

from heliograph.nn.estimators import Activation, Dense, Model, Report, from_sklearn
from heliograph.nn.networks import Counts, Layer, Network, load, names
from heliograph.nn.packed import PackedNetwork, PackedServer
from heliograph.nn.sets import SETUPS, Setup, setup

__all__ = [
    "SETUPS",
    "Activation",
    "Counts",
    "Dense",
    "Layer",
    "Model",
    "Network",
    "PackedNetwork",
    "PackedServer",
    "Report",
    "Setup",
    "from_sklearn",
    "load",
    "names",
    "setup",
]
