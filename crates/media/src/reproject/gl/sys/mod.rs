//! OpenGL in an X window: a GLX context ([`window`]) and its drawing ([`canvas`]). Both stay on the thread that opened
//! them: their raw pointers make them neither `Send` nor `Sync`.
#![allow(unsafe_code)]

mod canvas;
mod program;
mod window;

pub(super) use canvas::{Canvas, Layer, Patch};
