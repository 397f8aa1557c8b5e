//! A machine that stalls ten times per second for 40 ms, or twice per second for 100 ms. Players still get the
//! encoder's output.

use std::time::Duration;

use openuvr_proto::trace::{Outcome, Stage};
use openuvr_runtime::host::Notice;
use rtp_types::RtpPacket;

use crate::Players;
use crate::player::{Player, VIDEO};
use crate::support::TIMEOUT;
use crate::support::real_time_loops::{Pattern, RealTimeLoops};
use crate::support::stalls::measured_without_stalls;

/// Number of checked frames: five seconds.
const FRAMES: usize = 300;

/// Length of a stall of the machine itself after which a player may have missed frames. It is longer than the stalls of
/// the test, and shorter than the half second by which frames may be late.
const STALLED: Duration = Duration::from_millis(300);

#[test]
fn a_player_gets_its_frames_despite_stalls() {
    for (name, pattern) in [("rtsp-often", Pattern::OFTEN), ("rtsp-long", Pattern::LONG)] {
        measured_without_stalls(3, STALLED, || {
            let Some((left, missed)) = left_and_missed(name, pattern) else {
                return Ok(());
            };
            match missed * 100 <= left {
                true => Ok(()),
                false => Err(format!("{name}: {left} sent, {missed} missed")),
            }
        });
    }
}

/// Plays with stalls of this pattern. Returns the number of sent frames, and the number of encoded frames that were not
/// sent. Without the privilege for stalls, prints a message and returns `None`.
fn left_and_missed(name: &str, pattern: Pattern) -> Option<(usize, usize)> {
    let players = Players::new(name);
    let loops = RealTimeLoops::start(pattern)?;
    let mut player = Player::that_plays(players.server.address(), &players.url());
    let mut frames = 0;
    while frames < FRAMES {
        let (channel, bytes) = player.packet();
        if channel == VIDEO {
            frames += usize::from(RtpPacket::parse(&bytes).unwrap().marker_bit());
        }
    }
    assert!(loops.stops() > 10, "{name}");
    drop(loops);
    // The host's reports about these frames.
    let mut id = None;
    let (mut left, mut missed) = (0, 0);
    while left < FRAMES {
        match players.rig.notices.next(TIMEOUT).expect("a notice") {
            Notice::Subscribed {
                subscriber, name, ..
            } if name.starts_with("a video player at") => id = Some(subscriber),
            Notice::Record(record) if Some(record.subscriber) == id => match record.outcome {
                Outcome::SentUnacknowledged => left += 1,
                Outcome::Dropped {
                    stage: Stage::FirstSent,
                    ..
                } if left > 0 => missed += 1,
                _ => {}
            },
            _ => {}
        }
    }
    Some((left, missed))
}
