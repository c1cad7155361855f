"""What the two parties do with files. The client: keys, requests, reading answers. The server: answers, by keys that do
not decrypt.
"""

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
from heliograph._arrays import Int64Array

SECRET, SERVER, PUBLIC = "secret.hg", "server.hg", "public.hg"


class CommandError(hg.HeliographError):
    """A command cannot do what it was told."""


def require_absent(paths: Sequence[Path], force: bool) -> None:
    """Raises CommandError for a file that would be overwritten."""
    for path in paths:
        if path.exists() and not force:
            raise CommandError(f"{path} is there already; --force replaces it")
        if not path.absolute().parent.is_dir():
            raise CommandError(f"there is no folder {path.absolute().parent}")


def is_tfhe(seen: dict[str, Any]) -> bool:
    """Whether a file, as `inspect` reads it, is of TFHE."""
    return scheme_of(seen) == "tfhe"


def scheme_of(seen: dict[str, Any]) -> str:
    """The scheme of a file, as `inspect` reads it: "tfhe", "ckks", or nothing said for the exact schemes of many slots."""
    named = str(seen["type"]).split(".")[-2:-1]
    return named[0] if named and named[0] in ("tfhe", "ckks") else ""


def require_bfv(path: Path) -> None:
    """Raises FormatError for a file of TFHE or CKKS, which no network computes with."""
    seen = json.loads(hg._core.inspect(str(path)))
    scheme = scheme_of(seen).upper()
    if scheme:
        kinds = {
            **{"ciphertext": "a tensor", "secret-key": "a secret key"},
            **{"public-key": "a public key", "evaluation-keys": "evaluation keys"},
        }
        kind = str(seen["type"]).rsplit(".", 1)[-1]
        raise hg.FormatError(
            f"{path} holds {kinds.get(kind, kind)} of {scheme}; the networks compute with BFV (heliograph inspect tells more)"
        )


def setup_for(parameters: hg.bfv.Parameters, name: str | None) -> nn.Setup:
    """The named setup, or the one that a parameter set was made for."""
    if name is not None:
        return nn.setup(name)
    for setup in nn.SETUPS.values():
        if parameters.n == setup.n and parameters.plain_moduli == list(setup.plain_modulus):
            return setup
    if parameters.name.startswith("hcnn5"):
        return nn.setup("hcnn5")
    raise CommandError(f"none of the networks uses {parameters!r}; say --network")


# The client


def make_keys(
    setup: nn.Setup, parameters: hg.bfv.Parameters, secret_at: Path, server_at: Path, public_at: Path | None = None
) -> hg.bfv.SecretKey:
    """Writes the key files; all or none."""
    written: list[Path] = []
    try:
        secret = hg.SecretKey.generate(parameters)
        keys = secret.evaluation_keys(**setup.keys())
        for path, key in ((server_at, keys), (public_at, secret.public_key() if public_at else None), (secret_at, secret)):
            if path is not None and key is not None:
                key.save(path)
                written.append(path)
        return secret
    except BaseException:
        for path in written:
            path.unlink(missing_ok=True)
        raise


def pack(setup: nn.Setup, images: npt.NDArray[Any], parameters: hg.bfv.Parameters) -> Int64Array:
    """Images as the values to encrypt. Raises ShapeError for more than fit."""
    if setup.packed:
        layout = setup.layout(parameters.n)
        if isinstance(layout, nn.TiledNetwork):
            return layout.pack(images)
        if len(images) != 1:
            raise hg.ShapeError(f"{setup.name} takes one image at a time, not {len(images)}")
        return layout.pack(images[0])
    if not 1 <= len(images) <= parameters.slots:
        raise hg.ShapeError(f"{len(images):,} images for {parameters.slots:,} slots")
    return setup.load().arrange(images)


def make_folder(path: Path) -> None:
    """A folder, made if need be."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise CommandError(f"{path} is a file, not a folder") from None


def load_answer(path: Path) -> hg.bfv.Tensor:
    """An answer file. Raises FormatError for what is none."""
    require_bfv(path)
    answer = hg.load(path)
    if not isinstance(answer, hg.bfv.Tensor):
        raise hg.FormatError(f"{path} holds no answer")
    if answer.fresh:
        raise hg.FormatError(f"{path} is a request, no answer: nothing was computed on it")
    return answer


def unpack(setup: nn.Setup, values: npt.NDArray[Any], parameters: hg.bfv.Parameters) -> Int64Array:
    """Decrypted slots as logits [images, classes], without blank images at the end, which a request has where it is not full.
    Raises ShapeError where they are no answer of this network.
    """
    classes = setup.load().classes
    if setup.packed:
        if values.shape != (parameters.slots,):
            raise hg.ShapeError(f"this is no answer of {setup.name}: {values.shape[:-1]} ciphertexts")
        layout = setup.layout(parameters.n)
        logits = layout.unpack(values).reshape(layout.images, classes)
        return logits[: _held(setup, logits)]
    if values.ndim != 2 or len(values) != classes:
        raise hg.ShapeError(f"this is no answer of {setup.name}: {values.shape[:-1]} ciphertexts, not ({classes},)")
    return np.ascontiguousarray(values.T)


def _held(setup: nn.Setup, logits: Int64Array) -> int:
    """How many images there are before the blank ones at the end; at least one."""
    network = setup.load()
    drawn = np.flatnonzero((logits != network.clear_logits(network.blank())).any(1))
    return int(drawn[-1]) + 1 if len(drawn) else 1


# The server


@dataclass
class Work:
    """What a server measured."""

    seconds: dict[str, float] = field(default_factory=dict)
    classify: list[float] = field(default_factory=list)
    cycles: list[hg.Cycles] = field(default_factory=list)  #: of each request, on a simulated device


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

    hg.devices()  # opens it: what is wrong with a device is no fault of a file's
    for path in (keys_at, *requests):
        require_bfv(path)
    keys = hg.load(keys_at)
    if not isinstance(keys, hg.bfv.EvaluationKeys):
        raise hg.FormatError(f"{keys_at} does not hold evaluation keys")
    server = hg.Server(keys)
    lap("load keys")
    setup = setup_for(server.parameters, name)
    run = _runner(setup, server.parameters, progress)
    lap("prepare weights")
    for request, reply in zip(requests, answers, strict=True):
        held = [server.load(request)]
        if held[0].shape != _request_shape(setup):
            shapes = f"its shape is {held[0].shape}, not {_request_shape(setup)}"
            raise hg.ShapeError(f"{request} is no request to {setup.name}: {shapes}")
        if not held[0].fresh:
            raise hg.FormatError(f"{request} is the result of a computation, no fresh request")
        lap("load request")
        before = hg.cycles()
        result = run(held.pop())
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
    """Bytes of a file."""
    return path.stat().st_size
