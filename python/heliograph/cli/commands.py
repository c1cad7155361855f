"""The commands and their options."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

import heliograph as hg
from heliograph import nn
from heliograph.cli import serving

commands = typer.Typer(
    help="Computing on encrypted data: encrypted digit recognition, step by step or all at once.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

NETWORKS = " or ".join(", ".join(nn.SETUPS).rsplit(", ", 1))
NETWORK_SETS = ", ".join(name for name in hg.bfv.named() if name.startswith("hcnn"))  # the other ones have no slots
Force = Annotated[bool, typer.Option("--force", help="Replace files that are there already.")]
NetworkName = Annotated[
    str | None,
    typer.Option("--network", help=f"{NETWORKS}. Without it, the one that the keys' parameters belong to."),
]


def _version(shown: bool) -> None:
    if shown:
        typer.echo(f"heliograph {hg.__version__}")
        raise typer.Exit


@commands.callback()
def main(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")] = False,
) -> None:
    """Computing on encrypted data: encrypted digit recognition, step by step or all at once."""


@commands.command(short_help="Encrypt, classify and decrypt real digits.")
def demo(
    count: Annotated[int, typer.Option("--count", min=1, max=20, help="Digits to send one by one.")] = 3,
    keep: Annotated[
        Path | None, typer.Option("--keep", help="Keep keys, requests and answers in this new or empty folder.")
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Choose the same digits again.")] = None,
    device: Annotated[
        str | None, typer.Option("--device", help="HELIOGRAPH_DEVICE of the server: cpu, cuda, rtl ...")
    ] = None,
) -> None:
    """Encrypt real handwritten digits, have them classified by a process that cannot decrypt, and decrypt the answers.

    Two ways: single digits at low latency, and a whole test set at once. On the co-processor (--device rtl) ten drawn digits in
    one request, which is what it has room for.
    """
    from heliograph.cli import demo as story

    story.run(count, keep, seed, device)


@commands.command(short_help="All MNIST test images, or single pictures.")
def mnist(
    picture: Annotated[
        list[Path] | None, typer.Argument(help="Pictures of one digit each (PNG and others), or folders of them.")
    ] = None,
    images: Annotated[Path | None, typer.Option("--images", help="An IDX file of 28 x 28 images, gzipped or not.")] = None,
    labels: Annotated[Path | None, typer.Option("--labels", help="The IDX file of their labels.")] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Take the first so many images only.")] = None,
    parameters: Annotated[
        str, typer.Option("--parameters", help="hcnn5 (the smallest 128-bit set) or hcnn5-2020 (the paper's).")
    ] = "hcnn5",
    network: Annotated[
        str, typer.Option("--network", help="dense: each filter of layer two reads all maps. paper: one map.")
    ] = "dense",
) -> None:
    """Classify encrypted 28 x 28 digits: all images of an MNIST file by HCNN-5, or single pictures at low latency.

    With files, every decrypted logit is compared with the clear integer network's.
    """
    from heliograph.cli import batch
    from heliograph.cli import mnist as run
    from heliograph.cli.roles import CommandError

    if picture:
        if images or labels:
            raise CommandError("either pictures, or --images and --labels")
        if not run.classify_pictures(picture, limit):
            raise typer.Exit(1)
        return
    run.require_files(images, labels)
    assert images is not None
    assert labels is not None
    names = {"dense": "hcnn5", "paper": "hcnn5-paper"}
    if network not in names:
        raise CommandError(f'--network is dense or paper, not "{network}"')
    if parameters not in ("hcnn5", "hcnn5-2020"):
        raise CommandError(f'--parameters is hcnn5 or hcnn5-2020, not "{parameters}"')
    setup = nn.setup(names[network])
    chosen = setup.parameters() if parameters == "hcnn5" else hg.bfv.parameters(parameters)
    if not batch.classify_all(batch.Run(*run.test_set(images, labels, limit), setup, chosen)):
        raise typer.Exit(1)


@commands.command(short_help="A batch of CIFAR-10 images.")
def cifar10(
    data: Annotated[
        Path,
        typer.Option("--data", help="test_batch.bin of CIFAR-10's binary version, an .npz of images, or a folder of one."),
    ],
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Take the first so many images only.")] = None,
    parameters: Annotated[
        str, typer.Option("--parameters", help="hcnn11 (128-bit) or hcnn11-2020 (the paper's; needs --insecure).")
    ] = "hcnn11",
    insecure: Annotated[bool, typer.Option("--insecure", help="Allow a set of fewer than 128 bits.")] = False,
    check: Annotated[
        int, typer.Option("--check", min=1, help="Compare the logits of the first so many images with the clear network's.")
    ] = 256,
    check_all: Annotated[bool, typer.Option("--check-all", help="Compare all logits: some minutes.")] = False,
) -> None:
    """Classify encrypted colour images, all at once, by HCNN-11.

    It takes as long for one image as for a whole ciphertext's slots of them (8,192): minutes on a GPU, hours on few cores.
    """
    from heliograph.cli import batch, cifar
    from heliograph.cli.roles import CommandError

    setup, chosen = cifar.setup_and_set(parameters, insecure)
    images, labels, name = cifar.read(data)
    if not len(images):
        raise CommandError(f"there are no images in {data}")
    compared = None if check_all else check
    if not batch.classify_all(batch.Run(images[:limit], labels[:limit], setup, chosen, name, compared)):
        raise typer.Exit(1)


@commands.command(short_help="Client: make keys.")
def keygen(
    network: Annotated[str, typer.Option("--network", help=f"What the keys are for: {NETWORKS}.")],
    out: Annotated[Path, typer.Option("--out", help="The folder to write to; it is made if need be.")],
    parameters: Annotated[
        str | None, typer.Option("--parameters", help=f"A named set, in place of the network's own: {NETWORK_SETS}.")
    ] = None,
    public: Annotated[bool, typer.Option("--public", help="Write public.hg too: others can encrypt with it.")] = False,
    force: Force = False,
) -> None:
    """Client: make keys. secret.hg stays with you (mode 0600); server.hg goes to the server and cannot decrypt."""
    from heliograph._arrays import readable_bytes
    from heliograph.cli import roles, screen

    setup = nn.setup(network)
    chosen = hg.bfv.parameters(parameters) if parameters else setup.parameters()
    if not chosen.has_slots:
        raise roles.CommandError(f"{parameters} has no slots, which the networks need")
    roles.make_folder(out)
    secret_at, server_at, public_at = (out / name for name in (roles.SECRET, roles.SERVER, roles.PUBLIC))
    roles.require_absent([secret_at, server_at, *([public_at] if public else [])], force)
    secret = roles.make_keys(setup, chosen, secret_at, server_at, public_at if public else None)
    screen.say(f"key {secret.id[:8]} for {setup.name}: {chosen!r}")
    screen.say(f"{secret_at}: the secret key; keep it")
    screen.say(f"{server_at}: {readable_bytes(roles.size(server_at))} of evaluation keys for the server")
    if public:
        screen.say(f"{public_at}: {readable_bytes(roles.size(public_at))}, for others to encrypt with")


@commands.command(short_help="Client: encrypt images into a request.")
def encrypt(
    keys: Annotated[Path, typer.Option("--keys", help="secret.hg, or public.hg.")],
    out: Annotated[Path, typer.Option("--out", help="The request file to write.")],
    image: Annotated[Path | None, typer.Argument(help="A picture of one digit, for mnist-packed.")] = None,
    digits: Annotated[
        list[int] | None, typer.Option("--digits", min=0, max=1796, help="One of scikit-learn's digits, by number.")
    ] = None,
    images: Annotated[Path | None, typer.Option("--images", help="An IDX file of 28 x 28 images.")] = None,
    first: Annotated[int, typer.Option("--first", min=0, help="The first image to take of --images.")] = 0,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="How many images to take of --images.")] = None,
    network: NetworkName = None,
    force: Force = False,
) -> None:
    """Client: encrypt a picture, digits, or images of a file into a request for the server."""
    from heliograph._arrays import readable_bytes
    from heliograph.cli import roles, screen

    roles.require_absent([out], force)
    if sum(source is not None and source != [] for source in (image, digits, images)) != 1:
        raise roles.CommandError("say what to encrypt: a picture, --digits N, or --images FILE")
    key = _encrypting_key(keys)
    setup = roles.setup_for(key.parameters, network)
    values = _images(image, digits, images, first, limit)
    if not setup.packed and len(values) > key.parameters.slots and limit is None:
        values = values[: key.parameters.slots]
        screen.say(f"taking the first {len(values):,} images, as many as there are slots")
    tensor = key.encrypt(roles.pack(setup, values, key.parameters), pad=True)
    tensor.save(out)
    screen.say(f"{out}: {readable_bytes(roles.size(out))}, {len(values):,} image(s) for {setup.name}: {tensor!r}")


def _encrypting_key(path: Path) -> hg.bfv.SecretKey | hg.bfv.PublicKey:
    from heliograph.cli import roles

    roles.require_bfv(path)
    kind = hg._core.kind_of(str(path))
    if kind == "secret-key":
        secret: hg.bfv.SecretKey = hg.bfv.SecretKey.load(path)
        return secret
    loaded = hg.load(path)
    if not isinstance(loaded, hg.bfv.PublicKey):
        raise hg.FormatError(f"{path} holds no key to encrypt with but {kind.replace('-', ' ')}")
    return loaded


def _images(
    image: Path | None, digits: list[int] | None, images: Path | None, first: int, limit: int | None
) -> np.ndarray[tuple[int, ...], np.dtype[np.integer]]:
    from heliograph.cli import idx, pictures
    from heliograph.cli.demo import all_digits

    if image is not None:
        return pictures.read(image)[None]
    if digits:
        return all_digits()[0][digits]
    assert images is not None
    chosen = idx.images(images)[first:][:limit]
    if not len(chosen):
        raise hg.ShapeError(f"{images} has no image number {first}")
    return chosen


@commands.command(short_help="Server: classify requests.")
def classify(
    keys: Annotated[Path, typer.Option("--keys", help="server.hg: evaluation keys.")],
    requests: Annotated[list[Path], typer.Option("--in", help="A request file; repeatable.")],
    answers: Annotated[list[Path], typer.Option("--out", help="The answer file to write, one for each request.")],
    network: NetworkName = None,
    force: Force = False,
    report: Annotated[bool, typer.Option("--report", hidden=True, help="Lines of JSON, for a program.")] = False,
) -> None:
    """Server: classify requests. It has no secret key and learns nothing about the images."""
    from heliograph.cli import roles, screen

    if len(requests) != len(answers):
        raise roles.CommandError(f"{len(requests)} requests (--in) and {len(answers)} answers (--out)")
    roles.require_absent(answers, force)
    if report:
        work = roles.answer(keys, requests, answers, network, Reporter())
        cycles = [asdict(counted) for counted in work.cycles]
        print(json.dumps({"seconds": work.seconds, "classify": work.classify, "cycles": cycles}), flush=True)
        return
    with screen.bar("classify") as progress:
        work = roles.answer(keys, requests, answers, network, progress)
    for request, reply, spent in zip(requests, answers, work.classify, strict=True):
        screen.say(f"{request} -> {reply}: {screen.seconds(spent)}")
    for counted in work.cycles:
        screen.say(screen.cycles(counted))


class Reporter:
    """Progress as lines of JSON, at most one for each percent."""

    def __init__(self) -> None:
        self._last: tuple[str, int] = ("", -1)

    def __call__(self, part: str, share: float) -> None:
        now = (part, int(100 * share))
        if now != self._last:
            self._last = now
            print(json.dumps({"part": part, "share": share}), flush=True)


@commands.command(short_help="Client: decrypt answers.")
def decrypt(
    answers: Annotated[list[Path], typer.Argument(help="Answer files.")],
    keys: Annotated[Path, typer.Option("--keys", help="secret.hg.")],
    network: NetworkName = None,
    labels: Annotated[Path | None, typer.Option("--labels", help="An IDX file of the truth, to compare with.")] = None,
) -> None:
    """Client: decrypt answers and tell what was read."""
    from heliograph.cli import idx, roles, screen

    roles.require_bfv(keys)
    secret = hg.bfv.SecretKey.load(keys)
    setup = roles.setup_for(secret.parameters, network)
    truth = idx.labels(labels) if labels else None
    for path in answers:
        answer = roles.load_answer(path)
        # The sets are the smallest for a secret key's requests; a public key's have seven bits more of noise, and the estimate of
        # their answers may be exhausted. Measured it is: a network's products give noise as many values as coefficients.
        logits = roles.unpack(setup, secret.decrypt(answer, beyond_estimate=True), secret.parameters)
        predictions = logits.argmax(1)
        noise = f"{secret.noise_budget(answer, beyond_estimate=True):.0f} bits of noise left"
        if len(logits) == 1:
            screen.say(f"{path}: read as {predictions[0]} ({noise})", "bold")
            screen.say("logits " + " ".join(f"{digit}:{value}" for digit, value in enumerate(logits[0])))
        else:
            screen.say(f"{path}: {len(predictions):,} images ({noise})", "bold")
            screen.say(" ".join(str(p) for p in predictions))
        if truth is not None:
            known = truth[: len(predictions)]
            right = int((predictions[: len(known)] == known).sum())
            screen.say(f"{right:,} of {len(known):,} right")


@commands.command(
    short_help="One program in several processes, on one host or several.",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
def run(
    program: Annotated[
        list[str],
        typer.Argument(help="A Python program, an executable, or heliograph and one of its commands; then its arguments."),
    ],
    ranks: Annotated[
        int | None, typer.Option("-n", "--ranks", help="How many processes; by default the hosts' slots.")
    ] = None,
    hosts: Annotated[
        str | None, typer.Option("--hosts", help="Where, and how many ranks on each: alpha,beta:2. Without it, here.")
    ] = None,
    module: Annotated[bool, typer.Option("-m", help="PROGRAM is the name of a Python module.")] = False,
    device: Annotated[str | None, typer.Option("--device", help="HELIOGRAPH_DEVICE of every rank.")] = None,
    timeout: Annotated[
        int | None, typer.Option("--timeout", min=1, help="Seconds that a rank waits for another: HELIOGRAPH_TIMEOUT.")
    ] = None,
    output: Annotated[
        str, typer.Option("--output", help="first: rank 0's standard output. all: every rank's, each line with its rank.")
    ] = "first",
) -> None:
    """Run a program in several processes (ranks), on one host or several, as one: they share one mesh of devices.

    All end when one fails. The exit status is 0 where all ranks ended with 0; else that of the rank that failed first: its
    own, 1 for an exception, 128 and the signal's number for a signal; 1 where a rank was lost, stood still or did not start;
    130 after Ctrl-C. Needs Open MPI's mpirun, and on other hosts the same paths, reached by ssh.
    """
    from heliograph.cli import launch
    from heliograph.cli.roles import CommandError

    if output not in ("first", "all"):
        raise CommandError(f'--output is first or all, not "{output}"')
    raise typer.Exit(launch.run(launch.make_job(program, ranks, hosts, module, timeout, device, output == "all")))


@commands.command(short_help="What there is to compute on.")
def devices() -> None:
    """What the engine found to compute on."""
    from heliograph.cli import explain

    explain.devices()


@commands.command(short_help="Check what this machine computes.")
def selftest(
    quick: Annotated[bool, typer.Option("--quick", help="Three rings in place of all.")] = False,
) -> None:
    """Compute on the device in use and on the reference device with the same seeds, and compare every bit.

    Exits with status 1 where anything differs. HELIOGRAPH_DEVICE chooses the device.
    """
    from heliograph.cli import selftest as test

    if not test.run(quick):
        raise typer.Exit(1)


@commands.command(short_help="Explain a parameter set.")
def params(
    name: Annotated[
        str | None, typer.Argument(help="A named set (hcnn5-2020, also hcnn5-2020/w32; 2_2 of TFHE), or a network.")
    ] = None,
    depth: Annotated[int | None, typer.Option("--depth", min=0, help="Find a set for so many products in sequence.")] = None,
    plain_bits: Annotated[int, typer.Option("--plain-bits", min=2, max=600, help="With --depth: the integers' bits.")] = 20,
    slots: Annotated[int, typer.Option("--slots", min=0, help="With --depth: values to pack in one ciphertext.")] = 0,
    terms: Annotated[int, typer.Option("--terms", min=1, help="With --depth: products summed at each level.")] = 1024,
    scheme: Annotated[str, typer.Option("--scheme", help="With --depth: bfv, bgv or ckks.")] = "bfv",
    precision: Annotated[
        int | None,
        typer.Option("--precision", min=1, help="With --scheme ckks: bits after the point (30; bootstrapping: 20)."),
    ] = None,
    bootstrap: Annotated[bool, typer.Option("--bootstrap", help="With --scheme ckks: products between bootstraps.")] = False,
) -> None:
    """Explain a parameter set: its ring, moduli, security, sizes. Without a name, list them all."""
    from heliograph.cli import explain, roles

    if name is not None and depth is not None:
        raise roles.CommandError("either a name or --depth")
    if depth is not None and scheme == "ckks":
        explain.found_ckks_set(depth, precision, slots, bootstrap)
    elif bootstrap:
        raise roles.CommandError("--bootstrap goes with --depth and --scheme ckks")
    elif depth is not None:
        explain.found_set(depth, plain_bits, slots, terms, scheme)
    elif name is not None:
        explain.one_set(name)
    else:
        explain.all_sets()


@commands.command(short_help="Run a program of Cinnamon instructions.")
def cinnamon(
    folder: Annotated[Path, typer.Argument(help="What the compiler wrote: instructions0, inputs0, ..., program_inputs.")],
    ring: Annotated[int, typer.Option("--ring", min=1024, max=1 << 17, help="The ring degree N, a power of two.")] = 1 << 13,
    values: Annotated[
        Path | None, typer.Option("--values", help="An .npz file of arrays by name; what is not there is drawn at random.")
    ] = None,
    scale: Annotated[
        list[str] | None,
        typer.Option("--scale", help="A plaintext's or scalar's scale, NAME=BITS; others follow from the program."),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="The .npz file of results to write.")] = None,
    runs: Annotated[int, typer.Option("--runs", min=1, help="How often, with times.")] = 2,
    check: Annotated[
        bool, typer.Option("--check", help="Compare the results' bits with plain scalar code; test keys.")
    ] = False,
    force: Force = False,
) -> None:
    """Say what a program of instructions takes and gives, and run it on encrypted values, as owner and server in one process.

    The set is made for it: one prime of about 28 bits a level, as insecure as the ring is small.
    """
    from heliograph.cli import instructions

    instructions.run(folder, ring, values, out, runs, check, force, scale or ())


@commands.command(short_help="Write a network as one file to serve.")
def seal(
    out: Annotated[Path, typer.Argument(help="The file to write: digits.hgm.")],
    network: Annotated[str, typer.Option("--network", help=f"{NETWORKS}.")] = "mnist-packed",
    name: Annotated[str | None, typer.Option("--name", help="By which a service has it; by default the file's.")] = None,
    version: Annotated[str, typer.Option("--model-version", help="Its maker's.")] = "1",
    force: Force = False,
) -> None:
    """Write one of the shipped networks as a sealed model: weights, parameters, and which keys it needs, in one file.

    By default the network that reads one 28 x 28 digit at low latency.
    """
    from heliograph.cli import roles, screen

    roles.require_absent([out], force)
    screen.labelled(nn.setup(network).seal(out, name=name, version=version).explain())


@commands.command(short_help="Show what a file holds.")
def inspect(
    file: Annotated[list[Path], typer.Argument(help="Files of keys, ciphertexts, models, programs, tables.")],
) -> None:
    """Show what a file holds and whether it is undamaged. Needs no key and shows no secret."""
    from heliograph.cli import explain

    whole = [explain.inspect(path) for path in file]
    if not all(whole):
        raise typer.Exit(1)


commands.command(short_help="Serve sealed models to clients.")(serving.serve)
commands.command(short_help="Make a client's token.")(serving.token)
commands.command(short_help="A client of a service; a page to draw on.")(serving.client)
