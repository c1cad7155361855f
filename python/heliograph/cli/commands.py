"""The commands and their options."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
import typer.core

import heliograph as hg
from heliograph import nn
from heliograph.cli import profiling, serving

TRY, OWNER, SERVER, SERVICE, DEVELOPER = "Try", "Data owner", "Server", "Service", "Developer"


class Groups(typer.core.TyperGroup):
    """The commands, listed in groups."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Writes a section of the help for each group."""
        listed = [(name, command) for name in self.list_commands(ctx) if (command := self.get_command(ctx, name))]
        width = max(len(name) for name, _ in listed)
        for group in (TRY, OWNER, SERVER, SERVICE, DEVELOPER):
            with formatter.section(group):
                rows = [
                    (name.ljust(width), command.get_short_help_str(formatter.width))
                    for name, command in listed
                    if getattr(command, "rich_help_panel", None) == group
                ]
                formatter.write_dl(rows)


commands = typer.Typer(
    cls=Groups,
    help="Compute on encrypted data: keys, files, encrypted digit recognition, and a service.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

NETWORKS = " or ".join(", ".join(nn.SETUPS).rsplit(", ", 1))
NETWORK_SETS = ", ".join(name for name in hg.bfv.named() if name.startswith("hcnn"))  # named sets with slots
Force = Annotated[bool, typer.Option("--force", help="Replace existing files.")]
NetworkName = Annotated[
    str | None,
    typer.Option("--network", help=f"Network: {NETWORKS}. Default: the network that uses the keys' parameters."),
]


def _version(shown: bool) -> None:
    if shown:
        typer.echo(f"heliograph {hg.__version__}")
        raise typer.Exit


@commands.callback()
def main(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")] = False,
) -> None:
    """Compute on encrypted data: keys, files, encrypted digit recognition, and a service."""


@commands.command(short_help="Encrypt, classify and decrypt real digits.", rich_help_panel=TRY)
def demo(
    count: Annotated[int, typer.Option("--count", min=1, max=20, help="Number of digits to send one by one.")] = 3,
    keep: Annotated[
        Path | None, typer.Option("--keep", help="New or empty folder to keep keys, requests and answers in.")
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Seed of the choice of digits.")] = None,
    device: Annotated[
        str | None, typer.Option("--device", help="Device of the server (HELIOGRAPH_DEVICE): cpu, cuda, rtl ...")
    ] = None,
) -> None:
    """Encrypt real handwritten digits, have them classified by a process that cannot decrypt, and decrypt the answers.

    Runs single digits at low latency, then a whole test set at once. On the co-processor (--device rtl): ten drawn digits in
    one request, because its memory holds no more.
    """
    from heliograph.cli import demo as story

    story.run(count, keep, seed, device)


@commands.command(short_help="Classify all MNIST test images, or single pictures.", rich_help_panel=TRY)
def mnist(
    picture: Annotated[
        list[Path] | None, typer.Argument(help="Pictures of one digit each (PNG, JPEG, ...), or folders of them.")
    ] = None,
    images: Annotated[Path | None, typer.Option("--images", help="IDX file of 28 x 28 images, gzipped or not.")] = None,
    labels: Annotated[Path | None, typer.Option("--labels", help="IDX file of the labels of --images.")] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, help="Number of first images to take; default: all.")
    ] = None,
    parameters: Annotated[
        str,
        typer.Option("--parameters", help="Parameter set: hcnn5 (the smallest 128-bit set) or hcnn5-2020 (the paper's)."),
    ] = "hcnn5",
    network: Annotated[
        str, typer.Option("--network", help="Network: dense (each filter of layer two reads all maps) or paper (one map).")
    ] = "dense",
) -> None:
    """Classify encrypted 28 x 28 digits: all images of an MNIST file by HCNN-5, or single pictures at low latency.

    Every decrypted logit is compared with the clear integer network's.
    """
    from heliograph.cli import batch
    from heliograph.cli import mnist as run
    from heliograph.cli.workflow import CommandError

    if picture:
        if images or labels:
            raise CommandError(
                "cannot take pictures and an MNIST file at once: give either pictures, or --images and --labels"
            )
        if not run.classify_pictures(picture, limit):
            raise typer.Exit(1)
        return
    run.require_files(images, labels)
    assert images is not None
    assert labels is not None
    names = {"dense": "hcnn5", "paper": "hcnn5-paper"}
    if network not in names:
        raise CommandError(f'--network must be dense or paper, got "{network}"')
    if parameters not in ("hcnn5", "hcnn5-2020"):
        raise CommandError(f'--parameters must be hcnn5 or hcnn5-2020, got "{parameters}"')
    setup = nn.setup(names[network])
    parameter_set = setup.parameters() if parameters == "hcnn5" else hg.bfv.parameters(parameters)
    if not batch.classify_all(batch.Run(*run.test_set(images, labels, limit), setup, parameter_set)):
        raise typer.Exit(1)


@commands.command(short_help="Classify a batch of CIFAR-10 images.", rich_help_panel=TRY)
def cifar10(
    data: Annotated[
        Path,
        typer.Option("--data", help="test_batch.bin of CIFAR-10's binary version, an .npz file of images, or its folder."),
    ],
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, help="Number of first images to take; default: all.")
    ] = None,
    parameters: Annotated[
        str,
        typer.Option("--parameters", help="Parameter set: hcnn11 (128-bit) or hcnn11-2020 (the paper's; needs --insecure)."),
    ] = "hcnn11",
    insecure: Annotated[bool, typer.Option("--insecure", help="Allow a set with less than 128 bits of security.")] = False,
    check: Annotated[
        int,
        typer.Option("--check", min=1, help="Number of first images whose logits are compared with the clear network's."),
    ] = 256,
    check_all: Annotated[bool, typer.Option("--check-all", help="Compare the logits of all images (some minutes).")] = False,
) -> None:
    """Classify encrypted colour images in one batch by HCNN-11.

    One image takes as long as a full ciphertext of 8,192 images: minutes on a GPU, hours on a few cores.
    """
    from heliograph.cli import batch, cifar
    from heliograph.cli.workflow import CommandError

    setup, parameter_set = cifar.setup_and_set(parameters, insecure)
    images, labels, name = cifar.read(data)
    if not len(images):
        raise CommandError(f"{data} holds no images; give a file with at least one")
    compared = None if check_all else check
    if not batch.classify_all(batch.Run(images[:limit], labels[:limit], setup, parameter_set, name, compared)):
        raise typer.Exit(1)


@commands.command(short_help="Generate keys.", rich_help_panel=OWNER)
def keygen(
    network: Annotated[str, typer.Option("--network", help=f"Network that the keys are for: {NETWORKS}.")],
    out: Annotated[Path, typer.Option("--out", help="Folder to write to; created if missing.")],
    parameters: Annotated[
        str | None, typer.Option("--parameters", help=f"Named set instead of the network's own: {NETWORK_SETS}.")
    ] = None,
    public: Annotated[bool, typer.Option("--public", help="Write public.hg too, a key by which others encrypt.")] = False,
    force: Force = False,
) -> None:
    """Client: generate keys. secret.hg (mode 0600) stays with you; server.hg goes to the server and cannot decrypt."""
    from heliograph._common.arguments import readable_bytes
    from heliograph.cli import terminal, workflow

    setup = nn.setup(network)
    parameter_set = hg.bfv.parameters(parameters) if parameters else setup.parameters()
    if not parameter_set.has_slots:
        raise workflow.CommandError(
            f"cannot use {parameters}: it has no slots, which the networks need; use one of {NETWORK_SETS}"
        )
    workflow.make_folder(out)
    secret_at, server_at, public_at = (out / name for name in (workflow.SECRET, workflow.SERVER, workflow.PUBLIC))
    workflow.require_absent([secret_at, server_at, *([public_at] if public else [])], force)
    secret = workflow.make_keys(setup, parameter_set, secret_at, server_at, public_at if public else None)
    terminal.say(f"key {secret.id[:8]} for {setup.name}: {parameter_set!r}")
    terminal.say(f"{secret_at}: the secret key; keep it to yourself")
    terminal.say(f"{server_at}: {readable_bytes(workflow.size(server_at))} of evaluation keys for the server")
    if public:
        terminal.say(f"{public_at}: {readable_bytes(workflow.size(public_at))}, the public key by which others encrypt")


@commands.command(short_help="Encrypt images into a request.", rich_help_panel=OWNER)
def encrypt(
    keys: Annotated[Path, typer.Option("--keys", help="Key file: secret.hg or public.hg.")],
    out: Annotated[Path, typer.Option("--out", help="Request file to write.")],
    image: Annotated[Path | None, typer.Argument(help="Picture of one digit, for mnist-packed.")] = None,
    digits: Annotated[
        list[int] | None,
        typer.Option("--digits", min=0, max=1796, help="Index of one of scikit-learn's digits; repeatable."),
    ] = None,
    images: Annotated[Path | None, typer.Option("--images", help="IDX file of 28 x 28 images.")] = None,
    first: Annotated[int, typer.Option("--first", min=0, help="Number of the first image to take from --images.")] = 0,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, help="Number of images to take from --images; default: all that fit.")
    ] = None,
    network: NetworkName = None,
    force: Force = False,
) -> None:
    """Client: encrypt a picture, digits, or images of a file into a request for the server."""
    from heliograph._common.arguments import readable_bytes
    from heliograph.cli import terminal, workflow

    workflow.require_absent([out], force)
    if sum(source is not None and source != [] for source in (image, digits, images)) != 1:
        raise workflow.CommandError("give exactly one source of images to encrypt: a picture, --digits N, or --images FILE")
    key = _encrypting_key(keys)
    setup = workflow.setup_for(key.parameters, network)
    values = _images(image, digits, images, first, limit)
    if not setup.packed and len(values) > key.parameters.slots and limit is None:
        values = values[: key.parameters.slots]
        terminal.say(f"taking the first {len(values):,} images, one for each slot")
    tensor = key.encrypt(workflow.pack(setup, values, key.parameters), pad=True)
    tensor.save(out)
    terminal.say(f"{out}: {readable_bytes(workflow.size(out))}, {len(values):,} image(s) for {setup.name}: {tensor!r}")


def _encrypting_key(path: Path) -> hg.bfv.SecretKey | hg.bfv.PublicKey:
    from heliograph.cli import workflow

    workflow.require_bfv(path)
    kind = hg._core.container.kind_of(str(path))
    if kind == "secret-key":
        secret: hg.bfv.SecretKey = hg.bfv.SecretKey.load(path)
        return secret
    loaded = hg.load(path)
    if not isinstance(loaded, hg.bfv.PublicKey):
        raise hg.FormatError(
            f"{path} holds no key to encrypt with: it must hold a secret or public key, got {kind.replace('-', ' ')}"
        )
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
    selection = idx.images(images)[first:][:limit]
    if not len(selection):
        raise hg.ShapeError(f"--first must be the number of an image of {images}, got {first}")
    return selection


@commands.command(short_help="Classify requests.", rich_help_panel=SERVER)
def classify(
    keys: Annotated[Path, typer.Option("--keys", help="Evaluation keys: server.hg.")],
    requests: Annotated[list[Path], typer.Option("--in", help="Request file; repeatable.")],
    answers: Annotated[list[Path], typer.Option("--out", help="Answer file to write, one for each request.")],
    network: NetworkName = None,
    force: Force = False,
    report: Annotated[bool, typer.Option("--report", hidden=True, help="Print JSON lines, for programs.")] = False,
) -> None:
    """Server: classify requests with evaluation keys. The server has no secret key and learns
    nothing about the images.
    """
    from heliograph.cli import terminal, workflow

    if len(requests) != len(answers):
        raise workflow.CommandError(f"give as many --out as --in, got {len(requests)} requests and {len(answers)} answers")
    workflow.require_absent(answers, force)
    if report:
        work = workflow.answer(keys, requests, answers, network, Reporter())
        cycles = [asdict(counted) for counted in work.cycles]
        print(json.dumps({"seconds": work.seconds, "classify": work.classify, "cycles": cycles}), flush=True)
        return
    with terminal.bar("classify") as progress:
        work = workflow.answer(keys, requests, answers, network, progress)
    for request, reply, spent in zip(requests, answers, work.classify, strict=True):
        terminal.say(f"{request} -> {reply}: {terminal.seconds(spent)}")
    for counted in work.cycles:
        terminal.say(terminal.cycles(counted))


class Reporter:
    """Prints progress as JSON lines, at most one for each percent."""

    def __init__(self) -> None:
        self._last: tuple[str, int] = ("", -1)

    def __call__(self, part: str, share: float) -> None:
        now = (part, int(100 * share))
        if now != self._last:
            self._last = now
            print(json.dumps({"part": part, "share": share}), flush=True)


@commands.command(short_help="Decrypt answers.", rich_help_panel=OWNER)
def decrypt(
    answers: Annotated[list[Path], typer.Argument(help="Answer files.")],
    keys: Annotated[Path, typer.Option("--keys", help="Secret key: secret.hg.")],
    network: NetworkName = None,
    labels: Annotated[Path | None, typer.Option("--labels", help="IDX file of true labels to compare with.")] = None,
) -> None:
    """Client: decrypt answers and print the digits."""
    from heliograph.cli import idx, terminal, workflow

    workflow.require_bfv(keys)
    secret = hg.bfv.SecretKey.load(keys)
    setup = workflow.setup_for(secret.parameters, network)
    truth = idx.labels(labels) if labels else None
    for path in answers:
        answer = workflow.load_answer(path)
        # The sets are sized for requests of a secret key. Requests of a public key have 7 bits more noise, so the noise
        # estimate of their answers may be exhausted. Decryption measures the noise, which is reliable with as many values
        # as coefficients.
        logits = workflow.unpack(setup, secret.decrypt(answer, beyond_estimate=True), secret.parameters)
        predictions = logits.argmax(1)
        noise = f"{secret.noise_budget(answer, beyond_estimate=True):.0f} bits of noise left"
        if len(logits) == 1:
            terminal.say(f"{path}: read as {predictions[0]} ({noise})", "bold")
            terminal.say("logits " + " ".join(f"{digit}:{value}" for digit, value in enumerate(logits[0])))
        else:
            terminal.say(f"{path}: {len(predictions):,} images ({noise})", "bold")
            terminal.say(" ".join(str(p) for p in predictions))
        if truth is not None:
            true_labels = truth[: len(predictions)]
            right = int((predictions[: len(true_labels)] == true_labels).sum())
            terminal.say(f"{right:,} of {len(true_labels):,} right")


@commands.command(
    short_help="Run one program in several processes, on one host or several.",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    rich_help_panel=SERVER,
)
def run(
    program: Annotated[
        list[str],
        typer.Argument(help="Python program, executable, or heliograph with one of its commands; then its arguments."),
    ],
    ranks: Annotated[
        int | None, typer.Option("-n", "--ranks", help="Number of processes; default: the sum of the hosts' slots.")
    ] = None,
    hosts: Annotated[
        str | None, typer.Option("--hosts", help="Hosts with their numbers of ranks: alpha,beta:2. Default: this host.")
    ] = None,
    module: Annotated[bool, typer.Option("-m", help="PROGRAM is the name of a Python module.")] = False,
    device: Annotated[str | None, typer.Option("--device", help="Device of every rank (HELIOGRAPH_DEVICE).")] = None,
    timeout: Annotated[
        int | None, typer.Option("--timeout", min=1, help="Seconds that a rank waits for another (HELIOGRAPH_TIMEOUT).")
    ] = None,
    output: Annotated[
        str,
        typer.Option(
            "--output",
            help="Standard output to show: first (rank 0's) or all (every rank's, each line prefixed by its rank).",
        ),
    ] = "first",
) -> None:
    """Run a program in several processes (ranks), on one host or several, that share one mesh of devices.

    If one rank fails, all ranks end. The exit status is 0 if all ranks ended with 0. Otherwise it is that of the rank that
    failed first: its own status, 1 for an exception, 128 plus the number of a signal; 130 after Ctrl-C. Needs Open MPI's
    mpirun (pip install 'heliograph[mpi]'); other hosts need the same paths, and access by ssh.
    """
    from heliograph.cli import launch
    from heliograph.cli.workflow import CommandError

    if output not in ("first", "all"):
        raise CommandError(f'--output must be first or all, got "{output}"')
    raise typer.Exit(launch.run(launch.make_job(program, ranks, hosts, module, timeout, device, output == "all")))


@commands.command(short_help="List the devices.", rich_help_panel=SERVER)
def devices() -> None:
    """List the devices of this machine that the engine uses."""
    from heliograph.cli import explain

    explain.devices()


@commands.command(short_help="Check the results of this machine's device.", rich_help_panel=SERVER)
def selftest(
    quick: Annotated[bool, typer.Option("--quick", help="Test a few parameter sets instead of all.")] = False,
) -> None:
    """Compute on the device in use and on the reference device with the same seeds, and compare every bit.

    TFHE's bootstraps are compared by their decrypted results. Exits with status 1 if a result differs. HELIOGRAPH_DEVICE
    chooses the device.
    """
    from heliograph.cli import selftest as test

    if not test.run(quick):
        raise typer.Exit(1)


@commands.command(short_help="Explain a parameter set.", rich_help_panel=DEVELOPER)
def params(
    name: Annotated[
        str | None, typer.Argument(help="Named set (hcnn5-2020, also hcnn5-2020/w32; 2_2 of TFHE), or a network.")
    ] = None,
    depth: Annotated[
        int | None, typer.Option("--depth", min=0, help="Find a set for this number of multiplications in sequence.")
    ] = None,
    plain_bits: Annotated[
        int, typer.Option("--plain-bits", min=2, max=600, help="With --depth: bits of the integers.")
    ] = 20,
    slots: Annotated[int, typer.Option("--slots", min=0, help="With --depth: values to pack in one ciphertext.")] = 0,
    terms: Annotated[int, typer.Option("--terms", min=1, help="With --depth: products summed at each level.")] = 1024,
    scheme: Annotated[str, typer.Option("--scheme", help="With --depth: bfv, bgv or ckks.")] = "bfv",
    precision: Annotated[
        int | None,
        typer.Option(
            "--precision", min=1, help="With --scheme ckks: bits after the binary point (default 30, with --bootstrap 20)."
        ),
    ] = None,
    bootstrap: Annotated[
        bool, typer.Option("--bootstrap", help="With --scheme ckks: --depth counts multiplications between bootstraps.")
    ] = False,
) -> None:
    """Explain a parameter set: its ring, moduli, security and sizes. Without a name, list all sets."""
    from heliograph.cli import explain, workflow

    if name is not None and depth is not None:
        raise workflow.CommandError("give either a name or --depth, got both")
    if depth is not None and scheme == "ckks":
        explain.search_ckks_set(depth, precision, slots, bootstrap)
    elif bootstrap:
        raise workflow.CommandError("--bootstrap requires --depth and --scheme ckks")
    elif depth is not None:
        explain.search_set(depth, plain_bits, slots, terms, scheme)
    elif name is not None:
        explain.one_set(name)
    else:
        explain.all_sets()


@commands.command(short_help="Run a program of Cinnamon instructions.", rich_help_panel=DEVELOPER)
def cinnamon(
    folder: Annotated[
        Path, typer.Argument(help="Folder that the compiler wrote: instructions0, inputs0, ..., program_inputs.")
    ],
    ring: Annotated[int, typer.Option("--ring", min=1024, max=1 << 17, help="Ring degree N, a power of two.")] = 1 << 13,
    values: Annotated[
        Path | None, typer.Option("--values", help=".npz file of input arrays by name; missing inputs are random.")
    ] = None,
    scale: Annotated[
        list[str] | None,
        typer.Option(
            "--scale", help="Scale of a plaintext or scalar, NAME=BITS; repeatable. Other scales follow from the program."
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help=".npz file of results to write.")] = None,
    runs: Annotated[int, typer.Option("--runs", min=1, help="Number of timed runs.")] = 2,
    check: Annotated[
        bool, typer.Option("--check", help="Compare the results bit by bit with plain scalar code, with fixed test keys.")
    ] = False,
    force: Force = False,
) -> None:
    """Describe a program of Cinnamon instructions and run it on encrypted values, as owner and server in one process.

    The parameter set is made for the program: one prime of about 28 bits for each level. A small ring makes it insecure.
    """
    from heliograph.cli import instructions

    instructions.run(folder, ring, values, out, runs, check, force, scale or ())


@commands.command(short_help="Write a network as one file to serve.", rich_help_panel=SERVICE)
def export(
    out: Annotated[Path, typer.Argument(help="File to write, such as digits.hgm.")],
    network: Annotated[str, typer.Option("--network", help=f"Network: {NETWORKS}.")] = "mnist-packed",
    name: Annotated[str | None, typer.Option("--name", help="Name of the model at a service; default: the file's.")] = None,
    version: Annotated[str, typer.Option("--model-version", help="Version of the model, any text.")] = "1",
    force: Force = False,
) -> None:
    """Write a shipped network as a model bundle: one file of weights, parameters and the list of evaluation keys that it
    needs.

    The default network reads one 28 x 28 digit at low latency.
    """
    from heliograph.cli import terminal, workflow

    workflow.require_absent([out], force)
    terminal.labelled(nn.setup(network).export(out, name=name, version=version).explain())


@commands.command(name="compile", short_help="Write a trained model as a model bundle.", rich_help_panel=SERVICE)
def compile_model(
    model: Annotated[Path, typer.Argument(help="Model of XGBoost (.json, .ubj) or LightGBM (.txt), or a network (.onnx).")],
    out: Annotated[Path, typer.Option("--out", help="File to write, such as model.hgm.")],
    calibrate: Annotated[
        Path | None,
        typer.Option(
            "--calibrate",
            help="Samples like the future inputs, an array in a .npy file; of a network with several inputs, a .npz file "
            "of arrays by name.",
        ),
    ] = None,
    batch: Annotated[int, typer.Option("--batch", min=1, help="Rows or samples of a request.")] = 1,
    reveal: Annotated[
        str | None,
        typer.Option("--reveal", help="Trees: content of the client's half, thresholds or trees. Default: auto."),
    ] = None,
    accuracy: Annotated[
        float | None,
        typer.Option(
            "--accuracy", help="Largest share of samples that may change their class; with --labels of right classes lost."
        ),
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option(
            "--labels", help="Networks: class numbers of the samples of --calibrate, whole numbers in a .npy file."
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            "--target", help="Cost profile of the machine that runs the model, a name or a file of heliograph profile."
        ),
    ] = None,
    max_seconds: Annotated[
        float | None, typer.Option("--max-seconds", min=0, help="Maximum predicted seconds of one request.")
    ] = None,
    max_memory: Annotated[
        int | None,
        typer.Option(
            "--max-memory",
            parser=serving.size_of("--max-memory"),
            metavar="SIZE",
            help="Maximum predicted memory, such as 4G: of a request of trees; of a network's keys, matrices and tensors.",
        ),
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="Name of the model at a service; default: the file's.")] = None,
    version: Annotated[str, typer.Option("--model-version", help="Version of the model, any text.")] = "1",
    force: Force = False,
) -> None:
    """Compile a trained model for encrypted inputs, print its costs and errors, and write it as a model bundle.

    A model beyond --max-seconds or --max-memory is refused before any file is written. Pickles are never loaded, because
    they run code.
    """
    from heliograph.cli import compiling, terminal, workflow

    workflow.require_absent([out], force)
    samples = compiling.samples_of(model, calibrate, labels)
    named = {"reveal": reveal, "target": target}
    options: dict[str, Any] = {option: value for option, value in named.items() if value is not None}
    limit = None if max_seconds is None and max_memory is None else hg.Costs(seconds=max_seconds, nbytes=max_memory)
    compiled: Any = hg.ml.compile(model, samples, batch=batch, accuracy=accuracy, limit=limit, **options)
    typer.echo(str(compiled))
    terminal.labelled(compiled.export(out, name=name, version=version).explain())


@commands.command(short_help="Show the contents of files.", rich_help_panel=DEVELOPER)
def inspect(
    file: Annotated[list[Path], typer.Argument(help="Files of keys, ciphertexts, models, programs or tables.")],
) -> None:
    """Show the contents of files and whether they are undamaged. Needs no key and shows no secret."""
    from heliograph.cli import explain

    is_intact = [explain.inspect(path) for path in file]
    if not all(is_intact):
        raise typer.Exit(1)


commands.command(short_help="Measure this device's cost profile.", rich_help_panel=SERVER)(profiling.profile)
commands.command(short_help="Serve model bundles to clients.", rich_help_panel=SERVICE)(serving.serve)
commands.command(short_help="Generate a client's token.", rich_help_panel=SERVICE)(serving.token)
commands.command(short_help="Use a service: describe a model, look a row up, draw a digit.", rich_help_panel=OWNER)(
    serving.client
)
