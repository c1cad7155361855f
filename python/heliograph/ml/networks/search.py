"""Search of the degrees of polynomials: the cheapest ones with which the network keeps its accuracy."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from heliograph.ml.errors import AccuracyError, ModelError
from heliograph.ml.networks.calibration import Calibration
from heliograph.ml.networks.cuts import Cut, Network
from heliograph.ml.networks.evaluation import function_of, is_relative
from heliograph.ml.networks.fitting import DEGREES, Observed, Polynomial, fit, identity
from heliograph.ml.networks.sets import Choice, Chooser
from heliograph.ml.networks.simulation import Simulator, errors_of, noise_of

_SAMPLES = 512  # maximum samples of one simulation
_FEW = 64  # samples of a first simulation, which refuses degrees that are far too low
_SOME, _TRIALS = 192, 6  # samples of a simulation with one lower degree, and maximum number of these
HALF = 0.5  #: probability from which a label is 1
_RELATIVE, _MOST_RELATIVE = 2.0**-8, 127  # of inverses: relative error, and largest degree for it
_GAIN = 0.02  # least share of the seconds that a lower degree must save


@dataclass(frozen=True)
class Loss:
    """Differences between a compiled network and the exact one on some samples.

    >>> net.report.loss.samples, net.report.loss.lost <= 0.05
    (200, True)
    """

    samples: int
    lost: float  #: the loss that `accuracy` limits
    agreement: float | None  #: share of samples of the same class; None for a regression
    relative_error: float  #: root mean square error of the outputs, relative to their standard deviation
    kind: str  #: words that name the loss
    beyond: int  #: samples with a value outside an interval


def loss_of(
    calibration: Calibration, kind: str, made: npt.NDArray[Any], beyond: Mapping[str, npt.NDArray[np.int64]]
) -> Loss:
    """Returns the loss of outputs [count, ...] of the first samples, for a kind of `Output`: class, labels or values.

    Samples with a value outside an interval count as wrong classes, because their answers are errors. For a regression one
    such sample is an infinite loss."""
    count = len(made)
    exact = calibration.outputs[:count]
    with np.errstate(all="ignore"):
        spread = max(float(exact.std()), 1e-30)
        relative = float(np.sqrt(np.mean((made.astype(np.float64) - exact) ** 2))) / spread
    which = np.unique(np.concatenate([*beyond.values(), np.zeros(0, np.int64)]))
    outside = len(which)
    if kind == "values":
        lost = relative if np.isfinite(relative) and not outside else np.inf
        return Loss(count, lost, None, relative, "relative error", outside)
    finite = np.isfinite(made.reshape(count, -1)).all(axis=1)
    finite[which] = False
    if kind == "labels":
        same = ((made.reshape(count, -1) > HALF) == (exact.reshape(count, -1) > HALF)).all(axis=1) & finite
        return Loss(count, float(1 - same.mean()), float(same.mean()), relative, "share of samples of other labels", outside)
    classes, right = np.where(finite, made.reshape(count, -1).argmax(axis=1), -1), exact.reshape(count, -1).argmax(axis=1)
    agreement = float((classes == right).mean())
    if calibration.labels is None:
        return Loss(count, 1 - agreement, agreement, relative, "share of changed classes", outside)
    labels = calibration.labels[:count]
    lost = max(0.0, float((right == labels).mean() - (classes == labels).mean()))
    return Loss(count, lost, agreement, relative, "share of right classes lost", outside)


class Search:
    """Fits polynomials and measures the loss of the network with them."""

    def __init__(self, network: Network, calibration: Calibration, chooser: Chooser, kind: str) -> None:
        self._network, self._calibration, self._chooser = network, calibration, chooser
        self._kind = kind
        self._fits: dict[tuple[str, int], Polynomial] = {}

    def fitted(self, name: str, degree: int) -> Polynomial:
        """Returns the polynomial of one activation. Raises ModelError if its function is not finite on the interval."""
        if (name, degree) not in self._fits:
            cut = next(cut for cut in self._network.activations if cut.name == name)
            assert cut.node is not None
            exact, seen = cut.node.attributes["function"] == "square", self._calibration.seen[name]
            try:
                made = self._fit(cut, seen, 2 if exact else degree)
            except ValueError as error:
                raise ModelError(f"cannot compile node {cut.label}: {error}; narrow margin= or scale its argument") from None
            self._fits[name, degree] = made
        return self._fits[name, degree]

    @staticmethod
    def _fit(cut: Cut, seen: Observed, degree: int) -> Polynomial:
        """Returns the polynomial of a cut. Raises ValueError if its function is not finite on the interval."""
        assert cut.node is not None
        return identity(seen) if cut.is_linear else fit(function_of(cut.node), seen, degree, is_relative(cut.node))

    def _degree(self, name: str, degree: int) -> int:
        """Returns the degree of one activation. Inverses get a higher degree if their relative error would be large
        otherwise."""
        cut = next(cut for cut in self._network.activations if cut.name == name)
        if cut.node is None or not is_relative(cut.node):
            return degree
        function, seen = function_of(cut.node), self._calibration.seen[name]
        for higher in (d for d in DEGREES if degree <= d <= _MOST_RELATIVE):
            if seen.relative_error(function, self.fitted(name, higher)) < _RELATIVE:
                return higher
        return max(degree, _MOST_RELATIVE)

    def polynomials(self, degrees: Mapping[str, int]) -> dict[str, Polynomial]:
        """Returns the polynomials of all activations."""
        return {name: self.fitted(name, degree) for name, degree in degrees.items()}

    def loss(self, polynomials: Mapping[str, Polynomial], choice: Choice | None = None, samples: int = _SAMPLES) -> Loss:
        """Returns the loss on the first calibration samples, with the noise of a chosen set."""
        noise = None if choice is None else noise_of(choice.parameters, choice.plan)
        errors = None
        if choice is not None:
            errors = errors_of(choice.parameters, choice.plan, self._network, choice.units.values)
        some = self._calibration.samples[:samples]
        simulator = Simulator(self._network, polynomials, noise, None if choice is None else choice.plan, errors)
        return loss_of(self._calibration, self._kind, *simulator.outputs(some))

    def _is_hopeless(self, polynomials: Mapping[str, Polynomial], accuracy: float) -> bool:
        """Tells whether few samples show already that the loss is beyond `accuracy`."""
        few = self.loss(polynomials, samples=_FEW)
        deviation = 3 * math.sqrt(max(few.lost, 1 / few.samples) / few.samples) if self._kind != "values" else few.lost / 2
        return len(self._calibration.samples) > 2 * _FEW and few.lost - deviation > accuracy

    def run(self, accuracy: float) -> tuple[dict[str, Polynomial], Choice, Loss]:
        """Returns polynomials with which the loss is at most `accuracy`, the cheapest set for them, and the loss.

        Raises AccuracyError, and ModelError if no set has the levels."""
        names = [cut.name for cut in self._network.activations]
        best: Loss | None = None
        fits = False
        for degree in DEGREES[2:]:
            degrees = {name: self._degree(name, degree) for name in names}
            polynomials = self.polynomials(degrees)
            if degree != DEGREES[-1] and self._is_hopeless(polynomials, accuracy):
                continue
            loss = self.loss(polynomials)
            best = loss if best is None or loss.lost < best.lost else best
            if loss.lost > accuracy:
                continue
            choice = self._chooser.choose(polynomials)
            fits = fits or choice is not None
            if choice is not None:
                return self._lowered(degrees, choice, loss, accuracy)
        assert best is not None
        if best.lost <= accuracy and not fits:
            raise ModelError(
                "cannot compile this network: no parameter set has the levels of its longest part between two bootstraps; "
                "use fewer layers without an activation between them, or pass parameters="
            )
        labels = (
            "" if self._calibration.labels is not None or self._kind != "class" else "labels (calibrate=(samples, labels)), "
        )
        raise AccuracyError(
            f"cannot compile this network within accuracy={accuracy:g}: with polynomials of degree at most {DEGREES[-1]} "
            f"its {best.kind} is {best.lost:.4g} on {best.samples} calibration samples. Pass a larger accuracy=, more "
            f"calibration samples, {labels}or train the network with smooth activations or narrower values"
        )

    def _lowered(
        self, degrees: dict[str, int], choice: Choice, loss: Loss, accuracy: float
    ) -> tuple[dict[str, Polynomial], Choice, Loss]:
        """Lowers degrees one after another while this saves time and keeps the accuracy."""
        polynomials = self.polynomials(degrees)
        few = self.loss(polynomials, choice, _SOME)
        start = (polynomials, choice, loss)
        trials = 0
        for name in sorted(degrees, key=lambda name: self.fitted(name, degrees[name]).mean_error):
            lower = [d for d in DEGREES[2:] if d < degrees[name]]
            if not lower or polynomials[name].degree <= 2 or trials == _TRIALS:
                continue
            trial = {**degrees, name: lower[-1]}
            fitted = self.polynomials(trial)
            cheaper = self._chooser.choose(fitted)
            if cheaper is None or cheaper.plan.seconds > choice.plan.seconds * (1 - _GAIN):
                continue
            trials += 1
            found = self.loss(fitted, cheaper, _SOME)
            if found.lost <= max(accuracy, few.lost) and found.beyond <= few.beyond:
                degrees, polynomials, choice, few = trial, fitted, cheaper, found
        if choice is start[1]:
            return start
        found = self.loss(polynomials, choice)
        return (polynomials, choice, found) if found.lost <= accuracy and found.beyond <= loss.beyond else start
