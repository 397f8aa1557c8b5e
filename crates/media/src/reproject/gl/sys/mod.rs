//! OpenGL in an X window: a context of GLX ([`window`]) and what is drawn with it ([`canvas`]). Both stay on the
//! thread that opened them, which raw pointers in them make sure of.
#![allow(unsafe_code)]

mod canvas;
mod program;
mod window;

pub(super) use canvas::{Canvas, Layer, Patch};
