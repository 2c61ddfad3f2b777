"""The page that `status --watch --page` keeps current."""

import json
import pathlib
import signal
import subprocess
import tempfile
import time
import unittest

from browser import Browser
from page_case import PROGRAM, make_results


class Live(unittest.TestCase):
    """`status --watch --page` beside a page that is open."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="sftbench-check-")
        self.root = pathlib.Path(self.folder.name)
        self.results = self.root / "results"
        make_results(self.root / "all", "--count", "300", "--series", "6")
        self.files = sorted((self.root / "all").glob("*/*.json"))
        self.add(200)
        self.page = self.root / "a page #1%.html"  # no name is too odd for a link
        self.watch = None
        self.browser = Browser()

    def tearDown(self):
        self.browser.__exit__()
        if self.watch and self.watch.poll() is None:
            self.watch.kill()
            self.watch.wait()
        self.folder.cleanup()

    def add(self, count):
        """So many more results, each there at once."""
        for path in [self.files.pop(0) for _ in range(count)]:
            place = self.results / path.relative_to(self.root / "all")
            place.parent.mkdir(parents=True, exist_ok=True)
            series = path.with_name(path.stem + ".series.json.gz")
            if series.exists():
                series.rename(place.with_name(series.name))
            path.rename(place)

    def start(self, *options):
        self.watch = subprocess.Popen(
            [PROGRAM, "status", str(self.results), *options, "--watch", "--interval", "0.2", "--page", str(self.page)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for _ in range(200):
            if self.page.with_suffix(".live.js").exists():
                return
            time.sleep(0.05)
        self.fail("there was no sign of life within 10 s")

    def js(self, expression):
        return self.browser.evaluate(expression)

    def wait_for(self, expression, within_s=20):
        begin = time.monotonic()
        while time.monotonic() - begin < within_s:
            if self.js(expression):
                return
            time.sleep(0.1)
        self.fail(f"not within {within_s} s: {expression}; the page says {self.said()!r}")

    def said(self):
        return self.js("document.getElementById('live').textContent")

    def state(self, name, within_s=20):
        self.wait_for(f"document.getElementById('live').dataset.state === '{name}'", within_s)

    def total(self):
        return "document.getElementById('summary').textContent"

    def test_fresh_results_come_by_themselves_from_a_file(self):
        self.start()
        self.browser.open(self.page)
        self.assertIn("200 measurements:", self.js(self.total()))
        self.assertRegex(self.said(), r"^200 cells have ended .*Data from \d{4}-\d\d-\d\d .* UTC, \d+ s old\.")
        self.add(50)
        self.wait_for(f"{self.total()}.startsWith('250 measurements:')")
        self.assertIn("250 cells have ended", self.said())
        self.assertEqual(
            {url.split("?")[0].rsplit("/", 1)[1] for url in self.browser.requests if url.startswith("file:")},
            {"a%20page%20%231%25.html", "a%20page%20%231%25.data.js", "a%20page%20%231%25.live.js"},
        )
        self.assertEqual([u for u in self.browser.requests if not u.startswith(("file:", "data:", "blob:"))], [])
        self.assertEqual(self.browser.errors, [])

    def test_fresh_data_leave_what_the_reader_did(self):
        self.start()
        self.browser.open(self.page)
        self.js("""(() => {
            const click = selector => document.querySelector(selector).click();
            click('[data-filter="outcome.status"]');
            [...document.querySelectorAll('#dialog .values label')].find(
                label => label.textContent.startsWith('valid')).querySelector('input').click();
            click('#dialog button[type=submit]');
            click('[data-sort="input.batch_size"]');
            click('#all-columns');
            const select = (place, value) => { const s = document.querySelector(place);
                s.value = value; s.dispatchEvent(new Event('change')); };
            select('#throughput-controls label:nth-child(3) select', 'median');
            select('#pareto-controls label:nth-child(1) select', 'train_tokens_per_second');
            const price = document.querySelector('[data-device="L40S"]');
            if (price) { price.value = 3.25; price.dispatchEvent(new Event('change', {bubbles: true})); }
            for (const [name, text] of [['entries', '2000'], ['hours', '8'], ['usd', 'cheap']]) {
                const field = document.getElementById(`plan-${name}`);
                field.value = text;
                field.dispatchEvent(new Event('input', {bubbles: true}));
            }
            select('#plan-model', 'mistral-7b-v0.1');
            document.querySelectorAll('#grid tbody tr[data-row]')[3].dispatchEvent(
                new MouseEvent('click', {ctrlKey: true, bubbles: true}));
            globalThis.panel = document.querySelectorAll('#chart-memory [data-panel]')[1].dataset.panel;
            globalThis.inPanel = place => document.querySelector(
                `#chart-memory [data-panel="${CSS.escape(panel)}"] ${place}`);
            inPanel('.alternative').open = true;
            document.getElementById('grid-scroll').scrollTop = 28 * 40 + 5;
            document.getElementById('grid-scroll').scrollLeft = 120;
        })()""")
        time.sleep(0.5)
        # Not every browser keeps the place when what stands above grows.
        self.js("document.documentElement.style.overflowAnchor = 'none'")
        self.js("document.getElementById('failures').scrollIntoView(); scrollBy(0, 60)")
        self.js("inPanel('.mark + .mark').focus({preventScroll: true})")
        place = """({
            chips: [...document.querySelectorAll('.chip')].map(e => e.textContent),
            sort: document.querySelector('[data-sort="input.batch_size"]').closest('th').ariaSort,
            columns: document.querySelectorAll('#grid [data-sort]').length,
            pressed: document.getElementById('all-columns').ariaPressed,
            statistic: document.querySelector('#throughput-controls label:nth-child(3) select').value,
            rate: document.querySelector('#pareto-controls label:nth-child(1) select').value,
            price: document.querySelector('[data-device="L40S"]')?.value,
            plan: [...document.querySelectorAll('#plan-form input, #plan-form select')].map(e => [e.value, e.ariaInvalid]),
            work: document.getElementById('plan-answer').textContent.split('.')[0],
            compared: document.querySelector('#curves-legend li button').textContent,
            chosen: document.getElementById('curves-note').textContent.split('.')[0],
            open: inPanel('.alternative').open,
            left: document.getElementById('grid-scroll').scrollLeft,
            within: document.getElementById('grid-scroll').scrollTop % 28,
            focus: document.activeElement.closest('.mark')?.ariaLabel.split(';')[1],
            panel: document.activeElement.closest('[data-panel]')?.dataset.panel,
            top: Math.round(document.getElementById('failures').getBoundingClientRect().top)})"""
        first_row = """(() => { const top = document.getElementById('grid-scroll').scrollTop;
            const row = [...document.querySelectorAll('#grid tbody tr[data-row]')].find(
                tr => (tr.ariaRowIndex - 2) * 28 >= top - 28);
            return [...row.cells].map(td => td.textContent).join('|'); })()"""
        before, row = self.js(place), self.js(first_row)
        tall = self.js("document.getElementById('failures').offsetTop")
        self.assertEqual(before["chips"], ["status: valid ×"])
        self.add(80)
        self.wait_for(f"{self.total()}.startsWith('280 measurements:')")
        time.sleep(0.3)
        after = self.js(place)
        self.assertAlmostEqual(after.pop("top"), before.pop("top"), delta=2)
        self.assertEqual(after, before)
        self.assertEqual(self.js(first_row), row)
        # What stands above has grown, and so the place was no accident.
        self.assertNotEqual(self.js("document.getElementById('failures').offsetTop"), tall)
        self.assertEqual(self.browser.errors, [])

    def test_waits_while_a_dialog_is_open_or_the_reader_says_so(self):
        self.start()
        self.browser.open(self.page)
        self.js("document.querySelector('#grid tbody tr[data-row]').click()")
        self.add(1)
        time.sleep(4)
        self.assertIn("200 measurements:", self.js(self.total()))
        self.assertIn("Fresh data wait for you", self.said())
        self.browser.key("Escape")
        self.wait_for(f"{self.total()}.startsWith('201 measurements:')")
        self.js("document.getElementById('pause').click()")
        self.add(1)
        time.sleep(4)
        self.assertIn("201 measurements:", self.js(self.total()))
        self.assertIn("Paused", self.said())
        self.js("document.getElementById('pause').click()")
        self.wait_for(f"{self.total()}.startsWith('202 measurements:')")

    def test_says_when_nobody_keeps_it_current(self):
        self.start()
        self.browser.open(self.page)
        self.state("live")
        self.watch.send_signal(signal.SIGSTOP)
        self.state("stale", 30)
        self.assertIn("Stale: nobody has kept this page current for", self.said())
        self.assertIn("warning", self.js("document.getElementById('live').className"))
        self.watch.send_signal(signal.SIGCONT)
        self.state("live")
        self.watch.send_signal(signal.SIGINT)
        self.assertEqual(self.watch.wait(timeout=20), 130)
        self.state("ended")
        self.assertIn("Nobody keeps this page current any more: it was interrupted.", self.said())
        self.assertEqual(self.browser.errors, [])

    def test_is_opened_without_data(self):
        self.start()
        self.watch.send_signal(signal.SIGINT)
        self.watch.wait(timeout=20)
        self.page.with_suffix(".data.js").unlink()
        self.browser.open(self.page)
        self.assertIn("No data yet: a page #1%.data.js is not there.", self.said())
