//! Durations of 802.11 frames in nanoseconds, for four profiles.
//!
//! Sources: IEEE Std 802.11-2020 (17.4.3 control frames, 9.3.1 their sizes; 21.3.4 preamble and 21.5 rates of 802.11ac)
//! and 802.11ax-2021 (27.3.11 preamble, 27.5 rates). The constants of the profile `paper` reproduce the benchmark of
//! its study exactly (374 µs for one packet).
//!
//! Two properties of 802.11ac are not modelled: with the short guard interval, a PPDU ends at a multiple of 4 µs; and a
//! few combinations of MCS, streams and width do not exist (21.5).

use super::{Impossible, MICROSECOND, Nanos};

/// Sets of constants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// Constants of the Unity Render Streaming study's simulator. Its durations are longer than the standard's.
    Paper,
    /// 802.11ac (Wi-Fi 5), single-user PPDUs.
    VhtSu,
    /// 802.11ax (Wi-Fi 6), single-user PPDUs.
    HeSu,
    /// 802.11be (Wi-Fi 7), single-user PPDUs: 320 MHz and 4096-QAM, on one link.
    EhtSu,
}

impl Profile {
    /// All profiles.
    pub const ALL: [Profile; 4] = [
        Profile::Paper,
        Profile::VhtSu,
        Profile::HeSu,
        Profile::EhtSu,
    ];

    /// The profile's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Profile::Paper => "paper",
            Profile::VhtSu => "vht-su",
            Profile::HeSu => "he-su",
            Profile::EhtSu => "eht-su",
        }
    }

    fn standard(self) -> &'static str {
        match self {
            Profile::VhtSu => "802.11ac",
            Profile::Paper | Profile::HeSu => "802.11ax",
            Profile::EhtSu => "802.11be",
        }
    }

    /// Duration of a symbol without its guard interval.
    fn symbol(self) -> Nanos {
        match self {
            Profile::VhtSu => VHT_SYMBOL,
            Profile::Paper | Profile::HeSu | Profile::EhtSu => SYMBOL,
        }
    }

    pub(super) fn highest_mcs(self) -> u8 {
        match self {
            Profile::VhtSu => 9,
            Profile::Paper | Profile::HeSu => 11,
            Profile::EhtSu => 13,
        }
    }
}

/// Parameters of the radios.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Radio {
    /// The constants.
    pub profile: Profile,
    /// Modulation and coding scheme: 0 to 9 in 802.11ac, 0 to 11 in 802.11ax, and 0 to 13 in 802.11be.
    pub mcs: u8,
    /// Spatial streams.
    pub streams: u8,
    /// Width of the channel in MHz.
    pub width: u16,
    /// Guard interval in nanoseconds: 800, 1600 or 3200. In 802.11ac, 400 or 800.
    pub guard: u16,
}

impl Default for Radio {
    /// The study's parameters.
    fn default() -> Radio {
        Radio {
            profile: Profile::Paper,
            mcs: 11,
            streams: 2,
            width: 80,
            guard: 3200,
        }
    }
}

/// Bits per symbol of one subcarrier, and numerator and denominator of the code rate, by MCS.
const MODULATIONS: [(u64, u64, u64); 14] = [
    (1, 1, 2),
    (2, 1, 2),
    (2, 3, 4),
    (4, 1, 2),
    (4, 3, 4),
    (6, 2, 3),
    (6, 3, 4),
    (6, 5, 6),
    (8, 3, 4),
    (8, 5, 6),
    (10, 3, 4),
    (10, 5, 6),
    (12, 3, 4),
    (12, 5, 6),
];

/// Number of data subcarriers by channel width in MHz.
const WIDTHS: [(u16, u64); 5] = [(20, 234), (40, 468), (80, 980), (160, 1960), (320, 3920)];

/// The same for 802.11ac, whose subcarriers are four times as wide (table 21-5).
const VHT_WIDTHS: [(u16, u64); 4] = [(20, 52), (40, 108), (80, 234), (160, 468)];

/// Duration of a symbol without its guard interval.
const SYMBOL: Nanos = 12_800;

/// The same duration for 802.11ac.
const VHT_SYMBOL: Nanos = 3_200;

/// Durations of frames on one channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timing {
    /// Short interframe space.
    pub sifs: Nanos,
    /// Slot time.
    pub slot: Nanos,
    /// Request to send.
    pub rts: Nanos,
    /// Clear to send.
    pub cts: Nanos,
    /// Block acknowledgement.
    pub block_ack: Nanos,
    /// Acknowledgement of a PPDU with a single frame. `None` if such a PPDU gets a block acknowledgement instead.
    pub ack: Option<Nanos>,
    /// Preamble.
    pub preamble: Nanos,
    /// Symbol with its guard interval.
    pub symbol: Nanos,
    /// Overhead bits of a PPDU: service field and tail.
    pub around_bits: u64,
    /// Overhead bits of an MPDU, such as delimiter, MAC header and checksum.
    pub mpdu_bits: u64,
    /// The length of an MPDU is padded to a multiple of this number of bits.
    pub pad_bits: u64,
    /// Data bits per symbol, for each supported MCS.
    pub bits_per_symbol: Vec<u64>,
    /// Maximum duration of a PPDU.
    pub longest_ppdu: Nanos,
    /// Number of data subcarriers and of spatial streams, for OFDMA.
    pub subcarriers: u64,
    /// See `subcarriers`.
    pub streams: u64,
}

impl Radio {
    /// Computes the durations for these radios.
    ///
    /// # Errors
    /// Returns an error with the valid values if no such radio exists.
    pub fn timing(&self) -> Result<Timing, Impossible> {
        let subcarriers = self.check()?;
        let streams = u64::from(self.streams);
        let rates = MODULATIONS[..=usize::from(self.profile.highest_mcs())].iter();
        let bits_per_symbol = rates
            .map(|(bits, num, den)| subcarriers * bits * streams * num / den)
            .collect();
        let us = MICROSECOND;
        Ok(match self.profile {
            Profile::Paper => Timing {
                sifs: 16 * us,
                slot: 9 * us,
                rts: control(160, 24, 18),
                cts: control(112, 24, 18),
                block_ack: control(256, 24, 18),
                ack: None,
                preamble: 100 * us,
                symbol: SYMBOL + Nanos::from(self.guard),
                around_bits: 16 + 18,
                mpdu_bits: 32 + 240,
                pad_bits: 1,
                bits_per_symbol,
                longest_ppdu: 5484 * us,
                subcarriers,
                streams,
            },
            Profile::VhtSu | Profile::HeSu | Profile::EhtSu => Timing {
                sifs: 16 * us,
                slot: 9 * us,
                // At 24 Mb/s.
                rts: control(160, 96, 6),
                cts: control(112, 96, 6),
                // The frame has 24 bytes and a bitmap with at least one bit for each MPDU of the window.
                block_ack: control(192 + u64::from(self.window()), 96, 6),
                ack: Some(control(112, 96, 6)),
                preamble: self.preamble(),
                symbol: self.profile.symbol() + Nanos::from(self.guard),
                // The service field, and in 802.11ac also the tail of one convolutional encoder.
                around_bits: if self.profile == Profile::VhtSu {
                    16 + 6
                } else {
                    16
                },
                // In bytes: delimiter 4, header 26, CCMP 16, LLC/SNAP 8, checksum 4.
                mpdu_bits: 8 * (4 + 26 + 16 + 8 + 4),
                pad_bits: 32,
                bits_per_symbol,
                longest_ppdu: 5484 * us,
                subcarriers,
                streams,
            },
        })
    }

    /// The block acknowledgement window.
    #[must_use]
    pub fn window(&self) -> u32 {
        match self.profile {
            Profile::VhtSu => 64,
            Profile::Paper | Profile::HeSu => 256,
            Profile::EhtSu => 1024,
        }
    }

    /// Checks whether such a radio exists. Returns its number of data subcarriers.
    fn check(&self) -> Result<u64, Impossible> {
        let impossible = |what: String| Err(Impossible(what));
        let Radio {
            profile,
            mcs,
            streams,
            width,
            guard,
        } = *self;
        let (standard, highest) = (profile.standard(), profile.highest_mcs());
        if mcs > highest {
            let hint = match mcs {
                10 | 11 => "; profile=he-su has 10 and 11",
                12 | 13 => "; profile=eht-su has 12 and 13",
                _ => "",
            };
            return impossible(format!(
                "no MCS {mcs} in {standard}: mcs must be 0 to {highest}{hint}"
            ));
        }
        if !(1..=8).contains(&streams) {
            return impossible(format!("streams={streams}: must be 1 to 8"));
        }
        let (guards, valid): (&[u16], _) = match profile {
            Profile::VhtSu => (&[400, 800], "400 or 800"),
            Profile::Paper | Profile::HeSu | Profile::EhtSu => {
                (&[800, 1600, 3200], "800, 1600 or 3200")
            }
        };
        if !guards.contains(&guard) {
            return impossible(format!("guard={guard}ns: must be {valid} ns"));
        }
        let widths: &[(u16, u64)] = match profile {
            Profile::VhtSu => &VHT_WIDTHS,
            Profile::Paper | Profile::HeSu => &WIDTHS[..4],
            Profile::EhtSu => &WIDTHS,
        };
        match widths.iter().find(|(known, _)| *known == width) {
            Some((_, subcarriers)) => Ok(*subcarriers),
            None if width == 320 => impossible(format!(
                "{standard} has no channel of 320 MHz: width must be 20, 40, 80 or 160; profile=eht-su has 320"
            )),
            None => impossible(format!(
                "width={width}: must be 20, 40, 80 or 160 MHz, or 320 with profile=eht-su"
            )),
        }
    }

    /// Duration of the preamble of a single-user PPDU: the legacy preamble (20 µs), the repetition of the legacy signal
    /// field (4 µs; not in 802.11ac), the signal fields (in 802.11ac: VHT-SIG-A and VHT-SIG-B), and the training
    /// fields.
    fn preamble(&self) -> Nanos {
        let (repetition, signal) = match self.profile {
            Profile::VhtSu => (0, 8 + 4),
            Profile::Paper | Profile::HeSu => (4, 8),
            Profile::EhtSu => (4, 12),
        };
        // Duration of a training field: in 802.11ac, 4 µs; otherwise that of a 2x HE-LTF with the guard interval, or of
        // a 4x HE-LTF with the long guard interval.
        let field = match (self.profile, self.guard) {
            (Profile::VhtSu, _) => VHT_SYMBOL + 800,
            (_, 3200) => SYMBOL + 3200,
            (_, guard) => SYMBOL / 2 + Nanos::from(guard),
        };
        (20 + repetition + signal + 4) * MICROSECOND + self.training_fields() * field
    }

    /// Number of training fields that follow the short one (21.3.8.3.5 and 27.3.11.10).
    fn training_fields(&self) -> u64 {
        match self.streams {
            0..=2 => u64::from(self.streams),
            3..=4 => 4,
            5..=6 => 6,
            _ => 8,
        }
    }
}

impl Timing {
    /// Duration of a PPDU at this MCS. Its MPDUs have `bits` bits.
    #[must_use]
    pub fn ppdu(&self, bits: u64, mcs: u8) -> Nanos {
        let symbols = (self.around_bits + bits).div_ceil(self.bits_per_symbol[usize::from(mcs)]);
        self.preamble + symbols * self.symbol
    }

    /// Number of bits of an MPDU with a packet of `bytes` bytes.
    #[must_use]
    pub fn mpdu(&self, bytes: u32) -> u64 {
        let bits = self.mpdu_bits + 8 * u64::from(bytes);
        match self.pad_bits {
            1 => bits,
            pad => bits.next_multiple_of(pad),
        }
    }

    /// Duration of RTS and CTS, with a SIFS after each.
    #[must_use]
    pub fn reservation(&self) -> Nanos {
        self.rts + self.sifs + self.cts + self.sifs
    }

    /// Duration of the acknowledgement of a PPDU with `mpdus` MPDUs.
    #[must_use]
    pub fn acknowledgement(&self, mpdus: usize) -> Nanos {
        match self.ack {
            Some(ack) if mpdus == 1 => ack,
            _ => self.block_ack,
        }
    }

    /// Minimum duration of a single packet without backoff, from the start of AIFS to the end of the acknowledgement.
    #[must_use]
    pub fn single_packet(&self, bytes: u32, mcs: u8, aifsn: u8) -> Nanos {
        let aifs = self.aifs(aifsn);
        let data = self.ppdu(self.mpdu(bytes), mcs);
        aifs + self.reservation() + data + self.sifs + self.acknowledgement(1)
    }

    /// Duration of AIFS.
    #[must_use]
    pub fn aifs(&self, aifsn: u8) -> Nanos {
        self.sifs + Nanos::from(aifsn) * self.slot
    }
}

/// Duration of a control frame with `bits` bits in the legacy format, at `per_symbol` bits per symbol.
pub(super) fn control(bits: u64, per_symbol: u64, tail: u64) -> Nanos {
    (20 + 4 * (16 + bits + tail).div_ceil(per_symbol)) * MICROSECOND
}

/// Number of data bits per symbol of a resource unit, at this MCS.
pub(super) fn part_rate(subcarriers: u64, streams: u64, mcs: u8) -> u64 {
    let (bits, num, den) = MODULATIONS[usize::from(mcs)];
    subcarriers * bits * streams * num / den
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_studys_benchmark_is_reproduced_exactly() {
        let timing = Radio::default().timing().unwrap();
        assert_eq!(timing.bits_per_symbol[11], 16_333);
        let frames = [timing.rts, timing.cts, timing.block_ack];
        assert_eq!(frames, [56_000, 48_000, 72_000]);
        assert_eq!(timing.ppdu(timing.mpdu(1243), 11), 116_000);
        assert_eq!(timing.single_packet(1243, 11, 2), 374_000);
    }

    #[test]
    fn rates_are_those_of_the_standard() {
        // Rates in Mb/s from table 27-111 and its neighbours, at a guard interval of 0.8 µs.
        let rate = |mcs, streams, width, profile| {
            let radio = Radio {
                profile,
                mcs,
                streams,
                width,
                guard: 800,
            };
            let timing = radio.timing().unwrap();
            timing.bits_per_symbol[usize::from(mcs)] as f64 * 1e3 / timing.symbol as f64
        };
        let near = |is: f64, want: f64| assert!((is - want).abs() < 0.06, "{is} is not {want}");
        near(rate(0, 1, 20, Profile::HeSu), 8.6);
        near(rate(7, 2, 40, Profile::HeSu), 344.1);
        near(rate(11, 1, 80, Profile::HeSu), 600.4);
        near(rate(11, 2, 160, Profile::HeSu), 2401.9);
        near(rate(13, 2, 320, Profile::EhtSu), 5764.7);
        // Rates from table 21-30 and the following tables, at a guard interval of 0.8 µs.
        near(rate(0, 1, 20, Profile::VhtSu), 6.5);
        near(rate(7, 2, 40, Profile::VhtSu), 270.0);
        near(rate(9, 1, 80, Profile::VhtSu), 390.0);
        near(rate(9, 2, 160, Profile::VhtSu), 1560.0);
    }

    #[test]
    fn standard_frames_have_standard_durations() {
        let radio = Radio {
            profile: Profile::HeSu,
            guard: 800,
            ..Radio::default()
        };
        let timing = radio.timing().unwrap();
        let frames = [timing.rts, timing.cts, timing.block_ack];
        assert_eq!(frames, [28_000, 28_000, 40_000]);
        assert_eq!(timing.preamble, 36_000 + 2 * 7_200);
        assert_eq!(timing.symbol, 13_600);
        // 58 bytes of overhead and 101 bytes are padded to a multiple of four: 160 bytes.
        assert_eq!(timing.mpdu(101), 8 * 160);
    }

    #[test]
    fn frames_of_802_11ac_have_its_durations() {
        let radio = |streams| Radio {
            profile: Profile::VhtSu,
            mcs: 9,
            streams,
            width: 80,
            guard: 400,
        };
        let [one, two] = [1, 2].map(|streams| radio(streams).timing().unwrap());
        assert_eq!([one.preamble, two.preamble], [40_000, 44_000]);
        assert_eq!(one.block_ack, 32_000);
        assert_eq!(radio(1).window(), 64);
        // The rates are 433.3 and 866.7 Mb/s: 1560 and 3120 bits in 3.6 µs.
        assert_eq!([&one, &two].map(|t| t.bits_per_symbol[9]), [1560, 3120]);
        assert_eq!([one.symbol, two.symbol], [3_600; 2]);
        // The PPDU has 22 bits and 8 × 1560 bits, which need 9 symbols.
        assert_eq!(one.ppdu(one.mpdu(1502), 9), 40_000 + 9 * 3_600);
    }

    #[test]
    fn impossible_radios_are_named() {
        let refused = |change: &dyn Fn(&mut Radio)| {
            let mut radio = Radio {
                profile: Profile::HeSu,
                ..Radio::default()
            };
            change(&mut radio);
            radio.timing().unwrap_err().to_string()
        };
        assert!(refused(&|r| r.mcs = 12).contains("no MCS 12 in 802.11ax"));
        assert!(refused(&|r| r.mcs = 14).contains("0 to 11"));
        assert!(refused(&|r| r.width = 320).contains("eht-su"));
        assert!(refused(&|r| r.width = 81).contains("width=81"));
        assert!(refused(&|r| r.streams = 0).contains("streams=0"));
        assert!(refused(&|r| r.guard = 400).contains("guard=400ns"));
        let refused_vht = |change: &dyn Fn(&mut Radio)| {
            refused(&|r| {
                (r.profile, r.mcs, r.guard) = (Profile::VhtSu, 9, 400);
                change(r);
            })
        };
        assert!(refused_vht(&|r| r.mcs = 11).contains("no MCS 11 in 802.11ac"));
        assert!(refused_vht(&|r| r.guard = 1600).contains("400 or 800"));
        assert!(refused_vht(&|r| r.width = 320).contains("802.11ac has no channel of 320 MHz"));
    }
}
