//! RTCP feedback of a player: loss, round-trip time, key-frame requests.

use std::time::Duration;

use rtcp_types::{Compound, Fir, Packet, Pli, ReportBlock};

/// One feedback item.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum PlayerFeedback {
    /// A key-frame request (RFC 4585 section 6.3.1, RFC 5104 section 4.3.1).
    KeyFrame,
    /// Statistics since the previous report (RFC 3550 section 6.4.1).
    Report {
        /// The track.
        ssrc: u32,
        /// Packet loss, 0 to 1.
        lost: f64,
        /// Round-trip time; `None` before the player has received a sender report.
        round_trip: Option<Duration>,
    },
}

/// Parses an RTCP datagram. `now` is the wall clock in NTP's 32.32 format, as in the sender reports. Datagrams that are
/// not RTCP are ignored.
pub fn parse(bytes: &[u8], now: u64, mut each: impl FnMut(PlayerFeedback)) {
    let Ok(compound) = Compound::parse(bytes) else {
        return;
    };
    for packet in compound {
        match packet {
            Ok(Packet::Rr(report)) => report
                .report_blocks()
                .for_each(|block| each(feedback_of(&block, now))),
            Ok(Packet::Sr(report)) => report
                .report_blocks()
                .for_each(|block| each(feedback_of(&block, now))),
            Ok(Packet::PayloadFeedback(feedback)) => {
                if feedback.parse_fci::<Pli>().is_ok() || feedback.parse_fci::<Fir>().is_ok() {
                    each(PlayerFeedback::KeyFrame);
                }
            }
            Ok(_) => {}
            // After an invalid packet, the start of the next one is unknown.
            Err(_) => return,
        }
    }
}

fn feedback_of(block: &ReportBlock<'_>, now: u64) -> PlayerFeedback {
    let (sent, waited) = (
        block.last_sender_report_timestamp(),
        block.delay_since_last_sender_report_timestamp(),
    );
    // The middle 32 bits of the NTP time have the unit 1/65,536 s, like the times in the report.
    #[expect(clippy::cast_possible_truncation, reason = "the middle bits are used")]
    let here = (now >> 16) as u32;
    let way = here.wrapping_sub(sent).wrapping_sub(waited);
    // Values in the upper half of the range are negative times, which occur if the player's clock runs faster than the
    // host's.
    let round_trip = (sent != 0 && way < 1 << 31)
        .then(|| Duration::from_nanos(u64::from(way) * 1_000_000_000 / 65_536));
    PlayerFeedback::Report {
        ssrc: block.ssrc(),
        lost: f64::from(block.fraction_lost()) / 256.0,
        round_trip,
    }
}

#[cfg(test)]
mod tests {
    use rtcp_types::{PayloadFeedback, ReceiverReport};

    use super::super::stream::bytes_of;
    use super::*;

    fn all(bytes: &[u8], now: u64) -> Vec<PlayerFeedback> {
        let mut heard = Vec::new();
        parse(bytes, now, |one| heard.push(one));
        heard
    }

    #[test]
    fn a_report_contains_loss_and_round_trip_time() {
        let block = ReportBlock::builder(7)
            .fraction_lost(64)
            .last_sender_report_timestamp(0x0005_0000)
            .delay_since_last_sender_report_timestamp(0x8000);
        let report = ReceiverReport::builder(9).add_report_block(block);
        let bytes = bytes_of(&report).unwrap();
        let expected = PlayerFeedback::Report {
            ssrc: 7,
            lost: 0.25,
            round_trip: Some(Duration::from_millis(250)),
        };
        assert_eq!(all(&bytes, 0x5_c000_0000), [expected]);
        for cut in 0..bytes.len() {
            assert!(all(&bytes[..cut], 0).is_empty(), "{cut}");
        }
    }

    #[test]
    fn lost_pictures_ask_for_a_key_frame() {
        let pli = Pli::builder();
        let feedback = PayloadFeedback::builder(&pli).sender_ssrc(1).media_ssrc(7);
        assert_eq!(
            all(&bytes_of(&feedback).unwrap(), 0),
            [PlayerFeedback::KeyFrame]
        );
        let fir = Fir::builder().add_ssrc(7, 1);
        let feedback = PayloadFeedback::builder(&fir).sender_ssrc(1).media_ssrc(0);
        assert_eq!(
            all(&bytes_of(&feedback).unwrap(), 0),
            [PlayerFeedback::KeyFrame]
        );
    }
}
