"""The notebook runs, and its figures show what they should; the examples of docs/python.md run."""

import contextlib
import re
import tempfile
import unittest
import warnings
from pathlib import Path

import nbformat
import weir
from test_commands import talk
from nbclient import NotebookClient

PAGE = Path(__file__).parents[2] / "docs/python.md"
NOTEBOOK = Path(__file__).parents[1] / "examples/memory.ipynb"

CHECKS = """
assert measured.claim.final and abs(measured.flows / sum(truth.epoch == third) - 1) < 0.1, measured.flows
ends = sweep.groupby("program").error.agg(["first", "last"])
assert len(ends) == 4 and (ends["last"] < ends["first"]).all() and (ends["last"] < 0.2).all(), ends
"""


class Notebook(unittest.TestCase):
    def test_it_runs_and_has_no_outputs(self):
        notebook = nbformat.read(NOTEBOOK, as_version=4)
        self.assertEqual([cell.outputs for cell in notebook.cells if cell.cell_type == "code" and cell.outputs], [])
        notebook.cells.append(nbformat.v4.new_code_cell(CHECKS))
        NotebookClient(notebook, timeout=300).execute()
        outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
        self.assertEqual(sum("image/png" in output.get("data", {}) for output in outputs), 2)


class Page(unittest.TestCase):
    def test_its_examples_run(self):
        examples = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
        self.enterContext(contextlib.chdir(self.enterContext(tempfile.TemporaryDirectory())))
        self.enterContext(warnings.catch_warnings())
        warnings.simplefilter("ignore", weir.IncompleteWarning)
        Path("web.pcap").write_bytes(talk())
        # One needs another machine.
        for example in examples[:1] + examples[2:]:
            with contextlib.redirect_stdout(None):
                exec(example.replace("/tmp/weir-", f"{Path.cwd()}/"), {})
        self.assertEqual((len(examples), "connect=" in examples[1]), (5, True))


if __name__ == "__main__":
    unittest.main()
