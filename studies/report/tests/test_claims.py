"""Verdicts: each claim can hold and can fail; quick runs, single runs and a busy machine decide nothing."""

import copy
import pathlib
import re
import unittest
from dataclasses import replace

from report import estimate, marks
from report.marks import DECIDED, Check, Mark, judged
from report.papers import PAPERS, searis
from report.results import Results

from . import examples

CLAIMS = {(paper, claim.place): claim for paper, claims in PAPERS for claim in claims}
# Core count and kernel of three machines.
MACHINES = (2, "6.12"), (8, "6.12"), (2, "6.18")
NEVER_JUDGED = (Mark.NOT_TESTABLE, Mark.NOT_MEASURED)


def changed(results, change):
    """The same results after `change` of each file."""
    results = copy.deepcopy(results)
    for result in results.all:
        change(result.data)
    return results


def every_example():
    """(key, claim, results) of all examples."""
    for key, (supporting, refuting) in examples.EXAMPLES.items():
        for results in (supporting, *refuting):
            yield key, CLAIMS[key], results


def single_run(results):
    """The same results with one run of each measurement."""

    def shorten(part):
        if isinstance(part, list):
            for one in part:
                shorten(one)
        if isinstance(part, dict):
            for name, inner in part.items():
                if name in ("values", "batch_means", "ssim", "reaction_ms") and isinstance(inner, list):
                    part[name] = inner[:1]
                elif name == "ci95":
                    part[name] = None
                else:
                    shorten(inner)
            if isinstance(part.get("runs"), list):
                first = {}
                part["runs"] = [one for one in part["runs"] if first.setdefault(one["configuration"], one) is one]

    results = changed(results, shorten)
    first = {}
    kinds = [(one.name, one.get("command"), one.get("nominal_fps")) for one in results.all]
    results.all = [one for kind, one in zip(kinds, results.all, strict=True) if first.setdefault(kind, one) is one]
    return results


class ClaimsTest(unittest.TestCase):
    def test_every_claim_can_hold_and_can_fail(self):
        for key, (supporting, refuting) in examples.EXAMPLES.items():
            held = CLAIMS[key].verdict(supporting)
            self.assertEqual(held.mark, Mark.REPRODUCED, f"{key}: {held.why}")
            self.assertTrue(refuting, key)
            for number, results in enumerate(refuting):
                failed = CLAIMS[key].verdict(results)
                self.assertEqual(failed.mark, Mark.NOT_REPRODUCED, f"{key}, value {number}: {failed.why}")

    def test_each_judged_claim_has_examples(self):
        """A new claim fails this test until `examples.py` has a value that refutes it."""
        self.assertEqual({key for key, claim in CLAIMS.items() if claim.sources}, set(examples.EXAMPLES))

    def test_each_verdict_prints_its_confidence_interval(self):
        for key, claim, results in every_example():
            self.assertRegex(claim.verdict(results).why, "±|95 %", key)

    def test_each_tolerance_has_a_reason(self):
        for key, claim in CLAIMS.items():
            has_reason = bool(claim.tolerance.reason)
            self.assertEqual(has_reason, bool(claim.sources), key)

    def test_the_bound_decides(self):
        """With a bound that nothing meets, no claim holds; rows that bring their own bound have no other."""
        for key, (supporting, _) in examples.EXAMPLES.items():
            claim = CLAIMS[key]
            if claim.tolerance.bound is None:
                continue
            for extreme in (1e9, -1e9):
                old = claim.tolerance.bound
                bound = dict.fromkeys(old, extreme) if isinstance(old, dict) else extreme
                moved = replace(claim, tolerance=replace(claim.tolerance, bound=bound)).verdict(supporting)
                if moved.mark is not Mark.REPRODUCED:
                    break
            self.assertNotEqual(moved.mark, Mark.REPRODUCED, f"{key}: {moved.why}")

    def test_without_data_nothing_is_claimed(self):
        for key, claim in CLAIMS.items():
            verdict = claim.verdict(Results())
            self.assertIn(verdict.mark, NEVER_JUDGED, key)
            for source in claim.sources:
                self.assertIn(f"openuvr {source}", verdict.why)

    def test_a_quick_run_decides_nothing(self):
        def quick(data):
            for part in [data, *data.get("cells", [])]:
                part["quick"] = True

        for key, claim, results in every_example():
            verdict = claim.verdict(changed(results, quick))
            self.assertNotIn(verdict.mark, DECIDED, f"{key}: {verdict.why}")

    def test_a_run_shorter_than_the_default_decides_nothing(self):
        def shorten(data):
            for part in [data, *(case["setting"] for case in data.get("cases", []))]:
                if "seconds" in part:
                    part["seconds"] = 3.9

        for key, claim, results in every_example():
            if any(source.startswith("bench") for source in claim.sources):
                verdict = claim.verdict(changed(results, shorten))
                self.assertNotIn(verdict.mark, DECIDED, f"{key}: {verdict.why}")

    def test_a_run_of_which_a_part_failed_decides_nothing(self):
        for key, claim, results in every_example():
            for field in ("incomplete", "unreliable"):
                if not claim.is_by_cell:
                    verdict = claim.verdict(changed(results, lambda data, field=field: data.update({field: ["1080p"]})))
                    self.assertNotIn(verdict.mark, DECIDED, f"{key}: {verdict.why}")

    def test_the_default_durations_are_those_of_the_benches(self):
        folder = pathlib.Path(__file__).parents[2] / "bench/src/bench"
        own = re.compile(r'(?:long = "duration".*default_value = |mut_arg\("seconds".*default_value\()"(\d+)s"')
        sources = {source.split(" --")[0] for claim in CLAIMS.values() for source in claim.sources}
        self.assertEqual({source for source in sources if source.startswith("bench")}, set(marks.USUAL_S))
        for bench, seconds in marks.USUAL_S.items():
            text = (folder / f"{bench.removeprefix('bench ')}.rs").read_text(encoding="utf-8")
            found = own.search(text) or own.search((folder / "turns.rs").read_text(encoding="utf-8"))
            self.assertEqual(int(found[1]), seconds, bench)

    def test_a_busy_machine_decides_nothing_about_times(self):
        def busy(data):
            for part in [data, *data.get("cells", [])]:
                part["other_cores"] = 0.5

        for key, claim, results in every_example():
            if claim.is_timed or claim.is_by_cell:
                self.assertNotIn(claim.verdict(changed(results, busy)).mark, DECIDED, key)

    def test_a_single_run_decides_nothing(self):
        for key, claim, results in every_example():
            verdict = claim.verdict(single_run(results))
            self.assertEqual(verdict.mark, Mark.INCONCLUSIVE, f"{key}: {verdict.why}")

    def test_two_runs_decide_nothing(self):
        two = examples.captures(runs=2)
        self.assertEqual(CLAIMS["Unity Render Streaming over Wi-Fi", "figure 11"].verdict(two).mark, Mark.INCONCLUSIVE)

    def test_an_interval_that_contains_the_bound_decides_nothing(self):
        for found in (estimate.Estimate(5.0, 2.0, 5), estimate.Interval(3.0, 5.0, 7.0, 5)):
            for check in (Check(found, least=4.0), Check(found, most=6.0), Check(found, 4.0, 6.0)):
                self.assertEqual(judged([check], "").mark, Mark.INCONCLUSIVE)
            self.assertEqual(judged([Check(found, 1.0, 8.0)], "").mark, Mark.REPRODUCED)
            self.assertEqual(judged([Check(found, 1.0, 8.0), Check(found, 8.0)], "").mark, Mark.NOT_REPRODUCED)
        self.assertIsNone(judged([], ""))

    def test_results_with_the_pacer_do_not_count(self):
        """The conventional stream of older builds waited for batches each 5.56 ms, as Unity does."""
        paced = examples.ablation()
        paced["cumulative"][2]["name"] = "+ burst"
        for place in ("figure 6", "figure 10"):
            verdict = CLAIMS["OpenUVR", place].verdict(examples.bench("ablation", paced))
            self.assertEqual(verdict.mark, Mark.NOT_MEASURED, place)

    def test_savings_on_two_machines_are_not_added(self):
        claim = CLAIMS["OpenUVR", "figure 11, all"]
        one, larger, other = ({"cpu": "A", "cores": cores, "kernel": kernel} for cores, kernel in MACHINES)
        for second, mark in ((one, Mark.REPRODUCED), (larger, Mark.INCONCLUSIVE), (other, Mark.INCONCLUSIVE)):
            results = copy.deepcopy(examples.EXAMPLES["OpenUVR", "figure 11, all"][0])
            for result, machine in zip(results.all, (one, second), strict=True):
                result.data["machine"] = machine
            verdict = claim.verdict(results)
            self.assertEqual(verdict.mark, mark, verdict.why)

    def test_savings_are_those_of_a_result_without_the_pacer(self):
        paced = examples.ablation(rgb=9.9)
        paced["cumulative"][2]["name"] = "+ burst"
        claim = CLAIMS["OpenUVR", "figure 11, transcoding"]
        results = examples.bench("ablation", paced).add("bench ablation", examples.ablation())
        self.assertEqual(claim.verdict(results).mark, Mark.REPRODUCED)

    def test_latency_of_few_complete_frames_decides_nothing(self):
        def lose(data):
            for run in data.get("runs", []):
                run["complete"] = int(run["drawn"] * 0.05)
            for row in data.get("ways", []):
                row["complete"] = 0.05

        for key, claim, results in every_example():
            if {"bench ablation", "bench sync"} & set(claim.sources):
                verdict = claim.verdict(changed(results, lose))
                self.assertEqual(verdict.mark, Mark.INCONCLUSIVE, f"{key}: {verdict.why}")
                self.assertIn("5 % of the frames were complete", verdict.why)

    def test_the_transport_is_the_recorded_one(self):
        """The name of a row is only the requested transport."""

        def fall_back(data):
            for run in data.get("runs", []):
                run["link"] = "udp"

        for place in ("figure 11, direct network I/O", "figure 11, all"):
            claim = CLAIMS["OpenUVR", place]
            verdict = claim.verdict(changed(examples.EXAMPLES["OpenUVR", place][0], fall_back))
            self.assertEqual(verdict.mark, Mark.INCONCLUSIVE, verdict.why)
            self.assertIn('"raw Ethernet" was udp instead of raw', verdict.why)

    def test_few_presses_are_inconclusive(self):
        few = examples.latency()
        few["cases"][0]["stream"]["reaction_ms"] = [20.0, 20.1, 20.2, 20.3]
        verdict = CLAIMS["GamingAnywhere", "figure 7, response"].verdict(examples.bench("latency", few))
        self.assertEqual(verdict.mark, Mark.INCONCLUSIVE)

    def test_presses_without_an_effect_are_not_left_out(self):
        claim, lost = CLAIMS["GamingAnywhere", "figure 7, response"], examples.latency()
        for presses, mark in ((55, Mark.REPRODUCED), (60, Mark.INCONCLUSIVE)):
            lost["cases"][0]["setting"]["presses"] = presses
            verdict = claim.verdict(examples.bench("latency", lost))
            self.assertEqual(verdict.mark, mark, f"50 of {presses}: {verdict.why}")

    def test_energy_is_that_of_the_counter_or_cpu_time(self):
        claim = CLAIMS["OpenUVR", "section V-B"]
        without = claim.verdict(examples.bench("latency", examples.latency()))
        self.assertEqual(without.mark, Mark.NOT_TESTABLE)
        self.assertIn("720p host 5.0, client 2.5 ms of CPU time per frame", without.why)
        counted = examples.latency()
        counted["cases"][0]["stream"]["package_joules"] = 60.0
        self.assertIn("720p 100.0 mJ per frame", claim.verdict(examples.bench("latency", counted)).why)

    def test_other_conditions_than_the_papers_decide_nothing(self):
        less = examples.quality(ssim=(0.95, 0.94)) | {"seconds": 6.0, "target_mbps": 3.0}
        verdict = CLAIMS["OpenUVR", "section V-D1"].verdict(examples.bench("quality", less))
        self.assertEqual(verdict.mark, Mark.INCONCLUSIVE)
        self.assertIn("10 min", verdict.why)
        half = examples.quality(ssim=(0.95, 0.94), batches=examples.TEN_MINUTES // 2)
        claim, once = CLAIMS["OpenUVR", "section V-D1"], examples.bench("quality", half)
        self.assertEqual(claim.verdict(once).mark, Mark.INCONCLUSIVE)
        twice = once.add("bench quality", less).add("bench quality", half)
        self.assertEqual(claim.verdict(twice).mark, Mark.REPRODUCED, "two files of 5 min; the short one is left out")
        few = CLAIMS["Unity Render Streaming over Wi-Fi", "figure 19"].verdict(
            examples.of("lab wifi", examples.wifi(runs=2))
        )
        self.assertEqual(few.mark, Mark.INCONCLUSIVE)

    def test_a_series_of_few_frames_has_batches_too(self):
        claim = CLAIMS["OpenUVR", "section V-D1"]
        for ssim, mark in ((0.95, Mark.REPRODUCED), (0.85, Mark.NOT_REPRODUCED)):
            series = examples.quality(ssim=(ssim, ssim), batches=examples.TEN_MINUTES)
            series = examples.bench("quality", series)
            self.assertEqual(claim.verdict(series).mark, mark)
        short = examples.batches(*examples.around(0.93, 0.005, 6)) | {"seconds": 60.0}
        self.assertEqual(claim.verdict(examples.bench("quality", short)).mark, Mark.INCONCLUSIVE)

    def test_figures_of_each_frame_rate_need_all_three(self):
        for number in (10, 11, 12, 13, "15(b)", "15(c)", 18):
            claim = CLAIMS["Unity Render Streaming over Wi-Fi", f"figure {number}"]
            verdict = claim.verdict(examples.captures(rates=(90,)))
            self.assertEqual(verdict.mark, Mark.INCONCLUSIVE, verdict.why)
            self.assertIn("not captured at 30 and 60 frames/s", verdict.why)

    def test_table_3_needs_all_nine_streams(self):
        def leave_out(data):
            for one in data["captures"]:
                one["streams"] = [stream for stream in one["streams"] if stream["name"] != "STUN"]

        claim = CLAIMS["Unity Render Streaming over Wi-Fi", "figure 7, table 3"]
        verdict = claim.verdict(changed(examples.captures(), leave_out))
        self.assertEqual(verdict.mark, Mark.INCONCLUSIVE, verdict.why)
        self.assertIn("of STUN down, STUN up", verdict.why)

    def test_streams_of_one_kind_are_no_repetitions(self):
        def repeat(data):
            for one in data["captures"]:
                one["streams"] = one["streams"] * 3

        claim = CLAIMS["Unity Render Streaming over Wi-Fi", "figure 7, table 3"]
        verdict = claim.verdict(changed(examples.captures(runs=1), repeat))
        self.assertEqual(verdict.mark, Mark.INCONCLUSIVE, verdict.why)
        self.assertIn("there are only 1", verdict.why)

    def test_captures_of_other_frame_rates_are_no_repetitions(self):
        """Figure 18 has the same value at 30 and at 90 frames/s."""
        claim = CLAIMS["Unity Render Streaming over Wi-Fi", "figure 18"]
        mixed = examples.captures(runs=2)
        mixed.add("lab traffic", examples.traffic(rate=30)).add("lab traffic", examples.traffic(rate=60))
        self.assertEqual(claim.verdict(mixed).mark, Mark.INCONCLUSIVE)
        self.assertEqual(claim.verdict(mixed.add("lab traffic", examples.traffic())).mark, Mark.REPRODUCED)

    def test_missing_batches_and_other_frame_rates(self):
        claim = CLAIMS["OpenUVR", "section V-D1"]
        whole = examples.batches(*examples.around(0.93, 0.001, 60))
        self.assertIn("scene: mean SSIM", claim.verdict(examples.bench("quality", whole)).why)
        holes = examples.batches(*examples.around(0.93, 0.001, 5))
        verdict = claim.verdict(examples.bench("quality", holes))
        self.assertEqual(verdict.mark, Mark.INCONCLUSIVE)
        self.assertIn("50 s were measured", verdict.why)
        for other in ({"fps": 20}, {"target_mbps": 200.0}):
            verdict = claim.verdict(examples.bench("quality", whole | other))
            self.assertEqual(verdict.mark, Mark.INCONCLUSIVE, other)

    def test_a_busy_run_with_other_options_is_no_doubt(self):
        claim = CLAIMS["OpenUVR", "section V-D1"]
        batches = examples.batches(*examples.around(0.93, 0.001, 60)) | {"command": "bench quality --batches"}
        others = {"points": [], "other_cores": 0.5}
        for command, mark in (("bench quality", Mark.REPRODUCED), ("bench quality --batches", Mark.INCONCLUSIVE)):
            results = examples.bench("quality", batches).add("bench quality", others | {"command": command})
            self.assertEqual(claim.verdict(results).mark, mark, command)

    def test_figure_4_needs_each_program_that_runs_here(self):
        def without(*names):
            data = examples.peers()
            data["ways"] = [way for way in data["ways"] if way["name"] not in names]
            return CLAIMS["OpenUVR", "figure 4"].verdict(examples.bench("peers", data))

        some = without("gstreamer", "tigervnc")
        self.assertEqual(some.mark, Mark.INCONCLUSIVE)
        self.assertIn("not measured: gstreamer, tigervnc", some.why)
        self.assertEqual(without("gaminganywhere").mark, Mark.NOT_TESTABLE)

    def test_captures_that_are_short_generated_or_wired(self):
        over_wifi = ("figure 15(a)", "figure 15(b)", "section 7.2", "figure 15(c)", "figure 16", "figure 18")
        for changes, place, mark in (
            ({"seconds": 5.0}, "figure 11", Mark.INCONCLUSIVE),
            ({"generated": True}, "figure 11", Mark.INCONCLUSIVE),
            ({"medium": "wired"}, "figure 11", Mark.REPRODUCED),
            *(({"medium": "wired"}, place, Mark.NOT_TESTABLE) for place in over_wifi),
        ):
            claim = CLAIMS["Unity Render Streaming over Wi-Fi", place]
            verdict = claim.verdict(examples.captures(**changes))
            self.assertEqual(verdict.mark, mark, f"{changes}, {place}: {verdict.why}")
        for place in over_wifi:
            claim = CLAIMS["Unity Render Streaming over Wi-Fi", place]
            verdict = claim.verdict(examples.captures(medium="wifi-model"))
            self.assertEqual(verdict.mark, Mark.REPRODUCED, f"{place}: {verdict.why}")
            self.assertIn("over the model of Wi-Fi", verdict.why)
        unknown = examples.traffic() | {"nominal_fps": None}
        verdict = CLAIMS["Unity Render Streaming over Wi-Fi", "figure 10"].verdict(examples.of("lab traffic", unknown))
        self.assertEqual(verdict.mark, Mark.NOT_MEASURED, "the reference is never chosen from the measurement")

    def test_variants_count_only_for_the_appendix(self):
        slow = examples.captures()
        for _ in range(3):
            slow.add("lab traffic", examples.traffic(rate=60, variant="vp9", frame=100.0))
        claim = CLAIMS["Unity Render Streaming over Wi-Fi", "figure 10"]
        self.assertEqual(claim.verdict(slow).mark, Mark.REPRODUCED)
        for place in ("appendix B, pattern", "appendix B, VP9"):
            verdict = CLAIMS["Unity Render Streaming over Wi-Fi", place].verdict(examples.captures())
            self.assertEqual(verdict.mark, Mark.INCONCLUSIVE, verdict.why)
            self.assertIn("not captured at 60 frames/s", verdict.why)

    def test_topologies_under_other_conditions_do_not_count(self):
        weak = examples.topology() | {"changes": "mcs=4"}
        for place in ("figure 11, topology", "section IV-B1"):
            verdict = CLAIMS["OpenUVR", place].verdict(examples.of("lab wifi", weak))
            self.assertEqual(verdict.mark, Mark.NOT_MEASURED)
            few = CLAIMS["OpenUVR", place].verdict(examples.of("lab wifi", examples.topology(runs=2)))
            self.assertEqual(few.mark, Mark.INCONCLUSIVE)

    def test_few_samples_and_incomplete_cells(self):
        claim = CLAIMS["SEARIS: application-stage latencies", "threads"]
        few = examples.lab_jitter(examples.ping_pong("pthread", 30.0, count=16_000))
        self.assertEqual(claim.verdict(few).mark, Mark.INCONCLUSIVE)
        broken = examples.lab_jitter(examples.ping_pong("pthread", 30.0, error="the probe died"))
        self.assertEqual(claim.verdict(broken).mark, Mark.NOT_MEASURED)

    def test_other_numbers_of_pairs_do_not_count(self):
        claim = CLAIMS["SEARIS: application-stage latencies", "threads"]
        self.assertEqual(claim.verdict(examples.pairs((30.0, 1.0), (30.0, 1.0))).mark, Mark.NOT_MEASURED)

    def test_short_runs_count_only_for_the_claim_about_longer_runs(self):
        claim = CLAIMS["SEARIS: application-stage latencies", "threads"]
        verdict = claim.verdict(examples.lengths((300.0, 1.0), (30.0, 1.0)))
        self.assertEqual(verdict.mark, Mark.REPRODUCED, verdict.why)
        flood = examples.cell("pekko/flood/other/cms", command="java Actors --samples 1000000")
        self.assertFalse(searis.is_short({}, flood))

    def test_without_a_kernel_with_the_patch_nothing_is_judged(self):
        claim = CLAIMS["SEARIS: application-stage latencies", "RT kernel"]
        plain = examples.lab_jitter(examples.ping_pong("pthread", 30.0))
        self.assertEqual(claim.verdict(plain).mark, Mark.NOT_TESTABLE)

    def test_the_number_of_pairs_is_that_of_the_cell(self):
        """`lab jitter --only` adds cells to a folder, whose file has the command line of the last run."""
        claim = CLAIMS["SEARIS: application-stage latencies", "threads"]
        kept = examples.lab_jitter(examples.ping_pong("pthread", 30.0, command="cpp-pthread --pairs 16 --rate 240"))
        for result in kept.all:
            result.data["command"] = "openuvr lab jitter --only caf/ping-pong/other --pairs 64 --out a"
        self.assertEqual(claim.verdict(kept).mark, Mark.REPRODUCED)
        other = changed(kept, lambda data: data["cells"][0].update(command="cpp-pthread --pairs 64 --rate 240"))
        self.assertEqual(claim.verdict(other).mark, Mark.NOT_MEASURED)

    def test_akka_needs_both_patterns(self):
        claim = CLAIMS["SEARIS: application-stage latencies", "Akka"]
        cells = examples.ping_pong("java", 60.0), examples.ping_pong("pekko", 0.2)
        self.assertEqual(claim.verdict(examples.lab_jitter(*cells)).mark, Mark.INCONCLUSIVE)
        flood = examples.cell("pekko/flood/other/cms", 297_000.0)
        self.assertEqual(claim.verdict(examples.lab_jitter(*cells, flood)).mark, Mark.INCONCLUSIVE)

    def test_collectors_need_all_cells(self):
        claim = CLAIMS["SEARIS: application-stage latencies", "collectors"]
        left_out = "pekko/ping-pong/rr/serial"
        without = [one for one in examples.collectors(examples.AS_IN_SLIDES) if one["cell"] != left_out]
        verdict = claim.verdict(examples.lab_jitter(*without))
        self.assertEqual(verdict.mark, Mark.INCONCLUSIVE, verdict.why)
        self.assertIn(f"not measured: {left_out}", verdict.why)

    def test_outliers_without_a_log_of_pauses_do_not_count(self):
        def lose_log(data):
            for one in data["cells"]:
                if one["cell"] == "pekko/ping-pong/rr/cms":
                    one["analysis"]["outliers"][0] |= {"in_pauses": None, "by_chance": None}

        key = "SEARIS: application-stage latencies", "collectors"
        verdict = CLAIMS[key].verdict(changed(examples.EXAMPLES[key][0], lose_log))
        self.assertEqual(verdict.mark, Mark.INCONCLUSIVE, verdict.why)
        self.assertIn("not measured: pekko/ping-pong/rr/cms", verdict.why)

    def test_cells_of_two_machines_are_not_compared(self):
        machines = [{"cpu": "A", "cores": cores, "kernel": kernel} for cores, kernel in MACHINES]
        machines.append(machines[0] | {"cpu": "B"})
        for key, claim, results in every_example():
            if "lab jitter" not in " ".join(claim.sources):
                continue
            results = copy.deepcopy(results)
            for other in machines:
                results.all[0].data["machine"] = machines[0]
                for result in results.all[1:]:
                    result.data["machine"] = other
                is_decided = claim.verdict(results).mark in DECIDED
                self.assertEqual(is_decided, other is machines[0], f"{key}: {other}")

    def test_kernels_with_and_without_the_patch_are_compared(self):
        key = "SEARIS: application-stage latencies", "RT kernel"
        results = Results()
        for one in examples.EXAMPLES[key][0].all:
            for is_patched, kernel in ((False, "6.12"), (True, "6.12-rt")):
                kept = [cell for cell in one.data["cells"] if cell["conditions"]["real_time_kernel"] is is_patched]
                results.add("lab jitter", {"cells": kept, "machine": {"cpu": "A", "cores": 2, "kernel": kernel}})
        verdict = CLAIMS[key].verdict(results)
        self.assertEqual(verdict.mark, Mark.REPRODUCED, verdict.why)

    def test_an_alternative_that_did_not_run_is_not_testable(self):
        ablated = examples.ablation()
        ablated["links"][1] = {"name": "raw Ethernet", "unavailable": "needs CAP_NET_RAW"}
        verdict = CLAIMS["OpenUVR", "figure 11, direct network I/O"].verdict(examples.bench("ablation", ablated))
        self.assertEqual(verdict.mark, Mark.NOT_TESTABLE)
        self.assertIn("CAP_NET_RAW", verdict.why)


if __name__ == "__main__":
    unittest.main()
