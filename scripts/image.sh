#!/usr/bin/env bash
# image.sh: tests the systemd unit and the image of packaging/ without systemd and without a container engine
# (packaging/try_service.py). The script runs the unit with its restrictions, then the image of packaging/Dockerfile, built
# by buildah. The script needs root and installs Debian packages. The base image is Debian 12 from debootstrap, so no image
# registry is needed. DEBIAN=URL selects another mirror. shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"
[ "$(id -u)" = 0 ] || fail "make image-test needs root: it creates users, mounts and networks"
wanted=()
for pair in debootstrap:debootstrap buildah:buildah bwrap:bubblewrap ip:iproute2 systemd-analyze:systemd; do
  command -v "${pair%:*}" >/dev/null || wanted+=("${pair#*:}")
done
[ ${#wanted[@]} = 0 ] || quiet "install ${wanted[*]}" apt_install "${wanted[@]}"

work=$PWD/build/image
context=$work/context
mkdir -p "$work"
alone() { unshare --net sh -c 'ip link set lo up && exec "$@"' sh "$python" packaging/try_service.py "$@"; }

quiet "check the unit" sh -c "sed 's:^ExecStart=[^ ]*:ExecStart=/bin/true:' packaging/heliograph.service >$work/heliograph.service &&
  systemd-analyze verify $work/heliograph.service && systemd-analyze security --offline=true --threshold=25 $work/heliograph.service"
alone unit "$venv"

own_version=$("$python" -c 'import sys; print("cp%d%d" % sys.version_info[:2])')
[ "$own_version" = cp311 ] || fail "the image's base has Python 3.11, but $venv has another version; run: make clean, then make PYTHON=python3.11 image-test"
rm -rf "$context" && mkdir -p "$context/dist" "$context/packaging"
cp packaging/Dockerfile "$context/packaging"
if compgen -G "dist/heliograph-*-cp311-*.whl" >/dev/null; then
  cp dist/heliograph-*-cp311-*.whl "$context/dist"
else
  SKBUILD_BUILD_DIR=$tree PATH=$PWD/$venv/bin:$PATH quiet "build a wheel" \
    "$python" -m pip wheel . --no-deps --no-build-isolation -w "$context/dist"
fi
quiet "download the wheel's dependencies" "$python" -m pip download -d "$context/dist" "$(echo "$context"/dist/heliograph-*.whl)[serve]"

store() { buildah --root "$work/storage" --runroot "$work/run" --storage-driver vfs "$@"; }
if [ ! -f "$work/base.tar" ]; then
  rm -rf "$work/base"
  quiet "make a root of Debian 12" debootstrap --variant=minbase --include=python3,python3-venv,ca-certificates bookworm \
    "$work/base" "${DEBIAN:-http://deb.debian.org/debian}"
  tar -C "$work/base" -cf "$work/base.tar.part" . && mv "$work/base.tar.part" "$work/base.tar"
  rm -rf "$work/base"
fi
if ! store inspect --type image heliograph-base >/dev/null 2>&1; then
  printf 'FROM scratch\nADD base.tar /\n' >"$work/Base"
  quiet "make an image of it" store bud --isolation chroot -f "$work/Base" -t heliograph-base "$work"
fi
quiet "build packaging/Dockerfile" store bud --isolation chroot --format docker --build-arg BASE=localhost/heliograph-base \
  --build-arg PIP=--no-index -f packaging/Dockerfile -t heliograph-test "$context"
container=$(store from --pull-never heliograph-test)
trap 'store rm "$container" >/dev/null' EXIT
mounted=$(store mount "$container")
store inspect --type container "$container" >"$work/image.json"
say "size of the image: $(du -sm "$mounted" | cut -f1) MB, of which Heliograph and its dependencies: $(du -sm "$mounted/opt/heliograph" | cut -f1) MB"
alone image "$mounted" "$work/image.json"
