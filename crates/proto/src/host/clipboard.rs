//! The clipboard of the host's display and that of the player: text goes the ways that the host allows, to
//! and from the player alone.

use super::session::Session;
use super::{Host, HostEvent};
use crate::control::clipboard::{ClipboardPiece, ClipboardText, ClipboardWays};
use crate::control::negotiate::{Negotiation, Role};

impl Host {
    /// Clipboard text goes these ways, for sessions that begin and roles that change from now on; at first
    /// none.
    pub fn clipboard_ways(&mut self, ways: ClipboardWays) {
        self.clipboard_ways = ways;
    }

    /// This was copied at the host: the player hears it, in place of what it has not heard to its end.
    /// `false` if nobody is to hear it: it goes another way, nobody plays in a session, or it is empty or
    /// longer than [`MAX_TEXT`](crate::control::clipboard::MAX_TEXT).
    pub fn clipboard(&mut self, text: ClipboardText) -> bool {
        let player = self.roles.player();
        let mut sessions = self.sessions.iter_mut();
        let player = sessions.find(|s| Some(s.member.id) == player && s.is_active());
        let to_client = self.clipboard_ways.to_client;
        player.is_some_and(|session| to_client && session.sent_text.begin(text))
    }

    /// A piece of a text came from a session. Of several texts that nobody took yet the newest counts, so
    /// that one who copies without end fills no queue.
    pub(super) fn clipboard_piece(&mut self, i: usize, piece: &ClipboardPiece) {
        let session = &mut self.sessions[i];
        let plays = self.roles.role(session.member.id) == Some(Role::Player);
        if !plays || !self.clipboard_ways.to_host || !session.is_active() {
            return;
        }
        let Some(text) = session.received_text.take(piece) else {
            return;
        };
        let id = session.id;
        let text = HostEvent::Clipboard(id, text);
        let older =
            |event: &HostEvent| matches!(event, HostEvent::Clipboard(other, _) if *other == id);
        self.events.retain(|event| !older(event));
        self.events.push_back(text);
    }
}

impl Session {
    /// Behind each grant: a player hears which ways there are, if there are any; an observer, or who was
    /// the player, hears nothing more of what was copied.
    pub(super) fn say_clipboard_ways(&mut self, role: Role, ways: ClipboardWays) {
        self.sent_text.forget();
        self.received_text.forget();
        if role == Role::Player && ways.any() {
            // A few bytes behind a grant that had room.
            let _ = self.plane.negotiate(&Negotiation::ClipboardWays(ways));
        }
    }
}
