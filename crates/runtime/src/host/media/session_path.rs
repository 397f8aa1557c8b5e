//! The link and the path on which a session's video is sent.

use std::sync::Arc;

use openuvr_clock as clock;
use openuvr_net::{Link, LinkError};
use openuvr_proto::id::PathId;
use openuvr_proto::send::packetize::SendBuf;
use openuvr_proto::send::session::{Transmit, Transmitted};
use openuvr_proto::time::Instant;

pub(super) struct SessionPath {
    link: Arc<dyn Link>,
    pub(super) path: PathId,
    /// The first send error other than a full buffer, and whether it has been reported.
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

    /// The send error. It is returned only once.
    pub(super) fn take_error(&mut self) -> Option<String> {
        let (why, reported) = self.error.as_mut()?;
        (!std::mem::replace(reported, true)).then(|| why.clone())
    }
}

impl Transmit for SessionPath {
    fn transmit(&mut self, _: Instant, datagrams: &SendBuf) -> Transmitted {
        let mut sent = Transmitted::default();
        for (bytes, each) in datagrams.runs() {
            // The first datagram is sent no earlier than this time, and the last datagram is sent before the call
            // returns. Preemption in between therefore does not make the measured rate too high.
            let sent_at = clock::now();
            let ecn = datagrams.ecn();
            match self.link.send_marked(self.path, bytes, each, ecn) {
                Ok(()) => {
                    sent.first.get_or_insert(sent_at);
                    sent.last = Some(clock::now());
                }
                Err(LinkError::Full) => sent.overflowed = true,
                // The network may recover, so treat this frame as if the buffer were full.
                Err(e) => {
                    sent.overflowed = true;
                    self.error.get_or_insert_with(|| (e.to_string(), false));
                }
            }
        }
        sent
    }
}
