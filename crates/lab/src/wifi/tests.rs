//! The model against what was published, against another simulator, and against itself.

mod acceptance;
mod laws;
mod live;
