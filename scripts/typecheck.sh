#!/usr/bin/env bash
# Runs mypy on the installed package, because only there the sources are beside the extension's type stub.
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"
"$python" -c 'import mypy' 2>/dev/null || fail "mypy is not installed in $venv; run: make lint"
exec "$python" -m mypy -p heliograph
