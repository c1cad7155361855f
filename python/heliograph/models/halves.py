"""Clients' halves: a model without weights, the query form of a table, the layout of vectors."""

from __future__ import annotations

import hashlib

from heliograph._common.arguments import Buffer
from heliograph._common.schemes import type_of_bytes
from heliograph.knn.vectors import LAYOUT_TYPE, VectorLayout
from heliograph.models.bundle import ModelBundle
from heliograph.pir.keyword import CLIENT_TYPE, LookupClient

Half = ModelBundle | LookupClient | VectorLayout


def half_of(data: Buffer) -> Half:
    """Parses a client's half. Raises FormatError and its subclasses."""
    kind = type_of_bytes(data)
    if kind == CLIENT_TYPE:
        return LookupClient.from_bytes(data)
    return VectorLayout.from_bytes(data) if kind == LAYOUT_TYPE else ModelBundle.load(data)


def digest_of(half: Half) -> str:
    """Returns the digest that pins a model: a model bundle's own; otherwise SHA-256 of the client's half, because the rows
    may change.
    """
    if isinstance(half, ModelBundle):
        return half.digest
    return hashlib.sha256(half._identity() if isinstance(half, LookupClient) else half.to_bytes()).hexdigest()
