#!/usr/bin/env bash
# Builds what a release consists of, from the commit that is checked out and not from the work tree.
#
#   scripts/release.sh [OUT]      OUT: default out/release
#
#   PARTS="tarball wheel deb image"   some of them
#   WORK=DIRECTORY                    where it is compiled, default target/release-build
#
# The same commit gives the same bytes with the same toolchain and the same packages of the system, wherever and
# whenever it is built (docs/releasing.md).
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf '%s\n' "$*" >&2; }

readonly PARTS=${PARTS:-tarball wheel deb image}
readonly CARGO=${CARGO:-cargo}
# Newer ones may write another file.
readonly CYCLONEDX=0.5.9
mkdir -p "${1:-out/release}" "${WORK:-target/release-build}"
out=$(realpath "${1:-out/release}")
work=$(realpath "${WORK:-target/release-build}")
root=$(pwd)
version=$(sed -n '/^\[workspace.package\]/,/^\[/ s/^version = "\(.*\)"/\1/p' Cargo.toml)
host=$(rustc -vV | sed -n 's/^host: //p')
# shellcheck source=/dev/null
system=$(. /etc/os-release && printf '%s%s' "$ID" "${VERSION_ID:-}")
cargo_home=${CARGO_HOME:-$HOME/.cargo}
linux=weir-$version-$(uname -m)-linux
debian=weir_${version}_${system}_$(dpkg --print-architecture 2>/dev/null || uname -m)
readonly source=$work/source
readonly OFFLINE=(--no-default-features --features weir/control)

SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH LC_ALL=C TZ=UTC
umask 022

wanted() { [[ " $PARTS " == *" $1 "* ]]; }

# The files have the time of now: cargo compiles what is newer than its last outcome.
lay_out_source() {
    git diff --quiet HEAD || say "What is not committed is not in the release."
    rm -rf "$source" && mkdir -p "$source"
    git archive HEAD | tar -x -m -C "$source"
}

# Compiles weir and pktgen: TARGET DIRECTORY, further flags of rustc, words of cargo. No path of this machine gets
# into the binaries.
compile() {
    local target=$work/$1 rustc=$2
    shift 2
    say "Building weir and pktgen ${*:-with live ports} …"
    (
        cd "$source"
        unset CARGO_ENCODED_RUSTFLAGS
        export CARGO_INCREMENTAL=0 CARGO_TARGET_DIR=$target
        export CFLAGS="-ffile-prefix-map=$cargo_home=/cargo -ffile-prefix-map=$work=/weir"
        # The last that fits is taken.
        export RUSTFLAGS="$rustc --remap-path-prefix=$cargo_home=/cargo --remap-path-prefix=$work=/weir"
        RUSTFLAGS+=" --remap-path-prefix=$source=/weir --remap-path-prefix=$target=/weir/target"
        "$CARGO" build --locked --quiet --profile dist --target "$host" --package weir --package pktgen --bins "$@"
    )
}

# The crates that weir and pktgen are built from, as CycloneDX: FILE, words of cargo.
write_sbom() {
    local file=$1
    shift
    if [[ ! -x $root/target/tools/bin/cargo-cyclonedx ]]; then
        say "Adding cargo-cyclonedx $CYCLONEDX to target/tools …"
        "$CARGO" install --quiet --locked --debug --version "$CYCLONEDX" --root "$root/target/tools" cargo-cyclonedx
    fi
    (cd "$source" && "$root/target/tools/bin/cargo-cyclonedx" cyclonedx --quiet --format json --spec-version 1.5 \
        --target "$host" "$@" --override-filename sbom)
    # They have the directory in which it ran.
    sed "s|$source|/weir|g" "$source/sbom.json" >"$out/$file.weir.cdx.json"
    sed "s|$source|/weir|g" "$source/pktgen/sbom.json" >"$out/$file.pktgen.cdx.json"
}

tarball() {
    # In every C library of Debian and Ubuntu; Fedora has a package glibc-static.
    if ! printf 'int main(void) { return 0; }' | cc -static -x c -o "$work/static-test" - 2>"$work/static-test.log"; then
        cat "$work/static-test.log" >&2
        say "This system cannot link statically: install the static C library"
        exit 1
    fi
    compile static "-C target-feature=+crt-static" "${OFFLINE[@]}"
    (cd "$source" && scripts/licences.py "${OFFLINE[@]}") >"$work/licences-static"
    say "$("$source/scripts/tarball.sh" "$work/static/$host/dist" "$work/licences-static" "$out")"
    write_sbom "$linux" --no-default-features --features control
}

wheel() {
    scripts/setup.sh --tools release
    rm -rf "$work/wheel" && mkdir -p "$work/wheel"
    (cd "$source/python" && "$root/target/tools/bin/python3" -c \
        "import flit_core.buildapi as flit; print(flit.build_wheel('$work/wheel'))") >"$work/wheel.log"
    install -m 0644 "$work"/wheel/*.whl "$out"
    say "$out/$(cat "$work/wheel.log")"
}

# For the system on which it is built: libdpdk has another ABI in each release.
deb() {
    local package
    scripts/setup.sh build package
    compile dpdk ""
    package=$(cd "$source" && scripts/deb.sh "$work/dpdk/$host/dist")
    cp "$source/$package" "$out/$debian.deb"
    say "$out/$debian.deb"
    write_sbom "$debian"
}

# The static binaries and nothing else, as an archive that podman, docker and containerd load.
image() {
    local context=$work/image run store
    if ! command -v podman >/dev/null; then
        say "skipped: no podman, so no container image"
        return
    fi
    # Not the user's own store. podman takes no longer name than 50 characters.
    run=$(mktemp -d)
    store=(--root "$run/root" --runroot "$run/run")
    rm -rf "$context" && mkdir -p "$context"
    tar -xzf "$out/$linux.tar.gz" --strip-components=1 -C "$context"
    podman "${store[@]}" build --quiet --timestamp "$SOURCE_DATE_EPOCH" --file "$source/packaging/Containerfile" \
        --label org.opencontainers.image.version="$version" --label org.opencontainers.image.licenses=Apache-2.0 \
        --tag "weir:$version" "$context" >/dev/null
    # Not oci-archive, whose files have the time at which they were written.
    rm -f "$out/$linux-image.tar"
    podman "${store[@]}" save --quiet --format docker-archive --output "$out/$linux-image.tar" "weir:$version"
    podman "${store[@]}" rmi --force "weir:$version" >/dev/null
    rm -rf "$run" "$context"
    say "$out/$linux-image.tar"
}

lay_out_source
for part in tarball wheel deb image; do
    if wanted $part; then $part; fi
done
(cd "$out" && rm -f SHA256SUMS && sha256sum -- * >"$work/sums" && mv "$work/sums" SHA256SUMS)
say "$out/SHA256SUMS"
