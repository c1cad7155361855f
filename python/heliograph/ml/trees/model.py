"""Compiled ensembles of trees: the client's bits, the two encrypted evaluations, and the report."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from heliograph import _core, ckks
from heliograph._common.arguments import array_of, described, flag, readable_bytes, require_unmasked
from heliograph._common.exporters import export
from heliograph._common.functions import concatenate, matmul, relinearize, square
from heliograph._common.html import Rows
from heliograph._common.origins import is_equal, made_by, require_maker
from heliograph.ckks.functions import conjugate, multiply, sum_slots, within
from heliograph.ckks.linear import LinearTransform
from heliograph.exact import Parameters as ExactParameters
from heliograph.keys import PublicKey, SecretKey, Server
from heliograph.ml.costs import Counter
from heliograph.ml.inputs import Inputs, column_names, require_dense
from heliograph.ml.model import Model, served
from heliograph.ml.noise import Noise
from heliograph.ml.profile import Profile
from heliograph.ml.trees import paths, products
from heliograph.ml.trees.ensemble import Bools, Ensemble, Floats
from heliograph.ml.trees.paths import Layout, Matrices, Polynomial, Terms
from heliograph.programs.forecast import Forecast, forecast, measured
from heliograph.programs.program import Program, program

_LARGEST_SINGLE = float(np.finfo(np.float32).max)
ERROR = 2.0**-20  #: largest error of values, relative to the largest leaf
_SLACK = 1.01  #: of bounds, for errors of CKKS
_CHUNK = 64  #: rows of one simulated batch
_LONGEST_TRIAL, _LARGEST_TRIAL = 1.0, 1 << 31  #: seconds and bytes of a row that a forecast runs
_IN_CACHE = 1 << 25  #: bytes of keys and matrices that caches hold between two calls
_STREAMED = 1 << 24  #: products of a diagonal, and words of a ciphertext, that no cache holds


@dataclass(frozen=True)
class TreeReport:
    """Differences between a compiled ensemble and the library's, on calibration data.

    >>> print(ml.TreeReport(100, 2e-7, 1.0, 0.5))
    100 rows: error 2e-07 at most (the largest leaf is 0.5), same predictions 100.00%
    >>> print(ml.TreeReport(100, 2e-7, 1.0, 0.5, 3))
    100 rows: error 2e-07 at most (the largest leaf is 0.5), same predictions 100.00%, 3 ties of classes
    """

    samples: int
    largest_error: float  #: of values, by the simulation
    agreement: float | None  #: share of samples with the predictions of the library; None without calibration data
    largest_leaf: float
    ties: int = 0  #: samples whose classes differ by less than the error; the first of these classes is predicted

    def __str__(self) -> str:
        same = "" if self.agreement is None else f", same predictions {100 * self.agreement:.2f}%"
        leaf = f"the largest leaf is {self.largest_leaf:.3g}"
        ties = "" if not self.ties else f", {self.ties:,} tie{'s' if self.ties > 1 else ''} of classes"
        return f"{self.samples:,} rows: error {self.largest_error:.2g} at most ({leaf}){same}{ties}"


class Evaluation:
    """The client's half of an encrypted evaluation: how bits become requests, and answers values."""

    scheme: str
    parameters: Any
    rows: int  #: maximum rows of a request

    @property
    def error(self) -> float:
        """Bound on the error of a value."""
        raise NotImplementedError

    def shape(self, count: int) -> tuple[int, ...]:
        """Returns the shape of a request of `count` rows."""
        raise NotImplementedError

    def encrypt(self, key: Any, bits: Bools) -> Any:
        """Encrypts the results of conditions [count, conditions]."""
        raise NotImplementedError

    def decrypt(self, secret: Any, answer: Any, unchecked: bool) -> Floats:
        """Returns the values [count, outputs] of an answer."""
        raise NotImplementedError


@dataclass(frozen=True)
class PathsClient(Evaluation):
    """Client of sums of paths: CKKS, a row in each ciphertext or in each group of ciphertexts."""

    parameters: ckks.Parameters
    layout: Layout
    outputs: int
    unit: float  #: value of 1 in an answer
    centre: Floats  #: [outputs], values of an answer of zeros
    reach: float  #: bound on the magnitude of values in answers
    rows: int = 1 << 10
    scheme: str = "CKKS"

    @property
    def error(self) -> float:
        """Bound on the error of a value: the set is chosen for it."""
        return ERROR * self.unit

    @property
    def bound(self) -> float:
        """Bound on all slots of answers: slots between two outputs hold parts of two sums."""
        return self.reach if self.outputs == 1 else 2 * self.reach

    def shape(self, count: int) -> tuple[int, ...]:
        return (count, self.layout.inputs)

    def encrypt(self, key: Any, bits: Bools) -> ckks.Tensor:
        made: ckks.Tensor = key.encrypt(self.layout.encoded(bits), bound=math.sqrt(2.0))
        return made

    def decrypt(self, secret: Any, answer: Any, unchecked: bool) -> Floats:
        if not isinstance(answer, ckks.Tensor) or len(answer.shape) != 1:
            raise _core.ShapeError(f"an answer must be a tensor of CKKS with one ciphertext a row, not {described(answer)}")
        values = np.asarray(secret.decrypt(answer, unchecked=unchecked)).real
        found = self.layout.decoded(values.reshape(len(values), -1), self.outputs)
        if not unchecked and not (np.abs(found) <= self.reach).all():
            raise _core.PlaintextRangeError(
                f"the answer holds {float(np.abs(found).max()):.4g}, but the model's values are at most "
                f"{self.reach:.4g}: the "
                "request did not hold bits of this model. Encrypt samples by the model's encrypt"
            )
        return found * self.unit + self.centre


@dataclass(frozen=True)
class ProductsClient(Evaluation):
    """Client of products: BGV, a ciphertext for each condition and a row in each slot."""

    parameters: ExactParameters
    conditions: int
    digits: int
    base: int
    unit: float
    outputs: int
    scheme: str = "BGV"

    @property
    def error(self) -> float:
        """Bound on the error of a value: half a unit for each tree and for the base. `base` follows from their number."""
        return self.unit * (products.MODULUS // self.base) / 2

    @property
    def rows(self) -> int:  # type: ignore[override]
        """Maximum rows of a request: the slots."""
        return int(self.parameters.slots)

    def shape(self, count: int) -> tuple[int, ...]:
        return (self.conditions,)

    def encrypt(self, key: Any, bits: Bools) -> Any:
        rows = np.arange(self.rows) % len(bits)
        padded = bits if self.conditions == bits.shape[1] else np.zeros((len(bits), self.conditions), dtype=np.bool_)
        return key.encrypt(np.ascontiguousarray(padded[rows].T.astype(np.int64)))

    def decrypt(self, secret: Any, answer: Any, unchecked: bool) -> Floats:
        if getattr(answer, "shape", None) != (self.outputs * self.digits,):
            raise _core.ShapeError(f"an answer must be a tensor of BGV of shape ({self.outputs * self.digits},)")
        return products.decoded(secret.decrypt(answer), self.outputs, self.digits, self.base, self.unit)


class _Level(int):
    """A level in place of a tensor, to count the products of a polynomial."""

    def __sub__(self, other: Any) -> _Level:
        return self


class PathsServer:
    """Server of sums of paths: the matrices and the polynomial."""

    def __init__(self, client: PathsClient, terms: Terms) -> None:
        self.client, self.terms, self.polynomial = client, terms, Polynomial(terms.depth)
        self._shift = terms.constant - client.centre / client.unit

    @cached_property
    def matrices(self) -> Matrices:
        """The clear numbers."""
        return paths.matrices(self.terms, self.client.layout, self.polynomial)

    @cached_property
    def _transforms(self) -> list[LinearTransform]:
        return [
            LinearTransform.from_diagonals(self.client.parameters, dict(zip(numbers, values, strict=True)))
            for numbers, values in self.matrices.diagonals
        ]

    @property
    def needs(self) -> dict[str, Any]:
        """Arguments of `SecretKey.evaluation_keys`."""
        rotations = {step for transform in self._transforms for step in transform.rotations}
        rotations |= set(ckks.sum_rotations(self.client.layout.region))
        return {"relinearize": True, "rotations": sorted(rotations), "conjugate": True}

    def run(self, x: ckks.Tensor) -> ckks.Tensor:
        """Returns the sums [rows] of bits [rows, inputs]."""
        layout = self.client.layout
        bounds = iter([bound for _ in range(layout.pieces) for bound in self._bounds])

        def product(piece: int, bits: ckks.Tensor) -> ckks.Tensor:
            y = self._transforms[piece] @ bits
            return within(y + conjugate(y), self._largest_product)

        def squared(a: ckks.Tensor) -> ckks.Tensor:
            return within(square(a), next(bounds))

        def multiplied(a: ckks.Tensor, b: ckks.Tensor) -> ckks.Tensor:
            return within(multiply(a, b), next(bounds))

        inputs = [x[:, number] for number in range(layout.inputs)]
        y = paths.evaluate(layout, self.polynomial, self.matrices, inputs, product, squared, multiplied)
        return within(sum_slots(y + self._shifts(), layout.region), self.client.bound)

    @property
    def _largest_product(self) -> float:
        """Bound on the products of matrices: sums of at most `depth` bits times the factor of a term."""
        return _SLACK * float(self.matrices.sizes.max(initial=0.0)) * max(1, self.terms.depth) + 1 / 1024

    @cached_property
    def _bounds(self) -> list[float]:
        """Bounds on the results of the polynomial's products, in their order, for all numbers of missed literals.

        Bounds that the engine derives from the bound of t alone would be the product of the factors' largest values.
        """
        found: list[float] = []
        sizes = np.unique(self.matrices.sizes)[:, None]
        t = sizes * (np.arange(max(1, self.terms.depth) + 1) - self.polynomial.middle)

        def noted(value: Floats) -> Floats:
            found.append(_SLACK * float(np.abs(value).max(initial=0.0)) + 1 / 1024)
            return value

        self.polynomial.of(t, sizes, lambda a: noted(a * a), lambda a, b: noted(a * b))
        return found

    def _shifts(self) -> Floats:
        """Returns the part of each slot in the constant of its output."""
        layout = self.client.layout
        output = (np.arange(layout.slots) % layout.width) // layout.region
        return np.asarray(np.append(self._shift, 0.0)[np.minimum(output, len(self._shift))] / layout.region)

    def seconds(self, target: Profile, _: Forecast) -> float:
        """Returns the seconds of a row on a device with a profile."""
        layout, top = self.client.layout, self.client.parameters.levels
        rates, total = target.rates(self.client.parameters), 0.0
        for numbers, _values in self.matrices.diagonals:
            steps = [1 << bits for bits in range(1 + math.ceil(math.log2(layout.period)))]
            total += min((rates.transform(top, numbers, baby) for baby in steps), default=0.0) if numbers else 0.0
        products: list[int] = []

        def product(*levels: _Level) -> _Level:
            products.append(int(min(levels)))
            return _Level(int(min(levels)) - 1)

        last = self.polynomial.of(_Level(top - 1), np.zeros(1), product, product)
        each = rates.rotation(top - 1) + sum(rates.product(level) for level in products)
        total += layout.pieces * each + math.log2(layout.region) * rates.rotation(last)
        return total + max(0, self._matrix_bytes - _IN_CACHE) * self._seconds_of_byte(target)

    @property
    def _matrix_bytes(self) -> int:
        """Bytes of the encoded diagonals, and of the rotation keys of their products.

        Each call reads all of them once. Matrices of profiles use fewer keys, which caches hold.
        """
        counter, top = Counter(self.client.parameters), self.client.parameters.levels
        rotations = {step for transform in self._transforms for step in transform.rotations}
        diagonals = sum(len(numbers) for numbers, _ in self.matrices.diagonals)
        return counter.plaintext_bytes(diagonals, top) + counter.key_bytes(rotations, relinearize=False)

    def _seconds_of_byte(self, target: Profile) -> float:
        """Returns the seconds of reading a byte of memory beyond caches, from the products with large diagonals.

        A diagonal of one word takes two products: one for each component of a ciphertext.
        """
        size = int(self.client.parameters.word_size)
        return target.seconds("diagonal", _STREAMED, word_size=size) / (_STREAMED // 2 * size // 8)

    def simulate(self, bits: Bools, seed: int) -> Floats:
        """Returns the values [count, outputs] with errors of the size of CKKS's."""
        client = self.client
        noise, top = Noise(client.parameters, seed), client.parameters.levels
        literals = [literal for term in self.terms.terms for literal in term.literals]
        conditions = np.array([condition for condition, _ in literals], dtype=np.int64)
        results = np.array([result for _, result in literals], dtype=np.bool_)
        starts = np.cumsum([0, *(len(term.literals) for term in self.terms.terms)])[:-1]
        found = []
        for start in range(0, len(bits), _CHUNK):
            rows = bits[start : start + _CHUNK]
            missed = np.zeros((len(rows), len(starts) + 1))  # the last column is that of slots without a term
            if len(starts):
                missed[:, :-1] = np.add.reduceat(rows[:, conditions] != results, starts, axis=1, dtype=np.float64)
            found.append(self._simulated(missed, noise, top))
        sums = np.concatenate(found)
        return (sums + self.terms.constant) * client.unit

    def _simulated(self, missed: Floats, noise: Noise, top: int) -> Floats:
        """Returns the sums [rows, outputs] for numbers of missed literals [rows, terms]."""
        layout, polynomial = self.client.layout, self.polynomial
        total: Any = 0.0
        last = top - polynomial.levels
        for piece, places in enumerate(layout.terms):
            sizes = self.matrices.sizes[piece]
            e = missed[:, places]
            t = sizes * (e - polynomial.middle) if polynomial.depth > 1 else sizes * (1.0 - e)
            t = noise.fresh(t, top, sizes * math.sqrt(max(1, polynomial.depth)))
            t = noise.rescaled(t, top, 2.0)
            total = total + polynomial.of(
                t, sizes, lambda a: noise.rescaled(a * a, 2), lambda a, b: noise.rescaled(a * b, 2)
            )
        sums = total.reshape(len(missed), layout.copies, -1, layout.region).sum(-1).mean(1)[:, : self.client.outputs]
        rotation = noise.deviation(last + 1) * math.sqrt(layout.region)
        return np.asarray(sums + noise.normal(sums.shape, rotation / math.sqrt(layout.copies)))


class ProductsServer:
    """Server of products: the plan."""

    def __init__(self, client: ProductsClient, plan: products.Plan) -> None:
        self.client, self.plan = client, plan

    @property
    def needs(self) -> dict[str, Any]:
        """Arguments of `SecretKey.evaluation_keys`."""
        return {"relinearize": True}

    def run(self, x: Any) -> Any:
        """Returns the sums [outputs * digits] of bits [conditions]."""
        return self.plan.run(
            x,
            multiply=lambda a, b: a * b,
            relinearize=relinearize,
            weigh=lambda weights, values, constants: matmul(weights, values, constants, axis=0),
            join=concatenate,
        )

    def seconds(self, target: Profile, counts: Forecast) -> float:
        """Returns the seconds of a batch on a device with a profile, for the modular products and bytes of a forecast.

        A profile has products of CKKS, whose kernels are those of BGV. An addition reads and writes 8 bytes for a word.
        """
        count = max(1, self.plan.products)
        moved = counts.bytes_read + counts.bytes_written
        byte = target.seconds("addition", _STREAMED, batch=16) / (_STREAMED * 16)
        return count * target.seconds("product", max(1, counts.products // count), batch=16) + moved * byte

    def simulate(self, bits: Bools, seed: int) -> Floats:
        """Returns the values [count, outputs], which are exact for values rounded to the plan's unit."""
        values = bits.T.astype(np.int64) if bits.shape[1] else np.zeros((1, len(bits)), dtype=np.int64)
        sums = self.plan.run(
            values,
            multiply=lambda a, b: a * b,
            relinearize=lambda a: a,
            weigh=lambda weights, values, constants: weights @ values + (0 if constants is None else constants[:, None]),
            join=np.concatenate,
        )
        return self.plan.decoded(sums)


@dataclass(frozen=True)
class Reader:
    """The client's rules for samples: columns, missing values, and the results of conditions."""

    ensemble: Ensemble  #: without trees in a client's half

    def matrix(self, samples: Any, what: str = "the samples") -> Floats:
        """Returns samples [count, features] as numbers, with the columns of a data frame in the model's order.

        Missing values are NaN. Raises ShapeError, DtypeError, PlaintextRangeError.
        """
        model = self.ensemble
        require_unmasked(samples, what)
        require_dense(samples, what)
        order = Inputs(_as_given(model.names, samples, what))._order(samples, what)
        try:
            array = np.asarray(array_of(samples, what))
            if array.dtype.kind not in "biufO":
                raise TypeError
            x = array.astype(np.float64)
        except (TypeError, ValueError):
            raise _core.DtypeError(f"{what} must be real numbers, with categories as their numbers") from None
        if x.ndim == 2 and order is not None:
            x = x[:, order]
        if x.ndim != 2 or x.shape[1] != model.features:
            raise _core.ShapeError(f"{what} must have shape [count, {model.features} features], not {x.shape}")
        if not len(x):
            raise _core.ShapeError(f"{what} must have at least one sample, not 0")
        if np.isinf(x).any():
            row, column = np.argwhere(np.isinf(x))[0]
            raise _core.PlaintextRangeError(f"row {row}: feature {column} of {what} must be finite or missing, not infinite")
        if model.single and (np.abs(x) > _LARGEST_SINGLE).any():
            row, column = np.argwhere(np.abs(x) > _LARGEST_SINGLE)[0]
            raise _core.PlaintextRangeError(
                f"row {row}: feature {column} of {what} must be at most {_LARGEST_SINGLE:.3g} in magnitude, because "
                f"{model.name} compares numbers of float32; divide the feature by a constant and train again"
            )
        return x

    def bits(self, samples: Any) -> Bools:
        """Returns the results of the conditions [count, conditions]. Raises the errors of `matrix`."""
        x = self.matrix(samples)
        self.require_present(x)
        return self.ensemble.bits(x)

    def require_present(self, x: Floats) -> None:
        """Raises PlaintextRangeError for missing values of samples [count, features] that the model does not accept."""
        accepts = self.ensemble.accepts_missing
        if not accepts:
            return
        missing = np.isnan(self.ensemble.prepared(x)) & ~np.array(accepts)
        if missing.any():
            row, column = np.argwhere(missing)[0]
            reason = (
                "because the calibration data of this model have a value in each row; calibrate with samples that have "
                "missing values there"
                if any(accepts)
                else f"because {self.ensemble.name} or its calibration data have no missing values; fill them before"
            )
            raise _core.PlaintextRangeError(f"row {row}: feature {column} must not be missing, {reason}")


def _as_given(names: tuple[str, ...], samples: Any, what: str) -> tuple[str, ...]:
    """Returns the model's names of columns, spelled as in a data frame: LightGBM writes spaces as underscores."""
    spelled = {"_".join(name.split(" ")): name for name in column_names(samples, what)}
    if not names or any(name not in spelled for name in names):
        return names
    return tuple(spelled[name] for name in names)


def _are_same(a: EnsembleModel, b: EnsembleModel) -> bool:
    """Tells whether two models have equal trees and clients."""
    return is_equal(a._reader.ensemble, b._reader.ensemble) and is_equal(a._client, b._client)


class EnsembleModel(Model):
    """A compiled ensemble of trees. `hg.ml.compile` makes one.

    >>> isinstance(forest, ml.Model), forest.scheme
    (True, 'CKKS')
    """

    def __init__(
        self,
        reader: Reader,
        client: Evaluation,
        server: PathsServer | ProductsServer | None,
        target: Profile | None = None,
    ) -> None:
        self._reader, self._client, self._server, self._target = reader, client, server, target
        self.name, self.classes, self.output = reader.ensemble.name, reader.ensemble.classes, reader.ensemble.output
        self.report: TreeReport | None = None
        self._program: Program | None = None

    #: Differences to the library's model on calibration data; None without.
    report: TreeReport | None

    @property
    def features(self) -> int:
        """Number of features of a sample."""
        return self._reader.ensemble.features

    @property
    def outputs(self) -> int:
        """Number of values of a sample."""
        return self._reader.ensemble.outputs

    @property
    def scheme(self) -> str:
        """Scheme of the evaluation: "CKKS" (sums of paths, few rows) or "BGV" (products, many rows)."""
        return self._client.scheme

    @property
    def rows(self) -> int:
        """Maximum rows of a request."""
        return self._client.rows

    @property
    def needs(self) -> dict[str, Any]:
        """Arguments of `SecretKey.evaluation_keys` for its keys."""
        return self._complete.needs

    def parameters(self) -> Any:
        """Returns the parameter set: the smallest one of 128 bits for this model and batch.

        >>> forest.parameters().security
        '128-bit'
        """
        return self._client.parameters

    @property
    def _complete(self) -> PathsServer | ProductsServer:
        if self._server is None:
            raise _core.MissingKeyError(f"this is the client's half of {self.name}, without trees; load the whole model")
        return self._server

    def encrypt(self, key: Any, samples: Any, *, unchecked: bool = False) -> Any:
        """Encrypts the results of the conditions for samples [count, features], by a secret or public key.

        Missing values are NaN. They are refused in features without missing values in the calibration data.

        Raises DtypeError, MismatchError for a key of another set, ShapeError, PlaintextRangeError.

        >>> secret = hg.SecretKey.generate(forest.parameters())
        >>> forest.encrypt(secret, flowers[:2]).shape[0]  # a ciphertext for each row
        2
        """
        flag(unchecked, "unchecked")
        if not isinstance(key, (SecretKey, PublicKey)) or key.parameters != self._client.parameters:
            raise _core.MismatchError(
                f"samples of this model are encrypted by a key of {self._client.parameters!r}, not by "
                f"{described(key)}; make it "
                "by hg.SecretKey.generate(model.parameters())"
            )
        bits = self._reader.bits(samples)
        if not 1 <= len(bits) <= self.rows:
            raise _core.ShapeError(
                f"encrypt takes 1 to {self.rows:,} samples, not {len(bits):,}; compile with a larger batch=, or send parts"
            )
        return self._client.encrypt(key, bits)

    def predictions(self, values: Any) -> Any:
        """Returns the predictions of values [count, outputs]. Classes whose values differ by less than the error bound are
        a tie, and the first of them is predicted, as the libraries do.

        >>> forest.predictions(forest.clear(flowers[:2])).tolist()
        [0, 0]
        """
        return self.output.predict(self._settled(self._values(values)), self.classes)

    def _settled(self, values: Floats) -> Floats:
        """Returns values [count, outputs] in which ties of classes have equal values, or 0."""
        values = self.output.without_ties(values, self._client.error)
        if self.name == "GradientBoostingClassifier" and self.outputs == 1:  # which takes the second class for 0
            values = np.where(values == 0, self._client.error, values)
        return values

    def __call__(self, x: Any) -> Any:
        """Returns the encrypted values of an encrypted request. Calls of one shape replay a recorded program.

        Raises ShapeError, DtypeError, MissingKeyError.
        """
        self._require_request(x)
        if self._program is None:
            self._program = program(self._complete.run)
        return made_by(self._program(x), self)

    def _require_request(self, x: Any) -> None:
        shape = getattr(x, "shape", None)
        if not isinstance(shape, tuple) or getattr(x, "parameters", None) != self._client.parameters:
            raise _core.DtypeError(
                f"a request of this model must be a tensor of {self._client.parameters!r}, not {described(x)}"
            )
        if not shape or shape != self._client.shape(shape[0]):
            raise _core.ShapeError(
                f"a request of this model must have shape {self._client.shape(1)}, for one row, not {shape}; make it by "
                "model.encrypt(key, samples)"
            )

    def decrypt(self, secret: Any, answer: Any, like: Any = None, *, unchecked: bool = False) -> Floats:
        """Returns the values [count, outputs] of an answer. `like` is the samples that were encrypted, for their count.

        Raises WrongKeyError, MismatchError, ShapeError; PlaintextRangeError for an answer beyond the model's values.

        >>> secret = hg.SecretKey.generate(forest.parameters())
        >>> server = hg.Server(forest.keys(secret))
        >>> answer = forest(server.bind(forest.encrypt(secret, flowers[:2])))
        >>> bool(np.abs(forest.decrypt(secret, answer, like=flowers[:2]) - forest.clear(flowers[:2])).max() < 1e-6)
        True
        """
        if not isinstance(secret, SecretKey):
            raise _core.DtypeError(f"answers are decrypted by a secret key, not by {described(secret)}")
        if not flag(unchecked, "unchecked"):
            require_maker(answer, self, _are_same)
        values = self._decrypted(secret, answer, flag(unchecked, "unchecked"))
        return values if like is None else values[: len(self._reader.matrix(like))]

    def _decrypted(self, secret: Any, answer: Any, unchecked: bool) -> Floats:
        """Returns the values [rows, outputs] of an answer of any copy of the model."""
        return self._client.decrypt(secret, answer, unchecked)

    def clear(self, samples: Any) -> Floats:
        """Returns the values [count, outputs] of clear samples, in float64.

        >>> forest.clear(flowers[:2]).shape
        (2, 3)
        """
        self._complete  # noqa: B018  raises for a client's half
        return self._reader.ensemble.values(self._reader.bits(samples))

    def simulate(self, samples: Any, *, seed: int = 0) -> Floats:
        """Returns the values [count, outputs] of clear samples: the same layout and polynomial, with random errors.

        >>> bool(np.abs(forest.simulate(flowers) - forest.clear(flowers)).max() < 1e-6)
        True
        """
        return self._complete.simulate(self._reader.bits(samples), seed)

    def _execute(self, samples: Any) -> Floats:
        secret = SecretKey.generate(self._client.parameters)
        keys, x = self.keys(secret), self._reader.matrix(samples)
        parts = [x[start : start + self.rows] for start in range(0, len(x), self.rows)]
        return np.concatenate([self.decrypt(secret, self(served(keys, self.encrypt(secret, part))), part) for part in parts])

    @cached_property
    def forecast(self) -> Forecast:
        """Predicted time and memory of a request of one row (CKKS) or of all slots (BGV).

        With the profile `target` of `hg.ml.compile` the time is that of its device, predicted from counts. Otherwise the
        time is that of the device in use. A batch has the time of `hg.forecast`. One row has the least time of some trial
        requests with keys of their own, because counts leave out the reading of keys from memory. A row of more than a
        second or 2 GiB is not tried.
        """
        secret = SecretKey.generate(self._client.parameters)
        server: Server[Any] = Server(self.keys(secret))
        if isinstance(self._client, ProductsClient):
            one = server.bind(secret.encrypt(np.zeros((1, self.rows), dtype=np.int64)))
            found = forecast(self._complete.run, one.broadcast_to((self._client.conditions,)))
        else:
            bits = np.zeros((1, max(len(self._reader.ensemble.conditions), 1)), dtype=np.bool_)
            request = server.bind(self._client.encrypt(secret, bits))
            found = forecast(self._complete.run, request)
            small = found.nbytes <= _LARGEST_TRIAL and found.seconds is not None and found.seconds <= _LONGEST_TRIAL
            if small and self._target is None:
                return replace(found, seconds=measured(program(self._complete.run), request))
        if self._target is None:
            return found
        return replace(found, seconds=self._complete.seconds(self._target, found), floor=0.0)

    def export(self, path: Any, *, name: str | None = None, version: str = "1", title: str = "", labels: Any = None) -> Any:
        """Writes the model as a model bundle (`hg.ModelBundle`), for a server and its clients. Returns that bundle.

        The client's half holds the conditions (features and thresholds), classes and names, and no trees. `labels` replace
        the classes by strings. Raises ParameterError, DtypeError, OSError.

        >>> bundle = forest.export("forest.hgm")
        >>> half = bundle.client()
        >>> secret = hg.SecretKey.generate(half.parameters)
        >>> answer = bundle.run(hg.Server(half.keys(secret)), half.encrypt(secret, flowers[:3]))
        >>> half.predict(half.decrypt(secret, answer, like=flowers[:3])).tolist()
        [0, 0, 0]
        """
        return export("ensemble", self, path, name=name, version=version, title=title, labels=labels)

    def _rows(self) -> Rows:
        ensemble, client = self._reader.ensemble, self._client
        rows = [("of", f"{self.name}: {self.features} features, {self.outputs} outputs")]
        if self._server is not None:
            rows.append(("trees", f"{len(ensemble.trees):,} of depth {ensemble.depth} at most, {ensemble.leaves:,} leaves"))
        rows.append(("conditions", f"{len(ensemble.conditions):,} different ones"))
        rows += [("scheme", f"{client.scheme}, {method_text(client)}"), ("set", repr(client.parameters))]
        if self._server is not None:
            levels = self._server.polynomial.levels if isinstance(self._server, PathsServer) else self._server.plan.levels
            expected = self.forecast
            seconds = "unknown on this device" if expected.seconds is None else f"about {1e3 * expected.seconds:.3g} ms"
            rows += [
                ("levels", f"{levels}, no bootstraps"),
                ("time", f"{seconds} for {_batch(client)}" + ("" if self._target is None else f" on {self._target.name}")),
                ("memory", f"{readable_bytes(expected.nbytes)} for a request, without keys"),
                ("keys", f"{readable_bytes(client.parameters._sent_key_bytes(**self.needs))} to send, once"),
            ]
        rows.append(("client", self._revealed()))
        return rows if self.report is None else [*rows, ("error", str(self.report))]

    def _revealed(self) -> str:
        text = "the client's half reveals the features and thresholds of the conditions, and the classes"
        if isinstance(self._client, PathsClient) and not self._client.layout.shared:
            text += "; also which conditions belong to one group of trees"
        return text

    def __str__(self) -> str:
        return "\n".join(f"{label:>14}  {text}" for label, text in self._rows())

    def __repr__(self) -> str:
        return f"<model of {self.name}: {len(self._reader.ensemble.conditions)} conditions, {self.scheme}>"


def method_text(client: Evaluation) -> str:
    """Describes the method of an evaluation."""
    if isinstance(client, PathsClient):
        layout = client.layout
        return f"sums of paths: {layout.pieces} x {layout.period} diagonals, a row in {layout.inputs} ciphertexts"
    return f"products of conditions, a row in each of {client.rows:,} slots"


def _batch(client: Evaluation) -> str:
    return "one row" if isinstance(client, PathsClient) else f"up to {client.rows:,} rows"
