//! Repeats scenarios with several seeds, and computes statistics over the runs.

use openuvr_proto::quantile::at_share;

use super::scenario::{Run, Scenario};
use super::statistics::Estimate;
use super::{Impossible, Nanos, SECOND, milliseconds};

/// The repetitions of a scenario, with the seeds `seed`, `seed + 1`, …
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repetition {
    /// Number of runs.
    pub runs: u32,
    /// The first seed.
    pub seed: u64,
}

/// The distribution of a quantity over all runs, and the mean of the runs' means.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// The mean, estimated from the means of the runs.
    pub mean: Estimate,
    /// Number of values.
    pub count: usize,
    /// The quantiles at [`SHARES`], over all values.
    pub quantiles: [f64; SHARES.len()],
}

/// The shares whose quantiles are computed. The first gives the minimum, and the last the maximum.
pub const SHARES: [f64; 10] = [0.0, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 0.9999, 1.0];

/// Summary of several runs of a scenario. Times are in milliseconds.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// Delay of video packets from the server.
    pub packets: Option<Spread>,
    /// Delay of video packets from their arrival in the access point's queue.
    pub packets_from_queue: Option<Spread>,
    /// Delay of complete frames, from the sending of the first packet to the delivery of the last.
    pub frames: Option<Spread>,
    /// Assembly delay of complete frames, from the delivery of the first packet to the delivery of the last.
    pub assembly: Option<Spread>,
    /// Delay of the controllers' packets.
    pub uplink: Option<Spread>,
    /// MPDUs in a PPDU of the access point.
    pub attempted: Option<Spread>,
    /// MPDUs delivered in a PPDU.
    pub delivered: Option<Spread>,
    /// Airtime of the access point, including AIFS, in percent.
    pub down: Option<Estimate>,
    /// Airtime of the stations, in percent.
    pub up: Option<Estimate>,
    /// Airtime of collisions, in percent.
    pub collided: Option<Estimate>,
    /// Mean number of packets queued at the access point when a packet arrives.
    pub found: Option<Estimate>,
    /// Share of packets that found at least one packet queued at the access point, in percent.
    pub found_some: Option<Estimate>,
    /// Transmissions of the access point per second.
    pub transmissions: Option<Estimate>,
    /// Share of packets that were lost (refused or given up), in percent.
    pub lost: Option<Estimate>,
    /// Share of incomplete frames, in percent.
    pub broken: Option<Estimate>,
    /// Delivered video to all viewers together, in megabits per second.
    pub throughput: Option<Estimate>,
}

/// The reason why there is no summary.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unfinished {
    /// The scenario is impossible.
    #[error(transparent)]
    Impossible(#[from] Impossible),
    /// The runs were interrupted.
    #[error("interrupted")]
    Interrupted,
}

impl Repetition {
    /// Runs a scenario repeatedly. `keep_going` is called before each run. If it returns false, the repetition stops.
    ///
    /// # Errors
    /// Returns an error if the scenario is impossible, or if `keep_going` has returned false.
    pub fn run(
        &self,
        scenario: &Scenario,
        keep_going: &mut dyn FnMut() -> bool,
    ) -> Result<Summary, Unfinished> {
        Ok(Summary::of(&self.runs(scenario, keep_going)?))
    }

    /// Like [`Repetition::run`], but returns the runs themselves, for data that a summary lacks.
    ///
    /// # Errors
    /// As for [`Repetition::run`].
    pub fn runs(
        &self,
        scenario: &Scenario,
        keep_going: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<Run>, Unfinished> {
        if self.runs == 0 {
            let what = "0 runs are too few: at least 1";
            return Err(Impossible(what.into()).into());
        }
        scenario.check()?;
        let mut runs = Vec::new();
        for number in 0..u64::from(self.runs) {
            if !keep_going() {
                return Err(Unfinished::Interrupted);
            }
            runs.push(scenario.run(self.seed.wrapping_add(number))?);
        }
        Ok(runs)
    }
}

impl Summary {
    /// Summarises runs of one scenario.
    #[must_use]
    pub fn of(runs: &[Run]) -> Summary {
        let times = |of: fn(&Run) -> &[Nanos]| Spread::of(runs, of, milliseconds);
        let sizes = |of: fn(&Run) -> &[u32]| Spread::of(runs, of, f64::from);
        let each = |of: &dyn Fn(&Run) -> Option<f64>| Estimate::of(runs.iter().map(of));
        let taken =
            |of: fn(&Run) -> Nanos| each(&|run| Some(100.0 * of(run) as f64 / run.lasted as f64));
        Summary {
            packets: times(|run| &run.delays),
            packets_from_queue: times(|run| &run.delays_from_queue),
            frames: times(|run| &run.frames),
            assembly: times(|run| &run.assembly),
            uplink: times(|run| &run.uplink),
            attempted: sizes(|run| &run.attempted),
            delivered: sizes(|run| &run.delivered),
            down: taken(|run| run.down),
            up: taken(|run| run.up),
            collided: taken(|run| run.collided),
            found: each(&|run| share(run.account.found, run.account.came)),
            found_some: each(&|run| percent(run.account.found_some, run.account.came)),
            transmissions: each(&|run| Some(per_second(run.attempted.len() as f64, run))),
            lost: each(&|run| {
                let account = run.account;
                percent(account.refused + account.given_up, account.offered)
            }),
            broken: each(&|run| {
                let whole = run.frames.len() as u64;
                percent(run.broken_frames, run.broken_frames + whole)
            }),
            throughput: each(&|run| Some(per_second(run.bytes as f64 * 8.0 / 1e6, run))),
        }
    }
}

fn share(part: u64, of: u64) -> Option<f64> {
    (of > 0).then(|| part as f64 / of as f64)
}

fn percent(part: u64, of: u64) -> Option<f64> {
    share(part, of).map(|share| share * 100.0)
}

fn per_second(count: f64, run: &Run) -> f64 {
    count * SECOND as f64 / run.lasted as f64
}

impl Spread {
    fn of<T: Copy + Ord>(
        runs: &[Run],
        of: fn(&Run) -> &[T],
        number: fn(T) -> f64,
    ) -> Option<Spread> {
        let mean = Estimate::of(runs.iter().map(|run| {
            let values = of(run);
            let sum: f64 = values.iter().map(|value| number(*value)).sum();
            (!values.is_empty()).then(|| sum / values.len() as f64)
        }))?;
        let mut all: Vec<T> = runs
            .iter()
            .flat_map(|run| of(run).iter().copied())
            .collect();
        all.sort_unstable();
        let quantiles = SHARES.map(|share| at_share(&all, share).map_or(f64::NAN, number));
        Some(Spread {
            mean,
            count: all.len(),
            quantiles,
        })
    }

    /// The quantile at a share, which must be in [`SHARES`]. NaN for other shares.
    #[must_use]
    pub fn at(&self, share: f64) -> f64 {
        let place = SHARES.iter().position(|known| *known == share);
        place.map_or(f64::NAN, |place| self.quantiles[place])
    }
}
