//! A session with its parts: pictures, pointer and input.

use std::sync::Arc;
use std::time::Duration;

use crate::capture::PortalCapture;
use crate::cursor::PortalCursor;
use crate::input::PortalInput;
use crate::session::{Connected, Options, PortalError};
use crate::stream::{Arrived, Stream};

/// An open session and its parts. The session is closed when all parts are dropped.
pub struct DesktopSession {
    /// The pictures.
    pub capture: PortalCapture,
    /// The pointer; `None` if it is drawn into the picture or hidden.
    pub cursor: Option<PortalCursor>,
    /// The input; `None` if it was not requested, the desktop has no RemoteDesktop portal, or the user has not allowed it.
    pub input: Option<PortalInput>,
}

impl DesktopSession {
    /// Requests the screen from the desktop, and waits for the user's answer. `keep_waiting` is called about ten times
    /// per second with the elapsed time. If it returns `false`, the wait ends with an error.
    ///
    /// # Errors
    /// Returns a one-line error if there is no portal, if the portal refuses or does not answer within 120 s, or if
    /// PipeWire fails.
    pub fn open(
        options: &Options,
        keep_waiting: &mut dyn FnMut(Duration) -> bool,
    ) -> Result<DesktopSession, PortalError> {
        let arrived = Arrived::new()?;
        let (session, grant) = Connected::open(options, &arrived, keep_waiting)?;
        let session = Arc::new(session);
        let stream = Stream::open(grant.remote, grant.node, grant.hint, Arc::clone(&arrived))?;
        // The size in the desktop's units. On a scaled desktop, it differs from the picture's size in pixels.
        let extent = grant.extent.unwrap_or(stream.first_size);
        let permitted = grant.permitted;
        let input = (permitted.keyboard || permitted.pointer).then(|| {
            let (session, display) = (Arc::clone(&session), options.display.as_deref());
            PortalInput::new(session, display, grant.node, extent, permitted)
        });
        let cursor = (grant.cursor)
            .then(|| PortalCursor::new(arrived))
            .transpose()?;
        Ok(DesktopSession {
            capture: PortalCapture::new(stream, session)?,
            cursor,
            input,
        })
    }
}
