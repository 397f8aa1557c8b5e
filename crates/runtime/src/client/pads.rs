//! This machine's game pads: what is done on them goes to the host while this client plays there and its window
//! has the focus, and what the host's application wants them to feel comes back. A host that takes none has
//! nothing begin.

use std::sync::Mutex;
use std::time::Duration;

use openuvr_media::input_source::pads::mapping::Database;
use openuvr_media::input_source::pads::{PadNews, PadReader, Rumbler};
use openuvr_proto::client::ClientSession;
use openuvr_proto::input::event::InputEvent;
use openuvr_proto::input::pad::{PadId, Rumble};
use openuvr_proto::input::pads::Pads;
use openuvr_proto::time::Instant;

use super::{Notice, Shared};
use crate::clock;
use crate::lock::lock;

/// How often the thread looks whether it is to stop, if nothing wakes it.
const TURN: Duration = Duration::from_secs(1);

/// The pads as the host knows them, or is to know them.
#[derive(Default)]
pub(super) struct PadDesk(Mutex<Table>);

#[derive(Default)]
struct Table {
    pads: Pads,
    /// The window has lost the focus: what is done on pads is for something else.
    away: bool,
    /// There when the thread was started.
    rumbler: Option<Rumbler>,
}

impl PadDesk {
    /// The host takes pads, and knows of none: it hears which there are. Whether the thread is to be started,
    /// with what wakes it; it is once.
    pub(super) fn announce(&self, session: &mut ClientSession) -> Option<Rumbler> {
        let mut table = lock(&self.0);
        let now = clock::now();
        for event in table.pads.announcements() {
            if !table.away || !matches!(event, InputEvent::Pad { .. }) {
                session.input(now, event, now);
            }
        }
        if table.rumbler.is_some() {
            return None;
        }
        // Without a descriptor for it there are no pads, and the client has other troubles.
        let rumbler = Rumbler::new().ok()?;
        table.rumbler = Some(rumbler.clone());
        Some(rumbler)
    }

    /// A pad is to feel this.
    pub(super) fn rumble(&self, pad: PadId, rumble: Rumble, lasts: Duration) {
        if let Some(rumbler) = &lock(&self.0).rumbler {
            rumbler.rumble(pad, rumble, lasts);
        }
    }

    /// Makes the thread look, if there is one.
    pub(super) fn wake(&self) {
        if let Some(rumbler) = &lock(&self.0).rumbler {
            rumbler.wake();
        }
    }
}

impl Shared {
    /// Something was done on a pad.
    fn pad(&self, event: InputEvent, sampled: Option<Instant>) {
        let now = clock::now();
        let mut session = self.session();
        let mut table = lock(&self.pads.0);
        table.pads.note(&event);
        let silent = table.away && matches!(event, InputEvent::Pad { .. });
        drop(table);
        if let (Some(session), false) = (session.as_mut(), silent) {
            session.input(now, event, sampled.map_or(now, |at| at.min(now)));
            self.flush(session);
        }
    }

    /// The window has lost the focus, which the host was told, or has it back: then it hears how pads are held.
    pub(super) fn focused(&self, focused: bool) {
        let now = clock::now();
        let mut session = self.session();
        let mut table = lock(&self.pads.0);
        if std::mem::replace(&mut table.away, !focused)
            && focused
            && let Some(session) = session.as_mut()
        {
            for event in table.pads.states() {
                session.input(now, event, now);
            }
            drop(table);
            self.flush(session);
        }
    }
}

/// Reads the pads until the client stops.
pub(super) fn run(shared: &Shared, database: Database, rumbler: Rumbler) {
    let mut pads = PadReader::new(database, rumbler);
    while !shared.stopping() {
        match pads.next(TURN) {
            PadNews::Input(event, sampled) => {
                match event {
                    InputEvent::PadConnected { identity, .. } => {
                        shared.notice(Notice::Pad(identity.name.to_string(), true));
                    }
                    InputEvent::PadDisconnected { pad } => {
                        let name = lock(&shared.pads.0)
                            .pads
                            .connected()
                            .find(|(other, ..)| *other == pad)
                            .map(|(_, identity, _)| identity.name.to_string());
                        shared.notice(Notice::Pad(name.unwrap_or_default(), false));
                    }
                    _ => {}
                }
                shared.pad(event, sampled);
            }
            PadNews::Trouble(why) => shared.notice(Notice::Trouble(why)),
            PadNews::Nothing => {}
        }
    }
}
