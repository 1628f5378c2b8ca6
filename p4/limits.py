#!/usr/bin/env python3
"""Lets counters of the P4 switch in BMv2 run into their limits, and writes what became of them.

    p4/limits.py > tests/golden/p4-limits.txt

The same packets are sent twice: to zeroed registers, which says what they add, and to registers near a limit. Needs what
check.py needs.
"""

import argparse
import json
import pathlib
import struct
import tempfile

import check
import bmv2

# Programs with the bits of all sizes of counters, and whether these have signs.
PROGRAMS = {
    "hashpipe": False,
    "chamelemon:attention=fixed,tower=8x4096+16x1024+32x512": False,
    "disketch:max_sub_epochs=1": True,
    "disketch:max_sub_epochs=1,counter_bits=8": True,
    "disketch:sketch=cms,max_sub_epochs=1": False,
    "hopcounters:memory=16KB": False,
}
P = 4294967291
# Registers that are sums modulo P, and those that are no counters: they get what the packets alone put there.
SUMS = ("source", "destination", "ports", "rest")
KEYS = ("key", "src", "dst", "ports", "proto")
FLOWS, PACKETS = 4, 4


def frame(flow):
    ip = struct.pack(">BBHHHBBH", 0x45, 0, 46, 0, 0, 64, 17, 0) + bytes([10, 0, 0, flow, 10, 0, 1, 1])
    return bytes(12) + b"\x08\x00" + ip + struct.pack(">HHHH", 1000 + flow, 9, 26, 0) + bytes(18)


def limits(program, register, bits, is_signed):
    """Values two below a limit."""
    if program == "chamelemon" and register.split(".")[-1] in SUMS:
        return [P - 2]
    return [(1 << bits - 1) - 3, (1 << bits - 1) + 2] if is_signed else [(1 << bits) - 3]


def run(directory, compiled, control, packets, preset):
    """The cells of all registers behind the packets. `preset`: by register and cell."""
    switch = check.Bmv2(directory, compiled, control, [check.FIRST_EPOCH], {})
    try:
        names = switch.switch.registers
        switch.switch.commands(f"register_write {names[name]} {cell} {value}" for (name, cell), value in preset.items())
        if switch.switch.read_registers(["arrival.packets"]) != {"arrival.packets": [0]}:
            raise SystemExit("packets came before the registers were set; set BMV2_WAIT to more seconds")
        switch.wait(packets)
        return switch.switch.read_registers(bmv2.register_names(control))
    finally:
        switch.end()


def lines(weir, program, is_signed, directory):
    (directory / "weir.toml").write_text((check.HERE / "switch.toml").read_text() + check.toml_of(program))
    epochs = f"{check.FIRST_EPOCH}..{check.FIRST_EPOCH}"
    check.run(weir, "p4", "-c", directory / "weir.toml", "--target", "v1model", "--epochs", epochs, "--out", directory)
    sources = ["-I", directory, "-I", check.HERE, "-DTEST_CLOCK", f"-DEPOCH_COPY_BITS={check.COPY_BITS}"]
    check.run("p4c-bm2-ss", *sources, "-o", directory / "switch.json", check.HERE / "switch/v1model.p4")
    compiled, control = (json.loads((directory / file).read_text()) for file in ("switch.json", "control.json"))
    now = check.FIRST_EPOCH << check.EPOCH_SHIFT
    packets = [check.CLOCK.pack(0, 0, now + at, 0) + frame(at % FLOWS) for at in range(FLOWS * PACKETS)]
    check.write_pcap(directory / "p0_in.pcap", packets)
    for number in list(check.PORTS)[1:]:
        check.write_pcap(directory / f"p{number}_in.pcap", [])
    (name, of), = control["programs"].items()
    registers = {register["register"]: register for register in of["registers"]}
    alone = run(directory, compiled, control, len(packets), {})
    touched = {(register, cell): value for register in registers for cell, value in enumerate(alone[register]) if value}
    is_key = lambda register: name == "hashpipe" and register.split(".")[-1] in KEYS  # noqa: E731
    part = lambda register: register.split(".")[1] if name == "chamelemon" else ""  # noqa: E731
    # Part by part: what ChameleMon's classifier holds says which buckets a packet takes.
    for of_part in sorted({part(register) for register, _ in touched}):
        cells = {at: value for at, value in touched.items() if part(at[0]) == of_part}
        for which in range(2 if is_signed else 1):
            near = {r: limits(name, r, registers[r]["bits"], is_signed)[which:][0] for r, _ in cells}
            preset = {at: value if is_key(at[0]) else near[at[0]] for at, value in cells.items()}
            after = run(directory, compiled, control, len(packets), preset)
            for (register, cell), value in cells.items():
                bits, mask = registers[register]["bits"], (1 << registers[register]["bits"]) - 1
                numbers = [preset[register, cell], value & mask, after[register][cell] & mask]
                if not is_key(register):
                    yield f"{name} {register} {bits} {int(is_signed)} " + " ".join(map(str, numbers))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=check.HERE.parent / "target/release", help="directory of weir")
    parser.add_argument("program", nargs="*", help=f"of {', '.join(PROGRAMS)}; by default all")
    arguments = parser.parse_args()
    weir = arguments.bin.resolve() / "weir"
    print("# What BMv2 made of counters near their limits; p4/limits.py wrote this file (p4/README.md).")
    for program in arguments.program or PROGRAMS:
        is_signed = PROGRAMS[program]
        with tempfile.TemporaryDirectory() as directory:
            print("\n".join(sorted(set(lines(weir, program, is_signed, pathlib.Path(directory))))), flush=True)


if __name__ == "__main__":
    main()
