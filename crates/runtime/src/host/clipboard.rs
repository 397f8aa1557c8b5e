//! Clipboard sharing. Text copied on the host's display goes to the player, and text copied by the player can be pasted
//! on that display. The configuration determines which of these directions are allowed.

use std::sync::{Arc, Mutex};

use openuvr_media::clipboard::{self, Clipboard, ClipboardError, ClipboardEvent, Waker, WatchMode};
use openuvr_proto::control::clipboard::{ClipboardDirections, ClipboardText, MAX_TEXT};

use super::{Notice, Shared};
use crate::lock::lock;

/// The names of the directions, for options and settings files.
pub const CLIPBOARD_DIRECTIONS: [(&str, ClipboardDirections); 4] = [
    ("off", directions(false, false)),
    ("to-host", directions(true, false)),
    ("to-client", directions(false, true)),
    ("both", directions(true, true)),
];

const fn directions(to_host: bool, to_client: bool) -> ClipboardDirections {
    ClipboardDirections { to_host, to_client }
}

/// A display's clipboard, shared with the player.
pub struct SharedClipboard {
    clipboard: Box<dyn Clipboard>,
    directions: ClipboardDirections,
}

impl SharedClipboard {
    /// Opens the clipboard with `open`, whose arguments are the watch mode and the maximum number of UTF-8 bytes.
    /// Returns `None` if no direction is allowed. Text that was copied before this call is not sent.
    ///
    /// # Errors
    /// Returns the error of `open` as one line.
    pub fn open(
        directions: ClipboardDirections,
        open: impl FnOnce(WatchMode, usize) -> clipboard::Opened,
    ) -> Result<Option<SharedClipboard>, String> {
        let watch = match directions.to_client {
            true => WatchMode::Changes,
            false => WatchMode::Nothing,
        };
        let open = || open(watch, MAX_TEXT).map_err(|e| e.to_string());
        let clipboard = directions.any().then(open).transpose()?;
        Ok(clipboard.map(|clipboard| SharedClipboard {
            clipboard,
            directions,
        }))
    }

    /// The allowed directions.
    pub(super) fn directions(&self) -> ClipboardDirections {
        self.directions
    }

    /// The inbox for the player's text. It includes the waker of the clipboard thread.
    pub(super) fn inbox(&self) -> Inbox {
        Inbox {
            text: Arc::default(),
            waker: self.clipboard.waker(),
        }
    }
}

/// The player's newest text, until it is put into the clipboard or replaced.
#[derive(Clone)]
pub(super) struct Inbox {
    text: Arc<Mutex<Option<ClipboardText>>>,
    pub(super) waker: Waker,
}

impl Inbox {
    pub(super) fn put(&self, text: ClipboardText) {
        *lock(&self.text) = Some(text);
        self.waker.wake();
    }
}

/// Exchanges text in both directions until the host stops.
pub(super) fn run(shared: &Shared, shares: SharedClipboard, inbox: &Inbox) {
    let mut clipboard = shares.clipboard;
    let (mut announced_to_host, mut announced_to_client) = (false, false);
    let mut turn = || {
        if let Some(text) = lock(&inbox.text).take() {
            clipboard.offer(text.0)?;
            if !std::mem::replace(&mut announced_to_host, true) {
                notify(
                    shared,
                    "text copied by the player can be pasted here".to_owned(),
                );
            }
        }
        match clipboard.next_event()? {
            ClipboardEvent::Copied(text) => {
                let mut sessions = shared.sessions();
                let sent = sessions.clipboard(ClipboardText(text));
                shared.flush(&mut sessions);
                drop(sessions);
                if sent && !std::mem::replace(&mut announced_to_client, true) {
                    notify(shared, "text copied here is sent to the player".to_owned());
                }
            }
            ClipboardEvent::ReadFailed(why) => {
                if shared.sessions().player().is_some() {
                    notify(
                        shared,
                        format!("copied content not sent to the player: {why}"),
                    );
                }
            }
            ClipboardEvent::Woken => {}
        }
        Ok::<(), ClipboardError>(())
    };
    while !shared.stopping() {
        if let Err(e) = turn() {
            let why = format!("clipboard sharing stopped: {e}");
            return shared.notice(Notice::Warning(why));
        }
    }
}

fn notify(shared: &Shared, words: String) {
    shared.notice(Notice::Clipboard(words));
}
