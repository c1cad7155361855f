"""Neural networks for encrypted inputs."""

from heliograph.ml.networks.comparison import Comparison, LayerError, compare
from heliograph.ml.networks.compiling import compile_graph
from heliograph.ml.networks.model import NetworkModel
from heliograph.ml.networks.report import Approximated, NetworkReport
from heliograph.ml.networks.search import Loss

__all__ = [
    "Approximated",
    "Comparison",
    "LayerError",
    "Loss",
    "NetworkModel",
    "NetworkReport",
    "compare",
    "compile_graph",
]
