#!/usr/bin/env python3
"""Encodes registers as the record of a program, in the byte form of docs/record-format.md.

    records.py REGISTERS MEMBER PROGRAM EPOCH > epoch.record

REGISTERS is a directory of `weir replay --registers`, and MEMBER the member.json of `weir p4` for the same
configuration. What a record says beside the registers is in `Epoch`.
"""

import collections.abc
import dataclasses
import itertools
import json
import pathlib
import struct
import sys
import zlib


@dataclasses.dataclass
class Epoch:
    """An epoch of one program of a switch."""

    number: int
    # Of the program, as member.json has it.
    config: dict
    # The arrays of the program's layout, and the bytes of each by its file (docs/registers.md).
    layout: dict
    arrays: dict
    # The byte forms of the parameters that this epoch is measured with, and the next one.
    parameters: bytes = b""
    next_parameters: bytes = b""
    # By name: what the counters of the encoder show.
    counters: dict = dataclasses.field(default_factory=dict)

    def cells(self, name):
        """The cells of all arrays of this name, array by array: each a list of its fields' numbers."""
        for array in self.layout["arrays"]:
            if array["name"] == name:
                yield list(cells_of(array, self.arrays[array["file"]]))


def cells_of(array, data):
    sizes = [(bits + 7) // 8 for bits in array["field_bits"]]
    fields = struct.iter_unpack("<" + "".join({1: "B", 2: "H", 4: "I"}.get(size, f"{size}s") for size in sizes), data)
    # Fields of other sizes are bytes so far.
    if all(size in (1, 2, 4) for size in sizes):
        return fields
    return (tuple(int.from_bytes(f, "little") if isinstance(f, bytes) else f for f in cell) for cell in fields)


def number(value):
    """A number in LEB128."""
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def numbers(*values):
    return b"".join(map(number, values))


def hashpipe(epoch):
    """The flows of all stages, each once. The keys are five-tuples."""
    counts = {}
    # The byte in front of a flow says which fields follow. Flows of IPv4 come first.
    for fields, name in ((0x75, "ipv4"), (0x7A, "ipv6")):
        for key, count in itertools.chain.from_iterable(epoch.cells(name)):
            if count:
                counts.setdefault((fields, key), []).append(count)
    record = bytes([1]) + number(len(counts))
    for (fields, key), parts in sorted(counts.items()):
        # A count of all ones is the least that it can be.
        is_full = 0xFFFFFFFF in parts
        size = 13 if fields == 0x75 else 37
        record += bytes([fields | is_full << 7]) + key.to_bytes(size, "big") + number(sum(parts))
    return record


def disketch(epoch):
    """The counters of an epoch that is not cut into sub-epochs, which is one part."""
    bits = epoch.config["counter_bits"]
    is_signed = epoch.config["sketch"] != "cms"
    counters = [cell[0] for level in epoch.cells("counters") for cell in level]
    largest, all_ones = (1 << bits - 1) - 1, (1 << bits) - 1
    is_full = any(counter in ((largest, largest + 1) if is_signed else (all_ones,)) for counter in counters)
    record = bytes([1]) + numbers(1, 1, 1, 0, int(is_full))
    for is_zero, run in itertools.groupby(counters, lambda counter: counter == 0):
        run = list(run)
        if is_zero:
            record += numbers(0, len(run) - 1)
        else:
            record += numbers(*(zigzag(counter - (all_ones + 1) * (is_signed and counter > largest)) for counter in run))
    return record


def zigzag(value):
    return 2 * value if value >= 0 else -2 * value - 1


def chamelemon(epoch):
    """The classifier and both encoders. A P4 switch has no names of IPv6 flows: `names = 0` in its configuration."""
    (hh, hl, ll, *_), (_, next_hl, next_ll, *_) = map(read_numbers, (epoch.parameters, epoch.next_parameters))
    bit = epoch.number & 1
    left = [(hl, ll), (next_hl, next_ll)]
    if bit:
        left.reverse()
    strays, unfollowed, unnamed = (epoch.counters.get(name, 0) for name in ENCODERS["chamelemon"].counters)
    record = bytes([4, bit]) + epoch.parameters + numbers(0, strays, 0, unfollowed, 0, unnamed)
    record += numbers(*left[0], *left[1])
    for counters, bits in zip(epoch.cells("tower"), widths(epoch.layout, "tower")):
        infinity = (1 << bits) - 1
        record += runs([number(0 if size == infinity else size) if size else b"" for (size,) in counters])
    record += parts(epoch, "upstream", 0, (ll, hl, hh))
    for half, (hl, ll) in enumerate(left):
        record += parts(epoch, "downstream", half, (ll, hl))
    return record


def widths(layout, name):
    return [array["cell_bits"] for array in layout["arrays"] if array["name"] == name]


def parts(epoch, name, half, lengths):
    """The parts of an encoder, which lie side by side in each row: the last one comes first in the record."""
    arrays = [[cell[0] for cell in array] for array in epoch.cells(name)]
    rows = [list(zip(*arrays[at : at + 5])) for at in range(0, len(arrays), 5)]
    full, small = epoch.config["arrays"], epoch.config["small"]
    record = b""
    for part in reversed(range(len(lengths))):
        for number_of_row, row in enumerate(rows if lengths[part] else []):
            width = lambda length: max(length >> small, 1) if number_of_row >= full and length else length
            begin = half * len(row) // 2 + sum(map(width, lengths[:part]))
            record += runs([bucket(cell) for cell in row[begin : begin + width(lengths[part])]])
    return record


def bucket(cell):
    """A bucket: four sums of fragments, and the packets."""
    *sums, packets = cell
    return struct.pack("<4I", *sums) + number(2 * packets) if any(cell) else b""


def runs(cells):
    """Cells in their byte form, of which the empty ones are not written."""
    groups = [(is_filled, list(run)) for is_filled, run in itertools.groupby(cells, bool)]
    if groups and groups[0][0]:
        groups.insert(0, (False, []))
    if groups and not groups[-1][0]:
        groups.append((True, []))
    pairs = zip(groups[::2], groups[1::2])
    return b"".join(numbers(len(empty), len(filled)) + b"".join(filled) for (_, empty), (_, filled) in pairs)


def read_numbers(data):
    """All numbers of a byte form."""
    values, shift = [0], 0
    for byte in data:
        values[-1] |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            values.append(0)
            shift = 0
    return values[:-1]


def pint(epoch):
    """No digests, and how many packets left with one that nobody reports. A plan is known by its CRC."""
    plans = (numbers(2, zlib.crc32(parameters)) for parameters in (epoch.parameters, epoch.next_parameters))
    return bytes([4]) + b"".join(plans) + numbers(epoch.counters.get("unreported", 0), 0, 0, 0)


def hopcounters(epoch):
    """The rows of all ports. A P4 switch does not count drops, nor packets that end in it or that it makes."""
    bit = epoch.number & 1
    arrays = [rows_by_parity(epoch, name) for name in ("received", "sent", "balance")]
    record = bytes([1])
    for parity in (bit, 1 - bit):
        for name, halves in zip(("received", "sent", "balance"), arrays):
            record += row(halves[parity], is_signed=name == "balance")
        record += numbers(0)
    # Late packets are told without their epoch.
    return record + numbers(0, 0, epoch.counters.get("late", 0), 0)


def rows_by_parity(epoch, name):
    """The cells of packets of even and of odd epochs; zeros of an array that the switch does not have."""
    array = next(array for array in epoch.layout["arrays"] if array["name"] == name)
    cells = [0] * array["cells"]
    if array["file"] in epoch.arrays:
        cells = [cell[0] for cell in cells_of(array, epoch.arrays[array["file"]])]
    middle = len(cells) // 2
    return cells[:middle], cells[middle:]


def row(counters, is_signed):
    """Counters, where behind a 0 stands how many more follow it."""
    encoded = b""
    for is_zero, run in itertools.groupby(counters, lambda counter: counter == 0):
        run = list(run)
        signed = (counter - (1 << 32) * (counter >> 31) for counter in run)
        encoded += numbers(0, len(run) - 1) if is_zero else numbers(*(map(zigzag, signed) if is_signed else run))
    return encoded


@dataclasses.dataclass
class Encoder:
    """How registers of a program become a record."""

    encode: collections.abc.Callable[[Epoch], bytes]
    # Registers of one cell, of what the record says beside the program's arrays.
    counters: tuple = ()
    # Keys of the configuration with the only value that there is an encoding for.
    needs: dict = dataclasses.field(default_factory=dict)


ENCODERS = {
    "hashpipe": Encoder(hashpipe),
    # Packets that left and were not encoded, copies and fragments that left, and packets of IPv6 flows.
    "chamelemon": Encoder(chamelemon, ("strays", "unfollowed", "unnamed"), {"names": 0}),
    # Packets that left with a digest.
    "pint": Encoder(pint, ("unreported",)),
    "disketch": Encoder(disketch),
    # Packets of epochs that were not counted.
    "hopcounters": Encoder(hopcounters, ("late",)),
}


def main(registers, member, program, epoch):
    """Encodes an epoch of a replay, measured with the parameters that the switch started with."""
    own = next(own for own in json.loads(member.read_text())["programs"] if own["name"] == program)
    layout = json.loads((registers / "layout.json").read_text())["programs"][program]
    bank = registers / program / f"epoch-{epoch}" / "core-0"
    arrays = {array["file"]: (bank / array["file"]).read_bytes() for array in layout["arrays"]}
    parameters = bytes.fromhex(own["parameters"])
    of = Epoch(int(epoch), own["program"], layout, arrays, parameters, parameters)
    sys.stdout.buffer.write(ENCODERS[program].encode(of))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), *sys.argv[3:])
