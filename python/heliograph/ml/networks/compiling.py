"""Compilation of neural networks to programs of CKKS."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

import numpy as np

from heliograph import _core, ckks
from heliograph._common.arguments import count_of, flag, of_kind, readable_bytes, real
from heliograph.ml.errors import ModelError
from heliograph.ml.graph import Graph
from heliograph.ml.networks.calibration import Calibration, calibrated, require_classes, split
from heliograph.ml.networks.cuts import Network, network_of
from heliograph.ml.networks.evaluation import products_of_sample, require_known
from heliograph.ml.networks.forecast import seconds_of
from heliograph.ml.networks.model import NetworkModel
from heliograph.ml.networks.primitives import with_primitives
from heliograph.ml.networks.program import Circuit, level_key_bytes, matrices, matrix_bytes
from heliograph.ml.networks.report import Approximated, NetworkReport
from heliograph.ml.networks.search import HALF, Loss, Search
from heliograph.ml.networks.sets import Choice, Chooser
from heliograph.ml.networks.simulation import outputs_alone
from heliograph.ml.outputs import Output
from heliograph.ml.profile import Profile, profile_of
from heliograph.programs.forecast import Costs

_LEAST_REPORTED, _REPORTED = 2, 24  # samples of the report's errors of single activations
_REPORT_WORK = 1 << 38  # products for these errors, which take less than a minute of two cores


def compile_graph(
    graph: Graph,
    calibrate: Any,
    *,
    accuracy: float = 0.005,
    batch: int = 1,
    target: Any = None,
    limit: Costs | None = None,
    guard: bool = True,
    margin: float = 1.3,
    classifies: bool | None = None,
    parameters: ckks.Parameters | None = None,
    lean: bool = False,
    compact: bool | None = None,
    masks: Container[str] = (),
) -> NetworkModel:
    """Compiles a canonical graph of a multilayer perceptron or a convolutional network for encrypted inputs, by CKKS.

    `calibrate` has samples [count, ...] like the future inputs, or a pair of samples and class numbers. Activations become
    polynomials on the range of their arguments on these samples, widened by the factor `margin`.

    `accuracy` limits the loss on the calibration samples, by simulation. With class numbers it is the share of right classes
    lost, without them the share of changed classes. For a regression it is the relative error of the outputs.
    `classifies` tells whether the outputs are scores of classes; by default they are, if there are at least two along one
    axis, and outputs of several axes are numbers. Several
    sigmoids are probabilities of labels: `predict` returns 0 or 1 for each, and the loss is the share of samples with
    another label. With ``classifies=True`` the largest sigmoid is the class, without probabilities.

    `batch` samples share one request. The forecast chooses how many of them share ciphertexts; more are groups of a tensor
    of shape (groups, ciphertexts). `parameters` is a parameter set; by default the set of 128 bits with the least predicted
    time. With `guard` decryption raises OutOfIntervalError if a value was outside an interval. With `lean` the encoded
    matrices are not kept in memory, and are made again for each call. With `compact` matrices take about a tenth of the
    memory, and each product transforms them again (`hg.ckks.LinearTransform`). By default they are compact if all of them
    would take more than 65% of the free memory.

    `masks` are values of the graph that are masks of softmax (`Preparation.joined`).

    `target` names the profile of the machine for which seconds are predicted (`heliograph profile`): a name or a path; by
    default the device in use. `limit` refuses larger predicted seconds or bytes.

    Raises ModelError for an unsupported node, AccuracyError, LimitError if costs exceed `limit`, ParameterError, ShapeError,
    DtypeError, and PlaintextRangeError for samples that are not finite.
    """
    accuracy, margin = real(accuracy, "the accuracy"), real(margin, "the margin")
    if not accuracy >= 0:
        raise _core.ParameterError(f"accuracy must be a loss of at least 0, not {accuracy:g}")
    if not 1 <= margin <= 16:
        raise _core.ParameterError(f"margin must be a factor between 1 and 16, not {margin:g}")
    batch, guard = count_of(batch, "batch", 1), flag(guard, "guard")
    if parameters is not None:
        parameters = of_kind(parameters, ckks.Parameters, "parameters must be a set of CKKS,")
    lean, compact = flag(lean, "lean"), None if compact is None else flag(compact, "compact")
    profile = profile_of(target)
    require_known(graph)
    samples, _ = split(calibrate, tuple(graph.shapes[graph.inputs[0]]))
    network = network_of(with_primitives(graph, samples, masks))
    calibration = calibrated(network, calibrate, margin)
    several = len(_wide(network)) == 1
    if classifies is not None and flag(classifies, "classifies") and not several:
        raise _core.ParameterError(
            "classifies=True needs at least two outputs along one axis, one score for each class; the outputs have shape "
            f"{network.output.shape}"
        )
    _require_classes_along_one_axis(network)
    output = _output(network, several, classifies)
    if calibration.labels is not None and output.kind != "class":
        why = "several sigmoids, a probability of each label" if output.kind == "labels" else "numbers and no scores"
        raise _core.ParameterError(
            f"cannot compare this network with class numbers: its outputs are {why}; pass calibrate=samples, or "
            "classifies=True if its outputs are scores of classes"
        )
    if calibration.labels is not None:
        require_classes(calibration.labels, int(np.prod(network.output.shape)))
    search = Search(
        network, calibration, Chooser(network, calibration.largest, batch, parameters, profile, compact), output.kind
    )
    polynomials, choice, loss = search.run(accuracy)
    circuit = Circuit(
        network.without_weights(),
        choice.design,
        choice.plan,
        polynomials,
        choice.units,
        choice.parameters,
        guard,
        lean,
        compact,
    )
    report = _report(circuit, calibration, choice, loss, profile)
    if limit is not None:
        _require(limit, report)
    return NetworkModel(circuit, report, output)


def _wide(network: Network) -> list[int]:
    """Returns the sizes of the output's axes with more than one value."""
    return [size for size in network.output.shape if size > 1]


def _require_classes_along_one_axis(network: Network) -> None:
    """Raises ModelError for a last softmax or argmax of one value, or of an output with several axes."""
    if network.client and len(_wide(network)) != 1:
        node = network.client[0]
        raise ModelError(
            f"cannot compile node {node.source or node.output} ({node.operation}): the last softmax or argmax must be of "
            f"one axis of at least 2 scores, got an output of shape {network.output.shape}; remove the node, and apply it "
            "to decrypted values"
        )


def _output(network: Network, several: bool, classifies: bool | None) -> Output:
    """Returns the mapping from outputs to predictions. Sigmoids are probabilities of labels, not scores of a softmax."""
    labels = Output("labels", probability="average", offset=HALF)
    if classifies is None and not several and network.has_sigmoids and len(_wide(network)) > 1:
        return labels
    if not (several if classifies is None else classifies):
        return Output("values")
    applied = any(node.operation != "argmax" for node in network.client)
    if not network.has_sigmoids or applied:
        return Output("class", probability="softmax")
    if classifies or network.client:
        return Output("class")
    return labels


def _report(circuit: Circuit, calibration: Calibration, choice: Choice, loss: Loss, profile: Profile) -> NetworkReport:
    """Returns the costs and the approximations."""
    network, polynomials = circuit.network, circuit.polynomials
    design, plan = choice.design, choice.plan
    every = [matrix for _, _, matrix in matrices(design, plan)]
    rows = []
    approximated = {name: fitted for name, fitted in polynomials.items() if not fitted.is_identity}
    work = max(1, len(approximated) * products_of_sample(network.upto(network.result)) // 2)
    samples = calibration.samples[: max(_LEAST_REPORTED, min(_REPORTED, _REPORT_WORK // work))]
    exact = calibration.outputs[: len(samples)]
    spread = max(float(exact.std()), 1e-30)
    alone = outputs_alone(network, approximated, samples)
    for cut in network.activations:
        assert cut.node is not None
        if cut.is_linear or cut.name not in approximated:
            continue
        fitted = polynomials[cut.name]
        error = float(np.sqrt(np.mean((alone[cut.name] - exact) ** 2))) / spread
        place = plan.places[cut.name]
        function = str(cut.node.attributes["function"])
        rows.append(
            Approximated(
                cut.label,
                function,
                fitted.low,
                fitted.high,
                fitted.degree,
                fitted.depth,
                fitted.largest_error,
                fitted.mean_error,
                error,
                place.before or place.after,
            )
        )
    return NetworkReport(
        "CKKS",
        repr(choice.parameters).strip("<>"),
        plan.places[network.cuts[0].name].value,
        plan.bootstraps,
        sum(m.count for m in every),
        sum(m.turns(plan.places[name].filled) for name, maps in design.maps.items() for m in maps)
        + sum(m.turns() for m in design.output_maps),
        profile.name,
        seconds_of(circuit, profile),
        matrix_bytes(choice.parameters, design, plan),
        key_bytes(choice.parameters, circuit.needs),
        circuit.work_bytes,
        loss,
        tuple(rows),
        "the shapes of input and output, their scale, the parameter set, and the rotations of the keys, which follow "
        "from the shapes of layers",
    )


def key_bytes(p: ckks.Parameters, needs: Mapping[str, Any]) -> int:
    """Returns the bytes in memory of the evaluation keys of `Circuit.needs`: rotations for their levels, relinearization,
    conjugation, bootstrapping."""
    total = p.switch_key_bytes * (1 + bool(needs.get("conjugate")))
    total += p.bootstrapping_key_bytes if needs.get("bootstrap") else 0
    for level, steps in needs["level_rotations"].items():
        total += len(steps) * level_key_bytes(p, level)
    return int(total)


def _require(limit: Costs, report: NetworkReport) -> None:
    """Raises LimitError for costs beyond a maximum."""
    if limit.seconds is not None and report.seconds > limit.seconds:
        raise _core.LimitError(
            f"this network would take about {report.seconds:.3g} s on {report.target}; limit= allows {limit.seconds:.3g} s: "
            "pass a larger accuracy= for lower degrees"
        )
    if limit.nbytes is not None and report.memory_bytes > limit.nbytes:
        raise _core.LimitError(
            f"keys, matrices and tensors of this network would take {readable_bytes(report.memory_bytes)}; limit= allows "
            f"{readable_bytes(limit.nbytes)}"
        )
