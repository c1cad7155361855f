#!/usr/bin/env bash
# install.sh: builds the package and installs it into .venv; GPU=1 adds the CUDA backend for the GPUs of ARCHITECTURES. The tests
# (cpp-tests.sh) use the same build folder.
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"

export PATH=$PWD/$venv/bin:$PATH CMAKE_BUILD_PARALLEL_LEVEL=$jobs
if wants_gpu; then
  find_nvcc
elif command -v nvidia-smi >/dev/null && nvidia-smi -L >/dev/null 2>&1; then
  say "this machine has a GPU, but this build uses only CPU cores; make build GPU=1 adds the CUDA backend (docs/gpu.md)"
fi
own_build "$tree"
[ -d "$tree" ] || say "the first build takes some minutes"
export SKBUILD_BUILD_DIR=$tree
mapfile -t with < <(definitions --config-settings=cmake.define.)
quiet "build and install heliograph" \
  "$python" -m pip install --disable-pip-version-check --no-build-isolation "${with[@]}" .
