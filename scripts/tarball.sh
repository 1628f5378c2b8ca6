#!/usr/bin/env bash
# Packs binaries without live ports, which run on any Linux, with completions, manual pages and licences.
#
#   scripts/tarball.sh BINARIES LICENCES OUT     BINARIES: where weir and pktgen are
#                                                LICENCES: a text with those of what is linked into them
#
# Prints the tarball's path. The same files give the same bytes: sorted, of no user, of the time SOURCE_DATE_EPOCH.
# Below its only directory is a prefix such as ~/.local.
set -euo pipefail
binaries=$(realpath "$1")
licences=$(realpath "$2")
out=$(realpath "$3")
cd "$(dirname "$0")/.."

version=$(sed -n '/^\[workspace.package\]/,/^\[/ s/^version = "\(.*\)"/\1/p' Cargo.toml)
name=weir-$version-$(uname -m)-linux

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
readonly root=$stage/$name
readonly doc=$root/share/doc/weir

completions() { # PROGRAM SHELL FILE
    mkdir -p "$root/share/$(dirname "$3")"
    "$binaries/$1" completions "$2" >"$root/share/$3"
}
for program in weir pktgen; do
    install -D "$binaries/$program" "$root/bin/$program"
    completions $program bash bash-completion/completions/$program
    completions $program zsh zsh/site-functions/_$program
    completions $program fish fish/vendor_completions.d/$program.fish
done
mkdir -p "$root/share/man/man1" "$doc"
"$binaries/weir" man --dir "$root/share/man/man1"
"$binaries/pktgen" man "$root/share/man/man1"
cp -r README.md LICENSE CHANGELOG.md SPECIFICATION.md docs "$doc"
cp "$licences" "$doc/THIRD-PARTY-LICENSES"
find "$root" -type d -exec chmod 0755 {} +
find "$root/share" -type f -exec chmod 0644 {} +

tar --sort=name --format=ustar --owner=0 --group=0 --numeric-owner \
    --mtime="@${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}" \
    -C "$stage" -c "$name" | gzip -9n >"$out/$name.tar.gz"
printf '%s\n' "$out/$name.tar.gz"
