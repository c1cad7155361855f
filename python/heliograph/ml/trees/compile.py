"""Compilation of ensembles: the choice of scheme, layout and parameter set."""

from __future__ import annotations

import itertools
import math
import warnings
from typing import Any

import numpy as np

from heliograph import _core, ckks
from heliograph._common.arguments import count_of, readable_bytes, text_of
from heliograph.exact.parameters import set_for
from heliograph.keys import SecretKey, Server
from heliograph.ml.errors import ModelError
from heliograph.ml.profile import profile_of
from heliograph.ml.trees import paths, products
from heliograph.ml.trees.ensemble import MOST_DEPTH, Bools, Ensemble, Floats, without_missing
from heliograph.ml.trees.model import (
    ERROR,
    EnsembleModel,
    Evaluation,
    PathsClient,
    PathsServer,
    ProductsClient,
    ProductsServer,
    Reader,
    TreeReport,
)
from heliograph.ml.trees.paths import Layout, Polynomial, Terms
from heliograph.programs.forecast import Costs

_DEVIATIONS = 4.5  #: errors are simulated on few rows; this many deviations must fit
_RINGS = (1 << 13, 1 << 14, 1 << 15, 1 << 16)
_LEAST_SCALE, _LARGEST_SCALE, _SPECIAL_BITS, _MOST_SPECIAL = 30, 49.5, 3, 3
#: Bits of the largest prime: products of primes below 2^50 are faster, and others are taken if errors need them.
_LARGEST_PRIMES = (50, 59)
_PERIODS = (4, 8, 16, 32, 64, 128, 256, 512)
_MOST_SHARED = 1 << 11  #: largest period with all conditions in one ciphertext
_MOST_DIAGONALS = 1 << 12  #: of all pieces; more are refused
_TRIAL_ROWS, _CHECKED_ROWS = 24, 256  #: rows of simulations: for the choice of a set, and for reports
_PROBABILITY_ERROR = 1e-4  #: XGBoost sums in float32
_CHECKED_SLOTS = 1 << 21  #: of the simulation for a report
_MOST_DEPTH_OF_PATHS = 32
_WORD_BYTES = 8
_PRODUCTS_OF_BYTE = 16  #: modular products in the time of sending a byte, at 1 Gbit/s
_FREE_BYTES = 1 << 30  #: memory of a request that costs nothing
_MOST_BYTES = 1 << 34  #: memory of a request of products; more is refused, on all machines
_PEAK_SHARE = 0.8  #: of the bytes of all values of a batch, at one time


def compile_ensemble(
    ensemble: Ensemble,
    calibrate: Any = None,
    *,
    batch: int = 1,
    scheme: str = "auto",
    reveal: str = "auto",
    limit: Costs | None = None,
    target: Any = None,
    own: Any = None,
) -> EnsembleModel:
    """Makes a model of an ensemble. `own` returns the library's predictions of samples, to compare them.

    `heliograph.ml.compiling.compile` documents the other arguments and errors.
    """
    count = count_of(batch, "batch", 1)
    scheme = text_of(scheme.lower() if isinstance(scheme, str) else scheme, "scheme", ("auto", "ckks", "bgv"))
    reveal = text_of(reveal, "reveal", ("auto", "thresholds", "trees"))
    if not all(0 <= condition.feature < ensemble.features for condition in ensemble.conditions):
        raise ModelError(f"cannot compile {ensemble.name}: a condition has a feature beyond {ensemble.features - 1}")
    x = None
    if calibrate is not None:
        x = Reader(ensemble).matrix(calibrate, "the calibration data")
        if not len(x):
            raise _core.ShapeError("the calibration data must have at least one sample, not 0")
        Reader(ensemble).require_present(x)
        ensemble = without_missing(ensemble, [bool(column.any()) for column in np.isnan(ensemble.prepared(x)).T])
    if ensemble.depth > MOST_DEPTH:
        raise ModelError(f"cannot compile {ensemble.name}: its depth must be at most {MOST_DEPTH}, got {ensemble.depth}")
    reader = Reader(ensemble)
    most = limit.nbytes if isinstance(limit, Costs) else None
    client, server = _chosen(ensemble, count, scheme, reveal, most)
    model = EnsembleModel(reader, client, server, None if target is None else profile_of(target))
    if x is not None:
        model.report = _compared(model, calibrate, x, own)
    if limit is not None:
        if not isinstance(limit, Costs):
            raise _core.DtypeError(f"limit must be a hg.Costs, not {type(limit).__name__}")
        limit.require(model.forecast, "limit=")
    return model


def _chosen(
    ensemble: Ensemble, count: int, scheme: str, reveal: str, most: int | None
) -> tuple[Evaluation, PathsServer | ProductsServer]:
    """Returns the evaluation of least cost for a batch of rows. Raises ModelError if no evaluation fits.

    The cost counts modular products and the bytes of requests. Memory beyond 1 GiB is charged for this time, because other
    requests cannot use it. Memory beyond `most` bytes is refused if another evaluation fits.
    """
    found: list[tuple[float, Evaluation, PathsServer | ProductsServer]] = []
    refused: list[str] = []
    if scheme in ("auto", "ckks"):
        try:
            client, server = _of_paths(ensemble, reveal)
            found.append((count * _paths_cost(client, server), client, server))
        except ModelError as error:
            refused.append(str(error))
    if scheme in ("auto", "bgv") and (scheme == "bgv" or count > 1 or not found):
        try:
            plan = products.plan_of(ensemble)
            memory = _products_bytes(plan)
            cost = _products_cost(plan, count) * max(1.0, memory / _FREE_BYTES)
            fits = most is None or _PEAK_SHARE * memory <= most
            if scheme == "bgv" or not found or (cost < found[0][0] and fits):
                other, made = _of_products(plan, count)
                found.append((cost, other, made))
        except ModelError as error:
            refused.append(str(error))
    if not found:
        scheme_text = {"ckks": "scheme='bgv', or ", "bgv": "scheme='ckks', or "}.get(scheme, "")
        raise ModelError(f"{'; '.join(refused)}; use {scheme_text}fewer or shallower trees")
    _, chosen, evaluation = min(found, key=lambda one: one[0])
    return chosen, evaluation


def _key_switch(n: int, limbs: int) -> float:
    """Returns the modular products of a key switch of digits of one prime."""
    return limbs * (limbs + 1) * n * (math.log2(n) / 2 + 2)


def _paths_cost(client: PathsClient, server: PathsServer) -> float:
    """Returns the modular products of one row, about, with those that take the time of sending it."""
    layout, n, top = client.layout, client.parameters.n, client.parameters.levels
    matrix = layout.period * 2 * (top + 1) * n + 2 * math.sqrt(layout.period) * _key_switch(n, top)
    polynomial = 2 * server.polynomial.factors * _key_switch(n, top - 1)
    request = layout.inputs * (top + 1) * n * _WORD_BYTES
    sums = math.log2(max(layout.region, 2)) * _key_switch(n, 1)
    return layout.pieces * (matrix + polynomial) + sums + _PRODUCTS_OF_BYTE * request


def _products_cost(plan: products.Plan, count: int) -> float:
    """Returns the modular products of a batch, about, with those that take the time of sending it."""
    n, limbs = 1 << 14, plan.levels + 2
    request = plan.conditions * limbs * n * _WORD_BYTES
    each = plan.products * (4 * limbs * n + _key_switch(n, limbs) / 2) + _PRODUCTS_OF_BYTE * request
    return float(each * -(-count // n))


def _products_bytes(plan: products.Plan) -> float:
    """Returns the memory of all values of a batch: conditions, and results of steps."""
    values = plan.conditions + sum(len(step.left) for step in plan.steps)
    return float(values * 2 * (plan.levels + 2) * (1 << 14) * _WORD_BYTES)


def _of_products(plan: products.Plan, count: int) -> tuple[ProductsClient, ProductsServer]:
    """Returns the evaluation by products, with the smallest set whose noise suffices."""
    slots = min(1 << max(0, count - 1).bit_length(), 1 << 15)
    memory = _PEAK_SHARE * _products_bytes(plan)
    if memory > _MOST_BYTES:
        raise ModelError(
            f"cannot compile these trees for many rows: a request must need at most {readable_bytes(_MOST_BYTES)} of "
            f"memory, not {readable_bytes(memory)} for {plan.conditions:,} conditions and {plan.products:,} products"
        )
    refused: Exception | None = None
    for more in range(4):
        try:
            parameters = set_for("bgv", depth=max(1, plan.levels + more), plain_modulus=products.MODULUS, slots=slots)
        except _core.ParameterError as error:
            refused = error
            break
        conditions = max(plan.conditions, 1)
        client = ProductsClient(parameters, conditions, plan.digits, plan.base, plan.unit, plan.outputs)
        server = ProductsServer(client, plan)
        try:
            if _noise_budget(server) > 1:
                return client, server
        except _core.OutOfMemoryError as error:
            raise ModelError(
                f"cannot compile these trees for many rows on this machine: the check of the noise needs more memory "
                f"({error}); compile on a larger machine"
            ) from None
        except _core.NoiseError as error:
            refused = error
    raise ModelError(
        f"cannot compile these trees for many rows: no set has enough levels for {plan.levels} successive products "
        f"and a sum of {plan.products:,} values" + ("" if refused is None else f" ({refused})")
    )


def _noise_budget(server: ProductsServer) -> float:
    """Returns the noise budget of an answer in bits, by a run on the `null` device."""
    parameters = type(server.client.parameters)(server.client.parameters._core.on_device("null"))
    secret = SecretKey.generate(parameters)
    one = secret.encrypt(np.zeros((1, parameters.slots), dtype=np.int64))
    held: Server[Any] = Server(secret.evaluation_keys(**server.needs))
    answer = server.run(held.bind(one).broadcast_to((server.client.conditions,)))
    return float(answer._core.noise_budget)


def _of_paths(ensemble: Ensemble, reveal: str) -> tuple[PathsClient, PathsServer]:
    """Returns the evaluation by sums of paths, with the smallest set whose errors suffice. Raises ModelError."""
    terms = paths.terms_of(ensemble)
    polynomial = Polynomial(terms.depth)
    if terms.depth > _MOST_DEPTH_OF_PATHS:
        raise ModelError(
            f"cannot compile {ensemble.name} for few rows: its depth must be at most {_MOST_DEPTH_OF_PATHS}, got "
            f"{terms.depth}"
        )
    refused = f"{len(terms.terms):,} leaves and {terms.conditions:,} conditions fit no layout"
    bits = _trial_bits(ensemble)
    levels, half = polynomial.levels + 1, _half_range(terms)
    for n in _RINGS:
        layouts = _layouts(terms, n // 2, reveal)
        for largest, special in itertools.product(_LARGEST_PRIMES, _by_cost(levels)):
            parameters = _parameters(n, levels, terms, largest, special) if layouts else None
            if parameters is None:
                refused = f"{polynomial.levels} levels fit no set" if layouts else refused
                continue
            for layout in layouts:
                centre, reach = (terms.constant + half) * terms.unit, float(half.max(initial=0.0)) + 0.5
                client = PathsClient(parameters, layout, ensemble.outputs, terms.unit, centre, reach)
                server = PathsServer(client, terms)
                if _is_precise(server, ensemble, bits):
                    return client, server
                refused = "the errors of CKKS exceed 2^-20 of the largest leaf in all sets"
    other = "" if reveal != "thresholds" else "; reveal='trees' has smaller layouts"
    raise ModelError(f"cannot compile {ensemble.name} for few rows: {refused}{other}")


def _is_precise(server: PathsServer, ensemble: Ensemble, bits: Bools) -> bool:
    """Tells whether simulated errors of some rows are so small that nearly all errors are."""
    layout = server.client.layout
    rows = bits[: max(4, min(len(bits), _CHECKED_SLOTS // (4 * layout.pieces * layout.slots)))]
    errors = server.simulate(rows, 1) - ensemble.values(rows)
    return bool(_DEVIATIONS * float(np.sqrt(np.mean(errors**2))) <= ERROR * ensemble.largest)


def _half_range(terms: Terms) -> Any:
    """Returns half of the range of each output's sum of terms."""
    largest: dict[tuple[int, int], float] = {}
    for term in terms.terms:
        key = (term.output, term.tree)
        largest[key] = max(largest.get(key, 0.0), term.value)
    half = np.zeros(len(terms.constant))
    for (output, _), value in largest.items():
        half[output] += value / 2
    return half


def _trial_bits(ensemble: Ensemble) -> Bools:
    """Returns results of conditions of some random samples, whose features are near the thresholds."""
    random = np.random.default_rng(0)
    x = np.zeros((_TRIAL_ROWS, ensemble.features))
    for condition in ensemble.conditions:
        chosen = random.random(_TRIAL_ROWS) < 0.3
        near = condition.threshold if condition.categories is None else next(iter(condition.categories), 0.0)
        x[chosen, condition.feature] = near if math.isfinite(near) else 0.0
    bits = np.zeros((_TRIAL_ROWS, len(ensemble.conditions)), dtype=np.bool_)
    for number, condition in enumerate(ensemble.conditions):
        bits[:, number] = condition.results(x[:, condition.feature], ensemble.cast)
    return bits


def _layouts(terms: Terms, slots: int, reveal: str) -> list[Layout]:
    """Returns the allowed layouts, those of least cost first: one for each number of copies, which lower the error."""
    shared = paths.shared_layout(terms, slots)
    if shared is not None and (shared.period > _MOST_SHARED or shared.pieces * shared.period > _MOST_DIAGONALS):
        shared = None
    alone = [] if shared is None else [shared]
    if reveal == "thresholds" or (reveal == "auto" and shared is not None):
        return alone
    grouped = [layout for period in _PERIODS if (layout := paths.grouped_layout(terms, slots, period)) is not None]
    best: dict[int, Layout] = {}
    for layout in sorted([*grouped, *alone], key=lambda layout: layout.cost):
        if layout.pieces * layout.period <= _MOST_DIAGONALS and layout.copies > max(best, default=0):
            best[layout.copies] = layout
    return list(best.values())


def _by_cost(levels: int) -> list[int]:
    """Returns the numbers of special primes, those with the fewest transforms of a key switch first."""
    return sorted(range(1, _MOST_SPECIAL + 1), key=lambda special: (-(-levels // special) * (levels + special), special))


def _parameters(n: int, levels: int, terms: Terms, largest: int, special: int) -> Any:
    """Returns the set of `levels` with the largest scale of 128 bits of security and primes of at most `largest` bits.

    The lowest prime has the bits of the scale and of the values. The special primes together have those of the largest digit
    and some more. Returns None if no scale fits.
    """
    reach = (float(_half_range(terms).max(initial=0.0)) + 0.5) * (1 if len(terms.constant) == 1 else 2)
    room = math.log2(reach * 1.02 + 3) + 1
    limit = float(_core.ckks.largest_secure_log_qp(n)) - 0.125
    best = (0.0, 0)
    for base in range(_LEAST_SCALE + 2, largest - (_SPECIAL_BITS if special == 1 else 0) + 1):
        fits = (limit - 2 * base - _SPECIAL_BITS - (special - 1)) / max(1, levels + special - 2)
        scale = min(_LARGEST_SCALE, base - room, fits)
        best = max(best, (math.floor(8 * scale) / 8, base))
    if best[0] < _LEAST_SCALE or special >= levels:
        return None
    try:
        return ckks.parameters(n=n, levels=levels, log_scale=best[0], base_bits=best[1], special=special)
    except (_core.SecurityError, _core.ParameterError):
        return None


def _compared(model: EnsembleModel, calibrate: Any, x: Any, own: Any) -> TreeReport:
    """Compares the model with the library's predictions, and its simulation with its exact values. Raises ModelError."""
    ensemble = model._reader.ensemble
    values = model.clear(calibrate)
    agreement = None
    if own is not None:
        expected = _own_results(own, ensemble.name, x, calibrate)
        _require_probabilities(model, getattr(own, "__self__", None), calibrate, x, values)
        found = model.predictions(values)
        if found.shape != expected.shape:
            expected = expected.reshape(found.shape) if expected.size == found.size else expected
        if ensemble.output.kind == "values":
            scale = np.abs(expected) + len(ensemble.trees) * ensemble.largest
            same = np.abs(found - expected) <= 2.0**-20 * scale
        else:
            same = np.asarray(found == expected)
        rounding = max(2.0**-20 * len(ensemble.trees) * ensemble.largest, model._client.error)
        agreement = float(np.mean(same.reshape(len(same), -1).all(1))) if found.shape == expected.shape else 0.0
        if agreement < 1 and not ensemble.output.ties(values, rounding)[~same.reshape(len(same), -1).all(1)].all():
            row = int(np.argmin(same.reshape(len(same), -1).all(1))) if found.shape == expected.shape else 0
            raise ModelError(
                f"cannot compile this {ensemble.name}: its own predictions differ from its trees in "
                f"{1 - agreement:.2%} of the "
                f"calibration rows, first in row {row}: {expected[row]!r}, not {found[row]!r}"
            )
    layout = model._client.layout if isinstance(model._client, PathsClient) else None
    most = _CHECKED_ROWS if layout is None else max(8, min(_CHECKED_ROWS, _CHECKED_SLOTS // (layout.pieces * layout.slots)))
    rows = min(len(x), most)
    part = model._reader.bits(calibrate)[:rows]
    errors = np.abs(model._complete.simulate(part, 0) - values[:rows])
    ties = int(ensemble.output.ties(values, model._client.error).sum())
    return TreeReport(len(x), float(errors.max(initial=0.0)), agreement, ensemble.largest, ties)


def _own_results(own: Any, name: str, x: Floats, calibrate: Any) -> Any:
    """Returns the library's results for samples [count, features], as the model reads them from `calibrate`.

    A library may need the data frame itself. Raises ModelError if it refuses both.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*feature names.*")  # columns are in the order of the names
        try:
            return np.asarray(own(x))
        except Exception as error:
            refused = error
        try:
            return np.asarray(own(calibrate))
        except Exception:
            raise ModelError(
                f"cannot compile this {name}: its own predictions must accept the calibration data, but raised "
                f"{type(refused).__name__}: {str(refused)[:160]}; calibrate with samples that it accepts"
            ) from refused


def _require_probabilities(model: EnsembleModel, source: Any, calibrate: Any, x: Floats, values: Any) -> None:
    """Raises ModelError if probabilities of values [count, outputs] differ from those of the library's model."""
    if not model.output.probability or not hasattr(source, "predict_proba"):
        return
    found, expected = model.probabilities(values), _own_results(source.predict_proba, model.name, x, calibrate)
    if found.shape != expected.shape or not np.abs(found - expected).max() <= _PROBABILITY_ERROR:
        raise ModelError(
            f"cannot compile this {model.name}: its own probabilities differ from those of its trees on the calibration "
            "data; use a model with the library's own predict_proba"
        )
