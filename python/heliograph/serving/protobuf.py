"""Protobuf messages and methods of the service, declared here once: no generated code, no protobuf compiler in the build.

The classes are created from this declaration at run time, and gRPC reflection serves the declaration. `proto` writes this
declaration as a .proto file for other languages (`heliograph serve --proto`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PACKAGE = "heliograph.v1"
SERVICE = f"{PACKAGE}.Inference"
_FILE = "heliograph/v1/inference.proto"
#: Fields of each message in the order of their numbers; "*" after a type means repeated.
MESSAGES: dict[str, dict[str, str]] = {
    "ModelsRequest": {"limit": "uint32", "after": "string"},  # `limit` 0: the service's limit
    "Model": {
        **{"name": "string", "version": "string", "title": "string", "digest": "string", "kind": "string"},
        **{"key_bytes": "uint64", "input_bytes": "uint64", "output_bytes": "uint64"},
    },
    "ModelsReply": {"models": "Model*", "next": "string"},  # `next` is the `after` of the next page; "" on the last page
    "SessionRequest": {"id": "string", "model": "string", "keys": "string"},
    "SessionReply": {},
    # The first message of a run has all fields, and may have `data`; all further messages have only `data`.
    "RunRequest": {
        **{"id": "string", "kind": "string", "model": "string", "keys": "string", "table": "string"},
        **{"parts": "uint64*", "watch": "bool", "data": "bytes"},
    },
    # Progress messages, then the answer's bytes in pieces.
    "RunReply": {"state": "string", "stage": "string", "share": "double", "data": "bytes"},
    "JobRequest": {"id": "string"},
    "JobReply": {"id": "string", "state": "string", "stage": "string", "share": "double", "error": "string"},
}


@dataclass(frozen=True)
class Method:
    """A method of the service."""

    name: str
    request: str
    reply: str
    streams: tuple[bool, bool] = (False, False)  #: whether requests are a stream; whether replies are a stream


METHODS = (
    Method("Models", "ModelsRequest", "ModelsReply"),
    Method("OpenSession", "SessionRequest", "SessionReply"),
    Method("Run", "RunRequest", "RunReply", (True, True)),
    Method("Job", "JobRequest", "JobReply"),
    Method("Cancel", "JobRequest", "JobReply"),
)


@cache
def classes() -> dict[str, Any]:
    """Returns the message classes by name."""
    pool = descriptor_pool.Default()
    pool.Add(_declared())
    file = pool.FindFileByName(_FILE)
    return {name: message_factory.GetMessageClass(file.message_types_by_name[name]) for name in MESSAGES}


def _declared() -> Any:
    """Returns the declaration as a FileDescriptorProto."""
    kinds: Any = descriptor_pb2.FieldDescriptorProto
    file: Any = descriptor_pb2.FileDescriptorProto(name=_FILE, package=PACKAGE, syntax="proto3")
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for number, (field, kind) in enumerate(fields.items(), 1):
            label = kinds.LABEL_REPEATED if kind.endswith("*") else kinds.LABEL_OPTIONAL
            made = message.field.add(name=field, number=number, label=label)
            if kind.rstrip("*") in MESSAGES:
                made.type, made.type_name = kinds.TYPE_MESSAGE, f".{PACKAGE}.{kind.rstrip('*')}"
            else:
                made.type = kinds.Type.Value(f"TYPE_{kind.rstrip('*').upper()}")
    service = file.service.add(name=SERVICE.rpartition(".")[2])
    for method in METHODS:
        both = {"input_type": f".{PACKAGE}.{method.request}", "output_type": f".{PACKAGE}.{method.reply}"}
        service.method.add(name=method.name, client_streaming=method.streams[0], server_streaming=method.streams[1], **both)
    return file


def proto() -> str:
    """Returns the declaration as a .proto file."""
    lines = ['syntax = "proto3";', "", f"package {PACKAGE};", "", f"service {SERVICE.rpartition('.')[2]} {{"]
    for method in METHODS:
        request, reply = (
            "stream " * on + name for on, name in zip(method.streams, (method.request, method.reply), strict=True)
        )
        lines.append(f"  rpc {method.name}({request}) returns ({reply});")
    lines.append("}")
    for name, fields in MESSAGES.items():
        lines += ["", f"message {name} {{"]
        for number, (field, kind) in enumerate(fields.items(), 1):
            lines.append(f"  {'repeated ' if kind.endswith('*') else ''}{kind.rstrip('*')} {field} = {number};")
        lines.append("}")
    return "\n".join(lines) + "\n"
