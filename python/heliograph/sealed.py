"""Sealed models: a network in one file, with all that its users and its server need to know.

The file says what the model computes, its parameter set, which keys it needs, what goes in and what comes out. Reading one runs no
code of the file's: it holds numbers and names of known kinds, each of which is checked before it is used (docs/format.md).
"""

from __future__ import annotations

import math
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
from heliograph._arrays import (
    Buffer,
    described,
    digits_of,
    flag,
    listed,
    path_of,
    printable,
    readable_bytes,
)
from heliograph._container import Container, from_bytes, load, save, to_bytes
from heliograph._html import Rows, Shown
from heliograph._parameters import Parameters
from heliograph._pickling import REDUCERS
from heliograph._schemes import SCHEMES, Scheme, sets_of, split_type, type_of_bytes
from heliograph._shapes import Tensor
from heliograph.keys import EvaluationKeys, PublicKey, SecretKey, Server, SwitchKeys

TYPE = "heliograph.sealed-model"
_FORMATS = (1, 2, 3)  #: of what the header says; a form writes the first that has its fields
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_LONGEST_TITLE, _LONGEST_LABEL, _MOST_LABELS, _MOST_BYTES = 1000, 200, 1 << 16, 1 << 62
_LARGE = 1 << 28  #: bytes of a tensor that is not written to see how many it takes
_FIGURES = ("input_bytes", "memory_bytes", "output_bytes")
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
#: Called with what is being computed and the share of it done, 0 to 1.
Watch = Callable[[str, float], None]


@dataclass(frozen=True)
class Side:
    """What goes into a model, or comes out of it, as its user has it.

    >>> model = hg.nn.setup("digits").seal("digits.hgm")
    >>> model.inputs[0].shape, model.inputs[0].high, model.outputs[0].shape
    ((8, 8), 16, (10,))
    """

    name: str
    shape: tuple[int, ...]  #: of one item
    dtype: str  #: NumPy's name
    low: float | None  #: the least value; None where the encoding alone limits it
    high: float | None
    encoding: str  #: how items lie in ciphertexts: "packed", "tiled", "batch", "slots", "coefficients" or "elements"
    items: int  #: that one request or answer holds at most
    text: str  #: the same for a person
    #: [low, high] of each value along the last axis, where these differ; `low` and `high` are the extremes.
    ranges: tuple[tuple[float, float], ...] = ()


class Form(ABC):
    """A kind of model: what is written of it, and how it is used. Made whole, or without its weights (`complete`)."""

    kind: ClassVar[str]
    parameters: Any
    complete: bool
    format: int = 1  #: the first format of sealed models that has all its fields

    @classmethod
    @abstractmethod
    def read(cls, said: Any, arrays: dict[str, npt.NDArray[Any]] | None, parameters: Any) -> Form:
        """What `described` and `arrays` have written, checked; without arrays a client's half. Raises FormatError and its kinds."""

    @abstractmethod
    def described(self) -> dict[str, Any]:
        """The model but for its weights, as JSON without fractions."""

    @abstractmethod
    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Its weights."""

    @property
    @abstractmethod
    def needs(self) -> dict[str, Any]:
        """The arguments of `SecretKey.evaluation_keys`."""

    @property
    @abstractmethod
    def inputs(self) -> tuple[Side, ...]:
        """What goes in."""

    @property
    @abstractmethod
    def outputs(self) -> tuple[Side, ...]:
        """What comes out."""

    @abstractmethod
    def rows(self) -> Rows:
        """For people: what it is made of."""

    @abstractmethod
    def figures(self) -> dict[str, int]:
        """Bytes of a request, of an answer, and what a server needs, keys included, for one request at a time."""

    @abstractmethod
    def encrypt(self, key: Any, x: Any, unchecked: bool = False) -> Any:
        """A request: a tensor, or a tuple of several. Raises PlaintextRangeError for values outside the input ranges, unless
        `unchecked`.
        """

    @abstractmethod
    def prepared(self) -> Callable[[tuple[Any, ...], Watch | None], Any]:
        """What computes an answer from the tensors of a request; what takes long beforehand is done here."""

    @abstractmethod
    def decrypted(self, secret: Any, tensor: Any, unchecked: bool = False) -> Any:
        """An answer's items [count, ...], or what several results hold. `unchecked`: as of CKKS's `SecretKey.decrypt`."""

    def require_results(self, values: Any) -> None:
        """Raises PlaintextRangeError for decrypted values outside the range of `outputs`: an input inside the ranges may still lead
        there, because a client's half knows these of single values only.
        """
        low, high = self.outputs[0].low, self.outputs[0].high
        if low is None or high is None or not isinstance(values, np.ndarray):
            return
        slack = (high - low) * 2.0**-10  # for the error of CKKS
        least, most = float(values.min(initial=low)), float(values.max(initial=high))
        if least < low - slack or most > high + slack:
            raise _core.PlaintextRangeError(
                f"the answer holds {least if least < low - slack else most:.6g}, outside [{low:.6g}, {high:.6g}], the range of the model's "
                "results: an input was unlike the calibration data, and all results of this request may be wrong; pass unchecked=True to "
                "read them"
            )

    def count(self, x: Any) -> tuple[int, bool]:
        """How many items a user's array holds, and whether it is one alone, without an axis of items."""
        shape = self.inputs[0].shape
        given = np.shape(x)
        if given == shape:
            return 1, True
        if given[1:] != shape or not 1 <= given[0] <= self.inputs[0].items:
            most = self.inputs[0].items
            several = f", or 1 to {most:,} of them" if most > 1 else ", one at a time"
            raise _core.ShapeError(f"this model takes an array of shape {shape}{several}, not of shape {given}")
        return given[0], False

    def predict(self, scores: npt.NDArray[Any], labels: tuple[str, ...]) -> npt.NDArray[Any]:
        """The best class of each item: its label, or its number without labels."""
        best = np.asarray(scores.argmax(-1))
        return np.asarray(labels)[best] if labels else best

    def predict_proba(self, _: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """Probabilities of the classes of each item. Raises DtypeError for models without."""
        raise _core.DtypeError(f"a model of kind {self.kind} has no probabilities")


#: The kinds of models, by name. What a file names is looked up here and nowhere else.
FORMS: dict[str, type[Form]] = {}


def form(kind: type[Form]) -> type[Form]:
    """Decorates a kind of model."""
    FORMS[kind.kind] = kind
    return kind


class SealedModel(Shown):
    """A model in one file: for the server that runs it, and, without its weights, for those who send requests to it.

    Made by `seal` of the networks of `hg.nn` and their layouts, read by `load`.

    >>> hg.nn.setup("digits").seal("digits.hgm").name
    'digits'
    >>> model = hg.SealedModel.load("digits.hgm")
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
            raise _core.FormatError(f"this holds {printable(container.type)}, not {TYPE}")
        version = header.get("format")
        if type(version) is int and version > _FORMATS[-1]:
            raise _core.VersionError(
                f"this model is of format {version}; this Heliograph, {_core.version()}, reads formats {_FORMATS[0]} to {_FORMATS[-1]}: "
                "a newer one reads it"
            )
        if type(version) is not int or version not in _FORMATS or set(header) - {"whole"} != set(_FIELDS):
            raise _core.DamagedFileError("a sealed model has other fields than its format has")
        self.name = _named(header["name"], "name")
        self.version = _named(header["version"], "version")
        self.title = _text(header["title"], "title", _LONGEST_TITLE)
        self._container, self.nbytes = container, size
        whole = header.get("whole")
        if whole is not None and not (isinstance(whole, str) and re.fullmatch("[0-9a-f]{64}", whole)):
            raise _core.DamagedFileError("a model without weights does not say which one it is of")
        self.digest = container.digest if whole is None else whole
        self._figures = _figures(header["figures"])
        self.parameters = read_parameters(header)
        kind = FORMS.get(header["kind"]) if isinstance(header["kind"], str) else None
        if kind is None:
            raise _core.DamagedFileError("a sealed model is of no kind that its format has")
        if whole is not None and container.arrays:
            raise _core.DamagedFileError("a model without weights has arrays")
        self._form = kind.read(header["model"], container.arrays if whole is None else None, self.parameters)
        if self._form.format != version:
            raise _core.DamagedFileError("a sealed model has fields of another format than it says")
        if header["needs"] != self._form.needs:
            raise _core.DamagedFileError("a sealed model asks for other keys than it needs")
        self.labels = _labels(header["labels"], self._form.outputs)
        self._run: Callable[[tuple[Any, ...], Watch | None], Any] | None = None
        self._lock = threading.Lock()

    name: str  #: by which a service has it
    version: str  #: its maker's
    title: str  #: what it does, for people
    digest: str  #: SHA-256 of the whole file's bytes, hex; of a client's half, the whole's
    nbytes: int  #: of this file
    parameters: Any  #: the parameter set
    labels: tuple[str, ...]  #: what the scores are of, in their order; empty where nobody said

    @classmethod
    def load(cls, path_or_bytes: Any) -> Self:
        """From a file, or from its bytes.

        Raises FormatError for other files, VersionError for a later format, DamagedFileError for what is cut short, changed, or
        says what cannot be; SecurityError; OSError.

        >>> data = hg.nn.setup("digits").seal("digits.hgm").to_bytes()
        >>> hg.SealedModel.load(data).digest == hg.SealedModel.load("digits.hgm").digest
        True
        """
        if isinstance(path_or_bytes, Buffer):
            return cls(from_bytes(path_or_bytes), memoryview(path_or_bytes).nbytes)
        name = path_of(path_or_bytes)
        return cls(load(name), Path(name).stat().st_size)

    def to_bytes(self) -> bytes:
        """The file's bytes.

        >>> hg.nn.setup("digits").seal("digits.hgm").to_bytes() == open("digits.hgm", "rb").read()
        True
        """
        c = self._container
        return to_bytes(c.type, c.header, c.arrays)

    def save(self, path: Any) -> None:
        """Writes a file, all or nothing. Raises OSError.

        >>> hg.nn.setup("digits").seal("digits.hgm").save("copy.hgm")
        >>> hg.SealedModel.load("copy.hgm").name
        'digits'
        """
        save(path_of(path), self.to_bytes())

    def client(self) -> SealedModel:
        """The same without its weights: what those who encrypt and decrypt need, for a server that keeps its model to itself.

        It has the layers' sizes, which tell how values lie in ciphertexts. `run` refuses.

        >>> model = hg.nn.setup("digits").seal("digits.hgm")
        >>> half = model.client()
        >>> half.complete, half.digest == model.digest, half.nbytes < model.nbytes
        (False, True, True)
        """
        if not self.complete:
            return self
        header = self._container.header | {"whole": self.digest}
        return SealedModel.load(to_bytes(TYPE, header, {}))

    @property
    def complete(self) -> bool:
        """Whether it has its weights, so that it can be run."""
        return self._form.complete

    @property
    def kind(self) -> str:
        """What it is made of: "network.packed", "network.tiled" or "network.batch"."""
        return self._form.kind

    @property
    def needs(self) -> dict[str, Any]:
        """The arguments of `SecretKey.evaluation_keys` that make its keys."""
        return self._form.needs

    @property
    def inputs(self) -> tuple[Side, ...]:
        """What goes in, one for each array that `encrypt` takes."""
        return self._form.inputs

    @property
    def outputs(self) -> tuple[Side, ...]:
        """What comes out."""
        return self._form.outputs

    @property
    def key_bytes(self) -> int:
        """Bytes of the evaluation keys when they are sent, about."""
        return int(self.parameters._sent_key_bytes(**self.needs))

    @property
    def input_bytes(self) -> int:
        """Bytes of a request when it is sent, encrypted by a secret key; a public key's are twice as many. As its maker found."""
        return self._figures["input_bytes"]

    @property
    def output_bytes(self) -> int:
        """Bytes of an answer when it is sent. As its maker found."""
        return self._figures["output_bytes"]

    @property
    def memory_bytes(self) -> int:
        """Bytes that a server needs for one request at a time, keys included. As its maker found."""
        return self._figures["memory_bytes"]

    # The client

    def keys(self, secret: SecretKey[Any, Any], progress: Callable[[float], None] | None = None) -> EvaluationKeys[Any, Any]:
        """The evaluation keys that it needs, and no others. Raises MismatchError for a key of another parameter set.

        >>> model = hg.nn.setup("digits-batch").seal("digits.hgm")
        >>> model.keys(hg.SecretKey.generate(model.parameters)).rotations
        []
        """
        self._require(secret, SecretKey, "keys are made by a secret key")
        made: EvaluationKeys[Any, Any] = secret.evaluation_keys(**self.needs, progress=progress)
        return made

    def encrypt(self, key: SecretKey[Any, Any] | PublicKey[Any], x: Any, *, unchecked: bool = False) -> Any:
        """A request: of one item (`inputs` says its shape), or of several along a first axis.

        Values outside the ranges of `inputs` are a PlaintextRangeError, for their answer may be wrong. A whole model of an estimator
        runs its clear layers on the samples instead, which is exact. ``unchecked=True`` encrypts such values all the same, but for
        programs, whose servers compute with the recorded ranges alone. Columns of a data frame are taken by their names if the file has
        names.

        Raises ShapeError, DtypeError, PlaintextRangeError, MismatchError.

        >>> model = hg.nn.setup("digits-batch").seal("digits.hgm")
        >>> secret = hg.SecretKey.generate(model.parameters)
        >>> model.encrypt(secret, np.zeros((3, 8, 8), dtype=int)).shape  # a ciphertext for each pixel, three digits in each
        (1, 8, 8)
        """
        self._require(key, (SecretKey, PublicKey), "requests are encrypted by a secret or public key")
        return self._form.encrypt(key, x, flag(unchecked, "unchecked"))

    def decrypt(self, secret: SecretKey[Any, Any], tensor: Any, like: Any = None, *, unchecked: bool = False) -> Any:
        """An answer's scores [items, ...], as many as it holds. With `like`, what was asked: scores of these items alone, and
        without the first axis where it was one item.

        Raises WrongKeyError, MismatchError, NoiseError, ShapeError for what is no answer of this model; unless `unchecked`,
        PlaintextRangeError for scores that no sample inside the input ranges gives and RoomError for what may have wrapped.

        >>> model = hg.nn.setup("digits").seal("digits.hgm")
        >>> secret = hg.SecretKey.generate(model.parameters)
        >>> digit = np.zeros((8, 8), dtype=int)
        >>> answer = model.run(hg.Server(model.keys(secret)), model.encrypt(secret, digit))
        >>> model.decrypt(secret, answer).shape, model.decrypt(secret, answer, like=digit).shape
        ((1, 10), (10,))
        """
        self._require(secret, SecretKey, "answers are decrypted by a secret key")
        opened = flag(unchecked, "unchecked")
        try:
            found = self._form.decrypted(secret, tensor, opened)
        except _core.RoomError:  # the error of the model's own range says more
            self._form.require_results(self._form.decrypted(secret, tensor, True))
            raise
        if not opened:
            self._form.require_results(found)
        if like is None or not isinstance(found, np.ndarray):
            return found
        count, alone = self._form.count(like)
        return found[0] if alone else found[:count]

    def predict(self, scores: Any) -> npt.NDArray[Any]:
        """The best class of each item's scores: its label, or its number where there are no labels. Of an estimator its predictions,
        in the shape and with the classes that scikit-learn gives.

        >>> model = hg.nn.setup("digits").seal("digits.hgm")
        >>> model.predict([[0, 3, 1, 0, 0, 0, 0, 0, 0, 2]])
        array([1])
        """
        return self._form.predict(np.asarray(scores), self.labels)

    def predict_proba(self, scores: Any) -> npt.NDArray[np.float64]:
        """Probabilities of the classes [items, classes] of an estimator's scores, as scikit-learn gives them. Raises DtypeError for
        models without.

        >>> layer = hg.nn.Dense(np.array([[2.0, 1.0]]), np.array([0.5]))
        >>> judge = hg.nn.Model("a judge", (layer,), np.array(["no", "yes"]), True, 8.0).seal("judge.hgm", samples=2)
        >>> judge.predict_proba([[-1.0], [2.0]]).round(3).tolist(), judge.predict([[-1.0], [2.0]]).tolist()
        ([[0.731, 0.269], [0.119, 0.881]], ['no', 'yes'])
        """
        return self._form.predict_proba(np.asarray(scores, dtype=np.float64))

    # The server

    def require_keys(self, keys: EvaluationKeys[Any, Any]) -> None:
        """Raises MismatchError, MissingKeyError for evaluation keys by which it cannot be run.

        >>> model = hg.nn.setup("digits").seal("digits.hgm")
        >>> secret = hg.SecretKey.generate(model.parameters)
        >>> model.require_keys(secret.evaluation_keys(rotations=[1, 2], columns=True))
        Traceback (most recent call last):
            ...
        heliograph.MissingKeyError: the model digits needs rotations 4, 8, 16, 32, 64, 128, 256, 512, ... (10 in all) besides
        """
        self._require(keys, EvaluationKeys, "a model is run with evaluation keys")
        for name, wanted in self.needs.items():
            have = getattr(keys, name)
            if name == "rotations" and isinstance(keys, SwitchKeys) and keys.most_switches > 1:
                keys._require(f"the model {self.name}", wanted)
                continue
            if wanted is True and not have:
                raise _core.MissingKeyError(f"the model {self.name} needs the key {name}")
            if isinstance(wanted, list) and (missing := sorted(set(wanted) - set(have))):
                more = f", ... ({len(missing)} in all)" if len(missing) > 8 else ""
                steps = ", ".join(map(str, missing[:8])) + more
                raise _core.MissingKeyError(f"the model {self.name} needs {name} {steps} besides")

    def prepare(self) -> None:
        """Does now what the first `run` would do beforehand: encodes weights. Raises MissingKeyError for a client's half.

        >>> hg.nn.setup("digits").seal("digits.hgm").prepare()
        """
        self._prepared()

    def run(self, server: Server[Any], tensor: Any, progress: Watch | None = None) -> Any:
        """The answer to a request, at a server: a tensor. Several threads may call it.

        Raises MismatchError, WrongKeyError, MissingKeyError; ShapeError for what is no request of this model; LimitError where the
        server's limits are smaller.

        >>> model = hg.nn.setup("digits").seal("digits.hgm")
        >>> secret = hg.SecretKey.generate(model.parameters)
        >>> request = model.encrypt(secret, np.zeros((8, 8), dtype=int)).to_bytes()
        >>> server = hg.Server(model.keys(secret))
        >>> model.run(server, server.from_bytes(request)).shape
        ()
        """
        if not isinstance(server, Server):
            raise _core.DtypeError(f"a model is run at a hg.Server, not at a {type(server).__name__}")
        self.require_keys(server.keys)
        tensors = tuple(tensor) if isinstance(tensor, (list, tuple)) else (tensor,)
        return self._prepared()(tuple(server.bind(t) for t in tensors), progress)

    def _prepared(self) -> Callable[[tuple[Any, ...], Watch | None], Any]:
        if not self.complete:
            raise _core.MissingKeyError(f"this is a client's half of the model {self.name}: its weights are with its server")
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
            rows.append(("a half", "a client's: without weights"))
        rows += [("kind", self.kind), *self._form.rows()]
        for label, sides in (("input", self.inputs), ("output", self.outputs)):
            rows += [(label, _side(side)) for side in sides]
        if self.labels:
            rows.append(("labels", printable(_some(self.labels))))
        rows += [
            ("parameters", repr(self.parameters)),
            ("keys", f"{_needed(self.needs)}: {readable_bytes(self.key_bytes)} to send, once"),
            ("a request", f"{readable_bytes(self.input_bytes)} to send, {readable_bytes(self.output_bytes)} back"),
            ("memory", f"{readable_bytes(self.memory_bytes)} at the server, keys included"),
            ("digest", self.digest),
        ]
        return rows

    def explain(self) -> str:
        """Several lines for a person: what `heliograph inspect` prints.

        >>> model = hg.nn.setup("digits").seal("digits.hgm")
        >>> print(model.explain().split("\\n")[0])
                 model  digits 1: one 8x8 digit at low latency
        """
        return "\n".join(f"{label:>14}  {text}" for label, text in self._rows())

    def __repr__(self) -> str:
        half = "" if self.complete else ", a client's half"
        return f"<sealed model {self.name} {self.version}: {self.kind}{half}; {self.parameters!r}; {self.digest[:8]}>"


def write(form: Form, path: Any, name: Any = None, version: Any = "1", title: Any = "", labels: Any = None) -> SealedModel:
    """Seals a form into a file. Raises ParameterError for texts that are none."""
    at = Path(path_of(path))
    header: dict[str, Any] = {
        "figures": form.figures(),
        "format": form.format,
        "kind": form.kind,
        "labels": _given_labels(labels, form.outputs),
        "model": form.described(),
        "name": _given_name(at.stem if name is None else name, "name"),
        "needs": form.needs,
        "title": _given_text(title, "title", _LONGEST_TITLE),
        "version": _given_name(version, "version"),
        **written_parameters(form.parameters),
    }
    made = SealedModel.load(to_bytes(TYPE, header, form.arrays()))
    made.save(at)
    return made


# What headers hold


def written_parameters(parameters: Parameters[Any]) -> dict[str, Any]:
    """A parameter set as headers have it: the engine writes it, in a file of a key that nobody uses."""
    if not isinstance(parameters, Parameters):
        raise _core.DtypeError(f"a model is sealed with {sets_of(SCHEMES.values())}, not {type(parameters).__name__}")
    header = from_bytes(SecretKey.generate(parameters).secret_bytes()).header
    return {name: header[name] for name in ("parameters", "parameter_hash")}


def read_parameters(header: Mapping[str, Any]) -> Any:
    """The set that a header says; the engine reads it, and checks it as any file's. Raises DamagedFileError, SecurityError."""
    return parameters_from_bytes(_bare_file(header))


def parameters_to_bytes(parameters: Parameters[Any]) -> bytes:
    """A file of a parameter set and nothing else."""
    return _bare_file(written_parameters(parameters))


def parameters_from_bytes(data: bytes, needs: Mapping[str, Any] | None = None) -> Any:
    """Reads `parameters_to_bytes`, with what `Parameters.needs` was. Raises FormatError and its kinds, SecurityError."""
    scheme, kind = split_type(type_of_bytes(data)) or (next(iter(SCHEMES.values())), "parameters")
    found: Any = Parameters(scheme.reader(kind, "{}_from_bytes")(data).parameters)
    found.needs = dict(needs or {})
    return found


REDUCERS["parameters"] = lambda p: (parameters_from_bytes, (parameters_to_bytes(p), p.needs))


def _bare_file(header: Mapping[str, Any]) -> bytes:
    """A file of the set that a header says and nothing else. Raises DamagedFileError."""
    said = header["parameters"]
    name = said.get("scheme") if isinstance(said, dict) else None
    scheme: Scheme | None = next((s for s in SCHEMES.values() if name in s.files), None)
    if scheme is None:
        raise _core.DamagedFileError("a sealed model says no parameter set")
    bare = scheme.bare
    fields = {"parameters": said, "parameter_hash": header["parameter_hash"], "key": "0" * 32, **bare.fields}
    arrays: dict[str, npt.NDArray[Any]] = {
        name: np.zeros(shape, dtype=dtype) for name, (dtype, shape) in bare.arrays.items()
    }
    return to_bytes(f"heliograph.{name}.{bare.kind}", fields, arrays)


def fields_of(said: Any, *names: str) -> dict[str, Any]:
    """An object of exactly these fields. Raises DamagedFileError."""
    if not isinstance(said, dict) or set(said) != set(names):
        raise _core.DamagedFileError(f"a sealed model does not say {', '.join(names)} of a part of it, or says more")
    return said


def count_in(value: Any, what: str, least: int = 0, most: int = 1 << 31) -> int:
    """A whole number of a header. Raises DamagedFileError."""
    if type(value) is not int or not least <= value <= most:
        raise _core.DamagedFileError(f"a sealed model says a {what} that cannot be")
    return value


def real_in(value: Any, what: str) -> float:
    """A finite number of a header, C's hexadecimal text. Raises DamagedFileError."""
    try:
        found = float.fromhex(value) if isinstance(value, str) and len(value) <= 32 else math.nan
    except (ValueError, OverflowError):
        found = math.nan
    if not math.isfinite(found) or found.hex() != value:
        raise _core.DamagedFileError(f"a sealed model says a {what} that cannot be")
    return found


def list_in(value: Any, what: str, most: int) -> list[Any]:
    """A list of a header. Raises DamagedFileError."""
    if not isinstance(value, list) or len(value) > most:
        raise _core.DamagedFileError(f"a sealed model says {what} that cannot be")
    return value


def _named(value: Any, what: str) -> str:
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise _core.DamagedFileError(f"a sealed model has a {what} that is none")
    return value


def _text(value: Any, what: str, longest: int) -> str:
    if not isinstance(value, str) or len(value) > longest:
        raise _core.DamagedFileError(f"a sealed model has a {what} that is no text, or too long")
    return value


def text_in(value: Any, what: str) -> str:
    """A name of a part, of at most 64 characters. Raises DamagedFileError."""
    return _text(value, what, 64)


def _labels(value: Any, outputs: tuple[Side, ...]) -> tuple[str, ...]:
    labels = list_in(value, "labels", _MOST_LABELS)
    if labels and len(labels) != _label_count(outputs):
        raise _core.DamagedFileError("a sealed model has other labels than scores")
    return tuple(_text(label, "label", _LONGEST_LABEL) for label in labels)


def _label_count(outputs: tuple[Side, ...]) -> int:
    """One for each score; two of a single one, which is above 0 or not."""
    scores = outputs[0].shape[0] if len(outputs) == 1 and len(outputs[0].shape) == 1 else 0
    return 2 if scores == 1 else scores


def _figures(value: Any) -> dict[str, int]:
    said = fields_of(value, *_FIGURES)
    return {name: count_in(said[name], name, 0, _MOST_BYTES) for name in _FIGURES}


# What its maker gives


def _given_name(value: Any, what: str) -> str:
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise _core.ParameterError(
            f"a model's {what} is 1 to 64 letters, digits, dots, dashes and underscores, and does not begin with these, "
            f"not {described(value)}"
        )
    return value


def _given_text(value: Any, what: str, longest: int) -> str:
    if not isinstance(value, str) or len(value) > longest:
        raise _core.ParameterError(f"a model's {what} is a text of at most {longest} characters, not {described(value)}")
    return value


def _given_labels(labels: Any, outputs: tuple[Side, ...]) -> list[str]:
    if labels is None:
        return []
    several = listed(labels)
    texts = [_given_text(label, "label", _LONGEST_LABEL) for label in several or ()]
    wanted = _label_count(outputs)
    if not texts or len(texts) != wanted:
        raise _core.ParameterError(f"labels are as many texts as there are classes, {wanted}, not {described(labels)}")
    return texts


# For people


def _some(values: tuple[Any, ...] | list[Any]) -> str:
    more = f", ... ({len(values)} in all)" if len(values) > 16 else ""
    return ", ".join(map(str, values[:16])) + more


def _side(side: Side) -> str:
    reach = ""
    if side.low is not None and side.high is not None:
        digits = digits_of(side.low, side.high)
        reach = f", {side.low:.{digits}g} to {side.high:.{digits}g}" + (" by its place" if side.ranges else "")
    size = " x ".join(map(str, side.shape)) or "one value"
    return f"{printable(side.name)}: {size} of {side.dtype}{reach}; {side.encoding}, {side.items:,} at most; {printable(side.text)}"


def _needed(needs: Mapping[str, Any]) -> str:
    parts = [f"{len(v)} {name}" if isinstance(v, list) else name for name, v in needs.items() if v]
    return ", ".join(parts) or "the set's own"


def sent_bytes(tensor: Tensor[Any, Any]) -> int:
    """Bytes of a tensor when it is sent; of a large one told by one of its ciphertexts."""
    if tensor.nbytes <= _LARGE:
        return len(tensor.to_bytes())
    flat = tensor.reshape(-1)
    none, one = len(flat[:0].to_bytes()), len(flat[:1].to_bytes())
    return (none + (one - none) * tensor.size) // (2 if tensor._core.seeded else 1)
