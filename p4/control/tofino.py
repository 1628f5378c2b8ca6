#!/usr/bin/env python3
"""Loads a Tofino switch of p4/switch/t2na.p4 with what `weir p4` wrote, and reads its registers.

    tofino.py load --control control.json --ports ports.json --epochs 5..6
    tofino.py read --control control.json --copy 1 --out DIR

Speaks by BfRt, the interface of the switch's driver: bfrt_grpc, which comes with the driver.
"""

import argparse
import json
import pathlib
import sys

import bmv2

PIPE = "pipe"
HOPS = 63


class Switch:
    """A switch that runs the program.

    `client`: the module bfrt_grpc.client. `info`: what the driver says of the program.
    """

    def __init__(self, client, info, target):
        self.client, self.info, self.target = client, info, target

    def table(self, name):
        """A table or register, in ingress or in egress."""
        for gress in ("Ingress", "Egress"):
            try:
                return gress, self.info.table_get(f"{PIPE}.{gress}.{name}")
            except KeyError:
                continue
        raise bmv2.Failed(f"the program has no table {name}")

    def add_entries(self, entries):
        """Adds table entries. Each names its table and its action without the control at the top."""
        for entry in entries:
            gress, table = self.table(entry["table"])
            action = entry["action"]
            if action != "NoAction":
                action = ".".join([gress, *entry["table"].split(".")[:-1], action])
            names = table.info.data_field_name_list_get(action)
            data = [self.client.DataTuple(name, value) for name, value in zip(names, entry.get("data", []), strict=True)]
            made = table.make_data(data, action)
            if entry["match"]:
                table.entry_add(self.target, [table.make_key(self.key(table, entry))], [made])
            else:
                table.default_entry_set(self.target, made)

    def key(self, table, entry):
        """The fields of an entry's key: a number, value&&&mask, or first->last."""
        names = [name for name in table.info.key_field_name_list_get() if name != "$MATCH_PRIORITY"]
        fields = []
        for name, match in zip(names, map(str, entry["match"]), strict=True):
            if "&&&" in match:
                value, mask = map(int, match.split("&&&"))
                fields.append(self.client.KeyTuple(name, value, mask=mask))
            elif "->" in match:
                first, last = map(int, match.split("->"))
                fields.append(self.client.KeyTuple(name, low=first, high=last))
            else:
                fields.append(self.client.KeyTuple(name, int(match)))
        if entry.get("priority") is not None:
            fields.append(self.client.KeyTuple("$MATCH_PRIORITY", entry["priority"]))
        return fields

    def cells(self, register, copy, number):
        """A copy of a register's cells. A cell has a value for each pipe; a flow is in one of them."""
        gress, table, field = self.register(register)
        index = self.client.KeyTuple
        keys = [table.make_key([index("$REGISTER_INDEX", copy * number + cell)]) for cell in range(number)]
        read = table.entry_get(self.target, keys, {"from_hw": True})
        return [sum(data.to_dict()[field]) for data, _ in read]

    def register(self, name):
        """A register's table, and the name of a field of its cells: of a pair `key` or `count`."""
        try:
            gress, table = self.table(name)
            return gress, table, f"{gress}.{name}.f1"
        except bmv2.Failed:
            name, part = name.rsplit(".", 1)
            gress, table = self.table(name)
            return gress, table, f"{gress}.{name}.{part}"

    def clear(self, register, copy, number):
        """Sets a copy of a register's cells to 0."""
        _, table, _ = self.register(register)
        zero = [self.client.DataTuple(name, 0) for name in table.info.data_field_name_list_get()]
        for cell in range(number):
            key = table.make_key([self.client.KeyTuple("$REGISTER_INDEX", copy * number + cell)])
            table.entry_add(self.target, [key], [table.make_data(zero)])


def common_entries(ports, epochs):
    """Entries of the tables that every switch has: the roles of ports, how they are joined, the hop count, and the
    epochs that are prepared.

    `ports`: by number {"role": "host" or "fabric", "to": the port that it is paired with}.
    """
    for number, port in ports.items():
        with_shim, without = ("reject", "host") if port["role"] == "host" else ("fabric", "blank")
        yield {"table": "arrival.roles", "action": without, "match": [number, 0]}
        yield {"table": "arrival.roles", "action": with_shim, "match": [number, 1]}
        yield {"table": "departure.roles", "action": port["role"], "match": [number]}
        if "to" in port:
            yield {"table": "forward.pairs", "action": "forward", "match": [number], "data": [port["to"]]}
    for hop in range(HOPS + 1):
        yield {"table": "arrival.hops", "action": "next_hop", "match": [hop], "data": [min(hop + 1, HOPS)]}
    for epoch in epochs:
        yield {"table": "epoch.prepared", "action": "measure", "match": [epoch % 65536], "data": [epoch % 2]}


def load(switch, control, ports, epochs):
    """Fills the tables for these epochs: two, as there are two copies of the registers."""
    entries = [entry for entry in control["entries"] if entry.get("epoch") in (None, *epochs)]
    switch.add_entries(common_entries(ports, epochs))
    switch.add_entries(entries)


def read(switch, control, copy, directory):
    """Writes arrays of a copy in the form of `weir replay --registers` (docs/registers.md)."""
    registers = [register for program in control["programs"].values() for register in program["registers"]]
    cells = {of["register"]: switch.cells(of["register"], copy, of["cells"]) for of in registers}
    bmv2.write_arrays(control, cells, {program: [0] for program in control["programs"]}, directory)


def connect(address):
    """The switch at an address of BfRt's server."""
    import bfrt_grpc.client as client

    interface = client.ClientInterface(address, client_id=0, device_id=0)
    interface.bind_pipeline_config("t2na")
    return Switch(client, interface.bfrt_info_get("t2na"), client.Target(device_id=0, pipe_id=0xFFFF))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("do", choices=["load", "read"])
    parser.add_argument("--control", required=True, help="control.json of `weir p4`")
    parser.add_argument("--address", default="localhost:50052", help="BfRt's server")
    parser.add_argument("--ports", help="by number: its role, and the port that it is paired with")
    parser.add_argument("--epochs", default="0..1", help="epochs that are measured")
    parser.add_argument("--copy", type=int, default=0, help="the copy that is read: an epoch's lowest bit")
    parser.add_argument("--out", help="directory for the arrays")
    arguments = parser.parse_args()
    control = json.loads(pathlib.Path(arguments.control).read_text())
    try:
        switch = connect(arguments.address)
        if arguments.do == "load":
            first, last = map(int, arguments.epochs.split(".."))
            load(switch, control, json.loads(pathlib.Path(arguments.ports).read_text()), range(first, last + 1))
        else:
            read(switch, control, arguments.copy, arguments.out)
    except bmv2.Failed as wrong:
        sys.exit(f"tofino.py: {wrong}")


if __name__ == "__main__":
    main()
