"""The OpenAPI document is valid, and a switch and a controller answer as it says."""

import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path
from typing import Any

import httpx
import weir
from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator

CONFIG = """
[switch]
name = "edge"
forward = "xconnect"
[controller]
at = "{dir}/net.switches.sock"
[ipfix]
collector = "127.0.0.1:4739"
[otlp]
to = "http://127.0.0.1:4317"
[[port]]
name = "a"
dev = "vhost:{dir}/a"
[[port]]
name = "b"
dev = "vhost:{dir}/b"
[[program]]
name = "hashpipe"
slots = 64
slots6 = 64
[[program]]
name = "chamelemon"
[[program]]
name = "pint"
[[program]]
name = "hopcounters"
"""
PROGRAMS = ["chamelemon", "pint", "hopcounters"]

METHODS = ["get", "put", "post", "delete", "patch"]

# What each request that changes something, or takes time, is sent with.
BODIES = {
    ("post", "/v1/frequency"): {"flows": ["* -> * udp", "192.0.2.1 -> * tcp"]},
    ("post", "/v1/ports"): {"name": "c", "dev": "ring:c", "pair": None},
    ("put", "/v1/ports/{name}/link"): {"up": True},
    ("put", "/v1/ports/{name}/promiscuous"): {"on": True},
    ("put", "/v1/ports/{name}/mtu"): {"mtu_bytes": 1400},
    ("put", "/v1/ports/{name}/fault"): {"fault": "rx:duplicate=1%"},
    ("post", "/v1/tables/{name}"): {"changes": [{"op": "add", "entry": {"name": "no", "action": "deny", "proto": "tcp"}}]},
    ("post", "/v1/trace"): {"filter": "udp", "timeout_seconds": 20},
    ("post", "/v1/capture"): {"count": 1},
    ("post", "/v1/registers"): {"program": "hashpipe", "timeout_seconds": 20},
    ("put", "/v1/parameters"): {"name": "pint", "queries": "path:bits=8"},
}
# The parts of paths, by the beginnings of these. Settings are those of a port with traffic, and the port that is
# removed is the one that was added.
PARTS = {
    "/v1/ports/{name}/": "a",
    "/v1/ports/{name}": "c",
    "/v1/tables/{name}": "acl",
    "/v1/captures/{id}": "1000",
    "/v1/switches/{name}": "edge",
}

# The programs that answer these send their records to the controller, and a switch has no answer.
ELSEWHERE = ["attention", "cardinality", "changes", "entropy", "flows", "latency", "losses", "loops", "paths", "places"]
ELSEWHERE += ["utilisation", "values"]

# The requests that are refused, by server and kind of request.
REFUSED = {
    ("switch", "questions"): {("get", f"/v1/{task}"): 400 for task in ELSEWHERE},
    # The controller exports nothing.
    ("controller", "questions"): {("get", "/v1/ipfix"): 400, ("get", "/v1/otlp"): 400},
    ("switch", "changes"): {("delete", "/v1/captures/{id}"): 400},
    # The switch is connected.
    ("controller", "changes"): {("delete", "/v1/switches/{name}"): 409},
}


def document() -> dict[str, Any]:
    return json.loads(subprocess.check_output([os.environ["WEIR"], "openapi"]))


def strict(schema: Any, open_schemas: set[str], name: str = "") -> Any:
    """The schema, changed so that it accepts only keys that it names. `open_schemas` are parts of other schemas."""
    if isinstance(schema, list):
        return [strict(item, open_schemas) for item in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: strict(value, open_schemas) for key, value in schema.items()}
    is_object = isinstance(schema.get("properties"), dict) and "type" in schema or "allOf" in schema
    if is_object and "additionalProperties" not in schema and name not in open_schemas:
        found["unevaluatedProperties"] = False
    return found


class Document(unittest.TestCase):
    def test_it_is_openapi(self):
        OpenAPIV31SpecValidator(document()).validate()


class Answers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.document = document()
        schemas = cls.document["components"]["schemas"]
        parts = [part["$ref"] for schema in schemas.values() for part in schema.get("allOf", [])]
        parts = {part.rpartition("/")[2] for part in parts}
        cls.schemas = {name: strict(schema, parts, name) for name, schema in schemas.items()}
        cls.dir = Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        (cls.dir / "edge.toml").write_text(CONFIG.format(dir=cls.dir))
        sockets = {"socket": cls.dir / "net.sock", "switch_socket": cls.dir / "net.switches.sock"}
        controller = weir.controller(name="net", switch="edge", state=cls.dir / "state", program=PROGRAMS, **sockets)
        cls.servers = {"controller": cls.enterClassContext(controller)}
        cls.servers["switch"] = cls.enterClassContext(weir.run(config=cls.dir / "edge.toml"))
        ports = [f"--tx=virtio-user:{cls.dir}/a", f"--rx=virtio-user:{cls.dir}/b"]
        pktgen = Path(os.environ["WEIR"]).with_name("pktgen")
        traffic = subprocess.Popen(
            [pktgen, "run", *ports, "--flows=5", "--rate=1kpps", "--duration=1h"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        cls.addClassCleanup(traffic.wait)
        cls.addClassCleanup(traffic.terminate)
        next(answer for answer in cls.servers["controller"].each(weir.FlowSizes) if answer.heavy)
        # One client for each server: a transport takes 0.1 s to make.
        cls.clients = {tag: cls.client(server) for tag, server in cls.servers.items()}

    @classmethod
    def client(cls, server: weir.Switch | weir.Controller) -> httpx.Client:
        transport = httpx.HTTPTransport(uds=server.at)
        return cls.enterClassContext(httpx.Client(base_url="http://weir", transport=transport, timeout=30))

    def ask(self, tag: str, method: str, path: str, body: Any = None, **query: Any) -> httpx.Response:
        return self.clients[tag].request(method, path, json=body, params=query)

    def holds(self, operation: dict[str, Any], response: httpx.Response) -> int:
        """Validates a response by the description of its operation, and returns its status."""
        described = operation["responses"][str(response.status_code)]
        if "$ref" in described:
            described = self.document["components"]["responses"][described["$ref"].rpartition("/")[2]]
        content = described["content"][response.headers["content-type"]]
        if response.headers["content-type"] == "application/json":
            schema = {**content["schema"], "components": {"schemas": self.schemas}}
            Draft202012Validator(schema).validate(response.json())
        return response.status_code

    def statuses(self, tag: str, methods: list[str]) -> dict[tuple[str, str], int]:
        """Sends each request that a server is described with, and returns the statuses of the answers."""
        found = {}
        for path, operations in self.document["paths"].items():
            for method, operation in operations.items():
                # A reload would remove the port that was added: see test_reload.
                if tag not in operation["tags"] or method not in methods or path == "/v1/reload":
                    continue
                pattern = next((part for part in PARTS if path.startswith(part)), "")
                at = path.replace("{name}", PARTS.get(pattern, "")).replace("{id}", PARTS.get(pattern, ""))
                query = {"flow": "* -> *"} if path == "/v1/frequency" and method == "get" else {}
                with self.subTest(server=tag, method=method, path=path):
                    response = self.ask(tag, method, at, BODIES.get((method, path)), **query)
                    found[method, path] = self.holds(operation, response)
        return found

    def refused(self, tag: str, methods: list[str]) -> dict[tuple[str, str], int]:
        return {of: status for of, status in self.statuses(tag, methods).items() if status != 200}

    def test_questions(self):
        for tag in self.servers:
            self.assertEqual(self.refused(tag, ["get"]), REFUSED[tag, "questions"])

    def test_changes(self):
        for tag in self.servers:
            # What was added is removed last.
            refused = self.refused(tag, ["post", "put"]) | self.refused(tag, ["delete"])
            self.assertEqual(refused, REFUSED[tag, "changes"])

    def test_reload(self):
        operation = self.document["paths"]["/v1/reload"]["post"]
        self.assertEqual(self.holds(operation, self.ask("switch", "post", "/v1/reload")), 200)

    def test_other_requests_have_no_answer(self):
        for tag in self.servers:
            for path, operations in self.document["paths"].items():
                described = [method for method in operations if tag in operations[method]["tags"]]
                for method in METHODS:
                    if method in described:
                        continue
                    with self.subTest(server=tag, method=method, path=path):
                        response = self.ask(tag, method, path.replace("{name}", "a").replace("{id}", "1"))
                        self.assertEqual(response.status_code, 404)
                        self.assertRegex(response.json()["error"], "has no such answer|and only a .* answers that")


if __name__ == "__main__":
    unittest.main()
