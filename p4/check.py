#!/usr/bin/env python3
"""Runs the same packets through weir and through the P4 switch in BMv2, and compares registers and frames byte for byte.

    p4/check.py hashpipe chamelemon --packets 200000
    p4/check.py --case hashpipe:slots=64 --keep out/p4

Needs p4c-bm2-ss, simple_switch and simple_switch_CLI on the PATH, and weir and bench (`make p4` builds them).
"""

import argparse
import collections
import gzip
import hashlib
import json
import os
import pathlib
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "control"))
import bmv2  # noqa: E402

# The ports of switch.toml.
PORTS = {
    "0": {"role": "host", "to": 1},
    "1": {"role": "fabric", "to": 0},
    "2": {"role": "fabric", "to": 3},
    "3": {"role": "fabric", "to": 2},
    "4": {"role": "host", "to": 5},
    "5": {"role": "host", "to": 4},
}
EPOCH_SHIFT = 26
FIRST_EPOCH = 26_000_000_000
COPY_BITS = 3
CLOCK = struct.Struct(">HHQI")
# Seconds that BMv2 waits before it reads packets, in which tables are filled.
WAIT = int(os.environ.get("BMV2_WAIT", "10"))

# Programs as they are compared: with parameters that stay.
CASES = {
    "hashpipe": ["hashpipe"],
    "hashpipe-digest32": ["hashpipe:key=digest32"],
    "chamelemon": ["chamelemon:attention=fixed"],
    # All classes, parts of lengths that are no power of two, and a small row.
    "chamelemon-classes": [
        "chamelemon:attention=fixed,tower=8x5000+16x1000,arrays=4,small=2,upstream=3000,downstream=2000,"
        "hh=1100,hl=1000,ll=900,hh_threshold=60,hl_threshold=8,sample=30000"
    ],
    # The parts of a Tofino's encoders.
    "chamelemon-powers": [
        "chamelemon:attention=fixed,parts=powers,downstream=4096,hh=1024,hl=2048,ll=512,"
        "hh_threshold=60,hl_threshold=8,sample=30000"
    ],
    "pint": ["pint"],
    "pint-utilisation": ["pint:queries=path:bits=8+utilisation:bits=8:rate=1Gbps:filter=shifts"],
    "pint-latency": ["pint:queries=path:bits=8+latency:bits=8"],
    # Traffic of any size has a larger error, so epochs are cut into 1, 1, 2, 2, 4, 4, … sub-epochs.
    "disketch": ["disketch:rho=paper,rho_target=0.001,max_sub_epochs=8"],
    "hopcounters": ["hopcounters:memory=16KB"],
    # With a digest fabric packets carry the lowest bits of their epoch, and count as well.
    "hopcounters-pint": ["hopcounters", "pint"],
    "all": [
        "hashpipe",
        "chamelemon:attention=fixed",
        "pint",
        "disketch:rho=paper,rho_target=0.001,max_sub_epochs=8",
    ],
}
# Cases with an epoch that nobody prepares, by its place: packets of it are forwarded and not measured. ChameleMon's
# packets would have no class.
CASES["unprepared"] = ["hashpipe", "pint", "disketch:rho=paper,rho_target=0.001,max_sub_epochs=8", "hopcounters"]
UNPREPARED = {"unprepared": 2}
WORKLOADS = {
    "isp": "isp/burst,flows={flows},packets={packets},ipv6=0.25,len=imix,seed={seed}",
    "zipf": "zipf1/uniform,flows={flows},packets={packets},ipv6=0.25,len=imix,seed={seed}",
    "burst": "zipf1.3/burst,flows={flows},packets={packets},ipv6=0.25,len=imix,seed={seed}",
}


def run(*command, **options):
    ran = subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)
    if ran.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{ran.stdout[-2000:]}{ran.stderr[-4000:]}")
    return ran.stdout


def pcap_packets(path):
    """Yields time in nanoseconds and bytes of each packet of a pcap file."""
    data = pathlib.Path(path).read_bytes()
    if not data:
        return
    magic = data[:4]
    order = "<" if magic in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1") else ">"
    scale = 1 if magic in (b"\x4d\x3c\xb2\xa1", b"\xa1\xb2\x3c\x4d") else 1000
    record = struct.Struct(order + "IIII")
    at = 24
    while at + 16 <= len(data):
        seconds, part, kept, _ = record.unpack_from(data, at)
        yield seconds * 1_000_000_000 + part * scale, data[at + 16 : at + 16 + kept]
        at += 16 + kept


def write_pcap(path, packets):
    with open(path, "wb") as to:
        to.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, 1))
        for number, packet in enumerate(packets):
            to.write(struct.pack("<IIII", number // 1000000, number % 1000000, len(packet), len(packet)) + packet)


def block(kind, body):
    body += b"\0" * (-len(body) % 4)
    return struct.pack("<II", kind, len(body) + 12) + body + struct.pack("<I", len(body) + 12)


def option(code, value):
    return struct.pack("<HH", code, len(value)) + value + b"\0" * (-len(value) % 4)


def write_pcapng(path, clocked):
    """The same packets for weir: an interface for each port, times of their own, and how long each is held as a comment."""
    with open(path, "wb") as to:
        to.write(block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)))
        for _ in PORTS:
            to.write(block(1, struct.pack("<HHI", 1, 0, 262144) + option(9, b"\x09") + option(0, b"")))
        for packet in clocked:
            port, _, now, held = CLOCK.unpack_from(packet)
            frame = packet[CLOCK.size :]
            head = struct.pack("<IIIII", port, now >> 32, now & 0xFFFFFFFF, len(frame), len(frame))
            frame += b"\0" * (-len(frame) % 4)
            to.write(block(6, head + frame + option(1, f"held_ns={held}".encode()) + option(0, b"")))


def toml_of(program):
    """A program of the command line as a table of the configuration."""
    name, _, rest = program.partition(":")
    lines = ["", "[[program]]", f'name = "{name}"']
    for pair in filter(None, rest.split(",")):
        key, value = pair.split("=", 1)
        is_number = value.replace(".", "", 1).isdigit() or value in ("true", "false")
        lines.append(f"{key} = {value}" if is_number else f'{key} = "{value}"')
    return "\n".join(lines) + "\n"


def number(data, at):
    """A number of a record (docs/record-format.md), and where it ends."""
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 128:
            return value, at


def cuts_of(directory, epochs):
    """log2 of the number of sub-epochs into which weir cut each epoch, from DiSketch's records."""
    cuts = {}
    for epoch in epochs:
        record = directory / f"records/disketch/epoch-{epoch}.record"
        if record.exists():
            data = record.read_bytes()
            _, at = number(data, 1)
            cuts[epoch] = number(data, at)[0].bit_length() - 1
    return cuts


def sub_epochs_of(epoch, cuts, clocked):
    """The sub-epochs that saw a packet: weir has a part for each."""
    times = (CLOCK.unpack_from(packet)[2] for packet in clocked)
    return sorted({time % (1 << EPOCH_SHIFT) >> EPOCH_SHIFT - cuts for time in times if time >> EPOCH_SHIFT == epoch})


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Bmv2:
    """simple_switch in file mode, from its start to its last packet."""

    def __init__(self, directory, compiled, control, epochs, cuts):
        """`epochs`: those that are prepared."""
        self.directory, self.port = directory, free_port()
        interfaces = [word for number in PORTS for word in ("-i", f"{number}@p{number}")]
        # Of its own: several comparisons may run at the same time.
        own = ["--thrift-port", str(self.port), "--notifications-addr", f"ipc://{directory}/notifications.ipc"]
        command = ["simple_switch", "--use-files", str(WAIT), *own, *interfaces, "switch.json"]
        self.process = subprocess.Popen(command, cwd=directory, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.switch = bmv2.Switch(compiled, self.port)
        began = time.monotonic()
        while True:
            try:
                self.switch.commands(["set_queue_depth 100000000"])
                break
            except bmv2.Failed:
                if time.monotonic() - began > WAIT:
                    raise
                time.sleep(0.2)
        self.switch.set_crcs(control)
        self.switch.add_entries(bmv2.common_entries(PORTS, epochs, 1 << COPY_BITS))
        self.switch.add_entries(entry for entry in control["entries"] if entry.get("epoch", epochs[0]) in epochs)
        self.switch.add_entries(bmv2.cut_entries(cuts))
        if time.monotonic() - began > WAIT - 1:
            self.end()
            sys.exit("filling the tables took too long; set BMV2_WAIT to more seconds")

    def wait(self, packets):
        """Until this many packets have passed the ingress, and then what is in the queues."""
        time.sleep(WAIT)
        while self.switch.read_registers(["arrival.packets"])["arrival.packets"] != [packets]:
            time.sleep(0.5)
        time.sleep(1)

    def end(self):
        self.process.kill()
        self.process.wait()


def differing_frames(weir, p4):
    """Numbers of the frames that differ, of one port."""
    ours = [frame for _, frame in pcap_packets(weir)] if weir.exists() else []
    theirs = [frame for _, frame in pcap_packets(p4)] if p4.exists() else []
    pairs = [number for number, (a, b) in enumerate(zip(ours, theirs)) if a != b]
    return ours, theirs, pairs


def parts(directory, array):
    """The parts of an epoch that an array's registers were read of: their numbers and files."""
    whole = directory / array["file"]
    if whole.exists():
        yield 0, whole
    for path in sorted(directory.glob(f"part-*/{array['file']}")):
        yield int(path.parent.name.split("-")[1]), path


def half_of(epoch, record, before, size, modulus):
    """An array of which one half has the packets of the epoch. The record before has those that left soon after its begin."""
    middle = len(record) // 2
    half = slice(middle, None) if epoch % 2 else slice(None, middle)
    numbers = [[int.from_bytes(cells[half][i : i + size], "little") for i in range(0, middle, size)] for cells in (record, before)]
    sums = b"".join(((one + other) % modulus).to_bytes(size, "little") for one, other in zip(*numbers))
    return bytes(middle) + sums if epoch % 2 else sums + bytes(middle)


def compare(directory, control, epochs, unprepared, cells, sub_epochs):
    """Prints what differs, and returns how many arrays and frames are equal, and whether all are. P4 has zeros for an
    unprepared epoch."""
    equal, wrong = collections.Counter(), 0
    for epoch in epochs:
        copies = bmv2.copies_of(control, cells, epoch % (1 << COPY_BITS), 1 << COPY_BITS, sub_epochs.get(epoch))
        bmv2.write_arrays(control, cells, copies, directory / f"p4/epoch-{epoch}")
        for program, of in control["programs"].items():
            halves = {(half["array"], half["index"]): half for half in of.get("halves", [])}
            for array in of["layout"]["arrays"]:
                size = sum((bits + 7) // 8 for bits in array["field_bits"])
                for part, theirs in parts(directory / f"p4/epoch-{epoch}" / program, array):
                    bank = "core-0" if part == 0 else f"core-0-part-{part}"
                    ours = directory / "registers" / program / f"epoch-{epoch}" / bank / array["file"]
                    one, other = ours.read_bytes() if ours.exists() else b"", theirs.read_bytes()
                    if half := halves.get((array["name"], array["index"])):
                        before = directory / "registers" / program / f"epoch-{epoch - 1}" / bank / array["file"]
                        one = half_of(epoch, one, before.read_bytes() if before.exists() else bytes(len(one)), size, half["modulus"])
                    one = bytes(len(one)) if epoch == unprepared else one
                    starts = range(0, max(len(one), len(other)), size)
                    slots = [i // size for i in starts if one[i : i + size] != other[i : i + size]]
                    if not slots:
                        equal["arrays"] += 1
                        equal["cells in use"] += sum(any(one[i : i + size]) for i in starts)
                        continue
                    wrong += 1
                    print(f"  {program} epoch {epoch} part {part} {array['file']}: {len(slots)} of {array['cells']} cells differ, first {slots[:3]}")
                    for slot in slots[:3]:
                        print(f"    weir {one[slot * size : (slot + 1) * size].hex()} p4 {other[slot * size : (slot + 1) * size].hex()}")
    for number in PORTS:
        ours, theirs, pairs = differing_frames(directory / f"frames/p{number}.pcap", directory / f"p{number}_out.pcap")
        if pairs or len(ours) != len(theirs):
            wrong += 1
            print(f"  port {number}: {len(ours)} frames from weir, {len(theirs)} from P4; differ: {len(pairs)}, first {pairs[:3]}")
            for pair in pairs[:3]:
                print(f"    weir {ours[pair][:90].hex()}\n    p4   {theirs[pair][:90].hex()}")
        equal["frames"] += len(ours) - len(pairs)
    return equal, wrong


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def write_golden(path, directory, control, programs, workload, arguments, epochs, unprepared, whole):
    """Writes what BMv2 gave, for tests/p4.rs."""
    lines = [f"# What BMv2 gave of p4/switch/v1model.p4; p4/check.py wrote this file (see README.md)."]
    lines += [f"program {program}" for program in programs] + [f"workload {workload}"]
    lines += [f"epochs {epochs[0]} {len(epochs)}", f"odd {arguments.odd}"]
    lines += [f"unprepared {unprepared}"] if unprepared else []
    for epoch in epochs:
        for program, of in control["programs"].items():
            halves = {(half["array"], half["index"]): half["modulus"] for half in of.get("halves", [])}
            for array in of["layout"]["arrays"]:
                for part, file in parts(directory / f"p4/epoch-{epoch}" / program, array):
                    name, of_cells = f"{array['name']}-{array['index']}", sha256(file.read_bytes())
                    modulus = halves.get((array["name"], array["index"]))
                    kind = f"half {modulus}" if modulus else "registers"
                    lines.append(f"{kind} {program} {epoch} {part} {name} {of_cells}")
    kept = b""
    for number in PORTS:
        frames = [frame for _, frame in pcap_packets(directory / f"p{number}_out.pcap")]
        framed = b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)
        lines.append(f"frames {number} {len(frames)} {sha256(framed)}")
        kept += b"".join(struct.pack(">HI", int(number), len(frame)) + frame for frame in frames)
    path.write_text("\n".join(lines) + "\n")
    if whole:
        path.with_suffix(".frames.gz").write_bytes(gzip.compress(kept, mtime=0))


def check(case, programs, workload, arguments, directory):
    weir, bench = arguments.bin / "weir", arguments.bin / "bench"
    (directory / "weir.toml").write_text((HERE / "switch.toml").read_text() + "".join(map(toml_of, programs)))
    epochs = range(FIRST_EPOCH, FIRST_EPOCH + arguments.epochs)
    span = f"{epochs[0]}..{epochs[-1]}"
    config = directory / "weir.toml"
    run(weir, "p4", "-c", config, "--target", "v1model", "--epochs", span, "--out", directory)
    sources = ["-I", directory, "-I", HERE, "-DTEST_CLOCK", f"-DEPOCH_COPY_BITS={COPY_BITS}"]
    run("p4c-bm2-ss", *sources, "-o", directory / "switch.json", HERE / "switch/v1model.p4")
    compiled = json.loads((directory / "switch.json").read_text())
    control = json.loads((directory / "control.json").read_text())
    packets = ["p4-packets", "--workload", workload, "--epochs", arguments.epochs, "--first-epoch", FIRST_EPOCH]
    run(bench, *packets, "--odd", arguments.odd, "--out", directory / "clocked.pcap")
    clocked = [packet for _, packet in pcap_packets(directory / "clocked.pcap")]
    write_pcap(directory / "p0_in.pcap", clocked)
    for number in list(PORTS)[1:]:
        write_pcap(directory / f"p{number}_in.pcap", [])
    write_pcapng(directory / "packets.pcapng", clocked)
    replay = ["replay", "-c", config, directory / "packets.pcapng", "--records", directory / "records"]
    run(weir, *replay, "--registers", directory / "registers", "--frames", directory / "frames")
    cuts = cuts_of(directory, epochs)
    sub_epochs = {epoch: (cuts[epoch], sub_epochs_of(epoch, cuts[epoch], clocked)) for epoch in cuts}
    unprepared = epochs[UNPREPARED[case]] if case in UNPREPARED else None
    switch = Bmv2(directory, compiled, control, [epoch for epoch in epochs if epoch != unprepared], cuts)
    try:
        switch.wait(len(clocked))
        cells = switch.switch.read_registers(bmv2.register_names(control))
    finally:
        switch.end()
    equal, wrong = compare(directory, control, epochs, unprepared, cells, sub_epochs)
    if arguments.golden and not wrong:
        arguments.golden.mkdir(parents=True, exist_ok=True)
        path = arguments.golden / f"{case}-{workload.split('/')[0]}-{len(clocked)}.txt"
        write_golden(path, directory, control, programs, workload, arguments, epochs, unprepared, len(clocked) <= 2000)
    outcome = "equal" if not wrong else "DIFFERENT"
    print(f"{case:12} {workload.split(',')[0]:14} {len(clocked):7} packets  {outcome}: " + ", ".join(f"{n} {what}" for what, n in equal.items()))
    return wrong == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", default=list(CASES), help=f"of {', '.join(CASES)}")
    parser.add_argument("--case", action="append", default=[], metavar="P[:KEY=VALUE,…]", help="further programs, together in one switch")
    parser.add_argument("--workload", action="append", default=[], choices=list(WORKLOADS))
    parser.add_argument("--packets", type=int, default=200_000)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--odd", type=int, default=16, help="one of this many packets is malformed or unusual")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--bin", type=pathlib.Path, default=HERE.parent / "target/release", help="directory of weir and bench")
    parser.add_argument("--keep", type=pathlib.Path, help="keep the files here")
    parser.add_argument("--golden", type=pathlib.Path, help="write what BMv2 gave here, where it is equal")
    arguments = parser.parse_args()
    arguments.bin = arguments.bin.resolve()
    if missing := [tool for tool in ("p4c-bm2-ss", "simple_switch", "simple_switch_CLI") if not shutil.which(tool)]:
        sys.exit(f"not on the PATH: {', '.join(missing)}")
    cases = {case: CASES[case] for case in arguments.cases} if not arguments.case else {"given": arguments.case}
    good = True
    for case, programs in cases.items():
        for name in arguments.workload or WORKLOADS:
            workload = WORKLOADS[name].format(packets=arguments.packets, flows=arguments.packets // 10, seed=arguments.seed)
            with tempfile.TemporaryDirectory() as temporary:
                directory = pathlib.Path(temporary)
                if arguments.keep:
                    directory = (arguments.keep / f"{case}-{name}").resolve()
                    shutil.rmtree(directory, ignore_errors=True)
                    directory.mkdir(parents=True)
                good &= check(case, programs, workload, arguments, directory)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
