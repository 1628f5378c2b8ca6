#!/usr/bin/env python3
"""Reads registers and records of weir (docs/registers.md) and holds HashPipe's to one another.

    weir replay FILE.pcap --epoch 1s --registers registers --records records
    python3 registers.py registers records
"""

import json
import pathlib
import sys


def cells(bank, array):
    """The cells of an array, each a list of its fields' numbers."""
    data, widths = (bank / array["file"]).read_bytes(), [(bits + 7) // 8 for bits in array["field_bits"]]
    starts = [sum(widths[:i]) for i in range(len(widths))]
    fields = lambda at: [int.from_bytes(data[at + s : at + s + w], "little") for s, w in zip(starts, widths)]
    return [fields(at) for at in range(0, len(data), sum(widths))]


def number(record, at):
    """A number of a record (LEB128), and the place behind it."""
    value, end = 0, next(i for i in range(at, len(record)) if record[i] < 128) + 1
    for byte in reversed(record[at:end]):
        value = value << 7 | byte & 127
    return value, end


def hashpipe(record):
    """The counts of a record of HashPipe, by the bytes of the flows' fields (docs/record-format.md)."""
    (flows, at), counts = number(record, 1), {}
    for _ in range(flows):
        end = at + 1 + sum(size for bit, size in enumerate((4, 16, 4, 16, 2, 2, 1)) if record[at] >> bit & 1)
        counts[record[at + 1 : end]], at = number(record, end)
    return counts


def main(registers, records):
    for program, layout in json.loads((registers / "layout.json").read_text())["programs"].items():
        for bank in sorted(registers.glob(f"{program}/epoch-*/core-*")):
            counts, bank_name = {}, f"{program} {bank.parent.name}"
            for array in layout["arrays"]:
                used = [cell for cell in cells(bank, array) if any(cell)]
                total = sum(cell[-1] for cell in used)
                print(f"{bank_name} {array['name']}[{array['index']}] {len(used)} cells in use, sum {total}")
                for key, count in (cell for cell in used if program == "hashpipe"):
                    flow = key.to_bytes(array["field_bits"][0] // 8, "big")
                    counts[flow] = counts.get(flow, 0) + count
            if program == "hashpipe":
                record = hashpipe((records / program / f"{bank.parent.name}.record").read_bytes())
                print(f"{bank_name} record {len(record)} flows, {'as' if record == counts else 'NOT as'} the registers")


if __name__ == "__main__":
    main(*map(pathlib.Path, sys.argv[1:3]))
