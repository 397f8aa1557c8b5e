//! Pads presented by the kernel: uinput devices, each an Xbox 360 pad with rumble, for all programs
//! of the machine.
//!
//! This module is tested in a virtual machine (`./dev test-vm`), because few machines have `/dev/uinput`.

mod sys;

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use openuvr_clock as clock;
use openuvr_proto::input::pad::{PadId, PadIdentity, PadState, Rumble};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{InputError, PadSink, Pads, RumbleSource};
use crate::input_event::{BYTES, Event};
use crate::pad::codes::EV_FF;
use crate::pad::force_feedback::ForceFeedback;
use crate::pad::requests::{LENGTH, Request};
use crate::pad::xbox;
use crate::waker::Waker;

const PATH: &str = "/dev/uinput";

/// Presents pads through the kernel.
///
/// # Errors
/// [`InputError`] if the permission is missing or the kernel lacks uinput.
pub fn open() -> Result<Pads, InputError> {
    // Each pad opens `/dev/uinput` again; this open only checks access.
    device().map_err(|e| {
        InputError(format!(
            "game pads are not available: can't open {PATH}: {e}; run `sudo openuvr setup --only uinput`, then log in \
             again"
        ))
    })?;
    let waker = Waker::new().map_err(|e| InputError(e.to_string()))?;
    let shared = Arc::new(Shared {
        pads: Mutex::default(),
        waker,
    });
    Ok(Pads {
        sink: Box::new(Sink(shared.clone())),
        rumble: Box::new(Forces {
            shared,
            felt: BTreeMap::new(),
        }),
    })
}

fn device() -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(PATH)
}

/// The devices, shared by the writing thread and the reading thread.
struct Shared {
    pads: Mutex<BTreeMap<PadId, Arc<File>>>,
    waker: Waker,
}

impl Shared {
    fn pads(&self) -> MutexGuard<'_, BTreeMap<PadId, Arc<File>>> {
        self.pads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Sink(Arc<Shared>);

impl PadSink for Sink {
    fn plug(&mut self, pad: PadId, identity: &PadIdentity) -> Result<(), InputError> {
        let made = device().and_then(|file| sys::create(&file, pad, identity).map(|()| file));
        let file = made.map_err(|e| {
            let name = identity.name;
            InputError(format!("uinput can't create the pad {name}: {e}"))
        })?;
        self.0.pads().insert(pad, Arc::new(file));
        self.0.waker.wake();
        Ok(())
    }

    fn unplug(&mut self, pad: PadId) {
        if let Some(file) = self.0.pads().remove(&pad) {
            // The reading thread may keep the file open slightly longer, so closing the file here would not remove the
            // device.
            sys::destroy(&file);
        }
        self.0.waker.wake();
    }

    fn held(&mut self, pad: PadId, before: &PadState, now: &PadState) -> Result<(), InputError> {
        let Some(file) = self.0.pads().get(&pad).cloned() else {
            return Ok(());
        };
        let bytes = xbox::events(before, now).into_iter().flat_map(event);
        let bytes: Vec<u8> = bytes.collect();
        if bytes.is_empty() {
            return Ok(());
        }
        let written = (&*file).write_all(&bytes);
        written.map_err(|e| InputError(format!("uinput does not accept a pad's events: {e}")))
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        PadId::all().for_each(|pad| self.unplug(pad));
    }
}

/// An event as bytes. The kernel sets its timestamp.
fn event((kind, code, value): (u16, u16, i32)) -> [u8; BYTES] {
    let event = Event {
        time: Duration::ZERO,
        kind,
        code,
        value,
    };
    event.to_bytes()
}

#[derive(Default)]
struct Felt {
    forces: ForceFeedback,
    /// The rumble as last reported.
    reported: Rumble,
}

struct Forces {
    shared: Arc<Shared>,
    felt: BTreeMap<PadId, Felt>,
}

/// The kernel keeps the programs' effects apart, so all requests from uinput count as requests of one reader.
const PROGRAM: u64 = 0;

impl Forces {
    fn next_change(&mut self) -> Option<(PadId, Rumble)> {
        let now = clock::now();
        self.felt.iter_mut().find_map(|(pad, felt)| {
            let rumble = felt.forces.rumble(now);
            let before = std::mem::replace(&mut felt.reported, rumble);
            (before != rumble).then_some((*pad, rumble))
        })
    }

    /// Receives the kernel's requests for a pad.
    fn receive(&mut self, pad: PadId, file: &File) {
        let felt = self.felt.entry(pad).or_default();
        let mut bytes = [0; BYTES];
        while (&*file).read(&mut bytes).is_ok_and(|read| read == BYTES) {
            let event = Event::from_bytes(&bytes);
            let request = match event.kind {
                EV_FF => {
                    let mut plain = [0; LENGTH];
                    plain[16..18].copy_from_slice(&event.kind.to_ne_bytes());
                    plain[18..20].copy_from_slice(&event.code.to_ne_bytes());
                    plain[20..].copy_from_slice(&event.value.to_ne_bytes());
                    Request::from_bytes(&plain)
                }
                sys::EV_UINPUT => sys::answer(file, event.code, event.value),
                _ => None,
            };
            if let Some(request) = request {
                felt.forces.take(clock::now(), PROGRAM, request);
            }
        }
    }
}

impl RumbleSource for Forces {
    fn next(&mut self, timeout: Option<Duration>) -> Option<(PadId, Rumble)> {
        if let Some(change) = self.next_change() {
            return Some(change);
        }
        let now = clock::now();
        let change = self
            .felt
            .values()
            .filter_map(|felt| felt.forces.next_change(now));
        let change = change.min().map(|at| at.since(now));
        let wait = [timeout, change].into_iter().flatten().min();
        let wait = wait.and_then(|wait| Timespec::try_from(wait).ok());
        let pads = self.shared.pads().clone();
        // Effects of a removed pad are gone.
        for (pad, felt) in &mut self.felt {
            if !pads.contains_key(pad) {
                felt.forces = ForceFeedback::default();
            }
        }
        let files = pads
            .values()
            .map(|file| PollFd::new(&**file, PollFlags::IN));
        let waker = PollFd::new(&self.shared.waker.0, PollFlags::IN);
        let mut fds: Vec<PollFd<'_>> = files.chain([waker]).collect();
        // If `poll` is interrupted, the devices are checked anyway.
        let _ = poll(&mut fds, wait.as_ref());
        drop(fds);
        self.shared.waker.lower();
        for (pad, file) in &pads {
            self.receive(*pad, file);
        }
        self.next_change()
    }

    fn waker(&self) -> Waker {
        self.shared.waker.clone()
    }
}
