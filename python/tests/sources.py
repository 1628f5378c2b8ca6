"""The fields of weir's documents, as its Rust sources have them."""

import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]

Fields = dict[str, tuple[str, bool]]
"""Of each key the type, in Python's words, and whether it may be left out."""

# Types that are written as another structure of their file, or in another file.
WRITTEN = {
    "&'a FlowTruth": ("pktgen/src/truth/collect.rs", "FlowTruth"),
    "Epoch": ("src/json.rs", "Epoch"),
    "FlowName": ("src/answers/flow.rs", "Written"),
    "Metadata": ("src/trace/pcap/metadata.rs", "Metadata"),
    "Packets": ("src/api/view/ports.rs", "Packets"),
    "SureOf": ("src/answers/paths.rs", "Written"),
}

WORDS = {
    **dict.fromkeys(["u8", "u16", "u32", "u64", "usize", "Nanos"], "int"),
    **dict.fromkeys(["String", "Arc<str>", "&'static str", "IpAddr", "PortName", "Time", "Unit"], "str"),
    **dict.fromkeys(["Certainty", "Evidence", "CountedFrom", "TelemetryHeader", "KeyHeaders"], "str"),
    **dict.fromkeys(["BatchOrderConfig", "Limit"], "str"),
    # Whose keys are left to docs/json.md.
    **dict.fromkeys(
        ["ProgramConfig", "Target", "PhysicalStage", "ProgramReports", "Refusal", "Lesser"], "dict[str, Any]"
    ),
    "Map<String, Value>": "dict[str, Any]",
    "Reasons": "list[str]",
    "f64": "float",
    "serde_json::Value": "Any",
}

# A field: its attributes, name and type.
FIELD = re.compile(r"((?:^\s*#\[.*\]\n)*)^\s*(?:pub(?:\(\w+\))? )?(\w+): (.*),$", re.MULTILINE)


@cache
def structures(file: str) -> dict[str, list[tuple[str, str, str]]]:
    """The structures of a file, by name."""
    text = re.sub(r"^\s*//.*\n", "", (ROOT / file).read_text(), flags=re.MULTILINE).replace("std::collections::", "")
    found = re.findall(r"struct (\w+)(?:<[^>]*>)? \{\n(.*?)\n *\}\n", text, re.DOTALL)
    return {name: FIELD.findall(body) for name, body in found}


def find(name: str, paths: list[str]) -> tuple[str, str]:
    """The file of a structure, in the first of these files and directories that has it."""
    for path in map(ROOT.joinpath, paths):
        for file in [path] if path.is_file() else sorted(path.rglob("*.rs")):
            if name in structures(file.relative_to(ROOT).as_posix()):
                return file.relative_to(ROOT).as_posix(), name
    raise LookupError(f"no structure {name} in {paths}")


def keys(file: str, name: str, paths: list[str]) -> Fields:
    """The keys of a structure's documents. Structures that are flattened into it are looked for in `paths`."""
    found: Fields = {}
    for attributes, field, kind in structures(file)[name]:
        inner = kind.removeprefix("Option<").removesuffix(">") if kind.startswith("Option<") else kind
        if "serde(skip)" in attributes or "skip_serializing)" in attributes:
            continue
        if "flatten" not in attributes:
            renamed = re.search(r'rename = "(\w+)"', attributes)
            word = "str" if "hexadecimal" in attributes else python(kind)
            found[renamed[1] if renamed else field] = word, "skip_serializing_if" in attributes
        elif not inner.startswith("Map<"):
            found |= keys(*(WRITTEN.get(inner) or find(inner, [file, *paths])), paths)
    return found


def python(rust: str) -> str:
    """A Rust type in Python's words."""
    rust = re.sub(r"^Arc<\[(.*)\]>$", r"Vec<\1>", rust)
    generic = re.fullmatch(r"(Option|Vec|BTreeMap|Claimed)<(?:[^,<>]+, )?(.*)>", rust)
    if rust in WORDS or not generic:
        return WORDS.get(rust, rust)
    forms = {"Option": "{} | None", "Vec": "list[{}]", "BTreeMap": "dict[str, {}]", "Claimed": "{}"}
    return forms[generic[1]].format(python(generic[2]))
