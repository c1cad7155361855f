"""No argument, file or message of another process makes the library hang, crash or print unescaped text."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import availability_program
import ckks_rig
import heliograph as hg
import rigs
import tfhe_rig
from heliograph import _core
from heliograph.cli import rank, terminal

HERE = Path(__file__).parent
N = rigs.N
ESCAPES = "\x1b[31mred\x1b[0m\x07\u202eevil\u2066\r\nheliograph: all is well\x9b2J"
FORBIDDEN = ("\x1b", "\x07", "\u202e", "\u2066", "\x9b", "\r")


def run_python(body: str, limit: float = 120, **environment: str) -> str:
    """Runs a script in its own process, checks that it exits with 0 in time, and returns its output."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(body)],
        capture_output=True,
        text=True,
        timeout=limit,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)} | environment,
        check=False,
    )
    assert done.returncode == 0, (done.returncode, done.stdout[-2000:], done.stderr[-2000:])
    return done.stdout


# Arguments


def test_invalid_numbers_give_typed_errors_at_once() -> None:
    """Invalid values of every integer parameter of each public call give a typed error: no signal, no hang."""
    command = [sys.executable, str(HERE / "availability_program.py")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment) as process:
        try:
            said, _ = process.communicate(timeout=240)
        except subprocess.TimeoutExpired:
            process.kill()
            said, _ = process.communicate()
    lines = said.splitlines()
    assert process.returncode == 0, (process.returncode, lines[-3:])
    assert [line for line in lines if line.startswith("WRONG")] == []
    assert [line for line in lines if line.startswith("done ")] == [f"done {name}" for name in availability_program.GROUPS]


def party() -> tuple[hg.SecretKey, hg.Server, hg.Tensor]:
    """Returns a BFV key, a server and a tensor."""
    secret = hg.SecretKey.generate(hg.bfv.Parameters(_core.exact.Parameters(rigs.specs("w64"))))
    server = hg.Server(secret.evaluation_keys(rotations=[1]))
    return secret, server, server.bind(secret.encrypt(np.ones((3, N), dtype=int)))


def test_keys_of_another_scheme_are_refused() -> None:
    """Each parameter that takes keys refuses keys of another scheme and names this scheme."""
    _, server, x = party()
    y = ckks_rig.party().tensor(ckks_rig.real())
    wrong: list[Callable[[], Any]] = [
        lambda: hg.rotate_rows(x, 1, keys=ckks_rig.party().keys),
        lambda: hg.rotate_columns(x, keys=tfhe_rig.party().keys),
        lambda: hg.relinearize(x * x, keys=5),
        lambda: hg.ckks.rotate(y, 1, keys=server.keys),
        lambda: hg.ckks.sum_slots(y, keys=tfhe_rig.party().keys),
        lambda: hg.ckks.multiply(y, y, keys=server.keys),
        lambda: hg.ckks.polynomial(y, [1, 1], keys=server.keys),
    ]
    for call in wrong:
        with pytest.raises(hg.MismatchError, match="must be evaluation keys of"):
            call()


def test_the_engine_refuses_by_typed_errors() -> None:
    """If no overload of the extension fits, a DtypeError names the call. The error does not show nanobind's list of
    overloads.
    """
    secret, _, x = party()
    calls: dict[str, Callable[[], Any]] = {
        "add": lambda: _core.exact.add(x._core, tfhe_rig.party().tensor([1])._core),
        "reshape": lambda: _core.exact.reshape(x._core, [2**64]),
        "save": lambda: x._core.save(5),
        "generate": lambda: _core.exact.SecretKey.generate(None),
        "decrypt": lambda: secret._core.decrypt(ckks_rig.party().tensor(ckks_rig.real())._core),
        "named_spec": lambda: _core.tfhe.named_spec(10**5000),
        "lower": lambda: _core.ckks.lower(5, level="x"),
    }
    for name, call in calls.items():
        with pytest.raises(hg.DtypeError, match=f"^{name} does not take "):
            call()


def test_errors_for_numpy_functions_name_the_replacement() -> None:
    """NumPy's operators work on tensors. NumPy's functions are refused; the error has the name of the function and of its
    replacement.
    """
    secret, _, x = party()
    y = ckks_rig.party().tensor(ckks_rig.real())
    z = tfhe_rig.party().tensor(np.array([1, 2], dtype=np.uint8))
    for tensor in (x, y, z):
        for call, text in (
            (np.sum, "hg.sum"),
            (np.mean, "NumPy's mean"),
            (lambda t: np.concatenate([t, t]), "hg.concatenate"),
            (lambda t: np.stack([t, t]), "hg.stack"),
            (lambda t: np.dot(t, t), "hg.dot"),
            (np.exp, "NumPy's exp"),
            (np.asarray, "decrypt"),
        ):
            with pytest.raises(hg.DtypeError, match=text):
                call(tensor)
    ones = np.ones(3, dtype=np.int64)
    for made, expected in ((ones + x, 2), (np.int64(3) - x, 2), (np.multiply(ones * 5, x), 5), (np.subtract(x, ones), 0)):
        assert (secret.decrypt(made) == expected).all()
    tfhe_rig.party().check(np.array([3, 1], dtype=np.uint8) > z, [True, False])
    clear = np.full((1, ckks_rig.SLOTS), 2.0)
    assert np.allclose(ckks_rig.party().secret.decrypt(clear * y.reshape(1)), 2 * ckks_rig.real(), atol=1e-5)


def test_arguments_are_buffers_or_paths(tmp_path: Path) -> None:
    """Every contiguous buffer is read; an argument that is neither a buffer nor a path is refused."""
    secret, server, x = party()
    data = x.to_bytes()
    for given in (data, bytearray(data), memoryview(data), np.frombuffer(data, dtype=np.uint8)):
        assert (secret.decrypt(server.from_bytes(given)) == 1).all()
    keys, others = server.keys.to_bytes(), (ckks_rig.party(), tfhe_rig.party())
    assert hg.EvaluationKeys.from_bytes(memoryview(keys)).id == secret.id
    assert hg.PublicKey.from_bytes(bytearray(secret.public_key().to_bytes())).id == secret.id
    for other in others:
        assert type(other.keys).from_bytes(bytearray(other.keys.to_bytes())).id == other.secret.id
    for wrong in ("text", 5, None, memoryview(data)[::2]):
        with pytest.raises(hg.DtypeError, match="bytes"):
            server.from_bytes(wrong)
    for wrong in (b"bytes", data, 5, None, 1.5, io.BytesIO(data), "half \ud800"):
        for call in (hg.load, server.load, hg.SecretKey.load, hg.tfhe.SecretKey.load, hg.ckks.SecretKey.load, x.save):
            with pytest.raises(hg.DtypeError, match="a path must be"):
                call(wrong)
    with pytest.raises(hg.DtypeError, match="no null character"):
        hg.load("a\0b")


# Threads, Ctrl-C, forks


def test_threads_that_cannot_start_are_an_error() -> None:
    """If threads cannot start for lack of stack memory, the call fails at once; a later call with fewer threads succeeds."""
    out = run_python(
        """
        import os, resource
        import numpy as np
        import heliograph as hg

        def size():
            return int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()

        os.environ |= {"HELIOGRAPH_DEVICE": "cpu", "HELIOGRAPH_THREADS": "512"}
        resource.setrlimit(resource.RLIMIT_AS, (size() + (300 << 20), resource.RLIM_INFINITY))
        try:
            hg.bfv.parameters(n=1024, log_q=60, plain_modulus=12289, insecure=True)
        except hg.DeviceError as error:
            print("refused" if "thread" in str(error) else error)
        os.environ["HELIOGRAPH_THREADS"] = "2"
        p = hg.bfv.parameters(n=1024, log_q=60, plain_modulus=12289, insecure=True)
        secret = hg.SecretKey.generate(p)
        print((secret.decrypt(secret.encrypt(np.ones(1024, dtype=int))) == 1).all())
        """,
        60,
    )
    assert out.split() == ["refused", "True"]


#: Calls, and the number of signals that a single call must handle. Calls that take milliseconds handle one signal.
STEPS = {
    "a product of TFHE": ("tfhe * tfhe", 4),
    "keys of TFHE": ("[hg.SecretKey.generate(big).evaluation_keys() for _ in range(20)]", 4),
    "a search": ("hg.bfv.parameters(depth=30, plain_bits=60)", 1),
    "sums of BFV": ("bfv + bfv", 1),
    "an encryption": ("secret.encrypt(np.ones((1600, 8192), dtype=int))", 4),
}


@pytest.mark.parametrize("step", STEPS)
def test_ctrl_c_ends_a_call(step: str) -> None:
    """A call can be interrupted by Ctrl-C repeatedly before its end, also inside one layer of a circuit. Afterwards the same
    keys compute correctly.

    """
    call, signals = STEPS[step]
    out = run_python(
        f"""
        import os, signal, threading, time
        import numpy as np
        import heliograph as hg

        big = hg.tfhe.parameters()
        kind = {step!r}
        if "TFHE" in kind:
            owner = hg.SecretKey.generate(big)
            server = hg.Server(owner.evaluation_keys())
            tfhe = server.bind(owner.encrypt(np.arange(2000, dtype=np.uint16)))
        secret = hg.SecretKey.generate(hg.bfv.parameters(n=2**13, log_q=150, plain_modulus=65537))
        bfv = secret.encrypt(np.ones((40, 8192), dtype=int))
        number, handled, sent = 0, [], []  # number of the call in progress; numbers of calls when signals were handled, sent

        def heed(*_):
            handled.append(number)
            if handled.count(number) == {signals}:
                raise KeyboardInterrupt

        def press():
            while len(sent) == len(handled):
                sent.append(number)
                os.kill(os.getpid(), signal.SIGINT)
                while len(sent) > len(handled):
                    time.sleep(0.05)

        signal.signal(signal.SIGINT, heed)
        try:
            threading.Thread(target=press, daemon=True).start()
            for number in range(100):
                {call}
            print("no call handled enough signals:", sorted(handled))
        except KeyboardInterrupt:
            late = [done for begun, done in zip(sent, handled) if done > begun + 1]
            print("late" if late else "heeded")
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if "TFHE" in kind:
            some = server.bind(owner.encrypt(np.arange(3, dtype=np.uint8)))
            print((owner.decrypt(some + some) == [0, 2, 4]).all())
        else:
            print((secret.decrypt(bfv + bfv) == 2).all())
        """,
        240,
        HELIOGRAPH_DEVICE="cpu",
    )
    assert out.split() == ["heeded", "True"]


def test_every_use_after_a_fork_is_refused() -> None:
    """After a fork, every use in the child process is refused at once, in all schemes and in computations of the host alone."""
    out = run_python(
        """
        import os, pathlib, signal, sys, tempfile
        import numpy as np
        import heliograph as hg
        import ckks_rig, tfhe_rig

        folder = pathlib.Path(tempfile.mkdtemp())
        attempts = {}

        def prepare(name, p, values):
            secret = hg.SecretKey.generate(p)
            keys = secret.evaluation_keys()
            server = hg.Server(keys)
            x = server.bind(secret.encrypt(values))
            files = {kind: folder / f"{name}.{kind}" for kind in ("x", "keys", "secret", "public")}
            x.save(files["x"]), keys.save(files["keys"]), secret.save(files["secret"])
            x_bytes, keys_bytes = x.to_bytes(), keys.to_bytes()
            mine = {
                "generate": lambda: hg.SecretKey.generate(p),
                "evaluation keys": lambda: secret.evaluation_keys(),
                "encrypt": lambda: secret.encrypt(values),
                "decrypt": lambda: secret.decrypt(x),
                "add": lambda: x + x,
                "plus": lambda: x + 1,
                "negate": lambda: -x,
                "multiply": lambda: x * x,
                "wait": lambda: x.wait(),
                "save": lambda: x.save(folder / "y"),
                "save keys": lambda: keys.save(folder / "y"),
                "save secret": lambda: secret.save(folder / "y"),
                "to_bytes": lambda: x.to_bytes(),
                "keys to_bytes": lambda: keys.to_bytes(),
                "from_bytes": lambda: server.from_bytes(x_bytes),
                "keys from_bytes": lambda: type(keys).from_bytes(keys_bytes),
                "load": lambda: hg.load(files["x"]),
                "load keys": lambda: hg.load(files["keys"]),
                "load secret": lambda: hg.SecretKey.load(files["secret"]),
                "the same set": lambda: type(p._core)(p._core.spec),
            }
            if name == "tfhe":
                mine["trivial"] = lambda: hg.tfhe.trivial(keys, values)
            else:
                public = secret.public_key()
                public.save(files["public"])
                mine |= {
                    "public key": lambda: secret.public_key(),
                    "public encrypt": lambda: public.encrypt(values),
                    "public to_bytes": lambda: public.to_bytes(),
                    "load public": lambda: hg.load(files["public"]),
                    "encode": lambda: server.encode(values),
                    "sum": lambda: hg.sum(x.reshape(1), 0),
                }
            attempts.update({f"{name}: {what}": attempt for what, attempt in mine.items()})

        exact = dict(n=1024, log_q=60, plain_modulus=12289, insecure=True)
        prepare("bfv", hg.bfv.parameters(**exact), np.ones(1024, dtype=int))
        prepare("bgv", hg.bgv.parameters(**exact), np.ones(1024, dtype=int))
        prepare("ckks", ckks_rig.parameters(), np.ones(ckks_rig.SLOTS))
        prepare("tfhe", tfhe_rig.parameters("digits"), np.array([1, 2], dtype=np.uint8))
        attempts["a new set"] = lambda: hg.tfhe.parameters()
        attempts["a search"] = lambda: hg.parameters_for(lambda x: x + x, np.ones((1, 16), dtype=int), n=2048)
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            wrong = []
            for name, attempt in attempts.items():
                try:
                    attempt()
                    wrong.append(name)
                except hg.ForkError:
                    pass
            print(wrong, flush=True)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        """
    )
    assert out.strip() == "[]"


# Texts from files and ranks


def harmless(text: str) -> bool:
    """Returns whether a terminal shows the text and interprets no part of it."""
    return not any(c in text for c in FORBIDDEN) and "\nheliograph: all is well" not in text


NAME = "\x1b[31m\x07\u202e\u2066\r\nx\x9b2J"  # a set may have no longer name


def named_sets() -> dict[str, Any]:
    """Returns a set of each scheme whose name contains control characters, as a file may contain it."""
    # Renames copies of the sets, because tests share the sets.
    exact = _core.exact.Parameters(rigs.specs("w64")).spec
    ckks, tfhe = ckks_rig.parameters()._core.spec, tfhe_rig.parameters("bits")._core.spec
    for spec in (exact, ckks, tfhe):
        spec.name = NAME
    exact.slots = ckks.slots = 64  # other numbers: sets of equal numbers share one object, whatever their names
    tfhe.n = 34
    return {
        "bfv": (hg.bfv.Parameters(_core.exact.Parameters(exact)), np.ones(64, dtype=int)),
        "ckks": (hg.ckks.Parameters(_core.ckks.Parameters(ckks)), np.ones(64)),
        "tfhe": (hg.tfhe.Parameters(_core.tfhe.Parameters(tfhe)), np.array([True])),
    }


@pytest.mark.parametrize("scheme", ["bfv", "ckks", "tfhe"])
def test_names_from_files_are_escaped(scheme: str, tmp_path: Path) -> None:
    """Control characters in names are escaped in reprs, explanations, errors and the command's output."""
    parameters, values = named_sets()[scheme]
    secret = hg.SecretKey.generate(parameters)
    keys = secret.evaluation_keys()
    for thing, name in ((secret, "secret"), (keys, "keys"), (secret.encrypt(values), "x")):
        thing.save(tmp_path / name)
    shown = run_python(
        f"""
        import sys
        import heliograph as hg
        import ckks_rig, tfhe_rig
        from heliograph.cli import run

        keys, x = hg.load({str(tmp_path / "keys")!r}), hg.load({str(tmp_path / "x")!r})
        secret = hg.SecretKey.load({str(tmp_path / "secret")!r})
        server = hg.Server(keys)
        for thing in (keys, x, secret, server, keys.parameters):
            print(repr(thing))
        print(keys.parameters.explain())
        other = ckks_rig.party() if {scheme!r} == "tfhe" else tfhe_rig.party()
        for call in (lambda: other.server.bind(x), lambda: secret.decrypt(other.tensor([1.0] * 512 if other is not
                     tfhe_rig.party() else [1])), lambda: x + other.tensor([1] * 512), lambda: hg.load({str(tmp_path / "secret")!r})):
            try:
                call()
            except hg.HeliographError as error:
                print(error)
        sys.stdout.flush()
        for file in ("x", "keys", "secret"):
            assert run(["inspect", {str(tmp_path)!r} + "/" + file]) in (0, None)
        """
    )
    assert harmless(shown), shown
    assert shown.count("\\x1b[31m\\x07\\u202e\\u2066\\r\\nx\\x9b2J") >= 6, shown


def test_texts_are_escaped_before_a_terminal_sees_them(capsys: pytest.CaptureFixture[str]) -> None:
    """The command's output functions and the engine's errors escape control characters."""
    terminal.complain(ESCAPES)
    terminal.table("", ("name",), [(ESCAPES,)])
    terminal.say("line\n" + ESCAPES.replace("\r\n", ""))
    out, err = capsys.readouterr()
    for said in (out, err):
        assert harmless(said)
        assert "\\x1b[31mred" in said
    for call in (
        lambda: hg.bfv.parameters(ESCAPES),
        lambda: hg.tfhe.parameters(ESCAPES),
        lambda: hg.load("/nowhere/" + ESCAPES),
        lambda: hg.ckks.parameters(n=1024, levels=2, insecure=True, word_size=ESCAPES),
    ):
        with pytest.raises((hg.HeliographError, OSError)) as caught:
            call()
        assert harmless(str(caught.value))
        assert "\\x1b[31mred" in str(caught.value)


def test_lines_of_ranks_are_escaped(tmp_path: Path) -> None:
    """Lines from ranks are escaped and prefixed with the rank; no line can overwrite the prefix."""
    path = tmp_path / "out"
    source, sink = os.pipe()
    os.write(sink, "plain ä\n".encode() + ESCAPES.encode() + b"\xff\n50%\r100%")
    os.close(sink)
    rank._copy(source, os.open(path, os.O_WRONLY | os.O_CREAT), b"rank 3: ")
    text = path.read_text()
    assert text.splitlines()[0] == "rank 3: plain ä"
    assert not any(c in text for c in FORBIDDEN)
    assert all(line.startswith("rank 3: ") for line in text.split("\n")[:-1])
