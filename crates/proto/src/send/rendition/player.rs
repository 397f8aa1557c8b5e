//! The player of a rendition. Only the player's constraints and frame reports affect the encoder.

use std::num::NonZeroU16;

use super::{ClientConstraints, InputEcho, InputSeq, Rendition, Subscriber, SubscriberId};

impl<S: Subscriber> Rendition<S> {
    /// The current player.
    #[must_use]
    pub fn player(&self) -> Option<SubscriberId> {
        self.player
    }

    /// Maximum frames a second for the player.
    #[must_use]
    pub fn fps(&self) -> f64 {
        self.settings.policy.fps
    }

    /// The player's constraints.
    #[must_use]
    pub fn constraints(&self) -> ClientConstraints {
        self.constraints
    }

    /// Maximum frames a second for a player with these constraints.
    fn fps_for(&self, constraints: &ClientConstraints) -> f64 {
        let rate = |fps: NonZeroU16| f64::from(fps.get());
        if let (Some(chosen), Some(limit)) = (constraints.chosen_fps, self.settings.max_fps) {
            return rate(chosen).min(limit);
        }
        let usual = self.usual_fps;
        match constraints.fps.filter(|_| self.settings.follows_display) {
            // The frame rate stays at or below the usual one. At a higher rate, each frame would get a smaller share of
            // the bit rate. If the application draws no faster than usual, the shares of the additional frames would be
            // unused.
            Some(fps) => rate(fps).min(usual),
            None => usual,
        }
    }

    /// Updates the player after a change of subscribers or roles.
    pub(super) fn update_player(&mut self) {
        self.subscribers.sort();
        let player = self.subscribers.player();
        let constraints =
            player.map_or_else(ClientConstraints::default, |member| member.constraints);
        let player = player.map(|member| member.id);
        let before = std::mem::replace(&mut self.constraints, constraints);
        let fps = self.fps_for(&constraints);
        if fps != self.settings.policy.fps {
            self.settings.policy.fps = fps;
            self.policy.set_fps(fps);
            self.rate.retarget(self.target, fps);
        }
        if before.bitrate != constraints.bitrate {
            self.policy
                .set_range(self.allowed.limited_to(constraints.bitrate));
        }
        if player != self.player {
            // The next player has its own input numbers and another link.
            self.player = player;
            self.policy.player_changed();
            self.last_echo = InputSeq::default();
            self.picture_echo = InputEcho::default();
            self.departures.clear();
        }
    }
}
