#!/usr/bin/env bash
# Installs the system packages that weir is built, tested and measured with: only those that are missing.
#
#   scripts/setup.sh [demo] [build] [test] [bench] [package] [nic]     default: build test
#   scripts/setup.sh --packages [group]…       the system's packages alone
#   scripts/setup.sh --others                   what tests need beside them, in target/
#   scripts/setup.sh --tools lint|site|release  what the make target of that name runs of PyPI, in target/tools
#   scripts/setup.sh --check [group]…           say what is missing, install nothing, exit 1 if anything is
set -euo pipefail

# group   package        what it is for
readonly PACKAGES='
demo    gcc            links
demo    libc6-dev      the C library to link with
build   gcc            compiles the wrappers of the inline functions of DPDK, and links
build   libc6-dev      the C library to link with
build   pkg-config     finds libdpdk
build   libdpdk-dev    live ports: DPDK headers, libraries and drivers (22.11 or newer)
build   libclang-dev   reads the DPDK headers to generate the bindings
test    iproute2       network namespaces, veth pairs, tap devices
test    util-linux     enters namespaces (nsenter, unshare, setpriv)
test    procps         sysctl and kill
test    iputils-ping   ping between the virtual hosts
test    iperf3         TCP and UDP streams between the virtual hosts
test    python3-prometheus-client  reads metrics as Prometheus does
test    python3-jsonschema  reads the JSON Schema as an editor does
test    python3-venv   DuckDB for the SQL of docs/archive.md, and what python/ needs
test    openssl        makes certificates as docs/security.md says
browser chromium-headless-shell  reads the live page as a browser does
package dpkg-dev       finds what a package must depend on (dpkg-shlibdeps)
package binutils       strip
test    dpdk-dev       dpdk-testpmd, the other end of shared memory
bench   dpdk-dev       dpdk-testpmd, which the throughput of weir is compared with
bench   iproute2       a network namespace, veth pairs and a bridge
bench   procps         sysctl in that namespace, and kill
nic     qemu-system-x86  a machine with network cards, emulated
nic     busybox-static the first program of its guest
nic     kmod           kernel modules of the guest (depmod, modprobe)
nic     dpdk           dpdk-devbind.py, which gives cards to weir
nic     pciutils       lspci, which dpdk-devbind.py asks
nic     procps         sysctl in the guest, as weir doctor prints it
nic     sudo           likewise
nic     python3        flows of known ports between the hosts
'

say() { printf '%s\n' "$*" >&2; }

# The oldest Rust that Cargo.toml allows, asked for here because an older cargo's own message does not say what to do.
check_rust() {
    local oldest version
    oldest=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' "$(dirname "$0")/../Cargo.toml")
    if ! command -v cargo >/dev/null; then
        say "weir needs Rust $oldest or newer, and there is no cargo on the PATH. Install it with rustup: https://rustup.rs"
        exit 1
    fi
    version=$(rustc --version | cut -d ' ' -f 2)
    if ! printf '%s\n' "$oldest" "$version" | sort -V -C; then
        say "weir needs Rust $oldest or newer, this is $version:  rustup update stable"
        exit 1
    fi
}

# rustup's minimal toolchain has neither; a distribution's has no rustup.
add_components() {
    local component
    for component in rustfmt clippy; do
        if ! cargo "${component/rustfmt/fmt}" --version >/dev/null 2>&1 && command -v rustup >/dev/null; then
            say "Adding $component to the Rust toolchain …"
            rustup component add "$component" >/dev/null 2>&1 || say "rustup component add $component failed"
        fi
    done
}

# What tests need of PyPI, in an environment of its own: DuckDB for the documented SQL, a parser for the queries of
# packaging/, a decoder of IPFIX, what OpenTelemetry makes of its messages, and what the Python package, its notebook and its wheel need.
add_python() {
    local root python
    root=$(dirname "$0")/..
    python=$root/target/python
    if ! "$python/bin/python3" -c 'import duckdb, flit_core, grpc, httpx, ipykernel, matplotlib, nbclient, netflume, openapi_spec_validator, opentelemetry.proto, pandas, promql_parser' 2>/dev/null; then
        say "Adding DuckDB, pandas and a notebook's kernel from PyPI in target/python …"
        # Not bin/pip, which names the directory that the environment was made in.
        { python3 -m venv "$python" &&
            "$python/bin/python3" -m pip install --quiet duckdb flit_core grpcio netflume openapi-spec-validator opentelemetry-proto promql-parser -e "$root/python[examples]"; } >&2 ||
            say "They cannot be installed, and tests that need them do not run"
    fi
}

# Programs of PyPI, compiled already, in target/tools: scripts/tools/GROUP.txt lists them with their hashes.
add_tools() {
    local root list tools
    root=$(dirname "$0")/..
    list=$root/scripts/tools/$1.txt
    tools=$root/target/tools
    if ! cmp --quiet "$list" "$tools/$1.txt"; then
        say "Adding to target/tools from PyPI: $(sed -n 's/==.*//p' "$list" | xargs) …"
        # Not bin/pip, which names the directory that the environment was made in.
        if { { [[ -x $tools/bin/python3 ]] || python3 -m venv "$tools"; } &&
            "$tools/bin/python3" -m pip install --quiet --disable-pip-version-check \
                --require-hashes --no-deps --only-binary :all: -r "$list"; } >&2; then
            cp "$list" "$tools/$1.txt"
        else
            say "They cannot be installed"
        fi
    fi
}

# A program of a Debian package, in target/. The package is not installed, because it would start a service.
add_program() {
    local package=$1 program=$2 into
    into=$(dirname "$0")/../target/$package
    [[ ! -x $into/usr/bin/$program ]] && ! command -v "$program" >/dev/null || return 0
    say "Unpacking Debian's $package in target/$package …"
    mkdir -p "$into"
    (cd "$into" && apt-get -qq download "$package" && dpkg -x "$package"_*.deb . && rm "$package"_*.deb) >/dev/null 2>&1 ||
        say "It cannot be had, and the test that needs it does not run"
}

# What is no package of the system.
add_others() {
    local target
    target=$(dirname "$0")/../target
    mkdir -p "$target"
    # One at a time: make test starts this beside the compiler, and waits for it later.
    (
        flock 9
        add_program prometheus prometheus # runs the queries of packaging/
        add_program nfdump nfcapd         # collects what weir exports as IPFIX
        add_python
        add_tools lint
    ) 9>"$target/setup.lock"
}

# The same where it is asked for.
add_wanted() {
    if ! $packages_only && [[ " ${groups[*]} " == *" test "* ]]; then
        add_others
    fi
}

check_only=false
packages_only=false
groups=()
for argument in "$@"; do
    case $argument in
    --check) check_only=true ;;
    --packages) packages_only=true ;;
    --others)
        add_others
        exit 0
        ;;
    --tools)
        mkdir -p "$(dirname "$0")/../target"
        (flock 9; add_tools "${2:?a group of scripts/tools}") 9>"$(dirname "$0")/../target/setup.lock"
        exit 0
        ;;
    demo | build | test | bench | package | nic) groups+=("$argument") ;;
    *)
        say "usage: scripts/setup.sh [--check | --packages | --others | --tools GROUP] [demo] [build] [test] [bench] [package] [nic]"
        exit 2
        ;;
    esac
done
[[ ${#groups[@]} -gt 0 ]] || groups=(build test)
# Ubuntu has no package of a browser.
if [[ " ${groups[*]} " == *" test "* ]] && grep -q '^ID=debian' /etc/os-release 2>/dev/null; then
    groups+=(browser)
fi

check_rust
if ! $check_only && [[ " ${groups[*]} " == *" test "* ]]; then
    add_components
fi

wanted=()
while read -r group package purpose; do
    if [[ " ${groups[*]} " == *" $group "* ]]; then
        wanted+=("$package|$purpose")
    fi
done < <(sed '/^$/d' <<<"$PACKAGES")

# Other systems name their packages differently: list what is needed, and go on if the one hard requirement is there.
if ! command -v dpkg-query >/dev/null; then
    if [[ ${groups[*]} == demo ]]; then
        command -v cc >/dev/null && exit 0
    elif pkg-config --atleast-version=22.11 libdpdk 2>/dev/null; then
        exit 0
    fi
    say "This is not Debian or Ubuntu, so weir cannot install its packages here. Under Debian's names they are:"
    for line in "${wanted[@]}"; do
        say "  $(printf '%-14s %s' "${line%%|*}" "${line#*|}")"
    done
    exit 1
fi

missing=()
for line in "${wanted[@]}"; do
    package=${line%%|*}
    status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
    if [[ $status != installed ]]; then
        if [[ ${#missing[@]} -eq 0 ]]; then
            say "Missing system packages:"
        fi
        say "  $(printf '%-14s %s' "$package" "${line#*|}")"
        missing+=("$package")
    fi
done
if ! $check_only; then
    trap '[[ $? -ne 0 ]] || add_wanted' EXIT
fi
[[ ${#missing[@]} -gt 0 ]] || exit 0

as_root=()
if [[ $(id -u) -ne 0 ]] && command -v sudo >/dev/null; then
    as_root=(sudo)
fi
say "To install:  ${as_root[*]:+sudo }apt-get install --no-install-recommends ${missing[*]}"
if $check_only; then
    exit 1
fi
if [[ $(id -u) -ne 0 && ${#as_root[@]} -eq 0 ]]; then
    say "That needs root, and there is no sudo here. Run the line above as root, then try again."
    exit 1
fi

log=$(mktemp)
trap 'status=$?; rm -f "$log"; [[ $status -ne 0 ]] || add_wanted' EXIT
apt() {
    # env comes after sudo, which would drop the variable.
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 "$@" >"$log" 2>&1 || {
        say "apt-get $* failed:"
        tail -n 20 "$log" >&2
        exit 1
    }
}
say "Installing (this takes a minute or two) …"
apt update
apt install --yes --no-install-recommends "${missing[@]}"
say "Installed."
