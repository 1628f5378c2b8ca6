#!/usr/bin/env bash
# Packs what has been built as a Debian package, for the system that it was built on.
#
#   scripts/deb.sh [BINARIES]     BINARIES: where weir and pktgen are, default target/release
#
# Prints the package's path. Needs dpkg-deb and dpkg-shlibdeps (dpkg-dev).
set -euo pipefail
cd "$(dirname "$0")/.."
# The same files give the same bytes.
umask 022
export LC_ALL=C TZ=UTC

binaries=${1:-target/release}
version=$(sed -n '/^\[workspace.package\]/,/^\[/ s/^version = "\(.*\)"/\1/p' Cargo.toml)
architecture=$(dpkg --print-architecture)
readonly out=target/debian
package=$out/weir_${version}_$architecture.deb

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
readonly root=$stage/root
readonly doc=$root/usr/share/doc/weir

put() { install -D -m "$1" "$2" "$root/$3"; }
completions() { # PROGRAM SHELL FILE
    install -d "$root/$(dirname "$3")"
    "$binaries/$1" completions "$2" >"$root/$3"
    chmod 0644 "$root/$3"
}

install -d -m 0755 "$root" "$root/DEBIAN" "$doc"
for program in weir pktgen; do
    put 0755 "$binaries/$program" "usr/bin/$program"
    strip --strip-unneeded "$root/usr/bin/$program"
    completions $program bash usr/share/bash-completion/completions/$program
    completions $program zsh usr/share/zsh/vendor-completions/_$program
    completions $program fish usr/share/fish/vendor_completions.d/$program.fish
done
put 0644 packaging/weir.service lib/systemd/system/weir.service
put 0644 packaging/weir.toml etc/weir/weir.toml
put 0644 packaging/weir-controller.service lib/systemd/system/weir-controller.service
put 0600 packaging/controller.toml etc/weir/controller.toml
put 0644 packaging/alerts.yml usr/share/weir/alerts.yml
put 0644 packaging/grafana.json usr/share/weir/grafana.json

install -d "$root/usr/share/man/man1"
"$binaries/weir" man --dir "$root/usr/share/man/man1"
"$binaries/pktgen" man "$root/usr/share/man/man1"
gzip -9n "$root"/usr/share/man/man1/*.1
chmod 0644 "$root"/usr/share/man/man1/*

cp docs/*.md docs/*.toml "$doc"
cp -r docs/pictures "$doc"
scripts/licences.py | gzip -9n >"$doc/THIRD-PARTY-LICENSES.gz"
[[ -d docs/reproduce ]] && cp -r docs/reproduce "$doc"
[[ -d docs/containerlab ]] && cp -r docs/containerlab "$doc"
{
    printf 'Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n'
    printf 'Upstream-Name: weir\n\nFiles: *\nCopyright: the authors of weir\nLicense: Apache-2.0\n'
    printf ' On Debian systems the full text is in /usr/share/common-licenses/Apache-2.0.\n'
} >"$doc/copyright"
{
    printf 'weir (%s) unstable; urgency=medium\n\n' "$version"
    awk -v version="## [$version]" 'index($0, "## [") == 1 { on = index($0, version) == 1 } on' CHANGELOG.md |
        sed -n 's/^- /  * /p; t; s/^  \([^ ]\)/    \1/p'
    printf '\n -- the authors of weir <root@localhost>  %s\n' "$(date -R -d "@${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}")"
} | gzip -9n >"$doc/changelog.gz"
find "$doc" -type f -exec chmod 0644 {} +
find "$root" -type d -exec chmod 0755 {} +

# What the linker knows of. dpkg-shlibdeps wants a source package around it.
install -d "$stage/debian"
printf 'Source: weir\n\nPackage: weir\nArchitecture: any\n' >"$stage/debian/control"
linked=$(cd "$stage" && dpkg-shlibdeps -O root/usr/bin/weir root/usr/bin/pktgen | sed -n 's/^shlibs:Depends=//p')
# DPDK's drivers it does not know of: they are loaded when a port needs them, and their packages are named after the ABI.
abi=$(grep -o 'librte-eal[0-9]*' <<<"$linked" | head -1 | tr -dc 0-9)
driver() { local name; for name in "$@"; do printf ', librte-%s%s' "$name" "$abi"; done; }
[[ -n $abi ]] || { echo "weir was built without live ports: there is nothing for a service to run" >&2; exit 1; }

# As dpkg-gencontrol counts it: what a file system makes of the files differs.
kilobytes=$(find "$root" -path "$root/DEBIAN" -prune -o -type f -printf '%s\n' -o -printf '1024\n' |
    awk '{ total += int(($1 + 1023) / 1024) } END { print total }')

cat >"$root/DEBIAN/control" <<END
Package: weir
Version: $version
Architecture: $architecture
Maintainer: the authors of weir <root@localhost>
Installed-Size: $kilobytes
Depends: $linked$(driver bus-vdev mempool-ring net-tap net-ring net-null net-pcap)
Recommends: librte-meta-net, librte-meta-bus, iproute2
Suggests: bash-completion, dpdk, iperf3, prometheus
Section: net
Priority: optional
Description: software switch that measures what it forwards
 weir forwards between TAP and veth interfaces, network cards and capture
 files on DPDK, and counts the heaviest flows in an emulated switch ASIC.
 Every packet goes out or is counted under a named reason.
 .
 The package brings the switch (weir), a traffic generator with known truth
 (pktgen), and a systemd service that is off until it is given ports.
END
printf '/etc/weir/weir.toml\n/etc/weir/controller.toml\n' >"$root/DEBIAN/conffiles"
for script in postinst prerm postrm; do
    install -m 0755 "packaging/debian/$script" "$root/DEBIAN/$script"
done
(cd "$root" && find . -type f -not -path './DEBIAN/*' -printf '%P\0' | sort -z | xargs -0 md5sum >DEBIAN/md5sums)

mkdir -p "$out"
dpkg-deb --root-owner-group --build "$root" "$package" >&2
printf '%s\n' "$package"
