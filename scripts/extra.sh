#!/usr/bin/env bash
# extra.sh EXTRA: what heliograph[EXTRA] needs besides the package, which is installed and is not built again.
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"
quiet "install what heliograph[$1] needs" "$python" -m pip install --disable-pip-version-check "heliograph[$1]"
