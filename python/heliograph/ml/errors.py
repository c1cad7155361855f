"""Errors of compiling models."""

from heliograph._core import HeliographError


class ModelError(HeliographError):
    """A model cannot be compiled: an operator, a shape, a type or a version is not supported. The message names the node."""


class AccuracyError(ModelError):
    """A compiled model would lose more accuracy than `accuracy` allows. The message states the loss and the remedies."""
