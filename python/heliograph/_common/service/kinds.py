"""Kinds of jobs. To add a kind, declare it in this file, and answer it in a class of `served`."""

from __future__ import annotations

from dataclasses import dataclass

from heliograph import _core
from heliograph._common.arguments import described


@dataclass(frozen=True)
class JobKind:
    """The properties of a kind of job. HTTP and gRPC name a kind by its `name`."""

    name: str
    needs_keys: bool = True  #: whether jobs use evaluation keys that the client has uploaded
    needs_table: bool = False  #: whether jobs use an encrypted table that the client has uploaded, instead of a model
    has_tensors: bool = (
        True  #: whether a request contains tensors of the sizes `parts`, so that sizes and times are predicted
    )
    is_batched: bool = False  #: whether jobs of several clients are answered in one batch
    is_streamed: bool = False  #: whether an engine can read a request while it arrives


RUN = JobKind("run", is_streamed=True)  #: computes a model's answer
SESSION = JobKind("session", has_tensors=False)  #: checks that keys fit a model, and loads them
SQL = JobKind("sql", needs_table=True, has_tensors=False)  #: answers a query on an encrypted table
GET = JobKind("get", needs_keys=False, is_batched=True)  #: looks up a row of a table in clear
NEAREST = JobKind("nearest", is_batched=True)  #: computes scores of vectors
KINDS = {kind.name: kind for kind in (RUN, SESSION, SQL, GET, NEAREST)}


def kind_of(name: str, *without: JobKind) -> JobKind:
    """Returns the job kind of this name. Raises ParameterError if the name is unknown or the kind is in `without`."""
    found = KINDS.get(name)
    if found is None or found in without:
        allowed = [kind.name for kind in KINDS.values() if kind not in without]
        raise _core.ParameterError(f"kind must be one of {', '.join(allowed)}, got {described(name)}")
    return found
