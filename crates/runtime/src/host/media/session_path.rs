//! The way of a session's video: its link, and where on it.

use std::sync::Arc;

use openuvr_net::{Link, LinkError};
use openuvr_proto::id::PathId;
use openuvr_proto::send::packetize::SendBuf;
use openuvr_proto::send::session::{Transmit, Transmitted};
use openuvr_proto::time::Instant;

use crate::clock;

pub(super) struct SessionPath {
    link: Arc<dyn Link>,
    pub(super) path: PathId,
    /// Why the link did not take something, if not for want of room; and whether that was told.
    error: Option<(String, bool)>,
}

impl SessionPath {
    pub(super) fn new(link: Arc<dyn Link>, path: PathId) -> SessionPath {
        SessionPath {
            link,
            path,
            error: None,
        }
    }

    /// Why the link does not take anything, to be told once.
    pub(super) fn take_error(&mut self) -> Option<String> {
        let (why, reported) = self.error.as_mut()?;
        (!std::mem::replace(reported, true)).then(|| why.clone())
    }
}

impl Transmit for SessionPath {
    fn transmit(&mut self, _: Instant, datagrams: &SendBuf) -> Transmitted {
        let mut sent = Transmitted::default();
        for (bytes, each) in datagrams.runs() {
            // The first was handed over at this moment at the earliest, the last one at the latest when the
            // call has returned: a thread that loses its core in between sends no faster than it says.
            let sent_at = clock::now();
            match self.link.send(self.path, bytes, each) {
                Ok(()) => {
                    sent.first.get_or_insert(sent_at);
                    sent.last = Some(clock::now());
                }
                Err(LinkError::Full) => sent.overflowed = true,
                // An unreachable network may come back: for this frame it is as if the buffer
                // were full.
                Err(e) => {
                    sent.overflowed = true;
                    self.error.get_or_insert_with(|| (e.to_string(), false));
                }
            }
        }
        sent
    }
}
