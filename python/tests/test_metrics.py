"""Dashboard and alert rules of packaging/: every query parses, and names metrics, labels and reasons that a switch
exports."""

import json
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

import promql_parser

import weir

PACKAGING = Path(__file__).parents[2] / "packaging"
RULES = PACKAGING / "alerts.yml"

# Those that Prometheus adds to what it scrapes.
SCRAPED = {"job", "instance"}


def queries() -> list[str]:
    """All queries, with values in place of Grafana's variables."""
    dashboard = json.loads((PACKAGING / "grafana.json").read_text())
    drawn = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    variables = [variable["query"] for variable in dashboard["templating"]["list"] if variable["type"] == "query"]
    listed = [re.fullmatch(r"label_values\((.*), \w+\)", query)[1] for query in variables]
    alerts = re.findall(r"^ +expr: (.*)$", RULES.read_text(), re.MULTILINE)
    return alerts + [re.sub(r"\$\w+", ".+", re.sub(r"\$__\w+", "5m", query)) for query in drawn + listed]


def exported() -> dict[str, dict[str, set[str]]]:
    """The metrics of a switch: their labels, and the values of each."""
    found: dict[str, dict[str, set[str]]] = {"up": {}}
    with weir.run(port=["a=ring:a", "b=ring:b"], forward="xconnect", program="hashpipe") as switch:
        for name, labels in re.findall(r"^(\w+)(?:\{(.*)\})? \S+$", switch.metrics(), re.MULTILINE):
            for label, value in re.findall(r'(\w+)="([^"]*)"', labels):
                found.setdefault(name, {}).setdefault(label, set()).add(value)
            found.setdefault(name, {})
    return found


class Metrics(unittest.TestCase):
    def test_queries_name_what_is_exported(self):
        metrics = exported()
        self.assertGreater(len(queries()), 30)
        for query in queries():
            with self.subTest(query):
                promql_parser.parse(query)
                named = re.findall(r"\b(up|weir_\w+)\b(?:\{(.*?)\})?", query)
                self.assertTrue(named)
                known = SCRAPED.union(*(metrics[name] for name, _ in named))
                for group in re.findall(r"\b(?:by|on) \(([^)]*)\)", query):
                    self.assertLessEqual(set(group.split(", ")), known)
                for name, matchers in named:
                    for label, operator, value in re.findall(r'(\w+)(=~|!~|!=|=)"([^"]*)"', matchers):
                        self.assertIn(label, SCRAPED | metrics[name].keys())
                        if label == "reason":
                            for reason in value.split("|"):
                                self.assertTrue(
                                    any(re.fullmatch(reason, known) for known in metrics[name][label]), reason
                                )

    def test_prometheus_takes_the_rules(self):
        promtool = shutil.which("promtool")
        if promtool is None:
            self.skipTest("there is no promtool")
        drawn = [{"record": f"query:{n}", "expr": query} for n, query in enumerate(queries())]
        with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
            # YAML takes JSON.
            json.dump({"groups": [{"name": "all", "rules": drawn}]}, file)
            file.flush()
            checked = subprocess.run(
                [promtool, "check", "rules", RULES, file.name], check=False, capture_output=True, text=True
            )
        self.assertEqual(checked.returncode, 0, checked.stderr)


if __name__ == "__main__":
    unittest.main()
