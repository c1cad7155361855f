# shellcheck shell=bash disable=SC2034
# Functions shared by the scripts of this folder; source it. Sourcing changes to the repository's root.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

venv=.venv
logs=build/logs
mkdir -p "$logs"
jobs=${JOBS:-$(nproc)}

# Tools of the environment run as modules, because their scripts contain the absolute path of their installation.
python=$venv/bin/python

say() { printf '%s\n' "heliograph: $*"; }
fail() { say "$@" >&2; exit 1; }

# quiet LABEL COMMAND...: runs the command with its output in $log, and prints one line with the time. On failure it also prints
# the failed assertions and the end of the output.
quiet() {
  local label=$1 start=$SECONDS
  log=$logs/$(tr -cs 'a-z0-9+' '-' <<<"${label,,}" | sed 's/-*$//').log
  shift
  printf 'heliograph: %s ... ' "$label"
  if "$@" >"$log" 2>&1; then
    echo "done ($((SECONDS - start)) s)"
  else
    echo "FAILED"
    grep -A 25 ': Failure$' "$log" | head -n 200 >&2 || true
    tail -n 60 "$log" >&2
    fail "$label failed; its whole output is in $log"
  fi
}

# own_build FOLDER: deletes a build folder that was configured in another place, as in a copied or moved clone.
own_build() {
  local cache=$1/CMakeCache.txt
  [ -f "$cache" ] || return 0
  [ "$(sed -n 's/^CMAKE_HOME_DIRECTORY:INTERNAL=//p' "$cache")" -ef . ] && return 0
  say "$1 was configured in another folder; it is rebuilt"
  rm -rf "$1"
}

# wants_gpu: succeeds if the CUDA backend is to be built. $tree: the build folder of the package and its tests.
wants_gpu() { [ -n "${GPU:-}" ] && [ "$GPU" != 0 ]; }
tree=build/release
if wants_gpu; then tree=build/cuda; fi
# definitions PREFIX: prints the CMake definitions of $tree, each with the prefix. Other cached values stay unchanged.
definitions() {
  if wants_gpu; then
    echo "$1HELIOGRAPH_CUDA=ON"
    echo "$1CMAKE_CUDA_ARCHITECTURES=${ARCHITECTURES:-}" # empty: resets to the default
  fi
  case ${WERROR:-} in
    "") ;;
    0) echo "$1HELIOGRAPH_WERROR=OFF" ;;
    *) echo "$1HELIOGRAPH_WERROR=ON" ;;
  esac
}
# find_nvcc: finds the CUDA compiler and sets CUDACXX if it is not on the PATH.
find_nvcc() {
  local usual=/usr/local/cuda/bin/nvcc
  if [ -z "${CUDACXX:-}" ] && ! command -v nvcc >/dev/null; then
    [ -x "$usual" ] || fail "GPU=1 needs nvcc of CUDA 12.4 or newer, on the PATH or named by CUDACXX; see docs/gpu.md"
    export CUDACXX=$usual
  fi
}

# can_apt: succeeds if Debian packages can be installed without a password.
can_apt() {
  command -v apt-get >/dev/null || return 1
  [ "$(id -u)" = 0 ] || { command -v sudo >/dev/null && sudo -n true 2>/dev/null; }
}
# Concurrent scripts, as in .ci/run, wait for each other.
apt() {
  local root=()
  [ "$(id -u)" = 0 ] || root=(sudo -n)
  flock "$logs/apt.lock" "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=120 "$@"
}
apt_install() {
  apt install -y --no-install-recommends "$@" || { apt update && apt install -y --no-install-recommends "$@"; }
}

# Python packages that the build needs besides CMake and Ninja, with their tested versions.
build_tools=(scikit-build-core==1.1.2 nanobind==3.1.0)
# make_venv PYTHON FOLDER: creates an environment. Without python3-venv, Debian's python3 has no ensurepip; its own pip then
# installs pip into the environment.
make_venv() {
  rm -rf "$2"
  "$1" -m venv "$2" && return
  rm -rf "$2"
  "$1" -m venv --without-pip "$2" && "$1" -m pip --python "$2/bin/python" install pip && return
  rm -rf "$2"
  can_apt && apt_install python3-venv && "$1" -m venv "$2"
}
