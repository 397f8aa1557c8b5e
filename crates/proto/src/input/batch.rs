//! Input events on their way to the host.

use super::event::InputEvent;
use super::pressed::PressedKey;
use crate::id::{ConfigEpoch, InputSeq};
use crate::time::PeerInstant;

/// Events in the order in which they happened.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct InputBatch {
    /// The configuration epoch that pointer places refer to.
    pub epoch: ConfigEpoch,
    /// Number of the first event; the others follow without a gap.
    pub first: InputSeq,
    /// When the newest event was sampled, on the client's clock, and how much earlier each was.
    pub events: Vec<(InputEvent, PeerInstant)>,
    /// The keys and buttons that are pressed once all these events are applied; `None` if more
    /// events wait than fit, so that it is not known how they end.
    pub pressed: Option<Vec<PressedKey>>,
}

/// Events in one datagram at most: 48 of at most 22 bytes (a pad's state) leave room for everything
/// else. Of longer ones there are fewer.
pub const MAX_EVENTS: usize = 48;

/// Bytes of the events in one datagram at most.
pub const MAX_EVENT_BYTES: usize = MAX_EVENTS * 22;

impl InputBatch {
    /// The number of its newest event; the one before `first` if it has none.
    #[must_use]
    pub fn newest(&self) -> InputSeq {
        let count = u32::try_from(self.events.len()).unwrap_or(0);
        InputSeq(self.first.0.wrapping_add(count).wrapping_sub(1))
    }
}

/// Bytes that an event takes on the wire (`crate::wire::control`), its time included.
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
    // Its time and kind.
    4 + 1 + fields
}
