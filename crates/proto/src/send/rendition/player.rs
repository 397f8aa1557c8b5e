//! Who plays, and what follows from it: the player's constraints are granted, and its feedback counts.

use super::{ClientConstraints, InputSeq, Rendition, Subscriber, SubscriberId};

impl<S: Subscriber> Rendition<S> {
    /// Who plays.
    #[must_use]
    pub fn player(&self) -> Option<SubscriberId> {
        self.player
    }

    /// The highest number of frames a second that the player has a use for.
    #[must_use]
    pub fn fps(&self) -> f64 {
        self.settings.policy.fps
    }

    /// What the player wants of the video.
    #[must_use]
    pub fn constraints(&self) -> ClientConstraints {
        self.constraints
    }

    /// After who subscribes, or in which role, has changed.
    pub(super) fn who_plays(&mut self) {
        self.subscribers.sort();
        let player = self.subscribers.player();
        let constraints =
            player.map_or_else(ClientConstraints::default, |member| member.constraints);
        let player = player.map(|member| member.id);
        let before = std::mem::replace(&mut self.constraints, constraints);
        if before.fps != constraints.fps && self.settings.follows_display {
            // Never more than usual: each frame gets its share of the bit rate, and an application that draws
            // no faster would leave the rest of the rate unused.
            let usual = self.usual_fps;
            let fps = (constraints.fps).map_or(usual, |fps| f64::from(fps.get()).min(usual));
            self.settings.policy.fps = fps;
            self.policy.set_fps(fps);
            self.rate.retarget(self.target, fps);
        }
        if before.bitrate != constraints.bitrate {
            self.policy
                .set_range(self.allowed.limited_to(constraints.bitrate));
        }
        if player != self.player {
            // The next player counts its input anew, and has another link.
            self.player = player;
            self.policy.player_changed();
            self.last_echo = InputSeq::default();
            self.departures.clear();
        }
    }
}
