"""Compares the hashes that a Tofino computes with weir's, without a Tofino: the assembler's log has each bit
of each hash as an exclusive or of bits of fields, and this evaluates them on random keys.

    python3 p4/hashes.py [--keys 1000] [--target tofino2] [--keep DIR] CONSTANTS

CONSTANTS is a directory such as p4/constants/pint/t2na. See tofino.py for the environment.

Compared are all CRCs, with polynomials by name from constants.p4 and keys of fields in weir's order
(src/wire/flow.rs, src/wire/identity.rs). Fails if one is missing.
"""

import argparse
import random
import re
import tempfile
from collections import defaultdict

import tofino

FIVE_TUPLE = [("hdr.ipv4.src", 32), ("hdr.ipv4.dst", 32), ("meta.ports", 32), ("hdr.ipv4.protocol", 8)]
# The bytes of wire::identity. The addresses are 40 bits, of which the PHV has the upper 32 as one exclusive or.
IDENTITY = [(None, 88), ("meta.pint.addresses", 32), ("hdr.ipv4.src", 8), ("hdr.ipv4.protocol", 8),
            ("meta.ports", 32), ("hdr.ipv4.total_length", 16), ("hdr.ipv4.identification", 16),
            ("meta.pint.numbers_0", 32), ("meta.pint.numbers_1", 32),
            ("meta.pint.payload", 48), ("meta.pint.payload_last", 8)]
# A CRC in the assembly: columns of the hash, polynomial, first and last register, bits of the key.
CRC = re.compile(r"\s+(\d+)(?:\.\.(\d+))?: (.*crc_rev\(0x([0-9a-f]+), 0x([0-9a-f]+), 0x([0-9a-f]+), (\d+),.*)$")
# One word of 32 bits, whichever field holds it.
WORD = None

KEYS = [
    (r"CRC_HASHPIPE_DIGEST", FIVE_TUPLE),
    (r"CRC_HASHPIPE_IPV4_\d", WORD),
    (r"CRC_CHAMELEMON_\w+", FIVE_TUPLE),
    (r"CRC_PINT_IDENTITY", IDENTITY),
    (r"CRC_PINT_\w+", WORD),
    (r"CRC_DISKETCH_\d", FIVE_TUPLE),
]


def reflected(polynomial):
    return int(f"{polynomial:032b}"[::-1], 2)


def crc(polynomial, key):
    """zlib's CRC-32, bit by bit, with another polynomial."""
    register, polynomial = 0xffffffff, reflected(polynomial)
    for byte in key:
        register ^= byte
        for _ in range(8):
            register = register >> 1 ^ (polynomial if register & 1 else 0)
    return register ^ 0xffffffff


def base(name):
    """A field's name without the direction and the slice that a container holds, and that slice's lowest bit."""
    name = re.sub(r"^(ingress|egress)::", "", name.strip().strip('"'))
    found = re.fullmatch(r"(.*?)\.(\d+)-(\d+)", name)
    name, low = (found[1], int(found[2])) if found else (name, 0)
    return re.sub(r"\$\w+$", "", name), low


def stages_of_log(text):
    """By stage and hash table the bits of the result: the constant and the bits of fields."""
    stages, stage, table = defaultdict(lambda: defaultdict(dict)), None, None
    for line in text.splitlines():
        if found := re.fullmatch(r"\s*Stage (\d+)", line):
            stage, table = int(found[1]), None
        elif found := re.fullmatch(r"result\[(\d+)\] = (.*)", line):
            terms = found[2].split(" ^ ")
            fields = []
            for term in terms[1:]:
                name, bit = re.fullmatch(r"(.*)\[(\d+)\]", term).groups()
                fields.append((base(name)[0], int(bit)))
            stages[stage][table][int(found[1])] = fields
        elif found := re.search(r"(\d+)\s*$", line):
            table = int(found[1])
    return stages


def units_of_assembly(text):
    """The CRCs with their stages, hash tables, columns and keys, and the hash groups of each stage."""
    crcs, groups, stage, table, group = [], defaultdict(dict), None, None, None
    for line in text.splitlines():
        if found := re.match(r"stage (\d+) (ingress|egress)", line):
            stage = int(found[1])
        elif found := re.match(r"\s+hash (\d+):\s*$", line):
            table = int(found[1])
        elif found := re.match(r"\s+hash group (\d+):\s*$", line):
            group = int(found[1])
            groups[stage].setdefault(group, (set(), 0))
        elif found := re.match(r"\s+table: \[(.*)\]", line):
            if group is not None:
                tables, seed = groups[stage][group]
                groups[stage][group] = (tables | {int(number) for number in found[1].replace(",", " ").split()}, seed)
        elif found := re.match(r"\s+seed: 0x([0-9a-f]+)", line):
            tables, seed = groups[stage][group]
            groups[stage][group] = (tables, seed | int(found[1], 16))
        elif found := CRC.match(line):
            first, last = int(found[1]), int(found[2] or found[1])
            cut = re.search(r"(\d+)\.\.(\d+)\)\s*$", found[3])
            lowest = int(cut[1]) if cut and found[3].startswith("slice(") else 0
            key = found[3][found[3].index("{"):]
            fields = re.findall(r"(\d+): ([\w.$:]+(?:\(\d+(?:\.\.\d+)?\))?)", key)
            crcs.append({"stage": stage, "table": table, "first": first, "last": last, "lowest": lowest,
                         "polynomial": int(found[4], 16), "bits": int(found[7]), "fields": fields})
    return crcs, groups


def key_of(fields, values):
    """The bytes that weir hashes."""
    number = 0
    for name, bits in fields:
        number = number << bits | (values[name] & ((1 << bits) - 1) if name else 0)
    return number.to_bytes(sum(bits for _, bits in fields) // 8, "big")


def compare(constants, pipe, keys):
    crcs, groups = units_of_assembly(next(pipe.glob("*.bfa")).read_text())
    log = stages_of_log((pipe / "logs" / "mau.hashes.log").read_text())
    names = [name for name in constants if name.startswith("CRC_")]
    source = random.Random(7)
    done, wrong = defaultdict(set), []
    places = defaultdict(list)
    for unit in crcs:
        of_stage = groups[unit["stage"]].items()
        group = next((group for group, (tables, _) in of_stage if unit["table"] in tables), unit["table"] // 2)
        columns = unit["first"], unit["last"], unit["lowest"]
        places[unit["stage"], group, *columns, unit["polynomial"], unit["bits"]].append(unit)
    for (stage, group, first, last, lowest, polynomial, bits), parts in sorted(places.items()):
        # A key may lie in both hash tables of a group, of which the results are xored.
        tables, seed = groups[stage].get(group, ({part["table"] for part in parts}, 0))
        found = {base(re.sub(r"\(.*", "", field))[0] for part in parts for _, field in part["fields"]}
        candidates = []
        for name in names:
            if int(constants[name].split("w")[-1], 16) not in (polynomial, polynomial >> 1):
                continue
            fields = next(fields for pattern, fields in KEYS if re.fullmatch(pattern, name))
            fields = fields if fields is not None else ([(next(iter(found)), 32)] if len(found) == 1 else None)
            if fields and sum(width for _, width in fields) == bits:
                candidates.append((name, fields))
        if not candidates:
            wrong.append(f"stage {stage}: a CRC of {polynomial:#x} over {bits} bits that no constant names")
            continue
        name, fields = candidates[0]
        columns = defaultdict(list)
        for table in tables:
            for column, terms in log[stage][table].items():
                columns[column].extend(terms)
        word = int(constants[name].split("w")[-1], 16)
        sizes = defaultdict(int)
        for field, width in fields:
            if field:
                sizes[field] = max(sizes[field], 32 if width < 32 and field == "hdr.ipv4.src" else width)
        for _ in range(keys):
            values = {field: source.getrandbits(width) for field, width in sizes.items()}
            expected = crc(word, key_of(fields, values))
            got = 0
            for column in range(first, last + 1):
                bit = seed >> column & 1
                for field, number in columns[column]:
                    if field in values:
                        bit ^= values[field] >> number & 1
                    else:
                        wrong.append(f"stage {stage}: {name} depends on {field}")
                got |= bit << column - first
            mask = (1 << last - first + 1) - 1
            if got != expected >> lowest & mask:
                right = expected >> lowest & mask
                wrong.append(f"stage {stage}: {name} from bit {lowest} on: {got:#x}, not {right:#x}")
                break
        else:
            done[name].add((stage, lowest, lowest + last - first))
    # The digest's unit is there with key = "digest32" alone.
    optional = {"CRC_HASHPIPE_DIGEST"} if "HASHPIPE_KEY_DIGEST32" not in constants else set()
    missing = [name for name in names if name not in done and name not in optional]
    return done, wrong, missing


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=1000)
    parser.add_argument("--target", default="tofino2", choices=tofino.TARGETS)
    parser.add_argument("--keep", metavar="DIR", help="directory for the tools' output")
    parser.add_argument("--built", metavar="DIR", help="such a directory of an earlier run")
    parser.add_argument("constants")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        if given.built:
            pipe = tofino.pipe_of(given.built)
        else:
            pipe = tofino.build(given.constants, given.target, given.keep or temporary)
        done, wrong, missing = compare(tofino.constants_of(given.constants), pipe, given.keys)
    for name, places in sorted(done.items()):
        where = ", ".join(f"stage {stage} bits {low}..{high}" for stage, low, high in sorted(places))
        print(f"{name}: equal on {given.keys} keys ({where})")
    for text in sorted(set(wrong))[:20]:
        print(text)
    if wrong or missing:
        raise SystemExit(f"{len(set(wrong))} differences; not found: {', '.join(missing) or 'none'}")


if __name__ == "__main__":
    main()
