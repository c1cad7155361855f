"""Comparison of an encrypted run with the exact network, layer by layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from heliograph import _core, ckks
from heliograph._common.arguments import described
from heliograph._common.html import HtmlRepr, Rows
from heliograph.keys import Server
from heliograph.ml.networks.calibration import samples_of
from heliograph.ml.networks.evaluation import evaluate
from heliograph.ml.networks.model import NetworkModel
from heliograph.ml.networks.prepared import PreparedModel


@dataclass(frozen=True)
class LayerError:
    """Largest differences of one tensor, relative to the length of its exact values' range.

    >>> ml.LayerError("/relu", 1e-6, 0.01).node
    '/relu'

    `from_polynomials` compares the encrypted run with the same polynomials on clear numbers: noise and wrong programs.
    `from_exact` compares it with the exact network."""

    node: str
    from_polynomials: float
    from_exact: float


@dataclass(frozen=True)
class Comparison(HtmlRepr):
    """Differences of an encrypted run at each activation and at the output: `compare`.

    >>> found = ml.Comparison((ml.LayerError("/relu", 1e-6, 0.01), ml.LayerError("output", 2e-6, 0.02)))
    >>> found.worst.node
    'output'
    """

    layers: tuple[LayerError, ...]

    @property
    def worst(self) -> LayerError:
        """The layer with the largest difference from the polynomials on clear numbers."""
        return max(self.layers, key=lambda layer: layer.from_polynomials)

    def _rows(self) -> Rows:
        return [
            (layer.node, f"noise {layer.from_polynomials:.2g}, with approximations {layer.from_exact:.2g}")
            for layer in self.layers
        ]

    def __str__(self) -> str:
        width = max(len(layer.node) for layer in self.layers)
        return "\n".join(f"{label:>{width}}  {text}" for label, text in self._rows())


def compare(model: NetworkModel | PreparedModel, secret: ckks.SecretKey, samples: Any, keys: Any = None) -> Comparison:
    """Runs a model encrypted, decrypts the value of each activation, and compares it with the clear network.

    Takes at most `model.batch` samples. Errors are relative to the range of the exact values. Values outside an interval do
    not raise an error here; they show as large differences. Raises the errors of `NetworkModel.encrypt`.

    >>> secret = hg.SecretKey.generate(net.parameters)
    >>> found = ml.compare(net, secret, points[:1])
    >>> [layer.node for layer in found.layers], found.worst.from_polynomials < 1e-3
    (['/relu', 'output'], True)
    """
    if isinstance(model, PreparedModel):
        return compare(model.network, secret, model.prepare(samples), keys)
    if not isinstance(model, NetworkModel):
        raise _core.DtypeError(f"compare takes a compiled network of hg.ml.compile, not {described(model)}")
    circuit = model.circuit
    x = samples_of(samples, model.input_shape, "samples")
    server: Server[Any] = Server(model.keys(secret) if keys is None else keys)
    found: dict[str, Any] = {}

    def note(name: str, value: Any) -> None:
        slots = secret.decrypt(value, unguarded=True, unchecked=True)
        found[name] = circuit.design.layouts[name].unpack_groups(slots, len(x)) * circuit.units.values[name]

    y = circuit(server.bind(model.encrypt(secret, x)), note)
    values = circuit.design.output.unpack_groups(secret.decrypt(y, unguarded=True, unchecked=True), len(x))
    found[model.network.result] = values * circuit.units.output
    layers = []
    for name, got in found.items():
        graph = model.network.upto(name)
        exact = evaluate(graph, x)[name]
        fitted = evaluate(
            graph, x, lambda node, u: circuit.polynomials[node.output](u) if node.output in circuit.polynomials else None
        )[name]
        length = max(float(np.ptp(exact)), 1e-30)
        label = next((cut.label for cut in model.network.cuts if cut.name == name), "output")
        worst = [float(np.abs(got - clear).max()) / length for clear in (fitted, exact)]
        layers.append(LayerError(label, *worst))
    return Comparison(tuple(layers))
