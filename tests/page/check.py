#!/usr/bin/env python3
"""Opens reports of simulated results in a headless Chromium and uses them as a reader would.

usage: check.py PROGRAM [unittest options...]      PROGRAM is sftbench

What the page shows is held against the result files, read here on their own. SFTBENCH_PAGE_LARGE=1 adds a
report of 100,000 results with limits on time and size.
"""

import collections
import json
import math
import os
import pathlib
import re
import statistics
import sys
import tempfile
import time
import unittest

from browser import Browser
from make_results import HOSTILE
from page_case import PageCase, USD_PER_HOUR, make_results, write_page
from curves import Curves  # noqa: F401, run by unittest
from one_statistic import OneStatistic  # noqa: F401
from plan import Plan, PlanCorners  # noqa: F401


def t_quantile(degrees):
    """The t that holds 95 %, by Simpson's rule and bisection."""
    scale = math.exp(math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2)) / math.sqrt(degrees * math.pi)

    def within(t, stretches=2000):
        density = lambda x: scale * (1 + x * x / degrees) ** (-(degrees + 1) / 2)
        width = t / stretches
        inner = sum((4 if k % 2 else 2) * density(k * width) for k in range(1, stretches))
        return 2 * width / 3 * (density(0) + density(t) + inner)

    low, high = 0.0, 100.0
    while high - low > 1e-6:
        middle = (low + high) / 2
        low, high = (middle, high) if within(middle) < 0.95 else (low, middle)
    return low


def welch(a, b):
    """Ratio of medians, whose variance is that of a mean times an excess (tests/reference/report.py)."""
    logs = [[math.log(x) for x in side] for side in (a, b)]
    excess = lambda n: 1 if n < 3 else math.pi / 2 * (1 - 0.434 / n)
    variances = [statistics.variance(side) * excess(len(side)) / len(side) for side in logs]
    degrees = sum(variances) ** 2 / sum(v * v / (len(side) - 1) for v, side in zip(variances, logs))
    half = t_quantile(max(1, degrees)) * math.sqrt(sum(variances))
    ratio = statistics.median(a) / statistics.median(b)
    return ratio, ratio * math.exp(-half), ratio * math.exp(half)


class Content(PageCase):
    def test_asks_for_nothing_but_itself(self):
        self.assertEqual(
            [url for url in self.browser.requests if not url.startswith(("file:", "data:", "blob:"))], []
        )
        self.assertEqual(len([url for url in self.browser.requests if url.startswith("file:")]), 1)

    def test_counts_every_result_and_names_what_it_skipped(self):
        status = collections.Counter(row["status"] for row in self.rows)
        self.assertIn(
            f"{len(self.rows):,} measurements: {status['valid']:,} valid, {status['invalid']:,} invalid, "
            f"{status['failed']:,} failed.",
            self.texts("#summary")[0],
        )
        self.assertIn("2 files skipped", self.texts("#summary")[0])
        skipped = " ".join(self.texts("#skipped li"))
        self.assertIn("cut.json", skipped)
        self.assertIn("foreign.json", skipped)

    def test_says_that_simulated_results_are_no_evidence(self):
        self.assertIn(
            f"{len(self.rows):,} of {len(self.rows):,} measurements come from the simulated backend",
            self.texts("#simulated")[0],
        )
        self.assertTrue(self.js("document.getElementById('simulated').checkVisibility()"))

    def test_hostile_texts_stay_texts(self):
        self.all_answers()
        self.assertIsNone(self.js("window.broken ?? null"))
        self.assertEqual(self.js("document.querySelectorAll('script').length"), 2)
        self.assertEqual(self.js("document.querySelectorAll('main b').length"), 0)
        self.assertIn(HOSTILE, self.texts("#failure-groups pre"))
        self.assertTrue(any(HOSTILE in text for text in self.texts("#answer-table tbody th")))

    def all_answers(self):
        self.js("document.querySelector('#answer-table .button-row button')?.click()")

    def cheapest(self, usd_per_hour):
        """Name of an answer -> the least cost of its configurations on devices with a price."""
        best = {}
        for row in self.valid:
            if row["gpu_model"] in usd_per_hour:
                name = f"{row['model_name']} · {row['tuning']} · {row['model_max_length']} tokens"
                cost = usd_per_hour[row["gpu_model"]] * row["number_gpus"] / (row["rate"] * 3600) * 1e6
                best.setdefault(name, collections.defaultdict(list))[row["key"]].append(cost)
        return {name: min(statistics.median(costs) for costs in keys.values()) for name, keys in best.items()}

    def assert_costs(self, usd_per_hour):
        self.all_answers()
        shown = self.js(
            """[...document.querySelectorAll('#answer-table tbody tr')].filter(tr => tr.querySelector('strong'))
            .map(tr => [tr.cells[0].textContent, Number(tr.querySelector('strong').textContent)])"""
        )
        expected = self.cheapest(usd_per_hour)
        self.assertEqual({name for name, _ in shown}, set(expected))
        for name, cost in shown:
            self.assertAlmostEqual(cost, expected[name], delta=0.006 * expected[name], msg=name)

    def enter_price(self, device, price):
        self.js(
            f"""(input => {{ input.value = {json.dumps(price)}; input.dispatchEvent(new Event('change', {{bubbles: true}})); }})(
            document.querySelector('[data-device="{device}"]'))"""
        )

    def test_the_cheapest_configuration_of_each_model_and_length(self):
        self.assert_costs(USD_PER_HOUR)

    def test_a_price_that_is_entered_counts_at_once(self):
        self.enter_price("NVIDIA-H100-80GB-HBM3", "")
        self.enter_price("L40S", "")
        self.assert_costs({"NVIDIA-A100-SXM4-80GB": USD_PER_HOUR["NVIDIA-A100-SXM4-80GB"]})
        self.enter_price("L40S", "2")
        self.assert_costs({"NVIDIA-A100-SXM4-80GB": USD_PER_HOUR["NVIDIA-A100-SXM4-80GB"], "L40S": 2})

    def test_an_answer_stands_before_every_filter_and_control(self):
        leads = self.texts("#answer-lead .lead")
        self.assertEqual(len(leads), 3)
        for lead in leads:
            self.assertIn("USD per million dataset tokens", lead)
            self.assertRegex(lead, "n = [13]")
            self.assertRegex(lead, "separable|noise unknown")
        self.assertTrue(
            self.js(
                """document.getElementById('answer-lead').compareDocumentPosition(
                document.getElementById('filters')) === Node.DOCUMENT_POSITION_FOLLOWING"""
            )
        )

    def test_a_lead_that_is_not_more_than_noise_is_not_separable(self):
        """Configurations that ran three times each, against Welch's interval worked out here."""
        for column, value in (
            ("input.gpu_model", "NVIDIA-A100-SXM4-80GB"),
            ("input.number_gpus", "8"),
            ("outcome.experiment", "finetune_full_benchmark-v1.0.0"),
        ):
            self.choose_value(column, value)
        self.all_answers()
        shown = self.js(
            """[...document.querySelectorAll('#answer-table tbody tr')].filter(tr => tr.querySelector('.verdict')).map(
            tr => [tr.cells[0].textContent, tr.querySelector('.verdict').textContent])"""
        )
        seen = collections.Counter()
        for name, verdict in shown:
            sides = collections.defaultdict(list)
            for row in self.valid:
                of = f"{row['model_name']} · full · {row['model_max_length']} tokens"
                if (of, row["devices"], row["tuning"]) == (name, "8 × NVIDIA-A100-SXM4-80GB", "full"):
                    sides[row["key"]].append(row["rate"])
            ranked = sorted(sides.values(), key=statistics.median, reverse=True)
            if len(ranked) < 2 or len(ranked[0]) != 3 or len(ranked[1]) != 3:
                continue
            ratio, low, high = welch(ranked[0], ranked[1])
            self.assertEqual(verdict.endswith("): separable"), low > 1, f"{name}: {verdict}")
            numbers = [float(text) for text in re.findall(r"[0-9.]+(?=[ )])", verdict)]
            for number, expected in zip(numbers, (ratio, low, high)):
                self.assertAlmostEqual(number, expected, delta=0.006 * expected)
            seen[low > 1] += 1
        self.assertGreater(seen[True], 0)
        self.assertGreater(seen[False], 0)

    def test_failures_by_reason(self):
        expected = collections.Counter((row["reason"], row["status"]) for row in self.rows if row["reason"])
        shown = self.texts("#failure-groups h3")
        self.assertEqual(
            sorted(shown),
            sorted(
                f"{code} {status}, {count:,} measurement{'s' * (count > 1)}"
                for (code, status), count in expected.items()
            ),
        )

    def test_columns_with_one_value_are_folded_away(self):
        self.assertIn("optim", self.texts("#constants td:nth-child(2)"))
        self.assertNotIn(
            "input.optim",
            self.js("[...document.querySelectorAll('#grid [data-sort]')].map(e => e.dataset.sort)"),
        )


class Filters(PageCase):
    def test_a_value_filters_the_whole_page(self):
        self.choose_value("input.model_name", "llama3.1-8b")
        expected = [row for row in self.rows if row["model_name"] == "llama3.1-8b"]
        self.assertEqual(self.shown(), f"{len(expected):,} of {len(self.rows):,} measurements")
        self.assertEqual(set(self.column("input.model_name")), {"llama3.1-8b"})
        self.assertEqual(
            set(self.texts("#chart-batch figcaption")) - {"llama3.1-8b · full", "llama3.1-8b · lora"}, set()
        )
        self.click(".chip")
        self.assertEqual(self.shown(), f"{len(self.rows):,} measurements")

    def test_filters_combine_and_a_range_leaves_out_rows_without_the_figure(self):
        self.choose_value("input.number_gpus", "8")
        self.js(
            "(s => { s.value = 'measured.dataset_tokens_per_second'; s.dispatchEvent(new Event('change')); })("
            "document.querySelector('#filters > select'))"
        )
        self.js("document.querySelector('#dialog [aria-label=From]').value = 100000")
        self.click("#dialog button[type=submit]")
        expected = [row for row in self.valid if row["number_gpus"] == 8 and row["rate"] >= 100000]
        self.assertEqual(self.shown(), f"{len(expected):,} of {len(self.rows):,} measurements")

    def test_search_finds_texts_in_any_column(self):
        self.search("sigsegv")
        self.assertTrue(self.shown().endswith(f" of {len(self.rows):,} measurements"))
        self.assertEqual(set(self.column("outcome.reason")), {"INTERNAL"})

    def test_nothing_that_passes_is_no_error(self):
        self.search("no such text")
        self.assertEqual(self.shown(), f"0 of {len(self.rows):,} measurements")


class Table(PageCase):
    def test_sorts_both_ways_with_missing_figures_last(self):
        key = '[data-sort="measured.dataset_tokens_per_second"]'
        self.click('[data-sort="input.batch_size"]')
        self.assertEqual(self.column("input.batch_size")[0], "1")
        self.click(key)
        rates = sorted((row["rate"] for row in self.valid), reverse=True)
        column = [float(text) for text in self.column("measured.dataset_tokens_per_second")]
        for shown, rate in zip(column, rates):
            self.assertAlmostEqual(shown, rate, delta=1e-5 * rate)
        self.click(key)
        column = [float(text) for text in self.column("measured.dataset_tokens_per_second")]
        for shown, rate in zip(column, reversed(rates)):
            self.assertAlmostEqual(shown, rate, delta=1e-5 * rate)
        self.assertEqual(self.js(f"document.querySelector('{key}').closest('th').ariaSort"), "ascending")
        self.js("document.querySelector('#grid table').focus()")
        self.browser.key("End")
        self.assertEqual(set(self.column("measured.dataset_tokens_per_second")), {""})

    def test_draws_only_the_rows_in_sight_and_reaches_the_last(self):
        self.js("document.querySelector('#grid table').focus()")
        self.browser.key("End")
        self.assertLess(self.js("document.querySelectorAll('#grid tbody tr').length"), 120)
        self.assertEqual(
            self.js("document.querySelector('#grid [aria-selected=true]').ariaRowIndex"),
            str(len(self.rows) + 1),
        )
        self.browser.key("Home")
        self.browser.key("ArrowDown")
        self.assertEqual(self.js("document.querySelector('#grid [aria-selected=true]').ariaRowIndex"), "3")

    def test_enter_opens_a_measurement_with_its_command(self):
        self.js("document.querySelector('#grid table').focus()")
        for key in ("Home", "ArrowDown", "Enter"):  # the first row is a hostile one
            self.browser.key(key)
        self.assertTrue(self.js("document.getElementById('dialog').open"))
        self.assertIn("sftbench run --backend simulate", self.texts("#dialog pre")[0])
        names, values = self.texts("#dialog dt"), self.texts("#dialog dd")
        self.assertEqual(len(names), len(values))
        details = dict(zip(names, values))
        self.assertEqual((details["status"], details["optim"]), ("valid", "adamw_torch"))
        self.assertEqual(details["model_name"], self.column("input.model_name")[1])
        self.browser.key("Escape")
        self.assertFalse(self.js("document.getElementById('dialog').open"))


class Charts(PageCase):
    def panels(self, chart):
        """Panel name -> accessible names of its marks, after all panels are drawn."""
        self.js(f"document.querySelector('#{chart} .button-row button')?.click()")
        return self.js(
            f"""Object.fromEntries([...document.querySelectorAll('#{chart} figure')].map(
            figure => [figure.dataset.panel, [...figure.querySelectorAll('.mark')].map(mark => mark.getAttribute('aria-label'))]))"""
        )

    def expected_marks(self, rows):
        groups = collections.defaultdict(set)
        for row in rows:
            groups[f"{row['model_name']} · {row['tuning']}"].add(
                (row["batch_size"], row["model_max_length"])
            )
        return {name: len(cells) for name, cells in groups.items()}

    def test_throughput_has_a_mark_for_every_batch_size_and_length_of_a_model(self):
        expected = self.expected_marks(row for row in self.valid if row["devices"] == self.devices)
        for chart in ("chart-batch", "chart-length"):
            self.assertEqual({name: len(marks) for name, marks in self.panels(chart).items()}, expected)

    def test_the_memory_map_has_a_cell_for_every_pair_and_says_where_memory_ran_out(self):
        rows = [row for row in self.rows if row["devices"] == self.devices]
        panels = self.panels("chart-memory")
        self.assertEqual({name: len(marks) for name, marks in panels.items()}, self.expected_marks(rows))
        out = {
            (r["model_name"], r["tuning"], r["batch_size"], r["model_max_length"])
            for r in rows
            if r["reason"] == "OOM_GPU"
        }
        shown = sum(", 0 out of memory" not in label for marks in panels.values() for label in marks)
        self.assertEqual(shown, len(out))

    def test_the_front_is_what_nothing_beats_in_both(self):
        front = 0
        configurations = collections.defaultdict(list)
        for row in self.valid:
            configurations[row["key"]].append(row)
        medians = [
            {**repeats[0], **{name: statistics.median(row[name] for row in repeats) for name in ("rate", "gib")}}
            for repeats in configurations.values()
        ]
        for model in {row["model_name"] for row in self.valid}:
            rows = [row for row in medians if row["model_name"] == model]
            front += sum(
                not any(
                    o["gib"] <= r["gib"]
                    and o["rate"] >= r["rate"]
                    and (o["gib"] < r["gib"] or o["rate"] > r["rate"])
                    for o in rows
                )
                for r in rows
            )
        self.assertEqual(self.js("document.querySelectorAll('#chart-pareto .mark').length"), front)
        pooled = self.js("document.querySelectorAll('#chart-pareto .pooled').length")
        self.assertIn(
            f"{len(medians):,} configurations, by the medians of repeats, as {front + pooled:,} marks: "
            f"{front:,} configurations on a front",
            self.texts("#pareto-note")[0],
        )

    def test_marks_are_reached_and_opened_by_keyboard(self):
        self.js("document.querySelector('#chart-batch .mark').focus()")
        self.browser.key("ArrowRight")
        self.assertFalse(self.js("document.getElementById('tooltip').hidden"))
        focused = self.js("document.activeElement.getAttribute('aria-label')")
        self.assertEqual(
            focused,
            self.js("document.querySelectorAll('#chart-batch .mark')[1].getAttribute('aria-label')"),
        )
        self.assertIn("batch_size (samples)", focused)
        self.browser.key("Enter")
        behind = self.js("document.querySelectorAll('#chart-batch .mark')[1].rows.length")
        self.assertIn(f"The {behind} measurement", self.texts("#table-note")[0])
        self.assertEqual(self.js("document.querySelectorAll('#grid tbody tr[data-row]').length"), behind)

    def test_every_chart_has_a_table_with_as_many_rows_as_marks(self):
        for chart in (
            "chart-batch",
            "chart-memory",
            "chart-pareto",
            "chart-scaling",
            "chart-tokens",
            "chart-cost",
            "chart-effects",
        ):
            self.js(f"document.querySelector('#{chart} .alternative').open = true")
            time.sleep(0.1)
            self.assertEqual(
                self.js(
                    f"document.querySelectorAll('#{chart} figure:first-of-type .alternative tbody tr').length"
                ),
                self.js(f"document.querySelectorAll('#{chart} figure:first-of-type .mark').length"),
                chart,
            )

    def test_scaling_is_the_rate_beside_that_on_the_fewest_gpus(self):
        rates = collections.defaultdict(lambda: collections.defaultdict(list))
        for row in self.valid:
            same = [row[name] for name in ("model_name", "tuning", "gpu_model", "model_max_length", "torch_dtype",
                    "gradient_checkpointing", "dataset_id", "gradient_accumulation_steps")]
            rates[(*same, row["batch_size"] / row["number_gpus"])][row["number_gpus"]].append(row["rate"])
        expected = collections.defaultdict(list)
        for (model, tuning, gpu, length, *_), by_gpus in rates.items():
            if len(by_gpus) < 2:
                continue
            fewest = min(by_gpus)
            base = statistics.median(by_gpus[fewest]) / fewest
            for gpus, values in by_gpus.items():
                panel = f"{model} · {tuning} · {gpu}"
                expected[(panel, gpus, length)].append(statistics.median(values) / base)
        shown = self.panels("chart-scaling")
        self.assertEqual(sum(len(marks) for marks in shown.values()), len(expected))
        for panel, marks in shown.items():
            for label in marks:
                gpus, speedup = re.match(r"(\d+) GPUs: ([0-9.]+) times one", label).groups()
                length = re.search(r"model_max_length (\d+)", label).group(1)
                value = statistics.median(expected[(panel, int(gpus), int(length))])
                self.assertAlmostEqual(float(speedup), value, delta=0.006 * value, msg=f"{panel} {label}")

    def test_the_effect_of_an_input_is_over_pairs_that_differ_in_it_alone(self):
        rates = collections.defaultdict(lambda: collections.defaultdict(list))
        for row in self.valid:
            left_out = ("gpu_model", "status", "reason", "key", "devices", "rate", "gib")
            same = tuple((name, str(row[name])) for name in sorted(row) if name not in left_out)
            rates[same][row["gpu_model"]].append(row["rate"])
        labels = self.panels("chart-effects")["gpu_model"]
        self.assertEqual(len(labels), 2)
        for label in labels:
            found = re.match(
                r"gpu_model (\S+) beside (\S+): (\S+) times; 95 %: (\S+) to ([0-9.]+).*; ([0-9,]+) pairs", label
            )
            value, base = found.group(1), found.group(2)
            logs = [
                math.log(statistics.median(by[value]) / statistics.median(by[base]))
                for by in rates.values()
                if value in by and base in by
            ]
            self.assertEqual(found.group(6), f"{len(logs):,}")
            ratio = math.exp(statistics.mean(logs))
            half = t_quantile(len(logs) - 1) * statistics.stdev(logs) / math.sqrt(len(logs))
            for number, expected in zip(found.groups()[2:5], (ratio, ratio * math.exp(-half), ratio * math.exp(half))):
                self.assertAlmostEqual(float(number), expected, delta=0.006 * expected, msg=label)

    def test_the_memory_map_knows_the_device_and_draws_where_memory_ends(self):
        devices = "1 × NVIDIA-A100-SXM4-80GB"
        self.js(
            f"(s => {{ s.value = {json.dumps(devices)}; s.dispatchEvent(new Event('change')); }})("
            "document.querySelector('#memory-controls select'))"
        )
        self.assertIn("Colors reach from 0 to 80 GiB, the memory of the device", self.texts("#memory-note")[0])
        cells = collections.defaultdict(lambda: collections.defaultdict(list))
        for row in self.rows:
            if row["devices"] == devices:
                panel = (row["model_name"], row["tuning"])
                cells[panel][row["batch_size"], row["model_max_length"]].append(row)
        expected = 0
        for grid in cells.values():
            batches, lengths = (sorted({place[i] for place in grid}) for i in (0, 1))
            fits = {place for place, rows in grid.items() if any(row["gib"] > 0 for row in rows)}
            dies = {p for p, rows in grid.items() if p not in fits and any(r["reason"] == "OOM_GPU" for r in rows)}
            for batch, length in fits:
                following = [(b, length) for b in batches if b > batch][:1] + [(batch, n) for n in lengths if n > length][:1]
                expected += sum(place in dies for place in following)
        self.panels("chart-memory")
        self.assertGreater(expected, 0)
        self.assertEqual(self.js("document.querySelectorAll('#chart-memory .edge').length"), expected)

    def test_repeats_show_their_spread(self):
        repeated = {row["key"] for row in self.valid}
        many = [key for key, n in collections.Counter(row["key"] for row in self.valid).items() if n == 3]
        self.assertGreater(len(many), 0)
        self.assertGreater(len(repeated), len(many))
        self.js(
            "(s => { s.value = '8 × NVIDIA-A100-SXM4-80GB'; s.dispatchEvent(new Event('change')); })("
            "document.querySelectorAll('#throughput-controls select')[1])"
        )
        self.panels("chart-batch")
        expected = {
            key
            for key in many
            if any(r["key"] == key and r["devices"] == "8 × NVIDIA-A100-SXM4-80GB" for r in self.valid)
        }
        self.assertEqual(
            self.js("document.querySelectorAll('#chart-batch .whisker').length"), len(expected)
        )


class Looks(PageCase):
    def test_charts_use_the_width(self):
        self.browser.open(self.page, width=1400)
        self.choose_value("input.model_name", "llama3.1-8b")
        self.choose_value("outcome.experiment", "finetune_full_benchmark-v1.0.0")
        for chart in ("chart-batch", "chart-memory", "chart-pareto", "chart-cost"):
            right = self.js(
                f"Math.max(...[...document.querySelectorAll('#{chart} svg')].map(e => e.getBoundingClientRect().right))"
            )
            self.assertGreater(right, 1300, chart)
            # A text of the chart is as large as it is meant to be, however wide the panel is.
            scale = self.js(
                f"(e => e.getBoundingClientRect().width / e.viewBox.baseVal.width)(document.querySelector('#{chart} svg'))"
            )
            self.assertAlmostEqual(scale, 1, delta=0.1, msg=chart)

    def test_the_answer_is_in_sight_on_a_phone(self):
        self.browser.open(self.page, width=420)
        for selector in ("#answer-lead .lead", "#answer-table td.wrap", "#answer-table .verdict", "#chart-batch svg"):
            box = self.js(
                f"(e => [e.left, e.right])(document.querySelector({json.dumps(selector)}).getBoundingClientRect())"
            )
            self.assertGreaterEqual(box[0], 0, selector)
            self.assertLessEqual(box[1], 420, selector)
        scale = self.js(
            "(e => e.getBoundingClientRect().width / e.viewBox.baseVal.width)(document.querySelector('#chart-batch svg'))"
        )
        self.assertGreater(scale, 0.9)

    def test_fits_two_widths_without_scrolling_sideways(self):
        for width in (1400, 1280, 1200, 420, 400):
            for dark in (False, True):
                self.browser.open(self.page, width=width, dark=dark)
                self.assertLessEqual(self.js("document.documentElement.scrollWidth"), width)

    def test_no_column_of_the_answers_is_cut(self):
        for width in (1200, 1400):
            self.browser.open(self.page, width=width)
            self.js("document.querySelector('#answer-table .button-row button')?.click()")
            inside, shown = self.js("(e => [e.scrollWidth, e.clientWidth])(document.querySelector('#answer-table'))")
            self.assertLessEqual(inside, shown, width)

    def test_follows_the_system_until_asked_otherwise(self):
        colors = []
        for dark in (False, True):
            self.browser.open(self.page, dark=dark)
            colors.append(self.js("getComputedStyle(document.body).backgroundColor"))
        self.assertNotEqual(*colors)
        self.click("#theme")
        self.assertEqual(self.js("getComputedStyle(document.body).backgroundColor"), colors[0])

    def test_print_has_light_colors_and_no_controls(self):
        self.browser.open(self.page, dark=True)
        self.browser.call("Emulation.setEmulatedMedia", media="print")
        self.assertEqual(self.js("getComputedStyle(document.body).backgroundColor"), "rgb(255, 255, 255)")
        self.assertFalse(self.js("document.querySelector('#throughput-controls').checkVisibility()"))
        for selector in ("#chart-batch svg", "#answer-lead .lead", "#answer-table .verdict", "#chart-effects svg"):
            self.assertTrue(self.js(f"document.querySelector('{selector}').checkVisibility()"), selector)
        self.browser.call("Emulation.setEmulatedMedia", media="")


class Corners(unittest.TestCase):
    def opened(self, *options):
        with tempfile.TemporaryDirectory(prefix="sftbench-check-") as folder, Browser() as browser:
            results = pathlib.Path(folder) / "results"
            results.mkdir()
            if options:
                make_results(results, *options)
            write_page(results, pathlib.Path(folder) / "report.html")
            browser.open(pathlib.Path(folder) / "report.html")
            self.assertEqual(browser.errors, [])
            return browser.evaluate("document.getElementById('summary').textContent")

    def test_a_folder_without_results(self):
        self.assertIn("0 measurements", self.opened())

    def test_one_result(self):
        self.assertIn("1 measurement:", self.opened("--count", "1"))

    @unittest.skipUnless(os.environ.get("SFTBENCH_PAGE_LARGE"), "takes minutes: set SFTBENCH_PAGE_LARGE=1")
    def test_a_hundred_thousand_results(self):
        with tempfile.TemporaryDirectory(prefix="sftbench-check-") as folder, Browser() as browser:
            page = pathlib.Path(folder) / "report.html"
            make_results(pathlib.Path(folder) / "results", "--count", "100000")
            begin = time.monotonic()
            write_page(pathlib.Path(folder) / "results", page)
            written_s = time.monotonic() - begin
            ready_s = browser.open(page)
            filter_ms = browser.evaluate("""(() => {
                const begin = performance.now();
                const input = document.querySelector('[data-device="L40S"]');
                input.value = 1.5;
                input.dispatchEvent(new Event('change', {bubbles: true}));
                return performance.now() - begin;
            })()""")
            size_mb = page.stat().st_size / 1e6
            print(
                f"100,000 results: written in {written_s:.1f} s, {size_mb:.1f} MB, drawn in {ready_s:.1f} s, "
                f"drawn again in {filter_ms:.0f} ms",
                file=sys.stderr,
            )
            self.assertEqual(browser.errors, [])
            self.assertLess(written_s, 10)
            self.assertLess(size_mb, 40)
            self.assertLess(ready_s, 10)


if __name__ == "__main__":
    unittest.main()
