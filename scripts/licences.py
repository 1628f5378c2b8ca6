#!/usr/bin/env python3
"""Prints the licences of the crates that are linked into weir and pktgen, each text once.

    scripts/licences.py [FEATURES OF CARGO]…     for example: --no-default-features --features weir/control
"""

import json
import os
import pathlib
import subprocess
import sys

CARGO = os.environ.get("CARGO", "cargo")
NAMES = ("LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE")


def crates(features):
    """Names and versions of the crates that are linked: without macros, build scripts and what tests need."""
    words = ["tree", "--locked", "--package", "weir", "--package", "pktgen", *features]
    words += ["--edges", "normal,no-proc-macro", "--prefix", "none", "--format", "{p}"]
    lines = subprocess.check_output([CARGO, *words], text=True).splitlines()
    return sorted({tuple(line.split()[:2]) for line in lines if line and "(/" not in line})


def main(features):
    metadata = json.loads(subprocess.check_output([CARGO, "metadata", "--locked", "--format-version", "1"]))
    packages = {(package["name"], "v" + package["version"]): package for package in metadata["packages"]}
    texts = {}
    for crate in crates(features):
        directory = pathlib.Path(packages[crate]["manifest_path"]).parent
        files = sorted(path for path in directory.iterdir() if path.is_file() and path.name.upper().startswith(NAMES))
        print(f"{crate[0]} {crate[1][1:]}: {packages[crate]['license']}")
        for path in files:
            texts.setdefault(path.read_text("utf-8", "replace").strip(), []).append(crate[0])
    for text, names in texts.items():
        print(f"\n{'-' * 72}\n{', '.join(dict.fromkeys(names))}:\n\n{text}")


if __name__ == "__main__":
    main(sys.argv[1:])
