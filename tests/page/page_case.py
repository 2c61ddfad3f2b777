"""A report of simulated results in a headless Chromium: what the tests of the page have in common.

The first argument of the program that imports this is sftbench's path.
"""

import collections
import json
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

from browser import Browser

PROGRAM = sys.argv.pop(1) if len(sys.argv) > 1 else "sftbench"
HERE = pathlib.Path(__file__).parent
GIB = 2**30
USD_PER_HOUR = {"NVIDIA-A100-SXM4-80GB": 1.29, "NVIDIA-H100-80GB-HBM3": 2.29, "L40S": 0.86}  # config/prices.yaml


def make_results(folder, *options):
    subprocess.run([sys.executable, HERE / "make_results.py", folder, *options], check=True)


def write_page(results, page):
    subprocess.run(
        [PROGRAM, "report", str(results), "--format", "html", "-o", str(page), "--include-simulated"],
        check=True,
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )


def read_documents(folder):
    """(path, document) of every file that is a result."""
    for path in sorted(folder.glob("*/*.json")):
        try:
            document = json.loads(path.read_text())
        except json.JSONDecodeError:
            continue
        if isinstance(document, dict):
            yield path, document


def read_results(folder):
    """Every file that is a result, as the page's rows know them."""
    rows = []
    for path, document in read_documents(folder):
        inputs, memory = document["inputs"], document["extra"].get("memory_bytes", {})
        rows.append(
            {
                **inputs,
                "status": document["status"],
                "reason": (document["reason"] or {}).get("code"),
                "tuning": document["experiment"].split("_")[1],
                "key": str(path).split(".json")[0].split(".2")[0].split(".3")[0],
                "devices": f"{inputs['number_gpus']} × {inputs['gpu_model']}",
                "rate": document["measured"].get("dataset_tokens_per_second"),
                "gib": max(memory.get("device_peak_reserved", [0])) / GIB,
            }
        )
    return rows


class PageCase(unittest.TestCase):
    """One report of about 4,400 results, hostile ones among them, opened anew for every test."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="sftbench-check-")
        root = pathlib.Path(cls.folder.name)
        make_results(root / "results", "--count", "4000", "--repeated", "200", "--series", "20", "--hostile")
        cls.page = root / "report.html"
        write_page(root / "results", cls.page)
        cls.rows = read_results(root / "results")
        cls.valid = [row for row in cls.rows if row["status"] == "valid"]
        counts = collections.Counter(row["devices"] for row in cls.valid)
        most = max(counts.values())
        # The page takes the first by name among equals, as it lists them.
        cls.devices = next(row["devices"] for row in cls.rows if counts[row["devices"]] == most)
        cls.browser = Browser()

    @classmethod
    def tearDownClass(cls):
        cls.browser.__exit__()
        cls.folder.cleanup()

    def setUp(self):
        self.browser.errors.clear()
        self.browser.requests.clear()
        self.browser.open(self.page)

    def tearDown(self):
        self.assertEqual(self.browser.errors, [])

    def js(self, expression):
        return self.browser.evaluate(expression)

    def click(self, selector):
        self.assertTrue(
            self.js(f"(e => e && (e.click(), true))(document.querySelector({json.dumps(selector)}))"),
            f"no {selector}",
        )

    def scroll_by(self, pixels):
        """Scrolls, and waits until the page has heard of it: its listeners run before the frame after."""
        before = self.js("scrollY")
        self.js(
            f"""new Promise(done => {{ scrollBy(0, {pixels});
                requestAnimationFrame(() => requestAnimationFrame(done)); }})"""
        )
        self.assertNotEqual(self.js("scrollY"), before)

    def texts(self, selector):
        return self.js(f"[...document.querySelectorAll({json.dumps(selector)})].map(e => e.textContent)")

    def shown(self):
        return self.js("document.getElementById('shown').textContent")

    def column(self, label):
        """The cells of a column that are drawn, top down."""
        return self.js(f"""(() => {{
            const place = [...document.querySelectorAll('#grid thead th')].findIndex(
                th => th.querySelector('[data-sort]').dataset.sort === {json.dumps(label)});
            return [...document.querySelectorAll('#grid tbody tr[data-row]')].map(tr => tr.cells[place].textContent);
        }})()""")

    def search(self, text):
        self.js(
            f"""(input => {{ input.value = {json.dumps(text)}; input.dispatchEvent(new Event('input')); }})(
                document.querySelector('#filters input'))"""
        )
        time.sleep(0.4)  # the page waits until the reader stops typing

    def choose_value(self, column, value):
        self.click(f'[data-filter="{column}"]')
        self.js(
            f"""[...document.querySelectorAll('#dialog .values label')].find(
            label => label.firstChild.nextSibling.textContent === {json.dumps(value)}).querySelector('input').click()"""
        )
        self.click("#dialog button[type=submit]")
