//! Forwards the player's input to mapped devices, pads, the window system or the application.

use std::borrow::Cow;
use std::sync::PoisonError;

use openuvr_clock as clock;
use openuvr_media::capture::ConsumedInput;
use openuvr_media::input_sink::pads::VirtualPads;
use openuvr_media::input_sink::{InputError, Translated};
use openuvr_proto::id::SubscriberId;
use openuvr_proto::input::inbox::ReceivedInput;
use openuvr_proto::send::rendition::AppliedInput;
use openuvr_proto::time::Instant;
use openuvr_proto::wire::video::EchoKind;

use super::super::{ApplicationInput, Input, Notice};
use super::Control;

impl Control {
    /// Sets the player and unplugs the previous player's pads.
    pub(super) fn set_player(&mut self, subscriber: SubscriberId) {
        if let Some(before) = self.player.filter(|before| *before != subscriber) {
            self.clear_player(before);
        }
        self.player = Some(subscriber);
    }

    /// If this subscriber is the player, clears the player and unplugs its pads.
    pub(super) fn clear_player(&mut self, subscriber: SubscriberId) {
        let played = self.player.take_if(|player| *player == subscriber);
        if let (Some(pads), Some(_)) = (&mut self.pads, played) {
            pads.unplug_all();
        }
    }

    pub(super) fn inject(
        &mut self,
        from: SubscriberId,
        arrived: &ReceivedInput,
        received: Instant,
    ) {
        if let Some(pads) = &mut self.pads {
            let shown = pads.take(&arrived.event);
            self.report_error(shown);
        }
        if arrived.event.pad().is_some() {
            return self.injected(from, arrived, received);
        }
        let remaining = self.input_devices.take(&arrived.event);
        if self.input_devices.lost() > 0 && !std::mem::replace(&mut self.loss_reported, true) {
            let why = "events of a mapped input device are lost: the reader of its descriptor is too slow";
            self.shared.notice(Notice::Warning(why.to_owned()));
        }
        let injected = match remaining {
            Ok(Some(remaining)) => {
                let taken = ConsumedInput {
                    from,
                    seq: arrived.seq,
                    received,
                    taken: received,
                };
                self.apply(remaining, taken)
            }
            // The event was written to the descriptor of its mapped device.
            Ok(None) => Ok(true),
            Err(e) => Err(e),
        };
        if !matches!(injected, Ok(true)) {
            return self.report_error(injected.map(drop));
        }
        self.injected(from, arrived, received);
    }

    pub(super) fn injected(&self, from: SubscriberId, arrived: &ReceivedInput, received: Instant) {
        let injected = AppliedInput {
            from,
            seq: arrived.seq,
            kind: EchoKind::Injected,
            received,
            applied: clock::now(),
        };
        *self
            .shared
            .injected
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(injected);
    }

    /// Applies an event that is not for a mapped device. Returns whether the event has taken effect. An event for the
    /// application takes effect later, when the application takes it.
    pub(super) fn apply(
        &mut self,
        remaining: Translated,
        taken: ConsumedInput,
    ) -> Result<bool, InputError> {
        match &mut self.input {
            Input::Sink(sink) => {
                if let Some(viewport) = &self.viewport {
                    let (x, y, size) = viewport.now();
                    sink.set_viewport(x, y, size);
                    sink.set_window(viewport.window(), viewport.scope());
                }
                for event in remaining {
                    sink.apply(&event)?;
                }
                let withheld = sink.suppressed();
                if std::mem::replace(&mut self.withheld, withheld) != withheld {
                    self.shared
                        .notice(Notice::InputWithheld(withheld.map(Cow::from)));
                }
                Ok(withheld.is_none())
            }
            Input::Application(inputs) => {
                for event in remaining {
                    inputs.push(ApplicationInput { event, taken });
                }
                Ok(false)
            }
        }
    }

    /// Sets whether the player's held keys may repeat. They must not repeat while the player is silent. Applications
    /// that take input themselves and readers of mapped devices never repeat keys.
    pub(super) fn allow_key_repeat(&mut self, may: bool) {
        if let Input::Sink(sink) = &mut self.input
            && let Err(e) = sink.allow_repeat(may)
        {
            self.report_error(Err(e));
        }
    }

    pub(super) fn release_all(&mut self) {
        let released = self.input_devices.release_all();
        self.report_error(released);
        let released = self.pads.as_mut().map_or(Ok(()), VirtualPads::release_all);
        self.report_error(released);
        match &mut self.input {
            Input::Sink(sink) => {
                if let Err(e) = sink.release_all() {
                    self.shared.notice(Notice::Warning(e.to_string()));
                }
            }
            Input::Application(inputs) => inputs.release_all(),
        }
    }
}
