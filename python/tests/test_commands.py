"""Commands: a simulation, a replay, a budget, generated traffic, and their errors."""

import contextlib
import os
import shutil
import struct
import tempfile
import unittest
import warnings
import zipfile
from pathlib import Path
from unittest import mock

import numpy
import weir

PROGRAMS = ["hashpipe", "chamelemon", "pint", "disketch", "hopcounters"]
NETWORK = {"topology": "line:3", "workload": "isp,flows=100,packets=1k", "loss": "flows=10%,rate=10%", "epochs": 3}
PACKAGE = Path(__file__).parents[1]


def talk() -> bytes:
    """A capture of one TCP conversation: a client says 4 bytes, and a server 7."""
    hosts, ports, syn, ack = (b"\x0a\x09\0\1", b"\x0a\x09\0\2"), (40_000, 80), 2, 16
    segments = [(0, 9, 0, syn, b""), (1, 5, 10, syn | ack, b""), (0, 10, 6, ack, b"ping"), (1, 6, 14, ack, b"pong!!!")]
    capture = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65_535, 1)
    for number, (side, seq, acked, flags, payload) in enumerate(segments):
        tcp = struct.pack(">HHIIBBHHH", ports[side], ports[1 - side], seq, acked, 0x50, flags, 9999, 0, 0) + payload
        ip = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(tcp), 0, 0, 64, 6, 0) + hosts[side] + hosts[1 - side]
        frame = bytes(12) + b"\x08\0" + ip + tcp
        capture += struct.pack("<IIII", number, 0, len(frame), len(frame)) + frame
    return capture


class Commands(unittest.TestCase):
    def setUp(self):
        # No document has a key that its type lacks.
        self.enterContext(self.assertNoLogs("weir"))
        self.dir = Path(self.enterContext(tempfile.TemporaryDirectory()))

    def test_a_simulation(self):
        found = weir.sim(**NETWORK, program=PROGRAMS, everywhere=True, frequency="* -> * udp")
        self.assertEqual(found.sent_packets, found.delivered_packets + found.lost_packets)
        chamelemon = found.epochs[1].programs["chamelemon"]
        self.assertEqual(chamelemon.losses.losses.exact_flows, 10)
        self.assertEqual(chamelemon.measured.parameters["hl_buckets"], 512)
        self.assertIsNone(found.epochs[1].programs["pint"].losses)
        frame = found.pandas()
        self.assertEqual(list(frame.program.unique()), sorted(PROGRAMS))
        self.assertEqual(set(frame[frame.program == "chamelemon"].losses_exact_flows), {10})

    def test_faults_and_transport(self):
        faulty = weir.sim(**NETWORK, fault="pause=s1,at=60ms,for=120ms")
        self.assertEqual(faulty.audit.wrong_epochs, [])
        answering = {"transport": "hpcc,feedback=int", "rate": "1Gbps", "workload": "hadoop", "epoch": "30ms"}
        self.assertGreater(weir.sim(topology="line:2", epochs=1, **answering).transport.finished_flows, 0)

    def test_epochs_one_by_one(self):
        epochs = list(weir.sim_epochs(**NETWORK))
        self.assertEqual(epochs, weir.sim(**NETWORK).epochs)
        first = next(weir.sim_epochs(**NETWORK | {"epochs": 100_000}))
        self.assertEqual(first, epochs[0])

    def test_a_replay_and_its_registers(self):
        capture = weir.workload("isp,flows=50,packets=500", self.dir / "a.pcap")
        files = {"registers": self.dir / "registers", "score": True}
        found = weir.replay(capture, program=PROGRAMS, reproducible=7, frequency="* -> * udp", **files)
        self.assertEqual((found.packets, found.seed, found.programs["hashpipe"].score.recall), (500, 7, 1.0))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", weir.IncompleteWarning)
            self.assertEqual(len(found.programs["hashpipe"].pandas()), 10)
            losses = found.programs["chamelemon"].pandas("flows.losses")
        self.assertEqual((len(losses), losses.attrs["claim"]), (0, found.programs["chamelemon"].claims["losses"]))
        self.assertIn("exact", losses.columns)
        [bank] = [bank for bank in weir.read_registers(self.dir / "registers") if bank.program == "hashpipe"]
        counts = [bank[f"ipv4-{stage}"]["f1"] for stage in range(6)]
        self.assertEqual(sum(int(count.sum()) for count in counts), 500)
        self.assertEqual((counts[0].dtype, bank.core), (numpy.dtype("<u4"), 0))

    def test_a_budget(self):
        self.assertEqual(weir.budget(program="disketch:memory=4000").memory.register_bytes, 4000)

    def test_generated_traffic(self):
        truth = self.dir / "truth.jsonl"
        found = weir.pktgen(tx="ring:a", rx="ring:a", flows=10, rate="1kpps", packets=100, truth=truth)
        self.assertEqual((found.sent.packets, found.received.losses.lost_packets), (100, 0))
        self.assertEqual(sum(row.sent_packets for row in weir.truth(truth)), 100)

    def test_conversations(self):
        capture = self.dir / "talk.pcap"
        capture.write_bytes(talk())
        found = weir.conversations(capture, client="ring:a", server="ring:a", conversations=3)
        self.assertEqual((found.conversations.finished, found.capture.payload_bytes), (3, 11))
        self.assertEqual((found.server.received_payload_bytes, found.client.received_payload_bytes), (12, 21))

    def test_errors(self):
        with self.assertRaisesRegex(weir.WrongUsage, "ring:3") as wrong:
            weir.sim(topology="ring:3")
        self.assertEqual(wrong.exception.code, 2)
        with self.assertRaisesRegex(weir.WrongUsage, "ring:3"):
            list(weir.sim_epochs(topology="ring:3"))
        with self.assertRaisesRegex(weir.Failed, "/nowhere.pcap"):
            weir.replay("/nowhere.pcap")
        capture = weir.workload("isp,flows=500,packets=1k", self.dir / "a.pcap")
        with self.assertRaisesRegex(weir.Missed, "recall") as missed:
            weir.replay(capture, program="hashpipe:slots=1,stages=1", top=100, score=True, min_recall=0.9)
        self.assertLess(missed.exception.report.programs["hashpipe"].score.recall, 0.9)
        with self.assertRaisesRegex(weir.WrongUsage, "no-such-key"), weir.run(no_such_key=1):
            pass

    def test_binaries(self):
        with mock.patch.dict(os.environ, {"PATH": str(self.dir)}):
            own = Path(os.environ.pop("WEIR"))
            with self.assertRaisesRegex(weir.NoBinary, "there is no weir: give `binary`, set WEIR"):
                weir.budget()
            self.assertTrue(weir.budget(binary=own).stages)
            for name in ("weir", "pktgen"):
                (self.dir / name).symlink_to(own.with_name(name))
            self.assertTrue(weir.budget().stages)
            self.assertTrue(weir.workload("isp,flows=5,packets=9", self.dir / "b.pcap").exists())

    def test_the_wheel(self):
        from flit_core import buildapi

        self.enterContext(contextlib.chdir(shutil.copytree(PACKAGE, self.dir / "package")))
        wheel = zipfile.ZipFile(self.dir / buildapi.build_wheel(str(self.dir)))
        self.assertIn("weir/py.typed", wheel.namelist())
        cargo = (PACKAGE.parent / "Cargo.toml").read_text()
        self.assertIn(f'version = "{weir.__version__}"', cargo)
        self.assertIn(f"weir-{weir.__version__}-py3-none-any.whl", wheel.filename)


if __name__ == "__main__":
    unittest.main()
