//! Picture buffers shared with the X server.
//!
//! Spec: MIT Shared Memory Extension, version 1.2 (segments passed as file descriptors).

use openuvr_proto::units::Size;
use x11rb::connection::Connection;
use x11rb::protocol::shm::{self, ConnectionExt as _};
use x11rb::rust_connection::RustConnection;

use crate::present::PresentError;
use crate::present::buffers::Buffers;

/// Shares new buffers with the server.
pub(super) fn share(conn: &RustConnection, size: Size) -> Result<Buffers<shm::Seg>, PresentError> {
    Buffers::new(size, |file| {
        let refused = |cause: &dyn std::fmt::Display| {
            PresentError(format!(
                "the X server can't share memory with this program ({cause}); run the client on \
                 the machine of its display, not through ssh -X or TCP"
            ))
        };
        let segment = conn.generate_id().map_err(|cause| refused(&cause))?;
        conn.shm_attach_fd(segment, file, true)
            .map_err(|cause| refused(&cause))?
            .check()
            .map_err(|cause| refused(&cause))?;
        Ok(segment)
    })
}

/// Detaches the buffers from the server. Until this call, the server keeps its own mapping.
pub(super) fn detach(buffers: &Buffers<shm::Seg>, conn: &RustConnection) {
    for segment in buffers.keys() {
        // If the server is gone, it has already detached them.
        let _ = conn.shm_detach(segment);
    }
}
