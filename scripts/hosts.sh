#!/usr/bin/env bash
# hosts.sh: installs tools of the tests, if no password is needed: Open MPI, iproute2 and iptables for several processes and
# hosts, Chromium for pages, libfaketime for clocks.
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
  [[ " ${wanted[*]} " != *openmpi* ]] || rm -f "$venv/.package" # rebuilds a package that was built without MPI
else
  say "tests that need ${wanted[*]} are skipped; run: sudo apt-get install ${wanted[*]}"
fi
