//! `openuvr run` with real programs. The client shows their pictures, and the programs run and end as without the hook.

#[path = "../support/mod.rs"]
mod support;

mod browsers;
mod clipboard;
mod context_order;
mod games;
mod launch;
mod lifecycle;
mod messages;
mod pads;
mod rig;
mod sound;
#[path = "../input/xtest.rs"]
#[allow(dead_code, reason = "the tests of input use more of it")]
mod xtest;
