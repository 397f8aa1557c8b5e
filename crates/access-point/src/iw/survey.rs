//! `iw dev IFACE survey dump`: the channel use that the card has measured during a scan.
//!
//! ```text
//! Survey data from wlan0
//!         frequency:                      5180 MHz [in use]
//!         noise:                          -95 dBm
//!         channel active time:            123 ms
//!         channel busy time:              45 ms
//!         channel receive time:           30 ms
//!         channel transmit time:          2 ms
//! ```
//! Many drivers report nothing, or only the noise.

use super::{frequency, word_behind};
use crate::channel::Frequency;

/// Maximum number of channels that are read.
const MAX_CHANNELS: usize = 256;

/// Minimum duration of a measurement that is used, in ms. A scan stays on a channel for at least 20 ms (guess).
const SHORTEST: u64 = 10;

/// The measurement of a channel.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Survey {
    /// The channel's frequency; 0 means none.
    frequency: u32,
    active: Option<u64>,
    busy: Option<u64>,
    transmit: Option<u64>,
}

impl Survey {
    /// The channel.
    #[must_use]
    pub fn frequency(&self) -> Frequency {
        Frequency(self.frequency)
    }

    /// The share of the time in which others used the channel, 0 to 1; `None` if there is no measurement.
    #[must_use]
    pub fn busy(&self) -> Option<f64> {
        let own = self.transmit.unwrap_or(0);
        let active = self.active?.saturating_sub(own);
        let busy = self.busy?.saturating_sub(own);
        let share = busy as f64 / active as f64;
        (active >= SHORTEST).then(|| share.min(1.0))
    }
}

/// Reads the measurements.
#[must_use]
pub fn parse(text: &str) -> Vec<Survey> {
    let mut all: Vec<Survey> = Vec::new();
    for line in text.lines() {
        if line.starts_with("Survey data from ") {
            if all.len() >= MAX_CHANNELS {
                break;
            }
            all.push(Survey::default());
            continue;
        }
        let Some(survey) = all.last_mut() else {
            continue;
        };
        let line = line.trim();
        let number = |key| word_behind(line, key).and_then(|word| word.parse().ok());
        if let Some(mhz) = word_behind(line, "frequency:").and_then(frequency) {
            survey.frequency = mhz.0;
        }
        survey.active = number("channel active time:").or(survey.active);
        survey.busy = number("channel busy time:").or(survey.busy);
        survey.transmit = number("channel transmit time:").or(survey.transmit);
    }
    all.retain(|survey| survey.frequency != 0);
    all
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_share_of_others_is_without_our_own() {
        let text = "Survey data from wlan0\n\tfrequency:\t\t\t5180 MHz [in use]\n\tnoise:\t\t\t\t-95 dBm\n\
            \tchannel active time:\t\t120 ms\n\tchannel busy time:\t\t70 ms\n\tchannel transmit time:\t\t20 ms\n\
            Survey data from wlan0\n\tfrequency:\t\t\t5200 MHz\n\tnoise:\t\t\t\t-92 dBm\n\
            Survey data from wlan0\n\tfrequency:\t\t\t5220 MHz\n\tchannel active time:\t\t3 ms\n\
            \tchannel busy time:\t\t3 ms\n";
        let all = parse(text);
        let busy: Vec<Option<f64>> = all.iter().map(Survey::busy).collect();
        assert_eq!(busy, [Some(0.5), None, None]);
        assert_eq!(all[0].frequency(), Frequency(5180));
    }

    proptest! {
        #[test]
        fn a_share_is_a_share(active: u64, busy: u64, transmit: u64) {
            let text = format!(
                "Survey data from wlan0\n\tfrequency:\t5180 MHz\n\tchannel active time:\t{active} ms\n\
                 \tchannel busy time:\t{busy} ms\n\tchannel transmit time:\t{transmit} ms\n"
            );
            let share = parse(&text)[0].busy();
            prop_assert!(share.is_none_or(|share| (0.0..=1.0).contains(&share)));
        }

        #[test]
        fn any_text_is_read(text in "(Survey data from a\n|\t[a-z :]{0,30}[0-9]{0,30} ms\n){0,300}") {
            prop_assert!(parse(&text).len() <= MAX_CHANNELS);
        }
    }
}
