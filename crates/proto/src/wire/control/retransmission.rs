//! A request for missing parts of a frame, and its encoding.

use super::view;
use crate::bytes::{Reader, Reject, Writer};
use crate::id::{FrameId, ViewId};

/// The missing parts of a frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RetransmissionRequest {
    /// The view.
    pub view: ViewId,
    /// The frame of the view.
    pub frame: FrameId,
    /// At most [`MAX_RANGES`] ranges. An empty list requests the whole frame.
    pub ranges: Vec<MissingRange>,
}

impl RetransmissionRequest {
    /// Whether the request covers this fragment.
    #[must_use]
    pub fn wants(&self, frame: FrameId, slice: u8, fragment: u16) -> bool {
        let within = |r: &MissingRange| r.slice == slice && (r.first..=r.last).contains(&fragment);
        frame == self.frame && (self.ranges.is_empty() || self.ranges.iter().any(within))
    }
}

/// Consecutive fragments of a slice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MissingRange {
    /// The slice.
    pub slice: u8,
    /// The first fragment.
    pub first: u16,
    /// The last fragment; [`u16::MAX`] stands for the last fragment of the slice.
    pub last: u16,
}

/// Maximum number of ranges in one request. Other missing parts are requested later.
pub const MAX_RANGES: usize = 64;

pub(super) fn write(w: &mut Writer<'_>, request: &RetransmissionRequest) {
    let ranges = &request.ranges[..request.ranges.len().min(MAX_RANGES)];
    view::write(w, request.view)
        .u32(request.frame.0)
        .u8(u8::try_from(ranges.len()).unwrap_or(u8::MAX));
    for range in ranges {
        w.u8(range.slice).u16(range.first).u16(range.last);
    }
}

pub(super) fn parse(r: &mut Reader<'_>) -> Result<RetransmissionRequest, Reject> {
    let view = view::parse(r)?;
    let frame = FrameId(r.u32()?);
    let count = usize::from(r.u8()?);
    if count > MAX_RANGES {
        return Err(Reject::Range("missing ranges"));
    }
    let mut ranges = Vec::with_capacity(count);
    for _ in 0..count {
        ranges.push(MissingRange {
            slice: r.u8()?,
            first: r.u16()?,
            last: r.u16()?,
        });
    }
    Ok(RetransmissionRequest {
        view,
        frame,
        ranges,
    })
}
