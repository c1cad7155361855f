"""A service and its clients, as commands."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

import heliograph as hg
from heliograph.serving.numeric import real

_SIZES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_TIMES = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


def _size(text: str) -> int:
    match = re.fullmatch(r"([0-9]{1,12})([KMGT]?)(i?B)?", str(text))
    if match is None:
        raise typer.BadParameter("a size is a number of bytes, or as in 500M, 4G, 4GiB")
    return int(_number(match[1], _SIZES[match[2]], "a size in bytes", 1 << 60))


def _time(text: str) -> float:
    match = re.fullmatch(r"([0-9.]{1,20})([smhd]?)", str(text))
    if match is None:
        raise typer.BadParameter("a time is a number of seconds, or as in 90s, 15m, 12h, 30d")
    return _number(match[1], _TIMES[match[2]], "a time in seconds", 1e9)


def _rate(text: str) -> float:
    return _number(str(text), 1, "a rate a second", 1e6, low=0.001)


def _number(text: str, unit: int, what: str, high: float, low: float = 0) -> float:
    """A number of units, within bounds. Raises BadParameter."""
    try:
        return real(real(text, what, low, high) * unit, what, low, high)
    except hg.ParameterError as error:
        raise typer.BadParameter(str(error)) from None


def _some(text: str) -> int:
    if not (found := _size(text)):
        raise typer.BadParameter("with 0 bytes nothing could be served; a size is as in 500M, 4G")
    return found


def _while(text: str) -> float:
    if not (found := _time(text)):
        raise typer.BadParameter("in 0 seconds nothing could be served; a time is as in 90s, 15m, 12h, 30d")
    return found


def _extra(name: str) -> hg.HeliographError:
    return hg.HeliographError(f"{name} is not installed: pip install 'heliograph[serve]'")


def serve(
    models: Annotated[
        list[Path] | None, typer.Argument(help="Sealed models, and tables for look-ups: digits.hgm phones.hgd ...")
    ] = None,
    store: Annotated[
        Path | None, typer.Option("--store", help="A folder of the service's own: keys, tables, requests.")
    ] = None,
    host: Annotated[str, typer.Option("--host", help="The address to listen on; 0.0.0.0 is every one.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Of HTTP; 0 takes a free one.")] = 8443,
    grpc: Annotated[
        int | None, typer.Option("--grpc", min=0, max=65535, help="The port of gRPC; without it there is none.")
    ] = None,
    tls: Annotated[
        Path | None, typer.Option("--tls", help="The service's certificate, and those that lead to its authority (PEM).")
    ] = None,
    tls_key: Annotated[
        Path | None, typer.Option("--tls-key", help="Its private key, where that is in another file.")
    ] = None,
    clients: Annotated[
        Path | None, typer.Option("--clients", help="Authorities (PEM) whose certificates name clients.")
    ] = None,
    client_crl: Annotated[
        Path | None, typer.Option("--client-crl", help="Revocation lists (PEM) of these authorities, one of each.")
    ] = None,
    tokens: Annotated[
        Path | None,
        typer.Option("--tokens", help="Clients' names and digests of tokens: lines that `heliograph token` prints."),
    ] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Allow other machines without TLS or without clients' names.")
    ] = False,
    metrics: Annotated[
        str | None,
        typer.Option(
            "--metrics",
            help="HOST:PORT of /metrics (Prometheus), /livez and /readyz, in clear; :9090 is this machine's alone.",
        ),
    ] = None,
    quota: Annotated[
        int,
        typer.Option(
            "--quota", parser=_some, metavar="SIZE", show_default="4G", help="Bytes of keys and tables of one client."
        ),
    ] = 4 << 30,
    capacity: Annotated[
        int,
        typer.Option(
            "--capacity",
            parser=_some,
            metavar="SIZE",
            show_default="64G",
            help="Bytes of keys and tables of all; then the least recently used go.",
        ),
    ] = 64 << 30,
    time_to_live: Annotated[
        float,
        typer.Option(
            "--time-to-live", parser=_while, metavar="TIME", show_default="30d", help="How long keys stay that nobody uses."
        ),
    ] = 30 * 86400.0,
    max_objects_per_client: Annotated[
        int, typer.Option("--max-objects-per-client", min=1, help="Keys and tables of one client.")
    ] = 1000,
    max_uploads_per_client: Annotated[
        int, typer.Option("--max-uploads-per-client", min=1, help="Unfinished uploads of one client.")
    ] = 16,
    max_uploads: Annotated[int, typer.Option("--max-uploads", min=1, help="Unfinished uploads of all clients.")] = 1024,
    upload_time_to_live: Annotated[
        float,
        typer.Option(
            "--upload-time-to-live",
            parser=_while,
            metavar="TIME",
            show_default="1d",
            help="How long an unfinished upload stays after its last byte.",
        ),
    ] = 86400.0,
    memory: Annotated[
        int | None,
        typer.Option(
            "--memory",
            parser=_some,
            metavar="SIZE",
            help="Bytes that an engine may take. Half of the machine's by default, or of the container's or unit's limit.",
        ),
    ] = None,
    queue: Annotated[int, typer.Option("--queue", min=1, help="Jobs that may wait.")] = 64,
    jobs: Annotated[int, typer.Option("--jobs", min=1, help="Jobs of one client that have not ended.")] = 16,
    together: Annotated[
        int, typer.Option("--together", min=1, help="Questions to one table that are answered in one reading of it.")
    ] = 32,
    rate: Annotated[
        float | None,
        typer.Option("--rate", parser=_rate, metavar="NUMBER", help="Jobs, and uploads begun, a second of one client."),
    ] = None,
    max_connections: Annotated[
        int, typer.Option("--max-connections", min=16, help="Connections of all clients, HTTP and gRPC together.")
    ] = 2000,
    max_connections_per_client: Annotated[
        int,
        typer.Option(
            "--max-connections-per-client",
            min=1,
            help="Connections of one address, and requests in progress of one client. Behind a proxy, as many as it opens.",
        ),
    ] = 256,
    max_streams_per_client: Annotated[
        int, typer.Option("--max-streams-per-client", min=1, help="gRPC calls in progress of one address.")
    ] = 256,
    deadline: Annotated[
        float,
        typer.Option(
            "--deadline", parser=_while, metavar="TIME", show_default="1h", help="How long a job may take, waiting included."
        ),
    ] = 3600.0,
    grace: Annotated[
        float,
        typer.Option(
            "--grace",
            parser=_time,
            metavar="TIME",
            show_default="60s",
            help="How long accepted jobs may take once a SIGTERM came.",
        ),
    ] = 60.0,
    keep_alive: Annotated[
        float,
        typer.Option(
            "--keep-alive",
            parser=_while,
            metavar="TIME",
            show_default="75s",
            help="How long a connection stays open between two requests.",
        ),
    ] = 75.0,
    device: Annotated[
        list[str] | None, typer.Option("--device", help="HELIOGRAPH_DEVICE of an engine; give it once for each engine.")
    ] = None,
    proto: Annotated[
        bool, typer.Option("--proto", help="Only write gRPC's declaration, for the tools of other languages.")
    ] = False,
    opentelemetry: Annotated[
        bool, typer.Option("--opentelemetry", help="A span for each job; set up by OpenTelemetry's own variables.")
    ] = False,
) -> None:
    """Serve sealed models, and tables for private look-up, to clients (docs/serving.md): hg.Client, browsers, any language by gRPC.

    The log goes to standard error, a line of JSON for each event. SIGTERM ends it once accepted jobs are done; SIGHUP reads tokens, certificates,
    revocation lists and tables again.
    """
    try:
        from heliograph.serving import core, messages, server
        from heliograph.serving.store import Bounds
    except ImportError as error:
        raise _extra(error.name or "a part of it") from None
    if proto:
        typer.echo(messages.proto(), nl=False)
        return
    if not models:
        raise typer.BadParameter("name the models to serve: heliograph serve digits.hgm --store FOLDER")
    if store is None:
        raise typer.BadParameter("--store FOLDER is needed: a folder of the service's own, for keys, tables and requests")
    memory = memory or core.half_of_memory()
    limits = core.Limits(queue=queue, jobs=jobs, rate=rate, memory=memory, seconds=deadline, together=together)
    bounds = Bounds(
        quota=quota,
        capacity=capacity,
        time_to_live=time_to_live,
        objects=max_objects_per_client,
        uploads=max_uploads_per_client,
        all_uploads=max_uploads,
        upload_time_to_live=upload_time_to_live,
    )
    status = server.run(
        server.Options(
            models=models,
            store=store,
            host=host,
            port=port,
            grpc=grpc,
            tls=tls,
            tls_key=tls_key,
            clients=clients,
            client_crl=client_crl,
            tokens=tokens,
            metrics=metrics,
            insecure=insecure,
            bounds=bounds,
            devices=device or [],
            spans=opentelemetry,
            max_connections=max_connections,
            max_connections_per_client=max_connections_per_client,
            max_streams_per_client=max_streams_per_client,
            grace=grace,
            keep_alive=keep_alive,
            limits=limits,
        )
    )
    if status:
        raise typer.Exit(status)


def _show_row(client: hg.Client, text: str) -> None:
    """A row looked up by the client; status 1 where there is none."""
    from heliograph.cli.screen import labelled

    key: str | int = text
    if client.table.by_number:
        if not re.fullmatch("-?[0-9]{1,20}", text):
            raise typer.BadParameter("this table's rows are asked for by whole numbers", param_hint="--get")
        key = int(text)
    row = client.get(key)
    if row is None:
        raise hg.HeliographError(f"there is no {text} in this table")
    rows = row if isinstance(row, dict) else {"bytes": row.hex()}
    labelled("\n".join(f"{name:>14}  {value}" for name, value in rows.items()))


def token(name: Annotated[str, typer.Argument(help="The client's name, as logs have it.")]) -> None:
    """Make a token for a client: the line for the service's file of tokens, and the token, which is shown once."""
    from heliograph.serving import access

    made, line = access.new_token(name)
    typer.echo(line)
    typer.echo(f"# the client's token, not for this file: {made}", err=True)


def client(
    address: Annotated[str, typer.Argument(help="The service's address: https://host:8443")],
    model: Annotated[str, typer.Option("--model", help="The name there of a model, or of a table.")],
    token_file: Annotated[Path | None, typer.Option("--token-file", help="A file with the client's token.")] = None,
    certificate: Annotated[
        Path | None, typer.Option("--certificate", help="The client's certificate and private key (PEM).")
    ] = None,
    ca: Annotated[Path | None, typer.Option("--ca", help="Authorities of the service's certificate (PEM).")] = None,
    digest: Annotated[str | None, typer.Option("--digest", help="The model must have this digest.")] = None,
    secret: Annotated[
        Path | None,
        typer.Option("--secret", help="The secret key's file; made where it is not there. Without it, a new key each time."),
    ] = None,
    get: Annotated[
        str | None,
        typer.Option("--get", help="The key, or the number, of a row to look up: the service does not learn which."),
    ] = None,
    serve: Annotated[
        int | None, typer.Option("--serve", min=0, max=65535, help="Show the demo page on this port of this machine.")
    ] = None,
    allow: Annotated[
        str | None, typer.Option("--allow-page", help="A page of this origin may use it too: it sees what you draw.")
    ] = None,
) -> None:
    """A client of a service, on your machine: shows what a model or table is; --get looks a row up; --serve shows a page to draw digits on.

    The browser sends a drawing to this process alone, which encrypts it, asks the service, and decrypts the answer.
    """
    from heliograph.cli.screen import labelled
    from heliograph.serving import companion

    # A file that is no token's, of bytes that are no text, is refused as one.
    given = token_file.read_text(encoding="utf-8", errors="replace").strip() if token_file else None
    found = hg.Client(address, model=model, token=given, certificate=certificate, ca=ca, digest=digest)
    if get is not None:
        _show_row(found, get)
        return
    labelled(found.half.explain())
    if serve is not None:
        companion.run(found, serve, secret, allow)
