#!/usr/bin/env bash
# mypy over the installed package: only there do the sources meet the stub of the extension.
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"
"$python" -c 'import mypy' 2>/dev/null || fail "mypy is not in $venv; make lint puts it there"
exec "$python" -m mypy -p heliograph
