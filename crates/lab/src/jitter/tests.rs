//! Files with known truth, from the bytes to what is said of them.

mod logs;
mod synthetic;
