//! The encoding of a view id.

use crate::bytes::{Reader, Reject, Writer};
use crate::id::ViewId;

pub(super) fn write<'a, 'w>(w: &'a mut Writer<'w>, view: ViewId) -> &'a mut Writer<'w> {
    w.u8(view.stream).u8(view.view)
}

pub(super) fn parse(r: &mut Reader<'_>) -> Result<ViewId, Reject> {
    Ok(ViewId {
        stream: r.u8()?,
        view: r.u8()?,
    })
}
