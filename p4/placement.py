#!/usr/bin/env python3
"""Compiles and assembles the t2na sources, and writes what each takes of the chip beside its constants.

    p4/placement.py                      # all of them, for Tofino 2 and those that fit for Tofino 1
    p4/placement.py hashpipe all --target tofino2 --check

Needs p4c-barefoot and bfas on the PATH, and P4C_INCLUDE: the directories of core.p4 and t2na.p4, with
colons between them.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import hashes

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "control"))
import schema  # noqa: E402
import tofino  # noqa: E402

PORTS = {"1": {"role": "host", "to": 2}, "2": {"role": "fabric", "to": 1}}
# Directories of constants, and the chips that have room for them.
CASES = {
    "hashpipe": ["tofino2"],
    "chamelemon": ["tofino2", "tofino"],
    "pint": ["tofino2", "tofino"],
    "pint-latency": ["tofino2", "tofino"],
    "disketch": ["tofino2", "tofino"],
    "all": ["tofino2"],
    "all-latency": ["tofino2"],
}
ARCHITECTURES = {"tofino": ("tna", 1), "tofino2": ("t2na", 2)}
# The control in the name of a table, and in that of an action without one.
CONTROL = re.compile(r"(?:Ingress\.|Egress\.|tbl_)?([a-z]+).*")
STAGES = {"tofino": 12, "tofino2": 20}


def compiled(case, target, place):
    """Compiles a case into the directory `place`, and assembles it. Returns where the logs are."""
    architecture, number = ARCHITECTURES[target]
    includes = os.environ.get("P4C_INCLUDE", "").split(":") + [HERE, HERE / "constants" / case / "t2na"]
    command = ["p4c-barefoot", f"-D__TARGET_TOFINO__={number}", "--target", target, "--arch", architecture, "-g"]
    command += [word for include in includes if include for word in ("-I", str(include))]
    run(command + ["--bf-rt-schema", str(place / "bfrt.json"), "-o", str(place), str(HERE / "switch/t2na.p4")], case)
    pipe = place / "pipe"
    (pipe / "logs").mkdir(exist_ok=True)
    run(["bfas", "--target", target, "--log-hashes", "-o", ".", "t2na.bfa"], case, pipe)
    if not (pipe / f"{target}.bin").exists():
        raise SystemExit(f"{case}: the assembler wrote no {target}.bin")
    return pipe


def run(command, case, directory=None):
    """Runs a tool. Its output is shown if it fails."""
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True)
    if done.returncode != 0:
        said = done.stdout + done.stderr
        wrong = said.find("error:")
        raise SystemExit(f"{case}: {command[0]} ended with {done.returncode}\n{said[max(0, wrong - 200):][:3000]}")


def used(unit, kind):
    """The names of what uses a unit for a purpose."""
    return [usage["used_by"] for usage in unit["usages"] if kind is None or usage["used_for"] == kind]


def units_by_control(stages):
    """Hash distribution units by the control whose tables use them."""
    units = collections.Counter()
    for stage in stages:
        for unit in stage["hash_distribution_units"]["units"]:
            units[CONTROL.sub(r"\1", used(unit, None)[0])] += 1
    return dict(sorted(units.items()))


def report(pipe, target):
    """What the compiler took of each stage."""
    stages = json.loads((pipe / "logs/resources.json").read_text())["resources"]["mau"]["mau_stages"]
    rows = []
    for stage in stages:
        alus = stage["meter_alus"]["meters"]
        rows.append({
            "stage": stage["stage_number"],
            "tables": sorted(table["table_name"] for table in stage["logical_tables"]["ids"]),
            "registers": sorted({name for alu in alus for name in used(alu, "stateful_ram")}),
            "filters": sorted({name for alu in alus for name in used(alu, None)}
                              - {name for alu in alus for name in used(alu, "stateful_ram")}),
            "sram_blocks": len(stage["rams"]["srams"]),
            "tcam_blocks": len(stage["tcams"]["tcams"]),
            "hash_distribution_units": len(stage["hash_distribution_units"]["units"]),
            "hash_bits": len(stage["hash_bits"]["bits"]),
            "crossbar_bytes": len(stage["xbar_bytes"]["bytes"]),
            "instructions": len(stage["vliw"]["instructions"]),
        })
    placed = [register for row in rows for register in row["registers"]]
    twice = sorted({register for register in placed if placed.count(register) > 1})
    if twice:
        raise SystemExit(f"registers in more than one stage: {', '.join(twice)}")
    if len(rows) > STAGES[target]:
        raise SystemExit(f"{len(rows)} stages: {target} has {STAGES[target]}")
    total = {key: sum(row[key] for row in rows) for key, value in rows[0].items() if isinstance(value, int) and key != "stage"}
    total["stateful_alus"] = len(placed)
    units = units_by_control(stages)
    return {"target": target, "stages": len(rows), **total, "hash_units_by_control": units, "by_stage": rows}


def written(report):
    """The report as JSON, a line for each stage."""
    head = {key: value for key, value in report.items() if key != "by_stage"}
    stages = ",\n".join("    " + json.dumps(row) for row in report["by_stage"])
    lines = [f"  {json.dumps(key)}: {json.dumps(value)}," for key, value in head.items()]
    return "\n".join(["{", *lines, '  "by_stage": [', stages, "  ]", "}", ""])


def controlled(case, place):
    """Tries the control script with the program's tables and registers. Returns the number of entries."""
    control = json.loads((HERE / "constants" / case / "t2na/control.json").read_text())
    info = schema.Info(place / "bfrt.json")
    switch = tofino.Switch(schema, info, None)
    tofino.load(switch, control, PORTS, range(2))
    for program in control["programs"].values():
        for register in program["registers"]:
            _, table, field = switch.register(register["register"])
            has = table.description["size"], table.info.data_field_name_list_get()
            if has[0] != 2 * register["cells"] or field not in has[1]:
                raise SystemExit(f"{case}: {register} is not the program's {has}")
    return sum(len(table.entries) for table in info.tables.values())


def place(case, target, arguments):
    """Compiles, checks hashes and tables, and writes or compares the report."""
    with tempfile.TemporaryDirectory() as scratch:
        at = pathlib.Path(arguments.keep or scratch) / f"{case}-{target}"
        at.mkdir(parents=True, exist_ok=True)
        pipe = compiled(case, target, at)
        placed = report(pipe, target)
        equal = hashes.compare(pipe, HERE / "constants" / case / "t2na")
        entries = controlled(case, at)
    file = HERE / "constants" / case / "t2na" / f"{target}.json"
    text = written(placed)
    if arguments.check and file.read_text() != text:
        raise SystemExit(f"{case}: the placement on {target} is not that of {file}")
    file.write_text(text)
    print(
        f"{case:13} {target:8} {placed['stages']:2} stages, {placed['stateful_alus']:2} stateful ALUs, "
        f"{placed['sram_blocks']:3} SRAM and {placed['tcam_blocks']:2} TCAM blocks, "
        f"{placed['hash_distribution_units']:2} hash units; {entries} entries; {equal}"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("case", nargs="*", help="directories of p4/constants; by default all")
    parser.add_argument("--target", choices=ARCHITECTURES, help="one chip alone")
    parser.add_argument("--keep", metavar="DIR", help="keep what compiler and assembler write")
    parser.add_argument("--check", action="store_true", help="fail where a report is not the one that is there")
    arguments = parser.parse_args()
    cases = arguments.case or list(CASES)
    if unknown := [case for case in cases if case not in CASES]:
        parser.error(f"no such case: {', '.join(unknown)}")
    wanted = [(case, target) for case in cases for target in CASES[case] if arguments.target in (None, target)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for done in [pool.submit(place, case, target, arguments) for case, target in wanted]:
            done.result()


if __name__ == "__main__":
    sys.exit(main())
