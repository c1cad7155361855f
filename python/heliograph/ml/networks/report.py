"""Reports of compiled networks: every approximation, and costs before anything is encrypted."""

from __future__ import annotations

from dataclasses import dataclass

from heliograph._common.arguments import readable_bytes
from heliograph._common.html import HtmlRepr, Rows
from heliograph.ml.networks.search import Loss


@dataclass(frozen=True)
class Approximated:
    """One activation and its polynomial.

    >>> row = ml.Approximated("relu1", "relu", -1.0, 2.0, 15, 4, 0.1, 0.01, 0.003, False)
    >>> print(row)
    relu1: relu on [-1, 2] by degree 15, 4 levels, error 0.1 at most, 0.01 rms; 0.003 of the output alone
    """

    node: str  #: name of the node in the model's file
    function: str
    low: float  #: least argument
    high: float  #: largest argument
    degree: int
    levels: int
    largest_error: float  #: largest error on the interval
    mean_error: float  #: root mean square error at the calibration values
    output_error: float  #: error of the outputs, relative to their deviation, if only this activation is approximated
    bootstrapped: bool  #: whether its argument or value is bootstrapped

    def __str__(self) -> str:
        boot = ", with a bootstrap" if self.bootstrapped else ""
        return (
            f"{self.node}: {self.function} on [{self.low:.4g}, {self.high:.4g}] by degree {self.degree}, {self.levels} "
            f"levels{boot}, error {self.largest_error:.2g} at most, {self.mean_error:.2g} rms; {self.output_error:.2g} of "
            "the output alone"
        )


@dataclass(frozen=True)
class NetworkReport(HtmlRepr):
    """Costs and approximations of a compiled network: `NetworkModel.report`.

    >>> net.report.bootstraps, [row.node for row in net.report.activations]
    (0, ['/relu'])
    """

    scheme: str
    parameters: str  #: the parameter set in words
    levels: int  #: level of the encrypted input
    bootstraps: int  #: bootstrapped ciphertexts in one call
    diagonals: int  #: diagonals of all matrices
    rotations: int  #: rotations of all matrices
    target: str  #: name of the profile of `seconds`
    #: predicted seconds of one call for a full request on the target, with encoded matrices. All threads of the target
    #: work: on the profile two-cores a call takes twice as many seconds of processor time.
    seconds: float
    matrix_bytes: int  #: bytes of the encoded matrices and constants
    key_bytes: int  #: bytes of the evaluation keys in memory
    work_bytes: int  #: about the bytes of the tensors of one call
    loss: Loss  #: loss on calibration samples, in the simulation
    activations: tuple[Approximated, ...]
    reveals: str  #: facts about the model that a client's half contains

    @property
    def memory_bytes(self) -> int:
        """Bytes of keys, encoded matrices and the tensors of one call, in a server's memory."""
        return self.matrix_bytes + self.key_bytes + self.work_bytes

    def _rows(self) -> Rows:
        agreement = "" if self.loss.agreement is None else f"; same class {100 * self.loss.agreement:.2f}%"
        return [
            ("scheme", f"{self.scheme}, {self.parameters}"),
            ("levels", f"{self.levels} of the input, {self.bootstraps} bootstraps"),
            ("matrices", f"{self.diagonals:,} diagonals, {self.rotations:,} rotations, {readable_bytes(self.matrix_bytes)}"),
            ("keys", f"{readable_bytes(self.key_bytes)}, and {readable_bytes(self.work_bytes)} for the tensors of a call"),
            ("time", f"about {self.seconds:.3g} s on {self.target}"),
            (
                "loss",
                f"{self.loss.kind} {self.loss.lost:.4g} on {self.loss.samples} calibration samples{agreement}; "
                f"error {self.loss.relative_error:.2g} of the outputs' deviation",
            ),
            ("client", self.reveals),
            *(("activation", str(row)) for row in self.activations),
        ]

    def __str__(self) -> str:
        return "\n".join(f"{label:>11}  {text}" for label, text in self._rows())
