//! From datagrams to slices in order, and what is missing of them.

pub mod assembly;
pub mod reassemble;
