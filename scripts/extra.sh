#!/usr/bin/env bash
# extra.sh EXTRA: installs the requirements of heliograph[EXTRA], without rebuilding the package.
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"
quiet "install what heliograph[$1] needs" "$python" -m pip install --disable-pip-version-check "heliograph[$1]"
