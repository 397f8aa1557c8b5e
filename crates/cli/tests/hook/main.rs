//! `openuvr run` with real programs: what they draw is what a client shows, and whatever they do,
//! they live and end as they would without a hook.

#[path = "../support/mod.rs"]
mod support;

mod clipboard;
mod games;
#[path = "../input/hand.rs"]
#[allow(dead_code, reason = "the tests of input do more with it")]
mod hand;
mod launch;
mod life;
mod lives;
mod messages;
mod pads;
mod rig;
mod sound;
