//! What of the application's state is changed for a picture, and put back as it was: how pixels are
//! packed, which framebuffer and which of its buffers is read, and which pixel buffers are bound.
//!
//! `glGetError` is never called, since it would take the application's errors; so nothing may be
//! asked or set that this context does not know.

use std::ffi::{c_int, c_uint};

use super::capabilities::{Gl, Targets};

pub(super) const PIXEL_PACK_BUFFER: c_uint = 0x88EB;
pub(super) const PIXEL_UNPACK_BUFFER: c_uint = 0x88EC;
const PIXEL_PACK_BUFFER_BINDING: c_uint = 0x88ED;
const PIXEL_UNPACK_BUFFER_BINDING: c_uint = 0x88EF;

const FRAMEBUFFER: c_uint = 0x8D40;
const READ_FRAMEBUFFER: c_uint = 0x8CA8;
const DRAW_FRAMEBUFFER: c_uint = 0x8CA9;
/// Of `FRAMEBUFFER` and of `DRAW_FRAMEBUFFER`.
const FRAMEBUFFER_BINDING: c_uint = 0x8CA6;
const READ_FRAMEBUFFER_BINDING: c_uint = 0x8CAA;
const FRAMEBUFFER_COMPLETE: c_uint = 0x8CD5;

const DRAW_BUFFER: c_uint = 0x0C01;
const READ_BUFFER: c_uint = 0x0C02;
const DOUBLEBUFFER: c_uint = 0x0C32;
const FRONT_LEFT: c_uint = 0x0400;
const BACK_LEFT: c_uint = 0x0402;
const FRONT: c_uint = 0x0404;
const BACK: c_uint = 0x0405;

/// What is to be put back: undone in the opposite order when this is dropped.
pub(super) struct Saved<'a> {
    gl: &'a Gl,
    undo: Vec<Undo>,
}

enum Undo {
    Packing(c_uint, c_int),
    Buffer(c_uint, c_uint),
    Framebuffer(c_uint, c_uint),
    ReadBuffer(c_uint),
}

impl<'a> Saved<'a> {
    /// # Safety
    /// The context of `gl` is current as long as this lives.
    pub(super) unsafe fn new(gl: &'a Gl) -> Saved<'a> {
        Saved {
            gl,
            undo: Vec::with_capacity(16),
        }
    }

    /// Packs rows of 4-byte pixels one after the other.
    pub(super) fn pack(&mut self) {
        for &(name, wanted) in &self.gl.packing {
            let now = self.gl.integer(name);
            if now != wanted {
                // SAFETY: the context is current and knows this parameter.
                unsafe { (self.gl.base.pixel_store)(name, wanted) };
                self.undo.push(Undo::Packing(name, now));
            }
        }
    }

    /// Binds `buffer` as [`PIXEL_PACK_BUFFER`] or [`PIXEL_UNPACK_BUFFER`], where there are such; 0 is
    /// none.
    pub(super) fn bind_buffer(&mut self, target: c_uint, buffer: c_uint) {
        let Some(binding) = &self.gl.binding else {
            return;
        };
        let now = self.gl.integer(if target == PIXEL_PACK_BUFFER {
            PIXEL_PACK_BUFFER_BINDING
        } else {
            PIXEL_UNPACK_BUFFER_BINDING
        });
        let now = now.cast_unsigned();
        if now != buffer {
            // SAFETY: the context is current and has buffers.
            unsafe { (binding.bind)(target, buffer) };
            self.undo.push(Undo::Buffer(target, now));
        }
    }

    /// Makes `glReadPixels` read the window. `false` if there is none that can be read.
    pub(super) fn read_window(&mut self) -> bool {
        let gl = self.gl;
        if gl.framebuffers.is_some() && !self.read_framebuffer(0) {
            return false;
        }
        self.select_buffer();
        true
    }

    /// Makes `glReadPixels` read a framebuffer. `false` if it is not complete, or the context has none.
    pub(super) fn read_framebuffer(&mut self, name: c_uint) -> bool {
        let gl = self.gl;
        let Some((framebuffers, targets)) = &gl.framebuffers else {
            return false;
        };
        let target = match targets {
            Targets::One => FRAMEBUFFER,
            Targets::Two => READ_FRAMEBUFFER,
        };
        self.bind_framebuffer(target, name);
        // SAFETY: the context is current and has framebuffers.
        unsafe { (framebuffers.status)(target) == FRAMEBUFFER_COMPLETE }
    }

    fn bind_framebuffer(&mut self, target: c_uint, name: c_uint) {
        let Some((framebuffers, _)) = &self.gl.framebuffers else {
            return;
        };
        let binding = if target == READ_FRAMEBUFFER {
            READ_FRAMEBUFFER_BINDING
        } else {
            FRAMEBUFFER_BINDING
        };
        let now = self.gl.integer(binding).cast_unsigned();
        if now != name {
            // SAFETY: the context is current and has framebuffers.
            unsafe { (framebuffers.bind)(target, name) };
            self.undo.push(Undo::Framebuffer(target, now));
        }
    }

    /// Chooses the back buffer, or the one that is drawn to if the surface has no two: which that is
    /// of a pixel buffer surface differs between drivers, and to name the wrong one is an error.
    fn select_buffer(&mut self) {
        let gl = self.gl;
        let Some(read_buffer) = &gl.read_buffer else {
            return;
        };
        let now = gl.integer(READ_BUFFER).cast_unsigned();
        let wanted = if gl.version.embedded {
            BACK
        } else {
            // Asked of what is drawn to.
            let before = self.undo.len();
            if matches!(gl.framebuffers, Some((_, Targets::Two))) {
                self.bind_framebuffer(DRAW_FRAMEBUFFER, 0);
            }
            let double = gl.integer(DOUBLEBUFFER) != 0;
            let drawn = gl.integer(DRAW_BUFFER).cast_unsigned();
            self.back_to(before);
            match drawn {
                _ if double => BACK,
                FRONT | FRONT_LEFT | BACK | BACK_LEFT => drawn,
                // Nothing is drawn.
                _ => return,
            }
        };
        let same = match wanted {
            BACK => BACK_LEFT,
            FRONT => FRONT_LEFT,
            other => other,
        };
        if now != wanted && now != same {
            // SAFETY: the context is current, and the window has that buffer.
            unsafe { (read_buffer.select)(wanted) };
            self.undo.push(Undo::ReadBuffer(now));
        }
    }

    fn back_to(&mut self, len: usize) {
        let gl = self.gl;
        while self.undo.len() > len {
            let Some(undo) = self.undo.pop() else {
                return;
            };
            // SAFETY: the context is current, and each was so before.
            unsafe {
                match undo {
                    Undo::Packing(name, value) => (gl.base.pixel_store)(name, value),
                    Undo::Buffer(target, name) => {
                        if let Some(binding) = &gl.binding {
                            (binding.bind)(target, name);
                        }
                    }
                    Undo::Framebuffer(target, name) => {
                        if let Some((framebuffers, _)) = &gl.framebuffers {
                            (framebuffers.bind)(target, name);
                        }
                    }
                    Undo::ReadBuffer(which) => {
                        if let Some(read_buffer) = &gl.read_buffer {
                            (read_buffer.select)(which);
                        }
                    }
                }
            }
        }
    }
}

impl Drop for Saved<'_> {
    fn drop(&mut self) {
        self.back_to(0);
    }
}
