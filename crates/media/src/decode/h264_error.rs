//! What keeps a hole in an H.264 picture from being filled: said by each layer that reads the stream.

/// Why a hole can't be filled.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SkipError {
    /// No slice header of this picture or the last one, or no parameter sets.
    #[error("no slice header is known yet")]
    NothingKnown,
    /// A key frame has nothing before it to repeat.
    #[error("a key frame lost a slice")]
    KeyFrame,
    /// The slice belongs to another picture than the ones before it.
    #[error("a slice does not belong to the picture that is under way")]
    OtherPicture,
    /// The stream uses what this module doesn't write.
    #[error("the stream uses {0}")]
    Unsupported(&'static str),
    /// The bytes end early or are no H.264.
    #[error("the slice or parameter set is damaged")]
    Damaged,
    /// The macroblocks don't exist in this picture.
    #[error("macroblocks outside of the picture")]
    OutOfRange,
}
