#!/usr/bin/env bash
# cpp-tests.sh PRESET: builds the C++ tests of a preset and runs them; with MATRIX=full those of the full matrix too.
# Exit status 77: skipped, no GoogleTest.
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
# Without it the tests of constant time say that they are skipped.
if [ "$preset" != sanitize ] && ! command -v valgrind >/dev/null && can_apt; then
  quiet "install valgrind" apt_install valgrind
fi
# Without it the installed package is linked through CMake alone.
if [ "$preset" != sanitize ] && ! command -v pkg-config >/dev/null && can_apt; then
  quiet "install pkg-config" apt_install pkg-config
fi
configure=(cmake --preset "$preset")
if [ "build/$preset" = "$tree" ]; then # the package's: the tests come on top
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
# GoogleTest's own counts: one ctest entry runs many cases.
count() { awk -v word="$1" '$1 == "[" && $2 == word && $3 == "]" { n += $4 } END { print n + 0 }' "build/$preset/Testing/Temporary/LastTest.log"; }
summary="$(count PASSED) passed"
skipped=$(count SKIPPED)
[ "$skipped" = 0 ] || summary+=", $skipped skipped"
echo "$summary" | tee "$logs/cpp-summary"
