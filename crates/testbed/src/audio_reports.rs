//! Clients' audio reports, from the columns of a host's CSV.

use std::path::Path;

use anyhow::{Context as _, Result};
use openuvr_media::audio::RATE;

use crate::stats::Summary;

/// A client's audio reports, as recorded by the host.
#[derive(Clone, PartialEq, Debug)]
pub struct SoundFigures {
    /// Latency from capture to playback, ms: the median of each report.
    pub latencies: Vec<f64>,
    /// Target playout delay, ms, from the last report.
    pub delay: f64,
    /// Number of concealed sample frames since the start.
    pub concealed: u64,
    /// The longest gap between payloads, in sample frames. It consists of the concealment and of any silence that
    /// followed it.
    pub longest: u64,
    /// Number of payloads that arrived too late.
    pub discarded: u64,
    /// Number of underruns of the audio device.
    pub underruns: u64,
}

impl SoundFigures {
    /// Reads a host's CSV; `None` if the client sent no report.
    pub fn read(csv: &Path) -> Result<Option<SoundFigures>> {
        let text = std::fs::read_to_string(csv)
            .with_context(|| format!("can't read {}", csv.display()))?;
        Ok(SoundFigures::parse(&text))
    }

    fn parse(text: &str) -> Option<SoundFigures> {
        let mut lines = text.lines();
        let names: Vec<&str> = lines.next()?.split(',').collect();
        let place = |name| names.iter().position(|n| *n == name);
        let columns = [
            place("audio_delay_ns")?,
            place("audio_concealed_samples")?,
            place("audio_longest_concealment_samples")?,
            place("audio_discarded_payloads")?,
            place("audio_underruns")?,
        ];
        let latency = place("audio_latency_ns")?;
        let report = lines.filter_map(|line| {
            let fields: Vec<&str> = line.split(',').collect();
            let number = |column: usize| fields.get(column)?.parse::<u64>().ok();
            let [delay, concealed, longest, discarded, underruns] = columns.map(number);
            let sums = [concealed?, longest?, discarded?, underruns?];
            Some((number(latency), delay?, sums))
        });
        // Many consecutive rows contain the same report.
        let mut reports: Vec<(Option<u64>, u64, [u64; 4])> = report.collect();
        reports.dedup();
        let (_, delay, [concealed, longest, discarded, underruns]) = *reports.last()?;
        let latencies = reports.iter().filter_map(|(latency, ..)| *latency);
        Some(SoundFigures {
            latencies: latencies.map(ms).collect(),
            delay: ms(delay),
            concealed,
            longest,
            discarded,
            underruns,
        })
    }

    /// The longest gap between payloads, ms.
    pub fn longest_ms(&self) -> f64 {
        self.longest as f64 / f64::from(RATE) * 1e3
    }
}

fn ms(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e6
}

impl std::fmt::Display for SoundFigures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match Summary::of(&self.latencies) {
            Some(s) => write!(
                f,
                "sound captured -> heard, reported by the client: p50 {:.1} ms",
                s.p50
            )?,
            None => write!(f, "sound: nothing was played")?,
        }
        let seconds = self.concealed as f64 / f64::from(RATE);
        write!(f, ", buffer {:.1} ms, {seconds:.2} s concealed", self.delay)?;
        match self.longest {
            0 => Ok(()),
            _ => write!(f, ", longest gap {:.0} ms", self.longest_ms()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_repeat_a_report_are_one() {
        let text = "frame,audio_latency_ns,audio_delay_ns,audio_concealed_samples,audio_longest_concealment_samples,\
            audio_discarded_payloads,audio_underruns\n1,,,,,,\n2,,9000000,0,0,0,0\n\
            3,20000000,9000000,0,0,0,0\n4,20000000,9000000,0,0,0,0\n\
            5,22000000,10000000,4800,720,2,1\n";
        let figures = SoundFigures::parse(text).unwrap();
        assert_eq!(figures.latencies, [20.0, 22.0]);
        assert_eq!((figures.delay, figures.concealed), (10.0, 4800));
        assert_eq!((figures.discarded, figures.underruns), (2, 1));
        assert!(
            figures
                .to_string()
                .ends_with("buffer 10.0 ms, 0.10 s concealed, longest gap 15 ms")
        );
        assert_eq!(SoundFigures::parse("frame,audio_latency_ns\n1,2\n"), None);
    }
}
