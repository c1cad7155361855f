"""Neural networks for encrypted inputs."""

from heliograph.ml.networks.comparison import Comparison, compare
from heliograph.ml.networks.compiling import compile_graph
from heliograph.ml.networks.model import NetworkModel
from heliograph.ml.networks.report import Approximated, NetworkReport

__all__ = ["Approximated", "Comparison", "NetworkModel", "NetworkReport", "compare", "compile_graph"]
