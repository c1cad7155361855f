"""Networks for encrypted inputs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from heliograph import _core, ckks
from heliograph._common.arguments import described, flag, text_of
from heliograph._common.exporters import export
from heliograph._common.html import Rows
from heliograph._common.origins import made_by, require_maker
from heliograph.keys import Server
from heliograph.ml.model import Model
from heliograph.ml.networks.calibration import labels_of, samples_of
from heliograph.ml.networks.cuts import Network
from heliograph.ml.networks.evaluation import batches, evaluate
from heliograph.ml.networks.files import arrays_of
from heliograph.ml.networks.layouts import Layout
from heliograph.ml.networks.program import Circuit
from heliograph.ml.networks.report import NetworkReport
from heliograph.ml.networks.simulation import Simulator, errors_of, noise_of
from heliograph.ml.outputs import Output

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Packing:
    """Samples of a request in a layout: one group (ciphertexts,), or several (groups, ciphertexts)."""

    layout: Layout
    batch: int  #: most samples of a request

    @property
    def has_groups(self) -> bool:
        """Tells whether a full request has several groups."""
        return self.batch > self.layout.share

    def shape(self, count: int) -> tuple[int, ...]:
        """Returns the shape of a tensor of `count` samples."""
        each = (self.layout.ciphertexts,)
        return (-(-count // self.layout.share), *each) if self.has_groups else each

    def is_shape(self, shape: Any) -> bool:
        """Tells whether a tensor of 1 to `batch` samples can have this shape."""
        if not self.has_groups:
            return bool(shape == self.shape(self.batch))
        return len(shape) == 2 and 1 <= shape[0] <= self.shape(self.batch)[0] and shape[1] == self.layout.ciphertexts

    def shapes(self) -> str:
        """Returns the shapes of tensors, in words."""
        full = self.shape(self.batch)
        return f"(1, {full[1]}) to {full}" if self.has_groups and full[0] > 1 else f"{full}"

    def samples(self, shape: tuple[int, ...]) -> int:
        """Returns the most samples of a tensor of this shape."""
        return min(self.batch, shape[0] * self.layout.share) if self.has_groups else self.batch


def packed_request(key: Any, packing: Packing, unit: float, level: int, samples: Any, unchecked: bool) -> ckks.Tensor:
    """Encrypts samples [count, ...] divided by `unit` in a layout.

    Raises PlaintextRangeError for values beyond `unit`, unless `unchecked`; ShapeError, DtypeError."""
    layout = packing.layout
    x = samples_of(samples, layout.shape, "samples")
    if len(x) > packing.batch:
        raise _core.ShapeError(
            f"one encrypted input takes at most {packing.batch} samples, not {len(x)}; encrypt them one after another, or "
            "compile with a larger batch="
        )
    largest = float(np.abs(x).max())
    if largest > unit * (1 + 1e-9) and not unchecked:
        raise _core.PlaintextRangeError(
            f"cannot encrypt samples: values must be at most {unit:.6g} in magnitude, the calibrated range with its margin, "
            f"and reach {largest:.6g}; check the normalization, calibrate on samples like these, compile with a larger "
            "margin=, or pass unchecked=True"
        )
    bound = max(1.0, largest / unit) if unchecked else 1.0
    slots = layout.pack_groups(x) if packing.has_groups else layout.pack(x)
    encrypted: ckks.Tensor = key.encrypt(np.clip(slots / unit, -bound, bound), level=level, bound=bound)
    return encrypted


def decrypted_slots(secret: ckks.SecretKey, answer: ckks.Tensor, packing: Packing, count: int, unchecked: bool) -> Floats:
    """Decrypts an answer. Raises OutOfIntervalError, with the names of the node and of the samples, and the remedies of
    networks."""
    try:
        return np.asarray(secret.decrypt(answer, unchecked=unchecked))
    except _core.OutOfIntervalError as error:
        what = str(error).partition(" is outside its interval")[0]
        whose = _samples_outside(secret, answer, packing, count)
        raise _core.OutOfIntervalError(
            f"{what} is outside its interval{whose}, and all values of this answer may be wrong. Check the normalization of "
            "the samples, or compile with samples like these in calibrate=, or with a larger margin=; unchecked=True takes "
            "the numbers as they are"
        ) from None


def _samples_outside(secret: ckks.SecretKey, answer: ckks.Tensor, packing: Packing, count: int) -> str:
    """Returns words for the samples whose slots the guards show: exact if there is one group, else candidates."""
    share = packing.layout.share
    slots = sorted({slot % share for slot in secret._core.outside_slots(answer._core)})
    found = [sample for sample in range(count) if sample % share in slots]
    if count == 1 or len(found) in (0, count):
        return ""
    names = ", ".join(str(sample) for sample in found[:8]) + (" and others" if len(found) > 8 else "")
    one = "at least one of the samples" if count > share else "the samples" if len(found) > 1 else "sample"
    return f" for {one} {names}"


def require_own_guards(answer: ckks.Tensor, circuit: Circuit) -> None:
    """Raises MismatchError if an answer has guards, but none of a network's: another network computed it."""
    names = {name for names, *_ in answer._core.guards for name in names}
    if circuit.guard and names and not names & circuit.guarded:
        raise _core.MismatchError(
            f"another network computed this answer: its guards are of {', '.join(sorted(names)[:3])}, not of "
            f"{', '.join(sorted(circuit.guarded)[:3])}. Send requests of a model to the server of the same model, or pass "
            "unchecked=True to take the numbers as they are"
        )


def _are_same(a: NetworkModel, b: NetworkModel) -> bool:
    """Tells whether two networks have equal graphs, polynomials, levels, units and layouts of answers."""
    if a.batch != b.batch or a.circuit.design.output != b.circuit.design.output:
        return False
    one, other = arrays_of(a.circuit), arrays_of(b.circuit)
    return one.keys() == other.keys() and all(np.array_equal(array, other[name]) for name, array in one.items())


class NetworkModel(Model):
    """A neural network for inputs encrypted by CKKS. `compile_graph` makes models.

    A client encrypts samples by `encrypt`, a server calls the model with the encrypted tensor, and the client decrypts the
    values by `decrypt`. Values [count, outputs] are the network's outputs in row-major order, before the softmax.

    >>> net.input_shape, net.output_shape, net.parameters.security
    ((2,), (2,), '128-bit')
    """

    def __init__(self, circuit: Circuit, report: NetworkReport, output: Output) -> None:
        self._circuit = circuit
        self.name = "a network"
        #: Costs and approximations.
        self.report = report
        self.output = output
        self.classes = np.arange(max(2, self.outputs)) if output.kind in ("class", "labels") else None

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
        """Maximum number of samples in one encrypted input."""
        return self._circuit.design.batch

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one sample."""
        return self.network.cuts[0].shape

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Shape of the outputs of one sample."""
        return self.network.output.shape

    @property
    def features(self) -> int:
        """Number of values of one sample."""
        return math.prod(self.input_shape)

    @property
    def outputs(self) -> int:
        """Number of outputs of one sample."""
        return math.prod(self.output_shape)

    def encrypt(self, key: Any, samples: Any, *, unchecked: bool = False) -> ckks.Tensor:
        """Encrypts at most `batch` samples [count, ...], by a secret or public key.

        The tensor has the shape (ciphertexts,), or (groups, ciphertexts) if a request of `batch` samples has several groups.
        Fewer samples have fewer groups.

        Raises PlaintextRangeError for values beyond the range of the calibration samples with its margin, for infinities and
        NaN; DtypeError, ShapeError, MismatchError. With ``unchecked=True`` values beyond the range are encrypted; the guards
        of the activations then notice values outside their intervals.

        >>> secret = hg.SecretKey.generate(net.parameters)
        >>> net.encrypt(secret, points[0]).shape  # one ciphertext
        (1,)
        """
        if not isinstance(key, (ckks.SecretKey, ckks.PublicKey)):
            raise _core.DtypeError(f"samples are encrypted by a secret or public key of CKKS, not by {described(key)}")
        if key.parameters != self.parameters:
            raise _core.MismatchError(
                f"cannot encrypt for this model: the key must be of the model's set, {self.parameters!r}; make it by "
                "hg.SecretKey.generate(model.parameters)"
            )
        level = self._circuit.input_level
        return packed_request(key, self._input, self._unit, level, samples, flag(unchecked, "unchecked"))

    @property
    def _input(self) -> Packing:
        return Packing(self._circuit.design.layouts[self.network.cuts[0].name], self.batch)

    @property
    def _answer(self) -> Packing:
        return Packing(self._circuit.design.output, self.batch)

    @property
    def _unit(self) -> float:
        return self._circuit.units.values[self.network.cuts[0].name]

    def __call__(self, x: Any) -> Any:
        """Returns the encrypted outputs of an encrypted input. Raises ShapeError, LevelError, MissingKeyError."""
        if not isinstance(x, ckks.Tensor):
            raise _core.DtypeError(f"a model takes a tensor of CKKS, not {type(x).__name__}")
        if not self._input.is_shape(x.shape) or x.level < self._circuit.input_level:
            raise _core.ShapeError(
                f"this model takes a tensor of shape {self._input.shapes()} at level {self._circuit.input_level}, "
                f"not of shape {x.shape} at level {x.level}; make it by model.encrypt(key, samples)"
            )
        return made_by(self._circuit(x), self)

    def decrypt(self, secret: Any, answer: Any, like: Any = None, *, unchecked: bool = False) -> Floats:
        """Returns the values [count, outputs] of an answer. `like` is the samples that were encrypted: then `count` is their
        number; otherwise the most that the answer can have.

        Unless `unchecked`, raises OutOfIntervalError, with the node's name, if a value was outside the interval of an
        activation, and MismatchError if another network is known to have computed the answer. Raises ShapeError,
        DtypeError, WrongKeyError.

        >>> secret = hg.SecretKey.generate(net.parameters)
        >>> server = hg.Server(net.keys(secret))
        >>> answer = net(server.bind(net.encrypt(secret, points[0])))
        >>> bool(np.abs(net.decrypt(secret, answer) - net.clear(points[0])).max() < 0.2)
        True
        """
        if not isinstance(secret, ckks.SecretKey):
            raise _core.DtypeError(f"answers are decrypted by a secret key of CKKS, not by {described(secret)}")
        packing = self._answer
        if not isinstance(answer, ckks.Tensor) or not packing.is_shape(answer.shape):
            raise _core.ShapeError(
                f"an answer of this network must be a tensor of CKKS of shape {packing.shapes()}, not {described(answer)}"
            )
        most = packing.samples(answer.shape)
        count = most if like is None else len(samples_of(like, self.input_shape, "like"))
        if count > most or packing.shape(count) != answer.shape:
            raise _core.ShapeError(
                f"this answer has values of at most {most} samples, not {count}; pass the samples of its request"
            )
        if not flag(unchecked, "unchecked"):
            require_maker(answer, self, _are_same)
            require_own_guards(answer, self._circuit)
        slots = decrypted_slots(secret, answer, packing, count, flag(unchecked, "unchecked"))
        return (packing.layout.unpack_groups(slots, count) * self._circuit.units.output).reshape(count, self.outputs)

    def run(self, secret: ckks.SecretKey, samples: Any, keys: Any = None) -> Floats:
        """Encrypts samples [count, ...], computes and decrypts: values [count, outputs]. Without `keys` they are made.

        >>> net.run(hg.SecretKey.generate(net.parameters), points[:2]).shape
        (2, 2)
        """
        x = samples_of(samples, self.input_shape, "samples")
        server: Server[Any] = Server(self.keys(secret) if keys is None else keys)
        parts = []
        for part in batches(x, self.batch):
            parts.append(self.decrypt(secret, self(server.bind(self.encrypt(secret, part))), like=part))
        return np.concatenate(parts)

    def _execute(self, samples: Any) -> Floats:
        return self.run(ckks.SecretKey.generate(self.parameters), samples)

    def clear(self, samples: Any) -> Floats:
        """Returns the exact values [count, outputs] of clear samples.

        >>> net.clear([0.5, 0.25])
        array([[0.625, 1.25 ]])
        """
        x = samples_of(samples, self.input_shape, "samples").astype(np.float32)
        graph = self.network.upto(self.network.result)
        made = np.concatenate([evaluate(graph, part)[self.network.result] for part in batches(x, 64)])
        return made.reshape(len(x), self.outputs).astype(np.float64)

    def simulate(self, samples: Any, *, seed: int = 0, beyond: str = "raise") -> Floats:
        """Returns values [count, outputs] of clear samples by the polynomials, with noise of the modelled size.

        Decryption would raise OutOfIntervalError for a sample with a value outside an interval, and so does this function.
        With ``beyond="nan"`` the values of such samples are NaN. Raises ParameterError, and the errors of `encrypt`.

        >>> net.simulate(points).shape
        (200, 2)
        """
        how = text_of(beyond, "beyond", ("raise", "nan"))
        x = samples_of(samples, self.input_shape, "samples")
        circuit = self._circuit
        outside = np.flatnonzero(np.abs(x.reshape(len(x), -1)).max(axis=1) > self._unit * (1 + 1e-9))
        noise = noise_of(circuit.parameters, circuit.plan)
        errors = errors_of(circuit.parameters, circuit.plan, circuit.network, circuit.units.values)
        simulator = Simulator(circuit.network, circuit.polynomials, noise, circuit.plan, errors)
        made, found = simulator.outputs(x, seed)
        if how == "raise":
            if len(outside):
                raise _core.PlaintextRangeError(
                    f"sample {outside[0]} has values beyond {self._unit:.6g}, the calibrated range with its margin"
                )
            for name, which in found.items():
                cut = next(cut for cut in circuit.network.cuts if cut.name == name)
                raise _core.OutOfIntervalError(
                    f"an argument of {cut.label} is outside its interval for {len(np.unique(which))} samples, sample "
                    f"{which[0]} first; calibrate on samples like these, compile with a larger margin=, or pass "
                    "beyond='nan'"
                )
        for which in (outside, *found.values()):
            made[which] = np.nan
        return made.reshape(len(x), self.outputs).astype(np.float64)

    def score(self, samples: Any, targets: Any, *, fhe: str = "simulate") -> float:
        """Returns the share of samples [count, ...] of the right class, or a regression's R^2.

        In the simulation, samples with a value outside an interval count as wrong classes.

        >>> net.score(points, net.clear(points).argmax(axis=1)) >= 0.95
        True
        """
        if self.output.kind != "class" or fhe != "simulate":
            return super().score(samples, targets, fhe=fhe)
        values = self.simulate(samples, beyond="nan")
        right = labels_of(targets, len(values))
        classes = np.where(np.isfinite(values).all(axis=1), self.predictions(np.nan_to_num(values)), -1)
        return float((classes == right).mean())

    def export(self, path: Any, **texts: Any) -> Any:
        """Writes the model as a model bundle (`hg.ModelBundle`) and returns it: its weights, levels and client.

        `texts` are `name`, `version`, `title` and `labels` of the classes. Raises ParameterError, OSError.

        >>> bundle = net.export("net.hgm", labels=["left", "right"])
        >>> secret = hg.SecretKey.generate(bundle.parameters)
        >>> answer = bundle.run(hg.Server(bundle.keys(secret)), bundle.encrypt(secret, points[0]))
        >>> bundle.predict(bundle.decrypt(secret, answer, like=points[0])) in ("left", "right")
        True
        """
        return export("network.compiled", self, path, **texts)

    def _rows(self) -> Rows:
        return [("input", f"{self.input_shape}, {self._circuit.design.described()}"), *self.report._rows()]

    def __repr__(self) -> str:
        r = self.report
        return (
            f"<network of {len(r.activations)} activations: {r.parameters}, {r.bootstraps} bootstraps, "
            f"about {r.seconds:.3g} s on {r.target}, {r.loss.kind} {r.loss.lost:.3g}>"
        )

    def __str__(self) -> str:
        return "\n".join(f"{label:>11}  {text}" for label, text in self._rows())
