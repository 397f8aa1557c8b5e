//! Who waits for the GPU while the application goes on.

use std::sync::Arc;
use std::time::Duration;

use super::super::{Loader, Sharing, Submit};
use super::{Flight, Gl};
use crate::capture::submit::Ticket;

/// A thread with a context of its own.
pub(super) struct Waiter;

impl Waiter {
    /// # Safety
    /// See [`super::ReadBack::new`].
    pub(super) unsafe fn new(_loader: Loader<'_>, _sharing: Sharing, _gl: &Arc<Gl>) -> Waiter {
        Waiter
    }

    pub(super) fn is_idle(&self) -> bool {
        true
    }

    pub(super) fn wait_for(&mut self, flight: Flight, _submit: &Submit) -> Option<Flight> {
        Some(flight)
    }

    pub(super) fn returned(&mut self) -> Vec<Flight> {
        Vec::new()
    }

    pub(super) fn finish(&mut self, _timeout: Duration) -> Option<Ticket> {
        None
    }

    pub(super) fn stop(&mut self) -> Vec<Flight> {
        Vec::new()
    }
}
