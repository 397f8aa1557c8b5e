//! Sending a frame through a rendition to a player and an observer does not allocate.

use openuvr_proto::control::negotiate::{ClientConstraints, Role};
use openuvr_proto::id::{SessionId, SubscriberId, ViewId};
use openuvr_proto::send::congestion::Range;
use openuvr_proto::send::l4s::L4sMode;
use openuvr_proto::send::packetize::SendBuf;
use openuvr_proto::send::plane::MediaSender;
use openuvr_proto::send::policy::Recovery;
use openuvr_proto::send::rendition::{OpenedEncoder, PolicySettings, Rendition, Settings};
use openuvr_proto::send::session::{Session, Transmit, Transmitted};
use openuvr_proto::send::subscriber::{Feedback, Slice};
use openuvr_proto::time::{Instant, PeerInstant};
use openuvr_proto::trace::{Fidelity, Outcome};
use openuvr_proto::units::{Bitrate, Size};
use openuvr_proto::wire::control::Report;
use openuvr_proto::wire::video::SlicePlace;

use crate::support::established;
use crate::{FRAMES, SLICES, sys};

/// Number of frames until all buffers have reached their final size. Congestion control keeps a history of ten seconds.
const START_UP: u32 = 700;

/// Counts datagrams.
struct Count(usize);

impl Transmit for Count {
    fn transmit(&mut self, now: Instant, datagrams: &SendBuf) -> Transmitted {
        self.0 += datagrams.datagrams();
        Transmitted {
            first: Some(now),
            last: Some(now),
            overflowed: false,
        }
    }
}

#[test]
fn a_frame_costs_no_allocation() {
    let rate = Bitrate::from_mbps(10);
    let mut rendition = Rendition::new(Settings {
        view: ViewId::FIRST,
        policy: PolicySettings {
            fps: 60.0,
            range: Range {
                min: rate,
                start: rate,
                max: rate,
            },
            adaptive: true,
            l4s: L4sMode::Off,
            recovery: Recovery::ReferenceInvalidation,
            key_frame_interval: Some(100),
        },
        static_refinement: true,
        constant_rate: false,
        follows_display: false,
        max_fps: None,
    });
    let ids = [1, 2].map(|id| SubscriberId::from(SessionId(id)));
    for (id, role) in ids.into_iter().zip([Role::Player, Role::Observer]) {
        let media = Box::new(MediaSender::new(&established()).video());
        let session = Session::new(media, Count(0));
        rendition.subscribe(id, role, ClientConstraints::default(), session);
    }
    rendition.encoder_opened(OpenedEncoder {
        size: Size::new(1280, 720),
        codec: 1,
        colour: 1,
        slices: SLICES,
        depth: 8,
        codes_parts: true,
        macroblocks: 3600,
    });
    let bytes = [7_u8; 4000];
    let mut ends = 0;
    for frame in 1..=START_UP + FRAMES {
        if frame == START_UP {
            sys::count();
        }
        let now = Instant(i64::from(frame) * 16_666_667);
        assert!(rendition.captured(now, true));
        let changed = |mb: usize| mb < 100;
        let begun = rendition.start_frame(now, Some(&changed), None);
        let (_, mut fan_out) = begun.expect("there is an encoder");
        for index in 0..SLICES {
            let place = SlicePlace {
                index,
                count: SLICES,
                first_mb: u16::from(index) * 450,
                mbs: 450,
            };
            // The largest slices are sent first.
            let length = match frame {
                ..100 => 4000,
                _ => 500 + (frame as usize * 977) % 3000,
            };
            let slice = Slice {
                place,
                clean_after: None,
                bytes: &bytes[..length],
            };
            fan_out.slice(now, &slice);
        }
        let mut left_at = now;
        while let Some(at) = rendition.end(left_at) {
            assert_eq!(frame, 1, "only the first frame is paced");
            left_at = at;
        }
        while let Some(end) = rendition.poll_end() {
            ends += u32::from(end.end.is_ok());
        }
        let whole = Outcome::Displayed(Fidelity::Complete);
        let arrival = Report {
            first_received: Some(PeerInstant(now.0)),
            recoverable: Some(std::time::Duration::from_millis(1)),
            ..Report::new(rendition.frame(), whole)
        };
        rendition.feedback(now, ids[0], Feedback::Frame(arrival));
        while rendition.poll_control_event().is_some() {}
    }
    assert_eq!(sys::counted(), 0, "allocations in {FRAMES} frames");
    assert_eq!(ends, 2 * (START_UP + FRAMES), "all frames ended");
    for (_, session) in rendition.subscribers() {
        let all = (START_UP + FRAMES) as usize * usize::from(SLICES);
        assert!(
            session.transmit_path().0 >= all,
            "each slice is a datagram or more"
        );
    }
}
