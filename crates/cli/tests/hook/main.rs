//! `openuvr run` with real programs: what they draw is what a client shows, and whatever they do,
//! they live and end as they would without a hook.

#[path = "../support/mod.rs"]
mod support;

mod games;
mod life;
mod launch;
mod rig;
