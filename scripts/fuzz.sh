#!/bin/sh
# Fuzzes one target: scripts/fuzz.sh TARGET [SECONDS] [libFuzzer arguments]. Needs a stable toolchain and a C++ compiler.
# SANITIZER=address adds the address sanitizer, which a stable compiler offers only under RUSTC_BOOTSTRAP.
set -eu
cd "$(dirname "$0")/../fuzz"
target=${1:?usage: scripts/fuzz.sh TARGET [SECONDS] [libFuzzer arguments]}
seconds=${2:-60}
[ $# -gt 1 ] && shift 2 || shift

# What cargo-fuzz passes: edge counters and comparison operands for libFuzzer, one codegen unit so that none are dropped.
flags="--cfg fuzzing -Cpasses=sancov-module -Ccodegen-units=1"
for option in level=4 inline-8bit-counters pc-table trace-compares; do
    flags="$flags -Cllvm-args=-sanitizer-coverage-$option"
done
if [ "${SANITIZER:-none}" = address ]; then
    export RUSTC_BOOTSTRAP=1
    flags="$flags -Zsanitizer=address"
fi

# Naming the host as the target keeps the flags from build scripts and procedural macros.
host=$(rustc -vV | sed -n 's/^host: //p')
RUSTFLAGS="$flags" cargo build --release --locked --target "$host" --bin "$target"
mkdir -p "corpus/$target" "artifacts/$target"
[ -d "seeds/$target" ] && seeds="seeds/$target" || seeds=
exec "target/$host/release/$target" -max_total_time="$seconds" -artifact_prefix="artifacts/$target/" "$@" "corpus/$target" $seeds
