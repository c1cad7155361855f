#!/usr/bin/env bash
# fuzz.sh [SECONDS]: builds the fuzz targets and runs all in parallel (60 s), starting from the inputs of earlier runs.
# fuzz.sh keep: adds small inputs with new coverage to tests/fuzz/corpus.tar.xz.
# fuzz.sh coverage [RUNS]: measures which lines of the readers run in a replay of the corpus and in RUNS (20,000) executions
# per target. shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"
what=${1:-60}
program=build/fuzz/tests/fuzz/heliograph_fuzz
campaign=(python3 tests/fuzz/campaign.py)

if ! command -v clang++ >/dev/null; then
  can_apt || fail "fuzzing needs clang; run: sudo apt-get install clang libclang-rt-14-dev llvm"
  quiet "install clang" apt_install clang libclang-rt-14-dev llvm
fi
[ ! -d "$venv/bin" ] || export PATH=$PWD/$venv/bin:$PATH

coverage() {
  quiet "configure the fuzz targets (coverage)" cmake --preset fuzz-coverage
  quiet "build the fuzz targets (coverage)" cmake --build --preset fuzz-coverage -j "$jobs" --target heliograph_fuzz
  local counted=build/fuzz-coverage/tests/fuzz/heliograph_fuzz out=build/fuzz-coverage/profiles
  local corpus=build/fuzz-coverage/corpus
  rm -rf "$out" "$corpus" && mkdir -p "$out"
  "${campaign[@]}" unpack "$corpus"
  for target in "$corpus"/*/; do
    local name new
    name=$(basename "$target") new=$(mktemp -d)
    [ "$name" != python-face ] || continue # the target of the Python interface, run by atheris
    LLVM_PROFILE_FILE=$out/$name.profraw quiet "run $name" "$counted" "$name" "$new" "$target" "-runs=$1" -seed=1
    rm -rf "$new"
  done
  "$(command -v llvm-profdata llvm-profdata-14 | head -n 1)" merge -o "$out/all.profdata" "$out"/*.profraw
  "$(command -v llvm-cov llvm-cov-14 | head -n 1)" export -summary-only "$counted" -instr-profile "$out/all.profdata" \
    src/io src/rlwe/files.cpp src/schemes/*/files.cpp src/schemes/*/spec_text.cpp >"$out/coverage.json"
  "${campaign[@]}" coverage "$out/coverage.json"
}

case $what in
  keep) "${campaign[@]}" keep "$program" --work build/fuzz/work ;;
  coverage) coverage "${2:-20000}" ;;
  *)
    quiet "configure the fuzz targets" cmake --preset fuzz
    quiet "build the fuzz targets" cmake --build --preset fuzz -j "$jobs" --target heliograph_fuzz
    "${campaign[@]}" run "$program" --seconds "$what" --work build/fuzz/work
    ;;
esac
