//! Tests of the recorder with synthetic frames.

mod figures;
mod files;
mod rows;
mod sums;
mod time_line;

use std::collections::HashMap;
use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use openuvr_proto::control::clock::Mapped;
use openuvr_proto::control::negotiate::Role;
use openuvr_proto::id::{FrameId, RenditionId, SessionId, SubscriberId, ViewId};
use openuvr_proto::time::{Instant, PeerInstant};
use openuvr_proto::trace::{
    ClientStamps, DisplayLatency, DropCause, Fidelity, FrameCost, FrameRecord, Outcome, Stage,
    Stamps,
};
use openuvr_proto::wire::video::EchoKind;
use serde_json::Value;

use super::spread::{Spread, WINDOW};
use super::table::Table;
use super::totals::{MAX_SUBSCRIBERS, Totals};
use super::trace::Trace;
use super::{Options, Recorder, TableMode};
use openuvr_runtime::csv::Csv;

/// The written text, readable at any time.
#[derive(Clone, Default)]
struct SharedBuffer(Arc<Mutex<Vec<u8>>>);

impl SharedBuffer {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for SharedBuffer {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

const MS: i64 = 1_000_000;

fn ms(n: i64) -> Instant {
    Instant(n * MS)
}

/// Frame `n` at 60 frames per second. All stages are measured, at intervals of one millisecond. The client's clock is
/// an hour ahead.
fn complete_frame(session: u32, n: u32) -> FrameRecord {
    let started = 1_000 * MS + i64::from(n) * 16_666_667;
    let mut host = Stamps::default();
    let stages = [
        Stage::Captured,
        Stage::Converted,
        Stage::FirstSlice,
        Stage::FirstSent,
        Stage::Encoded,
        Stage::LastSent,
    ];
    for (i, stage) in (0..).zip(stages) {
        host.stamp(stage, Instant(started + i * MS));
    }
    let received = started + 10 * MS;
    let span = |n| Some(Duration::from_millis(n));
    FrameRecord {
        subscriber: SessionId(session).into(),
        view: ViewId::FIRST,
        frame: FrameId(n),
        host,
        client: ClientStamps {
            first_received: Some(PeerInstant(received + 3_600_000 * MS)),
            first_received_here: Some(Mapped {
                at: Instant(received),
                bound: Duration::from_micros(30),
            }),
            recoverable: span(1),
            decoded: span(2),
            submitted: span(3),
            presented: None,
        },
        outcome: Outcome::Displayed(Fidelity::Complete),
        cost: FrameCost {
            key_frame: n == 1,
            repeats: n == 3,
            qp: 23,
            datagrams: 16,
            parity: 2,
            bytes: 20_000,
        },
        motion_to_photon: Some(Duration::from_micros(21_500)),
        echo: EchoKind::Injected,
        received: 16,
        missing: 0,
        runs: 0,
        repaired: 0,
        resent: 0,
        pose: None,
        ecn: None,
        age: DisplayLatency::default(),
    }
}

fn dropped(session: u32, n: u32, stage: Stage, why: DropCause) -> FrameRecord {
    let mut host = Stamps::default();
    host.stamp(
        Stage::Captured,
        Instant(1_000 * MS + i64::from(n) * 16_666_667),
    );
    FrameRecord {
        host,
        client: ClientStamps::default(),
        outcome: Outcome::Dropped { stage, why },
        cost: FrameCost::default(),
        motion_to_photon: None,
        echo: EchoKind::None,
        ..complete_frame(session, n)
    }
}

/// A frame that was sent to a recorder, which sends no reports.
fn unacknowledged_frame(n: u32) -> FrameRecord {
    let frame = complete_frame(1, n);
    FrameRecord {
        subscriber: SubscriberId::Other(3),
        client: ClientStamps::default(),
        outcome: Outcome::SentUnacknowledged,
        cost: FrameCost {
            datagrams: 0,
            parity: 0,
            ..frame.cost
        },
        motion_to_photon: None,
        echo: EchoKind::None,
        ..frame
    }
}
