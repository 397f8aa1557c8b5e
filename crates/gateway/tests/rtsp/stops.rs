//! A machine that occasionally stalls for 40 or 100 ms. Players still get the encoder's output.

use openuvr_proto::trace::{Outcome, Stage};
use openuvr_runtime::host::Notice;
use rtp_types::RtpPacket;

use crate::Players;
use crate::player::{Player, VIDEO};
use crate::support::TIMEOUT;
use crate::support::real_time_loops::{Pattern, RealTimeLoops};

/// Number of checked frames: five seconds.
const FRAMES: usize = 300;

#[test]
fn a_player_gets_its_frames_despite_stalls() {
    for (name, pattern) in [("rtsp-often", Pattern::OFTEN), ("rtsp-long", Pattern::LONG)] {
        let players = Players::new(name);
        let Some(loops) = RealTimeLoops::start(pattern) else {
            return;
        };
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
        assert!(missed * 100 <= left, "{name}: {left} sent, {missed} missed");
    }
}
