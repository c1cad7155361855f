"""Compares a kernel that sums products of limbs by a table of terms with kernels generated for each list and compiled by NVRTC.

The sums are a key switch's: 27 limbs of 2^16 32-bit words, two components, three digits, and a weighted addend.

    python workbench/sums_generated.py --out workbench/results/h200-sums-generated.jsonl

Needs PyTorch for memory and timing, and NVRTC of CUDA 12 or 13.
"""

from __future__ import annotations

import argparse
import ctypes
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks.report import results
from benchmarks.runners import common

N, LIMBS, DIGITS = 1 << 16, 27, 3
PRIMES = [
    (1 << 28) - 2**17 * k + 1 for k in range(1, LIMBS + 1)
]  # odd 28-bit numbers; the cost of the arithmetic does not depend on primality

COMMON = r"""
typedef unsigned int u32; typedef unsigned long long u64;
struct alignas(16) Four { u32 at[4]; };
__device__ __forceinline__ u32 reduced(u64 x, u64 mu, u32 q) {
  u64 r = x - __umul64hi(x, mu) * q;
  r = r >= q ? r - q : r;
  return r >= q ? (u32)(r - q) : (u32)r;
}
"""
TABLE = (
    COMMON
    + r"""
struct Term { const u32* a; const u32* b; u32 weight, unused; };
struct Sum { u32* out; u64 mu; u32 q, first, count, unused; };
extern "C" __global__ void __launch_bounds__(256) sums(const Term* terms, const Sum* list) {
  const Sum s = list[blockIdx.y];
  const u32 i = blockIdx.x * 256 + threadIdx.x;
  u64 total[4] = {};
  for (u32 k = 0; k < s.count; ++k) {
    const Term t = terms[s.first + k];
    const Four x = ((const Four*)t.a)[i];
    Four y;
    if (t.b) y = ((const Four*)t.b)[i];
    for (int w = 0; w < 4; ++w) total[w] += (u64)x.at[w] * (t.b ? y.at[w] : t.weight);
  }
  Four r;
  for (int w = 0; w < 4; ++w) r.at[w] = reduced(total[w], s.mu, s.q);
  ((Four*)s.out)[i] = r;
}
"""
)


class Nvrtc:
    """Compiles CUDA sources by NVRTC and launches their kernels through the driver."""

    def __init__(self) -> None:
        for name in ("libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12", "/usr/local/cuda/lib64/libnvrtc.so"):
            try:
                self.compiler = ctypes.CDLL(name)
                break
            except OSError:
                continue
        self.driver = ctypes.CDLL("libcuda.so.1")
        torch.zeros(1, device="cuda")

    def kernel(self, source: str) -> tuple[Any, float]:
        """Compiles `sums` from a source and returns the kernel and the seconds taken."""
        start = time.perf_counter()
        program, size = ctypes.c_void_p(), ctypes.c_size_t()
        done = self.compiler.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"sums.cu", 0, None, None)
        major, minor = torch.cuda.get_device_capability()
        options = (ctypes.c_char_p * 2)(f"--gpu-architecture=sm_{major}{minor}".encode(), b"--std=c++17")
        done = done or self.compiler.nvrtcCompileProgram(program, 2, options)
        if done:
            self.compiler.nvrtcGetProgramLogSize(program, ctypes.byref(size))
            log = ctypes.create_string_buffer(size.value)
            self.compiler.nvrtcGetProgramLog(program, log)
            raise SystemExit(log.value.decode())
        self.compiler.nvrtcGetCUBINSize(program, ctypes.byref(size))
        image = ctypes.create_string_buffer(size.value)
        self.compiler.nvrtcGetCUBIN(program, image)
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        if self.driver.cuModuleLoadData(ctypes.byref(module), image):
            raise SystemExit("cannot load the compiled kernel")
        self.driver.cuModuleGetFunction(ctypes.byref(function), module, b"sums")
        return function, time.perf_counter() - start

    def launch(self, function: Any, blocks: tuple[int, int], *pointers: int) -> None:
        values = [ctypes.c_void_p(p) for p in pointers]
        arguments = (ctypes.c_void_p * max(len(values), 1))(*[ctypes.addressof(v) for v in values])
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        if self.driver.cuLaunchKernel(function, *blocks, 1, 256, 1, 1, 0, stream, arguments, None):
            raise SystemExit("cannot launch a kernel")


def main() -> None:
    """Runs both variants alternately and compares their results."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--out", type=Path)
    out_path = parser.parse_args().out
    nvrtc = Nvrtc()
    words = lambda *shape: torch.randint(0, 1 << 27, (*shape, N), dtype=torch.int32, device="cuda")  # noqa: E731
    digits, keys, added = words(DIGITS, LIMBS), words(DIGITS, 2, LIMBS), words(2, LIMBS)
    outs = [torch.zeros((2, LIMBS, N), dtype=torch.int32, device="cuda") for _ in range(2)]
    weights = [pow(2, 60, q) for q in PRIMES]
    terms: list[tuple[int, int, int]] = []
    sums: list[tuple[int, int, int]] = []
    for c in range(2):
        for limb, q in enumerate(PRIMES):
            sums.append((c * LIMBS + limb, len(terms), q))
            terms += [(digits[j, limb].data_ptr(), keys[j, c, limb].data_ptr(), 0) for j in range(DIGITS)]
            terms.append((added[c, limb].data_ptr(), 0, weights[limb]))
    each = DIGITS + 1
    packed_terms = torch.tensor([v for a, b, w in terms for v in (a, b, w)], dtype=torch.int64, device="cuda")
    packed_sums = torch.tensor(
        [
            v
            for place, first, q in sums
            for v in (
                outs[0].data_ptr() + place * N * 4,
                (2**64 - 1) // q - (2**64 if (2**64 - 1) // q >= 2**63 else 0),
                q | first << 32,
                each,
            )
        ],
        dtype=torch.int64,
        device="cuda",
    )
    lines = []
    for number, (place, first, q) in enumerate(sums):
        body = "".join(
            f"x = ((const Four*){a}ull)[i]; "
            + (
                f"y = ((const Four*){b}ull)[i]; for (int w = 0; w < 4; ++w) total[w] += (u64)x.at[w] * y.at[w]; "
                if b
                else f"for (int w = 0; w < 4; ++w) total[w] += (u64)x.at[w] * {w}u; "
            )
            for a, b, w in terms[first : first + each]
        )
        target = outs[1].data_ptr() + place * N * 4
        lines.append(
            f"case {number}: {{ {body} for (int w = 0; w < 4; ++w) r.at[w] = reduced(total[w], {(2**64 - 1) // q}ull, {q}u); ((Four*){target}ull)[i] = r; break; }}"
        )
    generated = (
        COMMON
        + 'extern "C" __global__ void __launch_bounds__(256) sums() {\n  const u32 i = blockIdx.x * 256 + threadIdx.x;\n  u64 total[4] = {}; Four x, y, r;\n  switch (blockIdx.y) {\n'
        + "\n".join(lines)
        + "\n  }\n}\n"
    )
    table, table_compile = nvrtc.kernel(TABLE)
    made, made_compile = nvrtc.kernel(generated)
    blocks = (N // 4 // 256, len(sums))
    calls = {
        "table": lambda: nvrtc.launch(table, blocks, packed_terms.data_ptr(), packed_sums.data_ptr()),
        "generated": lambda: nvrtc.launch(made, blocks),
    }
    for call in calls.values():
        call()
    torch.cuda.synchronize()
    if not torch.equal(outs[0], outs[1]):
        raise SystemExit("the results of the two kernels differ")
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(40):
        for name, call in calls.items():
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            for _ in range(20):
                call()
            end.record()
            end.synchronize()
            taken[name].append(begin.elapsed_time(end) / 20e3)
    moved = (len(sums) * N * 4) * (2 * DIGITS + 2)
    rows = [
        {"way": name, "seconds": statistics.median(times), "runs": len(times), "compile_s": compiled, "bytes": moved}
        for (name, times), compiled in zip(taken.items(), (table_compile, made_compile), strict=True)
    ]
    for row in rows:
        print(
            f"{row['way']:10s} {row['seconds'] * 1e6:7.1f} us, {row['bytes'] / row['seconds'] / 1e12:.2f} TB/s, compiled in {row['compile_s'] * 1e3:.0f} ms"
        )
    machine = common.machine() | {"device": torch.cuda.get_device_name()}
    results.save(out_path, common.report(rows, machine, kind="sums-generated"))


if __name__ == "__main__":
    main()
