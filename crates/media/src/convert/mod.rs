//! Convert: the same picture in the pixel format that the next stage takes. One file per
//! direction.

pub mod bgrx_to_nv12;
mod swscale;

pub use bgrx_to_nv12::Nv12Buffer;

/// Why a picture could not be converted.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ConvertError(pub String);
