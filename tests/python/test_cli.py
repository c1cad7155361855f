"""Tests the command line as a user runs it: client and server with files, the demo, and errors. Also tests which files the
server opens.
"""

from __future__ import annotations

import ctypes
import functools
import gzip
import os
import re
import select
import signal
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import typer

import heliograph as hg
from heliograph import nn
from heliograph.cli import idx, pictures, run
from heliograph.cli.commands import commands
from tfhe_rig import parameters as tfhe_parameters

COMMAND = [sys.executable, "-m", "heliograph.cli"]


class Opened:
    """Records the names of the files in a folder that any process opens or reads, by Linux's inotify."""

    ACCESS, OPEN = 0x1, 0x20

    def __init__(self, folder: Path) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = libc.inotify_init()
        watch = libc.inotify_add_watch(self._descriptor, os.fsencode(folder), self.ACCESS | self.OPEN)
        if self._descriptor < 0 or watch < 0:
            pytest.skip("inotify is not available")

    def names(self) -> set[str]:
        """Returns the names recorded since the last call; '' means that the folder was listed."""
        found = set()
        while select.select([self._descriptor], [], [], 0)[0]:
            data, at = os.read(self._descriptor, 65536), 0
            while at < len(data):
                length = struct.unpack_from("iIII", data, at)[3]
                found.add(data[at + 16 : at + 16 + length].rstrip(b"\0").decode())
                at += 16 + length
        return found

    def close(self) -> None:
        """Stops recording."""
        os.close(self._descriptor)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns an empty working folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with keys for digits, a request and its answer. Tests must not write to the folder."""
    folder = tmp_path_factory.mktemp("made")
    secret, server = str(folder / "secret.hg"), str(folder / "server.hg")
    assert run(["keygen", "--network", "digits", "--out", str(folder), "--public"]) == 0
    digits = np.random.default_rng(3).integers(0, 17, (8, 8))
    setup = nn.setup("digits")
    request = hg.SecretKey.load(secret).encrypt(setup.layout().pack(digits))
    request.save(folder / "request.hg")
    np.save(folder / "digits.npy", digits)
    files = ["--in", str(folder / "request.hg"), "--out", str(folder / "answer.hg")]
    assert run(["classify", "--keys", server, *files]) == 0
    return folder


def write_idx(path: Path, values: np.ndarray, packed: bool = False) -> Path:
    """Writes an IDX file of bytes."""
    head = struct.pack(f">HBB{values.ndim}I", 0, 8, values.ndim, *values.shape)
    data = head + values.astype(np.uint8).tobytes()
    path.write_bytes(gzip.compress(data) if packed else data)
    return path


def test_client_and_server_exchange_files(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The decrypted scores equal those of the unencrypted network; only the owner can read the secret key file."""
    assert (made / "secret.hg").stat().st_mode & 0o777 == 0o600
    assert run(["decrypt", str(made / "answer.hg"), "--keys", str(made / "secret.hg")]) == 0
    said = capsys.readouterr().out
    expected = nn.load("digits").clear_logits(np.load(made / "digits.npy")[None])[0]
    assert f"read as {expected.argmax()} (" in said
    assert [int(v) for v in re.findall(r"\d:(-?\d+)", said.splitlines()[1])] == expected.tolist()


def test_digits_by_number_and_public_keys(made: Path, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A digit of scikit-learn, encrypted by a public key, gets the class that the unencrypted network gives."""
    pytest.importorskip("sklearn")
    from heliograph.cli.demo import all_digits

    assert run(["encrypt", "--digits", "12", "--keys", str(made / "public.hg"), "--out", "r.hg"]) == 0
    assert run(["classify", "--keys", str(made / "server.hg"), "--in", "r.hg", "--out", "a.hg"]) == 0
    assert run(["decrypt", "a.hg", "--keys", str(made / "secret.hg")]) == 0
    expected = nn.load("digits").clear_logits(all_digits()[0][[12]])[0]
    assert f"read as {expected.argmax()} (" in capsys.readouterr().out


def test_the_server_never_opens_the_secret_key(made: Path, here: Path) -> None:
    """The server's process opens its keys and the request, but no file in the client's folder."""
    client, shared = here / "client", here / "shared"
    assert run(["keygen", "--network", "digits", "--out", str(client)]) == 0
    shared.mkdir()
    (client / "server.hg").rename(shared / "server.hg")
    secret = hg.SecretKey.load(client / "secret.hg")
    secret.encrypt(nn.setup("digits").layout().pack(np.ones((8, 8), dtype=int))).save(shared / "request.hg")
    watched = {folder: Opened(folder) for folder in (client, shared)}
    files = ["--keys", "server.hg", "--in", "request.hg", "--out", "answer.hg"]
    done = subprocess.run([*COMMAND, "classify", *files], cwd=shared, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert {"server.hg", "request.hg"} <= watched[shared].names()  # control: opened files are recorded
    assert watched[client].names() == set()
    hg.SecretKey.load(client / "secret.hg")
    assert watched[client].names() == {"secret.hg"}  # control: this folder is also recorded
    for watch in watched.values():
        watch.close()


def test_the_server_works_where_there_is_no_secret_key(made: Path, here: Path) -> None:
    """The server works with only its own files, without the client's folder."""
    for name in ("server.hg", "request.hg"):
        (here / name).write_bytes((made / name).read_bytes())
    assert run(["classify", "--keys", "server.hg", "--in", "request.hg", "--out", "answer.hg"]) == 0
    own = hg.SecretKey.load(made / "secret.hg")
    theirs, here_too = own.decrypt(hg.load("answer.hg")), own.decrypt(hg.load(made / "answer.hg"))
    np.testing.assert_array_equal(theirs, here_too)


def test_the_demo(here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Both demos of `heliograph demo` work. The server's process gets only the shared folder and opens no file of the
    client.

    """
    pytest.importorskip("sklearn")
    told: list[list[str]] = []
    seen: set[str] = set()
    start = subprocess.Popen

    class Watched(start):  # type: ignore[misc,type-arg]
        """A server's process that records, from its start to its end, which files are opened in the client's folder."""

        def __init__(self, command: list[str], **options: object) -> None:
            told.append(command)
            self.client = Opened(here / "kept" / "client")
            super().__init__(command, **options)

        def __exit__(self, *what: object) -> None:
            super().__exit__(*what)
            seen.update(self.client.names())
            self.client.close()

    monkeypatch.setattr(subprocess, "Popen", Watched)
    assert run(["demo", "--count", "2", "--seed", "1", "--keep", "kept"]) == 0
    said = capsys.readouterr().out
    assert said.count("read as ") == 2 + 6
    assert said.count("every logit equals the clear network's") == 2
    assert re.search(r"accuracy: \d+ of 360 right, \d+\.\d%", said)
    for wanted in ("make keys", "encrypt", "classify", "decrypt", "to the server", "to the client", "noise left"):
        assert wanted in said
    assert len(told) == 2
    assert all("client" not in word and "secret" not in word for command in told for word in command)
    assert seen == set()
    assert sorted(p.name for p in Path("kept/client").iterdir()) == ["digits-batch-secret.hg", "digits-secret.hg"]
    assert run(["demo", "--keep", "kept"]) == 1  # the demo overwrites no file
    assert "not empty" in capsys.readouterr().err


def test_the_demo_leaves_nothing_behind(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The demo removes its temporary folders at the end."""
    pytest.importorskip("sklearn")
    monkeypatch.setattr("tempfile.tempdir", str(here))
    assert run(["demo", "--count", "1"]) == 0
    assert list(here.iterdir()) == []


def test_the_demo_of_drawn_digits(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The co-processor's demo classifies ten drawn digits correctly in one request, on the server's device."""
    from heliograph.cli import demo

    at = demo.Folders(here / "client", here / "shared")
    for folder in (at.client, at.shared):
        folder.mkdir()
    demo.classify_pen_digits(at, "ref")
    said = capsys.readouterr().out
    assert all(f"read as {digit}, is {digit}" in said for digit in range(10))
    assert "every logit equals the clear network's" in said
    assert "Ten digits in one request, on ref" in said


def test_a_demo_on_an_unknown_device(capsys: pytest.CaptureFixture[str]) -> None:
    """The demo shows the server's error."""
    pytest.importorskip("sklearn")
    assert run(["demo", "--device", "abacus"]) == 1
    assert 'the server failed: unknown device "abacus"' in capsys.readouterr().err


def test_a_request_holds_a_limited_number_of_images(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the smallest ring a request holds a limited number of images. A request at this limit is answered, and a request
    with more images is refused.

    """
    images = np.random.default_rng(4).integers(0, 256, (33, 28, 28))
    write_idx(Path("images"), images)
    assert run(["keygen", "--network", "mnist-small", "--out", "keys"]) == 0
    encrypt = ["encrypt", "--keys", "keys/secret.hg", "--images", "images", "--out", "r.hg"]
    assert run(encrypt) == 1
    assert "a request to mnist-small must hold 1 to 32 images, not 33" in capsys.readouterr().err
    assert run([*encrypt, "--limit", "17"]) == 0
    assert run(["classify", "--keys", "keys/server.hg", "--in", "r.hg", "--out", "a.hg"]) == 0
    assert run(["decrypt", "a.hg", "--keys", "keys/secret.hg"]) == 0
    said = capsys.readouterr().out
    assert "a.hg: 17 images" in said
    read = nn.load("mnist-small").clear_logits(images[:17]).argmax(1)
    assert " ".join(str(digit) for digit in read) in said


def test_a_server_that_fails_is_reported(here: Path) -> None:
    """The client shows the error line of the server."""
    from heliograph.cli.demo import serve

    with pytest.raises(hg.HeliographError, match=r"the server failed: .*nothing.hg"):
        serve(nn.setup("digits"), Path("nothing.hg"), [Path("a")], [Path("b")], lambda part, share: None)


REFUSED = {
    "secret for server": ("classify --keys M/secret.hg --in M/request.hg --out x.hg", "secret"),
    "request for keys": ("classify --keys M/request.hg --in M/request.hg --out x.hg", "does not hold evaluation keys"),
    "answer for request": ("classify --keys M/server.hg --in M/answer.hg --out x.hg", "no fresh request"),
    "other network": ("classify --keys M/server.hg --in M/request.hg --out x.hg --network digits-batch", "no request to"),
    "unequal lists": ("classify --keys M/server.hg --in M/request.hg --in M/request.hg --out x.hg", "2 requests"),
    "overwriting": ("classify --keys M/server.hg --in M/request.hg --out M/answer.hg", "--force"),
    "no folder": ("classify --keys M/server.hg --in M/request.hg --out gone/x.hg", "no folder"),
    "missing file": ("classify --keys gone.hg --in M/request.hg --out x.hg", "gone.hg"),
    "damaged request": ("classify --keys M/server.hg --in damaged.hg --out x.hg", "damaged"),
    "short request": ("classify --keys M/server.hg --in short.hg --out x.hg", "truncated"),
    "foreign answer": ("decrypt foreign.hg --keys M/secret.hg", "key"),
    "request decrypted": ("decrypt M/request.hg --keys M/secret.hg", "no answer"),
    "key decrypted": ("decrypt M/public.hg --keys M/secret.hg", "no answer"),
    "decrypting by server keys": ("decrypt M/answer.hg --keys M/server.hg", "evaluation"),
    "keys over keys": ("keygen --network digits --out M", "--force"),
    "keys in a file": ("keygen --network digits --out M/secret.hg", "not a folder"),
    "unknown network": ("keygen --network resnet --out k", "digits-batch"),
    "set without slots": ("keygen --network hcnn5 --parameters hvmul-2020 --out k", "no slots"),
    "nothing to encrypt": ("encrypt --keys M/secret.hg --out x.hg", "exactly one source"),
    "two things to encrypt": ("encrypt p.png --digits 1 --keys M/secret.hg --out x.hg", "exactly one source"),
    "two digits at once": ("encrypt --digits 1 --digits 2 --keys M/secret.hg --out x.hg", "one image at a time"),
    "encrypting by server keys": ("encrypt --digits 1 --keys M/server.hg --out x.hg", "no key to encrypt"),
    "a picture that is none": ("encrypt M/secret.hg --keys M/secret.hg --out x.hg", "not a picture"),
    "a picture of another size": ("encrypt blank.png --keys M/secret.hg --out x.hg", "no digit"),
    "nothing for mnist": ("mnist", "--images"),
    "no labels for mnist": ("mnist --images nofile", "missing: --labels FILE, --images's file nofile"),
    "no images for mnist": ("mnist --labels M/secret.hg", "missing: --images FILE"),
    "no such labels": ("mnist --images M/secret.hg --labels nofile", "missing: --labels's file nofile"),
    "one picture that is none": ("mnist M/secret.hg", "not a picture"),
    "both for mnist": ("mnist p.png --images a --labels b", "either"),
    "images that are none": ("mnist --images M/secret.hg --labels M/secret.hg", "not an IDX file"),
    "unknown set": ("params resnet", "hcnn5-2020"),
    "unknown set, of either scheme": ("params 3_3", "2_2/latency"),
    "impossible depth": ("params --depth 100 --plain-bits 600", "N would exceed"),
    "empty folder": ("mnist empty", "no pictures"),
    "nothing to inspect": ("inspect gone.hg", "gone.hg"),
    # Files of TFHE, which no included network uses
    "encrypting by TFHE": ("encrypt --digits 1 --keys T/secret.hg --out x.hg", "holds a secret key of TFHE"),
    "encrypting by server keys of TFHE": (
        "encrypt --digits 1 --keys T/server.hg --out x.hg",
        "holds evaluation keys of TFHE",
    ),
    "keys of TFHE": ("classify --keys T/server.hg --in M/request.hg --out a.hg", "holds evaluation keys of TFHE"),
    "a request of TFHE": ("classify --keys M/server.hg --in T/fresh.hg --out a.hg", "holds a tensor of TFHE"),
    "an answer of TFHE": ("decrypt T/computed.hg --keys M/secret.hg", "holds a tensor of TFHE"),
    "a secret key of TFHE": ("decrypt M/answer.hg --keys T/secret.hg", "holds a secret key of TFHE"),
}


@pytest.fixture(scope="module")
def tfhe_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with keys and tensors of a small insecure TFHE set."""
    folder = tmp_path_factory.mktemp("tfhe")
    secret = hg.SecretKey.generate(tfhe_parameters("digits"))
    keys, x = secret.evaluation_keys(), secret.encrypt(np.array([1, 2], dtype=np.uint8))
    secret.save(folder / "secret.hg")
    keys.save(folder / "server.hg")
    x.save(folder / "fresh.hg")
    (hg.Server(keys).bind(x) + 1).save(folder / "computed.hg")
    return folder


@pytest.mark.parametrize("case", REFUSED)
def test_refusals_are_one_line(
    case: str, made: Path, tfhe_files: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A refusal exits with 1, prints a line with the reason and no traceback, and writes no file."""
    line, message = REFUSED[case]
    if line == "mnist M/secret.hg":
        pytest.importorskip("PIL.Image")
    if "encrypt" in line and "T/" not in line and ("--digits" in line or ".png" in line or "secret.hg --keys" in line):
        pytest.importorskip("sklearn")
        Image = pytest.importorskip("PIL.Image")
        Image.new("L", (60, 40), 255).save("blank.png")
    whole = (made / "request.hg").read_bytes()
    Path("damaged.hg").write_bytes(whole[:9000] + bytes([whole[9000] ^ 1]) + whole[9001:])
    Path("short.hg").write_bytes(whole[:9000])
    Path("empty").mkdir()
    if "foreign" in line:
        other = hg.SecretKey.generate(nn.setup("digits").parameters())
        keys = other.evaluation_keys(**nn.setup("digits").keys())
        x = hg.Server(keys).bind(other.encrypt(nn.setup("digits").layout().pack(np.ones((8, 8), dtype=int))))
        (x * 2).save("foreign.hg")
    before = sorted(p.name for p in [*here.iterdir(), *made.iterdir()])
    files = {"M": str(made), "T": str(tfhe_files)}
    assert run([re.sub(r"^[MT](?=/|$)", lambda folder: files[folder[0]], word) for word in line.split()]) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said.startswith("heliograph: ")
    assert message in said
    assert sorted(p.name for p in [*here.iterdir(), *made.iterdir()]) == before


MISUSED = ["bogus", "params --depth x", "classify", "demo --count 0", "encrypt --digits 1797 --keys k --out o"]
COMMANDS = [
    "",
    "demo",
    "mnist",
    "run",
    "keygen",
    "encrypt",
    "classify",
    "decrypt",
    "devices",
    "selftest",
    "params",
    "inspect",
]


@pytest.mark.parametrize("line", MISUSED)
def test_misused_options_exit_with_two(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Options that are used wrongly exit with 2 and show the usage."""
    assert run(line.split()) == 2
    assert "Usage: heliograph" in capsys.readouterr().err


@pytest.mark.parametrize("command", COMMANDS)
def test_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Every command has a help text."""
    assert run([*command.split(), "--help"]) == 0
    assert "Usage: heliograph" in capsys.readouterr().out


def test_help_lists_every_command_in_a_group(capsys: pytest.CaptureFixture[str]) -> None:
    """The help has a section for each group, and each command is in one section."""
    assert run(["--help"]) == 0
    sections = re.findall(r"^([A-Z][\w ]+):\n((?:  .*\n)+)", capsys.readouterr().out, re.M)
    assert [name for name, _ in sections] == ["Options", "Try", "Data owner", "Server", "Service", "Developer"]
    listed = [line.split()[0] for _, lines in sections[1:] for line in lines.splitlines() if line[2] != " "]
    assert sorted(listed) == sorted(typer.main.get_command(commands).commands)  # type: ignore[attr-defined]


def test_keygen_names_every_network(capsys: pytest.CaptureFixture[str]) -> None:
    """The help of keygen lists every network and its sets."""
    assert run(["keygen", "--help"]) == 0
    said = "".join(capsys.readouterr().out.split())
    assert all(name in said for name in [*nn.SETUPS, "hcnn5-2020", "hcnn11-2020"])


@pytest.mark.parametrize("command", [*(f"{name} --help" for name in COMMANDS), "params", "params digits", "params 2_2"])
def test_sixty_columns(command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """At a width of 60 columns, no line is wider and no word is cut."""
    from heliograph.cli import terminal

    assert run(command.split()) == 0
    wide = capsys.readouterr().out
    monkeypatch.setattr(terminal, "_PIPE_WIDTH", 60)
    monkeypatch.setenv("COLUMNS", "60")
    assert run(command.split()) == 0
    said = capsys.readouterr().out
    assert max(len(line.rstrip()) for line in said.splitlines()) <= 60
    assert [word for word in wide.split() if word not in "".join(said.split())] == []


def test_params_of_networks_name_word_size_and_keys(capsys: pytest.CaptureFixture[str]) -> None:
    """The output names the word size of the set and the keys for the server. Column keys are named if the network exchanges
    columns.
    """
    for name, word_size, keys in (
        ("mnist-packed/w32", 32, "relinearization, 13 rotations, columns:"),
        ("mnist-packed", 64, "relinearization, 13 rotations, columns:"),
        ("mnist-small", 32, "relinearization, 7 rotations:"),
    ):
        assert run(["params", name]) == 0
        said = capsys.readouterr().out
        assert f"{word_size}-bit words" in said
        assert keys in said
    assert run(["params", "mnist-packed/w16"]) == 1
    assert 'must be /w32 or none, not "/w16"' in capsys.readouterr().err


def test_force_overwrites_an_answer(made: Path, here: Path) -> None:
    """With --force, an existing answer is overwritten; without it, the command refuses."""
    Path("a.hg").write_text("old")
    files = ["--keys", str(made / "server.hg"), "--in", str(made / "request.hg"), "--out", "a.hg"]
    assert run(["classify", *files]) == 1
    assert Path("a.hg").read_text() == "old"
    assert run(["classify", *files, "--force"]) == 0
    assert isinstance(hg.load("a.hg"), hg.Tensor)


def test_inspect_describes_and_checks_files(made: Path, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """inspect shows the kind, size and integrity of each file; it shows no values of a secret key."""
    names = ["secret.hg", "server.hg", "public.hg", "request.hg", "answer.hg"]
    assert run(["inspect", *(str(made / name) for name in names)]) == 0
    said = capsys.readouterr().out
    assert said.count("whole: digest") == len(names)
    assert "14 keys" in said
    assert "compose=True makes rotations by multiples of" in said
    assert run(["inspect", str(made / "secret.hg")]) == 0
    secret = capsys.readouterr().out
    assert "can decrypt" in secret
    assert "array" not in secret
    whole = (made / "answer.hg").read_bytes()
    Path("damaged.hg").write_bytes(whole[:9000] + bytes([whole[9000] ^ 1]) + whole[9001:])
    assert run(["inspect", "damaged.hg"]) == 1
    assert "DAMAGED" in capsys.readouterr().out


@pytest.mark.parametrize("variable", ["HELIOGRAPH_DEVICE", "HELIOGRAPH_THREADS"])
def test_inspect_blames_no_file_for_the_device(made: Path, tfhe_files: Path, variable: str, tmp_path: Path) -> None:
    """An invalid variable is reported as invalid; the files are not reported as damaged."""
    x = hg.load(made / "request.hg")
    f = hg.program(lambda t: t + t, x)
    f.save(tmp_path / "program.hg")
    files = [*(made / f"{name}.hg" for name in ("secret", "server", "public", "request")), tmp_path / "program.hg"]
    files.append(tfhe_files / "secret.hg")
    for file in files if variable == "HELIOGRAPH_DEVICE" else files[-2:]:  # two kinds of files suffice
        command = [sys.executable, "-m", "heliograph.cli", "inspect", str(file)]
        env = os.environ | {"HELIOGRAPH_DEVICE": "cpu", variable: "abacus"}
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 1, done.stdout
        assert "abacus" in done.stderr, done.stdout + done.stderr
        assert "DAMAGED" not in done.stdout
        assert "no parameter set" not in done.stdout


def test_inspect_supports_tfhe(tfhe_files: Path, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """inspect supports every kind of TFHE file, computes the set's security and detects damage."""
    names = ["secret.hg", "server.hg", "fresh.hg", "computed.hg"]
    assert run(["inspect", *(str(tfhe_files / name) for name in names)]) == 0
    said = capsys.readouterr().out
    assert said.count("whole: digest") == said.count("scheme  TFHE") == said.count("insecure") == len(names)
    for wanted in (
        "can decrypt",
        "bootstrapping and key-switching key",
        "uint8",
        "masks as a seed",
        "N = 1,024",
        "2 bit(s)",
    ):
        assert wanted in said
    assert run(["inspect", str(tfhe_files / "secret.hg")]) == 0
    assert "array" not in capsys.readouterr().out
    whole = (tfhe_files / "computed.hg").read_bytes()
    Path("damaged.hg").write_bytes(whole[:9000] + bytes([whole[9000] ^ 1]) + whole[9001:])
    assert run(["inspect", "damaged.hg"]) == 1
    assert "DAMAGED" in capsys.readouterr().out


def test_params_and_devices(capsys: pytest.CaptureFixture[str]) -> None:
    """The commands params and devices list all sets, one set, the set of a network, the result of a search, and the devices."""
    assert run(["params"]) == 0
    said = capsys.readouterr().out
    assert all(name in said for name in [*hg.bfv.named(), *nn.SETUPS, *hg.tfhe.named(), *hg.ckks.named()])
    for arguments, wanted in (
        (["hcnn5-2020"], "log q = 330"),
        (["hcnn11-2020"], "insecure"),
        (["hcnn5-2020/w32"], "32-bit words"),
        (["digits"], "12 rotations"),
        (["2_2"], "digits of 2 bits"),
        (["boolean/p64"], "TFHE boolean/p64"),
        (["morshed-2020"], "insecure"),
        (["hcnn5-paper"], "46,000"),
        (["--depth", "2", "--plain-bits", "20"], "128-bit"),
        (["n16-b13"], "from level 4 back to 17"),
        (["--depth", "10", "--scheme", "ckks", "--bootstrap"], "n16-b13"),
    ):
        assert run(["params", *arguments]) == 0
        assert wanted in " ".join(capsys.readouterr().out.split())
    assert run(["params", "--depth", "10", "--bootstrap"]) == 1
    assert "--scheme ckks" in capsys.readouterr().err
    assert run(["devices"]) == 0
    shown, known = (re.sub(r"[\d.]+ GiB of", "some of", text) for text in (capsys.readouterr().out, "\n".join(hg.devices())))
    assert shown.strip() == known  # the free memory may have changed


@pytest.mark.parametrize("packed", [False, True])
def test_idx_files(here: Path, packed: bool) -> None:
    """IDX files are read, gzipped or not."""
    values = np.random.default_rng(0).integers(0, 256, (3, 28, 28))
    np.testing.assert_array_equal(idx.images(write_idx(Path("i"), values, packed)), values)
    np.testing.assert_array_equal(idx.labels(write_idx(Path("l"), values[0, 0], packed)), values[0, 0])


def test_damaged_idx_files(here: Path) -> None:
    """Each kind of damage has its own error."""
    whole = write_idx(Path("i"), np.zeros((3, 28, 28))).read_bytes()
    packed = gzip.compress(whole)
    cases = {
        b"": "not an IDX", b"\x00\x01" + whole[2:]: "not an IDX", whole[:2] + b"\x0d" + whole[3:]: "unsigned bytes",
        whole[:9]: "header", whole[:-1]: "2,351 values", whole + b"x": "more values",
        whole[:4] + b"\xff" * 12 + whole[16:]: "claims", packed[:-20]: "damaged gzip",
        packed[:40] + bytes([packed[40] ^ 255]) + packed[41:]: "damaged gzip|values", b"\x1f\x8bxx": "damaged gzip",
    }  # fmt: skip
    for data, message in cases.items():
        Path("bad").write_bytes(data)
        with pytest.raises(hg.FormatError, match=message):
            idx.images("bad")
    with pytest.raises(hg.FormatError, match="mixed up"):
        idx.labels("i")


def stroke(size: int, width: int) -> np.ndarray:
    """Returns an image of a light vertical bar on dark ground, beside the centre."""
    image = np.zeros((size, size))
    image[size // 8 : size * 5 // 8, size // 8 : size // 8 + width] = 255
    return image


def test_pictures_are_converted_to_mnists_format() -> None:
    """The prepared digit is 20 pixels tall and centred. The prepared digit does not depend on the size, position, background
    and contrast of the image.

    """
    pytest.importorskip("PIL")
    seen = [pictures.prepare(stroke(size, size // 10), "p") for size in (60, 200, 1000)]
    seen += [pictures.prepare(255 - stroke(200, 20), "p"), pictures.prepare(stroke(200, 20) * 0.4, "p")]
    for image in seen:
        assert image.shape == (28, 28)
        rows = np.flatnonzero(image.max(1))
        assert 20 <= rows[-1] - rows[0] + 1 <= 22
        weight = image.sum(0) @ np.arange(28) / image.sum()
        assert weight == pytest.approx(13.5, abs=0.6)
        assert image.max() == 255
    np.testing.assert_array_equal(seen[1], seen[3])
    own = np.zeros((28, 28))
    own[4:24, 10:14] = 200
    np.testing.assert_array_equal(pictures.prepare(own, "p"), own)  # an image in MNIST's format is unchanged


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA", "RGBA white", "P", "1", "I;16"])
def test_pictures_of_every_mode(mode: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Black or white ink, on white or transparent ground, in each colour mode, gives the same digit. One picture is also
    classified encrypted.

    """
    Image = pytest.importorskip("PIL.Image")
    ink = np.uint8(255) - stroke(100, 12).astype(np.uint8)
    if mode.startswith("RGBA"):
        layers = np.full((100, 100, 4), 255 if "white" in mode else 0, dtype=np.uint8)
        layers[..., 3] = 255 - ink
        Image.fromarray(layers, "RGBA").save("one.png")
    elif mode == "I;16":
        Image.fromarray(ink.astype(np.uint16) * 257).save("one.png")
    else:
        Image.fromarray(ink).convert(mode).save("one.png")
    image = pictures.read(Path("one.png"))
    assert image.sum() / 255 > 30
    if mode == "RGB":
        assert run(["mnist", "one.png", "."]) == 0
        said = capsys.readouterr().out
        assert said.count(f"read as {nn.load('mnist-packed').clear_logits(image[None])[0].argmax()}") == 2
        assert run(["mnist", "one.png", ".", "--limit", "1"]) == 0
        assert capsys.readouterr().out.count("read as") == 1


def test_one_bad_picture_does_not_end_a_folder(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An unreadable picture is reported, the other pictures are classified, and the exit status is 1."""
    Image = pytest.importorskip("PIL.Image")
    Image.fromarray(stroke(100, 12).astype(np.uint8)).save("b.png")
    Path("a.png").write_text("no picture")
    Image.new("L", (30, 30), 255).save("c.png")
    assert run(["mnist", "."]) == 1
    said = capsys.readouterr()
    assert said.out.count("read as") == 1
    assert "2 of 3 pictures were skipped" in said.out
    assert re.findall(r"skipped: (?:no digit is visible in )?(\w\.png)", said.err) == ["a.png", "c.png"]
    assert run(["mnist", ".", "--limit", "1"]) == 1  # the first picture is unreadable, but it counts towards the limit
    assert "1 of 2 pictures" in capsys.readouterr().out
    assert run(["mnist", "a.png", "gone.png"]) == 1
    assert "none of 2 pictures is readable" in capsys.readouterr().err


def test_mnist_files_are_classified_encrypted(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """For any 28 x 28 images, every logit equals the logit of the unencrypted network."""
    images = np.random.default_rng(1).integers(0, 256, (5, 28, 28))
    write_idx(Path("images"), images, packed=True)
    write_idx(Path("labels"), np.arange(5))
    assert run(["mnist", "--images", "images", "--labels", "labels", "--limit", "4", "--network", "paper"]) == 0
    said = capsys.readouterr().out
    for wanted in ("46,000", "126,000", "every logit equal", "(40 compared)", "of 4 right", "memory: about", "peak memory"):
        assert wanted in said
    write_idx(Path("labels"), np.arange(4))
    assert run(["mnist", "--images", "images", "--labels", "labels"]) == 1
    assert "5 images and 4 labels" in capsys.readouterr().err


@pytest.fixture
def stopped(here: Path) -> Iterator[subprocess.Popen[str]]:
    """Starts a long command and sends it SIGINT while it computes."""
    write_idx(Path("images"), np.zeros((2, 28, 28)))
    write_idx(Path("labels"), np.zeros(2))
    command = [*COMMAND, "mnist", "--images", "images", "--labels", "labels"]
    # If a shell runs the tests in the background, child processes inherit an ignored SIGINT, so the test restores the
    # default.
    usual = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=usual) as process:
        assert process.stdout is not None
        assert any("memory:" in line for line in iter(process.stdout.readline, "")), "the command ended before it computed"
        process.send_signal(signal.SIGINT)
        yield process


def test_ctrl_c_exits_without_a_traceback(stopped: subprocess.Popen[str], here: Path) -> None:
    """Ctrl-C exits with 130, prints one word and leaves no files."""
    _, complaint = stopped.communicate(timeout=60)
    assert (stopped.returncode, complaint) == (130, "heliograph: stopped\n")
    assert sorted(p.name for p in here.iterdir()) == ["images", "labels"]


def test_output_without_unicode(made: Path) -> None:
    """A terminal that has only ASCII gets ASCII shades."""
    pytest.importorskip("sklearn")
    environment = os.environ | {"PYTHONIOENCODING": "ascii", "LANG": "C"}
    done = subprocess.run([*COMMAND, "demo", "--count", "1"], capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert "##" in done.stdout
    assert done.stdout.isascii()


def test_importing_heliograph_imports_no_command() -> None:
    """Importing heliograph imports neither the libraries of the command nor those of the demo."""
    check = "import sys, heliograph; print({'typer', 'rich', 'sklearn', 'PIL', 'heliograph.cli'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
