//! Sends the host's sound to a client, in the host's audio thread.

use std::sync::Arc;

use openuvr_runtime::host::{GatewayHost, Payload, SoundCodec};

use super::cipher::SoundCipher;
use super::multistream::Layout;
use super::packets::SoundPackets;
use crate::session::{Session, StreamParameters};

/// Samples per millisecond of the host's sound.
const PER_MILLI: u16 = 48;

/// Registers a listener that sends sound until the session is closed. Returns whether the host has sound that the
/// client can play.
pub fn listen(
    host: &dyn GatewayHost,
    session: &Arc<Session>,
    parameters: &StreamParameters,
) -> bool {
    let Some(layout) = Layout::of(parameters.channels) else {
        return false;
    };
    let cipher = match parameters.seals_sound {
        true => match SoundCipher::new(&session.launch.key, session.launch.key_id) {
            Ok(cipher) => Some(cipher),
            // If the client wants encrypted sound, it is never sent unencrypted.
            Err(_) => return false,
        },
        false => None,
    };
    let millis = parameters.sound_millis;
    let mut packets = SoundPackets::new(layout, millis, cipher);
    let session = session.clone();
    let mut reported = false;
    let listener = Box::new(move |payload: &Payload<'_>| {
        if session.is_closed() {
            return false;
        }
        if !session.sound.is_found() {
            return true;
        }
        let fits = payload.samples == u16::from(millis) * PER_MILLI;
        let sent = fits
            && packets.packets(payload.bytes, |packet| {
                // An error is ignored: if the socket has no room, the packet is lost, but the parity of its block may
                // restore it.
                let _ = session.sound.send(packet);
            });
        if !sent && !std::mem::replace(&mut reported, true) {
            let client = &session.owner.title;
            tracing::warn!(
                client,
                "no sound for a Moonlight client: it requires sound packets of {millis} ms; \
                 start the host with --sound-frame {millis}"
            );
        }
        true
    });
    host.listen(SoundCodec::Opus, listener)
}
