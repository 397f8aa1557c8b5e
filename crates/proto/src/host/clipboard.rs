//! Clipboard sharing between the host's display and the player, in the directions that the host allows.

use super::session::Session;
use super::{Host, HostEvent};
use crate::control::clipboard::{ClipboardDirections, ClipboardPiece, ClipboardText};
use crate::control::negotiate::{Negotiation, Role};
use crate::id::SubscriberId;

impl Host {
    /// Sets the allowed clipboard directions; initially none. They apply to sessions and subscribers that join after
    /// this call, and to role changes after it.
    pub fn clipboard_directions(&mut self, directions: ClipboardDirections) {
        self.clipboard_directions = directions;
    }

    /// Sends the player a text that was copied at the host. It replaces a text that has not been sent completely.
    /// Returns `false` if the text is not sent because the direction is disabled, there is no player, or the text is
    /// empty or longer than [`MAX_TEXT`](crate::control::clipboard::MAX_TEXT).
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

    /// Takes a fragment from an external subscriber and returns whether it completes a text. Fragments from observers are
    /// ignored.
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

    /// Takes a fragment from a session.
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

    /// Keeps only the newest unpolled text, so that a flood of copies does not fill a queue.
    fn copied(&mut self, from: SubscriberId, text: ClipboardText) {
        let older =
            |event: &HostEvent| matches!(event, HostEvent::Clipboard(other, _) if *other == from);
        self.events.retain(|event| !older(event));
        self.events.push_back(HostEvent::Clipboard(from, text));
    }
}

impl Session {
    /// Called after each grant: discards incomplete text in both directions, and sends a player the enabled directions.
    pub(super) fn send_clipboard_directions(
        &mut self,
        role: Role,
        directions: ClipboardDirections,
    ) {
        self.sent_text.forget();
        self.received_text.forget();
        if role == Role::Player && directions.any() {
            // The stream has just taken the grant, so these few bytes fit too.
            let _ = self
                .plane
                .negotiate(&Negotiation::ClipboardDirections(directions));
        }
    }
}
