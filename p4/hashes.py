"""Compares the hashes of an assembled Tofino program with the CRCs that weir computes.

The assembler's log has each bit of a hash as an xor of bits of fields. The compiler says which bits
of which hash table are whose. Both together are an affine function, and so is a CRC: they are equal
if they agree on zero and on each bit of the input.
"""

import collections
import json
import re

# From the name of a hash in the sources to the one that `weir p4` gives the CRC.
CRCS = [
    (r"hashpipe\.digest_crc", r"hashpipe.digest"),
    (r"hashpipe\.(?:evicted_|kept_)?crc_(\d)", r"hashpipe.ipv4_\1"),
    (r"chamelemon\.hashes\.(\w+)", r"chamelemon.\1"),
    (r"pint\.identity", r"pint.identity"),
    (r"pint\.(?:acts|layer)_(inner|outer)_(\d)", r"pint.acts_\2.\1"),
    (r"pint\.value_(inner|outer)_(\d)", r"pint.values_\2.\1"),
    (r"pint\.latency\.rounding", r"pint.rounding.inner"),
    (r"pint\.latency\.acts_(inner|outer)", r"pint.latency.\1"),
    (r"disketch\.crc_(\d)", r"disketch.\1"),
]

# Polynomials of options that are off.
UNUSED = {"hashpipe.digest"}
# Halves of sums of CRCs that hash units join: the field, its upper and its lower half from their
# lowest bits on, the number of bits, and a field that is added, with its lowest bit: of the clock from
# the epoch's number on.
CLOCK = "ig_intr_md.ingress_mac_tstamp"
JOINS = {
    "chamelemon": [(f"meta.chamelemon.{name}", 16, 0, 16, None) for name in ("row_0", "row_1", "row_2")]
    + [
        ("meta.chamelemon.level_0", 17, 1, 15, None),
        ("meta.chamelemon.level_1", 18, 2, 14, None),
        ("meta.chamelemon.fingerprint", 16, 0, 16, None),
        ("meta.chamelemon.sample", 16, 0, 16, ("meta.chamelemon.sample_seed", 0)),
    ],
    "disketch": [
        ("meta.disketch.index", 18, 2, 14, None),
        ("meta.disketch.sample", 26, 10, 6, (CLOCK, -6)),
        ("meta.disketch.sample", 25, 9, 1, None),
    ],
}


def crc_bits(polynomial, data):
    """CRC-32 in zlib's form with another polynomial: reflected, all ones before and after."""
    reflected = int(f"{polynomial:032b}"[::-1], 2)
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (reflected if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


class Log:
    """The hash tables of an assembled program, and how groups of them make a hash."""

    def __init__(self, pipe):
        # By stage and table: by column, the bits of fields that are added.
        self.columns = collections.defaultdict(dict)
        # By stage and hash group: its tables, and the constant that is added.
        self.tables = collections.defaultdict(set)
        self.seeds = collections.defaultdict(int)
        self.read_log((pipe / "logs/mau.hashes.log").read_text())
        self.read_assembly((pipe / "t2na.bfa").read_text())

    def read_log(self, text):
        stage = table = None
        for line in text.splitlines():
            if found := re.match(r" +Stage (\d+)", line):
                stage = int(found[1])
            elif found := re.match(r"exact hashtable (\d+)", line):
                table = int(found[1])
            elif found := re.match(r"result\[(\d+)\] = [01](.*)", line):
                bits = re.findall(r"\^ (\S+)\[(\d+)\]", found[2])
                self.columns[stage, table][int(found[1])] = {(name, int(bit)) for name, bit in bits}

    def read_assembly(self, text):
        stage = group = None
        for line in text.splitlines():
            if found := re.match(r"stage (\d+) \w+:", line):
                stage = int(found[1])
            elif found := re.match(r" +hash group (\d+):", line):
                group = int(found[1])
            elif found := re.match(r" +table: \[(.*)\]", line):
                self.tables[stage, group] |= {int(table) for table in found[1].split(",")}
            elif found := re.match(r" +seed: (0x[0-9a-f]+)", line):
                self.seeds[stage, group] |= int(found[1], 16)

    def bit(self, stage, group, column):
        """A bit of a hash: its constant, and the bits of fields that are added."""
        fields = set()
        for table in self.tables[stage, group]:
            fields ^= self.columns[stage, table].get(column, set())
        return self.seeds[stage, group] >> column & 1, fields

    def has(self, bits):
        """Whether each of these sums is a bit of a hash."""
        groups = [(stage, group, self.tables[stage, group]) for stage, group in list(self.tables)]
        there = [
            self.bit(stage, group, column)[1]
            for stage, group, tables in groups
            for column in {column for table in tables for column in self.columns[stage, table]}
        ]
        return all(wanted in there for wanted in bits)


def message(fields, one=None):
    """The bytes that are hashed if the bit `one` of a field is 1 and all others are 0."""
    bits = ""
    for field in fields:
        value = 0
        if one and one[0] == field["name"] and 0 <= one[1] - field["start_bit"] < field["bit_width"]:
            value = 1 << one[1] - field["start_bit"]
        bits += f"{value:0{field['bit_width']}b}"
    return int(bits, 2).to_bytes(len(bits) // 8, "big")


def crc_of(name):
    """What `weir p4` calls the CRC that a hash of the sources computes."""
    for pattern, crc in CRCS:
        if found := re.fullmatch(pattern, name):
            return found.expand(crc)
    raise SystemExit(f"{name}: no CRC of weir's is known for this hash")


def compare(pipe, constants):
    """Fails at the first hash that is not weir's. Returns how many were compared."""
    control = json.loads((constants / "control.json").read_text())
    crcs = {crc["action"]: int(crc["polynomial"], 16) for of in control["programs"].values() for crc in of["crcs"]}
    log, compared = Log(pipe), set()
    for hash in json.loads((pipe / "t2na.dynhash.json").read_text())["dynamic_hash_calculations"]:
        name = re.sub(r"^(Ingress|Egress)\.|\.configure$", "", hash["name"])
        algorithm, fields = hash["algorithms"][0], hash["field_lists"][0]["fields"]
        if any(field["is_constant"] and not field["name"].endswith("w0") for field in fields):
            raise SystemExit(f"{name}: a constant that is not 0")
        if algorithm["type"] == "identity":
            expected = lambda one: int.from_bytes(message(fields, one), "big")  # noqa: E731
        else:
            crc = crc_of(name)
            compared.add(crc)
            expected = lambda one: crc_bits(crcs[crc], message(fields, one))  # noqa: E731
        inputs = [
            (field["name"], field["start_bit"] + bit)
            for field in fields if not field["is_constant"] for bit in range(field["bit_width"])
        ]
        zero, ones = expected(None), {one: expected(one) for one in inputs}
        for place in hash["hash_configuration"]:
            for bit in place["hash"]["hash_bits"]:
                constant, added = log.bit(place["stage_number"], place["hash"]["hash_id"], bit["gfm_hash_bit"])
                at = bit["p4_hash_bit"]
                right = {one for one in inputs if (ones[one] ^ zero) >> at & 1}
                if constant != zero >> at & 1 or added != right:
                    raise SystemExit(f"{name}: bit {at} in stage {place['stage_number']} is not weir's")
    joins = [join for program in control["programs"] for join in JOINS.get(program, [])]
    shift = control["epoch_shift"]
    for field, upper, lower, width, other in joins:
        sums = [{(field, upper + bit), (field, lower + bit)} for bit in range(width)]
        if other:
            name, first = other
            first += shift if name == CLOCK else 0
            sums = [wanted | {(name, first + bit)} for bit, wanted in enumerate(sums)]
        if not log.has(sums):
            raise SystemExit(f"{field}: no hash unit joins its halves")
    if missing := sorted(set(crcs) - compared - UNUSED):
        raise SystemExit(f"no hash of the program computes {', '.join(missing)}")
    return f"{len(compared)} CRCs and {len(joins)} joins of halves are weir's"
