#!/usr/bin/env bash
# Every public header of the device library compiles alone, with warnings as errors: the host ones in C11, C++17 and nvcc, the device
# ones in nvcc. Usage: headers.sh <source tree> [nvcc]. Exit 1 names what failed.
set -u
tree=$1
nvcc=${2:-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

try() { # name, command...
    local name=$1
    shift
    "$@" >"$work/log" 2>&1 || { failed=1; echo "FAILED: $name"; sed 's/^/    /' "$work/log"; }
}

cd "$tree/include" || exit 1
for header in braid/braid.h braid/comm.h braid/ops.h braid/wire/devcomm_v1.h; do
    [ -e "$header" ] || continue
    echo "#include <$header>" | tee "$work/a.c" "$work/a.cpp" >"$work/a.cu"
    try "$header in C" "${CC:-cc}" -std=c11 -pedantic -Wall -Wextra -Werror -I. -fsyntax-only "$work/a.c"
    command -v "${CXX:-c++}" >/dev/null &&
        try "$header in C++" "${CXX:-c++}" -std=c++17 -pedantic -Wall -Wextra -Werror -I. -fsyntax-only "$work/a.cpp"
    [ -n "$nvcc" ] && try "$header in nvcc" "$nvcc" -I. --Werror all-warnings -c -o "$work/a.o" "$work/a.cu"
done
if [ -n "$nvcc" ]; then
    for header in braid/device.cuh braid/device/*.cuh; do
        echo "#include <$header>" >"$work/a.cu"
        for arch in 80 90a; do
            try "$header in nvcc for sm_$arch" "$nvcc" -std=c++17 -I. --Werror all-warnings \
                "-gencode=arch=compute_$arch,code=sm_$arch" -cubin -o "$work/a.cubin" "$work/a.cu"
        done
    done
else
    echo "no CUDA compiler: device headers not compiled"
fi
[ $failed = 0 ] && echo "all headers compile alone"
exit $failed
