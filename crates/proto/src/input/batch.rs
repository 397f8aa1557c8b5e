//! Batches of input events from client to host.

use super::event::InputEvent;
use super::pressed::PressedKey;
use crate::id::{ConfigEpoch, InputSeq};
use crate::time::PeerInstant;

/// Consecutive input events.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct InputBatch {
    /// The configuration epoch to which pointer positions refer.
    pub epoch: ConfigEpoch,
    /// Number of the first event; the others follow without a gap.
    pub first: InputSeq,
    /// The events with their sampling times (client clock). The times are encoded as the time of the newest event and
    /// differences from it.
    pub events: Vec<(InputEvent, PeerInstant)>,
    /// The keys and buttons that are pressed after all these events. `None` if more events are queued than fit, because
    /// the client only knows the state after the last queued event.
    pub pressed: Option<Vec<PressedKey>>,
}

/// Maximum number of events in one datagram: 48 events of at most 22 bytes (a gamepad state) leave space for everything
/// else. Longer events reduce the number.
pub const MAX_EVENTS: usize = 48;

/// Maximum size of the events in one datagram in bytes.
pub const MAX_EVENT_BYTES: usize = MAX_EVENTS * 22;

impl InputBatch {
    /// The number of the batch's newest event. If the batch has no events, the number before `first`.
    #[must_use]
    pub fn newest(&self) -> InputSeq {
        let count = u32::try_from(self.events.len()).unwrap_or(0);
        InputSeq(self.first.0.wrapping_add(count).wrapping_sub(1))
    }
}

/// Encoded size of an event in bytes (`crate::wire::control`), including its time.
pub(crate) fn event_length(event: &InputEvent) -> usize {
    let fields = match event {
        InputEvent::Key { .. } => 6,
        InputEvent::PointerAbsolute { .. }
        | InputEvent::PointerRelative { .. }
        | InputEvent::Wheel { .. } => 4,
        InputEvent::Button { .. } => 2,
        InputEvent::ReleaseAll => 0,
        InputEvent::Device { .. } => 9,
        InputEvent::PadConnected { identity, .. } => 11 + identity.name.as_str().len(),
        InputEvent::PadDisconnected { .. } => 1,
        InputEvent::Pad { .. } => 17,
    };
    // Time and kind.
    4 + 1 + fields
}
