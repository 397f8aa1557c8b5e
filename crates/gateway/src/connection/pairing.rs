//! Entry of the PIN that a client of another service shows. A player enters it; see [`PinEntry`].

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;

use crate::pairing::PinEntry;
use crate::peer::Peer;

/// The PIN entry on one page.
pub(super) struct Pairing {
    entry: Option<Arc<dyn PinEntry>>,
    /// The waiting client that the player's page shows. `None` before the first message to the page; `Some(None)` if no
    /// client waits.
    shown: Option<Option<String>>,
    /// Whether a PIN from this page is being tried.
    tries: Arc<AtomicBool>,
}

impl Pairing {
    pub(super) fn new(entry: Option<Arc<dyn PinEntry>>) -> Pairing {
        Pairing {
            entry,
            shown: None,
            tries: Arc::default(),
        }
    }

    /// Reports the waiting client to a player's page. Returns whether the page reads its messages.
    pub(super) fn follow(&mut self, peer: &Peer, plays: bool) -> bool {
        let Some(entry) = self.entry.as_ref().filter(|_| plays) else {
            // An observer's page does not keep the message, so the page needs it again when the observer becomes the
            // player.
            self.shown = None;
            return true;
        };
        let waiting = entry.waiting();
        if self.shown.as_ref() == Some(&waiting) {
            return true;
        }
        let service = entry.service();
        let text = json!({
            "type": "pairing",
            "service": service.name,
            "address": service.address,
            "port": service.port,
            "client": waiting,
        });
        self.shown = Some(waiting);
        peer.send_notice(&text.to_string())
    }

    /// Tries a player's PIN and reports the outcome to the page. Returns `false` if the PIN is not tried: there is no
    /// service, or another PIN from this page is being tried.
    pub(super) fn enter(&self, peer: &Arc<Peer>, pin: String, name: Option<String>) -> bool {
        let Some(entry) = self.entry.clone() else {
            return false;
        };
        if self.tries.swap(true, Ordering::Relaxed) {
            return false;
        }
        let (peer, tries) = (peer.clone(), self.tries.clone());
        tokio::task::spawn_blocking(move || {
            let outcome = entry.pair(&pin, name.as_deref());
            tries.store(false, Ordering::Relaxed);
            let paired = outcome.is_ok();
            let words = outcome.unwrap_or_else(|why| why);
            let text = json!({ "type": "paired", "paired": paired, "words": words });
            peer.send_notice(&text.to_string());
            peer.woken.notify_one();
        });
        true
    }
}
