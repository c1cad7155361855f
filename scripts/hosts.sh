#!/usr/bin/env bash
# hosts.sh: what tests of several processes and hosts need, Open MPI and iproute2, where no password is asked.
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"
wanted=()
command -v mpicc >/dev/null && command -v mpirun >/dev/null || wanted+=(openmpi-bin libopenmpi-dev)
command -v ip >/dev/null || wanted+=(iproute2)
[ ${#wanted[@]} != 0 ] || exit 0
if can_apt && (quiet "install ${wanted[*]}" apt_install "${wanted[@]}"); then
  rm -f "$venv/.package" # built without MPI, if it was built
else
  say "without ${wanted[*]} the tests of several hosts are skipped; run: sudo apt-get install ${wanted[*]}"
fi
