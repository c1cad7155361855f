#!/usr/bin/env bash
# install.sh: builds the package and installs it into .venv. GPU=1: with the CUDA backend, for the GPUs that ARCHITECTURES
# names.
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"

export PATH=$PWD/$venv/bin:$PATH CMAKE_BUILD_PARALLEL_LEVEL=$jobs
with=() folder=build/python
if wants_gpu; then
  find_nvcc
  folder=build/python-gpu
  with=(--config-settings=cmake.define.HELIOGRAPH_CUDA=ON)
  [ -z "${ARCHITECTURES:-}" ] || with+=("--config-settings=cmake.define.CMAKE_CUDA_ARCHITECTURES=$ARCHITECTURES")
elif command -v nvidia-smi >/dev/null && nvidia-smi -L >/dev/null 2>&1; then
  say "a GPU is here; make build GPU=1 builds for it too (docs/gpu.md), this build computes on the processor's cores"
fi
own_build "$folder"
[ -d "$folder" ] || say "the first build takes some minutes"
export SKBUILD_BUILD_DIR=$folder
quiet "build and install heliograph" \
  "$python" -m pip install --disable-pip-version-check --no-build-isolation "${with[@]}" .
