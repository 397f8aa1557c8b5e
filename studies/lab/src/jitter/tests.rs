//! Tests with files of known contents, from the bytes to the analysis.

mod logs;
mod synthetic;
