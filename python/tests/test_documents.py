"""Types of documents, and the frames that are made of them."""

import inspect
import re
import types
import typing
import unittest
from dataclasses import MISSING, is_dataclass

import sources
import weir
from weir import answers, claims, documents, reports, simulated
from weir.decode import decode, present, typed_fields
from weir.registers import dumped

# Where the structures are that a module's types stand for.
SOURCES = {
    claims: ["src/answers", "src/json.rs"],
    answers: ["src/answers", "src/wire/flow.rs"],
    documents: ["src/api/view", "src/api/view.rs", "src/network", "src/tables", "src/observe", "src/pisa/probe.rs"],
    simulated: ["src/sim", "src/cli/sim.rs", "src/answers/heavy.rs"],
    reports: ["pktgen/src/run/report.rs", "src/cli", "src/answers/digest32.rs", "pktgen/src/truth"],
}

# Types with a name of their own, as several structures have the name, or one has none that says what it is.
NAMED = {
    "Budget": ("src/cli/budget.rs", "Document"),
    "Conversations": ("pktgen/src/stateful/report.rs", "Report"),
    "FlowTruth": ("pktgen/src/truth/collect.rs", "Line"),
    "FlowsMeasured": ("src/cli/measured.rs", "Flows"),
    "End": ("pktgen/src/stateful/report.rs", "End"),
    "Extracted": ("pktgen/src/conversations/script.rs", "Extracted"),
    "Generated": ("pktgen/src/run/report.rs", "Report"),
    "Held": ("pktgen/src/stateful/report.rs", "Held"),
    "LatencyQuantiles": ("pktgen/src/latency.rs", "Latency"),
    "LostFrames": ("pktgen/src/run/report.rs", "Losses"),
    "ProgramAnswers": ("src/cli/measured.rs", "Measured"),
    "Replay": ("src/cli/replay.rs", "Document"),
    "Simulation": ("src/cli/sim.rs", "Document"),
    "Times": ("pktgen/src/stateful/report.rs", "Times"),
    "TransportSizes": ("src/sim/transport/report.rs", "SizeClass"),
    "Unexpected": ("pktgen/src/stateful/report.rs", "Unexpected"),
}

CLAIM = dict.fromkeys(["first_epoch", "last_epoch", "start", "end", "age_seconds", "lost_after_ns"])
CLAIM |= {"epoch_ns": 1, "seconds": 1.0, "missing_epochs": 0, "outdated": False, "final": True, "amendments": 0}
CLAIM |= {"sequence": 7, "gaps": [], "switches": ["a"], "complete": True, "incomplete": []}
LOSSES = CLAIM | dict.fromkeys(["lost_packets", "late_packets", "gained_packets", "unknown_epochs", "victims"], 0)
LOSSES |= {"gained_flows": 0, "losses": [], "gains": [], "omitted_flows": 0, "last_loss": None}
LOSS = {"flow": {"src": "10.0.0.1", "sport": 7}, "packets": 3, "exact": True}


def types_of(module: types.ModuleType) -> dict[str, type]:
    kinds = vars(module).items()
    return {name: kind for name, kind in kinds if is_dataclass(kind) and kind.__module__ == module.__name__}


def word(hint: typing.Any) -> str:
    """A type in words; a dataclass by the name of its structure."""
    args = ", ".join(word(arg) for arg in typing.get_args(hint) if not isinstance(arg, str))
    match typing.get_origin(hint):
        case None if hint is types.NoneType:
            return "None"
        case None:
            return NAMED.get(hint.__name__, ("", hint.__name__))[1]
        case typing.Literal:
            return "str"
        case typing.Union | types.UnionType:
            return args.replace(", None", " | None")
        case origin:
            return f"{origin.__name__}[{args}]"


def fields(kind: type) -> sources.Fields:
    found: sources.Fields = {}
    for field, hint in typed_fields(kind):
        if "flat" in field.metadata:
            found |= fields(present(hint)) if present(hint) is not claims.Claim else {}
        elif "rest" not in field.metadata:
            # What is left out is None, or the constant that it stands for.
            is_optional = field.default is not MISSING
            found[field.name] = word(present(hint) if is_optional else hint), is_optional
    return found


class Types(unittest.TestCase):
    def test_fields_are_those_of_weirs_structures(self):
        for module, paths in SOURCES.items():
            for name, kind in types_of(module).items():
                if kind is claims.Answer:
                    continue
                file, structure = NAMED.get(name) or sources.WRITTEN.get(name) or sources.find(name, paths)
                wanted = sources.keys(file, structure, paths)
                wanted = {
                    key: (word.removesuffix(" | None") if left_out else word, left_out)
                    for key, (word, left_out) in wanted.items()
                }
                with self.subTest(type=name, structure=f"{file}: {structure}"):
                    self.assertTrue(wanted or not fields(kind))
                    self.assertEqual(fields(kind), wanted)

    def test_every_task_has_a_type(self):
        tasks = re.findall(r'^ +\w+ = "(\w+)",$', (sources.ROOT / "src/answers/task.rs").read_text(), re.MULTILINE)
        self.assertEqual(sorted(kind.task for kind in claims.Answer.__subclasses__()), sorted(tasks))

    def test_everything_public_has_a_type(self):
        for name in weir.__all__:
            public = getattr(weir, name)
            for function in [public, *vars(public).values()] if inspect.isclass(public) else [public]:
                if inspect.isfunction(function) and function.__module__.startswith("weir"):
                    self.assertIn("return", function.__annotations__ or {"return": name}, f"{name} {function}")

    def test_whole_numbers_may_be_strings(self):
        loop = {"flow": {}, "switch": "a", "first_ns": "18446744073709551615", "last_ns": "7", "packets": 1}
        self.assertEqual(decode(answers.FlowLoop, loop | {"least_hops": 2}).first_ns, 2**64 - 1)

    def test_newer_keys_are_logged_and_missing_ones_are_an_error(self):
        with self.assertLogs("weir", "INFO") as logged:
            losses = decode(weir.Losses, LOSSES | {"newer": 1})
        self.assertIn("Losses: unknown keys newer", logged.output[0])
        self.assertEqual(losses.claim.sequence, 7)
        with self.assertRaisesRegex(weir.UnknownDocument, "last_loss"):
            decode(weir.Losses, {key: value for key, value in LOSSES.items() if key != "last_loss"})
        for wrong in [[], "text", LOSSES | {"victims": None}, LOSSES | {"losses": [3]}]:
            with self.assertRaises(weir.UnknownDocument):
                decode(weir.Losses, wrong)


class Frames(unittest.TestCase):
    def test_rows_have_the_claim(self):
        losses = decode(weir.Losses, LOSSES | {"losses": [LOSS], "last_epoch": 9})
        claim = {"first_epoch": None, "last_epoch": 9, "complete": True, "final": True}
        row = {"src": "10.0.0.1", "sport": 7, "packets": 3, "exact": True}
        self.assertEqual(losses.rows(), [row | claim])
        self.assertEqual(losses.rows("gains"), [])
        self.assertEqual(losses.pandas().attrs["claim"], losses.claim)

    def test_a_frame_without_rows_has_its_columns(self):
        self.assertEqual(decode(weir.Losses, LOSSES).pandas().packets.sum(), 0)

    def test_a_frame_of_an_incomplete_answer_warns(self):
        gap = {"epoch": 3, "start": None, "end": None, "switch": "s1", "gap": "no record came in time"}
        lacking = {"complete": False, "incomplete": ["gap", "sampled"], "gaps": [gap]}
        losses = decode(weir.Losses, LOSSES | {"losses": [LOSS]} | lacking)
        with self.assertWarnsRegex(weir.IncompleteWarning, "not complete: sampled, s1: no record came in time"):
            frame = losses.pandas()
        self.assertEqual(list(frame.complete), [False])

    def test_rows_of_lists_in_lists(self):
        hop = dict.fromkeys([field.name for field, _ in typed_fields(answers.HopLatency)], 5)
        flow = {"flow": {"src": "10.0.0.1"}, "sink": "s2", "checksum": None, "hops": [hop | {"switch": "s1"}, hop]}
        whole = {"query": None, "flows": 1, "error_ns": 0, "error_factor": 1.0, "largest_ns": None}
        whole |= {"window_seconds": None, "latencies": [flow], "omitted_flows": 0, "evicted_flows": 0}
        whole |= {"switch_latencies": []}
        rows = decode(weir.Latency, CLAIM | whole).rows()
        self.assertEqual(
            [(row["src"], row["sink"], row["switch"], row["p99_ns"]) for row in rows],
            [("10.0.0.1", "s2", "s1", 5), ("10.0.0.1", "s2", 5, 5)],
        )

    def test_polars_has_the_same_rows(self):
        try:
            import polars
        except ImportError:
            self.skipTest("there is no polars")
        frame = decode(weir.Losses, LOSSES | {"losses": [LOSS]}).polars()
        self.assertIsInstance(frame, polars.DataFrame)
        self.assertEqual(frame.rows(named=True)[0]["packets"], 3)


class Cells(unittest.TestCase):
    def test_cells_of_a_document(self):
        layout = {
            "arrays": [
                {"name": "a", "index": 0, "field_bits": [104, 32, 20]},
                {"name": "a", "index": 1, "field_bits": [64]},
            ]
        }
        bank = {
            "core": 1,
            "first_epoch": 2,
            "last_epoch": 3,
            "part": 0,
            "arrays": [{"values": [["0x0a000001" + "00" * 8 + "07", 9, 70000]]}, {"values": [str(2**63), 5]}],
        }
        [found] = dumped({"programs": [{"program": "p", "layout": layout, "banks": [bank]}]})
        cell = found["a-0"][0]
        self.assertEqual(bytes(cell["f0"])[::-1], bytes([10, 0, 0, 1] + [0] * 8 + [7]))
        self.assertEqual((cell["f1"], cell["f2"]), (9, 70000))
        self.assertEqual(found["a-1"].tolist(), [2**63, 5])
        self.assertEqual((found.program, found.core, found.last_epoch), ("p", 1, 3))


if __name__ == "__main__":
    unittest.main()
