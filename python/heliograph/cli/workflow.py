"""The two parties' work with files. The client makes keys and requests and decrypts answers; the server computes answers."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import heliograph as hg
from heliograph import nn
from heliograph._common.arguments import Int64Array

SECRET, SERVER, PUBLIC = "secret.hg", "server.hg", "public.hg"


class CommandError(hg.HeliographError):
    """A command cannot be carried out with the given arguments."""


def require_absent(paths: Sequence[Path], force: bool) -> None:
    """Raises CommandError for an existing file, unless `force`, and for a missing folder."""
    for path in paths:
        if path.exists() and not force:
            raise CommandError(f"{path} exists; --force replaces it")
        if not path.absolute().parent.is_dir():
            raise CommandError(f"no folder {path.absolute().parent}; create it first")


def scheme_of(info: dict[str, Any]) -> str:
    """Returns the scheme of a file, as read by `inspect`: "tfhe", "ckks", or "" for BFV and BGV."""
    scheme = str(info["type"]).split(".")[-2:-1]
    return scheme[0] if scheme and scheme[0] in ("tfhe", "ckks") else ""


def require_bfv(path: Path) -> None:
    """Raises FormatError for a file of TFHE or CKKS, which the networks cannot use."""
    info = json.loads(hg._core.container.inspect(str(path)))
    scheme = scheme_of(info).upper()
    if scheme:
        kinds = {
            **{"ciphertext": "a tensor", "secret-key": "a secret key"},
            **{"public-key": "a public key", "evaluation-keys": "evaluation keys"},
        }
        kind = str(info["type"]).rsplit(".", 1)[-1]
        raise hg.FormatError(
            f"{path} holds {kinds.get(kind, kind)} of {scheme}; the networks need files of BFV (heliograph inspect shows a "
            "file)"
        )


def setup_for(parameters: hg.bfv.Parameters, name: str | None) -> nn.Setup:
    """Returns the named setup, or the one that a parameter set was made for. Raises CommandError."""
    if name is not None:
        return nn.setup(name)
    for setup in nn.SETUPS.values():
        if parameters.n == setup.n and parameters.plain_moduli == list(setup.plain_modulus):
            return setup
    if parameters.name.startswith("hcnn5"):
        return nn.setup("hcnn5")
    raise CommandError(f"no network uses {parameters!r}; give --network, one of {', '.join(nn.SETUPS)}")


# The client


def make_keys(
    setup: nn.Setup, parameters: hg.bfv.Parameters, secret_at: Path, server_at: Path, public_at: Path | None = None
) -> hg.bfv.SecretKey:
    """Generates and writes the key files; all or none."""
    new_files: list[Path] = []
    try:
        secret: hg.bfv.SecretKey = hg.SecretKey.generate(parameters)
        keys = secret.evaluation_keys(**setup.keys())
        for path, key in ((server_at, keys), (public_at, secret.public_key() if public_at else None), (secret_at, secret)):
            if path is not None and key is not None:
                key.save(path)
                new_files.append(path)
        return secret
    except BaseException:
        for path in new_files:
            path.unlink(missing_ok=True)
        raise


def pack(setup: nn.Setup, images: npt.NDArray[Any], parameters: hg.bfv.Parameters) -> Int64Array:
    """Converts images to the values to encrypt. Raises ShapeError for more images than fit."""
    if setup.packed:
        layout = setup.layout(parameters.n)
        if isinstance(layout, nn.TiledNetwork):
            return layout.pack(images)
        if len(images) != 1:
            raise hg.ShapeError(f"{setup.name} takes one image at a time, got {len(images)}")
        return layout.pack(images[0])
    if not 1 <= len(images) <= parameters.slots:
        raise hg.ShapeError(f"a request takes 1 to {parameters.slots:,} images, one for each slot; got {len(images):,}")
    return setup.load().arrange(images)


def make_folder(path: Path) -> None:
    """Creates a folder if it is missing. Raises CommandError for a file of that name."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise CommandError(f"{path} is a file, not a folder; give another name") from None


def load_answer(path: Path) -> hg.bfv.Tensor:
    """Loads an answer file. Raises FormatError for another file."""
    require_bfv(path)
    answer = hg.load(path)
    if not isinstance(answer, hg.bfv.Tensor):
        raise hg.FormatError(f"{path} holds no answer: it must hold a ciphertext tensor of BFV that classify wrote")
    if answer.fresh:
        raise hg.FormatError(f"{path} holds no answer but a fresh request; classify it first")
    return answer


def unpack(setup: nn.Setup, values: npt.NDArray[Any], parameters: hg.bfv.Parameters) -> Int64Array:
    """Converts decrypted slots to logits [images, classes], without the blank images at the end of a partly filled request.

    Raises ShapeError for values that are not an answer of this network.
    """
    classes = setup.load().classes
    if setup.packed:
        if values.shape != (parameters.slots,):
            raise hg.ShapeError(f"this is no answer of {setup.name}: it must be 1 ciphertext, got {values.shape[:-1]}")
        layout = setup.layout(parameters.n)
        logits = layout.unpack(values).reshape(layout.images, classes)
        return logits[: _image_count(setup, logits)]
    if values.ndim != 2 or len(values) != classes:
        raise hg.ShapeError(
            f"this is no answer of {setup.name}: it must be ({classes},) ciphertexts, got {values.shape[:-1]}"
        )
    return np.ascontiguousarray(values.T)


def _image_count(setup: nn.Setup, logits: Int64Array) -> int:
    """Returns the number of images before the blank ones at the end; at least one."""
    network = setup.load()
    images = np.flatnonzero((logits != network.clear_logits(network.blank())).any(1))
    return int(images[-1]) + 1 if len(images) else 1


# The server


@dataclass
class Work:
    """Measurements of a server."""

    seconds: dict[str, float] = field(default_factory=dict)
    classify: list[float] = field(default_factory=list)
    cycles: list[hg.Cycles] = field(default_factory=list)  #: cycles of each request, on a simulated device


def answer(
    keys_at: Path,
    requests: Sequence[Path],
    answers: Sequence[Path],
    name: str | None = None,
    progress: Callable[[str, float], None] | None = None,
) -> Work:
    """Classifies request files into answer files."""
    work = Work()
    clock = time.perf_counter()

    def lap(what: str) -> float:
        nonlocal clock
        now = time.perf_counter()
        work.seconds[what] = work.seconds.get(what, 0.0) + now - clock
        elapsed, clock = now - clock, now
        return elapsed

    hg.devices()  # opens the device first, so that its errors are not reported as the files'
    for path in (keys_at, *requests):
        require_bfv(path)
    keys = hg.load(keys_at)
    if not isinstance(keys, hg.bfv.EvaluationKeys):
        raise hg.FormatError(f"{keys_at} does not hold evaluation keys; give server.hg, which keygen writes")
    server = hg.Server(keys)
    lap("load keys")
    setup = setup_for(server.parameters, name)
    run = _runner(setup, server.parameters, progress)
    lap("prepare weights")
    for request, reply in zip(requests, answers, strict=True):
        pending = [server.load(request)]
        if pending[0].shape != _request_shape(setup):
            shapes = f"its shape must be {_request_shape(setup)}, got {pending[0].shape}"
            raise hg.ShapeError(f"{request} is no request to {setup.name}: {shapes}")
        if not pending[0].fresh:
            raise hg.FormatError(f"{request} is no fresh request but the result of a computation; encrypt a new one")
        lap("load request")
        before = hg.cycles()
        result = run(pending.pop())
        result.wait()
        work.classify.append(lap("classify"))
        after = hg.cycles()
        if before and after:
            work.cycles.append(after - before)
        result.save(reply)
        lap("write answer")
    return work


def _runner(
    setup: nn.Setup, parameters: hg.bfv.Parameters, progress: Callable[[str, float], None] | None
) -> Callable[[hg.bfv.Tensor], hg.bfv.Tensor]:
    if setup.packed:
        return setup.layout(parameters.n).server(parameters).run
    network = setup.load()
    return lambda x: network.evaluate(x, progress)


def _request_shape(setup: nn.Setup) -> tuple[int, ...]:
    network = setup.load()
    if not setup.packed:
        return network.shapes()[0]
    first = network.layers[0]
    return (int(np.prod(first.weight.shape[1:])),) if first.convolution else ()


def size(path: Path) -> int:
    """Returns the bytes of a file."""
    return path.stat().st_size
