//! Invisible windows that the window manager creates to receive properties.

use x11rb::connection::Connection as _;
use x11rb::protocol::xproto::{
    ConnectionExt as _, CreateWindowAux, EventMask, Window as WindowId, WindowClass,
};
use x11rb::rust_connection::RustConnection;

use super::XwmError;

/// A window of one pixel that is never shown.
pub(super) fn own_window(conn: &RustConnection, root: WindowId) -> Result<WindowId, XwmError> {
    let window = conn.generate_id()?;
    let aux = CreateWindowAux::new()
        .event_mask(EventMask::PROPERTY_CHANGE)
        .override_redirect(1);
    let class = WindowClass::INPUT_ONLY;
    conn.create_window(0, window, root, -1, -1, 1, 1, 0, class, 0, &aux)?;
    Ok(window)
}
