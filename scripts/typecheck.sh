#!/usr/bin/env bash
# mypy over the installed package: only there do the sources meet the stub of the extension.
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"
[ -x "$venv/bin/mypy" ] || fail "mypy is not in $venv; make lint puts it there"
exec "$venv/bin/mypy" -p heliograph
