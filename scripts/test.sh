#!/usr/bin/env bash
# test.sh PRESET: all tests, C++ then Python, and one closing line that sums them up.
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"
failed=0

cpp=0
scripts/cpp-tests.sh "$1" || cpp=$?
case $cpp in
  0) cpp_line="C++: $(cat "$logs/cpp-summary")" ;;
  77) cpp_line="C++: SKIPPED (no GoogleTest)" ;;
  *) cpp_line="C++: FAILED" failed=1 ;;
esac

"$python" -m pytest -q -rs tests/python | tee "$logs/pytest.log" || failed=1
python_line="Python: $(tail -n 1 "$logs/pytest.log" | tr -d '=' | xargs)"

[ $failed = 0 ] && result="all tests passed" || result="TESTS FAILED"
say "$result. $cpp_line. $python_line"
exit $failed
