//! Bindings to libopenuvr, as a C program would use it. The library is opened at run time and called according to its
//! header.
#![allow(unsafe_code)]

use std::ffi::{CString, c_char, c_int, c_void};
use std::path::Path;
use std::ptr::{null, null_mut};

use anyhow::{Context as _, Result, bail};
use openuvr_proto::units::{Bitrate, Size};

#[allow(
    non_camel_case_types,
    non_upper_case_globals,
    non_snake_case,
    dead_code,
    unreachable_pub,
    missing_docs,
    clippy::all,
    clippy::pedantic,
    reason = "generated"
)]
mod bindings {
    include!(concat!(env!("OUT_DIR"), "/openuvr.rs"));
}

use bindings::{
    OPENUVR_INPUT_KIND as kind, OPENUVR_INPUT_TO as input_to, OPENUVR_PIXEL_FORMAT as format,
    openuvr_config, openuvr_input,
};

/// An opaque `openuvr_context`.
type Handle = *mut c_void;

/// The functions in use, with the types of `openuvr.h`.
struct Functions {
    config_default: unsafe extern "C" fn(*mut openuvr_config) -> c_int,
    open: unsafe extern "C" fn(*const openuvr_config, *mut Handle, *mut c_char, usize) -> c_int,
    init_thread: unsafe extern "C" fn(Handle) -> c_int,
    begin_frame: unsafe extern "C" fn(Handle) -> c_int,
    frame_ready: unsafe extern "C" fn(Handle) -> c_int,
    send_frame: unsafe extern "C" fn(Handle) -> c_int,
    next_input: unsafe extern "C" fn(Handle, *mut openuvr_input) -> c_int,
    message: unsafe extern "C" fn(Handle, *mut c_char, usize) -> c_int,
    close: unsafe extern "C" fn(*mut Handle),
}

/// The open library.
pub(super) struct Library {
    functions: Functions,
    /// The last field, so that the library is closed last: the functions belong to it.
    _library: libloading::Library,
}

/// The settings of the stream.
pub(super) struct Settings {
    pub(super) size: Size,
    /// The OpenGL name of the pixel buffer, which contains BGRA without padding.
    pub(super) buffer: u32,
    pub(super) fps: f64,
    pub(super) bitrate: Option<Bitrate>,
    pub(super) bind: Option<String>,
    pub(super) pin: Option<String>,
    pub(super) config_dir: Option<String>,
    pub(super) csv: Option<String>,
}

pub(super) enum InputEvent {
    Key { code: u32, pressed: bool },
    Button { pressed: bool },
    Pointer { x: i32, y: i32 },
    Other,
}

impl Library {
    /// # Errors
    /// Returns an error if the library is missing or lacks a function.
    pub(super) fn open(path: &Path) -> Result<Library> {
        // SAFETY: the caller names libopenuvr; its initialisation has no effects.
        let library = unsafe { libloading::Library::new(path) }
            .with_context(|| format!("can't open {}", path.display()))?;
        // SAFETY: the types match its header.
        let functions = unsafe {
            Functions {
                config_default: *library.get(c"openuvr_config_default")?,
                open: *library.get(c"openuvr_open")?,
                init_thread: *library.get(c"openuvr_init_thread")?,
                begin_frame: *library.get(c"openuvr_begin_frame")?,
                frame_ready: *library.get(c"openuvr_frame_ready")?,
                send_frame: *library.get(c"openuvr_send_frame")?,
                next_input: *library.get(c"openuvr_next_input")?,
                message: *library.get(c"openuvr_last_error")?,
                close: *library.get(c"openuvr_close")?,
            }
        };
        Ok(Library {
            functions,
            _library: library,
        })
    }

    /// Starts the stream.
    ///
    /// # Errors
    /// Returns the library's error message.
    pub(super) fn start(self, settings: &Settings) -> Result<Context> {
        let text = |text: &Option<String>| text.clone().map(CString::new).transpose();
        let (bind, pin) = (text(&settings.bind)?, text(&settings.pin)?);
        let (dir, csv) = (text(&settings.config_dir)?, text(&settings.csv)?);
        let pointer = |text: &Option<CString>| text.as_ref().map_or(null(), |text| text.as_ptr());
        // The library reads this name whenever a picture is submitted.
        let buffer = Box::new(settings.buffer);
        // SAFETY: the struct contains only numbers, pointers, and optional functions.
        let mut config: openuvr_config = unsafe { std::mem::zeroed() };
        config.size = u32::try_from(size_of::<openuvr_config>())?;
        // SAFETY: the struct states its size.
        unsafe { (self.functions.config_default)(&raw mut config) };
        config.width = settings.size.width;
        config.height = settings.size.height;
        config.format = format::OPENUVR_PIXEL_FORMAT_BGRX;
        config.pixel_buffer = (&raw const *buffer).cast();
        config.fps = settings.fps;
        config.bitrate = settings.bitrate.map_or(0, |rate| rate.0);
        config.input = input_to::OPENUVR_INPUT_TO_APPLICATION;
        (config.bind, config.pin) = (pointer(&bind), pointer(&pin));
        (config.config_dir, config.csv) = (pointer(&dir), pointer(&csv));
        let mut handle = null_mut();
        let mut why = [0; 512];
        // SAFETY: everything that the configuration points to lives until the call returns, and the pixel buffer's
        // name until the context is closed.
        let done = unsafe {
            (self.functions.open)(
                &raw const config,
                &raw mut handle,
                why.as_mut_ptr(),
                why.len(),
            )
        };
        let context = Context {
            handle,
            _buffer: buffer,
            library: self,
        };
        if done < 0 {
            bail!("libopenuvr: {}", c_text(&why));
        }
        // SAFETY: the context is open.
        let done = unsafe { (context.library.functions.init_thread)(handle) };
        context.done(done)?;
        Ok(context)
    }
}

/// A host, which is closed on drop.
pub(super) struct Context {
    handle: Handle,
    _buffer: Box<u32>,
    library: Library,
}

impl Context {
    /// The next unread event of the player.
    pub(super) fn next_input(&mut self) -> Option<InputEvent> {
        // SAFETY: the struct contains only numbers.
        let mut input: openuvr_input = unsafe { std::mem::zeroed() };
        input.size = u32::try_from(size_of::<openuvr_input>()).ok()?;
        // SAFETY: the context is open, and the event states its size.
        let got = unsafe { (self.library.functions.next_input)(self.handle, &raw mut input) };
        (got == 1).then_some(match input.kind {
            kind::OPENUVR_INPUT_KEY => InputEvent::Key {
                code: input.code,
                pressed: input.value == 1,
            },
            kind::OPENUVR_INPUT_BUTTON => InputEvent::Button {
                pressed: input.value == 1,
            },
            kind::OPENUVR_INPUT_POINTER => InputEvent::Pointer {
                x: input.x,
                y: input.y,
            },
            _ => InputEvent::Other,
        })
    }

    /// Starts the next picture, with the input read so far.
    pub(super) fn begin_frame(&mut self) {
        // SAFETY: the context is open. The call fails only after the end of the stream, which `submit` reports.
        unsafe { (self.library.functions.begin_frame)(self.handle) };
    }

    /// Submits the picture in the pixel buffer.
    ///
    /// # Errors
    /// Returns the library's error message.
    pub(super) fn submit(&mut self, and_wait: bool) -> Result<()> {
        let functions = &self.library.functions;
        // SAFETY: the context is open, and the OpenGL context of the window is current here.
        let event = unsafe {
            if and_wait {
                (functions.send_frame)(self.handle)
            } else {
                (functions.frame_ready)(self.handle)
            }
        };
        self.done(event)
    }

    fn done(&self, code: c_int) -> Result<()> {
        if code >= 0 {
            return Ok(());
        }
        let mut why = [0; 512];
        // SAFETY: the context is open, and the length of the text is passed.
        unsafe {
            (self.library.functions.message)(self.handle, why.as_mut_ptr(), why.len());
        }
        bail!("libopenuvr: {}", c_text(&why))
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: the handle is open or null, and is not used afterwards.
        unsafe { (self.library.functions.close)(&raw mut self.handle) };
    }
}

/// The text in a C buffer.
fn c_text(text: &[c_char]) -> String {
    let bytes: Vec<u8> = (text.iter().take_while(|c| **c != 0))
        .map(|c| c.to_ne_bytes()[0])
        .collect();
    String::from_utf8_lossy(&bytes).into_owned()
}
