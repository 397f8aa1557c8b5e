"""Means with 95 % confidence intervals of repeated measurements."""

import math
from dataclasses import dataclass

# Two-sided 95 % quantiles of Student's t, by degrees of freedom.
_T95 = [
    12.706,
    4.303,
    3.182,
    2.776,
    2.571,
    2.447,
    2.365,
    2.306,
    2.262,
    2.228,
    2.201,
    2.179,
    2.160,
    2.145,
    2.131,
    2.120,
    2.110,
    2.101,
    2.093,
    2.086,
    2.080,
    2.074,
    2.069,
    2.064,
    2.060,
    2.056,
    2.052,
    2.048,
    2.045,
    2.042,
]


def t95(freedom):
    """Student's t for a 95 % interval; fractional degrees of freedom are rounded down, which widens the interval."""
    whole = int(freedom)
    if whole < 1:
        return math.inf
    return _T95[whole - 1] if whole <= len(_T95) else 1.96 + 2.5 / whole


@dataclass(frozen=True)
class Estimate:
    """A mean; `half` is half of its 95 % confidence interval, None for a single run."""

    mean: float
    half: float | None = None
    runs: int = 1

    @property
    def low(self):
        return self.mean - self.half if self.half is not None else None

    @property
    def high(self):
        return self.mean + self.half if self.half is not None else None

    def text(self, digits=2, unit=""):
        suffix = f" {unit}" if unit else ""
        if self.half is None:
            return f"{self.mean:.{digits}f}{suffix}"
        return f"{self.mean:.{digits}f} ± {self.half:.{digits}f}{suffix}"


@dataclass(frozen=True)
class Interval:
    """A quantity whose 95 % confidence interval is not symmetric; `low` and `high` are None for a single run."""

    low: float | None
    mean: float
    high: float | None
    runs: int = 1

    def text(self, digits=2, unit=""):
        suffix = f" {unit}" if unit else ""
        if self.low is None:
            return f"{self.mean:.{digits}f}{suffix}"
        return f"{self.mean:.{digits}f}{suffix} (95 %: {self.low:.{digits}f} to {self.high:.{digits}f})"


def _moments(values):
    count = len(values)
    mean = sum(values) / count
    variance = sum((v - mean) ** 2 for v in values) / (count - 1) if count > 1 else None
    return count, mean, variance


def of(values):
    """The estimate from the values of independent runs; None if no value is finite."""
    values = [float(v) for v in values if v is not None and math.isfinite(v)]
    if not values:
        return None
    count, mean, variance = _moments(values)
    if variance is None:
        return Estimate(mean)
    return Estimate(mean, t95(count - 1) * math.sqrt(variance / count), count)


def runs_of(repeated):
    """The value of each run of a repeated measurement, which has the form that benches write."""
    return list((repeated or {}).get("values") or [])


def of_runs(repeated):
    """The estimate of a repeated measurement as benches write it: `{median, min, max, values}`."""
    return of(runs_of(repeated))


def difference(left, right):
    """The mean of `left` minus that of `right`, for unequal variances (Welch); None if `left` or `right` is empty."""
    if not left or not right:
        return None
    (n, mean, var), (m, other, var_other) = _moments(left), _moments(right)
    if var is None or var_other is None:
        return Estimate(mean - other, None, min(n, m))
    return _welch(mean - other, var / n, n, var_other / m, m)


def _welch(mean, error, n, error_other, m):
    both = error + error_other
    if both == 0:
        return Estimate(mean, 0.0, min(n, m))
    freedom = both**2 / (error**2 / (n - 1) + error_other**2 / (m - 1))
    return Estimate(mean, t95(freedom) * math.sqrt(both), min(n, m))


def ratio(left, right):
    """The ratio of the means of two quantities, each with one value per run; None unless all values are positive."""
    if not left or not right or min(*left, *right) <= 0:
        return None
    logs = difference([math.log(v) for v in left], [math.log(v) for v in right])
    if logs.half is None:
        return Interval(None, math.exp(logs.mean), None, logs.runs)
    return Interval(math.exp(logs.low), math.exp(logs.mean), math.exp(logs.high), logs.runs)


def quotient(above, below):
    """The ratio of two independent estimates; None if a mean is 0. The squares of the relative errors are added."""
    if not above.mean or not below.mean:
        return None
    times = above.mean / below.mean
    if above.half is None or below.half is None:
        return Estimate(times)
    error = math.hypot(above.half / above.mean, below.half / below.mean)
    return Estimate(times, abs(times) * error, min(above.runs, below.runs))


def relative(above, below):
    """The ratio of two independent ratios, each an Interval; without bounds if one of them has none."""
    if above.low is None or below.low is None:
        return Interval(None, above.mean / below.mean, None, min(above.runs, below.runs))
    logs = [Estimate(math.log(one.mean), math.log(one.high / one.low) / 2, one.runs) for one in (above, below)]
    found = less(*logs)
    return Interval(math.exp(found.low), math.exp(found.mean), math.exp(found.high), found.runs)


def less(left, right):
    """The difference of two independent estimates."""
    return total((left, Estimate(-right.mean, right.half, right.runs)))


def total(parts):
    """The sum of independent estimates; without an interval if one has none."""
    parts = list(parts)
    mean = sum(part.mean for part in parts)
    if any(part.half is None for part in parts):
        return Estimate(mean, None, min(part.runs for part in parts))
    return Estimate(mean, math.sqrt(sum(part.half**2 for part in parts)), min(part.runs for part in parts))
