#!/usr/bin/env bash
# test.sh PRESET: runs the C++ tests, then the Python tests, and prints a summary line; MATRIX=full adds the long tests.
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"
failed=0

cpp=0
scripts/cpp-tests.sh "$1" || cpp=$?
case $cpp in
  0) cpp_line="C++: $(cat "$logs/cpp-summary-$1")" ;;
  77) cpp_line="C++: SKIPPED (no GoogleTest)" ;;
  *) cpp_line="C++: FAILED" failed=1 ;;
esac

# As many processes as cores, each with one compute thread; on a GPU one process, because tests use most of its memory.
processes=$((jobs < 8 ? jobs : 8)) chosen=()
if wants_gpu; then processes=0; fi
[ "${MATRIX:-usual}" != full ] || chosen=(-m "")
"$python" -m pytest -q -rs -n "$processes" --dist worksteal "${chosen[@]}" tests/python | tee "$logs/pytest.log" || failed=1
python_line="Python: $(tail -n 1 "$logs/pytest.log" | tr -d '=' | xargs)"

[ $failed = 0 ] && result="all tests passed" || result="TESTS FAILED"
say "$result. $cpp_line. $python_line"
exit $failed
