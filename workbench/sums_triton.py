"""Computes the sums of sums_generated.py in Triton, as Kim's thesis (2025) did once, and in CUDA.

Variants: kernels of one instruction each (a product of limbs, a product by a number, a sum), and one kernel for whole sums.

    python workbench/sums_triton.py --out workbench/results/mine-sums-triton.jsonl

The program stops if results differ. Needs PyTorch, Triton and NVRTC.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import sums_generated as base
import torch
import triton
import triton.language as tl

BLOCK = 1024  # words a Triton program


@triton.jit
def reduced(x, mu, q):
    """Returns x modulo q; mu = floor((2^64 - 1) / q)."""
    r = x - tl.umulhi(x, mu) * q
    r = tl.where(r >= q, r - q, r)
    return tl.where(r >= q, r - q, r)


@triton.jit
def multiply(a, b, out, q, mu, block: tl.constexpr):
    """Multiplies two limbs."""
    i = tl.program_id(0) * block + tl.arange(0, block)
    x = tl.load(a + i).to(tl.uint64) * tl.load(b + i).to(tl.uint64)
    tl.store(out + i, reduced(x, mu.to(tl.uint64, bitcast=True), q.to(tl.uint64)).to(tl.int32))


@triton.jit
def multiply_by(a, number, out, q, mu, block: tl.constexpr):
    """Multiplies a limb by a number."""
    i = tl.program_id(0) * block + tl.arange(0, block)
    x = tl.load(a + i).to(tl.uint64) * number.to(tl.uint64)
    tl.store(out + i, reduced(x, mu.to(tl.uint64, bitcast=True), q.to(tl.uint64)).to(tl.int32))


@triton.jit
def add(a, b, out, q, block: tl.constexpr):
    """Adds two limbs."""
    i = tl.program_id(0) * block + tl.arange(0, block)
    s = tl.load(a + i) + tl.load(b + i)
    tl.store(out + i, tl.where(s >= q, s - q, s).to(tl.int32))


@triton.jit
def fused(
    digits,
    keys,
    added,
    weights,
    primes,
    mus,
    out,
    n: tl.constexpr,
    limb_count: tl.constexpr,
    digit_count: tl.constexpr,
    block: tl.constexpr,
):
    """Computes a whole sum; program_id(1) is the index of component and limb."""
    i = tl.program_id(0) * block + tl.arange(0, block)
    place = tl.program_id(1)
    limb = place % limb_count
    total = tl.load(added + place * n + i).to(tl.uint64) * tl.load(weights + limb).to(tl.uint64)
    for j in tl.static_range(digit_count):
        x = tl.load(digits + (j * limb_count + limb) * n + i).to(tl.uint64)
        total += x * tl.load(keys + (j * 2 * limb_count + place) * n + i).to(tl.uint64)
    mu = tl.load(mus + limb).to(tl.uint64, bitcast=True)
    tl.store(out + place * n + i, reduced(total, mu, tl.load(primes + limb).to(tl.uint64)).to(tl.int32))


#: The same instructions in CUDA, four words a thread: parameters | result of word w.
CUDA = {
    "multiply": "const Four* a, const Four* b, Four* out, u64 q, u64 mu|reduced((u64)x.at[w] * b[i].at[w], mu, (u32)q)",
    "multiply_by": "const Four* a, u64 number, Four* out, u64 q, u64 mu|reduced(x.at[w] * number, mu, (u32)q)",
    "add": "const Four* a, const Four* b, Four* out, u64 q|min(x.at[w] + b[i].at[w], x.at[w] + b[i].at[w] - (u32)q)",
}


def cuda_source(name: str) -> str:
    """Returns the source of an instruction's kernel."""
    parameters, word = CUDA[name].split("|")
    return (
        base.COMMON
        + f'extern "C" __global__ void __launch_bounds__(256) sums({parameters}) {{\n'
        + "  const u32 i = blockIdx.x * 256 + threadIdx.x;\n  const Four x = a[i];\n  Four r;\n"
        + f"  for (int w = 0; w < 4; ++w) r.at[w] = {word};\n  out[i] = r;\n}}\n"
    )


def signed(value: int) -> int:
    """Returns an unsigned 64-bit value as PyTorch's int64."""
    return value - 2**64 if value >= 2**63 else value


def graph_of(call: Callable[[], None]) -> Callable[[], None]:
    """Captures the call's launches as a sequential graph."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


def main() -> None:
    """Runs all variants alternately and compares their results."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--out", type=Path)
    out_path = parser.parse_args().out
    n, limbs, digit_count = base.N, base.LIMBS, base.DIGITS
    nvrtc = base.Nvrtc()
    words = lambda *shape: torch.randint(0, 1 << 27, (*shape, n), dtype=torch.int32, device="cuda")  # noqa: E731
    digits, keys, added = words(digit_count, limbs), words(digit_count, 2, limbs), words(2, limbs)
    weights = [pow(2, 60, q) for q in base.PRIMES]
    mus = [(2**64 - 1) // q for q in base.PRIMES]
    on_device = lambda values: torch.tensor(values, dtype=torch.int64, device="cuda")  # noqa: E731
    tables = (on_device(weights), on_device(base.PRIMES), on_device([signed(mu) for mu in mus]))
    places = [(c, limb) for c in range(2) for limb in range(limbs)]

    made: dict[str, torch.Tensor] = {}
    ways: dict[str, tuple[str, int, Callable[[], None]]] = {}

    def way(name: str, words_of_it: str, launches: int, call: Callable[[torch.Tensor], None]) -> None:
        out = made[name] = torch.zeros((2, limbs, n), dtype=torch.int32, device="cuda")
        ways[name] = (words_of_it, launches, lambda: call(out))

    # sums_generated.py's kernel with its table of terms.
    table, _ = nvrtc.kernel(base.TABLE)
    terms = on_device(
        [
            v
            for c, limb in places
            for v in (
                *(p for j in range(digit_count) for p in (digits[j, limb].data_ptr(), keys[j, c, limb].data_ptr(), 0)),
                *(added[c, limb].data_ptr(), 0, weights[limb]),
            )
        ]
    )
    each = digit_count + 1
    lists: dict[int, torch.Tensor] = {}

    def by_table(out: torch.Tensor) -> None:
        if out.data_ptr() not in lists:
            lists[out.data_ptr()] = on_device(
                [
                    v
                    for k, (c, limb) in enumerate(places)
                    for v in (out[c, limb].data_ptr(), signed(mus[limb]), base.PRIMES[limb] | k * each << 32, each)
                ]
            )
        nvrtc.launch(table, (n // 1024, len(places)), terms.data_ptr(), lists[out.data_ptr()].data_ptr())

    def by_triton(out: torch.Tensor) -> None:
        fused[(n // BLOCK, len(places))](
            digits, keys, added, *tables, out, n=n, limb_count=limbs, digit_count=digit_count, block=BLOCK
        )

    temporary = torch.zeros((2, n), dtype=torch.int32, device="cuda")

    def one_by_one(out: torch.Tensor, instruction: Callable[..., None]) -> None:
        for c, limb in places:
            q, mu, total, product = base.PRIMES[limb], mus[limb], out[c, limb], temporary[0]
            instruction("multiply_by", added[c, limb], weights[limb], total, q, mu)
            for j in range(digit_count):
                instruction("multiply", digits[j, limb], keys[j, c, limb], product, q, mu)
                instruction("add", total, product, total, q)

    kernels = {"multiply": multiply, "multiply_by": multiply_by, "add": add}

    def in_triton(name: str, *arguments: Any) -> None:
        *rest, last = arguments
        kernels[name][(n // BLOCK,)](*rest, signed(last), block=BLOCK)

    compiled = {name: nvrtc.kernel(cuda_source(name))[0] for name in CUDA}

    def in_cuda(name: str, *arguments: Any) -> None:
        nvrtc.launch(
            compiled[name], (n // 1024, 1), *(a.data_ptr() if isinstance(a, torch.Tensor) else a for a in arguments)
        )

    count = len(places) * (1 + 2 * digit_count)
    way("cuda-calls", "CUDA, an instruction a kernel", count, lambda out: one_by_one(out, in_cuda))
    way("triton-calls", "Triton, an instruction a kernel", count, lambda out: one_by_one(out, in_triton))
    way("cuda-table", "CUDA, one kernel and a list (sums_generated.py)", 1, by_table)
    way("triton-fused", "Triton, one kernel", 1, by_triton)
    first: dict[str, float] = {}
    for name, (_, _, call) in ways.items():
        start = time.perf_counter()
        call()
        torch.cuda.synchronize()
        first[name] = time.perf_counter() - start
    for name in ("cuda-calls", "triton-calls"):
        made[f"{name}-graph"] = made[name]
        ways[f"{name}-graph"] = (f"{ways[name][0]}, as a graph", count, graph_of(ways[name][2]))
    expected = made["cuda-table"].clone()
    for name, (_, _, call) in ways.items():
        made[name].zero_()
        call()
        torch.cuda.synchronize()
        if not torch.equal(made[name], expected):
            raise SystemExit(f"{name} differs from cuda-table")
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(20):
        for name, (_, launches, call) in ways.items():
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            times = 20 if launches == 1 else 2
            begin.record()
            for _ in range(times):
                call()
            end.record()
            end.synchronize()
            taken[name].append(begin.elapsed_time(end) / times * 1e-3)
    rows = [
        {
            "way": name,
            "words": words_of_it,
            "launches": launches,
            "seconds": statistics.median(taken[name]),
            "runs": len(taken[name]),
            "first_s": first.get(name),
        }
        for name, (words_of_it, launches, _) in ways.items()
    ]
    for row in rows:
        print(f"{row['words']:50s} {row['launches']:5d} launches {row['seconds'] * 1e6:9.1f} us")
    machine = base.common.machine() | {"device": torch.cuda.get_device_name(), "triton": triton.__version__}
    base.results.save(out_path, base.common.report(rows, machine, kind="sums-triton"))


if __name__ == "__main__":
    main()
