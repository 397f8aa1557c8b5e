"""Verdicts: each claim can hold and can fail; quick runs, single runs and a busy machine decide nothing."""

import copy
import unittest

from report.marks import DECIDED, Mark
from report.papers import PAPERS
from report.results import Results

from . import examples

CLAIMS = {(paper, claim.place): claim for paper, claims in PAPERS for claim in claims}
NEVER_JUDGED = (Mark.NOT_TESTABLE, Mark.NOT_MEASURED)


def changed(results, change):
    """The same results after `change` of each file."""
    results = copy.deepcopy(results)
    for result in results.all:
        change(result.data)
    return results


class ClaimsTest(unittest.TestCase):
    def test_every_claim_can_hold_and_can_fail(self):
        for key, (supporting, refuting) in examples.EXAMPLES.items():
            with self.subTest(claim=key):
                claim = CLAIMS[key]
                held, failed = claim.verdict(supporting), claim.verdict(refuting)
                self.assertEqual(held.mark, Mark.REPRODUCED, held.why)
                self.assertEqual(failed.mark, Mark.NOT_REPRODUCED, failed.why)
        never = {key for key, claim in CLAIMS.items() if not claim.sources}
        self.assertEqual(set(CLAIMS) - never, set(examples.EXAMPLES), "each judged claim has examples")

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

        for key, sides in examples.EXAMPLES.items():
            for results in sides:
                verdict = CLAIMS[key].verdict(changed(results, quick))
                self.assertNotIn(verdict.mark, DECIDED, f"{key}: {verdict.why}")

    def test_a_busy_machine_decides_nothing_about_times(self):
        def busy(data):
            for part in [data, *data.get("cells", [])]:
                part["other_cores"] = 0.5

        for key, sides in examples.EXAMPLES.items():
            claim = CLAIMS[key]
            if claim.is_timed or claim.is_by_cell:
                for results in sides:
                    self.assertNotIn(claim.verdict(changed(results, busy)).mark, DECIDED, key)

    def test_a_single_run_decides_nothing_about_latency(self):
        def single(data):
            seen = set()
            runs = data.get("runs")
            if isinstance(runs, list):
                data["runs"] = [r for r in runs if not (r["configuration"] in seen or seen.add(r["configuration"]))]
            for way in data.get("ways", []):
                for part in (way, way.get("direct", {})):
                    if "p50_ms" in part:
                        part["p50_ms"]["values"] = part["p50_ms"]["values"][:1]

        for key in [("OpenUVR", f"figure {n}") for n in ("6", "10", "11, all", "4", "11, data sharing")]:
            for results in examples.EXAMPLES[key]:
                verdict = CLAIMS[key].verdict(changed(results, single))
                self.assertEqual(verdict.mark, Mark.INCONCLUSIVE, f"{key}: {verdict.why}")

    def test_the_pacer_of_the_bench_does_not_count(self):
        """The examples' burst saves waits of 5 ms; these do not count in the latency of the conventional stream."""
        verdict = CLAIMS["OpenUVR", "figure 10"].verdict(examples.bench("ablation", examples.ablation(40.0, 10.0)))
        self.assertIn("against 35.0", verdict.why)
        close = CLAIMS["OpenUVR", "figure 10"].verdict(examples.bench("ablation", examples.ablation(40.0, 14.0)))
        self.assertEqual(close.mark, Mark.NOT_REPRODUCED, "2.5 times with the pacer's 40 ms would be 2.9")

    def test_data_without_a_meaning_are_inconclusive(self):
        noisy = examples.bench("ablation", examples.ablation(conventional=3.0, ours=10.0))
        self.assertEqual(CLAIMS["OpenUVR", "figure 10"].verdict(noisy).mark, Mark.INCONCLUSIVE)
        few = examples.latency()
        few["cases"][0]["stream"]["reaction_ms"] = [20.0] * 4
        verdict = CLAIMS["GamingAnywhere", "figure 7, response"].verdict(examples.bench("latency", few))
        self.assertEqual(verdict.mark, Mark.INCONCLUSIVE)

    def test_other_conditions_than_the_papers_decide_nothing(self):
        less = examples.quality(ssim=(0.95, 0.94)) | {"seconds": 6.0, "target_mbps": 3.0}
        verdict = CLAIMS["OpenUVR", "section V-D1"].verdict(examples.bench("quality", less))
        self.assertEqual(verdict.mark, Mark.INCONCLUSIVE)
        self.assertIn("10 min", verdict.why)
        few = CLAIMS["Unity Render Streaming over Wi-Fi", "figure 19"].verdict(
            examples.of("lab wifi", examples.wifi(runs=2))
        )
        self.assertEqual(few.mark, Mark.INCONCLUSIVE)

    def test_captures_that_are_short_generated_or_wired(self):
        claims = {place: CLAIMS["Unity Render Streaming over Wi-Fi", place] for place in ("figure 11", "figure 16")}
        for changes, place, mark in (
            ({"seconds": 5.0}, "figure 11", Mark.INCONCLUSIVE),
            ({"generated": True}, "figure 11", Mark.INCONCLUSIVE),
            ({"medium": "wired"}, "figure 11", Mark.REPRODUCED),
            ({"medium": "wired"}, "figure 16", Mark.NOT_TESTABLE),
        ):
            verdict = claims[place].verdict(examples.of("lab traffic", examples.traffic(**changes)))
            self.assertEqual(verdict.mark, mark, f"{changes}, {place}: {verdict.why}")
        unknown = examples.traffic() | {"nominal_fps": None}
        verdict = CLAIMS["Unity Render Streaming over Wi-Fi", "figure 10"].verdict(examples.of("lab traffic", unknown))
        self.assertEqual(verdict.mark, Mark.NOT_MEASURED, "the reference is never chosen from the measurement")

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

    def test_akka_needs_both_patterns(self):
        claim = CLAIMS["SEARIS: application-stage latencies", "Akka"]
        cells = examples.ping_pong("java", 60.0), examples.ping_pong("pekko", 0.2)
        self.assertEqual(claim.verdict(examples.lab_jitter(*cells)).mark, Mark.INCONCLUSIVE)
        flood = examples.cell("pekko/flood/other/cms", 297_000.0)
        self.assertEqual(claim.verdict(examples.lab_jitter(*cells, flood)).mark, Mark.INCONCLUSIVE)

    def test_an_alternative_that_did_not_run_is_not_testable(self):
        ablated = examples.ablation()
        ablated["links"][1] = {"name": "raw Ethernet", "unavailable": "needs CAP_NET_RAW"}
        verdict = CLAIMS["OpenUVR", "figure 11, direct network I/O"].verdict(examples.bench("ablation", ablated))
        self.assertEqual(verdict.mark, Mark.NOT_TESTABLE)
        self.assertIn("CAP_NET_RAW", verdict.why)


if __name__ == "__main__":
    unittest.main()
