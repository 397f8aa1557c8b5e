//! Pads that a game sees through a library in its process: [`served`](super::served) devices, each an Xbox 360
//! pad. Those of [`seats`] are there whether somebody holds them or not.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use openuvr_proto::input::pad::{PadId, PadIdentity, PadState, Rumble};

use super::seats::{self, SeatSockets};
use super::server::{PadServer, ReaderEvent};
use super::{InputError, PadSink, Pads, RumbleSource};
use crate::clock;
use crate::pad::force_feedback::ForceFeedback;
use crate::pad::xbox;
use crate::waker::Waker;

/// Shows pads in `folder`; the first are the seats that have these sockets.
///
/// # Errors
/// [`InputError`] if that can't be written to.
pub fn open(folder: &Path, sockets: &SeatSockets) -> Result<Pads, InputError> {
    let served = PadServer::with_seats(folder, seats::described(sockets)).map_err(|e| {
        let folder = folder.display();
        InputError(format!("no game pads: {folder} can't be used: {e}"))
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
        shown.map_err(|e| InputError(format!("the pad {} can't be shown: {e}", identity.name)))
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
        let told = self.0.write(pad.number().into(), &events);
        told.map_err(|e| InputError(format!("the pads' folder can't be written: {e}")))
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
    /// As was told.
    told: Rumble,
}

struct Forces {
    served: Arc<PadServer>,
    pads: BTreeMap<PadId, Felt>,
}

impl Forces {
    /// A pad that feels something else than was told.
    fn next_change(&mut self) -> Option<(PadId, Rumble)> {
        let now = clock::now();
        self.pads.iter_mut().find_map(|(pad, felt)| {
            let rumble = felt.forces.rumble(now);
            let before = std::mem::replace(&mut felt.told, rumble);
            (before != rumble).then_some((*pad, rumble))
        })
    }
}

impl RumbleSource for Forces {
    fn next(&mut self, timeout: Option<Duration>) -> Option<(PadId, Rumble)> {
        if let Some(news) = self.next_change() {
            return Some(news);
        }
        let now = clock::now();
        let change = self
            .pads
            .values()
            .filter_map(|felt| felt.forces.next_change(now));
        let change = change.min().map(|at| at.since(now));
        let wait = [timeout, change].into_iter().flatten().min();
        let (number, from, asked) = self.served.next_event(wait)?;
        let pad = PadId::new(u8::try_from(number).ok()?)?;
        let felt = self.pads.entry(pad).or_default();
        match asked {
            ReaderEvent::Request(request) => felt.forces.take(clock::now(), from, request),
            ReaderEvent::Closed => felt.forces.left(from),
        }
        self.next_change()
    }

    fn waker(&self) -> Waker {
        self.served.waker()
    }
}
