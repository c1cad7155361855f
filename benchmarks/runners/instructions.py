"""Measures recorded programs exported as single-limb instructions, with each optimisation, and compares them with the recorded program.

    python -m benchmarks.runners.instructions --out benchmarks/results/mine-instructions.jsonl
    HELIOGRAPH_DEVICE=cuda:0 python -m benchmarks.runners.instructions --only bootstrap --chips 2 --beside cuda:1 --variants all --out benchmarks/results/two-instructions.jsonl
    HELIOGRAPH_DEVICE=cpu python -m benchmarks.runners.instructions --only bootstrap --variants all --out benchmarks/results/cores-instructions.jsonl

The cases are those of Kim's thesis (2025): bootstrapping with a set of 28-bit primes, rotations, a small network. The thesis's
optimisations (figure 5.1) are variants of the run: one call per instruction; one graph of such calls, sequential or with branches; similar
instructions merged; element-wise instructions fused. All variants give the bits of the recorded program."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import heliograph as hg
from benchmarks.cases import ckks as ckks_cases
from benchmarks.runners import common, mesh

#: Keywords of `Program.at` by variant, with the thesis's names.
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "calls": ("kernel by kernel", {"fuse": False, "merge": False, "graph": None}),
    "stream": ("a graph in sequence", {"fuse": False, "merge": False, "graph": "stream"}),
    "branches": ("a graph with branches", {"fuse": False, "merge": False}),
    "merged": ("merged (horizontal)", {"fuse": False}),
    "fused": ("fused (vertical)", {"merge": False}),
    "all": ("merged and fused", {}),
    "all-stream": ("the same, a graph in sequence", {"graph": "stream"}),
    "all-plain": ("the same, no cache hints", {"hints": False}),
    "all-calls": ("the same, no graph", {"graph": None}),
}


#: A recorded function with its server, operand and secret key.
Case = tuple[Any, Any, Any, Any]


def _bootstrap(name: str) -> Case:
    params = hg.ckks.parameters(name)
    secret = hg.SecretKey.generate(params)
    server = hg.Server(secret.evaluation_keys(bootstrap=True))
    values = np.random.default_rng(7).uniform(-1, 1, params.slots)
    x = server.bind(secret.encrypt(values, bound=1, level=params.bootstrapping_level))
    return hg.ckks.bootstrap, server, x, secret


def _rotations(_: str) -> Case:
    """Makes a case of sixty sequential rotations, which cannot share a decomposition."""
    params = hg.ckks.parameters(n=2**16, levels=24, log_scale=28, base_bits=45, special=8, word_size=32)
    secret = hg.SecretKey.generate(params)
    steps = list(range(1, 61))
    server = hg.Server(secret.evaluation_keys(rotations=steps))
    x = server.bind(secret.encrypt(np.random.default_rng(7).uniform(-1, 1, params.slots)))

    def turned(x: Any) -> Any:
        for k in steps[:30]:
            x = hg.ckks.rotate(hg.ckks.rotate(x, k), 61 - k)
        return x

    return turned, server, x, secret


def _network(name: str) -> Case:
    """Makes a case of a network with MNIST's shapes and random weights: 784 inputs, 128 squared units and 10 results."""
    params = hg.ckks.parameters(name)
    rng = np.random.default_rng(7)
    first = hg.ckks.LinearTransform(params, rng.normal(0, 0.05, (128, 784)))
    second = hg.ckks.LinearTransform(params, rng.normal(0, 0.05, (10, 128)), level=params.levels - 2)
    secret = hg.SecretKey.generate(params)
    server = hg.Server(secret.evaluation_keys(rotations=sorted({*first.rotations, *second.rotations})))
    x = server.bind(secret.encrypt(rng.uniform(0, 1, 784), pad=True))

    def network(x: Any) -> Any:
        hidden = first @ x
        return second @ (hidden * hidden)

    return network, server, x, secret


CASES: dict[str, tuple[str, Callable[[str], Case], str]] = {
    "bootstrap-28": ("a bootstrap, 28-bit primes, N=2^16", _bootstrap, "n16-b13/w32"),
    "bootstrap-w64": ("a bootstrap, 64-bit words, N=2^16", _bootstrap, "n16-b13"),
    "bootstrap-small": ("a bootstrap, N=2^15", _bootstrap, "n15-b4"),
    "rotations": ("60 rotations, one after the other, N=2^16", _rotations, ""),
    "network": ("784 x 128, squares, 128 x 10, N=2^15", _network, "n15-l20"),
}

CHIPS, SWITCHING, CHOSEN, BESIDE = 1, "broadcast", list(VARIANTS), list[str]()
ARITHMETIC = ""  # name of a build of the engine with FP64 arithmetic (workbench/fp64.cuh), if this is one


def _times(call: Callable[[], Any], seconds: float) -> tuple[float, float, int]:
    """Returns the median seconds of a call with the wait and without, after three warm-up calls, and the number of calls."""
    waited, alone = common.times_of(call, seconds, warm_up=3)
    return statistics.median(waited), statistics.median(alone), len(waited)


def _variant(name: str, written: Any, server: Any, x: Any, right: Callable[[Any], bool], seconds: float) -> dict[str, Any]:
    words, options = VARIANTS[name]
    run = written.at(server, devices=BESIDE, **options)
    first = []
    for _ in range(2):
        took, _, result = common.timed(lambda: run(x=x)["y"])
        first.append(took)
        if not right(result):
            raise SystemExit(f"{name}: the values differ from the recorded program's")
    replay, host, runs = _times(lambda: run(x=x)["y"], seconds)
    read, write, products = run.work
    return {
        "variant": name,
        "words": words,
        "devices": run.devices,
        "calls": run.calls,
        "kernels": run.kernels,
        "bytes_read": read,
        "bytes_written": write,
        "products": products,
        "bytes_held": run.nbytes,
        "first_s": first[0],
        "second_s": first[1],
        "replay_s": replay,
        "host_s": host,
        "runs": runs,
    }


def measure(name: str, seconds: float) -> dict[str, Any]:
    """Runs one case."""
    words, make, set_name = CASES[name]
    function, server, x, secret = make(set_name)
    program = hg.program(function, x)
    expected = secret.decrypt(program(x))
    eager_s, eager_host_s, _ = _times(lambda: function(x), seconds)
    program_s, program_host_s, runs = _times(lambda: program(x), seconds)
    named = {"inputs": ["x"], "results": ["y"]}
    write_s, _, written = common.timed(lambda: hg.cinnamon.write(program, chips=CHIPS, switching=SWITCHING, **named))
    texts = written.files()
    parse_s, _, again = common.timed(lambda: hg.cinnamon.Program.parse(texts))
    if again.files() != texts:
        raise SystemExit(f"{name}: the text changes when parsed and printed")

    def right(result: Any) -> bool:
        """Compares results bit for bit, or approximately if each chip divides by itself."""
        found = secret.decrypt(result)[..., : expected.shape[-1]]
        return bool(np.allclose(found, expected, atol=1e-3) if SWITCHING == "aggregate" else np.array_equal(found, expected))

    return {
        "program": name,
        "what": words,
        "parameters": ckks_cases.describe(server.keys.parameters),
        "chips": CHIPS,
        "switching": SWITCHING,
        "instructions": written.instructions,
        "counts": written.counts,
        "text_bytes": sum(map(len, texts.values())),
        "write_s": write_s,
        "parse_s": parse_s,
        "eager_s": eager_s,
        "eager_host_s": eager_host_s,
        "program_s": program_s,
        "program_host_s": program_host_s,
        "runs": runs,
        "variants": [_variant(v, written, server, x, right, seconds) for v in CHOSEN],
    }


def line(row: dict[str, Any]) -> str:
    """Formats a row for the terminal."""
    lines = [
        f"{row['what']}: {row['instructions']:,} instructions for {row['chips']}, written in {row['write_s']:.2f} s, parsed in {row['parse_s']:.3f} s; "
        f"eager {row['eager_s'] * 1e3:.2f} ms, recorded {row['program_s'] * 1e3:.2f} ms"
    ]
    for v in row["variants"]:
        moved = (v["bytes_read"] + v["bytes_written"]) / 1e9
        lines.append(
            f"  {v['words']:32s} {v['replay_s'] * 1e3:9.2f} ms (host {v['host_s'] * 1e3:8.3f}), first {v['first_s'] * 1e3:7.0f}, {v['calls']:6d} calls, {moved:6.2f} GB"
        )
    return "\n".join(lines)


def boards() -> dict[str, Any]:
    """Returns the GPUs in use."""
    return mesh.boards().describe()


def described() -> dict[str, Any]:
    """Returns additional fields of the machine."""
    return boards() | ({"arithmetic": ARITHMETIC} if ARITHMETIC else {})


def _taken(option: str, otherwise: str) -> str:
    """Removes an option of this program from the command line, before the runner parses it, and returns its value."""
    if option not in sys.argv:
        return otherwise
    at = sys.argv.index(option)
    value = sys.argv[at + 1]
    del sys.argv[at : at + 2]
    return value


def main() -> None:
    """Measures, prints and writes."""
    global CHIPS, SWITCHING, CHOSEN, BESIDE, ARITHMETIC
    CHIPS = int(_taken("--chips", "1"))
    SWITCHING = _taken("--switching", "broadcast")
    BESIDE = [name for name in _taken("--beside", "").split(",") if name]
    ARITHMETIC = _taken("--arithmetic", "")
    CHOSEN = _taken("--variants", ",".join(VARIANTS)).split(",")
    common.run_named("instructions", __doc__, CASES, measure, line, seconds=1.0, more=described)


if __name__ == "__main__":
    main()
