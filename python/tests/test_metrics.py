"""Dashboard and alert rules of packaging/: every query names metrics, labels and reasons that weir exports, and
Prometheus runs it against two switches and their controller, a link of which loses packets. An OpenTelemetry collector
is sent the same metrics."""

import json
import os
import re
import shutil
import subprocess
import tempfile
import time
import unittest
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar

import httpx
import promql_parser

import weir
from collector import Collector, Series
from listeners import certificates, free_port

T = TypeVar("T")

PACKAGING = Path(__file__).parents[2] / "packaging"
RULES = PACKAGING / "alerts.yml"

# Those that Prometheus adds to what it scrapes.
SCRAPED = {"job", "instance"}

FILES = 'certificate = "{dir}/server.pem"\nkey = "{dir}/server.key"\nclient_ca = "{dir}/ca.pem"\n'
PROGRAMS = "".join(f'[[program]]\nname = "{name}"\n' for name in ["chamelemon", "hopcounters", "disketch", "pint"])
PROGRAMS += 'queries = "path:bits=8 + latency:bits=8"\n'
OTLP = '[otlp]\nto = "{url}"\nevery = "1s"\n'
OWN = '[[program]]\nname = "hashpipe"\ncount = "{count}"\n'
CONTROLLER = (
    'switches = ["edge1", "edge2"]\nhorizon = 2\nrecord_timeout = "4s"\nepoch = "400ms"\ntransit = "100ms"\n'
    'api_listen = "127.0.0.1:{tls}"\n[tls]\n' + FILES + PROGRAMS + '[[link]]\nports = ["edge1:up", "edge2:up"]\n'
)
SWITCH = (
    '[switch]\nname = "{name}"\nforward = "xconnect"\nepoch = "400ms"\ntransit = "100ms"\n{metrics}'
    '[controller]\nat = "{dir}/net.switches.sock"\n{api}'
    '[[port]]\nname = "host"\ndev = "vhost:{dir}/{name}"\n'
    '[[port]]\nname = "up"\ndev = "memif:0,{role}socket={dir}/memif"\nrole = "fabric"\nmtu = 1600\n'
)


def queries() -> list[str]:
    """All queries, with values in place of Grafana's variables."""
    dashboard = json.loads((PACKAGING / "grafana.json").read_text())
    drawn = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    variables = [variable["query"] for variable in dashboard["templating"]["list"] if variable["type"] == "query"]
    listed = [re.fullmatch(r"label_values\((.*), \w+\)", query)[1] for query in variables]
    alerts = re.findall(r"^ +expr: (.*)$", RULES.read_text(), re.MULTILINE)
    return alerts + [re.sub(r"\$\w+", ".+", re.sub(r"\$__\w+", "5m", query)) for query in drawn + listed]


def eventually(what: str, found: Callable[[], T | None], seconds: float = 60) -> T:
    end = time.monotonic() + seconds
    while (result := found()) is None:
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not within {seconds} s")
        time.sleep(0.2)
    return result


def tool(name: str) -> str | None:
    """A program of Prometheus: the system's, or the one that make setup has unpacked."""
    unpacked = Path(__file__).parents[2] / "target/prometheus/usr/bin"
    return shutil.which(name, path=f"{os.environ['PATH']}{os.pathsep}{unpacked}")


class Network:
    """Two switches with a link between them that loses one packet in 50, and their controller."""

    def __init__(self, stack: ExitStack) -> None:
        self.dir = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        certificates(
            self.dir,
            server="extendedKeyUsage=serverAuth,clientAuth\nsubjectAltName=IP:127.0.0.1",
            prometheus="extendedKeyUsage=clientAuth\nsubjectAltName=URI:weir:reader",
        )
        self.ports = {name: free_port() for name in ["net", "edge1", "edge2"]}
        self.collector = Collector()
        otlp = OTLP.format(url=stack.enter_context(self.collector.serve()))
        self.write("net", CONTROLLER.format(dir=self.dir, tls=self.ports["net"]) + otlp)
        files = {"socket": self.dir / "net.sock", "switch_socket": self.dir / "net.switches.sock"}
        self.controller = stack.enter_context(
            weir.controller(config=self.dir / "net.toml", name="net", state=self.dir / "state", **files)
        )
        api = f'[api]\nlisten = "127.0.0.1:{self.ports["edge1"]}"\n' + FILES.format(dir=self.dir) + otlp
        edge1 = SWITCH.format(name="edge1", dir=self.dir, metrics="", api=api, role="")
        metrics = f'metrics = "127.0.0.1:{self.ports["edge2"]}"\n'
        edge2 = SWITCH.format(name="edge2", dir=self.dir, metrics=metrics, api="", role="role=client,")
        self.write("edge1", edge1 + PROGRAMS + OWN.format(count="packets"))
        self.write("edge2", edge2 + PROGRAMS + OWN.format(count="bytes"))
        run = lambda name: stack.enter_context(weir.run(config=self.dir / f"{name}.toml"))  # noqa: E731
        self.edge1, self.edge2 = run("edge1"), run("edge2")
        devices = [f"--tx=virtio-user:{self.dir}/edge1", f"--rx=virtio-user:{self.dir}/edge2"]
        pktgen = Path(os.environ["WEIR"]).with_name("pktgen")
        self.traffic = subprocess.Popen(
            [pktgen, "run", *devices, "--flows=50", "--rate=2kpps", "--duration=1h"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        stack.callback(self.traffic.wait)
        stack.callback(self.traffic.terminate)
        self.lose(True)

    def lose(self, on: bool) -> None:
        self.edge1.set_fault("up", "tx:drop=2%,proto=udp,seed=1" if on else None)

    def write(self, name: str, text: str) -> None:
        (self.dir / f"{name}.toml").write_text(text)

    def dropped(self) -> int:
        """Packets that the link has lost."""
        up = next(port for port in self.edge1.ports().ports if port.name == "up")
        return up.device.get("fault_drop", 0)

    def exported(self) -> dict[str, dict[str, set[str]]]:
        """The metrics of all: their labels, and the values of each."""
        found: dict[str, dict[str, set[str]]] = {"up": {}}
        for client in [self.edge1, self.edge2, self.controller]:
            for name, labels in re.findall(r"^(\w+)(?:\{(.*)\})? \S+$", client.metrics(), re.MULTILINE):
                for label, value in re.findall(r'(\w+)="([^"]*)"', labels):
                    found.setdefault(name, {}).setdefault(label, set()).add(value)
                found.setdefault(name, {})
        return found


def total(text: str, metric: str, **labels: str) -> float | None:
    """The sum of a metric's samples with these labels; None where there is none."""
    found = None
    for name, inner, value in re.findall(r"^(\w+)(?:\{(.*)\})? (\S+)$", text, re.MULTILINE):
        own = dict(re.findall(r'(\w+)="([^"]*)"', inner))
        if name == metric and labels.items() <= own.items():
            found = (found or 0) + float(value)
    return found


def samples(text: str) -> dict[Series, float]:
    """The samples of a text, by name and labels."""
    found = {}
    for name, inner, value in re.findall(r"^(\w+)(?:\{(.*)\})? (\S+)$", text, re.MULTILINE):
        labels = {(label, float(own) if label == "le" else own) for label, own in re.findall(r'(\w+)="([^"]*)"', inner)}
        found[name, frozenset(labels)] = float(value)
    return found


# Gauges that stay as they are.
CONSTANT = ["weir_build_info", "weir_start_time_seconds", "weir_port_mtu_bytes", "weir_port_enabled", "weir_switch_connected"]


class Metrics(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        stack = cls.enterClassContext(ExitStack())
        cls.network = Network(stack)
        try:
            cls.metrics = eventually("all metrics of the network", cls.complete, 120)
        except AssertionError as error:
            raise AssertionError(f"{error}: {cls.missing}") from error

    @classmethod
    def complete(cls) -> dict[str, dict[str, set[str]]] | None:
        """What is exported, once all that queries name is there."""
        exported = cls.network.exported()
        named = {name for query in queries() for name in re.findall(r"\bweir_\w+", query)}
        cls.missing = named - exported.keys()
        return exported if not cls.missing else None

    def test_queries_name_what_is_exported(self) -> None:
        self.assertGreater(len(queries()), 60)
        for query in queries():
            with self.subTest(query):
                promql_parser.parse(query)
                named = re.findall(r"\b(up|weir_\w+)\b(?:\{(.*?)\})?", query)
                self.assertTrue(named)
                known = SCRAPED.union(*(self.metrics[name] for name, _ in named))
                for group in re.findall(r"\b(?:by|on) \(([^)]*)\)", query):
                    self.assertLessEqual(set(group.split(", ")), known)
                for name, matchers in named:
                    for label, operator, value in re.findall(r'(\w+)(=~|!~|!=|=)"([^"]*)"', matchers):
                        self.assertIn(label, SCRAPED | self.metrics[name].keys())
                        if label in ("reason", "cause"):
                            for reason in value.split("|"):
                                self.assertTrue(
                                    any(re.fullmatch(reason, known) for known in self.metrics[name][label]), reason
                                )

    def test_totals_are_those_of_the_link(self) -> None:
        """What the fault drops is what flows and the link are said to have lost, and is counted once. A busy machine
        makes epochs unknown: then it is tried again."""
        network = self.network
        network.lose(False)
        self.settle()
        for _ in range(6):
            before, at = self.totals(), network.dropped()
            network.lose(True)
            eventually("losses", lambda: True if network.dropped() >= at + 40 else None)
            network.lose(False)
            self.settle()
            after = self.totals()
            flows, link, unknown = (after[i] - before[i] for i in range(3))
            dropped = network.dropped() - at
            if unknown == 0:
                self.assertEqual((flows, link), (dropped, dropped))
                self.settle()
                self.assertEqual(self.totals()[:2], after[:2], "nothing is counted again")
                return
            self.assertLessEqual(max(flows, link), dropped)
        self.skipTest("no epoch was known whole")

    def settle(self) -> None:
        """Waits until the packets of now are in final epochs, and these are counted."""

        def final() -> float | None:
            return total(self.network.controller.metrics(), "weir_final_epochs_total", program="chamelemon")

        start = final() or 0
        eventually("epochs to be final", lambda: True if (final() or 0) >= start + 12 else None)

    def totals(self) -> tuple[float, ...]:
        """Lost packets, those of the link, and epochs in which either is unknown."""
        text = self.network.controller.metrics()
        link = {"from": "edge1:up", "to": "edge2:up"}
        unknown = ["weir_unknown_loss_epochs_total", "weir_missing_epochs_total"]
        counts = [
            total(text, "weir_lost_packets_total"),
            total(text, "weir_link_lost_packets_total", cause="unknown", **link),
            sum(total(text, name) or 0 for name in unknown) + (total(text, "weir_link_unknown_epochs_total", **link) or 0),
        ]
        return tuple(count or 0 for count in counts)

    def test_a_collector_has_every_metric(self) -> None:
        """A collector is sent the samples of /metrics and no others, with the values of the time between two requests
        of /metrics."""
        network = self.network
        for server, instance in [(network.controller, "net"), (network.edge1, "edge1")]:

            def compared() -> int | None:
                before = samples(server.metrics())  # noqa: B023
                sent = network.collector.next_metrics(instance)  # noqa: B023
                after = samples(server.metrics())  # noqa: B023
                # Series of heavy flows come and go with each epoch.
                if not before.keys() & after.keys() <= sent.keys() <= before.keys() | after.keys():
                    return None
                for series in before.keys() & after.keys():
                    value = sent[series]
                    if series[0] in CONSTANT:
                        self.assertEqual(value, before[series], series)
                    elif series[0].endswith(("_total", "_count", "_bucket")):
                        self.assertTrue(before[series] <= value <= after[series], series)
                return len(sent)

            self.assertGreater(eventually("the same series", compared), 100)
            resource = {"service.name": "weir", "service.version": weir.__version__, "service.instance.id": instance}
            self.assertEqual(network.collector.resources[instance], resource)
            shown = server.otlp()
            self.assertGreater(shown.data_points, 100)
            self.assertEqual((shown.failed_requests, shown.rejected_data_points, shown.last_error), (0, 0, None))

    def test_a_collector_has_losses(self) -> None:
        def lost(event: str) -> list[dict[str, Any]] | None:
            records = self.network.collector.logs.get("net", [])
            return [record for record in records if record.get("event") == event] or None

        record = eventually("a log record of losses", lambda: lost("losses"))[0]
        self.assertEqual((record["severity"], record["program"]), ("WARN", "chamelemon"))
        self.assertIn(f"chamelemon: {record['lost_packets']} packet", record["body"])
        flow = eventually("one of a flow", lambda: lost("flow_losses"))[0]
        self.assertGreater(flow["lost_packets"], 0)
        self.assertIn(flow["flow"], flow["body"])
        place = eventually("one of a place", lambda: lost("place_losses"))[0]
        link = {"place": "edge1:up → edge2:up", "kind": "link", "switch": "edge1", "to_port": "up", "evidence": "counted"}
        self.assertEqual({key: place[key] for key in link}, link)
        self.assertGreater(place["lost_packets"], 0)
        ready = [record for record in self.network.collector.logs["edge1"] if record.get("event") == "ready"]
        self.assertEqual(len(ready), 1)

    def test_prometheus_runs_them(self) -> None:
        prometheus = tool("prometheus")
        if prometheus is None:
            self.assertNotIn("WEIR_REQUIRE_NETNS", os.environ, "no prometheus: make setup")
            self.skipTest("there is no prometheus")
        network, at = self.network, f"127.0.0.1:{free_port()}"
        tls = {"ca_file": "ca.pem", "cert_file": "prometheus.pem", "key_file": "prometheus.key"}
        remote = [f"127.0.0.1:{network.ports[name]}" for name in ["net", "edge1"]]
        jobs: list[dict[str, Any]] = [
            {"job_name": "weir", "scheme": "https", "tls_config": tls, "static_configs": [{"targets": remote}]},
            {"job_name": "here", "static_configs": [{"targets": [f"127.0.0.1:{network.ports['edge2']}"]}]},
        ]
        # YAML takes JSON.
        config = {"global": {"scrape_interval": "1s"}, "rule_files": [str(RULES)], "scrape_configs": jobs}
        (network.dir / "prometheus.yml").write_text(json.dumps(config))
        options = [f"--config.file={network.dir}/prometheus.yml", f"--storage.tsdb.path={network.dir}/tsdb"]
        log = self.enterContext(tempfile.TemporaryFile("w+"))
        process = subprocess.Popen([prometheus, *options, f"--web.listen-address={at}"], stdout=log, stderr=log)
        self.addCleanup(process.wait)
        self.addCleanup(process.terminate)

        def ask(query: str) -> list[Any] | None:
            try:
                answer = httpx.get(f"http://{at}/api/v1/query", params={"query": query}, timeout=10)
            except httpx.TransportError:
                return None
            document = answer.json() if answer.status_code != 503 else {"status": "starting"}
            if document["status"] == "starting":
                return None
            self.assertEqual((answer.status_code, document["status"]), (200, "success"), (query, document))
            return document["data"]["result"]

        def scraped() -> bool | None:
            up = ask("sum(up)")
            counted = ask("count(count_over_time(weir_final_epochs_total[5m]) > 2)")
            return True if up and counted and up[0]["value"][1] == "3" else None

        try:
            eventually("three scrapes of all", scraped)
        except AssertionError:
            log.seek(0)
            self.fail(f"{ask('up')}\n{log.read()}")
        for query in queries():
            with self.subTest(query):
                result = ask(query)
                # Alerts and drops are of what should not be.
                if not re.search(r"(>|>=|==) [\d.]+$", query):
                    self.assertTrue(result, "it draws nothing")
        loses = 'sum by (from) (weir_link_lost_packets_total{from="edge1:up",cause="unknown"})'
        self.assertGreater(float(ask(loses)[0]["value"][1]), 0)
        failed = ask('weir_place_failed{kind="link",place="edge1:up → edge2:up",evidence="counted"} == 1')
        self.assertEqual(len(failed), 1)
        rules = httpx.get(f"http://{at}/api/v1/rules", timeout=10).json()["data"]["groups"]
        bad = [rule for group in rules for rule in group["rules"] if rule["health"] == "err"]
        self.assertEqual(bad, [])

    def test_promtool_takes_the_rules(self) -> None:
        promtool = tool("promtool")
        if promtool is None:
            self.assertNotIn("WEIR_REQUIRE_NETNS", os.environ, "no promtool: make setup")
            self.skipTest("there is no promtool")
        drawn = [{"record": f"query:{n}", "expr": query} for n, query in enumerate(queries())]
        with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
            json.dump({"groups": [{"name": "all", "rules": drawn}]}, file)
            file.flush()
            checked = subprocess.run(
                [promtool, "check", "rules", RULES, file.name], check=False, capture_output=True, text=True
            )
        self.assertEqual(checked.returncode, 0, checked.stderr)


if __name__ == "__main__":
    unittest.main()
