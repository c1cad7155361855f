"""Model bundles: a model in one file, with its parameters, the keys that it needs, its inputs and its outputs."""

from heliograph.models import (
    compiled_bundle,
    ensemble_bundle,
    estimator_bundle,
    network_bundle,
    prepared_bundle,
    program_bundle,
)
from heliograph.models.bundle import ModelBundle

__all__ = [
    "ModelBundle",
    "compiled_bundle",
    "ensemble_bundle",
    "estimator_bundle",
    "network_bundle",
    "prepared_bundle",
    "program_bundle",
]
