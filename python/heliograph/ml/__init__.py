"""From a trained model to a model of encrypted data."""

from heliograph.ml.errors import AccuracyError, ModelError

__all__ = ["AccuracyError", "ModelError"]
