#!/usr/bin/env bash
# install.sh EXTRA: builds the package and installs heliograph[EXTRA] into .venv.
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"

if command -v nvidia-smi >/dev/null && nvidia-smi -L >/dev/null 2>&1; then
  say "a GPU is here, but this version has no CUDA backend: it computes on the processor's cores"
fi
export PATH=$PWD/$venv/bin:$PATH CMAKE_BUILD_PARALLEL_LEVEL=$jobs SKBUILD_BUILD_DIR=build/python
[ -d build/python ] || say "the first build takes some minutes"
quiet "build and install heliograph[$1]" \
  pip install --disable-pip-version-check --no-build-isolation ".[$1]"
