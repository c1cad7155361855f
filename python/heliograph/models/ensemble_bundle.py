"""Ensemble bundles: compiled ensembles of trees (`heliograph.models.bundle`).

The header holds the client's half: conditions, classes, and the layout of bits and values. The arrays hold the trees.
"""

from __future__ import annotations

import base64
import math
import zlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from heliograph import _core, ckks
from heliograph._common.arguments import printable
from heliograph._common.exporters import EXPORTERS
from heliograph._common.html import Rows
from heliograph._common.tensor import StageProgress
from heliograph.exact import Parameters as ExactParameters
from heliograph.keys import SecretKey, Server
from heliograph.ml.errors import ModelError
from heliograph.ml.inputs import single, some
from heliograph.ml.outputs import Output
from heliograph.ml.trees import paths, products
from heliograph.ml.trees.ensemble import (
    MOST_FEATURES,
    MOST_NODES,
    MOST_OUTPUTS,
    MOST_VALUES,
    Condition,
    Ensemble,
    Tree,
    checked_tree,
)
from heliograph.ml.trees.model import (
    EnsembleModel,
    PathsClient,
    PathsServer,
    ProductsClient,
    ProductsServer,
    Reader,
    method_text,
)
from heliograph.models.bundle import Form, ModelBundle, TensorSpec, form, sent_bytes, write
from heliograph.models.estimator_bundle import classes_fields, read_classes, scores_of, words
from heliograph.models.header import count_in, damaged, fields_of, list_in, real_in, text_in

Arrays = dict[str, npt.NDArray[Any]]
_MOST_CONDITIONS, _MOST_CATEGORIES, _MOST_PLACES, _MOST_ROTATIONS = 1 << 16, 1 << 16, 1 << 22, 1 << 16
_LONGEST_NAME, _LONGEST_TEXT = 200, 1 << 20
_CASTS = ("", "truncate", "floor")
_FIELDS = ("accepts", "cast", "classes", "columns", "conditions", "evaluation", "features", "name", "needs", "output")


def _bool(value: Any, what: str) -> bool:
    if type(value) is not bool:
        raise damaged(f"the field {what} must be true or false")
    return value


def _packed(array: npt.NDArray[Any], dtype: str) -> str:
    """Returns an array as text: little-endian numbers, compressed by zlib, in base64. Headers are limited to 1 MiB."""
    return base64.b64encode(zlib.compress(np.ascontiguousarray(array, dtype=dtype).tobytes(), 9)).decode()


def _unpacked(value: Any, dtype: str, shape: tuple[int, ...], what: str) -> npt.NDArray[Any]:
    """Reads an array from its text. Raises DamagedFileError for another size."""
    text, size = text_in(value, what, _LONGEST_TEXT), math.prod(shape) * np.dtype(dtype).itemsize
    try:
        reader = zlib.decompressobj()
        data = reader.decompress(base64.b64decode(text, validate=True), size + 1)
    except (ValueError, zlib.error):
        raise damaged(f"{what} must be numbers, compressed by zlib, in base64") from None
    if len(data) != size or not reader.eof or reader.unused_data:
        raise damaged(f"{what} must have {math.prod(shape):,} numbers")
    return np.frombuffer(data, dtype=dtype).reshape(shape)


def _conditions_fields(conditions: tuple[Condition, ...]) -> dict[str, Any]:
    flags = [
        one.missing + 2 * (0 if one.zero is None else 1 + one.zero) + 8 * one.member + 16 * (one.categories is not None)
        for one in conditions
    ]
    return {
        "categories": [[value.hex() for value in one.categories] for one in conditions if one.categories is not None],
        "count": len(conditions),
        "features": _packed(np.array([one.feature for one in conditions], dtype=np.int64), "<u4"),
        "flags": _packed(np.array(flags, dtype=np.int64), "u1"),
        "thresholds": _packed(np.array([one.threshold for one in conditions], dtype=np.float64), "<f8"),
    }


def _conditions(value: Any, features: int) -> tuple[Condition, ...]:
    """Reads the conditions of a file. Raises DamagedFileError."""
    fields = fields_of(value, "categories", "count", "features", "flags", "thresholds")
    count = count_in(fields["count"], "number of conditions", 0, _MOST_CONDITIONS)
    places = _unpacked(fields["features"], "<u4", (count,), "features")
    flags = _unpacked(fields["flags"], "u1", (count,), "flags")
    thresholds = _unpacked(fields["thresholds"], "<f8", (count,), "thresholds")
    if np.isnan(thresholds).any() or (places >= features).any() or (flags >= 32).any() or ((flags >> 1 & 3) == 3).any():
        raise damaged("a condition must have a feature of the model, a threshold that is a number, and known flags")
    sets = []
    for one in list_in(fields["categories"], "categories", count):
        members = [real_in(value, "category") for value in list_in(one, "categories", _MOST_CATEGORIES)]
        if members != sorted(set(members)):
            raise damaged("the categories of a condition must rise")
        sets.append(tuple(members))
    if len(sets) != int((flags >> 4).sum()):
        raise damaged("each condition of categories must have its categories")
    rest = iter(sets)
    return tuple(
        Condition(
            int(place), float(threshold), bool(flag & 1), None if not flag >> 1 & 3 else (flag >> 1 & 3) == 2,
            next(rest) if flag >> 4 else None, bool(flag >> 3 & 1),
        )
        for place, threshold, flag in zip(places, thresholds, flags.tolist(), strict=True)
    )  # fmt: skip


def _output_fields(output: Output) -> dict[str, Any]:
    return {
        "kind": output.kind,
        "link": output.link,
        "offset": output.offset.hex(),
        "probability": output.probability,
        "scale": output.scale.hex(),
    }


def _output(description: Any) -> Output:
    fields = fields_of(description, "kind", "link", "offset", "probability", "scale")
    kind, link, probability = (text_in(fields[name], name) for name in ("kind", "link", "probability"))
    scale, offset = real_in(fields["scale"], "scale"), real_in(fields["offset"], "offset")
    return Output(kind, link, probability, False, scale, offset)


def _reals(value: Any, what: str, most: int) -> npt.NDArray[np.float64]:
    return np.array([real_in(one, what) for one in list_in(value, what, most)], dtype=np.float64)


def _evaluation_fields(client: Any) -> dict[str, Any]:
    if isinstance(client, ProductsClient):
        return {
            "base": client.base,
            "digits": client.digits,
            "outputs": client.outputs,
            "scheme": "BGV",
            "unit": client.unit.hex(),
        }
    layout = client.layout
    return {
        "bits": None if layout.shared else _packed(layout.bits[:, :, : layout.width], "<i4"),
        "centre": [float(value).hex() for value in client.centre],
        "inputs": layout.inputs,
        "period": layout.period,
        "reach": client.reach.hex(),
        "region": layout.region,
        "scheme": "CKKS",
        "unit": client.unit.hex(),
        "width": layout.width,
    }


def _products_client(fields: dict[str, Any], conditions: int, parameters: Any) -> ProductsClient:
    fields = fields_of(fields, "base", "digits", "outputs", "scheme", "unit")
    if not isinstance(parameters, ExactParameters) or parameters.plain_modulus != products.MODULUS:
        raise damaged(f"an ensemble of products must have a set of BGV with the plaintext modulus {products.MODULUS}")
    unit = real_in(fields["unit"], "unit")
    base, digits = count_in(fields["base"], "base", 2, products.MODULUS), count_in(fields["digits"], "digits", 1, 64)
    if not unit > 0:
        raise damaged("a unit must be above 0")
    return ProductsClient(
        parameters, max(conditions, 1), digits, base, unit, count_in(fields["outputs"], "outputs", 1, MOST_OUTPUTS)
    )


def _paths_client(fields: dict[str, Any], conditions: int, parameters: Any) -> PathsClient:
    fields = fields_of(fields, "bits", "centre", "inputs", "period", "reach", "region", "scheme", "unit", "width")
    if not isinstance(parameters, ckks.Parameters) or parameters.slots != parameters.period:
        raise damaged("an ensemble of paths must have a set of CKKS with a power of two of slots")
    slots = int(parameters.slots)
    width, region, period = (count_in(fields[name], name, 1, slots) for name in ("width", "region", "period"))
    centre = _reals(fields["centre"], "centre", MOST_OUTPUTS)
    unit, reach = real_in(fields["unit"], "unit"), real_in(fields["reach"], "reach")
    if slots % width or width % region or not 1 <= len(centre) <= width // region or not unit > 0 or not reach > 0:
        raise damaged("the regions of outputs must divide the slots, and unit and reach must be above 0")
    if fields["bits"] is None:
        if period & (period - 1) or conditions > 2 * period:
            raise damaged("a period must be a power of two that holds all conditions")
        bits = paths.shared_bits(conditions, period, slots)
    else:
        inputs = count_in(fields["inputs"], "number of inputs", 1, _MOST_PLACES // (2 * width))
        places = _unpacked(fields["bits"], "<i4", (inputs, 2, width), "bits").astype(np.int64)
        if (places < -1).any() or (places >= conditions).any():
            raise damaged("bits must be numbers of conditions, or -1")
        bits = np.tile(places, slots // width)
    terms = -np.ones((1, slots), dtype=np.int64)
    layout = paths.Layout(slots, width, region, period, fields["bits"] is None, bits, terms)
    return PathsClient(parameters, layout, len(centre), unit, centre, reach)


def _trees(arrays: Arrays, conditions: int, outputs: int) -> tuple[tuple[Tree, ...], npt.NDArray[np.float64]]:
    """Reads the trees of a file. Raises DamagedFileError."""
    if set(arrays) != {"base", "nodes", "sizes", "values"}:
        raise damaged("its arrays must be base, nodes, sizes and values")
    sizes, nodes = arrays["sizes"], arrays["nodes"]
    count = int(sizes.astype(object).sum()) if sizes.dtype == np.uint64 and sizes.ndim == 1 else -1
    if not 0 <= count <= MOST_NODES or nodes.dtype != np.uint64 or nodes.shape != (3, count) or (sizes == 0).any():
        raise damaged(f"nodes must be an array of uint64 of shape [3, nodes], of at most {MOST_NODES:,} nodes")
    if arrays["values"].shape != (count, outputs) or arrays["base"].shape != (outputs,):
        raise damaged(f"values must have shape [nodes, {outputs}], and base shape [{outputs}]")
    if any(arrays[name].dtype != np.uint64 for name in ("values", "base")) or (nodes > MOST_NODES).any():
        raise damaged("values and base must be arrays of uint64, and nodes must be numbers of nodes and conditions")
    values, base = (
        np.ascontiguousarray(arrays[name], dtype="<u8").view("<f8").astype(np.float64) for name in ("values", "base")
    )
    if not np.isfinite(base).all():
        raise damaged("base must be finite")
    trees, start = [], 0
    for number, size in enumerate(sizes.tolist()):
        part = nodes[:, start : start + size].astype(np.int64)
        try:
            tree = checked_tree(
                part[0], part[1] - 1, part[2] - 1, values[start : start + size], f"tree {number} of a bundle"
            )
        except ModelError as error:
            raise damaged(str(error)) from None
        if (tree.condition[tree.left >= 0] >= conditions).any():
            raise damaged(f"a node of tree {number} must have a condition of the header")
        trees.append(tree)
        start += size
    return tuple(trees), base


@form
class EnsembleForm(Form):
    """A compiled ensemble of trees."""

    kind = "ensemble"

    def __init__(self, model: EnsembleModel, parameters: Any, needs: dict[str, Any], *, typed: bool = True) -> None:
        """Describes a model for a file. With ``typed=False`` predictions are labels in place of the model's classes."""
        self.model, self.parameters, self._needs = model, parameters, needs
        self.complete = model._server is not None
        self.typed = typed and model.classes is not None

    @classmethod
    def read(cls, description: Any, arrays: Arrays | None, parameters: Any) -> EnsembleForm:
        """Creates the model from a file's fields and arrays."""
        fields = fields_of(description, *_FIELDS)
        features = count_in(fields["features"], "number of features", 1, MOST_FEATURES)
        conditions = _conditions(fields["conditions"], features)
        evaluation = fields["evaluation"]
        scheme = evaluation.get("scheme") if isinstance(evaluation, dict) else None
        if scheme not in ("CKKS", "BGV"):
            raise damaged("the scheme of an evaluation must be CKKS or BGV")
        made = _paths_client if scheme == "CKKS" else _products_client
        client: Any = made(evaluation, len(conditions), parameters)
        output = _output(fields["output"])
        typed = fields["classes"] is not None
        classes = read_classes(fields["classes"], client.outputs) if typed else None
        if output.kind == "class" and classes is None:
            classes = np.arange(2 if client.outputs == 1 else client.outputs)
        try:
            output.require_fits(client.outputs, classes)
        except _core.ParameterError as error:
            raise damaged(str(error)) from None
        trees, base = ((), np.zeros(client.outputs)) if arrays is None else _trees(arrays, len(conditions), client.outputs)
        ensemble = Ensemble(
            text_in(fields["name"], "name", _LONGEST_NAME), features, _names(fields["columns"], features), conditions, trees,
            base, output, classes, **_rules(fields, features)
        )  # fmt: skip
        server = None
        if arrays is not None:
            client, server = _server(ensemble, client)
        return cls(
            EnsembleModel(Reader(ensemble), client, server), parameters, _read_needs(fields["needs"], scheme), typed=typed
        )

    def described(self) -> dict[str, Any]:
        """Returns the client's half of the model."""
        ensemble = self.model._reader.ensemble
        missing = ensemble.missing
        cast = {
            "categories": ensemble.cast,
            "missing": "" if math.isnan(missing) else missing.hex(),
            "single": ensemble.single,
        }
        return {
            "accepts": [int(one) for one in ensemble.accepts_missing],
            "cast": cast,
            "classes": classes_fields(np.asarray(ensemble.classes)) if self.typed else None,
            "columns": list(ensemble.names),
            "conditions": _conditions_fields(ensemble.conditions),
            "evaluation": _evaluation_fields(self.model._client),
            "features": ensemble.features,
            "name": ensemble.name,
            "needs": self._needs,
            "output": _output_fields(ensemble.output),
        }

    def arrays(self) -> Arrays:
        """Returns the trees."""
        ensemble = self.model._reader.ensemble
        nodes = [np.stack([tree.condition, tree.left + 1, tree.right + 1]) for tree in ensemble.trees]
        joined = np.concatenate(nodes, axis=1) if nodes else np.zeros((3, 0), dtype=np.int64)
        values = (
            np.concatenate([tree.dense(ensemble.outputs) for tree in ensemble.trees])
            if nodes
            else np.zeros((0, ensemble.outputs))
        )
        return {
            "base": words(ensemble.base),
            "nodes": joined.astype(np.uint64),
            "sizes": np.array([len(tree.left) for tree in ensemble.trees], dtype=np.uint64),
            "values": words(values),
        }

    @property
    def needs(self) -> dict[str, Any]:
        """Arguments of `SecretKey.evaluation_keys` for its keys."""
        return self._needs

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """The samples."""
        text = "results of conditions on the features, as bits; a missing value is NaN"
        model = self.model
        return (TensorSpec("samples", (model.features,), "float64", None, None, "batch", model.rows, text),)

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """The values."""
        text = {
            "values": "predictions, before a link",
            "class": "decision values, or probabilities",
            "outlier": "mean depths, relative to an average sample",
        }[self.model.output.kind]
        return (TensorSpec("values", (self.model.outputs,), "float64", None, None, "batch", self.model.rows, text),)

    def rows(self) -> Rows:
        """Describes trees, conditions and columns."""
        ensemble = self.model._reader.ensemble
        trees = f", {len(ensemble.trees):,} trees" if self.complete else ""
        names = [("columns", printable(some(ensemble.names)))] if ensemble.names else []
        return [
            ("ensemble", f"{printable(ensemble.name)}: {len(ensemble.conditions):,} conditions{trees}"),
            ("method", method_text(self.model._client)),
            *names,
        ]

    def encrypt(self, key: Any, x: Any, unchecked: bool = False) -> Any:
        """Encrypts one or several samples."""
        _, alone = self.count(x)
        return self.model.encrypt(key, single(x) if alone else x, unchecked=unchecked)

    def prepared(self) -> Callable[[tuple[Any, ...], StageProgress | None], Any]:
        """Returns the function of a request."""
        if self.model.needs != self._needs:
            raise damaged("the field needs must list the keys that the model needs")

        def run(tensors: tuple[Any, ...], _: StageProgress | None) -> Any:
            if len(tensors) != 1:
                raise _core.ShapeError(f"a request must be one tensor, not {len(tensors)}")
            return self.model(tensors[0])

        return run

    def decrypted(self, secret: Any, tensor: Any, unchecked: bool = False) -> npt.NDArray[np.float64]:
        """Returns values [samples, outputs]."""
        return self.model._decrypted(secret, tensor, unchecked)

    def predict(self, scores: npt.NDArray[Any], labels: tuple[str, ...]) -> npt.NDArray[Any]:
        """Returns the predictions: classes, or the labels that replace them."""
        classes = np.asarray(labels) if labels and not self.typed else self.model.classes
        found = scores_of(self.model, scores)
        settled = self.model._settled(found.reshape(-1, self.model.outputs)).reshape(found.shape)
        return self.model.output.predict(settled, classes)

    def predict_proba(self, scores: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """Returns the probabilities."""
        return self.model.output.probabilities(scores_of(self.model, scores), self.model.name)

    def byte_counts(self) -> dict[str, int]:
        """Measures bytes by a run on the `null` device."""
        parameters = type(self.parameters)(self.parameters._core.on_device("null"))
        client: Any = replace(self.model._client, parameters=parameters)  # type: ignore[type-var]
        old: Any = self.model._server
        server: Any = PathsServer(client, old.terms) if isinstance(client, PathsClient) else ProductsServer(client, old.plan)
        secret = SecretKey.generate(parameters)
        held: Server[Any] = Server(secret.evaluation_keys(**self._needs))
        bits = np.zeros((1, max(1, len(self.model._reader.ensemble.conditions))), dtype=np.bool_)
        x = held.bind(client.encrypt(secret, bits))
        y = server.run(x)
        return {
            "input_bytes": sent_bytes(x),
            "memory_bytes": int(parameters._core.peak_bytes),
            "output_bytes": sent_bytes(y),
        }


def _names(value: Any, features: int) -> tuple[str, ...]:
    names = list_in(value, "columns", MOST_FEATURES)
    if len(names) not in (0, features):
        raise damaged(f"it must have {features} columns, or none")
    return tuple(text_in(name, "column", _LONGEST_NAME) for name in names)


def _rules(fields: dict[str, Any], features: int) -> dict[str, Any]:
    """Reads the rules of comparisons: rounding of numbers and categories, and missing values."""
    cast = fields_of(fields["cast"], "categories", "missing", "single")
    accepts = [bool(count_in(one, "flag of a feature", 0, 1)) for one in list_in(fields["accepts"], "accepts", features)]
    if cast["categories"] not in _CASTS or len(accepts) not in (0, features):
        raise damaged(f"categories must be one of {', '.join(map(repr, _CASTS))}, and accepts a flag for each feature")
    missing = math.nan if cast["missing"] == "" else real_in(cast["missing"], "missing value")
    return {
        "single": _bool(cast["single"], "single"),
        "cast": cast["categories"],
        "missing": missing,
        "accepts_missing": tuple(accepts),
    }


def _read_needs(value: Any, scheme: str) -> dict[str, Any]:
    names = ("conjugate", "relinearize", "rotations") if scheme == "CKKS" else ("relinearize",)
    fields = fields_of(value, *names)
    for step in list_in(fields.get("rotations", []), "rotations", _MOST_ROTATIONS):
        count_in(step, "rotation", 1, 1 << 20)
    if any(fields[name] is not True for name in names if name != "rotations"):
        raise damaged("the keys of an ensemble must include those of relinearization and, for CKKS, of conjugation")
    return fields


def _server(ensemble: Ensemble, client: Any) -> tuple[Any, Any]:
    """Returns the evaluation of a complete file. Raises DamagedFileError if its layout is not that of its trees."""
    try:
        if isinstance(client, ProductsClient):
            plan = products.plan_of(ensemble)
            if (plan.digits, plan.base, plan.unit, plan.outputs) != (
                client.digits,
                client.base,
                client.unit,
                client.outputs,
            ):
                raise damaged("digits, base and unit must be those of its trees")
            return client, ProductsServer(client, plan)
        terms = paths.terms_of(ensemble)
        own = client.layout
        found = paths.shared_layout(terms, own.slots) if own.shared else paths.grouped_layout(terms, own.slots, own.period)
    except ModelError as error:
        raise damaged(str(error)) from None
    same = found is not None and (found.width, found.region, found.period) == (own.width, own.region, own.period)
    if found is None or not same or not np.array_equal(found.bits, own.bits) or terms.unit != client.unit:
        raise damaged("its layout must be that of its trees")
    if client.parameters.levels <= paths.Polynomial(terms.depth).levels:
        raise damaged("its set must have the levels of its trees")
    client = replace(client, layout=found)
    return client, PathsServer(client, terms)


def _export(model: EnsembleModel, path: Any, labels: Any = None, **texts: Any) -> ModelBundle:
    form = EnsembleForm(model, model.parameters(), model.needs, typed=labels is None)
    names = model._reader.ensemble.names
    if len(model._reader.ensemble.conditions) > _MOST_CONDITIONS:
        raise _core.ParameterError(
            f"cannot export this model: it must have at most {_MOST_CONDITIONS:,} conditions, and has "
            f"{len(model._reader.ensemble.conditions):,}; use fewer or shallower trees"
        )
    if sum(len(tree.left) for tree in model._reader.ensemble.trees) * model.outputs > MOST_VALUES:
        raise _core.ParameterError(
            f"cannot export this model: its nodes times its outputs must be at most {MOST_VALUES:,}; use fewer trees"
        )
    if any(len(name) > _LONGEST_NAME for name in names):
        raise _core.ParameterError(
            f"cannot export this model: names of columns must have at most {_LONGEST_NAME} characters; fit it without names"
        )
    if labels is None and form.typed:
        labels = [str(name) for name in np.asarray(model.classes).tolist()]
    return write(form, path, labels=labels, **texts)


EXPORTERS[EnsembleForm.kind] = _export
