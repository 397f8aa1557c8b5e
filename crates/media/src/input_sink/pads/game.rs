//! Pads for a game with the pads library in its process: [`PadServer`] devices, each an Xbox 360
//! pad. Devices of [`seats`] exist even while they are not in use.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use openuvr_clock as clock;
use openuvr_proto::input::pad::{PadId, PadIdentity, PadState, Rumble};

use super::seats::{self, SeatSockets};
use super::server::{PadServer, ReaderEvent};
use super::{InputError, PadSink, Pads, RumbleSource};
use crate::pad::force_feedback::ForceFeedback;
use crate::pad::xbox;
use crate::waker::Waker;

/// Serves pads in `folder`. The first pads are the seats with these sockets.
///
/// # Errors
/// [`InputError`] if the folder can't be used, or if no file descriptor is left.
pub fn open(folder: &Path, sockets: &SeatSockets) -> Result<Pads, InputError> {
    let served = PadServer::with_seats(folder, seats::described(sockets)).map_err(|e| {
        let folder = folder.display();
        InputError(format!(
            "game pads are not available: can't use {folder}: {e}"
        ))
    })?;
    let served = Arc::new(served);
    Ok(Pads {
        sink: Box::new(Sink(served.clone())),
        rumble: Box::new(Forces {
            served,
            pads: BTreeMap::new(),
        }),
    })
}

struct Sink(Arc<PadServer>);

impl PadSink for Sink {
    fn plug(&mut self, pad: PadId, identity: &PadIdentity) -> Result<(), InputError> {
        if self.0.is_seat(pad.number().into()) {
            return Ok(());
        }
        let shown = self
            .0
            .plug(pad.number().into(), xbox::description(pad, identity));
        shown.map_err(|e| InputError(format!("can't create the pad {}: {e}", identity.name)))
    }

    fn unplug(&mut self, pad: PadId) {
        if !self.0.is_seat(pad.number().into()) {
            self.0.unplug(pad.number().into());
        }
    }

    fn held(&mut self, pad: PadId, before: &PadState, now: &PadState) -> Result<(), InputError> {
        let events = xbox::events(before, now);
        if events.is_empty() {
            return Ok(());
        }
        let reported = self.0.write(pad.number().into(), &events);
        reported.map_err(|e| InputError(format!("can't write to the folder of game pads: {e}")))
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        PadId::all().for_each(|pad| self.0.unplug(pad.number().into()));
    }
}

#[derive(Default)]
struct Felt {
    forces: ForceFeedback,
    /// The rumble as last reported.
    reported: Rumble,
}

struct Forces {
    served: Arc<PadServer>,
    pads: BTreeMap<PadId, Felt>,
}

impl Forces {
    /// The next pad with a rumble that differs from its reported rumble.
    fn next_change(&mut self) -> Option<(PadId, Rumble)> {
        let now = clock::now();
        self.pads.iter_mut().find_map(|(pad, felt)| {
            let rumble = felt.forces.rumble(now);
            let before = std::mem::replace(&mut felt.reported, rumble);
            (before != rumble).then_some((*pad, rumble))
        })
    }
}

impl RumbleSource for Forces {
    fn next(&mut self, timeout: Option<Duration>) -> Option<(PadId, Rumble)> {
        if let Some(change) = self.next_change() {
            return Some(change);
        }
        let now = clock::now();
        let change = self
            .pads
            .values()
            .filter_map(|felt| felt.forces.next_change(now));
        let change = change.min().map(|at| at.since(now));
        let wait = [timeout, change].into_iter().flatten().min();
        let (number, from, event) = self.served.next_event(wait)?;
        let pad = PadId::new(u8::try_from(number).ok()?)?;
        let felt = self.pads.entry(pad).or_default();
        match event {
            ReaderEvent::Request(request) => felt.forces.take(clock::now(), from, request),
            ReaderEvent::Closed => felt.forces.left(from),
        }
        self.next_change()
    }

    fn waker(&self) -> Waker {
        self.served.waker()
    }
}
