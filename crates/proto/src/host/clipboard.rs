//! The clipboard of the host's display and that of the player: text goes the ways that the host allows, to
//! and from the player alone.

use super::session::Session;
use super::{Host, HostEvent};
use crate::control::clipboard::{ClipboardDirections, ClipboardPiece, ClipboardText};
use crate::control::negotiate::{Negotiation, Role};
use crate::id::SubscriberId;

impl Host {
    /// Clipboard text goes these directions, for sessions that begin, roles that change, and whoever subscribes from
    /// now on; at first none.
    pub fn clipboard_directions(&mut self, directions: ClipboardDirections) {
        self.clipboard_directions = directions;
    }

    /// This was copied at the host: the player hears it, in place of what it has not heard to its end.
    /// `false` if nobody is to hear it: it goes another way, nobody plays, or it is empty or longer than
    /// [`MAX_TEXT`](crate::control::clipboard::MAX_TEXT).
    pub fn clipboard(&mut self, text: ClipboardText) -> bool {
        let Some(player) = self.roles.player() else {
            return false;
        };
        if !self.clipboard_directions.to_client || !text.fits() {
            return false;
        }
        if let Some(other) = self.other(player) {
            other.due.clipboard = Some(text);
            return true;
        }
        let mut sessions = self.sessions.iter_mut();
        let session = sessions.find(|s| s.member.id == player && s.is_active());
        session.is_some_and(|session| session.sent_text.start(text))
    }

    /// A piece of a text came from a subscriber that is no session; whether a text is whole with it. Who does not
    /// play shares nothing.
    pub fn clipboard_piece_from(&mut self, id: SubscriberId, piece: &ClipboardPiece) -> bool {
        let plays = self.roles.player() == Some(id);
        let goes = plays && self.clipboard_directions.to_host;
        let Some(other) = self.other(id).filter(|_| goes) else {
            return false;
        };
        let whole = other.received_text.take(piece);
        let is_complete = whole.is_some();
        whole.into_iter().for_each(|text| self.copied(id, text));
        is_complete
    }

    /// A piece of a text came from a session.
    pub(super) fn clipboard_piece(&mut self, i: usize, piece: &ClipboardPiece) {
        let session = &mut self.sessions[i];
        let plays = self.roles.role(session.member.id) == Some(Role::Player);
        if !plays || !self.clipboard_directions.to_host || !session.is_active() {
            return;
        }
        let Some(text) = session.received_text.take(piece) else {
            return;
        };
        let id = session.member.id;
        self.copied(id, text);
    }

    /// Of several texts that nobody took yet the newest counts, so that one who copies without end fills no
    /// queue.
    fn copied(&mut self, from: SubscriberId, text: ClipboardText) {
        let older =
            |event: &HostEvent| matches!(event, HostEvent::Clipboard(other, _) if *other == from);
        self.events.retain(|event| !older(event));
        self.events.push_back(HostEvent::Clipboard(from, text));
    }
}

impl Session {
    /// Behind each grant: a player hears which ways there are, if there are any; an observer, or who was
    /// the player, hears nothing more of what was copied.
    pub(super) fn send_clipboard_directions(
        &mut self,
        role: Role,
        directions: ClipboardDirections,
    ) {
        self.sent_text.forget();
        self.received_text.forget();
        if role == Role::Player && directions.any() {
            // A few bytes behind a grant that had room.
            let _ = self
                .plane
                .negotiate(&Negotiation::ClipboardDirections(directions));
        }
    }
}
