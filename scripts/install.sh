#!/usr/bin/env bash
# install.sh EXTRA: builds the package and installs heliograph[EXTRA] into .venv. GPU=1: with the CUDA backend, for the
# GPUs that ARCHITECTURES names.
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"

export PATH=$PWD/$venv/bin:$PATH CMAKE_BUILD_PARALLEL_LEVEL=$jobs
# Several processes and hosts are tested where Open MPI and iproute2 are; the build finds MPI only if it is there before.
if [ "$1" = test ]; then
  wanted=()
  command -v mpicc >/dev/null && command -v mpirun >/dev/null || wanted+=(openmpi-bin libopenmpi-dev)
  command -v ip >/dev/null || wanted+=(iproute2)
  if [ ${#wanted[@]} != 0 ] && ! { can_apt && (quiet "install ${wanted[*]}" apt_install "${wanted[@]}"); }; then
    say "without ${wanted[*]} the tests of several hosts are skipped; run: sudo apt-get install ${wanted[*]}"
  fi
fi

with=() folder=build/python
if wants_gpu; then
  find_nvcc
  folder=build/python-gpu
  with=(--config-settings=cmake.define.HELIOGRAPH_CUDA=ON)
  [ -z "${ARCHITECTURES:-}" ] || with+=("--config-settings=cmake.define.CMAKE_CUDA_ARCHITECTURES=$ARCHITECTURES")
elif command -v nvidia-smi >/dev/null && nvidia-smi -L >/dev/null 2>&1; then
  say "a GPU is here; make build GPU=1 builds for it too (docs/gpu.md), this build computes on the processor's cores"
fi
[ -d "$folder" ] || say "the first build takes some minutes"
export SKBUILD_BUILD_DIR=$folder
quiet "build and install heliograph[$1]" \
  pip install --disable-pip-version-check --no-build-isolation "${with[@]}" ".[$1]"
