# shellcheck shell=bash disable=SC2034
# Shared by the scripts of this folder; source it. Everything works from the repository's root.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

venv=.venv
logs=build/logs
mkdir -p "$logs"
jobs=${JOBS:-$(nproc)}

# Programs of the environment are called as its modules: their files name the folder that they were installed in.
python=$venv/bin/python

say() { printf '%s\n' "heliograph: $*"; }
fail() { say "$@" >&2; exit 1; }

# quiet LABEL COMMAND...: one line with the time it took, the output in $log; where it fails, what failed tests said and the
# end of the output on the screen.
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

# own_build FOLDER: a build folder remembers where it was configured; one that came with a copied or moved clone goes.
own_build() {
  local cache=$1/CMakeCache.txt
  [ -f "$cache" ] || return 0
  [ "$(sed -n 's/^CMAKE_HOME_DIRECTORY:INTERNAL=//p' "$cache")" -ef . ] && return 0
  say "$1 was configured in another folder; it is built anew"
  rm -rf "$1"
}

# Whether the CUDA backend is to be built, and where: one build folder for the package and for its tests.
wants_gpu() { [ -n "${GPU:-}" ] && [ "$GPU" != 0 ]; }
tree=build/release
if wants_gpu; then tree=build/cuda; fi
# definitions PREFIX: what that folder is told besides, each with the prefix. What is not said stays as it was there.
definitions() {
  if wants_gpu; then
    echo "$1HELIOGRAPH_CUDA=ON"
    echo "$1CMAKE_CUDA_ARCHITECTURES=${ARCHITECTURES:-}" # empty: the default, whatever the folder had
  fi
  case ${WERROR:-} in
    "") ;;
    0) echo "$1HELIOGRAPH_WERROR=OFF" ;;
    *) echo "$1HELIOGRAPH_WERROR=ON" ;;
  esac
}
# The CUDA compiler, where CMake will look for it.
find_nvcc() {
  local usual=/usr/local/cuda/bin/nvcc
  if [ -z "${CUDACXX:-}" ] && ! command -v nvcc >/dev/null; then
    [ -x "$usual" ] || fail "GPU=1 needs nvcc of CUDA 12.4 or newer, on the PATH or named by CUDACXX; see docs/gpu.md"
    export CUDACXX=$usual
  fi
}

# Whether Debian packages can be installed without asking for a password.
can_apt() {
  command -v apt-get >/dev/null || return 1
  [ "$(id -u)" = 0 ] || { command -v sudo >/dev/null && sudo -n true 2>/dev/null; }
}
apt() {
  local root=()
  [ "$(id -u)" = 0 ] || root=(sudo -n)
  "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=120 "$@"
}
apt_install() {
  apt install -y --no-install-recommends "$@" || { apt update && apt install -y --no-install-recommends "$@"; }
}

# What building the package needs besides CMake and Ninja, at the versions that it is built by here.
build_tools=(scikit-build-core==1.1.2 nanobind==3.1.0)
# make_venv PYTHON FOLDER. Debian's python3 has no ensurepip without python3-venv, but its pip can fill an environment from outside.
make_venv() {
  rm -rf "$2"
  "$1" -m venv "$2" && return
  rm -rf "$2"
  "$1" -m venv --without-pip "$2" && "$1" -m pip --python "$2/bin/python" install pip && return
  rm -rf "$2"
  can_apt && apt_install python3-venv && "$1" -m venv "$2"
}
