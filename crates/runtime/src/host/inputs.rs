//! Input queued for the application.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use openuvr_media::capture::ConsumedInput;
use openuvr_proto::input::event::InputEvent;
use openuvr_proto::input::pressed::Pressed;

/// Capacity of the queue: one second of events from a 1000 Hz mouse. If an application takes no input for longer, a
/// release of all keys replaces the pending events.
const MAX_PENDING: usize = 1024;

/// An event for the application.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ApplicationInput {
    /// The event.
    pub event: InputEvent,
    /// The sender of the event, and the times at which the event arrived and was taken.
    pub taken: ConsumedInput,
}

/// The queue of events from the control thread to the application, oldest first.
#[derive(Debug, Default)]
pub struct InputQueue {
    state: Mutex<State>,
    arrived: Condvar,
}

#[derive(Debug, Default)]
struct State {
    pending: VecDeque<ApplicationInput>,
    /// The newest event added.
    newest: Option<ConsumedInput>,
    pressed: Pressed,
}

impl InputQueue {
    /// Adds an event.
    pub fn push(&self, input: ApplicationInput) {
        let mut state = self.lock();
        if state.pending.len() >= MAX_PENDING {
            // Discard all pending events, because presses without their releases are worse than no events.
            state.release();
        }
        state.newest = Some(input.taken);
        state.pressed.note(&input.event);
        let event = state.without_shortcut_text(input.event);
        state.pending.push_back(ApplicationInput { event, ..input });
        self.arrived.notify_one();
    }

    /// Takes the oldest event.
    #[must_use]
    pub fn pop(&self) -> Option<ApplicationInput> {
        self.lock().pending.pop_front()
    }

    /// Takes the oldest event. If there is none, waits for an event, at most for `timeout`.
    #[must_use]
    pub fn wait(&self, timeout: Duration) -> Option<ApplicationInput> {
        let nothing = |state: &mut State| state.pending.is_empty();
        let waited = self
            .arrived
            .wait_timeout_while(self.lock(), timeout, nothing);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.pending.pop_front()
    }

    /// Releases the player's keys and discards pending events.
    pub fn release_all(&self) {
        self.lock().release();
        self.arrived.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `KEY_LEFTCTRL`, `KEY_RIGHTCTRL`, `KEY_LEFTALT`, `KEY_LEFTMETA` and `KEY_RIGHTMETA`.
const MODIFIERS: [u16; 5] = [29, 97, 56, 125, 126];

impl State {
    /// Removes the text of a key that is pressed together with Ctrl, Alt or Super. Such a key types nothing, although a
    /// window system reports its letter.
    fn without_shortcut_text(&self, event: InputEvent) -> InputEvent {
        let held = self.pressed.held();
        let command = held.iter().any(|key| MODIFIERS.contains(&key.code));
        match event {
            InputEvent::Key { code, pressed, .. } if command => InputEvent::Key {
                code,
                text: None,
                pressed,
            },
            other => other,
        }
    }

    fn release(&mut self) {
        self.pending.clear();
        self.pressed = Pressed::default();
        let event = InputEvent::ReleaseAll;
        let newest = self.newest;
        self.pending
            .extend(newest.map(|taken| ApplicationInput { event, taken }));
    }
}

#[cfg(test)]
mod tests {
    use openuvr_proto::id::{InputSeq, SubscriberId};
    use openuvr_proto::input::event::KeyCode;
    use openuvr_proto::time::Instant;

    use super::*;

    fn press(seq: u32) -> ApplicationInput {
        ApplicationInput {
            event: InputEvent::Key {
                code: KeyCode(30),
                text: None,
                pressed: true,
            },
            taken: ConsumedInput {
                from: SubscriberId::Other(1),
                seq: InputSeq(seq),
                received: Instant(0),
                taken: Instant(0),
            },
        }
    }

    fn seqs(inputs: &InputQueue) -> Vec<(u32, bool)> {
        std::iter::from_fn(|| inputs.pop())
            .map(|i| (i.taken.seq.0, i.event == InputEvent::ReleaseAll))
            .collect()
    }

    #[test]
    fn events_come_in_order_and_overflow_ends_in_a_release() {
        let inputs = InputQueue::default();
        inputs.release_all();
        assert!(seqs(&inputs).is_empty(), "nothing was pressed");
        assert_eq!(inputs.wait(Duration::ZERO), None);
        (1..=3).for_each(|seq| inputs.push(press(seq)));
        assert_eq!(seqs(&inputs), [(1, false), (2, false), (3, false)]);
        inputs.release_all();
        let released = inputs.wait(Duration::from_secs(60));
        assert_eq!(
            released.map(|i| i.event),
            Some(InputEvent::ReleaseAll),
            "although none was pending"
        );
        (1..=1025).for_each(|seq| inputs.push(press(seq)));
        assert_eq!(seqs(&inputs), [(1024, true), (1025, false)]);
    }

    #[test]
    fn a_letter_with_control_has_no_text() {
        let inputs = InputQueue::default();
        let key = |code, text, pressed| InputEvent::Key {
            code: KeyCode(code),
            text,
            pressed,
        };
        let events = [
            key(46, Some('c'), true),
            key(46, None, false),
            key(29, None, true),
            key(46, Some('c'), true),
        ];
        for event in events {
            inputs.push(ApplicationInput { event, ..press(1) });
        }
        let seen: Vec<_> = std::iter::from_fn(|| inputs.pop())
            .map(|i| i.event)
            .collect();
        let expected = [events[0], events[1], events[2], key(46, None, true)];
        assert_eq!(seen, expected);
    }
}
