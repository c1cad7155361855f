#!/usr/bin/env bash
# cpp-tests.sh PRESET: builds and runs the C++ tests of a preset, with MATRIX=full also those of the full matrix.
# Exit status 77: skipped because GoogleTest is missing.
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"
preset=$1
export PATH=$PWD/$venv/bin:$PATH

has_gtest() { echo '#include <gtest/gtest.h>' | "${CXX:-c++}" -E -x c++ - >/dev/null 2>&1; }
if ! has_gtest; then
  if can_apt; then
    quiet "install libgtest-dev" apt_install libgtest-dev
  else
    say "C++ tests skipped: GoogleTest is missing; run: sudo apt-get install libgtest-dev"
    exit 77
  fi
fi
# valgrind: without it the constant-time tests are skipped.
if [ "$preset" != sanitize ] && ! command -v valgrind >/dev/null && can_apt; then
  quiet "install valgrind" apt_install valgrind
fi
# pkg-config: without it the installed package is tested only through CMake.
if [ "$preset" != sanitize ] && ! command -v pkg-config >/dev/null && can_apt; then
  quiet "install pkg-config" apt_install pkg-config
fi
configure=(cmake --preset "$preset")
if [ "build/$preset" = "$tree" ]; then # the package's build folder: only the tests are compiled
  if wants_gpu; then find_nvcc; fi
  mapfile -t with < <(definitions -D)
  configure=(cmake -S . -B "$tree" -G Ninja -DCMAKE_BUILD_TYPE=Release -DHELIOGRAPH_TESTS=ON "${with[@]}")
elif [ "$preset" = cuda ]; then
  find_nvcc
  [ -z "${ARCHITECTURES:-}" ] || configure+=("-DCMAKE_CUDA_ARCHITECTURES=$ARCHITECTURES")
fi
own_build "build/$preset"
quiet "configure the C++ tests ($preset)" "${configure[@]}"
quiet "build the C++ tests ($preset)" cmake --build --preset "$preset" -j "$jobs"
quiet "run the C++ tests ($preset)" ctest --preset "$preset" -j "$jobs" -C "${MATRIX:-usual}"
# The summary has GoogleTest's counts, because one ctest entry runs many cases.
count() { awk -v word="$1" '$1 == "[" && $2 == word && $3 == "]" { n += $4 } END { print n + 0 }' "build/$preset/Testing/Temporary/LastTest.log"; }
summary="$(count PASSED) passed"
skipped=$(count SKIPPED)
[ "$skipped" = 0 ] || summary+=", $skipped skipped"
echo "$summary" | tee "$logs/cpp-summary-$preset"
