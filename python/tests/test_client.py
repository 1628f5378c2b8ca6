"""A switch with live traffic and a controller, asked over the control socket and over TLS."""

import itertools
import os
import subprocess
import tempfile
import unittest
import warnings
from pathlib import Path
from unittest import mock

import weir
from listeners import certificates, free_port

CONFIG = """
[switch]
name = "edge"
forward = "xconnect"
[controller]
at = "{dir}/net.switches.sock"
[api]
listen = "127.0.0.1:{port}"
certificate = "{dir}/switch.pem"
key = "{dir}/switch.key"
client_ca = "{dir}/ca.pem"
[[port]]
name = "a"
dev = "vhost:{dir}/a"
[[port]]
name = "b"
dev = "vhost:{dir}/b"
[[program]]
name = "hashpipe"
[[program]]
name = "chamelemon"
"""


class Client(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        certificates(
            cls.dir,
            switch="extendedKeyUsage=serverAuth,clientAuth\nsubjectAltName=IP:127.0.0.1,URI:weir:switch:edge",
            alice="extendedKeyUsage=clientAuth\nsubjectAltName=URI:weir:operator",
        )
        cls.port = free_port()
        (cls.dir / "edge.toml").write_text(CONFIG.format(dir=cls.dir, port=cls.port))
        cls.controller = cls.enterClassContext(
            weir.controller(
                name="net",
                switch="edge",
                state=cls.dir / "state",
                socket=cls.dir / "net.sock",
                switch_socket=cls.dir / "net.switches.sock",
                program="chamelemon",
            )
        )
        cls.switch = cls.enterClassContext(weir.run(config=cls.dir / "edge.toml"))
        ports = [f"--tx=virtio-user:{cls.dir}/a", f"--rx=virtio-user:{cls.dir}/b"]
        pktgen = Path(os.environ["WEIR"]).with_name("pktgen")
        traffic = subprocess.Popen(
            [pktgen, "run", *ports, "--flows=50", "--rate=1kpps", "--duration=1h"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        cls.addClassCleanup(traffic.wait)
        cls.addClassCleanup(traffic.terminate)
        next(answer for answer in cls.switch.each(weir.HeavyFlows) if answer.heavy)

    def setUp(self):
        # No document has a key that its type lacks.
        self.enterContext(self.assertNoLogs("weir"))

    def test_answers(self):
        switch = self.switch
        first, second = itertools.islice(switch.each(weir.HeavyFlows, top=3), 2)
        self.assertGreater(second.claim.sequence, first.claim.sequence)
        self.assertTrue(first.claim.final and len(first.heavy) <= 3)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", weir.IncompleteWarning)
            frame = switch.heavy().pandas()
        self.assertEqual(set(frame.proto), {17})
        self.assertIn(switch.heavy(top=1).heavy[0].packets, range(1, 10**6))
        self.assertGreater(switch.frequency("* -> * udp").packets.estimate, 0)
        of_list = switch.frequencies(["* -> * udp", "192.0.2.1 -> * tcp"])
        self.assertEqual((len(of_list), of_list[1].packets.estimate), (2, 0))

    def test_refusals(self):
        with self.assertRaisesRegex(weir.Refused, "--program pint") as refused:
            self.switch.paths()
        self.assertEqual(refused.exception.status, 400)
        with self.assertRaisesRegex(weir.Refused, "only a switch answers that"):
            weir.Switch(socket=self.dir / "net.sock").ports()
        nobody = weir.Switch(socket=self.dir / "nobody.sock")
        for request in (nobody.ports, lambda: next(nobody.capture())):
            with self.assertRaisesRegex(weir.NoSwitch, "no switch or controller answers at .*/nobody.sock"):
                request()

    def test_state_and_settings(self):
        switch = self.switch
        ports = switch.ports()
        self.assertEqual([port.name for port in ports.ports], ["a", "b"])
        self.assertEqual(switch.status().name, "edge")
        self.assertEqual((switch.macs().macs, switch.since_reset().reset, switch.reset().reset), ([], False, True))
        self.assertGreater(switch.api().socket_connections, 3)
        self.assertIn("acl", [table.name for table in switch.tables().tables])
        rule = {"op": "add", "entry": {"name": "no", "action": "deny", "src": "192.0.2.1"}}
        self.assertEqual(switch.change_table("acl", rule).changed, 1)
        self.assertEqual(switch.table("acl").rows[0]["name"], "no")
        switch.set_mtu("a", 1400)
        switch.set_fault("a", "rx:duplicate=1%")
        port = switch.ports().ports[0]
        self.assertEqual((port.mtu_bytes, port.fault), (1400, "rx:duplicate=0.01"))
        switch.set_fault("a", None)
        added = switch.add_port("c", "ring:c", pair=None)
        self.assertEqual((added.name, switch.remove_port("c").dev), ("c", "ring:c"))
        self.assertIn("weir_port_up", switch.metrics())

    def test_packets(self):
        packet = self.switch.trace("udp", port="a", timeout=20)
        self.assertEqual((packet.port, packet.egress, packet.headers.net), ("a", "b", "ipv4"))
        self.assertEqual(packet.programs[0].program, "hashpipe")
        self.assertIsNone(self.switch.trace("tcp", timeout=0.1))
        capture = b"".join(self.switch.capture(ports=["a"], count=3))
        self.assertEqual(capture[:4], b"\x0a\x0d\x0d\x0a")
        with self.assertRaises(weir.Refused):
            next(self.switch.capture(ports=["nowhere"]))

    def test_registers(self):
        # An epoch may have no packet where this machine is busy.
        dumps = (self.switch.registers("hashpipe") for _ in range(100))
        self.assertTrue(any(bank[f"ipv4-{stage}"]["f1"].any() for dump in dumps for bank in dump for stage in range(6)))
        self.assertEqual({bank.program for bank in self.switch.registers()}, {"hashpipe", "chamelemon"})

    def test_controller(self):
        switches = self.controller.switches()
        self.assertEqual([switch.name for switch in switches.switches], ["edge"])
        self.assertTrue(self.switch.controller().connected)
        losses = next(self.controller.each(weir.Losses))
        self.assertEqual((losses.claim.switches, losses.gained_packets), (["edge"], 0))
        self.assertIsNotNone(self.controller.flows().flows)
        self.assertEqual(self.controller.changes(threshold=10**6).changes, [])
        self.assertTrue(self.controller.cardinality(seconds=1).rows())
        self.assertEqual(self.controller.attention(seconds=1).epochs[0].state, "healthy")
        with self.assertRaisesRegex(weir.Refused, "edge"):
            self.controller.evict("edge")

    def test_tls(self):
        alice = {"certificate": self.dir / "alice.pem", "key": self.dir / "alice.key", "ca": self.dir / "ca.pem"}
        with weir.Switch(connect=f"127.0.0.1:{self.port}", **alice) as switch:
            self.assertEqual(switch.status().name, "edge")
            self.assertGreater(switch.api().tls_connections, 0)
        with weir.Switch(connect=f"localhost:{self.port}", **alice) as switch, self.assertRaises(weir.NoSwitch):
            switch.ports()
        other = alice | {"certificate": self.dir / "switch.pem", "key": self.dir / "switch.key"}
        with weir.Switch(connect=f"127.0.0.1:{self.port}", **other) as switch, self.assertRaises(weir.WeirError):
            switch.ports()
        with mock.patch.dict(os.environ, {"XDG_CONFIG_HOME": str(self.dir)}):
            with self.assertRaisesRegex(weir.WeirError, "needs ca, certificate, key"):
                weir.Switch(connect="switch1:9470")
            (self.dir / "weir").mkdir()
            lines = "".join(f"{name} = '../{path.name}'\n" for name, path in alice.items())
            (self.dir / "weir/client.toml").write_text(lines)
            with weir.Switch(connect=f"127.0.0.1:{self.port}") as switch:
                self.assertEqual(switch.status().name, "edge")


class Directories(unittest.TestCase):
    def test_a_directory_of_others_is_not_trusted(self):
        from weir.client import _trust

        with tempfile.TemporaryDirectory() as directory:
            _trust(Path(directory))
            Path(directory).chmod(0o777)
            with self.assertRaisesRegex(weir.WeirError, "others could have put a socket there"):
                _trust(Path(directory))


if __name__ == "__main__":
    unittest.main()
