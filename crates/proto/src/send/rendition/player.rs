//! Who plays, and what follows from it: the player's wishes are granted, and its feedback counts.

use super::{InputSeq, Rendition, Subscriber, SubscriberId, Wishes};

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
    pub fn wishes(&self) -> Wishes {
        self.wishes
    }

    /// After who subscribes, or in which role, has changed.
    pub(super) fn who_plays(&mut self) {
        self.subscribers.sort();
        let player = self.subscribers.player();
        let wishes = player.map_or_else(Wishes::default, |member| member.wishes);
        let player = player.map(|member| member.id);
        let before = std::mem::replace(&mut self.wishes, wishes);
        if before.fps != wishes.fps && self.settings.follows_display {
            // Never more than usual: each frame gets its share of the bit rate, and an application that draws
            // no faster would leave the rest of the rate unused.
            let usual = self.usual_fps;
            let fps = (wishes.fps).map_or(usual, |fps| f64::from(fps.get()).min(usual));
            self.settings.policy.fps = fps;
            self.policy.set_fps(fps);
            self.rate.retarget(self.target, fps);
        }
        if before.bitrate != wishes.bitrate {
            self.policy.set_range(self.allowed.wished(wishes.bitrate));
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
