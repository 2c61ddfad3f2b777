"""The form that asks for the cheapest and the fastest run of the reader's own data, against the result files."""

import collections
import json
import operator
import pathlib
import re
import statistics
import tempfile
import unittest

from browser import Browser
from make_results import GPUS
from page_case import GIB, USD_PER_HOUR, PageCase, make_results, read_documents, write_page

ENTRIES = 50_000  # what the form has before anybody typed


def read_repeats(folder):
    """Key of a configuration -> its results."""
    repeats = collections.defaultdict(list)
    for path, document in read_documents(folder):
        repeats[path.name.split(".")[0]].append(document)
    return repeats


def tuning_of(document):
    return document["experiment"].split("_")[1]


def watts_of(document):
    """Of the measured steps: the counters ran in the warm-up steps, too."""
    extra = document["extra"]
    steps = len(extra["step_seconds"])
    joules = sum(extra["gpu_energy_joules"]) * (steps - extra["warmup_steps"]) / steps
    return joules / document["measured"]["train_runtime"]


class Run:
    """What a configuration takes for `units` of what `rate` counts, by hand."""

    def __init__(self, key, repeats, units, rate="dataset_tokens_per_second", usd_per_hour=USD_PER_HOUR):
        inputs = repeats[0]["inputs"]
        median = lambda figure: statistics.median(figure(document) for document in repeats)
        self.key, self.count, self.inputs = key, len(repeats), inputs
        self.hours = units / median(lambda d: d["measured"][rate]) / 3600
        price = usd_per_hour.get(inputs["gpu_model"])
        self.usd = None if price is None else self.hours * price * inputs["number_gpus"]
        self.kwh = self.hours * median(watts_of) / 1000
        self.gib = median(lambda d: max(d["extra"]["memory_bytes"]["device_peak_reserved"])) / GIB
        self.percent = 100 * self.gib / GPUS[inputs["gpu_model"]][1]


def front_of(runs):
    """Those with a price that no other one beats in both time and cost, the fastest first."""
    priced = [run for run in runs if run.usd is not None]
    return sorted(
        (r for r in priced if not any(o.hours <= r.hours and o.usd <= r.usd and o is not r for o in priced)),
        key=lambda run: run.hours,
    )


class PlanCase(PageCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.documents = read_repeats(cls.page.parent / "results")

    def default_choice(self, passes=lambda inputs: True):
        """Model, way to tune and length with the most valid measurements, each among what the one before left."""
        chosen = []
        of = [lambda d: d["inputs"]["model_name"], tuning_of, lambda d: d["inputs"]["model_max_length"]]
        for i, value in enumerate(of):
            counts = collections.Counter(
                value(d)
                for repeats in self.documents.values()
                for d in repeats
                if d["status"] == "valid" and passes(d["inputs"]) and [f(d) for f in of[:i]] == chosen
            )
            chosen.append(min(counts, key=lambda name: (-counts[name], name)))
        return tuple(chosen)

    def configurations(self, choice, passes=lambda inputs: True):
        """Key -> results. A length of None is any."""
        model, tuning, length = choice
        return {
            key: repeats
            for key, repeats in self.documents.items()
            if repeats[0]["inputs"]["model_name"] == model
            and tuning_of(repeats[0]) == tuning
            and length in (None, repeats[0]["inputs"]["model_max_length"])
            and passes(repeats[0]["inputs"])
        }

    def runs(self, configurations, units, **options):
        """`units` is a number, or a function of the inputs."""
        return [
            Run(key, valid, units(valid[0]["inputs"]) if callable(units) else units, **options)
            for key, repeats in configurations.items()
            if (valid := [d for d in repeats if d["status"] == "valid"])
        ]

    def type(self, name, text):
        self.js(
            f"""(e => {{ e.value = {json.dumps(text)}; e.dispatchEvent(new Event('input', {{bubbles: true}})); }})(
                document.getElementById('plan-{name}'))"""
        )

    def choose(self, selector, value):
        self.js(
            f"""(e => {{ e.value = {json.dumps(value)}; e.dispatchEvent(new Event('change')); }})(
                document.querySelector({json.dumps(selector)}))"""
        )

    def enter_price(self, device, price):
        self.js(
            f"""(e => {{ e.value = {json.dumps(price)}; e.dispatchEvent(new Event('change', {{bubbles: true}})); }})(
                document.querySelector('[data-device="{device}"]'))"""
        )

    def said(self):
        return self.texts("#plan-answer")[0]

    def ruled_out(self):
        """Reason -> how many, as the page says it."""
        found = re.findall(r"([0-9,]+) ((?:[a-zA-Z][^,.]*|, so)+)", self.texts("#plan-ruled-out")[0])
        return {reason: int(count.replace(",", "")) for count, reason in found}

    def leads(self):
        return {
            name: text
            for name, text in self.js(
                "[...document.querySelectorAll('[data-plan]')].map(e => [e.dataset.plan, e.textContent])"
            )
        }

    def front(self):
        return self.js("[...document.querySelectorAll('#plan-table tbody tr')].map(e => e.dataset.key.split('/').at(-1))")

    def assert_number(self, text, expected, message):
        self.assertAlmostEqual(float(text), expected, delta=0.006 * expected, msg=message)

    def assert_lead(self, text, run):
        found = re.search(r"([0-9.]+) h, ([0-9.]+) USD(.*)GPU energy ([0-9.]+) kWh\. Peak memory ([0-9.]+) GiB, "
                          r"([0-9.]+) % of the device\. n = (\d+)\.", text)
        self.assertIsNotNone(found, text)
        hours, usd, configuration, kwh, gib, percent, count = found.groups()
        for shown, expected in ((hours, run.hours), (usd, run.usd), (kwh, run.kwh), (gib, run.gib),
                                (percent, run.percent)):
            self.assert_number(shown, expected, text)
        self.assertEqual(int(count), run.count)
        self.assertIn(f"batch_size {run.inputs['batch_size']}", configuration)
        self.assertTrue(configuration.endswith(f"on {run.inputs['number_gpus']} × {run.inputs['gpu_model']}"), text)

    def assert_answers(self, kept, total):
        """The page's answers are the best of `kept`, out of `total` configurations."""
        self.assertGreater(len(kept), 1)
        self.assertRegex(self.said(), rf"tokens to train\. {len(kept)} of {total} configurations train them")
        cheapest = min((run for run in kept if run.usd is not None), key=lambda run: run.usd)
        fastest = min(kept, key=lambda run: run.hours)
        leads = self.leads()
        if cheapest is fastest:
            self.assertEqual(list(leads), ["cheapest and fastest"])
            self.assert_lead(leads["cheapest and fastest"], cheapest)
        else:
            self.assertEqual(list(leads), ["cheapest", "fastest"])
            self.assert_lead(leads["cheapest"], cheapest)
            self.assert_lead(leads["fastest"], fastest)
        self.assertEqual(self.front(), [run.key for run in front_of(kept)])
        self.assertTrue(self.js("document.getElementById('plan-front').checkVisibility()"))


class Plan(PlanCase):
    def setUp(self):
        super().setUp()
        self.choice = self.default_choice()
        self.all = self.configurations(self.choice)
        self.fits = self.runs(self.all, ENTRIES * self.choice[2])

    def test_the_default_answer_is_that_of_the_result_files(self):
        self.assertEqual(
            [self.js(f"document.getElementById('plan-{name}').selectedOptions[0].textContent")
             for name in ("model", "tuning", "length")],
            [self.choice[0], self.choice[1], f"{self.choice[2]} tokens"],
        )
        self.assertTrue(self.said().startswith(f"50,000 entries × {self.choice[2]} tokens × 1 epoch = 25.6M tokens"))
        self.assert_answers(self.fits, len(self.all))
        self.assertGreater(len(self.front()), 2)
        rows = self.js("[...document.querySelectorAll('#plan-table tbody tr')].map(tr => [...tr.cells].map(td => td.textContent))")
        for row, run in zip(rows, front_of(self.fits)):
            for shown, expected in zip(row[1:4], (run.hours, run.usd, run.kwh)):
                self.assert_number(shown, expected, row)
        reasons = collections.Counter(
            "out" if any((d["reason"] or {}).get("code") == "OOM_GPU" for d in repeats) else "other"
            for repeats in self.all.values()
            if all(d["status"] != "valid" for d in repeats)
        )
        self.assertEqual(self.ruled_out(), {"are invalid or failed": reasons["other"]})
        self.assertEqual(reasons["out"], 0)

    def test_a_choice_asks_for_another_model_way_and_length(self):
        self.choose("#plan-model", "llama3.1-8b")
        self.choose("#plan-tuning", "finetune_full_benchmark-v1.0.0")
        self.choose("#plan-length", "8192")
        everything = self.configurations(("llama3.1-8b", "full", 8192))
        self.assert_answers(self.runs(everything, ENTRIES * 8192), len(everything))
        out = sum(
            any((d["reason"] or {}).get("code") == "OOM_GPU" for d in repeats) for repeats in everything.values()
        )
        self.assertGreater(out, 1)
        self.assertEqual(self.ruled_out()["ran out of memory"], out)

    def test_work_is_entries_times_tokens_times_epochs(self):
        self.type("entries", "2e5")
        self.type("tokens", "300.5")
        self.type("epochs", "3")
        self.assert_answers(self.runs(self.all, 2e5 * 300.5 * 3), len(self.all))

    def test_a_configuration_that_would_cut_entries_off_is_ruled_out(self):
        self.choose("#plan-length", "any")
        self.type("tokens", "2048")
        everything = self.configurations((*self.choice[:2], None))
        runs = self.runs(everything, ENTRIES * 2048)
        kept = [run for run in runs if run.inputs["model_max_length"] >= 2048]
        self.assert_answers(kept, len(everything))
        self.assertEqual(
            self.ruled_out()["have a sequence length below the tokens of an entry"], len(runs) - len(kept)
        )
        self.type("tokens", "8193")
        self.assertIn("No configuration trained such entries.", self.said())
        self.assertEqual(self.leads(), {})

    def test_a_deadline_rules_out_what_ends_after_it(self):
        deadline = min(self.fits, key=lambda run: run.usd).hours * 0.999
        self.type("hours", f"{deadline:.9f}")
        kept = [run for run in self.fits if run.hours <= deadline]
        self.assert_answers(kept, len(self.all))
        self.assertEqual(self.ruled_out()["end after the deadline"], len(self.fits) - len(kept))
        self.assertNotIn("several reasons", self.texts("#plan-ruled-out")[0])

    def test_a_budget_rules_out_what_costs_more_or_has_no_price(self):
        self.enter_price("NVIDIA-A100-SXM4-80GB", "")
        prices = {gpu: usd for gpu, usd in USD_PER_HOUR.items() if gpu != "NVIDIA-A100-SXM4-80GB"}
        runs = self.runs(self.all, ENTRIES * self.choice[2], usd_per_hour=prices)
        self.assertNotIn("price", self.texts("#plan-ruled-out")[0])
        budget = min((run for run in runs if run.usd is not None), key=lambda run: run.hours).usd * 0.999
        self.type("usd", f"{budget:.9f}")
        kept = [run for run in runs if run.usd is not None and run.usd <= budget]
        self.assert_answers(kept, len(self.all))
        reasons = self.ruled_out()
        unpriced = sum(run.usd is None for run in runs)
        self.assertIn(f"{unpriced} have no price, so the budget cannot be kept", self.texts("#plan-ruled-out")[0])
        self.assertEqual(reasons["cost more than the budget"], len(runs) - unpriced - len(kept))
        self.type("hours", "0.05")
        self.assertIn("Some for several reasons.", self.texts("#plan-ruled-out")[0])

    def test_a_limit_on_memory_rules_out_what_needs_more_of_the_device(self):
        self.type("memory", "20")
        kept = [run for run in self.fits if run.percent <= 20]
        self.assertLess(len(kept), len(self.fits))
        self.assert_answers(kept, len(self.all))
        self.assertEqual(self.ruled_out()["need more of the memory"], len(self.fits) - len(kept))

    def test_where_nothing_keeps_the_limits_the_nearest_are_named(self):
        self.type("hours", "0.001")
        self.type("usd", "0.002")
        fastest = min(self.fits, key=lambda run: run.hours)
        cheapest = min(self.fits, key=lambda run: run.usd)
        self.assertGreater(fastest.hours, 0.001)
        self.assertIn("No configuration keeps the limits of 0.001 h and 0.002 USD.", self.said())
        leads = self.leads()
        self.assertEqual(list(leads), ["cheapest", "fastest"])
        for run, name in ((cheapest, "cheapest"), (fastest, "fastest")):
            self.assertTrue(leads[name].startswith(f"Nearest, the {name}"), leads[name])
            self.assert_lead(leads[name], run)
            hours, usd = re.search(rf"The {name} takes ([0-9.]+) h and costs ([0-9.]+) USD\.", self.said()).groups()
            self.assert_number(hours, run.hours, name)
            self.assert_number(usd, run.usd, name)
        self.assertFalse(self.js("document.getElementById('plan-front').checkVisibility()"))
        self.assertEqual(self.ruled_out()["end after the deadline"], len(self.fits))

    def test_wrong_input_is_named_and_changes_nothing_else(self):
        shown = "[...document.querySelectorAll('#plan-answer, #plan-leads, #plan-ruled-out, #plan-table')].map(e => e.innerHTML)"
        invalid = lambda name: self.js(f"document.getElementById('plan-{name}').ariaInvalid")
        self.type("hours", "0.2")
        before = self.js(shown)
        wrong = [("entries", "-3"), ("entries", ""), ("tokens", "many"), ("epochs", "0"), ("hours", "-1"), ("usd", "Infinity"),
                 ("memory", "101")]
        for name, text in wrong:
            right = self.js(f"document.getElementById('plan-{name}').value")
            self.assertEqual(invalid(name), "false")
            self.type(name, text)
            self.assertEqual(invalid(name), "true", (name, text))
            described = self.js(f"document.getElementById('plan-{name}').getAttribute('aria-describedby')")
            self.assertIn("needs a number above 0", self.texts(f"#{described}")[0])
            self.assertEqual(self.js(shown), before, (name, text))
            self.type(name, right)
            self.assertEqual((invalid(name), self.texts(f"#{described}")[0]), ("false", ""))
        # Another field still counts, with what was right before in the wrong one.
        self.type("hours", "soon")
        self.type("epochs", "2")
        runs = self.runs(self.all, 2 * ENTRIES * self.choice[2])
        self.assert_answers([run for run in runs if run.hours <= 0.2], len(self.all))

    def test_the_keyboard_fills_the_form_in(self):
        address = self.js("location.href")
        self.js("document.getElementById('plan-epochs').focus()")
        self.browser.key("Tab")
        self.assertEqual(self.js("document.activeElement.id"), "plan-hours")
        self.browser.call("Input.insertText", text="0.2")
        self.browser.key("Enter")
        self.assertEqual(self.js("location.href"), address)
        self.assert_answers([run for run in self.fits if run.hours <= 0.2], len(self.all))
        self.js("document.getElementById('plan-length').focus()")
        self.browser.key("ArrowDown")
        self.assertIn("× 1,024 tokens ×", self.said())
        for name in ("model", "tuning", "length", "entries", "tokens", "epochs", "hours", "usd", "memory"):
            self.assertGreater(len(self.js(f"document.getElementById('plan-{name}').labels[0].textContent")), 5, name)
        self.assertEqual(self.js("document.getElementById('plan-answer').ariaLive"), "polite")

    def test_the_filters_of_the_page_apply_and_repeats_count_by_their_median(self):
        self.choose_value("input.gpu_model", "NVIDIA-A100-SXM4-80GB")
        self.choose_value("input.number_gpus", "8")
        passes = lambda inputs: (inputs["gpu_model"], inputs["number_gpus"]) == ("NVIDIA-A100-SXM4-80GB", 8)
        choice = self.default_choice(passes)
        everything = self.configurations(choice, passes)
        runs = self.runs(everything, ENTRIES * choice[2])
        self.assertIn(3, {run.count for run in runs})
        self.assert_answers(runs, len(everything))
        self.assertIn("n = 3.", " ".join(self.leads().values()))
        # Deadlines between the median of three and what else one could take for it.
        for other in (*(operator.itemgetter(i) for i in range(3)), statistics.mean):
            def gap(run):
                rates = [d["measured"]["dataset_tokens_per_second"] for d in everything[run.key]]
                return run.hours * (statistics.median(rates) / other(rates) - 1)

            repeated = [run for run in sorted(runs, key=lambda run: run.hours)[3:] if run.count == 3]
            widest = max(repeated, key=lambda run: abs(gap(run)) / run.hours)
            self.assertGreater(abs(gap(widest)) / widest.hours, 1e-3)
            deadline = widest.hours + gap(widest) / 2
            self.type("hours", f"{deadline:.12f}")
            self.assert_answers([run for run in runs if run.hours <= deadline], len(everything))
        self.search("no such text")
        self.assertEqual(self.said(), "No measurement is shown.")

    def test_a_price_that_is_entered_counts(self):
        self.enter_price("L40S", "40")
        prices = {**USD_PER_HOUR, "L40S": 40}
        self.assert_answers(self.runs(self.all, ENTRIES * self.choice[2], usd_per_hour=prices), len(self.all))
        for gpu in USD_PER_HOUR:
            self.enter_price(gpu, "")
        self.assertEqual(list(self.leads()), ["fastest"])
        self.assertRegex(self.said(), r"The fastest takes [0-9.]+ h and has no price\.$")
        self.assertEqual(self.front(), [min(self.fits, key=lambda run: run.hours).key])

    def test_work_is_counted_as_the_rate_counts_it(self):
        rate = "#answer-controls label:first-child select"
        self.type("tokens", "300")
        self.type("epochs", "2")
        self.choose(rate, "train_samples_per_second")
        runs = self.runs(self.all, ENTRIES * 2, rate="train_samples_per_second")
        self.assert_answers(runs, len(self.all))
        self.choose("#plan-length", "any")
        everything = self.configurations((*self.choice[:2], None))
        padded = lambda inputs: ENTRIES * inputs["model_max_length"] * 2
        for name in ("train_tokens_per_second", "train_tokens_per_gpu_per_second"):
            self.choose(rate, name)
            self.assert_answers(self.runs(everything, padded, rate="train_tokens_per_second"), len(everything))
            self.assertIn("padded to the sequence length", self.texts("#plan-note")[0])
        self.choose(rate, "dataset_tokens_per_second_per_gpu")
        self.assert_answers(self.runs(everything, ENTRIES * 300 * 2), len(everything))

    def test_fits_a_phone_and_prints_its_answer(self):
        for dark in (False, True):
            self.browser.open(self.page, width=420, dark=dark)
            self.choose("#plan-length", "any")
            self.type("memory", "-7")
            self.assertLessEqual(self.js("document.documentElement.scrollWidth"), 420)
            right = self.js(
                """Math.max(...[...document.querySelectorAll('#plan-form *, #plan-leads *, #plan-table *, #plan-answer')]
                .filter(e => e.checkVisibility()).map(e => e.getBoundingClientRect().right))"""
            )
            self.assertLessEqual(right, 420)
            self.assertGreater(right, 300)
        paper, ink = (self.js(f"getComputedStyle(document.getElementById('plan-hours')).{name}")
                      for name in ("backgroundColor", "color"))
        self.assertEqual((paper, ink), ("rgb(20, 23, 28)", "rgb(230, 233, 238)"))
        self.browser.call("Emulation.setEmulatedMedia", media="print")
        visible = lambda selector: self.js(f"document.querySelector('{selector}').checkVisibility()")
        self.assertFalse(visible("#plan-form input"))
        self.assertFalse(visible("#plan-leads button"))
        for selector in ("#plan-answer", "#plan-leads .figure", "#plan-table tbody td"):
            self.assertTrue(visible(selector), selector)
        self.browser.call("Emulation.setEmulatedMedia", media="")


class PlanCorners(unittest.TestCase):
    """Pages of a few results that are changed by hand."""

    def opened(self, changes, *typed):
        """The section's text after `changes(document)` was applied to the one valid result of a page."""
        with tempfile.TemporaryDirectory(prefix="sftbench-check-") as folder, Browser() as browser:
            results = pathlib.Path(folder) / "results"
            make_results(results, "--count", "4")
            for path in results.glob("*/*.json"):
                document = json.loads(path.read_text())
                if document["status"] != "valid":
                    path.unlink()
                    continue
                changes(document)
                path.write_text(json.dumps(document))
            self.assertEqual(len(list(results.glob("*/*.json"))), 1)
            write_page(results, results.parent / "report.html")
            browser.open(results.parent / "report.html")
            for expression in typed:
                browser.evaluate(expression)
            self.assertEqual(browser.errors, [])
            self.assertFalse(browser.evaluate("document.getElementById('plan-model').checkVisibility()"))
            return browser.evaluate(
                """['plan-answer', 'plan-leads', 'plan-ruled-out', 'plan-table', 'chart-tokens'].map(
                id => document.getElementById(id).textContent).join('\\n')"""
            )

    def setUp(self):
        with tempfile.TemporaryDirectory(prefix="sftbench-check-") as folder:
            make_results(pathlib.Path(folder), "--count", "4")
            valid = [d for documents in read_repeats(pathlib.Path(folder)).values() for d in documents
                     if d["status"] == "valid"]
        self.document = valid[0]

    def hours(self, text):
        return float(re.search(r"takes ([0-9.]+) h and", text).group(1))

    def test_energy_that_was_not_measured_has_no_figure(self):
        self.assertIn("kWh", self.opened(lambda document: None))
        self.assertNotIn("kWh", self.opened(lambda document: document["extra"].pop("gpu_energy_joules")))

        def unknown_of_one(document):
            document["extra"]["gpu_energy_joules"][0] = None

        self.assertNotIn("kWh", self.opened(unknown_of_one))

    def test_energy_of_warm_up_steps_is_not_that_of_measured_ones(self):
        def warmed_up(document):
            document["extra"]["warmup_steps"] = 4

        whole, measured = self.opened(lambda document: None), self.opened(warmed_up)
        of_a_run, of_a_token = r"GPU energy ([0-9.]+) kWh", r"Wh per million dataset tokens\)smollm2-135m([0-9.]+)As"
        for pattern in (of_a_run, of_a_token):
            figure = lambda text: float(re.search(pattern, text).group(1))
            self.assertAlmostEqual(figure(measured) / figure(whole), 0.6, delta=0.006, msg=pattern)

    def test_a_device_that_nobody_knows_keeps_no_limit_on_memory_and_no_budget(self):
        def unknown(document):
            document["inputs"]["gpu_model"] = "Somebody's GPU"

        limit = "(e => {{ e.value = '{}'; e.dispatchEvent(new Event('input')); }})(document.getElementById('plan-{}'))"
        text = self.opened(unknown, limit.format("90", "memory"), limit.format("1000", "usd"))
        self.assertIn("No configuration keeps the limits of 1000 USD and 90 % of the memory.", text)
        self.assertIn("1 has no price, so the budget cannot be kept", text)
        self.assertIn("1 has no known share of its memory", text)
        self.assertRegex(text, r"The fastest takes [0-9.]+ h and has no price\.")

    def test_rows_that_are_packed_stay_as_full_as_they_were(self):
        """In padded tokens an entry of a packed row has its own, and its share of what was left empty."""
        rate = """(e => { e.value = 'train_tokens_per_second'; e.dispatchEvent(new Event('change')); })(
            document.querySelector('#answer-controls select'))"""
        tokens = "(e => { e.value = 100; e.dispatchEvent(new Event('input')); })(document.getElementById('plan-tokens'))"
        inputs, extra = self.document["inputs"], self.document["extra"]["tokens"]
        padded_rate = self.document["measured"]["train_tokens_per_second"]
        for padding, positions in (("packed", 100 * extra["padded"] / extra["dataset"]),
                                   ("max_length", inputs["model_max_length"])):
            text = self.opened(lambda document: document["inputs"].update(padding=padding), rate, tokens)
            expected = ENTRIES * positions / padded_rate / 3600
            self.assertAlmostEqual(self.hours(text), expected, delta=0.006 * expected, msg=padding)
