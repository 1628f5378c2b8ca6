#!/usr/bin/env python3
"""The schedule of member.py, with a switch and a controller that are not there, on a clock of its own."""

import queue
import unittest

import member
import records

LENGTH, TRANSIT = 1 << 30, 10_000_000
FIRST = 1_600_000_000
PARTS = {"src": 32, "dst": 32, "ports": 32, "proto": 8, "count": 32}
CELLS = 4


def control():
    registers, shift = [], 104
    for part, bits in PARTS.items():
        is_key = part != "count"
        shift -= bits if is_key else 0
        place = {"field": 0 if is_key else 1, "shift": shift if is_key else 0, "bits": bits, "cells": CELLS}
        registers.append({"register": f"hashpipe.ipv4_0.{part}", "array": "ipv4", "index": 0} | place)
    array = {"name": "ipv4", "index": 0, "cells": CELLS, "cell_bits": 136, "field_bits": [104, 32], "file": "ipv4-0.bin"}
    return {"programs": {"hashpipe": {"layout": {"arrays": [array]}, "registers": registers}}, "entries": []}


class Weir:
    def __init__(self):
        self.asked = {}

    def control(self, epoch, parameters):
        self.asked[epoch] = parameters["hashpipe"]
        return control() | {"entries": [{"table": "hashpipe.some", "epoch": epoch, "match": [], "action": "a"}]}


class Ended(Exception):
    pass


class Link:
    """A controller that keeps the records until an epoch, and sends updates at some time."""

    def __init__(self, switch, until, updates=()):
        self.switch, self.until, self.to_come = switch, until, list(updates)
        self.updates, self.refused = queue.SimpleQueue(), {}
        self.first, self.records = None, {}

    def ready(self, first_epoch):
        self.first = first_epoch

    def report(self, program, epoch, record, sent_ns, late_ns):
        assert program == 0 and epoch not in self.records and sent_ns >= (epoch + 1) * LENGTH + TRANSIT
        self.records[epoch] = record

    def check(self):
        now = self.switch.time
        while self.to_come and self.to_come[0][0] <= now:
            self.updates.put(self.to_come.pop(0)[1])
        if now // LENGTH >= self.until:
            raise Ended


class Switch:
    """Counts one packet of flow 1 every 100 ms, in the copy of the running epoch, if that is prepared."""

    def __init__(self, read_ns=20_000_000, add_ns=5_000_000, slow=(), slow_to_add=()):
        self.time = FIRST * LENGTH + 123_456_789
        self.read_ns, self.add_ns, self.slow, self.slow_to_add = read_ns, add_ns, slow, slow_to_add
        self.registers = {f"hashpipe.ipv4_0.{part}": part for part in PARTS}
        self.sizes = {name: 2 * CELLS for name in self.registers}
        self.cells = {name: [0] * size for name, size in self.sizes.items()} | {"epoch.unprepared": [0]}
        self.tables = {name: {"name": name} for name in ("epoch.prepared", "hashpipe.some")}
        self.entries, self.handles, self.sent = {}, 0, {}

    def set_clock(self):
        return 1000

    def now(self):
        return self.time

    def pass_time(self, ns):
        step = 100_000_000
        for at in range(self.time // step + 1, (self.time + ns) // step + 1):
            epoch = at * step // LENGTH
            prepared = [entry["data"][0] for entry in self.entries.values() if entry["match"] == [epoch % 65536]]
            if prepared:
                self.cells["hashpipe.ipv4_0.src"][prepared[0] * CELLS + 1] = 1
                self.cells["hashpipe.ipv4_0.count"][prepared[0] * CELLS + 1] += 1
                self.sent[epoch] = self.sent.get(epoch, 0) + 1
        self.time += ns

    def wait(self, until_ns):
        self.pass_time(max(until_ns - self.time, 0))

    def commands(self, lines):
        list(lines)

    def set_crcs(self, control):
        pass

    def add_entries(self, entries):
        added, epoch = [], self.time // LENGTH - FIRST
        for entry in entries:
            self.pass_time(self.add_ns)
            self.handles += 1
            self.entries[self.handles] = entry
            added.append((entry["table"], self.handles))
        if epoch in self.slow_to_add:
            self.pass_time(LENGTH // 2)
        return added

    def delete_entries(self, added):
        for _, handle in added:
            del self.entries[handle]

    def read_registers(self, names):
        epoch = self.time // LENGTH - FIRST
        cells = {name: list(self.cells[name]) for name in names}
        self.pass_time(3 * LENGTH if epoch in self.slow else self.read_ns)
        return cells

    def write_register(self, name, cells, value):
        for cell in cells:
            self.cells[name][cell] = value


def member_of(switch, link, weir):
    program = {"name": "hashpipe", "program": {}, "parameters": ""}
    own = {"epoch_ns": LENGTH, "transit_ns": TRANSIT, "programs": [program]}
    return member.Member(switch, link, weir, own, say=lambda _: None)


def run(switch, until, updates=()):
    link, weir = Link(switch, FIRST + until, updates), Weir()
    try:
        member_of(switch, link, weir).run()
    except Ended:
        return link, weir


def record(packets):
    return bytes([1]) + records.number(1) + bytes([0x75]) + bytes([0, 0, 0, 1]) + bytes(9) + records.number(packets)


class Schedule(unittest.TestCase):
    def test_each_epoch_is_reported_once_and_alone(self):
        switch = Switch()
        link, _ = run(switch, 12)
        self.assertEqual(link.first, FIRST + 1)
        self.assertEqual(sorted(link.records), list(range(FIRST + 1, FIRST + 12)))
        for epoch, reported in link.records.items():
            self.assertEqual(reported, record(switch.sent[epoch]), epoch)
        # A few entries at any time: two epochs at most, with two each.
        self.assertLessEqual(len(switch.entries), 4)

    def test_what_is_late_is_not_reported(self):
        # Reading takes three epochs once.
        switch = Switch(slow=[4])
        link, _ = run(switch, 16)
        missing = set(range(FIRST + 1, FIRST + 15)) - set(link.records)
        self.assertTrue(missing and len(missing) <= 5, missing)
        self.assertIn(FIRST + 14, link.records)
        for epoch, reported in link.records.items():
            self.assertEqual(reported, record(switch.sent[epoch]), epoch)

    def test_what_is_prepared_late_leaves_nothing(self):
        # Packets of epoch 6 are counted, before it is known that some were not.
        switch = Switch(slow_to_add=[5])
        link, _ = run(switch, 12)
        self.assertGreater(switch.sent[FIRST + 6], 0)
        self.assertEqual(set(range(FIRST + 1, FIRST + 12)) - set(link.records), {FIRST + 6})
        for epoch, reported in link.records.items():
            self.assertEqual(reported, record(switch.sent[epoch]), epoch)

    def test_a_switch_that_is_always_late_is_never_ready(self):
        switch = Switch(add_ns=LENGTH)
        link = Link(switch, FIRST + 5)
        wait = switch.wait
        switch.wait = lambda until: (wait(until), link.check())
        with self.assertRaises(Ended):
            member_of(switch, link, Weir()).run()
        self.assertEqual((link.first, link.records), (None, {}))

    def test_updates_hold_from_their_epoch_on(self):
        at = lambda epoch, update: ((FIRST + epoch) * LENGTH, update)
        updates = [at(2, (0, FIRST + 5, b"one")), at(3, (0, FIRST + 7, b"two")), at(4, (0, FIRST + 6, b"three"))]
        _, weir = run(Switch(), 10, updates)
        asked = [weir.asked[FIRST + epoch] for epoch in range(1, 10)]
        self.assertEqual(asked, [b""] * 4 + [b"one"] + [b"three"] * 4)


if __name__ == "__main__":
    unittest.main()
