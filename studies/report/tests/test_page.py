"""Files, sections, plots and the page."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from report import blocks, command, document, page, papers, plots, results, sections
from report.sections import latency, smaller

from . import examples

SUMMARY = {"count": 100, "mean": 5.0, "min": 4.0, "p50": 5.0, "p90": 6.0, "p99": 7.0, "max": 9.0}
# Axis labels of quantities without a unit, or with a unit in their name.
UNITLESS = ("case", "content", "share of longer messages")


def header(name):
    return {
        "schema": f"openuvr.{name}",
        "schema_version": results.SCHEMA_VERSION,
        "machine": {"cpu": "A<B>&C", "cores": 2, "kernel": "6"},
        "commit": "0123456789abcdef",
        "date": "2026-01-01T00:00:00Z",
        "command": "openuvr bench",
    }


def latency_case():
    case = examples.latency()["cases"][0]
    case["setting"] |= {"size": "1280x720"}
    case["floor"] = {"latency_ms": SUMMARY}
    case["stream"] |= {"latency_ms": SUMMARY, "link": "udp"}
    case["stream"]["steps"] = examples.ablation_run("", 5.0)["steps"]
    verdict = {"what": "it <takes>", "unit": "ms", "measured": 6.0, "target": {"pass": 7.0}, "at_least": False}
    case["verdicts"] = [verdict, verdict | {"measured": 8.0}, verdict | {"withheld": "busy machine"}]
    return case


def box(mean):
    return {
        "mean": mean,
        "ci95": 0.1,
        "p5": 0.5,
        "p25": 0.8,
        "p50": 1.0,
        "p75": 1.3,
        "p95": 2.0,
        "p99": 3.0,
        "p9999": 6.0,
    }


def everything():
    """A file of each kind: (name, data, {CSV name: text})."""
    figures = [
        examples.figure("PSNR", "loss", examples.line("PSNR", "loss", "scene", (40.0, 37.0, 31.0))),
        examples.figure("SSIM", "loss", examples.line("SSIM", "loss", "scene", (0.95, 0.9, 0.7))),
        *examples.load(2.9)["figures"],
    ]
    model = examples.wifi()
    for group in ("rates", "intervals"):
        for case in model["paper"][group]:
            case["spreads"] = {key: box(1.2) for key in ("packets", "packets_from_queue", "delivered", "frames")}
    peers = examples.peers()
    peers["ways"].append({"name": "absent", "what": "", "skipped": "install a<b>", "direct": None, "loss": None})
    errors = {"p50": 1.0, "p95": 2.0, "p99": 3.0, "max": 4.0}
    pose = [
        {"horizon_ms": ms, "velocity": v, "degrees": errors, "millimetres": errors}
        for ms in (10, 20)
        for v in ("none", "tracker")
    ]
    degrees = {"pictures": 10, "p50": 1.0, "p95": 2.0, "max": 3.0}
    turns = [
        {"round_trip_ms": ms, "without": degrees, "re_aimed": [{"with": "gl", "degrees": degrees}]} for ms in (0, 50)
    ]
    sweep = {
        "runs": 3,
        "seconds": 2.0,
        "words": "profile=he-su",
        "varied": [{"name": "stations", "values": ["1", "2"]}, {"name": "signal", "values": ["40", "30,4"]}],
        "cases": [
            {"values": [a, b], "found": {"frame_ms": {"mean": 3.0, "ci95": 0.2}}}
            for a in ("1", "2")
            for b in ("40", "30,4")
        ],
    }
    distribution = "quantity,stream,value,count\n" + "".join(
        f"{quantity},frames,{value},{count}\n"
        for quantity in ("batch_interval_ns", "assembly_ns", "packets_at_once", "jitter_ns", "stream_interval_ns")
        for value, count in ((1_000, 50), (5_000_000, 40), (90_000_000, 1))
    )
    web = {
        "version": "Chromium <156>",
        "verdicts": latency_case()["verdicts"],
        "browsers": [
            {
                "name": "direct",
                "p50_ms": examples.repeated(6.0, 6.5, 7.0),
                "steps": [examples.step("drawn", "Captured", 0.5)],
            }
        ],
    }
    sound = {
        "targets": {"p50_ms": 25.0, "p99_ms": 40.0, "offset_ms": 15.0, "cores": 0.02, "concealment_ms": 20.0},
        "ways": [{"name": "with", "sound_ms": {"p50": 19.5, "p99": 41.0}, "offset_ms": {"p50": -16.0}}],
        "cost": {"host": 0.019, "client": 0.03},
        "links": [{"name": "1 % <lost>", "longest_ms": 15.0}],
    }
    link = {
        "case": "loss",
        "recovery": "intra-refresh",
        "complete_per_second": 58.0,
        "longest_gap_ms": 30.0,
        "outcomes": {"complete": 9},
    }
    controllers = [
        {
            "controller": name,
            "aqm": "dualpi2",
            "competitors": ["cubic", "cubic"],
            "p50_ms": 15.0,
            "p99_ms": ms,
            "path_p99_ms": 18.0,
            "complete_per_second": 60.0,
            "mbps": 6.1,
            "fair_share": 0.91,
            "jain": 0.99,
            "used": 0.98,
            "marked": 120,
            "dropped": 3,
            "series": f"link_aqm-dualpi2-2-{name}.csv",
        }
        for name, ms in (("own", 21.0), ("gcc", 48.0))
    ]
    contest = {
        "link_mbps": 20.0,
        "one_way_ms": 10.0,
        "queue_ms": 100.0,
        "seconds": 15.0,
        "seed": 1,
        "runs": controllers,
        "verdicts": [
            {"what": "p99", "unit": "ms", "measured": 21.0, "target": {"pass": 20.0}, "at_least": False},
            {"what": "share", "unit": "", "measured": None, "target": {"pass": 0.8}, "at_least": True},
        ],
    }
    series = "seconds,video_mbps,target_mbps,competitors_mbps,latency_ms,queue_ms,marked,dropped\n" + "".join(
        f"{n / 10},{5 + n % 3},6.0,13.0,{15 + n % 5},{n % 4},1,0\n" for n in range(1, 30)
    )
    scheduling = {
        "wake_ups": [
            {
                "primitive": "futex",
                "policy": "FIFO",
                "how": "",
                "real_time": True,
                "us": {"count": 9, "p50": 3, "p99": 8, "p999": 20, "max": 30},
            }
        ],
        "sealing_us": [{"count": 9, "p50": 5, "p99": 6, "p999": 7, "max": 8}],
        "recording_ns": {"off": 1.0, "sent": 20.0, "woke": 30.0},
    }
    pads = {"target_ms": 1.0, "late_ms": SUMMARY, "p50_ms": examples.repeated(0.4, 0.5, 0.6), "overtaken": 2}
    sensor = {
        "target_ms": 1.0,
        "late_ms": SUMMARY,
        "p50_ms": examples.repeated(0.2, 0.3),
        "p99_ms": examples.repeated(0.6, 0.8),
    }
    played = {"complete_fps": 60.0, "latency_ms": SUMMARY}
    sessions = {
        "carried": 2,
        "enough": 59.0,
        "steps": [{"sessions": 1, "played": [played], "cores": examples.repeated(0.5, 0.6)}],
    }
    capture = {
        "ways": [
            {"name": "alone", "what": ""},
            {
                "name": "virtual-wayland",
                "what": "",
                "p50_ms": examples.repeated(5.0, 6.0),
                "cores": examples.repeated(1.1, 1.2),
                "still_cores": examples.repeated(0.0012, 0.0014),
                "reaction_ms": examples.repeated(9.0, 11.0),
            },
        ]
    }
    slices = {
        "ways": [
            {
                "name": name,
                "what": "",
                "top_p50_ms": examples.repeated(ms, ms + 1),
                "mixed": examples.repeated(0.1, 0.2),
            }
            for name, ms in (("whole", 9.0), ("slices", 5.0))
        ]
    }
    tails = "cell,clock,latency_us,share_longer\n" + "".join(
        f"{name},{clock},{us},{share}\n"
        for name in ("pthread/ping-pong/other", "pekko/ping-pong/other/cms", "caf/paced/other")
        for clock in ("sent", "intended")
        for us, share in ((1, 0.9), (40, 0.1), (900, 1e-6))
    )
    outliers = "cell,share_of_test,latency_us\npekko/ping-pong/other/cms,0.2,500\npekko/ping-pong/other/cms,0.7,900\n"
    pauses = (
        "cell,from_share,to_share,full\npekko/ping-pong/other/cms,0.19,0.21,0\npekko/ping-pong/other/cms,0.6,0.61,1\n"
    )
    cells = examples.jitter(examples.ping_pong("pthread", 30.0), *examples.collectors(examples.AS_IN_SLIDES))
    samples = "case,part,frame,drawn_us,seen_us,latency_ms,outcome\n" + "".join(
        f"720p,stream,{n},0,0,{5 + n * 0.1},complete\n" for n in range(50)
    )
    return [
        ("bench.latency", {"samples_csv": "latency.csv", "cases": [latency_case()]}, {"latency.csv": samples}),
        ("bench.ablation", examples.ablation() | {"size": "1280x720", "bitrate": "10M"}, {}),
        ("bench.sync", examples.sync(), {}),
        ("bench.capture", capture, {}),
        ("bench.slices", slices, {}),
        ("bench.peers", peers, {}),
        ("bench.scheduling", scheduling, {}),
        ("bench.link", {"cases": [link]}, {}),
        ("bench.link_aqm", contest, {run["series"]: series for run in controllers}),
        ("bench.sound", sound, {}),
        ("bench.pads", pads, {}),
        ("bench.sensor", sensor, {}),
        ("bench.web", web, {}),
        ("bench.quality", examples.quality() | {"figures": figures, "size": "1280x720", "fps": 50}, {}),
        ("bench.batches", examples.batches(*examples.around(0.93, 0.005, 60)) | {"size": "1920x1080", "fps": 60}, {}),
        ("bench.feedback", examples.feedback(), {}),
        ("bench.sessions", sessions, {}),
        (
            "bench.encoder",
            {
                "encoder": "h264_vaapi",
                "options": [["async_depth", "1"]],
                "size": "1280x720",
                "last_slice": {"p50": 3.25, "p99": 4.5},
                "bits": {"p99": 210_000.0},
                "mbps": 9.75,
                "psnr": {"mean": 38.9},
            },
            {},
        ),
        ("bench.foveation", {"eye": "640x640", "coded": "480x480", "rows": [["Foveated", {"kilobits": 100.0}]]}, {}),
        ("bench.prediction", {"rows": pose}, {}),
        ("bench.reprojection", {"round_trips": turns}, {}),
        ("lab.wifi", model, {}),
        ("lab.sweep", sweep, {}),
        ("lab.topology", examples.topology(), {}),
        (
            "lab.traffic",
            examples.traffic(),
            {"server-distributions.csv": distribution, "client-distributions.csv": distribution},
        ),
        ("lab.jitter", cells, {"tails.csv": tails, "outliers.csv": outliers, "pauses.csv": pauses}),
        ("lab.samples", {"files": [{"file": "a.jitter", "analysis": cells["cells"][0]["analysis"]}]}, {}),
    ]


def write_all(folder):
    for name, data, tables in everything():
        # Some benches and studies write several result files with the same schema.
        schema = name.replace("sweep", "wifi").replace("topology", "wifi")
        schema = schema.replace("batches", "quality").replace("feedback", "quality")
        (folder / f"{name.split('.')[1]}.json").write_text(json.dumps(header(schema) | data))
        for file_name, text in tables.items():
            (folder / file_name).write_text(text)


class PageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.scratch.cleanup)
        cls.folder = pathlib.Path(cls.scratch.name)
        write_all(cls.folder)
        cls.results = results.read([cls.folder])
        cls.sections = [one for one in sections.all_sections(cls.results) if one is not None]

    def test_each_result_has_a_section(self):
        self.assertEqual(len(self.sections), len(sections.SECTIONS))
        for section in self.sections:
            self.assertTrue(section.parts, section.title)
        self.assertEqual([s for s in map(lambda f: f(results.Results()), sections.SECTIONS) if s], [])

    def test_no_legend_covers_data_and_no_curve_is_cut_off(self):
        count = 0
        for section in self.sections:
            for plot in section.plots():
                count += 1
                figure = plot.figure
                figure.canvas.draw()
                for ax in figure.axes:
                    with self.subTest(plot=plot.name):
                        self.check(figure, ax)
        self.assertGreater(count, 30)

    def check(self, figure, ax):
        for label in (ax.get_xlabel(), ax.get_ylabel()):
            named = any(mark in label for mark in (", ", "%", "SSIM", "per second", "bytes", "packets", "batches", "("))
            self.assertTrue(label and (named or label in UNITLESS), f"an axis without a unit: {label!r}")
        if ax.get_legend():
            covered = ax.get_legend().get_window_extent().overlaps(ax.get_window_extent())
            self.assertFalse(covered, "the legend lies over the data")
        (left, right), (bottom, top) = sorted(ax.get_xlim()), sorted(ax.get_ylim())
        for line in ax.get_lines():
            if line.get_transform() != ax.transData:
                continue
            for x, y in line.get_xydata():
                self.assertTrue(left <= x <= right and bottom <= y <= top, f"({x}, {y}) is cut off")

    def test_distributions_reach_their_ends(self):
        self.assertEqual(latency.cumulative(range(1, 1001))[-1], (1000, 100.0))
        figure = plots.shares("t", "delay, ms", [("one", latency.cumulative([1.0, 2.0, 9.0]))])
        drawn = figure.axes[0].get_lines()[0].get_ydata()
        self.assertEqual((drawn[0], drawn[-1]), (0, 100.0))

    def test_stages_are_means_that_add_up(self):
        steps = examples.ablation_run("", 13.0)["steps"]
        self.assertEqual(sum(ms for _, ms in latency.stages(steps)), 13.0)
        self.assertEqual(latency.stages(steps[1:]), [], "a missing stage is not zero")

    def test_the_page_is_complete_and_escapes_what_it_quotes(self):
        out = self.folder / "report.html"
        page.write(self.results, out)
        text = out.read_text()
        self.assertTrue(text.rstrip().endswith("</html>"))
        self.assertNotIn("<script", text)
        for quoted in ("A&lt;B&gt;&amp;C", "skipped: install a&lt;b&gt;", "it &lt;takes&gt;", "Chromium &lt;156&gt;"):
            self.assertIn(quoted, text)
        self.assertEqual(text.count("<table>"), text.count("</table>"))
        self.assertIn("async_depth=1", text)
        self.assertIn("without a stream, is 1.4 ms (p50) and 2.1 ms (p99)", text)
        self.assertIn("class=yes>met", text)
        self.assertIn("class=no>missed", text)
        self.assertNotIn("http://", text)
        self.assertGreater(text.count('src="data:image/svg+xml;base64,'), 30)
        self.assertEqual(text.count("<img "), text.count("data:image/"))

    def test_the_document_has_each_claim_and_each_result(self):
        text = document.markdown(self.results)
        self.assertIn(f"| {self.folder.name}/ablation.json | `openuvr bench` | 0123456789ab |", text)
        rows = [line for line in text.splitlines() if line.startswith("|")]
        places = [claim.place for _, claims in papers.PAPERS for claim in claims]
        listed = [line.split(" | ")[0][2:] for line in rows]
        self.assertEqual([place for place in listed if place in places], places)
        self.assertIn("**not testable here**: the test needs about 100 persons", text)
        self.assertIn("No result files are kept yet", document.markdown(results.Results()))

    def test_plots_are_written_as_files_with_names_of_their_own(self):
        folder = self.folder / "plots"
        twice = examples.bench("sync", examples.sync()).add("bench capture", {"ways": []})
        page.write(twice, self.folder / "small.html", folder)
        self.assertEqual(sorted(path.name for path in folder.iterdir()), ["sync.png", "sync.svg"])
        self.assertEqual(page.unused("sync", {"sync", "sync-2"}), "sync-3")

    def test_a_quick_run_meets_and_misses_nothing(self):
        for result in self.results.all:
            quick = results.Results([results.Result(result.name, result.data | {"quick": True}, result.path)])
            for section in sections.all_sections(quick):
                parts = [part for part in (section.parts if section else []) if isinstance(part, blocks.Table)]
                marks = {cell.text for part in parts for row in part.cells() for cell in row if cell.kind}
                self.assertFalse(marks & {"met", "missed"}, f"{result.name}: {marks}")

    def test_wake_ups_need_enough_messages_and_all_of_them(self):
        for sent, received, word in ((1000, 1000, "met"), (1001, 1000, "missed"), (999, 999, "too few messages")):
            us = {"count": received, "p50": 3, "p99": 8, "p999": 20, "max": 30}
            one = {"primitive": "eventfd", "policy": "FIFO", "real_time": True, "sent": sent, "us": us}
            made = sections.smaller.scheduling(examples.bench("scheduling", {"wake_ups": [one]}))
            self.assertEqual(made.parts[0].cells()[0][-1].text, word, f"{received} of {sent}")

    def test_clicks_that_were_not_heard_are_not_left_out(self):
        def verdicts(unheard):
            heard = {"count": 95, "p50": 20.0, "p99": 30.0}
            way = {"name": "with sound", "sound_ms": heard, "offset_ms": {"p50": 5.0}, "unheard": unheard}
            data = {"targets": {"p50_ms": 25.0, "p99_ms": 40.0, "offset_ms": 15.0}, "ways": [way]}
            made = smaller.sound(results.Results().add("bench sound", data))
            return [row[3].text for row in made.parts[0].rows[:3]]

        withheld = "clicks were not heard"
        self.assertEqual(verdicts(0), ["met", "met", "met"])
        self.assertEqual(verdicts(5), ["met", withheld, "met"])
        self.assertEqual(verdicts(50), [withheld, withheld, withheld])

    def test_sessions_without_a_complete_frame_have_no_latency(self):
        played = [{"complete_fps": 60.0, "latency_ms": SUMMARY}, {"complete_fps": 0.0, "latency_ms": None}]
        for sessions, late in ((played[:1], "7.0"), (played, blocks.ABSENT)):
            steps = [{"sessions": len(sessions), "played": sessions}]
            made = smaller.sessions(results.Results().add("bench sessions", {"steps": steps}))
            self.assertEqual(made.parts[-1].rows[0][2], late)

    def test_a_quick_run_of_any_bench_is_announced(self):
        for result in self.results.all:
            quick = results.Result(result.name, result.data | {"quick": True}, result.path)
            notices = list(page.notices(results.Results([quick])))
            self.assertTrue(quick.is_quick and quick.withheld == "quick run", result.name)
            self.assertTrue(any("Quick runs" in one and result.name in one for one in notices), notices)

    def test_quick_and_busy_runs_are_announced(self):
        loud = examples.bench("sync", examples.sync() | {"quick": True, "other_cores": 0.4})
        notices = list(page.notices(loud))
        self.assertEqual(len(notices), 2)
        self.assertTrue(all("bench sync" in notice for notice in notices))

    def test_the_missing_parts_of_a_result_are_named(self):
        partial = examples.bench("latency", examples.latency() | {"incomplete": ["1080p"]})
        self.assertIn("bench latency", "".join(page.notices(partial)))
        self.assertIn("Missing in bench latency: 1080p.", page.provenance(partial).parts)


class FilesTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def put(self, name, data):
        (self.folder / name).write_text(data if isinstance(data, str) else json.dumps(data))

    def fails(self, says):
        with self.assertRaises(results.UnreadableError) as caught:
            results.read([self.folder])
        self.assertIn(says, str(caught.exception))
        self.assertNotIn("\n", str(caught.exception))

    def test_unreadable_files_are_one_line(self):
        self.fails("no results in")
        self.put("a.json", "{")
        self.fails("is not JSON")
        self.put("a.json", header("bench.sync") | {"schema_version": 99})
        self.fails("schema version 99, but this reporter reads")

    def test_other_files_are_ignored_and_named(self):
        self.put("sync.json", header("bench.sync"))
        self.put("truth.json", {"lost": 3})
        read = results.read([self.folder])
        self.assertEqual([one.name for one in read.all], ["bench sync"])
        self.assertIn("truth.json", read.ignored[0])

    def test_tables_lie_beside_their_file(self):
        self.put("sync.json", header("bench.sync"))
        self.put("runs.csv", "a,b\n1,2\n")
        found = results.read([self.folder / "sync.json"]).first("bench sync")
        self.assertEqual(list(found.table("runs.csv")["b"]), [2])
        for absent in ("none.csv", "../runs.csv", ""):
            self.assertTrue(found.table(absent).empty, absent)

    def test_the_command_line(self):
        self.put("sync.json", header("bench.sync") | examples.sync())
        self.assertEqual(command.main([str(self.folder)]), 0)
        self.assertTrue((self.folder / "report.html").is_file())
        self.assertEqual(command.main([str(self.folder / "absent")]), 1)
        verdicts = self.folder / "verdicts.md"
        self.assertEqual(command.main([str(self.folder), "--verdicts", str(verdicts)]), 0)
        self.assertIn("# Verdicts", verdicts.read_text())

    def test_files_are_utf_8_in_each_locale(self):
        machine = {"machine": {"cpu": "Intel®"}}
        data = json.dumps(header("bench.sync") | examples.sync() | machine, ensure_ascii=False)
        (self.folder / "sync.json").write_text(data, encoding="utf-8")
        # Without UTF-8, Python uses ASCII in this locale.
        ascii_only = {**os.environ, "LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
        start = [sys.executable, "-B", str(pathlib.Path(__file__).parent.parent), str(self.folder)]
        for options in ([], ["--verdicts", str(self.folder / "verdicts.md")], ["--verdicts", "-"]):
            done = subprocess.run([*start, *options], env=ascii_only, capture_output=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr.decode())
        self.assertIn("Intel®", done.stdout.decode())
        for name in ("report.html", "verdicts.md"):
            self.assertIn("Intel®", (self.folder / name).read_text(encoding="utf-8"))

    def test_runs_lie_in_subfolders(self):
        for number in (1, 2, 3):
            (self.folder / f"jitter-{number}").mkdir()
            self.put(f"jitter-{number}/jitter.json", header("lab.jitter") | examples.jitter())
        found = results.read([self.folder])
        self.assertEqual(len(found.of("lab jitter")), 3)
        [table] = page.provenance(found).parts
        self.assertEqual([row[1] for row in table.rows], [f"jitter-{number}/jitter.json" for number in (1, 2, 3)])

    def test_a_file_in_two_places_is_one_run(self):
        (self.folder / "jitter-1").mkdir()
        self.put("jitter-1/jitter.json", header("lab.jitter") | examples.jitter())
        places = [self.folder, self.folder / "jitter-1", self.folder / "jitter-1" / "jitter.json"]
        self.assertEqual(len(results.read(places).all), 1)


if __name__ == "__main__":
    unittest.main()
