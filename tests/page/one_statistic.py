"""Page and terminal give one number for one thing, from a folder whose repeats lie far apart."""

import collections
import json
import pathlib
import random
import re
import statistics
import subprocess
import tempfile
import unittest

from browser import Browser
from page_case import GIB, PROGRAM, PageCase, make_results, read_documents, write_page

RATES = ("dataset_tokens_per_second", "dataset_tokens_per_second_per_gpu", "train_tokens_per_second",
         "train_tokens_per_gpu_per_second", "train_samples_per_second")
NUMBER = r"([0-9.,]+[kMG]?)"


def number(text):
    scale = {"k": 1e3, "M": 1e6, "G": 1e9}.get(text[-1], 1)
    return float(text.rstrip("kMG").replace(",", "")) * scale


class OneStatistic(PageCase):
    """A report of 700 configurations, measured three times each."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="sftbench-statistic-")
        root = pathlib.Path(cls.folder.name)
        cls.results = root / "results"
        make_results(cls.results, "--count", "700", "--repeated", "700")
        dice = random.Random(3)
        cls.repeats = collections.defaultdict(list)
        for path, document in read_documents(cls.results):
            if document["status"] == "valid":
                factor = dice.lognormvariate(0, 0.2)
                for rate in RATES:
                    document["measured"][rate] *= factor
                memory = document["extra"]["memory_bytes"]
                for kind in ("device_peak_allocated", "device_peak_reserved"):
                    memory[kind] = [int(value * dice.uniform(0.9, 1)) for value in memory[kind]]
                if document["inputs"]["batch_size"] == 8:
                    document["extra"]["run_queue_wait_share"] = 0.4
                path.write_text(json.dumps(document))
                cls.repeats[path.name.split(".")[0]].append(document)
        cls.page = root / "report.html"
        write_page(cls.results, cls.page)
        cls.browser = Browser()

    def terminal(self, *options):
        command = [PROGRAM, "report", str(self.results), "--include-simulated", *options]
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout.decode()

    def tables(self, *options):
        """The terminal's tables: lists of {column: text}."""
        tables, head = [], None
        for line in self.terminal("--format", "md", *options).splitlines():
            if not line.startswith("|"):
                head = None
                continue
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            if head is None:
                head = cells
                tables.append([])
            elif not set(line) <= set("|-: "):
                tables[-1].append(dict(zip(head, cells)))
        return tables

    def table(self):
        """(model, GPU, length, batch) -> row of the terminal's table."""
        place = lambda r: (r["model_name"], r["gpu_model"], int(r["model_max_length"]), int(r["batch_size"]))
        found = {place(row): row for row in self.tables()[0] if row["status"] == "valid"}
        for row in found.values():
            for name in ("dataset_tokens_per_second", "usd_per_million_dataset_tokens"):
                row[name] = float(row[name])
        self.assertGreater(len(found), 200)
        return found

    def assert_shown(self, text, value, what):
        self.assertAlmostEqual(number(text), value, delta=0.006 * abs(value), msg=what)

    def test_the_table_has_medians(self):
        table = self.table()
        for documents in self.repeats.values():
            inputs = documents[0]["inputs"]
            row = table[inputs["model_name"], inputs["gpu_model"], inputs["model_max_length"], inputs["batch_size"]]
            rates = [document["measured"]["dataset_tokens_per_second"] for document in documents]
            self.assertAlmostEqual(row["dataset_tokens_per_second"], statistics.median(rates),
                                   delta=1e-5 * statistics.median(rates))

    def test_answers_of_the_page_are_rows_of_the_terminal(self):
        table = self.table()
        self.js("document.querySelector('#answer-table .button-row button')?.click()")
        answers = self.js(
            """[...document.querySelectorAll('#answer-table tbody tr[data-key]')].map(tr => [tr.dataset.key,
                [...tr.querySelectorAll('td')].map(td => [td.dataset.label, td.textContent])])"""
        )
        self.assertGreater(len(answers), 20)
        for key, cells in answers:
            inputs = self.repeats[key.split("/")[-1]][0]["inputs"]
            place = (inputs["model_name"], inputs["gpu_model"], inputs["model_max_length"], inputs["batch_size"])
            row, shown = table[place], dict(cells)
            cost = next(text for label, text in cells if label and label.startswith("USD per"))
            self.assert_shown(cost, row["usd_per_million_dataset_tokens"], place)
            self.assert_shown(shown["tokens/s"], row["dataset_tokens_per_second"], place)
            gib = statistics.median(max(d["extra"]["memory_bytes"]["device_peak_reserved"]) / GIB
                                    for d in self.repeats[key.split("/")[-1]])
            self.assert_shown(shown["Peak GiB"], gib, place)
            others = [r["usd_per_million_dataset_tokens"] for (model, _, length, _), r in table.items()
                      if (model, length) == (place[0], place[2])]
            self.assertEqual(row["usd_per_million_dataset_tokens"], min(others), place)

    def test_marks_of_the_chart_are_the_best_medians(self):
        table = self.table()
        shown = self.js("document.querySelector('#throughput-note').textContent")
        device = re.search(r"on [0-9]+ × (\S+)\. ", shown).group(1)
        marks = self.js("[...document.querySelectorAll('#chart-batch .mark')].map(m => m.getAttribute('aria-label'))")
        self.assertGreater(len(marks), 10)
        for label in marks:
            model, rate, batch, length = re.match(
                rf"(\S+).*?: {NUMBER} \S+.*?batch_size.*? {NUMBER}, model_max_length {NUMBER}", label).groups()
            row = table[model, device, int(number(length)), int(number(batch))]
            self.assert_shown(rate, row["dataset_tokens_per_second"], label)

    def test_effects_are_those_of_vary(self):
        expected = {row["gpu_model"]: row for row in self.tables("--vary", "gpu_model")[0]}
        marks = self.js(
            """[...document.querySelectorAll('#chart-effects [data-panel="gpu_model"] .mark')].map(
                m => m.getAttribute('aria-label'))""")
        self.assertEqual(len(marks), len(expected))
        for label in marks:
            value, base, ratio, low, high, pairs = re.match(
                rf"gpu_model (\S+) beside (\S+): {NUMBER} times; 95 %: {NUMBER} to {NUMBER}.*; {NUMBER} pairs", label
            ).groups()
            cells = expected[value]
            self.assertEqual(base, cells["beside"])
            self.assertEqual(number(pairs), number(cells["judged"]))
            for text, name in ((ratio, "ratio"), (low, "low"), (high, "high")):
                self.assert_shown(text, float(cells[name]), f"{label}: {name}")

    def test_the_front_has_medians(self):
        table = self.table()
        rates = [row["dataset_tokens_per_second"] for row in table.values()]
        marks = self.js("[...document.querySelectorAll('#chart-pareto .mark')].map(m => m.getAttribute('aria-label'))")
        self.assertGreater(len(marks), 5)
        for label in marks:
            rate = number(re.match(rf".*?: {NUMBER} ", label).group(1))
            self.assertLess(min(abs(rate - other) / other for other in rates), 0.006, label)

    def test_a_comparison_has_the_ratio_of_its_two_numbers(self):
        rows = json.loads(self.terminal("--compare", str(self.results), "--format", "json"))
        for row in rows:
            if row["ratio"] is not None:
                self.assertAlmostEqual(row["ratio"], row["dataset_tokens_per_second"] / row["other"], places=9)

    def test_what_is_doubtful_says_so_beside_its_number(self):
        self.assertTrue(all("simulated: nothing was measured" in text for text in self.texts("#answer-lead .lead")))
        self.assertIn("simulated", {row["machine"] for row in self.table().values()})


if __name__ == "__main__":
    unittest.main()
