"""Bundles of compiled neural networks (`heliograph.ml.networks`): weights, polynomials, levels and the client's steps."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from heliograph import _core
from heliograph._common.exporters import EXPORTERS
from heliograph._common.html import Rows
from heliograph._common.tensor import StageProgress
from heliograph.keys import SecretKey
from heliograph.ml.networks.compiling import key_bytes
from heliograph.ml.networks.design import MOST_CIPHERTEXTS
from heliograph.ml.networks.files import arrays_of, circuit_of
from heliograph.ml.networks.layouts import Digits, Layout
from heliograph.ml.networks.model import NetworkModel, Packing, decrypted_slots, packed_request, require_own_guards
from heliograph.ml.networks.program import Circuit, matrix_bytes
from heliograph.ml.networks.search import HALF
from heliograph.models.bundle import Form, ModelBundle, TensorSpec, form, sent_bytes, write
from heliograph.models.header import count_in, damaged, fields_of, list_in, real_in

Arrays = dict[str, npt.NDArray[Any]]
_MOST_AXES, _MOST_DIGITS, _MOST_PARTS, _MOST_SLOTS, _MOST_STEPS = 8, 64, 64, 1 << 20, 1 << 16


@form
class CompiledForm(Form):
    """A compiled neural network."""

    kind = "network.compiled"

    def __init__(self, parameters: Any, description: dict[str, Any], arrays: Arrays | None) -> None:
        self.parameters, self._described = parameters, description
        self.complete = arrays is not None
        self._arrays = arrays or {}
        batch = count_in(description["batch"], "batch", 1, _MOST_SLOTS)
        self._input, self._output = (Packing(_layout(description[name], parameters), batch) for name in ("input", "output"))
        share = self._input.layout.share
        if self._output.layout.share != share or (share > 1 and share >= 2 * batch):
            raise damaged(
                "its input and its answer must have one number of samples in a ciphertext, at most those of a request"
            )
        self._circuit: Circuit | None = None
        if arrays is not None:  # the whole file is checked before anything is prepared
            self._circuit = circuit_of(arrays, parameters, batch, share)
            self._require_same(self._circuit)

    @classmethod
    def read(cls, description: Any, arrays: Arrays | None, parameters: Any) -> CompiledForm:
        """Creates the model from a file's fields and arrays."""
        names = ("answer_unit", "batch", "bootstrap", "classes", "input", "level", "output", "rotations", "unit")
        fields = fields_of(description, *names)
        for name in ("unit", "answer_unit"):
            if not real_in(fields[name], name) > 0:
                raise damaged(f"the field {name} must be above 0")
        if type(fields["bootstrap"]) is not bool:
            raise damaged("the field bootstrap must be true or false")
        if type(fields["classes"]) is not bool and fields["classes"] not in ("labels", "scores"):
            raise damaged('the field classes must be true, false, "labels" or "scores"')
        if parameters._scheme.key != "ckks" or (fields["bootstrap"] and not parameters.bootstrapping_level):
            raise damaged("its parameter set must be one of CKKS, and have bootstrapping if it bootstraps")
        count_in(fields["level"], "level", 1, parameters.levels)
        if not isinstance(fields["rotations"], dict) or len(fields["rotations"]) > parameters.levels:
            raise damaged("the field rotations must be an object of levels")
        for level, steps in fields["rotations"].items():
            if not any(level == str(number) for number in range(1, parameters.levels + 1)):
                raise damaged(f"the levels of rotations must be 1 to {parameters.levels}")
            for step in list_in(steps, "rotations", _MOST_STEPS):
                count_in(step, "rotation", 1, parameters.slots - 1)
        return cls(parameters, fields, arrays)

    @classmethod
    def of(cls, model: NetworkModel) -> CompiledForm:
        """Describes a compiled network for a file."""
        circuit = model.circuit
        first = circuit.network.cuts[0].name
        description = {
            "answer_unit": float(circuit.units.output).hex(),
            "batch": circuit.design.batch,
            "bootstrap": bool(circuit.plan.bootstraps),
            "classes": _classes_field(model),
            "input": _layout_fields(circuit.design.layouts[first]),
            "level": circuit.input_level,
            "output": _layout_fields(circuit.design.output),
            "rotations": {str(level): steps for level, steps in circuit.needs["level_rotations"].items()},
            "unit": float(circuit.units.values[first]).hex(),
        }
        return cls(circuit.parameters, description, arrays_of(circuit))

    def _require_same(self, circuit: Circuit) -> None:
        """Raises DamagedFileError unless the client's fields are those of the network."""
        first = circuit.network.cuts[0].name
        same = (
            circuit.design.layouts[first] == self._input.layout
            and circuit.design.output == self._output.layout
            and circuit.needs == self.needs
            and circuit.input_level == self._described["level"]
            and circuit.units.values[first] == self._unit
            and circuit.units.output == self._answer_unit
        )
        if not same:
            raise damaged("the fields of the client must be those of its network")

    def described(self) -> dict[str, Any]:
        """Returns the client's fields."""
        return self._described

    def arrays(self) -> Arrays:
        """Returns the network."""
        return self._arrays

    @property
    def _unit(self) -> float:
        return float.fromhex(self._described["unit"])

    @property
    def _answer_unit(self) -> float:
        return float.fromhex(self._described["answer_unit"])

    @property
    def needs(self) -> dict[str, Any]:
        """Arguments of `SecretKey.evaluation_keys` for its keys."""
        levels = {int(level): list(steps) for level, steps in self._described["rotations"].items()}
        needs: dict[str, Any] = {"relinearize": True, "level_rotations": levels}
        if self._described["bootstrap"]:
            return needs | {"bootstrap": True}
        return needs | ({"conjugate": True} if self._input.has_groups else {})

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """The input."""
        text = "real numbers like the calibration samples; values that a ciphertext repeats, or several samples"
        unit, packing = self._unit, self._input
        return (TensorSpec("x", packing.layout.shape, "float64", -unit, unit, "slots", packing.batch, text),)

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """The outputs, in row-major order."""
        texts = {False: "outputs of the network", "labels": "probabilities of labels"}
        text = texts.get(self._described["classes"], "scores of the classes")
        size = math.prod(self._output.layout.shape)
        return (TensorSpec("y", (size,), "float64", None, None, "slots", self._output.batch, text),)

    def rows(self) -> Rows:
        """Describes the levels and bootstraps."""
        boots = "" if self._circuit is None else f", {self._circuit.plan.bootstraps} bootstrapped ciphertexts"
        return [("levels", f"{self._described['level']} of the input{boots}")]

    def byte_counts(self) -> dict[str, int]:
        """Returns bytes by sizes of the parameter set, without a run: a run may need much memory."""
        circuit = self._circuit
        assert circuit is not None
        p = self.parameters
        secret = SecretKey.generate(p)
        layout, groups = self._input.layout, circuit.design.groups
        request = self.encrypt(secret, np.zeros((min(layout.share, self._input.batch), *layout.shape)))
        guards = len(circuit.guarded) * int(p.ciphertext_bytes(2, 1)) if circuit.guard else 0
        answer = groups * self._output.layout.ciphertexts * int(p.ciphertext_bytes(1, circuit.plan.output))
        keys = key_bytes(p, self.needs)
        work = circuit.work_bytes
        return {
            "input_bytes": groups * sent_bytes(request),
            "memory_bytes": keys + matrix_bytes(p, circuit.design, circuit.plan) + work,
            "output_bytes": answer + min(guards, 8 * int(p.ciphertext_bytes(2, 1))),
        }

    def key_bytes(self) -> int:
        """Returns about the bytes of the evaluation keys in a message."""
        return key_bytes(self.parameters, self.needs) // 2

    def encrypt(self, key: Any, x: Any, unchecked: bool = False) -> Any:
        """Encrypts samples."""
        self.count(x)
        return packed_request(key, self._input, self._unit, self._described["level"], x, unchecked)

    def prepared(self) -> Callable[[tuple[Any, ...], StageProgress | None], Any]:
        """Returns the function of a request. Matrices are encoded at the first request."""
        circuit = self._circuit
        if circuit is None:
            raise _core.InternalError("a client's half has no network")

        def run(tensors: tuple[Any, ...], _: StageProgress | None) -> Any:
            fits = len(tensors) == 1 and self._input.is_shape(tensors[0].shape)
            if not fits or tensors[0].level < self._described["level"]:
                texts = " and ".join(f"{t.shape} at level {t.level}" for t in tensors) or "nothing"
                raise _core.ShapeError(
                    f"a request must be one tensor of shape {self._input.shapes()} at level {self._described['level']}, "
                    f"not {texts}"
                )
            return circuit(tensors[0])

        return run

    def decrypted(self, secret: Any, tensor: Any, unchecked: bool = False) -> Any:
        """Returns outputs [items, outputs]."""
        return self.decrypted_items(secret, tensor, unchecked, None)

    def decrypted_items(self, secret: Any, tensor: Any, unchecked: bool, count: int | None) -> Any:
        """Returns outputs [items, outputs] of a request of `count` items, or of all items that the answer can have."""
        answer = tensor[0] if isinstance(tensor, (tuple, list)) and len(tensor) == 1 else tensor
        shape, packing = getattr(answer, "shape", ()), self._output
        if not packing.is_shape(shape):
            raise _core.ShapeError(f"an answer must be a tensor of shape {packing.shapes()}, not {shape}")
        most = packing.samples(shape)
        if self._circuit is not None and not unchecked:
            require_own_guards(answer, self._circuit)
        slots = decrypted_slots(secret, answer, packing, most if count is None else min(count, most), unchecked)
        return (packing.layout.unpack_groups(slots, most) * self._answer_unit).reshape(most, -1)

    def predict(self, scores: npt.NDArray[Any], labels: tuple[str, ...]) -> npt.NDArray[Any]:
        """Returns the best class of each item, 0 or 1 for each label, or the outputs of a regression."""
        if self._described["classes"] == "labels":
            return np.asarray(scores > HALF).astype(np.int64)
        return super().predict(scores, labels) if self._described["classes"] else scores

    def predict_proba(self, scores: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """Returns the softmax of scores, or the probabilities of labels. Raises DtypeError for a network without."""
        if self._described["classes"] == "labels":
            return np.asarray(np.clip(scores, 0, 1), dtype=np.float64)
        if self._described["classes"] is not True:
            return super().predict_proba(scores)
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        return np.asarray(powers / powers.sum(-1, keepdims=True))


def _classes_field(model: NetworkModel) -> bool | str:
    """Returns the kind of the outputs: scores with a softmax (true), numbers (false), labels, or scores without one."""
    if model.output.kind == "labels":
        return "labels"
    return model.output.kind == "class" and (bool(model.output.probability) or "scores")


def _layout_fields(layout: Layout) -> dict[str, Any]:
    return {
        "digits": [[list(digit) for digit in digits] for digits in layout.digits],
        "fill": layout.fill,
        "parts": [_layout_fields(part) for part in layout.parts],
        "period": layout.period,
        "shape": list(layout.shape),
        "share": layout.share,
    }


def _layout(value: Any, parameters: Any, is_part: bool = False) -> Layout:
    """Reads a layout whose places are distinct and inside its period. Raises DamagedFileError."""
    fields = fields_of(value, "digits", "fill", "parts", "period", "shape", "share")
    shape = tuple(count_in(n, "length", 1, _MOST_SLOTS) for n in list_in(fields["shape"], "a shape", _MOST_AXES))
    period = count_in(fields["period"], "period", 1, _MOST_SLOTS)
    share = count_in(fields["share"], "share", 1, parameters.slots)
    fill = count_in(fields["fill"], "fill", 1, parameters.slots)
    several = list_in(fields["digits"], "digits", _MOST_AXES)
    inner = list_in(fields["parts"], "parts", _MOST_PARTS)
    if len(several) != len(shape) or share & (share - 1) or fill & (fill - 1) or math.prod(shape) * fill > period:
        raise damaged(
            "a layout must have digits for each axis, places for all values, and powers of two of samples and copies"
        )
    if period & (period - 1) and period % (parameters.slots // share):
        raise damaged("the period of a layout must be a power of two, or whole ciphertexts")
    if inner and (is_part or fill > 1):
        raise damaged("a part of a layout must have no parts")
    digits: list[Digits] = []
    for one in several:
        pairs = [list_in(pair, "a digit", 2) for pair in list_in(one, "digits", _MOST_DIGITS)]
        if not pairs or any(len(pair) != 2 for pair in pairs):
            raise damaged("a digit of a layout must be a length and a distance")
        digits.append(tuple((count_in(a, "length", 1, period), count_in(b, "distance", 1, period)) for a, b in pairs))
    parts = tuple(_layout(part, parameters, True) for part in inner)
    if parts and (
        any(part.share != share for part in parts)
        or sum(math.prod(part.shape) for part in parts) != math.prod(shape)
        or sum(part.ciphertexts for part in parts) * (parameters.slots // share) != period
    ):
        raise damaged("the parts of a layout must have its values, samples and ciphertexts")
    layout = Layout(shape, tuple(digits), period, parameters.slots, share, fill, parts)
    places = layout.places
    inside = int(places.max()) + fill <= period and len(np.unique(places // fill)) == len(places)
    if not inside or (places % fill).any():
        raise damaged("the places of a layout must be distinct and inside its period")
    if share > 1 and layout.ciphertexts > MOST_CIPHERTEXTS:
        raise damaged(f"a layout that {share} samples share must have at most {MOST_CIPHERTEXTS} ciphertexts")
    return layout


def _export(model: NetworkModel, path: Any, **texts: Any) -> ModelBundle:
    return write(CompiledForm.of(model), path, **texts)


EXPORTERS[CompiledForm.kind] = _export
