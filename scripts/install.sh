#!/usr/bin/env bash
# install.sh: builds the package and installs it into .venv. GPU=1: with the CUDA backend, for the GPUs that ARCHITECTURES
# names. Its build folder is that of its tests too (cpp-tests.sh), which compile nothing of it again.
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"

export PATH=$PWD/$venv/bin:$PATH CMAKE_BUILD_PARALLEL_LEVEL=$jobs
if wants_gpu; then
  find_nvcc
elif command -v nvidia-smi >/dev/null && nvidia-smi -L >/dev/null 2>&1; then
  say "a GPU is here; make build GPU=1 builds for it too (docs/gpu.md), this build computes on the processor's cores"
fi
own_build "$tree"
[ -d "$tree" ] || say "the first build takes some minutes"
export SKBUILD_BUILD_DIR=$tree
mapfile -t with < <(definitions --config-settings=cmake.define.)
quiet "build and install heliograph" \
  "$python" -m pip install --disable-pip-version-check --no-build-isolation "${with[@]}" .
