#!/usr/bin/env python3
"""Loads a switch of p4/switch/v1model.p4 in BMv2 with what `weir p4` wrote, and reads its registers.

    bmv2.py load --json switch.json --control control.json --ports ports.json [--epochs 5..6]
    bmv2.py read --json switch.json --control control.json --copy 1 --out DIR

Speaks by simple_switch_CLI, BMv2's own command line, which must be on the PATH.
"""

import argparse
import json
import pathlib
import re
import struct
import subprocess
import sys


# Of struct, by bytes.
CODES = {1: "B", 2: "H", 4: "I"}


class Failed(Exception):
    """What the switch, or what was given, does not allow."""


class Switch:
    """A running simple_switch, which has this compiled program."""

    def __init__(self, compiled, thrift_port=9090):
        self.thrift_port = thrift_port
        self.compiled = compiled
        self.registers = {short(register["name"]): register["name"] for register in compiled["register_arrays"]}
        self.sizes = {short(register["name"]): register["size"] for register in compiled["register_arrays"]}
        tables = [table for pipeline in compiled["pipelines"] for table in pipeline["tables"]]
        self.tables = {short(table["name"]): table for table in tables}

    def commands(self, lines):
        """Runs commands of the CLI and returns what it printed. An error of any of them is an exception."""
        lines = list(lines)
        if not lines:
            return ""
        ran = subprocess.run(
            ["simple_switch_CLI", "--thrift-port", str(self.thrift_port)],
            input="\n".join(lines) + "\n",
            capture_output=True,
            text=True,
        )
        if ran.returncode:
            raise Failed(f"simple_switch_CLI: {ran.stderr.strip()}")
        return checked(ran.stdout + ran.stderr)

    def set_crcs(self, control):
        """Gives each CRC its polynomial. The compiled program says which calculation an action computes."""
        calculations = calculations_of(self.compiled)
        lines = []
        for program in control["programs"].values():
            for crc in program["crcs"]:
                if crc["action"] not in calculations:
                    raise Failed(f"the compiled program has no action {crc['action']} with a CRC")
                for calculation in calculations[crc["action"]]:
                    lines.append(
                        f"set_crc32_parameters {calculation} {crc['polynomial']} {crc['init']} {crc['xorout']}"
                        f" {str(crc['reflect_in']).lower()} {str(crc['reflect_out']).lower()}"
                    )
        self.commands(lines)

    def add_entries(self, entries):
        """Adds table entries, and returns the table and the handle of each. Each names its table without the control at
        the top."""
        entries = list(entries)
        printed = self.commands(self.entry_line(entry) for entry in entries)
        handles = re.findall(r"^.*added with handle (\d+)", printed, re.MULTILINE)
        return [(entry["table"], handle) for entry, handle in zip(entries, handles, strict=True)]

    def delete_entries(self, added):
        """Deletes entries that were added."""
        self.commands(f"table_delete {self.tables[table]['name']} {handle}" for table, handle in added)

    def entry_line(self, entry):
        table = self.tables.get(entry["table"])
        if table is None:
            raise Failed(f"the compiled program has no table {entry['table']}")
        actions = [action for action in table["actions"] if action.split(".")[-1] == entry["action"]]
        if len(actions) != 1:
            raise Failed(f"{entry['table']} has no action {entry['action']}: {', '.join(table['actions'])}")
        matches = " ".join(str(match) for match in entry["match"])
        data = " ".join(str(value) for value in entry.get("data", []))
        priority = f" {entry['priority']}" if entry.get("priority") is not None else ""
        return f"table_add {table['name']} {actions[0]} {matches} => {data}{priority}"

    def read_registers(self, names):
        """The cells of each register, by its name without the control at the top."""
        printed = self.commands(f"register_read {self.registers[name]}" for name in names)
        read = dict(re.findall(r"^(?:RuntimeCmd: )?([\w.]+)= ?([-\d, ]*)$", printed, re.MULTILINE))
        return {name: [int(cell) for cell in read[self.registers[name]].split(",")] for name in names}

    def clear_registers(self, names):
        self.commands(f"register_reset {self.registers[name]}" for name in names)


def checked(printed):
    """What the CLI printed, which says in words that something failed."""
    wrong = re.search(r"^.*(Invalid|Error|Could not|Exception|Unknown syntax).*$", printed, re.MULTILINE)
    if wrong:
        raise Failed(f"simple_switch_CLI: {wrong.group(0)}")
    return printed


def short(name):
    """A name without the control at the top."""
    return name.split(".", 1)[-1]


def calculations_of(compiled):
    """The names of the CRCs that each action computes, by the action's name without the control at the top."""
    found = {}
    for action in compiled["actions"]:
        name = short(action["name"])
        for primitive in action["primitives"]:
            if primitive["op"] == "modify_field_with_hash_based_offset":
                calculation = primitive["parameters"][2]["value"]
                if calculation not in found.setdefault(name, []):
                    found[name].append(calculation)
    return found


def common_entries(ports, epochs, copies):
    """Entries of the tables that every switch has: the roles of ports, how they are joined, and the epochs that are prepared.

    `ports`: by number {"role": "host" or "fabric", "to": the port that it is paired with, "macs": those behind it}.
    """
    for number, port in ports.items():
        yield {"table": "arrival.roles", "action": port["role"], "match": [number]}
        yield {"table": "departure.roles", "action": port["role"], "match": [number]}
        if "to" in port:
            yield {"table": "forward.pairs", "action": "forward", "match": [number], "data": [port["to"]]}
        for mac in port.get("macs", []):
            yield {"table": "forward.l2", "action": "forward", "match": ["0&&&0", f"{mac}&&&ff:ff:ff:ff:ff:ff"], "data": [number], "priority": 1}
    for epoch in epochs:
        yield {"table": "epoch.prepared", "action": "measure", "match": [epoch % 65536], "data": [epoch % copies]}


def cut_entries(cuts):
    """Entries for epochs that DiSketch cuts into sub-epochs. `cuts`: log2 of their number, by epoch."""
    for epoch, bits in cuts.items():
        mask = 0x3F << 6 - bits & 0x3F
        yield {"table": "disketch.sub_epoch.cuts", "action": "cut", "match": [epoch % 65536], "data": [mask]}


def copies_of(control, cells, copy, epoch_copies, cut=None):
    """The copies of its registers that each program has for an epoch: `copy`, or one for each of these sub-epochs.

    `cut`: log2 of the number of DiSketch's sub-epochs, and those that are asked for.
    """
    copies = {program: [copy] for program in control["programs"]}
    if cut is not None and "disketch" in copies:
        first = control["programs"]["disketch"]["registers"][0]
        sub_epoch_copies = len(cells[first["register"]]) // first["cells"] // epoch_copies
        bits, numbers = cut
        copies["disketch"] = [copy * sub_epoch_copies + (number * sub_epoch_copies >> bits) for number in numbers]
    return copies


def write_arrays(control, cells, copies, directory):
    """Writes arrays in the form of `weir replay --registers` (docs/registers.md). Of an array with halves, a copy is one
    of them; the other one stays 0.

    `cells`: those of each register with all copies. `copies`: by program, those that become the parts of an epoch.
    """
    for program, of in control["programs"].items():
        for part, copy in enumerate(copies[program]):
            to = pathlib.Path(directory) / program / (f"part-{part}" if part else "")
            to.mkdir(parents=True, exist_ok=True)
            for array in of["layout"]["arrays"]:
                if (data := array_of(of, array, cells, copy)) is not None:
                    (to / array["file"]).write_bytes(data)


def array_of(program, array, cells, copy):
    """The bytes of an array's copy; None if no register holds it."""
    parts = [r for r in program["registers"] if (r["array"], r["index"]) == (array["name"], array["index"])]
    if not parts:
        return None
    has_halves = any((half["array"], half["index"]) == (array["name"], array["index"]) for half in program.get("halves", []))
    columns = [[0] * array["cells"] for _ in array["field_bits"]]
    for part in parts:
        mask, shift = (1 << part["bits"]) - 1, part["shift"]
        begin = copy % 2 * part["cells"] if has_halves else 0
        span, column = slice(begin, begin + part["cells"]), columns[part["field"]]
        of_copy = cells[part["register"]][copy * part["cells"] : (copy + 1) * part["cells"]]
        column[span] = [value | (cell & mask) << shift for value, cell in zip(column[span], of_copy)]
    sizes = [(bits + 7) // 8 for bits in array["field_bits"]]
    if len(sizes) == 1 and sizes[0] in CODES:
        return struct.pack(f"<{array['cells']}{CODES[sizes[0]]}", *columns[0])
    return b"".join(value.to_bytes(size, "little") for cell in zip(*columns) for value, size in zip(cell, sizes))


def register_names(control):
    """The registers of all programs."""
    return [r["register"] for of in control["programs"].values() for r in of["registers"]]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--thrift-port", type=int, default=9090)
    commands = parser.add_subparsers(dest="command", required=True)
    load = commands.add_parser("load", help="set CRCs and table entries")
    load.add_argument("--json", required=True, help="what p4c made of the switch")
    load.add_argument("--control", required=True, help="control.json of weir p4")
    load.add_argument("--ports", required=True, help='JSON: {"0": {"role": "host", "to": 1}, "1": {"role": "fabric", "macs": ["02:00:00:00:00:01"]}, …}')
    load.add_argument("--epochs", help="FIRST..LAST: those that are measured; without, the ports alone are set, and member.py does the rest")
    load.add_argument("--copies", type=int, default=2)
    read = commands.add_parser("read", help="write the arrays of one copy as files")
    read.add_argument("--json", required=True, help="what p4c made of the switch")
    read.add_argument("--control", required=True, help="control.json of weir p4")
    read.add_argument("--copy", type=int, required=True)
    read.add_argument("--copies", type=int, default=2)
    read.add_argument("--cuts", type=int, metavar="BITS", help="write each of DiSketch's 2^BITS sub-epochs")
    read.add_argument("--out", required=True)
    arguments = parser.parse_args()
    switch = Switch(json.loads(pathlib.Path(arguments.json).read_text()), arguments.thrift_port)
    control = json.loads(pathlib.Path(arguments.control).read_text())
    try:
        if arguments.command == "load":
            first, last = map(int, arguments.epochs.split("..")) if arguments.epochs else (0, -1)
            ports = json.loads(pathlib.Path(arguments.ports).read_text())
            switch.add_entries(common_entries(ports, range(first, last + 1), arguments.copies))
            if arguments.epochs:
                switch.set_crcs(control)
                switch.add_entries(control["entries"])
        else:
            cells = switch.read_registers(register_names(control))
            cut = None if arguments.cuts is None else (arguments.cuts, range(1 << arguments.cuts))
            copies = copies_of(control, cells, arguments.copy, arguments.copies, cut)
            write_arrays(control, cells, copies, arguments.out)
    except Failed as failed:
        sys.exit(f"bmv2.py: {failed}")


if __name__ == "__main__":
    main()
