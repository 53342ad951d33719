"""page_test.py PROGRAM ARTIFACTS: the report's page in a real browser. Exits 77, which ctest shows as skipped, if there is none."""

import json
import math
import pathlib
import subprocess
import sys
import tempfile
import unittest

from browser import Browser, find_browser

PROGRAM, ARTIFACTS = sys.argv[1], pathlib.Path(sys.argv[2])
HOSTILE = '</script><img src=x onerror=alert(1)>, "&amp;"'
CURVES = [f"{measure}-{axis}" for measure in ("accuracy", "loss") for axis in ("step", "bytes", "seconds")]


def laconic(*arguments):
    return subprocess.run([PROGRAM, *map(str, arguments)], check=True, capture_output=True, text=True).stdout


def make_run(folder, method, bits, payload, best, residual=0.0, period=0):
    """A run of a network as its folder would tell it; ranks 1 and 3 send eight bytes per step more."""
    folder.mkdir(parents=True)
    config = {"laconic": "0.1.0", "run": {"workers": 4, "steps": 60, "seed": 1, "learning_rate": 0.1},
              "task": {"name": "digits", "model": "cnn"}, "method": {"name": method}}
    (folder / "config.json").write_text(json.dumps(config))
    lines, sent = [], [0] * 4
    for step in range(1, 61):
        message = payload * max(1, bits(step))
        sent = [sum_ + message + 8 * (rank % 2) for rank, sum_ in enumerate(sent)]
        line = {"step": step, "batch_loss": 2.3 * math.exp(-step / 25), "payload_bytes": message, "sent_bytes": message,
                "bits": bits(step), "rounds": int(period > 0 and step % period == 0), "step_seconds": 0.02}
        if step % 10 == 0:
            line |= {"loss": 0.1 + 2.2 * math.exp(-step / 15), "accuracy": best - (best - 0.1) * math.exp(-step / 15),
                     "residual_norm": residual * step, "sent_bytes_by_rank": sent}
        lines.append(json.dumps(line))
    (folder / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    result = {"loss": line["loss"], "accuracy": line["accuracy"], "distance": None, "steps_by_rank": [60] * 4,
              "rounds": 60 // period if period else 0, "sent_bytes_by_rank": sent}
    (folder / "result.json").write_text(json.dumps(result))


class Page(unittest.TestCase):
    shown = None

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="laconic_page_")
        runs = pathlib.Path(cls.folder.name) / "made"
        make_run(runs / "sgd", "sgd", lambda step: 0, 400_000, 0.981)
        make_run(runs / "dqsgd", "dqsgd", lambda step: 4 if step < 20 else 3 if step < 45 else 2, 12_500, 0.978)
        make_run(runs / "hostile", HOSTILE, lambda step: 0, 5_000, 0.95, residual=0.5, period=5)
        cls.page = pathlib.Path(cls.folder.name) / "report.html"
        laconic("report", runs, "--out", cls.page)
        ARTIFACTS.mkdir(parents=True, exist_ok=True)
        cls.browser = Browser(find_browser())

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.folder.cleanup()

    def setUp(self):
        self.browser.complaints.clear()
        self.browser.requests.clear()

    def tearDown(self):
        self.assertEqual(self.browser.complaints, [], "the page complained")
        outside = [url for url in self.browser.requests if not url.startswith(("file:", "data:", "blob:"))]
        self.assertEqual(outside, [], "the page wanted the network")

    def show(self, page=None, width=1400, height=1000, scheme="light", phone=False):
        """Loads a page, unless it is the one that is shown: that takes a second, and tests leave it as it was."""
        wanted = ((page or self.page).as_uri(), width, height, scheme, phone)
        if wanted != self.shown:
            self.browser.show(*wanted)
            type(self).shown = wanted

    def value(self, expression):
        return self.browser.run(expression)

    def charts(self):
        return self.value("""Object.fromEntries([...document.querySelectorAll('.js-plotly-plot')].map((plot) => [
            plot.parentElement.id, {traces: plot.data.map((trace) => trace.name),
            lines: plot.querySelectorAll('.scatterlayer .js-line').length,
            left: plot.getBoundingClientRect().left, width: plot.getBoundingClientRect().width}]))""")

    def background(self):
        colour = self.value("getComputedStyle(document.body).backgroundColor")
        return sum(int(part) for part in colour[4:-1].split(",")) / 3

    def test_draws_what_there_is(self):
        self.show()
        charts = self.charts()
        self.assertEqual(sorted(charts), sorted([*CURVES, "bits-step", "residual_norm-step", "rounds-step"]))
        for name in CURVES:
            self.assertEqual(len(charts[name]["traces"]), 3, name)
            self.assertEqual(charts[name]["lines"], 3, name)
        self.assertEqual(charts["bits-step"]["traces"], ["dqsgd"])
        self.assertEqual(len(charts["residual_norm-step"]["traces"]), 1)
        self.assertEqual(self.value("document.querySelectorAll('#summary tbody tr').length"), 3)
        self.assertIn("96.49 %", self.value("document.querySelector('#summary tbody').textContent"))
        self.assertIn("digits", self.value("document.title"))
        labels = self.value("[...document.querySelectorAll('#summary tbody th')].map((cell) => cell.textContent)")
        self.assertEqual(labels, ["sgd", "dqsgd", HOSTILE], "names stay text")
        self.assertEqual(self.value("document.images.length"), 0, "names stay text")
        self.browser.screenshot(ARTIFACTS / "report-light.png")

    def test_csv_has_the_points(self):
        self.show()
        texts = self.value("""(async () => {
            const texts = {};
            let blob = null, name = null;
            const make = URL.createObjectURL, click = HTMLAnchorElement.prototype.click;
            URL.createObjectURL = (object) => { blob = object; return make.call(URL, object); };
            HTMLAnchorElement.prototype.click = function () { name = this.download; };
            for (const button of document.querySelectorAll('.csv')) { button.click(); texts[name] = await blob.text(); }
            URL.createObjectURL = make;
            HTMLAnchorElement.prototype.click = click;
            return texts;
        })()""")
        self.assertEqual(len(texts), 9)
        quoted = '"' + HOSTILE.replace('"', '""') + '"'
        lines = texts["accuracy-bytes.csv"].split("\r\n")
        self.assertEqual(lines[0], "run,bytes,accuracy")
        self.assertEqual(len(lines), 1 + 3 * 6 + 1)
        self.assertEqual(sum(line.startswith(quoted + ",") for line in lines), 6)
        name, sent, accuracy = lines[6].split(",")
        self.assertEqual((name, int(sent)), ("sgd", 60 * 400_008))
        self.assertEqual(float(accuracy), 0.981 - 0.881 * math.exp(-4))
        bits = texts["bits-step.csv"].split("\r\n")
        self.assertEqual(len(bits), 1 + 60 + 1)
        self.assertEqual(bits[20], "dqsgd,20,3")

    def test_runs_are_hidden_everywhere(self):
        self.show()
        visible = """[...document.querySelectorAll('.js-plotly-plot')].map((plot) =>
            plot.data.filter((trace) => trace.name === 'sgd').map((trace) => trace.visible)).flat()"""
        self.value("document.querySelector('.chips .run').click()")
        self.assertEqual(self.value(visible), [False] * 6)
        self.value("document.querySelector('.chips .run').click()")
        self.assertEqual(self.value(visible), [True] * 6)

    def test_is_light_and_dark(self):
        self.show()
        light = self.background()
        self.assertEqual(self.value("document.documentElement.dataset.theme"), "light")
        self.show(scheme="dark")
        self.assertEqual(self.value("document.documentElement.dataset.theme"), "dark")
        self.assertLess(self.background(), light - 100)
        font = "document.querySelector('.js-plotly-plot').layout.font.color"
        dark_font = self.value(font)
        self.browser.screenshot(ARTIFACTS / "report-dark.png")
        self.value("document.getElementById('theme').click()")
        self.assertEqual(self.background(), light)
        self.assertNotEqual(self.value(font), dark_font, "the charts follow the switch")
        self.value("document.getElementById('theme').click(); localStorage.clear()")

    def test_fits_a_phone(self):
        self.show(width=390, height=844, phone=True)
        self.assertEqual(self.value("[innerWidth, document.documentElement.scrollWidth]"), [390, 390])
        charts = self.charts().values()
        self.assertEqual(len({round(chart["left"]) for chart in charts}), 1, "one column")
        for chart in charts:
            self.assertGreater(chart["width"], 300)
            self.assertLessEqual(chart["left"] + chart["width"], 390)
        rows = self.value("[...document.querySelectorAll('#summary tbody tr')].map((row) => row.getBoundingClientRect().height)")
        self.assertLess(max(rows), 50, "a name takes one line")
        column = self.value("document.querySelector('#summary tbody tr:last-child th').getBoundingClientRect().width")
        self.assertLess(column, 200, "a long name leaves room for the figures")
        self.browser.screenshot(ARTIFACTS / "report-phone.png")

    def test_shows_a_run_that_has_just_begun(self):
        run = pathlib.Path(self.folder.name) / "begun"
        make_run(run, "sgd", lambda step: 0, 1000, 0.9)
        (run / "result.json").unlink()
        (run / "metrics.jsonl").write_text('{"step": 1, "batch_')
        page = run / "begun.html"
        laconic("report", run, "--out", page)
        self.show(page)
        self.assertEqual(self.charts(), {})
        notes = self.value("document.getElementById('notes').textContent")
        for part in ("line 1", "no step", "result.json"):
            self.assertIn(part, notes)

    def test_draws_real_runs(self):
        runs = pathlib.Path(self.folder.name) / "real"
        for method in ("sgd", "topk"):
            laconic("train", "--problem", "logistic-regression", "--steps", 1100, "--method", method, "--out", runs / method)
        page = pathlib.Path(self.folder.name) / "real.html"
        laconic("report", runs / "topk", runs / "sgd", "--out", page)
        self.show(page)
        charts = self.charts()
        self.assertNotIn("accuracy-step", charts, "what nobody measured is left out")
        self.assertEqual(charts["rounds-step"]["traces"], ["topk", "sgd"], "they meet in every step")
        self.assertEqual(charts["loss-bytes"]["traces"], ["topk", "sgd"])
        self.assertIn("Thinned", self.value("document.getElementById('thinning').textContent"))
        last = json.loads((runs / "sgd" / "metrics.jsonl").read_text().splitlines()[-1])
        drawn = self.value("document.querySelector('#loss-bytes .plot').data.map((trace) => [trace.x.at(-1), trace.y.at(-1)])[1]")
        self.assertEqual(drawn, [max(last["sent_bytes_by_rank"]), last["loss"]])


if __name__ == "__main__":
    if not find_browser():
        print("skipped: no chromium here; scripts/setup test installs one, LACONIC_BROWSER names one")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1], verbosity=2)
