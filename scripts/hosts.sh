#!/usr/bin/env bash
# hosts.sh: what tests of several processes and hosts need, Open MPI, iproute2 and iptables, and of pages and clocks, Chromium and libfaketime,
# where no password is asked.
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"
wanted=()
command -v mpicc >/dev/null && command -v mpirun >/dev/null || wanted+=(openmpi-bin libopenmpi-dev)
command -v ip >/dev/null || wanted+=(iproute2)
command -v iptables >/dev/null || wanted+=(iptables)
command -v chromium >/dev/null || wanted+=(chromium)
compgen -G '/usr/lib/*/faketime/libfaketime.so.1' >/dev/null || wanted+=(libfaketime)
[ ${#wanted[@]} != 0 ] || exit 0
if can_apt && (quiet "install ${wanted[*]}" apt_install "${wanted[@]}"); then
  [[ " ${wanted[*]} " != *openmpi* ]] || rm -f "$venv/.package" # built without MPI, if it was built
else
  say "without ${wanted[*]} the tests that need them are skipped; run: sudo apt-get install ${wanted[*]}"
fi
