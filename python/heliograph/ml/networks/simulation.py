"""Simulation of the encrypted computation on clear samples: the same polynomials and units, and noise of a modelled size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from heliograph import ckks
from heliograph.ckks.parameters import BOOTSTRAPPING
from heliograph.ml.graph import Node
from heliograph.ml.networks.cuts import Network
from heliograph.ml.networks.evaluation import HOOKED, batches, evaluate, evaluate_more, evaluated
from heliograph.ml.networks.fitting import Polynomial
from heliograph.ml.networks.placing import Plan

_BATCH = 64
#: Relative distance outside an interval, in half its length, from which decryption raises an error.
BEYOND = 2.0**-8
#: log2 of the errors of one layer relative to the step of the scale, at N = 2^16: measured errors of layers, doubled.
_LAYER_BITS = 17


class Simulator:
    """Evaluates a network with polynomials.

    `noise` is the standard deviation of the error of each activation's argument, in half the length of its interval, by
    the cut's name. `errors` are standard deviations of the errors of values: of products and of bootstrapped activations.
    `plan` has the bootstraps. A value without an activation must be inside its interval before a bootstrap and as a factor
    of a product."""

    def __init__(
        self,
        network: Network,
        polynomials: Mapping[str, Polynomial],
        noise: Mapping[str, float] | None = None,
        plan: Plan | None = None,
        errors: Mapping[str, float] | None = None,
    ) -> None:
        self._network, self._polynomials = network, polynomials
        guarded = {name for name, source in network.factors().items() if not source}
        guarded |= {name for name, place in plan.places.items() if place.before} if plan else set()
        self._free = {name for name, p in polynomials.items() if p.is_identity and name not in guarded}
        self._graph = network.upto(network.result)
        self._noise = {} if noise is None else noise
        self._errors = {} if errors is None else errors

    def outputs(self, samples: npt.NDArray[Any], seed: int = 0) -> tuple[npt.NDArray[Any], dict[str, npt.NDArray[np.int64]]]:
        """Returns the outputs [count, ...], and by cut the numbers of samples beyond its interval."""
        rng = np.random.default_rng(seed)
        beyond: dict[str, list[npt.NDArray[np.int64]]] = {}
        start = 0

        def noisy(x: npt.NDArray[Any], sigma: float) -> npt.NDArray[Any]:
            return x + (rng.standard_normal(x.shape, dtype=np.float32) * np.float32(sigma)).astype(x.dtype) if sigma else x

        def approximated(node: Node, x: npt.NDArray[Any]) -> npt.NDArray[Any] | None:
            if node.operation in HOOKED:
                return noisy(x, self._errors.get(node.output, 0.0))
            fitted = self._polynomials.get(node.output)
            if fitted is None:
                return None
            middle, half = (fitted.low + fitted.high) / 2, (fitted.high - fitted.low) / 2
            x = noisy(x, self._noise.get(node.output, 0.0) * half)
            if node.output in self._free:
                return x
            with np.errstate(all="ignore"):
                far = ~(np.abs(x - middle) <= half * (1 + BEYOND))
                if far.any():
                    found = np.flatnonzero(far.reshape(len(x), -1).any(axis=1))
                    beyond.setdefault(node.output, []).append(found + start)
                return noisy(fitted(x), self._errors.get(node.output, 0.0))

        parts = []
        for part in batches(np.asarray(samples, dtype=np.float32), _BATCH):
            with np.errstate(all="ignore"):
                parts.append(evaluate(self._graph, part, approximated)[self._network.result])
            start += len(part)
        return np.concatenate(parts), {name: np.concatenate(found) for name, found in beyond.items()}


def outputs_alone(
    network: Network, polynomials: Mapping[str, Polynomial], samples: npt.NDArray[Any]
) -> dict[str, npt.NDArray[Any]]:
    """Returns the outputs [count, ...] with one polynomial each, and exact functions elsewhere, by the cut's name."""
    graph = network.upto(network.result)
    values: dict[str, npt.NDArray[Any]] = {graph.inputs[0]: np.asarray(samples, dtype=np.float32)}
    made = {}
    for i, node in enumerate(graph.nodes):
        after = replace(graph, nodes=graph.nodes[i + 1 :])
        needed = {name for later in after.nodes for name in later.inputs} | set(graph.outputs)
        fitted = polynomials.get(node.output)
        argument = values[node.inputs[0]] if fitted is not None else None
        values = evaluate_more(replace(graph, nodes=(node,)), values)
        values = {name: x for name, x in values.items() if name in needed}
        if fitted is not None and argument is not None:
            with np.errstate(all="ignore"):
                alone = {**values, node.output: fitted(argument)}
            made[node.output] = evaluated(after, alone)[network.result]
    return made


def errors_of(parameters: ckks.Parameters, plan: Plan, network: Network, units: Mapping[str, float]) -> dict[str, float]:
    """Returns the modelled standard deviations of the errors of products, and of activations that are bootstrapped."""
    layer, boot = _deviations(parameters)
    made: dict[str, float] = {}
    for cut in network.cuts:
        after = boot if plan.places[cut.name].after else 0.0
        if cut.node is not None and (cut.is_product or after):
            made[cut.name] = units[cut.name] * float(np.hypot(layer if cut.is_product else 0.0, after))
    return made


def noise_of(parameters: ckks.Parameters, plan: Plan) -> dict[str, float]:
    """Returns the modelled standard deviation of each activation's argument, relative to half its interval."""
    layer, boot = _deviations(parameters)
    made: dict[str, float] = {}
    for name, place in plan.places.items():
        made[name] = float(np.hypot(layer, boot if place.before or place.after else 0.0))
    return made


def _deviations(parameters: ckks.Parameters) -> tuple[float, float]:
    """Returns the modelled errors of values of about 1 in one layer, and after a bootstrap."""
    layer = 2.0 ** (_LAYER_BITS - parameters.log_scale) * (parameters.n / 65536) ** 0.5
    named = BOOTSTRAPPING.get(parameters.name or "")
    if named is not None:
        return layer, 2.0 ** -named[1]
    return layer, 2.0 ** -(parameters.bootstrapping_precision() + 2) if parameters.bootstrapping_level else 0.0
