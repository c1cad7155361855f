#!/usr/bin/env bash
# setup.sh: creates a virtual environment in .venv with the build's tools. The script changes only .venv, and installs
# missing Debian packages if no password is needed (python3-dev; verilator; python3-venv if pip is not enough). shellcheck
# source=scripts/common.sh
source "$(dirname "$0")/common.sh"
base=${PYTHON:-python3}

command -v "$base" >/dev/null || fail "there is no $base; on Debian: apt-get install python3 python3-pip"
"$base" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
  fail "$("$base" --version) is too old: 3.11 or newer is needed (make PYTHON=python3.x selects another)"
command -v "${CXX:-c++}" >/dev/null || fail "there is no C++ compiler; on Debian: apt-get install g++"

has_headers() {
  "$base" -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))'
}
if ! has_headers; then
  can_apt || fail "Python's headers are missing; run: sudo apt-get install python3-dev"
  quiet "install python3-dev" apt_install python3-dev
  has_headers || fail "$base has no headers (Python.h); make PYTHON=... selects another"
fi
# verilator: without it the build has no simulated co-processor, and its tests are skipped.
if ! command -v verilator >/dev/null && can_apt; then
  (quiet "install verilator" apt_install verilator) || say "the build has no simulated co-processor, because verilator is missing"
fi

# is_own: succeeds if the scripts of the environment contain its present path. In a copied or moved clone they do not.
is_own() { [ ! -f "$venv/bin/pip" ] || [ "$(sed -n '1,2s:[^/]*\(/.*\)/bin/python.*:\1:p' "$venv/bin/pip" | head -n 1)" -ef "$venv" ]; }
if ! is_own; then
  say "$venv was made in another folder; it is recreated"
  rm -rf "$venv"
fi
if ! "$python" -m pip --version >/dev/null 2>&1; then
  quiet "make a virtual environment in $venv" make_venv "$base" "$venv"
  pwd -P >"$venv/.place"
  rm -rf build/release build/cuda # they contain paths of the old environment
fi

# The build's tools are installed in the environment, so that later builds are incremental.
tools=("${build_tools[@]}")
recent_cmake() { cmake --version 2>/dev/null | awk 'NR == 1 { split($3, v, "."); exit !(v[1] > 3 || v[1] == 3 && v[2] >= 25) }'; }
recent_cmake || tools+=(cmake)
command -v ninja >/dev/null || tools+=(ninja)
quiet "install the build's tools" "$python" -m pip install --disable-pip-version-check "${tools[@]}"
