"""Writes what a program takes of a Tofino, from the compiler's and the assembler's output.

    python3 p4/report.py [--target tofino2] [--keep DIR] CONSTANTS OUT.json

CONSTANTS is a directory such as p4/constants/hashpipe/t2na. See tofino.py for the environment.
"""

import argparse
import json
import re
import tempfile
from collections import Counter, defaultdict
from pathlib import Path

import tofino


def used(stage, key, list_key):
    """The units of a kind that are in use in a stage."""
    return [unit for unit in stage[key][list_key] if unit.get("usages", True)]


def usages(unit):
    return unit.get("usages", [])


def alu_kinds(stage):
    """The meter ALUs of a stage: stateful ALUs and filters."""
    kinds = [{usage["used_for"] for usage in usages(unit)} for unit in used(stage, "meter_alus", "meters")]
    return sum("stateful_ram" in kind for kind in kinds), sum("meter_lpf" in kind for kind in kinds)


def registers(context):
    """The stages of each register."""
    stages = defaultdict(set)
    for table in context["tables"]:
        if table.get("table_type") == "stateful":
            stages[table["name"].split(".", 1)[-1]].update(stage["stage_number"] for stage in table["stage_tables"])
    return {name: sorted(found) for name, found in sorted(stages.items())}


def last_stages(context):
    """Stages in use, by direction: one more than the last one's number."""
    last = Counter()
    for table in context["tables"]:
        for stage in table.get("match_attributes", {}).get("stage_tables", table.get("stage_tables", [])):
            last[table["direction"]] = max(last[table["direction"]], stage["stage_number"] + 1)
    return {"ingress": last["ingress"], "egress": last["egress"]}


def report(pipe, target):
    resources = json.loads((pipe / "logs" / "resources.json").read_text())["resources"]["mau"]
    context = json.loads((pipe / "context.json").read_text())
    logs = [pipe / "logs" / "table_summary.log", pipe.parent / "compiler.log"]
    log = "".join(path.read_text() for path in logs if path.exists())
    stages = sorted(resources["mau_stages"], key=lambda stage: stage["stage_number"])
    count = lambda key, list_key: [len(used(stage, key, list_key)) for stage in stages]
    path = re.findall(r"Critical path length through the table dependency graph: (\d+)", log)
    hash_units = count("hash_distribution_units", "units")
    sram, tcam = count("rams", "srams"), count("tcams", "tcams")
    alus = [alu_kinds(stage) for stage in stages]
    found = registers(context)
    return {
        "target": target,
        "stages": last_stages(context),
        "stages_of_the_target": resources["nStages"],
        "critical_path": int(path[-1]) if path else None,
        "stateful_alus": sum(stateful for stateful, _ in alus),
        "filters": sum(filters for _, filters in alus),
        "sram_blocks": sum(sram),
        "tcam_blocks": sum(tcam),
        "hash_distribution_units": sum(hash_units),
        "by_stage": {
            "stateful_alus": [stateful for stateful, _ in alus],
            "sram_blocks": sram,
            "tcam_blocks": tcam,
            "hash_distribution_units": hash_units,
            "hash_bits": count("hash_bits", "bits"),
            "vliw_instructions": count("vliw", "instructions"),
        },
        "registers": found,
    }


def text(document):
    """JSON with a line for each list."""
    rows = json.dumps(document, indent=2)
    flat = lambda match: " ".join(match[0].split()).replace("[ ", "[").replace(" ]", "]")
    return re.sub(r"\[[^\[\]{}]*\]", flat, rows) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="tofino2", choices=tofino.TARGETS)
    parser.add_argument("--keep", metavar="DIR", help="directory for the tools' output")
    parser.add_argument("-D", dest="defines", action="append", default=[])
    parser.add_argument("constants")
    parser.add_argument("out")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        defines = [f"-D{name}" for name in given.defines]
        pipe = tofino.build(given.constants, given.target, given.keep or temporary, defines)
        document = report(pipe, given.target)
    split = {name: stages for name, stages in document["registers"].items() if len(stages) != 1}
    Path(given.out).write_text(text(document))
    stages = document["stages"]
    print(f"{given.out}: {stages['ingress']} + {stages['egress']} stages of {document['stages_of_the_target']}, "
          f"{document['stateful_alus']} stateful ALUs, {document['sram_blocks']} SRAM, "
          f"{document['tcam_blocks']} TCAM, "
          f"{document['hash_distribution_units']} hash distribution units")
    if split:
        raise SystemExit(f"registers in more stages than one: {split}")


if __name__ == "__main__":
    main()
