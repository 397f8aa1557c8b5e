//! A text summary of a client's sound playback, for the table and for plain lines.

use std::time::Duration;

use openuvr_proto::wire::control::AudioReport;

/// Sample frames per second.
const RATE: f64 = 48_000.0;

/// Latency, losses and buffering in one line.
pub(super) fn in_words(report: &AudioReport) -> String {
    let ms = |span: Duration| format!("{:.1}", span.as_secs_f64() * 1e3);
    let mut words = match (report.latency, report.latency_p99) {
        (Some(median), Some(p99)) => format!("sound p50 {} p99 {} ms", ms(median), ms(p99)),
        _ => "sound: not playing".to_owned(),
    };
    if let Some(bound) = report.bound {
        words += &format!(" ±{}", ms(bound));
    }
    words += &format!(", buffer {} ms", ms(report.target));
    if report.concealed > 0 {
        let seconds = report.concealed as f64 / RATE;
        let longest = f64::from(report.longest_concealment) / RATE * 1e3;
        words += &format!(", {seconds:.2} s concealed, longest gap {longest:.0} ms");
    }
    if report.discarded > 0 {
        words += &format!(", {} packets late", report.discarded);
    }
    if report.underruns > 0 {
        words += &format!(", {} underruns", report.underruns);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_values_and_zero_counts_are_omitted() {
        let ms = Duration::from_millis;
        let mut report = AudioReport {
            target: ms(9),
            ..AudioReport::default()
        };
        assert_eq!(in_words(&report), "sound: not playing, buffer 9.0 ms");
        (report.latency, report.latency_p99) = (Some(ms(21)), Some(ms(30)));
        (report.bound, report.concealed) = (Some(Duration::from_micros(150)), 4800);
        (report.underruns, report.longest_concealment) = (2, 720);
        report.discarded = 3;
        let want = "sound p50 21.0 p99 30.0 ms ±0.1, buffer 9.0 ms, 0.10 s concealed, longest gap 15 ms, \
                    3 packets late, 2 underruns";
        assert_eq!(in_words(&report), want);
    }
}
