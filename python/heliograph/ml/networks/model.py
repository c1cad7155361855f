"""Networks for encrypted inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from heliograph import _core, ckks
from heliograph._common.arguments import count_of, described, flag
from heliograph._common.html import HtmlRepr, Rows
from heliograph.keys import Server
from heliograph.ml.networks.calibration import labels_of, samples_of
from heliograph.ml.networks.cuts import Network
from heliograph.ml.networks.evaluation import batches, evaluate
from heliograph.ml.networks.layouts import Layout
from heliograph.ml.networks.program import Circuit
from heliograph.ml.networks.report import NetworkReport
from heliograph.ml.networks.simulation import Simulator, noise_of

Array = npt.NDArray[Any]


class NetworkModel(HtmlRepr):
    """A neural network for inputs encrypted by CKKS. `compile_graph` makes models.

    A client encrypts samples by `encrypt`, a server calls the model with the encrypted tensor, and the client decrypts the
    outputs by `decrypt`. `simulate` computes the same outputs from clear samples, with noise of the modelled size.
    """

    def __init__(self, circuit: Circuit, report: NetworkReport) -> None:
        self._circuit = circuit
        #: Costs and approximations.
        self.report = report

    @property
    def network(self) -> Network:
        """The network's linear maps and activations."""
        return self._circuit.network

    @property
    def circuit(self) -> Circuit:
        """The encrypted program."""
        return self._circuit

    @property
    def parameters(self) -> ckks.Parameters:
        """The parameter set."""
        return self._circuit.parameters

    @property
    def needs(self) -> dict[str, Any]:
        """Arguments of `SecretKey.evaluation_keys` for the keys of one call."""
        return self._circuit.needs

    @property
    def batch(self) -> int:
        """Number of samples in one encrypted input."""
        return self._circuit.design.batch

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one sample."""
        return self.network.cuts[0].shape

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Shape of the decrypted outputs of one sample."""
        return self.network.output.shape

    def keys(self, secret: ckks.SecretKey) -> Any:
        """Makes the evaluation keys of the model."""
        return secret.evaluation_keys(**self.needs)

    def encrypt(self, key: ckks.SecretKey | ckks.PublicKey, samples: Any) -> ckks.Tensor:
        """Encrypts at most `batch` samples [count, ...].

        Raises PlaintextRangeError for values beyond the range of the calibration samples with its margin, for infinities and
        NaN; DtypeError, ShapeError, MismatchError."""
        if not isinstance(key, (ckks.SecretKey, ckks.PublicKey)):
            raise _core.DtypeError(f"samples are encrypted by a secret or public key of CKKS, not by {described(key)}")
        if key.parameters != self.parameters:
            raise _core.MismatchError(
                f"cannot encrypt for this model: the key must be of the model's set, {self.parameters!r}; make it by "
                "hg.SecretKey.generate(model.parameters)"
            )
        x = samples_of(samples, self.input_shape, "samples")
        if len(x) > self.batch:
            raise _core.ShapeError(
                f"one encrypted input takes at most {self.batch} samples, not {len(x)}; encrypt them one after another, or "
                "compile with a larger batch="
            )
        unit = self._unit
        largest = float(np.abs(x).max())
        if largest > unit * (1 + 1e-9):
            raise _core.PlaintextRangeError(
                f"cannot encrypt samples: values must be at most {unit:.6g} in magnitude, the calibrated range with its "
                f"margin, and reach {largest:.6g}; check the normalisation, or calibrate on samples like these"
            )
        slots = np.clip(self._layout.pack(x) / unit, -1.0, 1.0)
        return key.encrypt(slots, level=self._circuit.input_level, bound=1.0)

    @property
    def _layout(self) -> Layout:
        return self._circuit.design.layouts[self.network.cuts[0].name]

    @property
    def _unit(self) -> float:
        return self._circuit.units.values[self.network.cuts[0].name]

    def __call__(self, x: Any) -> Any:
        """Returns the encrypted outputs of an encrypted input. Raises ShapeError, LevelError, MissingKeyError."""
        if not isinstance(x, ckks.Tensor):
            raise _core.DtypeError(f"a model takes a tensor of CKKS, not {type(x).__name__}")
        if x.shape != (self._layout.ciphertexts,) or x.level < self._circuit.input_level:
            raise _core.ShapeError(
                f"this model takes a tensor of shape ({self._layout.ciphertexts},) at level {self._circuit.input_level}, "
                f"not of shape {x.shape} at level {x.level}; make it by model.encrypt(key, samples)"
            )
        return self._circuit(x)

    def decrypt(self, secret: ckks.SecretKey, y: ckks.Tensor, count: int | None = None, *, unguarded: bool = False) -> Array:
        """Returns the outputs [count, ...] of an encrypted result. `count` is the number of samples, by default `batch`.

        Raises OutOfIntervalError, with the node's name, if a value was outside the interval of an activation."""
        samples = self.batch if count is None else count_of(count, "count", 1)
        if samples > self.batch:
            raise _core.ShapeError(f"a result has outputs of at most {self.batch} samples, not {samples}")
        slots = secret.decrypt(y, unguarded=flag(unguarded, "unguarded"))
        return self._circuit.design.output.unpack(slots, samples) * self._circuit.units.output

    def run(self, secret: ckks.SecretKey, samples: Any, keys: Any = None) -> Array:
        """Encrypts samples [count, ...], computes and decrypts: outputs [count, ...]. Without `keys` they are made."""
        x = samples_of(samples, self.input_shape, "samples")
        server: Server[Any] = Server(self.keys(secret) if keys is None else keys)
        parts = []
        for part in batches(x, self.batch):
            parts.append(self.decrypt(secret, self(server.bind(self.encrypt(secret, part))), len(part)))
        return np.concatenate(parts)

    def clear(self, samples: Any) -> Array:
        """Returns the exact outputs [count, ...] of clear samples, before the client's operations."""
        x = samples_of(samples, self.input_shape, "samples").astype(np.float32)
        graph = self.network.upto(self.network.result)
        return np.concatenate([evaluate(graph, part)[self.network.result] for part in batches(x, 64)])

    def simulate(self, samples: Any, *, seed: int = 0, beyond: str = "raise") -> Array:
        """Returns outputs [count, ...] of clear samples by the polynomials, with noise of the modelled size.

        Decryption would raise OutOfIntervalError for a sample with a value outside an interval, and so does this function.
        With ``beyond="nan"`` the outputs of such samples are NaN. Raises ParameterError, and the errors of `encrypt`."""
        if beyond not in ("raise", "nan"):
            raise _core.ParameterError(f'beyond must be "raise" or "nan", not {described(beyond)}')
        x = samples_of(samples, self.input_shape, "samples")
        circuit = self._circuit
        outside = np.flatnonzero(np.abs(x.reshape(len(x), -1)).max(axis=1) > self._unit * (1 + 1e-9))
        simulator = Simulator(circuit.network, circuit.polynomials, noise_of(circuit.parameters, circuit.plan))
        made, found = simulator.outputs(x, seed)
        if beyond == "raise":
            if len(outside):
                raise _core.PlaintextRangeError(
                    f"sample {outside[0]} has values beyond {self._unit:.6g}, the calibrated range with its margin"
                )
            for name, which in found.items():
                cut = next(cut for cut in circuit.network.cuts if cut.name == name)
                raise _core.OutOfIntervalError(
                    f"an argument of {cut.label} is outside its interval for {len(np.unique(which))} samples, sample "
                    f"{which[0]} first; calibrate on samples like these, or pass beyond='nan'"
                )
        for which in (outside, *found.values()):
            made[which] = np.nan
        return made

    def predict(self, samples: Any, *, secret: ckks.SecretKey | None = None) -> Array:
        """Returns the class number of each of samples [count, ...]: by the simulation, or encrypted with a secret key.

        Raises DtypeError for a network of one output, and the errors of `simulate` and `run`."""
        values = self._values(samples, secret)
        if values[0].size < 2:
            raise _core.DtypeError("a network of one output has no classes; use simulate or run")
        return np.asarray(values.reshape(len(values), -1).argmax(axis=1))

    def predict_proba(self, samples: Any, *, secret: ckks.SecretKey | None = None) -> Array:
        """Returns the softmax of the outputs [count, classes] of samples: by the simulation, or encrypted."""
        values = self._values(samples, secret)
        if values[0].size < 2:
            raise _core.DtypeError("a network of one output has no classes; use simulate or run")
        values = values.reshape(len(values), -1).astype(np.float64)
        e = np.exp(values - values.max(axis=1, keepdims=True))
        return np.asarray(e / e.sum(axis=1, keepdims=True))

    def _values(self, samples: Any, secret: ckks.SecretKey | None) -> Array:
        return self.simulate(samples) if secret is None else self.run(secret, samples)

    def score(self, samples: Any, labels: Any, *, seed: int = 0) -> float:
        """Returns the share of samples [count, ...] whose simulated class is the label.

        Samples with a value outside an interval count as wrong."""
        values = self.simulate(samples, seed=seed, beyond="nan")
        values = values.reshape(len(values), -1)
        if values.shape[1] < 2:
            raise _core.DtypeError("a network of one output has no classes and no score")
        right = labels_of(labels, len(values))
        classes = np.where(np.isfinite(values).all(axis=1), np.nan_to_num(values).argmax(axis=1), -1)
        return float((classes == right).mean())

    def _rows(self) -> Rows:
        return [("input", f"{self.input_shape}, {self.batch} in a request"), *self.report._rows()]

    def __repr__(self) -> str:
        r = self.report
        return (
            f"<network of {len(r.activations)} activations: {r.parameters}, {r.bootstraps} bootstraps, "
            f"about {r.seconds:.3g} s on two cores, {r.loss.kind} {r.loss.lost:.3g}>"
        )

    def __str__(self) -> str:
        return "\n".join(f"{label:>11}  {text}" for label, text in self._rows())
