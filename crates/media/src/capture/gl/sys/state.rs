//! Application state that a read changes and restores: pixel packing and transfer, the read
//! framebuffer and its buffer, and the bound pixel buffers.
//!
//! Other state does not affect the bytes that are read as `GL_UNSIGNED_BYTE`. These bytes are clamped regardless of
//! `glClampColor`. `GL_FRAMEBUFFER_SRGB` and conditional rendering concern drawing (OpenGL 4.6 compatibility profile,
//! 18.2). The colour matrix of `GL_ARB_imaging` is not handled; no application was found to use it.
//!
//! `glGetError` is never called, because it would consume the application's errors. Therefore, only
//! state that this context has is queried or set.

use std::ffi::{c_int, c_uint};

use super::capabilities::{Gl, Targets};

pub(super) const PIXEL_PACK_BUFFER: c_uint = 0x88EB;
pub(super) const PIXEL_UNPACK_BUFFER: c_uint = 0x88EC;
const PIXEL_PACK_BUFFER_BINDING: c_uint = 0x88ED;
const PIXEL_UNPACK_BUFFER_BINDING: c_uint = 0x88EF;

const FRAMEBUFFER: c_uint = 0x8D40;
const READ_FRAMEBUFFER: c_uint = 0x8CA8;
const DRAW_FRAMEBUFFER: c_uint = 0x8CA9;
/// The binding of `FRAMEBUFFER` and of `DRAW_FRAMEBUFFER`.
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

/// Pixel transfer parameters with the values that leave stored colours unchanged (OpenGL 2.1, table
/// 6.31; `GL_MAP_COLOR` is false).
const TRANSFER: [(c_uint, f32); 9] = [
    (0x0D10, 0.0), // GL_MAP_COLOR
    (0x0D14, 1.0), // GL_RED_SCALE
    (0x0D15, 0.0), // GL_RED_BIAS
    (0x0D18, 1.0), // GL_GREEN_SCALE
    (0x0D19, 0.0), // GL_GREEN_BIAS
    (0x0D1A, 1.0), // GL_BLUE_SCALE
    (0x0D1B, 0.0), // GL_BLUE_BIAS
    (0x0D1C, 1.0), // GL_ALPHA_SCALE
    (0x0D1D, 0.0), // GL_ALPHA_BIAS
];

/// The corresponding parameters of the imaging subset: scale and bias of red, green, blue and
/// alpha, after the convolution and after the colour matrix.
const IMAGING: [(c_uint, f32); 16] = [
    (0x801C, 1.0), // GL_POST_CONVOLUTION_RED_SCALE …
    (0x801D, 1.0),
    (0x801E, 1.0),
    (0x801F, 1.0),
    (0x8020, 0.0), // GL_POST_CONVOLUTION_RED_BIAS …
    (0x8021, 0.0),
    (0x8022, 0.0),
    (0x8023, 0.0),
    (0x80B4, 1.0), // GL_POST_COLOR_MATRIX_RED_SCALE …
    (0x80B5, 1.0),
    (0x80B6, 1.0),
    (0x80B7, 1.0),
    (0x80B8, 0.0), // GL_POST_COLOR_MATRIX_RED_BIAS …
    (0x80B9, 0.0),
    (0x80BA, 0.0),
    (0x80BB, 0.0),
];

/// Stages of the imaging subset, which must be disabled.
const STAGES: [c_uint; 8] = [
    0x80D0, // GL_COLOR_TABLE
    0x80D1, // GL_POST_CONVOLUTION_COLOR_TABLE
    0x80D2, // GL_POST_COLOR_MATRIX_COLOR_TABLE
    0x8010, // GL_CONVOLUTION_1D
    0x8011, // GL_CONVOLUTION_2D
    0x8012, // GL_SEPARABLE_2D
    0x8024, // GL_HISTOGRAM
    0x802E, // GL_MINMAX
];

/// State to restore, in reverse order, on drop.
pub(super) struct Saved<'a> {
    gl: &'a Gl,
    undo: Vec<Undo>,
}

enum Undo {
    Packing(c_uint, c_int),
    Transfer(c_uint, f32),
    Enabled(c_uint),
    Buffer(c_uint, c_uint),
    Framebuffer(c_uint, c_uint),
    ReadBuffer(c_uint),
}

impl<'a> Saved<'a> {
    /// # Safety
    /// The context of `gl` must be current for the lifetime of the result.
    pub(super) unsafe fn new(gl: &'a Gl) -> Saved<'a> {
        Saved {
            gl,
            undo: Vec::with_capacity(16),
        }
    }

    /// Sets the packing to rows of 4-byte pixels without padding, and makes pixel transfer keep the stored colours.
    pub(super) fn pack(&mut self) {
        self.transfer();
        for &(name, wanted) in &self.gl.packing {
            let now = self.gl.integer(name);
            if now != wanted {
                // SAFETY: the context is current and has this parameter.
                unsafe { (self.gl.base.pixel_store)(name, wanted) };
                self.undo.push(Undo::Packing(name, now));
            }
        }
    }

    /// Makes pixel transfer the identity.
    fn transfer(&mut self) {
        let Some(transfer) = &self.gl.transfer else {
            return;
        };
        let imaging = self.gl.imaging;
        let parameters = TRANSFER.iter().chain(IMAGING.iter().filter(|_| imaging));
        for &(name, wanted) in parameters {
            let mut now = wanted;
            // SAFETY: the context is current and has this parameter, which is one number.
            unsafe { (transfer.floats)(name, &raw mut now) };
            if now.to_bits() != wanted.to_bits() {
                // SAFETY: as above.
                unsafe { (transfer.set)(name, wanted) };
                self.undo.push(Undo::Transfer(name, now));
            }
        }
        for &stage in STAGES.iter().filter(|_| imaging) {
            // SAFETY: the context is current and has this stage.
            unsafe {
                if (transfer.is_enabled)(stage) != 0 {
                    (transfer.disable)(stage);
                    self.undo.push(Undo::Enabled(stage));
                }
            }
        }
    }

    /// Binds `buffer` as [`PIXEL_PACK_BUFFER`] or [`PIXEL_UNPACK_BUFFER`], where they exist; 0
    /// unbinds.
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

    /// Makes `glReadPixels` read the window. `false` if there is no readable window.
    pub(super) fn read_window(&mut self) -> bool {
        let gl = self.gl;
        if gl.framebuffers.is_some() && !self.read_framebuffer(0) {
            return false;
        }
        self.select_buffer();
        true
    }

    /// Makes `glReadPixels` read a framebuffer. `false` if it is incomplete or the context has no
    /// framebuffers.
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

    /// Selects the back buffer, or the draw buffer of a single-buffered surface. For a pbuffer, the name of this buffer
    /// differs between drivers, and a wrong name is an error.
    fn select_buffer(&mut self) {
        let gl = self.gl;
        let Some(read_buffer) = &gl.read_buffer else {
            return;
        };
        let now = gl.integer(READ_BUFFER).cast_unsigned();
        let wanted = if gl.version.embedded {
            BACK
        } else {
            // The name that selects the draw buffer is right for this driver, so it is also used to read.
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
                // Drawing is disabled for all buffers.
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
            // SAFETY: the context is current, and each value was set before.
            unsafe {
                match undo {
                    Undo::Packing(name, value) => (gl.base.pixel_store)(name, value),
                    Undo::Transfer(name, value) => {
                        if let Some(transfer) = &gl.transfer {
                            (transfer.set)(name, value);
                        }
                    }
                    Undo::Enabled(stage) => {
                        if let Some(transfer) = &gl.transfer {
                            (transfer.enable)(stage);
                        }
                    }
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
