"""Commands of a service and its clients."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

import heliograph as hg
from heliograph.serving.settings import FLAG, PATHS, SETTINGS, SIZE, TEXTS, Kind, Settings, from_file, option_of, variable_of


def _extra(name: str) -> hg.HeliographError:
    return hg.HeliographError(f"cannot serve: {name} is not installed; pip install 'heliograph[serve]'")


def size_of(option: str) -> Callable[[str], int]:
    """Returns the parser of an option that is a number of bytes, as in 500M or 4G. Its errors are typer's."""

    def parse(text: str) -> int:
        try:
            return int(SIZE.parse(text, option))
        except hg.ParameterError as error:
            raise typer.BadParameter(str(error)) from None

    return parse


def _parser(name: str) -> Callable[[str], Any]:
    """Returns the parser of a setting's option, whose errors are typer's."""

    def parse(text: str) -> Any:
        try:
            return SETTINGS[name].metadata["kind"].parse(text, f"{option_of(name)} ({variable_of(name)})")
        except hg.ParameterError as error:
            raise typer.BadParameter(str(error)) from None

    return parse


def _parameter(name: str) -> inspect.Parameter:
    """Returns a setting as an option of the command, or as its argument."""
    declared = SETTINGS[name]
    kind, default = declared.metadata["kind"], declared.default
    shown = declared.metadata["default"] or (False if default in (None, False, ()) else str(default))
    types: dict[Kind, Any] = {FLAG: bool, PATHS: list[Path], TEXTS: list[str]}
    more: dict[str, Any] = {"help": declared.metadata["help"], "envvar": variable_of(name), "show_envvar": False}
    if kind not in types:
        more |= {"parser": _parser(name), "metavar": kind.metavar, "show_default": shown}
    made = typer.Argument(**more) if name == "models" else typer.Option(option_of(name), **more)
    annotation: Any = Annotated[types.get(kind, Any) | None, made]
    return inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation=annotation)


def serve(
    config: Annotated[
        Path | None, typer.Option("--config", envvar="HELIOGRAPH_CONFIG", show_envvar=False, help="TOML file of settings.")
    ] = None,
    proto: Annotated[bool, typer.Option("--proto", help="Print the gRPC service's .proto file and exit.")] = False,
    **given: Any,
) -> None:
    """Serve model bundles, tables for private look-up and vectors to clients (docs/serving.md): hg.Client, browsers, any
    language by gRPC.

    Each setting may be an option (--max-queue 64), an environment variable (HELIOGRAPH_MAX_QUEUE=64), or a key of the TOML
    file of --config (max_queue = 64). Options have precedence, then variables, then the file.

    The log goes to standard error, one JSON line for each event. SIGTERM stops the service after accepted jobs are done;
    SIGHUP reloads tokens, certificates, revocation lists and tables.
    """
    try:
        from heliograph.serving import protobuf, server
    except ImportError as error:
        raise _extra(error.name or "a dependency") from None
    if proto:
        typer.echo(protobuf.proto(), nl=False)
        return
    chosen = {
        name: tuple(value) if isinstance(value, list) else value for name, value in given.items() if value not in (None, [])
    }
    settings = Settings(**(from_file(config) if config else {}) | chosen)
    if not settings.models:
        raise typer.BadParameter("give at least one model to serve: heliograph serve digits.hgm --store FOLDER")
    if settings.store is None:
        raise typer.BadParameter(
            "--store FOLDER is required: a folder for keys, tables and requests, used by this service only"
        )
    if status := server.run(settings):
        raise typer.Exit(status)


_config, _proto, _ = inspect.signature(serve, eval_str=True).parameters.values()
_models, *_others = map(_parameter, SETTINGS)
serve.__signature__ = inspect.Signature([_models, _config, *_others, _proto])  # type: ignore[attr-defined]
serve.__annotations__ = {}


def _show_row(client: hg.Client, text: str) -> None:
    """Looks a row up and prints it. Raises HeliographError if the table has no such row."""
    from heliograph.cli.terminal import labelled

    key: str | int = text
    if client.table.by_number:
        if not re.fullmatch("-?[0-9]{1,20}", text):
            raise typer.BadParameter(f"the key must be a row's number, a whole number; got {text!r}", param_hint="--get")
        key = int(text)
    row = client.get(key)
    if row is None:
        raise hg.HeliographError(f"the table has no row {text}")
    rows = row if isinstance(row, dict) else {"bytes": row.hex()}
    labelled("\n".join(f"{name:>14}  {value}" for name, value in rows.items()))


def token(name: Annotated[str, typer.Argument(help="Name of the client in logs and limits.")]) -> None:
    """Generate a token for a client. Prints the line for the service's token file; the token itself, on standard error, is
    shown once.
    """
    from heliograph.serving import access

    made, line = access.new_token(name)
    typer.echo(line)
    typer.echo(f"# the client's token, not for the token file: {made}", err=True)


def client(
    address: Annotated[str, typer.Argument(help="Address of the service: https://host:8443")],
    model: Annotated[str, typer.Option("--model", help="Name of a model or table at the service.")],
    token_file: Annotated[Path | None, typer.Option("--token-file", help="File with the client's token.")] = None,
    certificate: Annotated[
        Path | None, typer.Option("--certificate", help="Client certificate and private key, in one file (PEM).")
    ] = None,
    ca: Annotated[
        Path | None, typer.Option("--ca", help="CA certificates that verify the service (PEM). Default: the system's.")
    ] = None,
    digest: Annotated[str | None, typer.Option("--digest", help="Digest that the model must have.")] = None,
    secret: Annotated[
        Path | None,
        typer.Option("--secret", help="Secret key file; generated if missing. Default: a new key for each call."),
    ] = None,
    get: Annotated[
        str | None, typer.Option("--get", help="Key or number of a row to look up. The service does not learn which row.")
    ] = None,
    serve: Annotated[
        int | None, typer.Option("--page-port", min=0, max=65535, help="Port of 127.0.0.1 on which to serve the demo page.")
    ] = None,
    allow: Annotated[
        str | None,
        typer.Option("--allow-origin", help="Origin of a foreign page that may use this process: it sees your drawings."),
    ] = None,
) -> None:
    """Use a service from this machine: describe a model or table, look a row up (--get), or serve a page to draw digits on
    (--page-port).

    The browser sends a drawing only to this process, which encrypts it, queries the service and decrypts the answer.
    """
    from heliograph.cli import demo_client
    from heliograph.cli.terminal import labelled

    # Invalid UTF-8 is replaced, so that the client refuses the text as a token.
    given = token_file.read_text(encoding="utf-8", errors="replace").strip() if token_file else None
    found = hg.Client(address, model=model, token=given, certificate=certificate, ca=ca, digest=digest)
    if get is not None:
        _show_row(found, get)
        return
    labelled(found.half.explain())
    if serve is not None:
        demo_client.run(found, serve, secret, allow)
