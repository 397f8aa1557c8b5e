//! The runtime's decisions, as pure values: without pointers, locks or clocks. The caller passes `now`, and
//! gets OpenXR result codes.

pub(crate) mod actions;
pub(crate) mod composition;
pub(crate) mod delay;
pub(crate) mod devices;
pub(crate) mod events;
pub(crate) mod frame_loop;
pub(crate) mod hands;
pub(crate) mod head;
pub(crate) mod images;
pub(crate) mod input;
pub(crate) mod life;
pub(crate) mod newer_devices;
pub(crate) mod paths;
pub(crate) mod pose;
pub(crate) mod pose_times;
pub(crate) mod profiles;
pub(crate) mod scene;
pub(crate) mod spaces;
pub(crate) mod views;
pub(crate) mod wish;
