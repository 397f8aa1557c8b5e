//! User input from client to application.

pub mod batch;
pub mod echo;
pub mod event;
pub mod inbox;
pub mod keys;
pub mod outbox;
pub mod pad;
pub mod pads;
pub mod pressed;
