"""Bundles of compiled networks whose client prepares samples: token numbers, masks, several inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from heliograph._common.exporters import EXPORTERS
from heliograph._common.html import Rows
from heliograph._common.tensor import StageProgress
from heliograph.ml.networks.preparation import Preparation
from heliograph.ml.networks.preparation_files import PREFIX, fields_of_preparation, preparation_of
from heliograph.ml.networks.prepared import PreparedModel
from heliograph.models.bundle import Form, ModelBundle, TensorSpec, form, write
from heliograph.models.compiled_bundle import Arrays, CompiledForm
from heliograph.models.header import damaged, fields_of


@form
class PreparedForm(Form):
    """A compiled network with the client's operations. The client's half has the constants of these operations."""

    kind = "network.prepared"
    client_arrays = True

    def __init__(self, network: CompiledForm, preparation: Preparation, description: dict[str, Any], arrays: Arrays) -> None:
        self._network, self._preparation = network, preparation
        self._described, self._arrays = description, arrays
        self.parameters, self.complete = network.parameters, network.complete

    @classmethod
    def read(cls, description: Any, arrays: Arrays | None, parameters: Any) -> PreparedForm:
        """Creates the model from a file's fields and arrays."""
        fields = fields_of(description, "client", "network")
        every = arrays or {}
        own = {name: array for name, array in every.items() if not name.startswith(PREFIX)}
        preparation = preparation_of(fields["client"], every)
        network = CompiledForm.read(fields["network"], own or None, parameters)
        if network.inputs[0].shape != (preparation.size,):
            raise damaged("the client must make as many values as its network takes")
        return cls(network, preparation, fields, every)

    @classmethod
    def of(cls, model: PreparedModel) -> PreparedForm:
        """Describes a compiled network for a file."""
        network = CompiledForm.of(model.network)
        fields, arrays = fields_of_preparation(model.preparation)
        description = {"client": fields, "network": network.described()}
        return cls(network, model.preparation, description, network.arrays() | arrays)

    def described(self) -> dict[str, Any]:
        """Returns the client's fields."""
        return self._described

    def arrays(self) -> Arrays:
        """Returns the network, and the constants of the client."""
        return self._arrays

    @property
    def needs(self) -> dict[str, Any]:
        """Arguments of `SecretKey.evaluation_keys` for its keys."""
        return self._network.needs

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """The inputs that the client prepares."""
        client, items = self._preparation.partition.client, self._network.inputs[0].items
        if client is None:
            text = "real numbers like the calibration samples"
            return tuple(
                TensorSpec(p.name, p.shape, "float64", -p.scale, p.scale, "slots", items, text)
                for p in self._preparation.parts
            )
        text = "prepared by the client in the clear"
        return tuple(
            TensorSpec(n, tuple(client.shapes[n])[1:], client.dtypes.get(n, "float32"), None, None, "slots", items, text)
            for n in client.inputs
        )

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """The outputs, in row-major order."""
        return self._network.outputs

    def rows(self) -> Rows:
        """Describes the client's operations, the levels and bootstraps."""
        client = self._preparation.partition.client
        constants = 0 if client is None else sum(array.nbytes for array in client.constants.values())
        count = 0 if client is None else len(client.nodes)
        return [("client", f"{count} operations in the clear, constants of {constants:,} bytes"), *self._network.rows()]

    def byte_counts(self) -> dict[str, int]:
        """Returns bytes by sizes of the parameter set, without a run."""
        return self._network.byte_counts()

    def key_bytes(self) -> int:
        """Returns about the bytes of the evaluation keys in a message."""
        return self._network.key_bytes()

    def count(self, x: Any) -> tuple[int, bool]:
        """Returns the number of samples. Raises ShapeError, DtypeError."""
        return len(self._preparation(x)), self._preparation.is_alone(x)

    def encrypt(self, key: Any, x: Any, unchecked: bool = False) -> Any:
        """Prepares and encrypts samples."""
        return self._network.encrypt(key, self._preparation(x), unchecked)

    def prepared(self) -> Callable[[tuple[Any, ...], StageProgress | None], Any]:
        """Returns the function of a request."""
        return self._network.prepared()

    def decrypted(self, secret: Any, tensor: Any, unchecked: bool = False) -> Any:
        """Returns outputs [items, outputs]."""
        return self._network.decrypted(secret, tensor, unchecked)

    def predict(self, scores: npt.NDArray[Any], labels: tuple[str, ...]) -> npt.NDArray[Any]:
        """Returns the best class of each item, 0 or 1 for each label, or the outputs of a regression."""
        return self._network.predict(scores, labels)

    def predict_proba(self, scores: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """Returns the softmax of scores, or the probabilities of labels. Raises DtypeError for a network without."""
        return self._network.predict_proba(scores)


def _export(model: PreparedModel, path: Any, **texts: Any) -> ModelBundle:
    return write(PreparedForm.of(model), path, **texts)


EXPORTERS[PreparedForm.kind] = _export
