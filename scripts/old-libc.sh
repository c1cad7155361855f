#!/usr/bin/env bash
# old-libc.sh PYTHON FOLDER: writes stub libraries of glibc 2.28 to FOLDER, so that linked libraries run with glibc 2.28 or newer.
# PyPI's ziglang, installed in PYTHON, generates stubs with the symbols of a glibc version. g++ compiles as usual, and finds the
# stubs first (-L FOLDER).
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"
tool=$1 folder=$2
if [ "$folder/libc.so" -nt packaging/old_libc.c ] && [ "$folder/libc.so" -nt "$0" ]; then exit 0; fi
rm -rf "$folder"
mkdir -p "$folder/cache"
cache=$(cd "$folder/cache" && pwd)
echo 'int main(void) { return 0; }' >"$cache/main.c"
ZIG_GLOBAL_CACHE_DIR=$cache ZIG_LOCAL_CACHE_DIR=$cache "$tool" -m ziglang cc -target x86_64-linux-gnu.2.28 \
  "$cache/main.c" -o "$cache/main"
cp "$(find "$cache" -name libc_nonshared.a)" "$folder"
for name in c.so.6 m.so.6 pthread.so.0 dl.so.2 rt.so.1 ld.so.2; do
  cp "$(find "$cache" -name "lib$name")" "$folder"
  ln -sf "lib$name" "$folder/lib${name%%.*}.so"
done
rm -r "$cache"
"${CC:-cc}" -O2 -Wall -Wextra -Werror -fPIC -c packaging/old_libc.c -o "$folder/old_libc.o"
ar rcs "$folder/libold.a" "$folder/old_libc.o"
# Functions of one library of a newer glibc are in several libraries of the old one.
rm "$folder/libc.so"
echo 'GROUP ( libc.so.6 libc_nonshared.a libold.a AS_NEEDED ( libpthread.so.0 libdl.so.2 libld.so.2 ) )' >"$folder/libc.so"
