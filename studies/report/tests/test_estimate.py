"""Means and confidence intervals, against textbook values."""

import unittest

from report import estimate


class EstimateTest(unittest.TestCase):
    def test_the_interval_is_students(self):
        # The mean is 3, the standard deviation is 1.5811, and t(4) = 2.776.
        found = estimate.of([1, 2, 3, 4, 5])
        self.assertAlmostEqual(found.mean, 3.0)
        self.assertAlmostEqual(found.half, 2.776 * 1.5811388 / 5**0.5, places=4)
        self.assertEqual(found.text(1, "ms"), "3.0 ± 2.0 ms")

    def test_a_single_run_has_no_interval(self):
        self.assertIsNone(estimate.of([]))
        self.assertIsNone(estimate.of([float("nan"), None]))
        single = estimate.of([4.0])
        self.assertEqual((single.mean, single.half, single.low), (4.0, None, None))
        self.assertEqual(single.text(), "4.00")

    def test_a_difference_is_welchs(self):
        # With equal variances and sizes, there are 2 (n - 1) = 8 degrees of freedom.
        found = estimate.difference([11, 12, 13, 14, 15], [1, 2, 3, 4, 5])
        self.assertAlmostEqual(found.mean, 10.0)
        self.assertAlmostEqual(found.half, 2.306 * (2.5 / 5 * 2) ** 0.5, places=3)
        self.assertEqual(estimate.difference([3, 3], [1, 1]).half, 0.0)
        self.assertIsNone(estimate.difference([], [1]))
        self.assertIsNone(estimate.difference([3], [1, 2]).half)

    def test_a_ratio_has_bounds_on_both_sides(self):
        times = estimate.ratio([38.0, 40.0, 42.0], [9.5, 10.0, 10.5])
        self.assertAlmostEqual(times.mean, 4.0, places=2)
        self.assertTrue(times.low < 4.0 < times.high)
        self.assertEqual(times.runs, 3)
        self.assertIsNone(estimate.ratio([1.0], [0.0]))
        single = estimate.ratio([8.0], [2.0])
        self.assertEqual((single.low, single.text()), (None, "4.00"))

    def test_the_errors_of_a_quotient_add_in_squares(self):
        found = estimate.quotient(estimate.Estimate(10.0, 0.3, 5), estimate.Estimate(5.0, 0.2, 4))
        self.assertAlmostEqual(found.mean, 2.0)
        self.assertAlmostEqual(found.half, 2.0 * (0.03**2 + 0.04**2) ** 0.5)
        self.assertEqual(found.runs, 4)
        self.assertIsNone(estimate.quotient(found, estimate.Estimate(0.0, 0.1, 4)))

    def test_a_ratio_of_ratios_has_bounds(self):
        above, below = estimate.Interval(4.0, 8.0, 16.0, 5), estimate.Interval(1.0, 2.0, 4.0, 4)
        found = estimate.relative(above, below)
        self.assertAlmostEqual(found.mean, 4.0)
        self.assertAlmostEqual(found.high, 4.0 * 2**2**0.5)
        self.assertEqual(found.runs, 4)
        self.assertIsNone(estimate.relative(estimate.Interval(None, 2.0, None), below).low)

    def test_a_difference_of_estimates_adds_variances(self):
        found = estimate.less(estimate.Estimate(5.0, 3.0, 9), estimate.Estimate(1.0, 4.0, 8))
        self.assertEqual((found.mean, found.half, found.runs), (4.0, 5.0, 8))

    def test_many_degrees_of_freedom_approach_the_normal_distribution(self):
        self.assertAlmostEqual(estimate.t95(30), 2.042)
        self.assertAlmostEqual(estimate.t95(1000), 1.96, places=2)
        self.assertGreater(estimate.t95(31), 1.96)

    def test_sums_add_variances(self):
        parts = [estimate.Estimate(1.0, 3.0, 5), estimate.Estimate(2.0, 4.0, 5)]
        self.assertEqual((estimate.total(parts).mean, estimate.total(parts).half), (3.0, 5.0))


if __name__ == "__main__":
    unittest.main()
