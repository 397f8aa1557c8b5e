//! What is copied at this machine goes to the host while this client plays there, and what is copied at the
//! host is pasted here, as far as the host lets it. A host that lets nothing has nothing begin.

use std::sync::{Arc, Mutex};

use openuvr_media::clipboard::{Clipboard, ClipboardError, ClipboardEvent, Waker, Watch};
use openuvr_proto::client::ClientSession;
use openuvr_proto::control::clipboard::{ClipboardText, ClipboardWays, MAX_TEXT};

use super::{Notice, Shared};
use crate::lock::lock;

/// Between the clipboard's thread and the media thread.
#[derive(Default)]
pub(super) struct Desk(Mutex<Papers>);

#[derive(Default)]
struct Papers {
    /// Whether the thread was started.
    begun: bool,
    /// Which ways the host lets text go.
    ways: ClipboardWays,
    /// What was copied here, until the host was told.
    copied: Option<ClipboardText>,
    /// What was copied there, until it is offered here.
    arrived: Option<ClipboardText>,
    told_out: bool,
    told_in: bool,
    /// What makes the thread look.
    waker: Option<Waker>,
}

impl Desk {
    /// The host lets text go these ways; whether the thread is to be started, which it is once.
    pub(super) fn open(&self, ways: ClipboardWays) -> bool {
        let mut papers = lock(&self.0);
        papers.ways = ways;
        ways.any() && !std::mem::replace(&mut papers.begun, true)
    }

    /// The host says anew which ways there are.
    pub(super) fn close(&self) {
        lock(&self.0).ways = ClipboardWays::default();
    }

    /// This was copied at the host. It is newer than what was not said yet.
    pub(super) fn arrived(&self, text: ClipboardText) {
        let mut papers = lock(&self.0);
        if papers.begun {
            papers.copied = None;
            papers.arrived = Some(text);
        }
        drop(papers);
        self.wake();
    }

    /// Makes the thread look, if there is one.
    pub(super) fn wake(&self) {
        if let Some(waker) = &lock(&self.0).waker {
            waker.wake();
        }
    }

    /// Says what was copied, if the host is to hear it; words for the first time.
    pub(super) fn say(&self, session: &mut ClientSession) -> Option<Notice> {
        let mut papers = lock(&self.0);
        let text = papers.copied.clone()?;
        if !session.clipboard(text) {
            return None;
        }
        papers.copied = None;
        let first = !std::mem::replace(&mut papers.told_out, true);
        let words = "what is copied here goes to the host";
        first.then(|| Notice::Clipboard(words.to_owned()))
    }
}

/// Passes text both ways until the client stops. `display`: that of the client's window.
pub(super) fn run(shared: &Shared, display: &str) {
    if let Err(e) = serve(shared, display) {
        let why = format!("the clipboard is not shared: {e}");
        shared.notice(Notice::Trouble(why));
    }
}

fn serve(shared: &Shared, display: &str) -> Result<(), ClipboardError> {
    let desk = &shared.clipboard;
    let mut clipboard = Clipboard::open(display, Watch::Everything, MAX_TEXT)?;
    lock(&desk.0).waker = Some(clipboard.waker());
    while !shared.stopping() {
        let arrived = lock(&desk.0).arrived.take();
        if let Some(text) = arrived {
            clipboard.offer(Arc::clone(&text.0))?;
            if !std::mem::replace(&mut lock(&desk.0).told_in, true) {
                let words = "what is copied at the host can be pasted here";
                shared.notice(Notice::Clipboard(words.to_owned()));
            }
        }
        match clipboard.next_event()? {
            ClipboardEvent::Copied(text) => {
                lock(&desk.0).copied = Some(ClipboardText(text));
                if let Some(session) = shared.session().as_mut() {
                    if let Some(notice) = desk.say(session) {
                        shared.notice(notice);
                    }
                    shared.flush(session);
                }
            }
            ClipboardEvent::Unread(why) => {
                let mut papers = lock(&desk.0);
                // What was copied before it is not what the person means any more.
                papers.copied = None;
                if papers.ways.to_host {
                    let words = format!("what was copied does not go to the host: {why}");
                    shared.notice(Notice::Clipboard(words));
                }
            }
            ClipboardEvent::Woken => {}
        }
    }
    Ok(())
}
