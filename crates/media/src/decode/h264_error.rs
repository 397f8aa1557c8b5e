//! Errors of the modules that fill gaps in an H.264 picture.

/// Why a gap can't be filled.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SkipError {
    /// No slice header of this picture or of the last picture is known, or no parameter sets are known.
    #[error("no slice header or parameter set is known yet")]
    NothingKnown,
    /// A key frame has no reference to repeat.
    #[error("a slice of a key frame was lost")]
    KeyFrame,
    /// The slice belongs to a different picture than earlier slices.
    #[error("a slice does not belong to the current picture")]
    OtherPicture,
    /// The stream uses a feature that this module does not support.
    #[error("the stream uses {0}, which is not supported")]
    Unsupported(&'static str),
    /// The bytes are truncated or not H.264.
    #[error("the slice or parameter set is damaged")]
    Damaged,
    /// The macroblocks are outside of this picture.
    #[error("macroblocks are outside of the picture")]
    OutOfRange,
}
