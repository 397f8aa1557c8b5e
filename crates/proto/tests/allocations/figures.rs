//! Updating the statistics of a frame does not allocate.

use std::time::Duration;

use openuvr_proto::control::negotiate::Role;
use openuvr_proto::host::SubscriberKind;
use openuvr_proto::host::figures::Figures;
use openuvr_proto::id::{FrameId, SubscriberId, ViewId};
use openuvr_proto::time::{Instant, Mapped, PeerInstant};
use openuvr_proto::trace::{Fidelity, FrameRecord, Outcome, Stage};

use crate::sys;

const FRAMES: u32 = 5000;

#[test]
fn noting_a_frame_costs_no_allocation() {
    let mut figures = Figures::default();
    let all = [SubscriberId::Other(1), SubscriberId::Other(2)];
    for id in all {
        figures.joined(id, SubscriberKind::Browser, Role::Observer);
    }
    let now = |frame: u32| Instant(i64::from(frame) * 4_166_667);
    sys::count();
    for frame in 0..FRAMES {
        for id in all {
            let displayed = Outcome::Displayed(Fidelity::Complete);
            let mut record = FrameRecord::new(id, (ViewId::FIRST, FrameId(frame)), displayed);
            record.host.stamp(Stage::Captured, now(frame));
            record.client.first_received = Some(PeerInstant(0));
            record.client.first_received_here = Some(Mapped {
                at: now(frame) + Duration::from_millis(4),
                bound: Duration::from_micros(200),
            });
            record.client.submitted = Some(Duration::from_millis(3));
            figures.note(now(frame), &record);
        }
    }
    let counted = sys::counted();
    let read = figures.read(now(FRAMES));
    assert!(
        read.iter().all(|of| of.latency.is_some()),
        "all frames were processed"
    );
    assert_eq!(counted, 0, "allocations for {FRAMES} frames");
}
