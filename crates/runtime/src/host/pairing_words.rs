//! Messages about the pairing window for the user at the host.

use std::time::Duration;

use openuvr_net::address::peer_name;
use openuvr_proto::control::handshake::PairingEvent;

/// The message that a pairing window was opened at the request of another program, which shows the PIN.
pub(super) fn pairing_opened(span: Duration) -> String {
    let seconds = span.as_secs();
    format!("pairing is open for {seconds} s, requested by `openuvr devices pair`")
}

pub(super) fn pairing_text(event: PairingEvent) -> String {
    let left = |tries_left: u32| match tries_left {
        0 => "no tries left".to_owned(),
        1 => "one try left".to_owned(),
        n => format!("{n} tries left"),
    };
    match event {
        PairingEvent::WrongPin { from, tries_left } => {
            format!(
                "a wrong PIN came from {}; {}",
                peer_name(from),
                left(tries_left)
            )
        }
        PairingEvent::ForbiddenTried { from, tries_left } => format!(
            "a forbidden device tried to pair from {}; {}",
            peer_name(from),
            left(tries_left)
        ),
        PairingEvent::TicketRefused { from, why } => {
            format!("refused a ticket from {}: {why}", peer_name(from))
        }
        PairingEvent::Expired => {
            "pairing is closed: no device paired in time; `openuvr devices pair` reopens pairing"
                .to_owned()
        }
        PairingEvent::TooManyWrong => {
            "pairing is closed: too many wrong PINs; `openuvr devices pair` reopens pairing"
                .to_owned()
        }
    }
}
