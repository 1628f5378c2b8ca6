"""The open Tofino back end: compiles and assembles p4/switch/t2na.p4 with a directory of constants.

Binaries and headers are found by the environment: P4C_BAREFOOT (the compiler), BFAS (the assembler), and
P4C_INCLUDE (directories with core.p4 and with t2na.p4, separated by colons).
"""

import os
import re
import subprocess
from pathlib import Path

P4 = Path(__file__).resolve().parent

# Of each target the architecture, its stages in a direction, and what the compiler's own driver defines.
TARGETS = {
    "tofino": ("tna", 12, ["-D__TARGET_TOFINO__=1"]),
    "tofino2": ("t2na", 20, ["-D__TARGET_TOFINO__=2", "-D__TOFINO2_VARIANT__=1"]),
}


class Failed(Exception):
    """A tool's message."""


def run(command, directory):
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True)
    if done.returncode != 0:
        raise Failed(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def build(constants, target, out, defines=()):
    """Compiles and assembles. Returns the pipe's directory.

    The compiler accepts programs that the assembler refuses, so both run.
    """
    architecture, _, macros = TARGETS[target]
    out = Path(out).resolve()
    (out / "pipe" / "logs").mkdir(parents=True, exist_ok=True)
    includes = [flag for directory in os.environ["P4C_INCLUDE"].split(":") for flag in ("-I", directory)]
    sources = ["-I", str(P4), "-I", str(Path(constants).resolve())]
    command = [os.environ["P4C_BAREFOOT"], "--target", target, "--arch", architecture, *macros, *defines, *sources,
               *includes, "-g", "-Ttable_summary:1", "-o", str(out), str(P4 / "switch" / "t2na.p4")]
    (out / "compiler.log").write_text(run(command, out))
    pipe = out / "pipe"
    assembly = next(iter([*pipe.glob("*.bfa"), *out.glob("*.bfa")]))
    (pipe / "logs").mkdir(exist_ok=True)
    command = [os.environ["BFAS"], "--target", target, "--log-hashes", "-o", str(pipe), str(assembly)]
    (out / "assembler.log").write_text(run(command, out))
    if not (pipe / f"{target}.bin").exists():
        raise Failed(f"no {target}.bin")
    return pipe


def pipe_of(out):
    """The pipe's directory of an earlier build."""
    return Path(out).resolve() / "pipe"


def constants_of(directory):
    """The #defines of constants.p4."""
    text = (Path(directory) / "constants.p4").read_text()
    return dict(re.findall(r"^#define (\w+) ?(.*)$", text, re.M))
