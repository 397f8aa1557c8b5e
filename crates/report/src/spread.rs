//! The distribution of a time span, as percentiles over the last seconds and over the whole run.
//!
//! A percentile is the [nearest rank](nearest_rank).

use std::collections::VecDeque;
use std::time::Duration;

use hdrhistogram::Histogram;
use openuvr_proto::quantile::nearest_rank;
use openuvr_proto::time::Instant;

/// The period that the recent values cover.
pub(super) const WINDOW: Duration = Duration::from_secs(5);

/// The maximum number of recent values: twice the number in [`WINDOW`] at 240 frames/s.
const MAX_RECENT: usize = 2400;

/// The maximum span. Longer spans count as this span.
const MAX_SPAN: Duration = Duration::from_secs(3600);

/// The percentiles of a set of values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Percentiles {
    /// Half of the values are at most this.
    pub(super) p50: Duration,
    /// 95 % of the values are at most this.
    pub(super) p95: Duration,
    /// 99 % of the values are at most this.
    pub(super) p99: Duration,
    /// The largest value.
    pub(super) max: Duration,
}

/// The values of one span, in bounded memory: the recent values, and a histogram in microseconds with three significant
/// digits (HDR: an error of at most 0.1 %). The histogram takes about 20 KiB for spans of milliseconds and less than
/// 100 KiB for [`MAX_SPAN`].
#[derive(Debug)]
pub(super) struct Spread {
    recent: VecDeque<(Instant, Duration)>,
    run: Option<Histogram<u32>>,
}

impl Spread {
    pub(super) fn new() -> Spread {
        Spread {
            recent: VecDeque::new(),
            // `Histogram::new` fails only for an invalid number of digits.
            run: Histogram::new(3).ok(),
        }
    }

    pub(super) fn add(&mut self, now: Instant, value: Duration) {
        self.expire(now);
        if self.recent.len() == MAX_RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back((now, value));
        if let Some(run) = &mut self.run {
            let micros = value.min(MAX_SPAN).as_nanos().div_ceil(1000);
            // The histogram grows as required, up to `MAX_SPAN`, so this does not fail.
            let _ = run.record(u64::try_from(micros).unwrap_or(u64::MAX));
        }
    }

    /// The number of values in the whole run.
    pub(super) fn count(&self) -> u64 {
        self.run.as_ref().map_or(0, Histogram::len)
    }

    /// The percentiles over the last [`WINDOW`].
    pub(super) fn recent(&mut self, now: Instant) -> Option<Percentiles> {
        self.expire(now);
        let mut sorted: Vec<Duration> = self.recent.iter().map(|(_, value)| *value).collect();
        sorted.sort_unstable();
        let rank = |percent| nearest_rank(&sorted, percent);
        Some(Percentiles {
            p50: rank(50)?,
            p95: rank(95)?,
            p99: rank(99)?,
            max: rank(100)?,
        })
    }

    /// The percentiles over the whole run.
    pub(super) fn run(&self) -> Option<Percentiles> {
        let run = self.run.as_ref().filter(|run| !run.is_empty())?;
        let rank = |quantile| Duration::from_micros(run.value_at_quantile(quantile).min(run.max()));
        Some(Percentiles {
            p50: rank(0.50),
            p95: rank(0.95),
            p99: rank(0.99),
            max: Duration::from_micros(run.max()),
        })
    }

    fn expire(&mut self, now: Instant) {
        while let Some((at, _)) = self.recent.front()
            && now.since(*at) > WINDOW
        {
            self.recent.pop_front();
        }
    }
}
