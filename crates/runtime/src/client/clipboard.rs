//! Clipboard sharing. Text copied at the client goes to the host while this client is the player, and text copied at
//! the host can be pasted at the client. The host determines which of these directions are allowed. If none is allowed,
//! no thread is started.

use std::sync::{Arc, Mutex};

use openuvr_media::clipboard::{ClipboardError, ClipboardEvent, OpenClipboard, Waker, WatchMode};
use openuvr_proto::client::ClientSession;
use openuvr_proto::control::clipboard::{ClipboardDirections, ClipboardText, MAX_TEXT};

use super::{Notice, Shared};
use crate::lock::lock;

/// State shared by the clipboard thread and the media thread.
#[derive(Default)]
pub(super) struct SharedState(Mutex<Pending>);

#[derive(Default)]
struct Pending {
    /// Whether the thread was started.
    started: bool,
    /// The directions that the host allows.
    directions: ClipboardDirections,
    /// Text copied at the client that has not been sent yet.
    copied: Option<ClipboardText>,
    /// Text from the host that is not yet in the local clipboard.
    arrived: Option<ClipboardText>,
    announced_to_host: bool,
    announced_to_client: bool,
    /// Wakes the thread.
    waker: Option<Waker>,
}

impl SharedState {
    /// Sets the directions that the host allows. Returns whether the caller must start the thread, which is `true` only
    /// once.
    pub(super) fn open(&self, directions: ClipboardDirections) -> bool {
        let mut pending = lock(&self.0);
        pending.directions = directions;
        directions.any() && !std::mem::replace(&mut pending.started, true)
    }

    /// Resets the directions until the host announces them again.
    pub(super) fn close(&self) {
        lock(&self.0).directions = ClipboardDirections::default();
    }

    /// Stores text copied at the host. It replaces local text that has not been sent, because that text is older.
    pub(super) fn receive(&self, text: ClipboardText) {
        let mut pending = lock(&self.0);
        if pending.started {
            pending.copied = None;
            pending.arrived = Some(text);
        }
        drop(pending);
        self.wake();
    }

    /// Wakes the thread, if there is one.
    pub(super) fn wake(&self) {
        if let Some(waker) = &lock(&self.0).waker {
            waker.wake();
        }
    }

    /// Sends the copied text if the host accepts it. Returns a notice when this first succeeds.
    pub(super) fn send_copied(&self, session: &mut ClientSession) -> Option<Notice> {
        let mut pending = lock(&self.0);
        let text = pending.copied.clone()?;
        if !session.clipboard(text) {
            return None;
        }
        pending.copied = None;
        let first = !std::mem::replace(&mut pending.announced_to_host, true);
        let words = "text copied here is sent to the host";
        first.then(|| Notice::Clipboard(words.to_owned()))
    }
}

/// Exchanges text in both directions until the client stops.
pub(super) fn run(shared: &Shared, open: &OpenClipboard) {
    if let Err(e) = serve(shared, open) {
        let why = format!("clipboard not shared: {e}");
        shared.notice(Notice::Warning(why));
    }
}

fn serve(shared: &Shared, open: &OpenClipboard) -> Result<(), ClipboardError> {
    let state = &shared.clipboard;
    let mut clipboard = open(WatchMode::Everything, MAX_TEXT)?;
    lock(&state.0).waker = Some(clipboard.waker());
    while !shared.stopping() {
        let arrived = lock(&state.0).arrived.take();
        if let Some(text) = arrived {
            clipboard.offer(Arc::clone(&text.0))?;
            if !std::mem::replace(&mut lock(&state.0).announced_to_client, true) {
                let words = "text copied at the host can be pasted here";
                shared.notice(Notice::Clipboard(words.to_owned()));
            }
        }
        match clipboard.next_event()? {
            ClipboardEvent::Copied(text) => {
                lock(&state.0).copied = Some(ClipboardText(text));
                if let Some(session) = shared.session().as_mut() {
                    if let Some(notice) = state.send_copied(session) {
                        shared.notice(notice);
                    }
                    shared.flush(session);
                }
            }
            ClipboardEvent::ReadFailed(why) => {
                let mut pending = lock(&state.0);
                // Text copied before this point is outdated.
                pending.copied = None;
                if pending.directions.to_host {
                    let words = format!("copied content not sent to the host: {why}");
                    shared.notice(Notice::Clipboard(words));
                }
            }
            ClipboardEvent::Woken => {}
        }
    }
    Ok(())
}
