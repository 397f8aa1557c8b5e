//! What a person does, on its way from the client to the application.

pub mod batch;
pub mod echo;
pub mod event;
pub mod inbox;
pub mod keys;
pub mod outbox;
pub mod pad;
pub mod pads;
pub mod pressed;
