"""Loss and the use of the machine over time, as the page draws them, against the files of samples."""

import gzip
import json
import re
import statistics
import time

import xxhash

import make_results as made
from page_case import PageCase


class Curves(PageCase):
    def with_series(self):
        """Paths of the results that have a series as it was written, and their content."""
        found = []
        for path in sorted((self.page.parent / "results").glob("*/*.series.json.gz")):
            result = path.with_name(path.name.split(".")[0] + ".json")
            document = json.loads(result.read_text())
            if xxhash.xxh3_128_hexdigest(path.read_bytes()) == document["extra"]["series"]["digest"]:
                found.append((result, document, json.loads(gzip.decompress(path.read_bytes()))))
        return found

    def find(self, result):
        """Leaves the one row of this result in the table."""
        self.search(result.name)
        self.assertEqual(self.shown(), f"1 of {len(self.rows):,} measurements")

    def figures(self, root):
        """Curve -> rows of the table behind its chart, as numbers where they are."""
        self.js(f"document.querySelectorAll('{root} .alternative').forEach(e => {{ e.open = true; }})")
        time.sleep(0.2)
        rows = self.js(
            f"""Object.fromEntries([...document.querySelectorAll('{root} figure')].map(figure => [figure.dataset.curve,
            [...figure.querySelectorAll('.alternative tbody tr')].map(tr => [...tr.cells].map(td => td.textContent))]))"""
        )
        number = lambda text: float(text) if re.fullmatch(r"-?[0-9.]+(e-?[0-9]+)?", text) else text
        return {curve: [[number(text) for text in row] for row in table] for curve, table in rows.items()}

    def test_a_measurement_shows_its_curves_with_units_and_limits(self):
        result, document, series = self.with_series()[0]
        self.find(result)
        self.click("#grid tbody tr[data-row]")
        curves = self.figures("#detail-curves")
        self.assertEqual(
            list(curves), ["loss", "step_seconds", "gpu_use", "gpu_memory", "gpu_power", "cpu", "host_memory"]
        )
        for curve, rows in curves.items():
            self.assertLessEqual(len(rows), 200, curve)
            self.assertGreaterEqual(len(rows), 100, curve)
        gpus = series["processes"][0]["gpus"]
        loss = [x for x in document["extra"]["loss"] if x is not None]
        self.assertAlmostEqual(max(row[3] for row in curves["loss"]), made.LOSS_PEAK, delta=1e-3)
        self.assertAlmostEqual(min(row[2] for row in curves["loss"]), min(loss), delta=1e-3)
        self.assertAlmostEqual(max(row[3] for row in curves["gpu_power"]), made.PEAK_WATTS, delta=0.1)
        watts = statistics.mean(statistics.mean(gpu["power_watts"]) for gpu in gpus)
        self.assertAlmostEqual(statistics.mean(row[1] for row in curves["gpu_power"]), watts, delta=0.2)
        self.assertEqual({(row[2], row[3]) for row in curves["gpu_use"]}, {(98 - len(gpus), 97)})
        for row in curves["cpu"]:
            self.assertAlmostEqual(row[1], 3, delta=1e-3)
        # A percent of the device's and the node's memory is told in GiB.
        peak = document["measured"]["gpu_memory_utilization_peak"] / 100 * 80
        self.assertAlmostEqual(curves["gpu_memory"][-1][1], peak, delta=1e-3 * peak)
        self.assertAlmostEqual(curves["host_memory"][0][1], 0.05 * 128, delta=1e-3)
        texts = " ".join(self.texts("#detail-curves svg text"))
        self.assertIn("800 W: the power limit", texts)
        self.assertIn("measured from here", texts)
        self.assertIn("seconds since the first step began", texts)
        self.assertEqual(len(self.texts("#detail-curves .evaluation")), 5)
        # Where a step was not finite the line has a gap.
        self.assertEqual(self.js("document.querySelectorAll('#detail-curves [data-curve=loss] polyline').length"), 1)

    def test_a_short_curve_is_exact_and_has_a_gap_where_nothing_is_known(self):
        self.search("valid")
        labels = self.texts("#curves-legend button")
        self.assertEqual(len(labels), 3)
        curves = self.figures("#chart-curves")
        self.assertEqual(list(curves), ["loss", "step_seconds"])
        self.assertEqual([row[1] for row in curves["loss"]], [float(i) for _ in range(3) for i in range(1, 11)])
        newest = max(
            (json.loads(p.read_text()) for p in (self.page.parent / "results").glob("*/*.json") if p.stem != "cut"
             and p.stem != "foreign"),
            key=lambda d: (d["status"] == "valid", d["finished_at"]),
        )
        for row, loss in zip(curves["loss"], newest["extra"]["loss"]):
            self.assertAlmostEqual(row[2], loss, delta=1e-4)

    def compared(self):
        return self.texts("#curves-legend li button:first-of-type")

    def test_runs_that_the_reader_chooses_stand_over_each_other(self):
        chosen = [result for result, *_ in self.with_series()[:3]]
        for i, result in enumerate(chosen):
            self.find(result)
            if i == 0:
                self.js("""document.querySelector('#grid tbody tr[data-row]').dispatchEvent(
                    new MouseEvent('click', {ctrlKey: true, bubbles: true}))""")
                self.assertFalse(self.js("document.getElementById('dialog').open"))
            elif i == 1:
                self.js("document.querySelector('#grid table').focus()")
                for key in ("Home", "Space"):
                    self.browser.key(key)
            else:
                self.click("#grid tbody tr[data-row]")
                self.click("#compare-this")
                self.browser.key("Escape")
        self.assertEqual(len(self.compared()), 3)
        self.assertEqual(len(set(self.compared())), 3)
        self.assertIn("3 runs that you chose", self.texts("#curves-note")[0])
        self.assertEqual(self.js("document.querySelectorAll('#grid tr[data-compared]').length"), 1)
        for curve in ("step_seconds", "gpu_power", "host_memory"):
            lines = "[...document.querySelectorAll('#chart-curves [data-curve=%s] polyline')]" % curve
            self.assertEqual(self.js(f"{lines}.length"), 3, curve)
            # Colors are not the only difference.
            self.assertEqual(self.js(f"new Set({lines}.map(e => e.getAttribute('stroke-dasharray'))).size"), 3)
        self.click("#curves-legend li:first-child button:last-of-type")
        self.assertEqual(len(self.compared()), 2)
        self.click("#compare-none")
        self.assertIn("All of 1 measurement with curves that the filters leave.", self.texts("#curves-note")[0])
        self.search("")
        self.assertIn("The newest 3 of ", self.texts("#curves-note")[0])
        self.click("#compare-first")
        self.assertEqual(len(self.compared()), 8)

    def test_the_keyboard_reads_every_run_at_a_place(self):
        for result, *_ in self.with_series()[:2]:
            self.find(result)
            self.js("""document.querySelector('#grid tbody tr[data-row]').dispatchEvent(
                new MouseEvent('click', {ctrlKey: true, bubbles: true}))""")
        self.js("document.querySelector('#chart-curves [data-curve=gpu_power] svg').focus()")
        self.browser.key("Home")
        first = self.js("document.activeElement.getAttribute('aria-valuetext')")
        self.browser.key("ArrowRight")
        second = self.js("document.activeElement.getAttribute('aria-valuetext')")
        self.assertNotEqual(first, second)
        self.scroll_by(40)
        self.assertFalse(self.js("document.getElementById('tooltip').hidden"))
        lines = self.texts("#tooltip div")
        self.assertEqual(len(lines), 2)
        for line, label in zip(lines, self.compared()):
            self.assertTrue(line.startswith(f"{label}: "), line)
            self.assertRegex(line, r"\d+(\.\d+)? W \(\d.* to \d.*\)$")
        self.browser.key("Escape")
        self.assertTrue(self.js("document.getElementById('tooltip').hidden"))
        self.scroll_by(-40)
        self.assertTrue(self.js("document.getElementById('tooltip').hidden"))

    def test_says_what_it_does_not_show(self):
        said = self.texts("#curves-left-out")[0]
        self.assertIn("At most 200 places a curve", said)
        without = len(self.valid) - 20
        self.assertIn(f"{without:,} measurements came without samples over time", said)
        self.assertIn("2 files of samples could not be read", said)
        problems = sorted(self.texts("#curve-problems li"))
        self.assertTrue(any("cannot open" in problem for problem in problems), problems)
        self.assertTrue(any("is not what the measurement wrote" in problem for problem in problems), problems)
        self.assertNotIn(str(self.page.parent), " ".join(problems))
