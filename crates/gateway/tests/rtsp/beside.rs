//! The encoder's output, recorded by a subscriber as reference for the players.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use openuvr_proto::control::negotiate::Role;
use openuvr_proto::host::SubscribeRequest;
use openuvr_proto::id::FrameId;
use openuvr_proto::send::intake::Intake;
use openuvr_proto::send::subscriber::{Departure, Frame, Progress, Slice, Subscriber};
use openuvr_proto::time;
use openuvr_proto::trace::{DropCause, Stage};
use openuvr_runtime::host::HostRuntime;

use crate::support::TIMEOUT;

/// The recorded output.
#[derive(Default)]
pub(crate) struct EncoderOutput {
    /// All NAL units in order.
    pub(crate) units: Vec<Vec<u8>>,
    newest: Option<FrameId>,
    /// Whether the recording thread was starved and missed some frames.
    gap: bool,
}

pub(crate) type Units = Arc<Mutex<EncoderOutput>>;

struct Writer(Units);

impl Subscriber for Writer {
    fn start_frame(&mut self, _: time::Instant, frame: &Frame) {
        let mut made = self.0.lock().unwrap();
        let frame = frame.header.frame;
        let before = made.newest.replace(frame);
        made.gap |= before.is_some_and(|before| frame.0 != before.0 + 1);
    }

    fn slice(&mut self, _: time::Instant, slice: &Slice<'_>) {
        let units = nal_units(slice.bytes);
        self.0.lock().unwrap().units.extend(units);
    }

    fn end(&mut self, _: time::Instant) -> Progress {
        Progress::Sent(Departure::default())
    }

    fn dropped(&mut self, _: time::Instant, _: FrameId, _: Stage, _: DropCause) {}
}

/// Records the output of `host` from now on.
pub(crate) fn write_down(host: &HostRuntime) -> Units {
    let request = SubscribeRequest {
        intake: Intake::Complete,
        ..SubscribeRequest::new(Role::Observer, "a writer")
    };
    write_down_as(host, request)
}

/// Records the output with another subscription request.
pub(crate) fn write_down_as(host: &HostRuntime, request: SubscribeRequest) -> Units {
    let units = Units::default();
    host.subscribe(request, Box::new(Writer(units.clone())))
        .unwrap();
    units
}

/// The NAL units of a stream in Annex B form.
pub(crate) fn nal_units(stream: &[u8]) -> Vec<Vec<u8>> {
    let mut begins: Vec<usize> = Vec::new();
    begins.extend(
        (0..stream.len().saturating_sub(2)).filter(|at| stream[*at..].starts_with(&[0, 0, 1])),
    );
    let ends = begins.iter().skip(1).copied().chain([stream.len()]);
    let units = begins.iter().zip(ends).map(|(begin, end)| {
        let unit = &stream[begin + 3..end];
        let length = unit
            .iter()
            .rposition(|byte| *byte != 0)
            .map_or(0, |at| at + 1);
        unit[..length].to_vec()
    });
    units.filter(|unit| !unit.is_empty()).collect()
}

/// NAL unit type of a sequence parameter set, which precedes a key frame (ITU-T H.264 table 7-1).
const SPS: u8 = 7;

/// Asserts that the recorded output contains each part of `got`.
pub(crate) fn assert_is_part_of(got: &[Vec<u8>], made: &Units) {
    is_part_of(got, made).unwrap();
}

/// Checks that the recorded output contains each part of `got`. A part starts with a key frame, because a starved
/// subscriber misses frames up to the next key frame.
pub(crate) fn is_part_of(got: &[Vec<u8>], made: &Units) -> Result<(), String> {
    let begins = |unit: &[u8]| unit[0] & 0x1f == SPS;
    for piece in got.chunk_by(|_, next| !begins(next)) {
        let until = Instant::now() + TIMEOUT;
        // The recording may lag behind the player.
        loop {
            let made = made.lock().unwrap();
            if contains(&made.units, piece) || made.gap && agrees(&made.units, piece) {
                break;
            }
            drop(made);
            if Instant::now() > until {
                let count = piece.len();
                return Err(format!("{count} units differ from the encoder's output"));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    Ok(())
}

fn contains(made: &[Vec<u8>], piece: &[Vec<u8>]) -> bool {
    made.windows(piece.len()).any(|units| units == piece)
}

/// Whether `made` contains most units of `piece`, and contains them in the same order.
fn agrees(made: &[Vec<u8>], piece: &[Vec<u8>]) -> bool {
    let mut rest = made.iter();
    let both = piece.iter().filter(|unit| made.contains(unit));
    let mut count = 0;
    let in_order = both
        .inspect(|_| count += 1)
        .all(|unit| rest.any(|other| other == unit));
    in_order && count * 2 > piece.len()
}
