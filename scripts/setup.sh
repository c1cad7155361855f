#!/usr/bin/env bash
# A virtual environment in .venv with what the build needs. Changes nothing outside it, except for Debian packages
# that are missing (python3-dev; verilator; python3-venv where pip cannot help), installed where no password is asked.
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"
base=${PYTHON:-python3}

command -v "$base" >/dev/null || fail "there is no $base; on Debian: apt-get install python3 python3-pip"
"$base" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
  fail "$("$base" --version) is too old: 3.11 or newer is needed (make PYTHON=python3.x chooses another)"
command -v "${CXX:-c++}" >/dev/null || fail "there is no C++ compiler; on Debian: apt-get install g++"

has_headers() {
  "$base" -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))'
}
if ! has_headers; then
  can_apt || fail "Python's headers are missing; run: sudo apt-get install python3-dev"
  quiet "install python3-dev" apt_install python3-dev
  has_headers || fail "$base has no headers (Python.h); make PYTHON=... chooses another"
fi
# Without it the build has no simulated co-processor, and what tests it says that it is skipped.
if ! command -v verilator >/dev/null && can_apt; then
  (quiet "install verilator" apt_install verilator) || say "without verilator there is no simulated co-processor"
fi

# The programs of an environment name the folder it was made in: in a copied or moved clone they run another's, or nothing.
is_own() { [ ! -f "$venv/bin/pip" ] || [ "$(sed -n '1,2s:[^/]*\(/.*\)/bin/python.*:\1:p' "$venv/bin/pip" | head -n 1)" -ef "$venv" ]; }
if ! is_own; then
  say "$venv was made in another folder; it is made anew"
  rm -rf "$venv"
fi
if ! "$python" -m pip --version >/dev/null 2>&1; then
  quiet "make a virtual environment in $venv" make_venv "$base" "$venv"
  pwd -P >"$venv/.place"
  rm -rf build/release build/cuda # they remember the old one
fi

# The build's tools live in the environment, so that a second build starts from the first.
tools=("${build_tools[@]}")
recent_cmake() { cmake --version 2>/dev/null | awk 'NR == 1 { split($3, v, "."); exit !(v[1] > 3 || v[1] == 3 && v[2] >= 25) }'; }
recent_cmake || tools+=(cmake)
command -v ninja >/dev/null || tools+=(ninja)
quiet "install the build's tools" "$python" -m pip install --disable-pip-version-check "${tools[@]}"
