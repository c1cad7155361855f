"""Model bundles: a model in one file, with its parameter set, the keys it needs, and its inputs and outputs.

Reading a file runs no code of it: a file holds numbers, and names of known kinds, each checked before use (docs/format.md).
"""

from __future__ import annotations

import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from heliograph import _core
from heliograph._common.arguments import Buffer, described, digits_of, flag, listed, path_of, printable, readable_bytes
from heliograph._common.container import Container, from_bytes, load, save, to_bytes
from heliograph._common.html import HtmlRepr, Rows
from heliograph._common.origins import made_by, require_maker
from heliograph._common.parameters import Parameters, from_header, header_fields
from heliograph._common.schemes import SCHEMES, sets_of
from heliograph._common.tensor import Progress, StageProgress, Tensor
from heliograph.keys import EvaluationKeys, PublicKey, SecretKey, Server, SwitchKeys
from heliograph.models.header import NAME, count_in, damaged, fields_of, list_in, name_in, text_in

TYPE = "heliograph.sealed-model"
CLIENT_ARRAYS = "client."  #: first characters of the names of arrays in the client's half
_FORMATS = (1, 2, 3)  #: format versions of the header; each kind of model writes the lowest that has its fields
_LONGEST_TITLE, _LONGEST_LABEL, _MOST_LABELS, _MOST_BYTES = 1000, 200, 1 << 16, 1 << 62
_LARGE = 1 << 28  #: bytes of a tensor from which its size in a message is estimated from one ciphertext
_BYTE_COUNTS = ("input_bytes", "memory_bytes", "output_bytes")
_FIELDS = (
    "figures",
    "format",
    "kind",
    "labels",
    "model",
    "name",
    "needs",
    "parameter_hash",
    "parameters",
    "title",
    "version",
)


@dataclass(frozen=True)
class TensorSpec:
    """Description of one input or output of a model, in the clear.

    >>> model = hg.nn.setup("digits").export("digits.hgm")
    >>> model.inputs[0].shape, model.inputs[0].high, model.outputs[0].shape
    ((8, 8), 16, (10,))
    """

    name: str
    shape: tuple[int, ...]  #: shape of one item
    dtype: str  #: name of the NumPy dtype
    low: float | None  #: smallest value; None if only the encoding limits it
    high: float | None  #: largest value
    encoding: str  #: layout of items in ciphertexts: "packed", "tiled", "batch", "slots", "coefficients" or "elements"
    items: int  #: maximum items of one request or answer
    text: str  #: description of the layout
    #: [low, high] of each value along the last axis, if these differ; `low` and `high` are the extremes.
    ranges: tuple[tuple[float, float], ...] = ()


class Form(ABC):
    """A kind of model: its file format and its use. `complete` tells whether it has its weights."""

    kind: ClassVar[str]
    parameters: Any
    complete: bool
    format: int = 1  #: first format version with all its fields
    #: Whether arrays with names of `CLIENT_ARRAYS` belong to the client's half. Then `read` receives these for a half.
    client_arrays: ClassVar[bool] = False

    @classmethod
    @abstractmethod
    def read(cls, description: Any, arrays: dict[str, npt.NDArray[Any]] | None, parameters: Any) -> Form:
        """Reads and checks the results of `described` and `arrays`. Without arrays the result is the client's half: the
        model without its weights.

        Raises FormatError and its subclasses.
        """

    @abstractmethod
    def described(self) -> dict[str, Any]:
        """Returns the model without its weights, as JSON without fractions."""

    @abstractmethod
    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Returns the weights."""

    @property
    @abstractmethod
    def needs(self) -> dict[str, Any]:
        """Arguments of `SecretKey.evaluation_keys` for its keys."""

    @property
    @abstractmethod
    def inputs(self) -> tuple[TensorSpec, ...]:
        """The inputs."""

    @property
    @abstractmethod
    def outputs(self) -> tuple[TensorSpec, ...]:
        """The outputs."""

    @abstractmethod
    def rows(self) -> Rows:
        """Describes the model's structure in lines of (label, text)."""

    @abstractmethod
    def byte_counts(self) -> dict[str, int]:
        """Returns the bytes of a request, of an answer, and of a server's memory for one request at a time with keys."""

    def key_bytes(self) -> int:
        """Returns about the bytes of the evaluation keys in a message, which holds seeds in place of masks."""
        return int(self.parameters._sent_key_bytes(**self.needs))

    @abstractmethod
    def encrypt(self, key: Any, x: Any, unchecked: bool = False) -> Any:
        """Encrypts a request: a tensor, or a tuple of several.

        Raises PlaintextRangeError for values outside the input ranges, unless `unchecked`.
        """

    @abstractmethod
    def prepared(self) -> Callable[[tuple[Any, ...], StageProgress | None], Any]:
        """Returns the function from the tensors of a request to an answer, after preparations such as encoding weights."""

    @abstractmethod
    def decrypted(self, secret: Any, tensor: Any, unchecked: bool = False) -> Any:
        """Decrypts an answer to items [count, ...], or to a tuple of several results.

        `unchecked` is as for `SecretKey.decrypt`.
        """

    def decrypted_items(self, secret: Any, tensor: Any, unchecked: bool, count: int | None) -> Any:
        """Same as `decrypted`, for an answer to a request of `count` items; None if their number is unknown."""
        return self.decrypted(secret, tensor, unchecked)

    def require_results(self, values: Any) -> None:
        """Raises PlaintextRangeError for decrypted values outside the range of `outputs`.

        An input within its ranges may cause such values, because a model without weights checks each feature alone.
        """
        low, high = self.outputs[0].low, self.outputs[0].high
        if low is None or high is None or not isinstance(values, np.ndarray):
            return
        slack = (high - low) * 2.0**-10  # tolerance for the approximation error of CKKS
        least, most = float(values.min(initial=low)), float(values.max(initial=high))
        if least < low - slack or most > high + slack:
            raise _core.PlaintextRangeError(
                f"the answer holds {least if least < low - slack else most:.6g}, outside [{low:.6g}, {high:.6g}], the range "
                "of the model's results: an input was unlike the calibration data, and all results of this request may be "
                "wrong; pass unchecked=True to read them"
            )

    def count(self, x: Any) -> tuple[int, bool]:
        """Returns the number of items of an array, and whether it is a single item without an axis of items.

        Raises ShapeError.
        """
        shape = self.inputs[0].shape
        own_shape = np.shape(x)
        if own_shape == shape:
            return 1, True
        if own_shape[1:] != shape or not 1 <= own_shape[0] <= self.inputs[0].items:
            most = self.inputs[0].items
            several = f", or 1 to {most:,} of them" if most > 1 else ", one at a time"
            raise _core.ShapeError(f"this model takes an array of shape {shape}{several}, not of shape {own_shape}")
        return own_shape[0], False

    def predict(self, scores: npt.NDArray[Any], labels: tuple[str, ...]) -> npt.NDArray[Any]:
        """Returns the best class of each item: its label, or its number without labels."""
        best = np.asarray(scores.argmax(-1))
        return np.asarray(labels)[best] if labels else best

    def predict_proba(self, _: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """Returns the probabilities of the classes of each item. Raises DtypeError for models without."""
        raise _core.DtypeError(f"a model of kind {self.kind} has no probabilities")


#: Kinds of models, by name. Names in files are looked up only here.
FORMS: dict[str, type[Form]] = {}


def form(kind: type[Form]) -> type[Form]:
    """Registers the decorated class as a kind of model."""
    FORMS[kind.kind] = kind
    return kind


class ModelBundle(HtmlRepr):
    """A model in one file, for the server that runs it; without its weights (`client`), for clients that send requests.

    The method `export` of networks, layouts, models and programs makes one; `load` reads it.

    >>> hg.nn.setup("digits").export("digits.hgm").name
    'digits'
    >>> model = hg.ModelBundle.load("digits.hgm")
    >>> secret = hg.SecretKey.generate(model.parameters)
    >>> server = hg.Server(model.keys(secret))  # exactly the keys that it needs
    >>> digit = np.random.default_rng(1).integers(0, 17, (8, 8))
    >>> answer = model.run(server, model.encrypt(secret, digit))
    >>> scores = model.decrypt(secret, answer, like=digit)
    >>> np.array_equal(scores, hg.nn.load("digits").clear_logits([digit])[0])
    True
    """

    def __init__(self, container: Container, size: int) -> None:
        header = container.header
        if container.type != TYPE:
            raise _core.FormatError(
                f"a model bundle must be of type {TYPE}, and this file is of type {printable(container.type)}"
            )
        version = header.get("format")
        if type(version) is int and version > _FORMATS[-1]:
            raise _core.VersionError(
                f"this model bundle has format {version}; Heliograph {_core.version()} reads formats {_FORMATS[0]} to "
                f"{_FORMATS[-1]}; use a newer release"
            )
        if type(version) is not int or version not in _FORMATS or set(header) - {"whole"} != set(_FIELDS):
            raise damaged("its header must have exactly the fields of its format")
        self.name = name_in(header["name"], "name")
        self.version = name_in(header["version"], "version")
        self.title = text_in(header["title"], "title", _LONGEST_TITLE)
        self._container, self.nbytes = container, size
        full_digest = header.get("whole")
        if full_digest is not None and not (isinstance(full_digest, str) and re.fullmatch("[0-9a-f]{64}", full_digest)):
            raise damaged("the field whole of a model without weights must be a SHA-256 digest")
        self.digest = container.digest if full_digest is None else full_digest
        self._byte_counts = _byte_counts(header["figures"])
        self.parameters = from_header(header)
        kind = FORMS.get(header["kind"]) if isinstance(header["kind"], str) else None
        if kind is None:
            raise damaged(f"its kind must be one of {', '.join(FORMS)}")
        if full_digest is not None and container.arrays.keys() != _client_arrays(kind, container).keys():
            raise damaged("a model without weights must have no arrays but its client's")
        arrays = None if full_digest is not None and not kind.client_arrays else container.arrays
        self._form = kind.read(header["model"], arrays, self.parameters)
        if self._form.complete != (full_digest is None):
            raise damaged("a model must have all of its weights, or none")
        if self._form.format != version:
            raise damaged(f"its fields are those of format {self._form.format}, not of format {version}")
        if header["needs"] != _header_needs(self._form.needs):
            raise damaged("the field needs must list the keys that the model needs")
        self.labels = _labels(header["labels"], self._form.outputs)
        self._run: Callable[[tuple[Any, ...], StageProgress | None], Any] | None = None
        self._lock = threading.Lock()

    name: str  #: name in a service
    version: str  #: version, a text
    title: str  #: description of its purpose
    digest: str  #: SHA-256 of the file's bytes, hex; for a client's half, that of the whole model
    nbytes: int  #: size of this file, in bytes
    parameters: Any  #: the parameter set
    labels: tuple[str, ...]  #: labels of the scores, in order; empty if none were given

    @classmethod
    def load(cls, path_or_bytes: Any) -> Self:
        """Reads a model from a file or its bytes.

        Raises FormatError for other files, VersionError for a later format, DamagedFileError for a truncated, changed or
        inconsistent file, SecurityError, OSError.

        >>> data = hg.nn.setup("digits").export("digits.hgm").to_bytes()
        >>> hg.ModelBundle.load(data).digest == hg.ModelBundle.load("digits.hgm").digest
        True
        """
        if isinstance(path_or_bytes, Buffer):
            return cls(from_bytes(path_or_bytes), memoryview(path_or_bytes).nbytes)
        name = path_of(path_or_bytes)
        return cls(load(name), Path(name).stat().st_size)

    def to_bytes(self) -> bytes:
        """Returns the model in the format of a file.

        >>> hg.nn.setup("digits").export("digits.hgm").to_bytes() == open("digits.hgm", "rb").read()
        True
        """
        c = self._container
        return to_bytes(c.type, c.header, c.arrays)

    def save(self, path: Any) -> None:
        """Writes the model to a file, atomically. Raises OSError.

        >>> hg.nn.setup("digits").export("digits.hgm").save("copy.hgm")
        >>> hg.ModelBundle.load("copy.hgm").name
        'digits'
        """
        save(path_of(path), self.to_bytes())

    def client(self) -> ModelBundle:
        """Returns the client's half: the model without its weights, for clients that encrypt and decrypt.

        The client's half has the layers' sizes, which determine the layout of values in ciphertexts. The `run` of a
        client's half raises MissingKeyError.

        >>> model = hg.nn.setup("digits").export("digits.hgm")
        >>> half = model.client()
        >>> half.complete, half.digest == model.digest, half.nbytes < model.nbytes
        (False, True, True)
        """
        if not self.complete:
            return self
        header = self._container.header | {"whole": self.digest}
        return ModelBundle.load(to_bytes(TYPE, header, _client_arrays(type(self._form), self._container)))

    @property
    def complete(self) -> bool:
        """Whether the model has its weights and can run."""
        return self._form.complete

    @property
    def kind(self) -> str:
        """Kind of model, such as "network.compiled", "estimator", "ensemble" or "program"."""
        return self._form.kind

    @property
    def needs(self) -> dict[str, Any]:
        """Arguments of `SecretKey.evaluation_keys` for its keys."""
        return self._form.needs

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """The inputs, one for each array that `encrypt` takes."""
        return self._form.inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """The outputs."""
        return self._form.outputs

    @property
    def key_bytes(self) -> int:
        """Approximate bytes of the evaluation keys in a message."""
        return self._form.key_bytes()

    @property
    def input_bytes(self) -> int:
        """Bytes of a request encrypted by a secret key; by a public key twice as many. As stated in the file."""
        return self._byte_counts["input_bytes"]

    @property
    def output_bytes(self) -> int:
        """Bytes of an answer. As stated in the file."""
        return self._byte_counts["output_bytes"]

    @property
    def memory_bytes(self) -> int:
        """Bytes of a server's memory for one request at a time, keys included. As stated in the file."""
        return self._byte_counts["memory_bytes"]

    # The client

    def keys(self, secret: SecretKey[Any, Any], progress: Progress | None = None) -> EvaluationKeys[Any, Any]:
        """Makes exactly the evaluation keys that the model needs. Raises DtypeError, MismatchError for another parameter
        set.

        >>> model = hg.nn.setup("digits-batch").export("digits.hgm")
        >>> model.keys(hg.SecretKey.generate(model.parameters)).rotations
        []
        """
        self._require(secret, SecretKey, "keys are made by a secret key")
        evaluation_keys: EvaluationKeys[Any, Any] = secret.evaluation_keys(**self.needs, progress=progress)
        return evaluation_keys

    def encrypt(self, key: SecretKey[Any, Any] | PublicKey[Any], x: Any, *, unchecked: bool = False) -> Any:
        """Encrypts a request: one item of the shape of `inputs`, or several along a first axis.

        Values outside the ranges of `inputs` raise PlaintextRangeError, since their answer may be wrong. A complete model of
        an estimator instead runs its layers on the samples in the clear, which is exact. ``unchecked=True`` skips the check,
        except for programs, whose recording holds for its ranges only. Columns of a data frame are matched by name if the
        file has names.

        Raises ShapeError, DtypeError, PlaintextRangeError, MismatchError.

        >>> model = hg.nn.setup("digits-batch").export("digits.hgm")
        >>> secret = hg.SecretKey.generate(model.parameters)
        >>> model.encrypt(secret, np.zeros((3, 8, 8), dtype=int)).shape  # a ciphertext for each pixel, three digits in each
        (1, 8, 8)
        """
        self._require(key, (SecretKey, PublicKey), "requests are encrypted by a secret or public key")
        return self._form.encrypt(key, x, flag(unchecked, "unchecked"))

    def decrypt(self, secret: SecretKey[Any, Any], tensor: Any, like: Any = None, *, unchecked: bool = False) -> Any:
        """Decrypts an answer to scores [items, ...].

        By default the scores are those of all items of a full request. `like` is the array that was encrypted: then the
        scores are those of its items only, and without the first axis for a single item.

        Raises WrongKeyError, MismatchError, NoiseError, and ShapeError for a tensor that is no answer of this model. Unless
        `unchecked`, raises MismatchError for an answer that another model computed in this process, PlaintextRangeError for
        scores outside the range of `outputs`, RoomError for values that may have wrapped.

        >>> model = hg.nn.setup("digits").export("digits.hgm")
        >>> secret = hg.SecretKey.generate(model.parameters)
        >>> digit = np.zeros((8, 8), dtype=int)
        >>> answer = model.run(hg.Server(model.keys(secret)), model.encrypt(secret, digit))
        >>> model.decrypt(secret, answer).shape, model.decrypt(secret, answer, like=digit).shape
        ((1, 10), (10,))
        """
        self._require(secret, SecretKey, "answers are decrypted by a secret key")
        opened = flag(unchecked, "unchecked")
        if not opened:
            require_maker(tensor, self, lambda a, b: a.digest == b.digest)
        count, alone = (None, False) if like is None else self._form.count(like)
        try:
            items = self._form.decrypted_items(secret, tensor, opened, count)
        except _core.RoomError:  # prefer the error of the model's own range, which says more
            self._form.require_results(self._form.decrypted(secret, tensor, True))
            raise
        if not opened:
            self._form.require_results(items)
        if count is None or not isinstance(items, np.ndarray):
            return items
        if count > len(items):
            raise _core.ShapeError(
                f"this answer has the scores of at most {len(items)} items, not of {count}; pass the items of its request"
            )
        return items[0] if alone else items[:count]

    def predict(self, scores: Any) -> npt.NDArray[Any]:
        """Returns the best class of each item's scores: its label, or its number without labels.

        For an estimator, returns its predictions in the shape and with the classes of scikit-learn.

        >>> model = hg.nn.setup("digits").export("digits.hgm")
        >>> model.predict([[0, 3, 1, 0, 0, 0, 0, 0, 0, 2]])
        array([1])
        """
        return self._form.predict(np.asarray(scores), self.labels)

    def predict_proba(self, scores: Any) -> npt.NDArray[np.float64]:
        """Returns the probabilities of the classes [items, classes] of an estimator's scores, as scikit-learn does.

        Raises DtypeError for models without probabilities.

        >>> layer = hg.ml.Dense(np.array([[2.0, 1.0]]), np.array([0.5]))
        >>> model = hg.ml.EstimatorModel("a judge", (layer,), np.array(["no", "yes"]), True, 8.0)
        >>> judge = model.export("judge.hgm", samples=2)
        >>> judge.predict_proba([[-1.0], [2.0]]).round(3).tolist(), judge.predict([[-1.0], [2.0]]).tolist()
        ([[0.731, 0.269], [0.119, 0.881]], ['no', 'yes'])
        """
        return self._form.predict_proba(np.asarray(scores, dtype=np.float64))

    # The server

    def require_keys(self, keys: EvaluationKeys[Any, Any]) -> None:
        """Raises MismatchError or MissingKeyError if the model cannot run with these evaluation keys.

        >>> model = hg.nn.setup("digits").export("digits.hgm")
        >>> secret = hg.SecretKey.generate(model.parameters)
        >>> model.require_keys(secret.evaluation_keys(rotations=[1, 2], columns=True))
        Traceback (most recent call last):
            ...
        heliograph.MissingKeyError: the keys lack rotations 4, 8, 16, 32, 64, 128, 256, 512, ... (10 in all), which ...
        """
        self._require(keys, EvaluationKeys, "a model is run with evaluation keys")
        for name, need in self.needs.items():
            have = getattr(keys, name)
            if name == "rotations" and isinstance(keys, SwitchKeys) and keys.most_switches > 1:
                keys._require(f"the model {self.name}", need)
                continue
            if need is True and not have:
                raise _core.MissingKeyError(
                    f"the keys lack the key {name}, which the model {self.name} needs; make them with model.keys(secret)"
                )
            if isinstance(need, dict):
                _require_levels(self.name, have, need)
                continue
            if isinstance(need, list) and (missing := sorted(set(need) - set(have))):
                more = f", ... ({len(missing)} in all)" if len(missing) > 8 else ""
                steps = ", ".join(map(str, missing[:8])) + more
                raise _core.MissingKeyError(
                    f"the keys lack {name} {steps}, which the model {self.name} needs; make them with model.keys(secret)"
                )

    def prepare(self) -> None:
        """Encodes the weights now, instead of at the first `run`. Raises MissingKeyError for a client's half.

        >>> hg.nn.setup("digits").export("digits.hgm").prepare()
        """
        self._prepared()

    def run(self, server: Server[Any], tensor: Any, progress: StageProgress | None = None) -> Any:
        """Computes the answer to a request at a server: a tensor, or a tuple of several. Threads may call it concurrently.

        Raises MismatchError, WrongKeyError, MissingKeyError, and ShapeError for tensors that are no request of this model.

        >>> model = hg.nn.setup("digits").export("digits.hgm")
        >>> secret = hg.SecretKey.generate(model.parameters)
        >>> request = model.encrypt(secret, np.zeros((8, 8), dtype=int)).to_bytes()
        >>> server = hg.Server(model.keys(secret))
        >>> model.run(server, server.from_bytes(request)).shape
        ()
        """
        if not isinstance(server, Server):
            raise _core.DtypeError(f"a model runs at a hg.Server, not at a {type(server).__name__}")
        self.require_keys(server.keys)
        tensors = tuple(tensor) if isinstance(tensor, (list, tuple)) else (tensor,)
        return made_by(self._prepared()(tuple(server.bind(t) for t in tensors), progress), self)

    def _prepared(self) -> Callable[[tuple[Any, ...], StageProgress | None], Any]:
        if not self.complete:
            raise _core.MissingKeyError(
                f"cannot run the client's half of the model {self.name}: it has no weights; load the whole model"
            )
        with self._lock:
            if self._run is None:
                self._run = self._form.prepared()
            return self._run

    def _require(self, key: Any, kinds: Any, what: str) -> None:
        if not isinstance(key, kinds):
            raise _core.DtypeError(f"{what}, not by {described(key)}")
        if key.parameters != self.parameters:
            raise _core.MismatchError(
                f"the key and the model {self.name} are of different {key.parameters._differs_from(self.parameters)}"
            )

    # For people

    def _rows(self) -> Rows:
        rows = [("model", f"{self.name} {self.version}" + (f": {printable(self.title)}" if self.title else ""))]
        if not self.complete:
            rows.append(("part", "the client's half, without weights"))
        rows += [("kind", self.kind), *self._form.rows()]
        for label, specs in (("input", self.inputs), ("output", self.outputs)):
            rows += [(label, _spec_text(spec)) for spec in specs]
        if self.labels:
            rows.append(("labels", printable(_some(self.labels))))
        rows += [
            ("parameters", repr(self.parameters)),
            ("keys", f"{_needs_text(self.needs)}: {readable_bytes(self.key_bytes)} to send, once"),
            ("a request", f"{readable_bytes(self.input_bytes)} to send, {readable_bytes(self.output_bytes)} back"),
            ("memory", f"{readable_bytes(self.memory_bytes)} at the server, keys included"),
            ("digest", self.digest),
        ]
        return rows

    def explain(self) -> str:
        """Returns a description of several lines, which `heliograph inspect` prints.

        >>> model = hg.nn.setup("digits").export("digits.hgm")
        >>> print(model.explain().split("\\n")[0])
                 model  digits 1: one 8x8 digit at low latency
        """
        return "\n".join(f"{label:>14}  {text}" for label, text in self._rows())

    def __repr__(self) -> str:
        half = "" if self.complete else ", a client's half"
        return f"<model bundle {self.name} {self.version}: {self.kind}{half}; {self.parameters!r}; {self.digest[:8]}>"


def _client_arrays(kind: type[Form], container: Container) -> dict[str, npt.NDArray[Any]]:
    """Returns the arrays that belong to the client's half."""
    if not kind.client_arrays:
        return {}
    return {name: array for name, array in container.arrays.items() if name.startswith(CLIENT_ARRAYS)}


def write(form: Form, path: Any, name: Any = None, version: Any = "1", title: Any = "", labels: Any = None) -> ModelBundle:
    """Writes a model of any kind as a model bundle and returns that bundle. Raises ParameterError for invalid texts."""
    if not isinstance(form.parameters, Parameters):
        raise _core.DtypeError(f"a model is exported with {sets_of(SCHEMES.values())}, not {type(form.parameters).__name__}")
    at = Path(path_of(path))
    header: dict[str, Any] = {
        "figures": form.byte_counts(),
        "format": form.format,
        "kind": form.kind,
        "labels": _checked_labels(labels, form.outputs),
        "model": form.described(),
        "name": _checked_name(at.stem if name is None else name, "name"),
        "needs": _header_needs(form.needs),
        "title": _checked_text(title, "title", _LONGEST_TITLE),
        "version": _checked_name(version, "version"),
        **header_fields(form.parameters),
    }
    bundle = ModelBundle.load(to_bytes(TYPE, header, form.arrays()))
    bundle.save(at)
    return bundle


def _require_levels(name: str, have: Mapping[int, list[int]], need: Mapping[int, list[int]]) -> None:
    """Raises MissingKeyError unless there are rotation keys for each step, for its level or above."""
    for level, steps in need.items():
        above = {step for at, some in have.items() if at >= level for step in some}
        if missing := sorted(set(steps) - above):
            raise _core.MissingKeyError(
                f"the keys lack {len(missing)} rotations at level {level}, {missing[0]} first, which the model {name} "
                "needs; make them with model.keys(secret)"
            )


# Fields of headers


def _header_needs(needs: Mapping[str, Any]) -> dict[str, Any]:
    """Returns needs as JSON reads them: the levels of rotations are strings."""
    return {
        name: {str(level): steps for level, steps in need.items()} if isinstance(need, dict) else need
        for name, need in needs.items()
    }


def _labels(value: Any, outputs: tuple[TensorSpec, ...]) -> tuple[str, ...]:
    labels = list_in(value, "labels", _MOST_LABELS)
    if labels and len(labels) != _label_count(outputs):
        raise damaged(f"it must have {_label_count(outputs)} labels, as many as scores, or none")
    return tuple(text_in(label, "label", _LONGEST_LABEL) for label in labels)


def _label_count(outputs: tuple[TensorSpec, ...]) -> int:
    """Returns the number of labels: one for each score, or two for a single score, by its sign."""
    scores = outputs[0].shape[0] if len(outputs) == 1 and len(outputs[0].shape) == 1 else 0
    return 2 if scores == 1 else scores


def _byte_counts(value: Any) -> dict[str, int]:
    fields = fields_of(value, *_BYTE_COUNTS)
    return {name: count_in(fields[name], name, 0, _MOST_BYTES) for name in _BYTE_COUNTS}


# Arguments of `export`


def _checked_name(value: Any, what: str) -> str:
    if not isinstance(value, str) or not NAME.fullmatch(value):
        raise _core.ParameterError(
            f"a model's {what} must be 1 to 64 letters, digits, dots, dashes and underscores, the first a letter or digit, "
            f"not {described(value)}"
        )
    return value


def _checked_text(value: Any, what: str, longest: int) -> str:
    if not isinstance(value, str) or len(value) > longest:
        raise _core.ParameterError(
            f"a model's {what} must be a string of at most {longest} characters, not {described(value)}"
        )
    return value


def _checked_labels(labels: Any, outputs: tuple[TensorSpec, ...]) -> list[str]:
    if labels is None:
        return []
    several = listed(labels)
    texts = [_checked_text(label, "label", _LONGEST_LABEL) for label in several or ()]
    count = _label_count(outputs)
    if not texts or len(texts) != count:
        raise _core.ParameterError(f"labels must be {count} strings, as many as classes, not {described(labels)}")
    return texts


# For people


def _some(values: tuple[Any, ...] | list[Any]) -> str:
    more = f", ... ({len(values)} in all)" if len(values) > 16 else ""
    return ", ".join(map(str, values[:16])) + more


def _spec_text(spec: TensorSpec) -> str:
    reach = ""
    if spec.low is not None and spec.high is not None:
        digits = digits_of(spec.low, spec.high)
        reach = f", {spec.low:.{digits}g} to {spec.high:.{digits}g}" + (", each in its own range" if spec.ranges else "")
    size = " x ".join(map(str, spec.shape)) or "one value"
    described = f"{size} of {spec.dtype}{reach}; {spec.encoding}, at most {spec.items:,}"
    return f"{printable(spec.name)}: {described}; {printable(spec.text)}"


def _needs_text(needs: Mapping[str, Any]) -> str:
    parts = []
    for name, need in needs.items():
        count = sum(map(len, need.values())) if isinstance(need, dict) else len(need) if isinstance(need, list) else 0
        parts += [f"{count} {name.removeprefix('level_')}" if count else name] if need else []
    return ", ".join(parts) or "the same for every computation"


def sent_bytes(tensor: Tensor[Any, Any]) -> int:
    """Returns the bytes of a tensor in a message; for a large tensor, estimated from one of its ciphertexts."""
    if tensor.nbytes <= _LARGE:
        return len(tensor.to_bytes())
    flat = tensor.reshape(-1)
    none, one = len(flat[:0].to_bytes()), len(flat[:1].to_bytes())
    return (none + (one - none) * tensor.size) // (2 if tensor._core.seeded else 1)
