"""Compiled networks whose client prepares the samples in the clear."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from heliograph import ckks
from heliograph._common.exporters import export
from heliograph._common.html import Rows
from heliograph.ml.model import Model
from heliograph.ml.networks.model import NetworkModel
from heliograph.ml.networks.preparation import Preparation

Floats = npt.NDArray[np.float64]


class PreparedModel(Model):
    """A network of several inputs, or of token numbers and masks, which the client prepares in the clear.

    Samples are a dict of arrays [count, ...] by input name, or one array for one input. All methods are those of
    `NetworkModel`. `network` is the network of prepared vectors, and `prepare` makes these.
    """

    def __init__(self, network: NetworkModel, preparation: Preparation) -> None:
        #: The network of prepared vectors.
        self.network = network
        self.preparation = preparation
        self.name, self.output, self.classes = network.name, network.output, network.classes
        self.report = network.report

    @property
    def parameters(self) -> ckks.Parameters:
        """The parameter set."""
        return self.network.parameters

    @property
    def needs(self) -> dict[str, Any]:
        """Arguments of `SecretKey.evaluation_keys` for the keys of one call."""
        return self.network.needs

    @property
    def batch(self) -> int:
        """Number of samples in one encrypted input."""
        return self.network.batch

    @property
    def features(self) -> int:
        """Number of values of a prepared sample."""
        return self.network.features

    @property
    def outputs(self) -> int:
        """Number of outputs of one sample."""
        return self.network.outputs

    def prepare(self, samples: Any) -> Floats:
        """Returns the vectors [count, features] that the client encrypts.

        Raises ShapeError, DtypeError, PlaintextRangeError."""
        return self.preparation(samples)

    def encrypt(self, key: Any, samples: Any, *, unchecked: bool = False) -> ckks.Tensor:
        """Prepares and encrypts at most `batch` samples. Raises the errors of `prepare` and `NetworkModel.encrypt`."""
        return self.network.encrypt(key, self.prepare(samples), unchecked=unchecked)

    def __call__(self, x: Any) -> Any:
        """Returns the encrypted outputs of an encrypted input. Raises ShapeError, LevelError, MissingKeyError."""
        return self.network(x)

    def decrypt(self, secret: Any, answer: Any, like: Any = None, *, unchecked: bool = False) -> Floats:
        """Returns the values [count, outputs] of an answer, as `NetworkModel.decrypt`."""
        vectors = None if like is None else self.prepare(like)
        return self.network.decrypt(secret, answer, vectors, unchecked=unchecked)

    def run(self, secret: ckks.SecretKey, samples: Any, keys: Any = None) -> Floats:
        """Encrypts samples, computes and decrypts: values [count, outputs]. Without `keys` they are made."""
        return self.network.run(secret, self.prepare(samples), keys)

    def _execute(self, samples: Any) -> Floats:
        return self.run(ckks.SecretKey.generate(self.parameters), samples)

    def clear(self, samples: Any) -> Floats:
        """Returns the exact values [count, outputs] of clear samples."""
        return self.network.clear(self.prepare(samples))

    def simulate(self, samples: Any, *, seed: int = 0, beyond: str = "raise") -> Floats:
        """Returns values [count, outputs] by the polynomials, with noise, as `NetworkModel.simulate`."""
        return self.network.simulate(self.prepare(samples), seed=seed, beyond=beyond)

    def score(self, samples: Any, targets: Any, *, fhe: str = "simulate") -> float:
        """Returns the share of samples of the right class, or a regression's R^2, as `NetworkModel.score`."""
        return self.network.score(self.prepare(samples), targets, fhe=fhe)

    def export(self, path: Any, **texts: Any) -> Any:
        """Writes the model as a model bundle (`hg.ModelBundle`) and returns it. Its client's half has the constants of the
        client's operations, such as a table of embeddings.

        `texts` are `name`, `version`, `title` and `labels` of the classes. Raises ParameterError, OSError."""
        return export("network.prepared", self, path, **texts)

    def _rows(self) -> Rows:
        parts = ", ".join(f"{part.name} {part.shape}" for part in self.preparation.parts)
        return [("prepared", f"by the client in the clear: {parts}"), *self.network._rows()]

    def __repr__(self) -> str:
        return repr(self.network)

    def __str__(self) -> str:
        return "\n".join(f"{label:>11}  {text}" for label, text in self._rows())
