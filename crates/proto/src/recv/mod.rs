//! From datagrams to slices in order, and what is missing of them.

pub mod assembly;
mod history;
mod losses;
pub mod output;
pub mod reassemble;
mod repair;
