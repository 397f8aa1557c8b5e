//! Copied data between X11 and Wayland: the selection CLIPBOARD.
//!
//! Copied data is fetched from its application only when another application pastes it, or when the host reads copied
//! text for the player. Data passes through memory: at most [`MOST`] bytes per transfer, and only a few transfers at a
//! time. A transfer of more data, or without progress, is ended. A Wayland application then gets only the start of the
//! data, because a pipe can't report an error.
//!
//! Spec: ICCCM 2.0, section 2; XFixes 5, "Selection tracking".

use std::collections::VecDeque;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::Duration;

use openuvr_clock as clock;
use openuvr_proto::time::Instant;
use rustix::event::{PollFd, PollFlags};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use x11rb::protocol::Event;
use x11rb::protocol::xfixes::{ConnectionExt as _, SelectionEventMask};
use x11rb::protocol::xproto::{
    Atom, AtomEnum, ChangeWindowAttributesAux, ConnectionExt as _, EventMask, PropMode, Property,
    PropertyNotifyEvent, SELECTION_NOTIFY_EVENT, SelectionNotifyEvent, SelectionRequestEvent,
};
use x11rb::rust_connection::RustConnection;
use x11rb::wrapper::ConnectionExt as _;

use super::own_window::own_window;
use super::{Atoms, XwmError};
use crate::outside::TEXT_TYPES;
use crate::xwayland::wire::{MAX_TRANSFERS, Report, WindowId};

/// Maximum number of bytes per transfer.
const MOST: usize = 64 << 20;

/// Maximum number of bytes of a property. More data is sent in parts (`INCR`). Servers accept at least 256 KiB.
const PART: usize = 64 << 10;

/// Maximum number of types of copied data that are passed on.
const MAX_TYPES: usize = 32;

/// The maximum length of a type's name.
const MAX_NAME: usize = 128;

/// How long a transfer may take without progress (guess).
const PATIENCE: Duration = Duration::from_secs(5);

/// Data that is sent from an X11 application to `target`.
struct Fetch {
    /// The invisible window whose property receives the data.
    window: WindowId,
    target: OwnedFd,
    /// The data that remains to be written.
    data: VecDeque<u8>,
    total: usize,
    in_parts: bool,
    complete: bool,
    until: Instant,
}

/// Data that is sent from `source` to an X11 application.
struct Paste {
    request: SelectionRequestEvent,
    source: OwnedFd,
    /// The data that remains to be sent.
    data: VecDeque<u8>,
    ended: bool,
    in_parts: bool,
    /// Whether the application has read the previous part.
    taken: bool,
    over: bool,
    until: Instant,
}

/// The selection, and its transfers.
pub(super) struct Selection {
    /// The window that owns the X11 selection on behalf of Wayland.
    window: WindowId,
    root: WindowId,
    /// The types offered to X11.
    offered: Vec<String>,
    owned: bool,
    fetches: Vec<Fetch>,
    pastes: Vec<Paste>,
}

impl Selection {
    pub(super) fn open(
        conn: &RustConnection,
        atoms: &Atoms,
        root: WindowId,
    ) -> Result<Selection, XwmError> {
        let window = own_window(conn, root)?;
        conn.xfixes_query_version(5, 0)?.reply()?;
        let changes = SelectionEventMask::SET_SELECTION_OWNER
            | SelectionEventMask::SELECTION_WINDOW_DESTROY
            | SelectionEventMask::SELECTION_CLIENT_CLOSE;
        conn.xfixes_select_selection_input(window, atoms.CLIPBOARD, changes)?;
        Ok(Selection {
            window,
            root,
            offered: Vec::new(),
            owned: false,
            fetches: Vec::new(),
            pastes: Vec::new(),
        })
    }

    /// The window that owns the X11 selection on behalf of Wayland.
    pub(super) fn window(&self) -> WindowId {
        self.window
    }

    /// Offers data of these types to X11 applications; an empty list offers nothing.
    pub(super) fn offer(
        &mut self,
        conn: &RustConnection,
        atoms: &Atoms,
        types: Vec<String>,
    ) -> Result<(), XwmError> {
        self.offered = types;
        let owner = match self.offered.is_empty() {
            true if !self.owned => return Ok(()),
            true => x11rb::NONE,
            false => self.window,
        };
        conn.set_selection_owner(owner, atoms.CLIPBOARD, x11rb::CURRENT_TIME)?;
        Ok(())
    }

    /// Requests data that an X11 application has copied, to write it to `target`.
    pub(super) fn fetch(
        &mut self,
        conn: &RustConnection,
        atoms: &Atoms,
        kind: &str,
        target: OwnedFd,
    ) -> Result<(), XwmError> {
        if self.fetches.len() >= MAX_TRANSFERS || fcntl_setfl(&target, OFlags::NONBLOCK).is_err() {
            return Ok(());
        }
        let window = own_window(conn, self.root)?;
        let kind = match TEXT_TYPES.contains(&kind) {
            true => atoms.UTF8_STRING,
            false => conn.intern_atom(false, kind.as_bytes())?.reply()?.atom,
        };
        let (from, to) = (atoms.CLIPBOARD, atoms._OPENUVR_COPIED);
        conn.convert_selection(window, from, kind, to, x11rb::CURRENT_TIME)?;
        self.fetches.push(Fetch {
            window,
            target,
            data: VecDeque::new(),
            total: 0,
            in_parts: false,
            complete: false,
            until: clock::now() + PATIENCE,
        });
        Ok(())
    }

    /// Handles an event of the selection.
    pub(super) fn handle(
        &mut self,
        conn: &RustConnection,
        atoms: &Atoms,
        event: &Event,
        report: &dyn Fn(Report) -> Result<(), XwmError>,
    ) -> Result<(), XwmError> {
        match event {
            Event::XfixesSelectionNotify(e) if e.selection == atoms.CLIPBOARD => {
                let was_owned = self.owned;
                self.owned = e.owner == self.window;
                match e.owner {
                    x11rb::NONE if !was_owned => report(Report::Copied(Vec::new()))?,
                    x11rb::NONE => {}
                    owner if owner == self.window => {}
                    _ => {
                        let (from, to) = (atoms.CLIPBOARD, atoms._OPENUVR_COPIED);
                        let now = x11rb::CURRENT_TIME;
                        conn.convert_selection(self.window, from, atoms.TARGETS, to, now)?;
                    }
                }
            }
            Event::SelectionNotify(e)
                if e.requestor == self.window
                    && e.target == atoms.TARGETS
                    && e.property != x11rb::NONE =>
            {
                let types = self.types(conn, atoms)?;
                // A slow application may answer after newer data was copied outside X11.
                if !self.owned {
                    report(Report::Copied(types))?;
                }
            }
            Event::SelectionNotify(e) => {
                let fetch = self.fetches.iter_mut().find(|of| of.window == e.requestor);
                if let Some(fetch) = fetch {
                    match e.property {
                        x11rb::NONE => fetch.complete = true,
                        _ => fetch.read(conn, atoms)?,
                    }
                }
            }
            Event::SelectionRequest(e) if e.selection == atoms.CLIPBOARD => {
                self.requested(conn, atoms, *e, report)?;
            }
            Event::PropertyNotify(e) => self.property(conn, atoms, e)?,
            _ => {}
        }
        Ok(())
    }

    /// Handles a changed property, which may continue a transfer.
    pub(super) fn property(
        &mut self,
        conn: &RustConnection,
        atoms: &Atoms,
        e: &PropertyNotifyEvent,
    ) -> Result<(), XwmError> {
        if e.state == Property::NEW_VALUE && e.atom == atoms._OPENUVR_COPIED {
            let fetch = self.fetches.iter_mut().find(|of| of.window == e.window);
            if let Some(fetch) = fetch.filter(|fetch| fetch.in_parts && !fetch.complete) {
                fetch.read(conn, atoms)?;
            }
        }
        if e.state == Property::DELETE {
            let paste = self.pastes.iter_mut().find(|of| {
                of.in_parts && of.request.requestor == e.window && of.request.property == e.atom
            });
            if let Some(paste) = paste {
                paste.taken = true;
            }
        }
        Ok(())
    }

    /// The types in which an X11 application offers its copied data. Text is also listed under its Wayland names.
    fn types(&self, conn: &RustConnection, atoms: &Atoms) -> Result<Vec<String>, XwmError> {
        let (window, name) = (self.window, atoms._OPENUVR_COPIED);
        let reply = conn
            .get_property(true, window, name, AtomEnum::ANY, 0, 1024)?
            .reply()?;
        let targets: Vec<Atom> = reply.value32().into_iter().flatten().take(256).collect();
        let names: Vec<_> = targets
            .iter()
            .map(|target| conn.get_atom_name(*target))
            .collect::<Result<_, _>>()?;
        let mut types = Vec::new();
        if targets.contains(&atoms.UTF8_STRING) {
            types.extend(TEXT_TYPES.map(str::to_owned));
        }
        for name in names {
            // If an atom does not exist, the error concerns only this atom.
            let Ok(reply) = name.reply() else { continue };
            let Ok(name) = String::from_utf8(reply.name) else {
                continue;
            };
            let is_type = name.contains('/') && name.len() <= MAX_NAME;
            if is_type && !types.contains(&name) && types.len() < MAX_TYPES {
                types.push(name);
            }
        }
        Ok(types)
    }

    /// Handles an X11 application that pastes.
    fn requested(
        &mut self,
        conn: &RustConnection,
        atoms: &Atoms,
        mut request: SelectionRequestEvent,
        report: &dyn Fn(Report) -> Result<(), XwmError>,
    ) -> Result<(), XwmError> {
        if request.property == x11rb::NONE {
            // Old programs send no property. Their data goes to the property named like the target (ICCCM 2.0, section
            // 2.2).
            request.property = request.target;
        }
        if request.target == atoms.TARGETS {
            let mut targets = vec![atoms.TARGETS];
            let texts = [atoms.UTF8_STRING, AtomEnum::STRING.into(), atoms.TEXT];
            if self.offered.iter().any(|of| is_text(of)) {
                targets.extend(texts);
            }
            for name in self.offered.iter().take(MAX_TYPES) {
                let atom = conn.intern_atom(false, name.as_bytes())?.reply()?.atom;
                if !targets.contains(&atom) {
                    targets.push(atom);
                }
            }
            let (window, name) = (request.requestor, request.property);
            conn.change_property32(PropMode::REPLACE, window, name, AtomEnum::ATOM, &targets)?;
            return answer(conn, &request, true);
        }
        let texts = [atoms.UTF8_STRING, AtomEnum::STRING.into(), atoms.TEXT];
        let kind = if texts.contains(&request.target) {
            TEXT_TYPES
                .into_iter()
                .find(|text| self.offered.iter().any(|of| of == text))
                .map(str::to_owned)
        } else {
            let name = conn.get_atom_name(request.target)?.reply()?.name;
            let name = String::from_utf8(name).ok();
            name.filter(|name| self.offered.contains(name))
        };
        let pipe = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK);
        let (Some(kind), Ok((source, target))) = (kind, pipe) else {
            return answer(conn, &request, false);
        };
        if self.pastes.len() >= MAX_TRANSFERS {
            return answer(conn, &request, false);
        }
        self.pastes.push(Paste::new(request, source));
        // Another application writes to this end of the pipe, and may not expect a non-blocking descriptor.
        let _ = fcntl_setfl(&target, OFlags::empty());
        report(Report::Paste(kind, target))
    }

    /// Continues the transfers as far as possible without waiting.
    pub(super) fn transfer(
        &mut self,
        conn: &RustConnection,
        atoms: &Atoms,
    ) -> Result<(), XwmError> {
        let now = clock::now();
        let mut failed = Ok(());
        for fetch in &mut self.fetches {
            fetch.write(now);
        }
        for paste in &mut self.pastes {
            if let Err(why) = paste.advance(conn, atoms, now) {
                paste.over = true;
                failed = Err(why);
            }
        }
        let ended = |of: &Fetch| (of.complete && of.data.is_empty()) || of.until <= now;
        for fetch in self.fetches.extract_if(.., |of| ended(of)) {
            conn.destroy_window(fetch.window)?;
        }
        self.pastes.retain(|of| !of.over);
        failed
    }

    /// Adds to `fds` the descriptors for which the transfers wait. Returns the time at which the first transfer is
    /// overdue.
    pub(super) fn waits<'a>(&'a self, fds: &mut Vec<PollFd<'a>>) -> Option<Instant> {
        for fetch in self.fetches.iter().filter(|of| !of.data.is_empty()) {
            fds.push(PollFd::from_borrowed_fd(
                fetch.target.as_fd(),
                PollFlags::OUT,
            ));
        }
        for paste in self.pastes.iter().filter(|of| !of.ended) {
            fds.push(PollFd::from_borrowed_fd(
                paste.source.as_fd(),
                PollFlags::IN,
            ));
        }
        let fetches = self.fetches.iter().map(|of| of.until);
        fetches.chain(self.pastes.iter().map(|of| of.until)).min()
    }
}

impl Fetch {
    /// Reads the property into which the application has written.
    fn read(&mut self, conn: &RustConnection, atoms: &Atoms) -> Result<(), XwmError> {
        let most = u32::try_from(MOST / 4).unwrap_or(u32::MAX);
        let reply = conn
            .get_property(
                true,
                self.window,
                atoms._OPENUVR_COPIED,
                AtomEnum::ANY,
                0,
                most,
            )?
            .reply()?;
        if reply.type_ == atoms.INCR {
            // Deleting the property requests the first part.
            self.in_parts = true;
            return Ok(());
        }
        self.until = clock::now() + PATIENCE;
        self.total = self.total.saturating_add(reply.value.len());
        self.complete = !self.in_parts || reply.value.is_empty();
        if self.total > MOST || reply.bytes_after > 0 {
            warn_too_long("an X11 application has copied");
            self.complete = true;
            self.data.clear();
            return Ok(());
        }
        self.data.extend(&reply.value);
        Ok(())
    }

    fn write(&mut self, now: Instant) {
        while !self.data.is_empty() {
            match rustix::io::write(&self.target, self.data.as_slices().0) {
                Ok(count) => {
                    drop(self.data.drain(..count));
                    self.until = now + PATIENCE;
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(_) => {
                    self.data.clear();
                    self.complete = true;
                }
            }
        }
    }
}

impl Paste {
    fn new(request: SelectionRequestEvent, source: OwnedFd) -> Paste {
        Paste {
            request,
            source,
            data: VecDeque::new(),
            ended: false,
            in_parts: false,
            taken: false,
            over: false,
            until: clock::now() + PATIENCE,
        }
    }

    /// Reads the data that has arrived. Returns `false` if it is more than [`MOST`] bytes.
    fn read(&mut self, now: Instant) -> bool {
        let mut part = [0; 16 << 10];
        while !self.ended && self.data.len() <= MOST {
            match rustix::io::read(&self.source, &mut part) {
                Ok(0) => self.ended = true,
                Ok(count) => {
                    self.data.extend(&part[..count]);
                    self.until = now + PATIENCE;
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(_) => self.ended = true,
            }
        }
        self.data.len() <= MOST
    }

    fn advance(
        &mut self,
        conn: &RustConnection,
        atoms: &Atoms,
        now: Instant,
    ) -> Result<(), XwmError> {
        let fits = self.read(now);
        let request = &self.request;
        if !fits {
            warn_too_long("an X11 application pastes");
            self.over = true;
            return answer(conn, request, false);
        }
        if self.until <= now && !self.over {
            self.over = true;
            return match self.in_parts {
                true => Ok(()),
                false => answer(conn, request, false),
            };
        }
        if !self.ended {
            return Ok(());
        }
        let (window, name) = (request.requestor, request.property);
        if !self.in_parts && self.data.len() <= PART {
            let kind = request.target;
            let data = self.data.make_contiguous();
            conn.change_property8(PropMode::REPLACE, window, name, kind, data)?;
            self.over = true;
            return answer(conn, request, true);
        }
        if !self.in_parts {
            self.in_parts = true;
            let changes = ChangeWindowAttributesAux::new().event_mask(EventMask::PROPERTY_CHANGE);
            conn.change_window_attributes(window, &changes)?;
            let length = u32::try_from(self.data.len()).unwrap_or(u32::MAX);
            conn.change_property32(PropMode::REPLACE, window, name, atoms.INCR, &[length])?;
            return answer(conn, request, true);
        }
        if std::mem::take(&mut self.taken) {
            let count = self.data.len().min(PART);
            let part: Vec<u8> = self.data.drain(..count).collect();
            conn.change_property8(PropMode::REPLACE, window, name, request.target, &part)?;
            self.until = now + PATIENCE;
            // An empty part ends the transfer.
            self.over = part.is_empty();
        }
        Ok(())
    }
}

fn warn_too_long(what: &str) {
    tracing::warn!(
        "{what} more than {} MiB of data, which is not transferred completely: save it in a file",
        MOST >> 20
    );
}

/// Whether a type is text.
fn is_text(kind: &str) -> bool {
    TEXT_TYPES.contains(&kind)
}

/// Informs the application whether it has got the data.
fn answer(
    conn: &RustConnection,
    request: &SelectionRequestEvent,
    given: bool,
) -> Result<(), XwmError> {
    let event = SelectionNotifyEvent {
        response_type: SELECTION_NOTIFY_EVENT,
        sequence: 0,
        time: request.time,
        requestor: request.requestor,
        selection: request.selection,
        target: request.target,
        property: match given {
            true => request.property,
            false => x11rb::NONE,
        },
    };
    conn.send_event(false, request.requestor, EventMask::NO_EVENT, event)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    /// Reads a pipe that contains `length` bytes, to its end. Returns whether all of them may be pasted.
    fn pasted(length: usize) -> bool {
        let (source, target) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let mut paste = Paste::new(SelectionRequestEvent::default(), source);
        let writer = std::thread::spawn(move || {
            // The reader may stop early.
            let _ = std::fs::File::from(target).write_all(&vec![7; length]);
        });
        let fits = paste.read(clock::now());
        assert_eq!(fits, paste.ended && paste.data.len() == length);
        drop(paste);
        writer.join().unwrap();
        fits
    }

    #[test]
    fn data_beyond_the_limit_is_not_cut_off_silently() {
        assert!(pasted(MOST));
        assert!(!pasted(MOST + 1));
    }
}
