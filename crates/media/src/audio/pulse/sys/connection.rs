//! A connection to the sound server, whose main loop turns in the calls of its owner; modules of the
//! server.

use std::ffi::{CStr, CString, c_int, c_void};
use std::os::fd::AsRawFd;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use openuvr_proto::time::Instant;

use super::functions::{
    Api, CONTEXT_FAILED, CONTEXT_NOAUTOSPAWN, CONTEXT_READY, CONTEXT_TERMINATED, Context,
    Functions, IO_EVENT_INPUT, IoEvent, MainLoop, ModuleInfo, OPERATION_RUNNING, Operation,
    PaStream, SAMPLE_FLOAT32LE, SUBSCRIPTION_SERVER, SampleSpec, ServerInfo, library,
};
use crate::audio::{AudioError, CHANNELS, RATE};
use crate::clock;
use crate::waker::Waker;

pub(super) fn text(text: &str) -> Result<CString, AudioError> {
    CString::new(text).map_err(|_| AudioError(format!("{text:?} is no name for a sound device")))
}

/// How long the server may take for an answer: a server that starts up takes a second (guess).
pub(super) const ANSWER: Duration = Duration::from_secs(5);

/// Turns in which all is taken in that was said lately, at most: two for each of some thirty messages. A waker that is
/// raised is something in each of them.
const TURNS: u32 = 64;

/// A connection to the server, whose main loop turns in the calls of the one thread that has it.
pub(in crate::audio::pulse) struct Connection {
    pub(super) functions: Arc<Functions>,
    mainloop: NonNull<MainLoop>,
    context: NonNull<Context>,
    waker: Waker,
    /// The server's defaults may have changed. The library's callback has a pointer into it.
    changed: Arc<AtomicBool>,
}

/// The names of the devices that are taken if none is named.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(in crate::audio::pulse) struct Defaults {
    pub(in crate::audio::pulse) sink: String,
    pub(in crate::audio::pulse) source: String,
}

// SAFETY: libpulse's main loop, its context and its streams belong to no thread: they are used by one at a
// time, as `&mut self` sees to.
unsafe impl Send for Connection {}

impl Connection {
    /// Connects to `server` (`None`: `$PULSE_SERVER`, or the one of this session) under `name`.
    ///
    /// # Errors
    /// [`AudioError`] if libpulse or the server is not there, in one line with what to do.
    pub(in crate::audio::pulse) fn open(
        server: Option<&str>,
        name: &str,
    ) -> Result<Connection, AudioError> {
        let functions = library(std::env::var_os("OPENUVR_PULSE"))?;
        let (name, waker) = (text(name)?, Waker::new()?);
        let address = server.map(text).transpose()?;
        // SAFETY: takes nothing.
        let mainloop = NonNull::new(unsafe { (functions.mainloop_new)() });
        let mainloop = mainloop.ok_or_else(|| AudioError("libpulse has no memory".into()))?;
        // SAFETY: the loop was just made, and lives until it is freed when this value is dropped, after the
        // context; `name` ends in NUL and is copied.
        let (api, context) = unsafe {
            let api = (functions.mainloop_api)(mainloop.as_ptr());
            (api, (functions.context_new)(api, name.as_ptr()))
        };
        let Some(context) = NonNull::new(context) else {
            // SAFETY: nothing else has it.
            unsafe { (functions.mainloop_free)(mainloop.as_ptr()) };
            return Err(AudioError("libpulse has no memory".into()));
        };
        let mut connection = Connection {
            functions,
            mainloop,
            context,
            waker,
            changed: Arc::default(),
        };
        // SAFETY: the loop calls back with this descriptor while it lives, and the descriptor is closed after
        // the loop is freed: `waker` is a field of the same value. Nothing is read through the null pointer.
        unsafe {
            let fd = connection.waker.0.as_raw_fd();
            ((*api).io_new)(api, fd, IO_EVENT_INPUT, woken, ptr::null_mut());
        }
        let address = address
            .as_ref()
            .map_or(ptr::null(), |address| address.as_ptr());
        // SAFETY: the address ends in NUL or is null, and is copied; no spawning API is given.
        let code = unsafe {
            let context = connection.context.as_ptr();
            (connection.functions.context_connect)(
                context,
                address,
                CONTEXT_NOAUTOSPAWN,
                ptr::null(),
            )
        };
        let give_up = clock::now() + ANSWER;
        loop {
            match connection.state() {
                _ if code < 0 => break,
                CONTEXT_READY => return Ok(connection),
                CONTEXT_FAILED | CONTEXT_TERMINATED => break,
                _ if clock::now() >= give_up => {
                    return Err(AudioError(
                        "the sound server does not answer: restart it (systemctl --user restart \
                         pipewire-pulse, or pulseaudio -k)"
                            .into(),
                    ));
                }
                _ => connection.turn(Some(give_up))?,
            }
        }
        Err(AudioError(format!(
            "no sound server can be reached ({}): start one (pulseaudio --start, or systemctl --user \
             start pipewire-pulse), or set PULSE_SERVER",
            connection.reason()
        )))
    }

    pub(in crate::audio::pulse) fn waker(&self) -> &Waker {
        &self.waker
    }

    fn state(&self) -> c_int {
        // SAFETY: the context lives as long as `self`.
        unsafe { (self.functions.context_state)(self.context.as_ptr()) }
    }

    /// The library's words for its last error.
    fn reason(&self) -> String {
        // SAFETY: the context lives as long as `self`; the text is a constant that ends in NUL, whatever the
        // number.
        let reason = unsafe {
            let code = (self.functions.context_errno)(self.context.as_ptr());
            CStr::from_ptr((self.functions.error)(code))
        };
        reason.to_string_lossy().into_owned()
    }

    pub(super) fn failed(&self, what: &str) -> AudioError {
        AudioError(format!(
            "the sound server could not {what}: {}",
            self.reason()
        ))
    }

    /// # Errors
    /// If the server is gone.
    pub(in crate::audio::pulse) fn check(&self) -> Result<(), AudioError> {
        match self.state() {
            CONTEXT_READY => Ok(()),
            _ => Err(AudioError(format!(
                "the connection to the sound server is lost ({}): open sound again when it is back",
                self.reason()
            ))),
        }
    }

    /// Lets the main loop turn once: waits until something happens, at most until `until`, or until the
    /// waker is used.
    pub(in crate::audio::pulse) fn turn(
        &mut self,
        until: Option<Instant>,
    ) -> Result<(), AudioError> {
        self.turned(until).map(|_| ())
    }

    /// Takes in all that the server has said, without waiting: of a message a turn reads a part.
    pub(in crate::audio::pulse) fn catch_up(&mut self) -> Result<(), AudioError> {
        for _ in 0..TURNS {
            if self.turned(Some(clock::now()))? == 0 {
                break;
            }
        }
        Ok(())
    }

    /// How much happened in a turn.
    fn turned(&mut self, until: Option<Instant>) -> Result<c_int, AudioError> {
        let micros = until.map_or(-1, |until| {
            let micros = until.since(clock::now()).as_nanos().div_ceil(1000);
            c_int::try_from(micros).unwrap_or(c_int::MAX)
        });
        let mainloop = self.mainloop.as_ptr();
        // SAFETY: the loop lives as long as `self`, and turns in no other call: none of the callbacks below
        // turns it.
        let code = unsafe {
            match (self.functions.mainloop_prepare)(mainloop, micros) {
                0.. => match (self.functions.mainloop_poll)(mainloop) {
                    0.. => (self.functions.mainloop_dispatch)(mainloop),
                    code => code,
                },
                code => code,
            }
        };
        match code {
            0.. => Ok(code),
            _ => Err(AudioError(format!(
                "waiting for the sound server failed: {}",
                std::io::Error::last_os_error()
            ))),
        }
    }

    /// Turns until the operation is over.
    pub(super) fn finish(
        &mut self,
        operation: *mut Operation,
        what: &str,
    ) -> Result<(), AudioError> {
        let Some(operation) = NonNull::new(operation) else {
            return Err(self.failed(what));
        };
        let give_up = clock::now() + ANSWER;
        let outcome = loop {
            // SAFETY: the operation is ours until it is given back below.
            let state = unsafe { (self.functions.operation_state)(operation.as_ptr()) };
            if state != OPERATION_RUNNING {
                break self.check();
            }
            if clock::now() >= give_up {
                break Err(AudioError(format!(
                    "the sound server does not {what}: no answer"
                )));
            }
            if let Err(error) = self.check().and_then(|()| self.turn(Some(give_up))) {
                break Err(error);
            }
        };
        // SAFETY: not used any more.
        unsafe { (self.functions.operation_unref)(operation.as_ptr()) };
        outcome
    }

    /// Loads a module of the server. Its number.
    pub(in crate::audio::pulse) fn load_module(
        &mut self,
        name: &str,
        argument: &str,
    ) -> Result<u32, AudioError> {
        let what = format!("load {name}");
        let (name, argument) = (text(name)?, text(argument)?);
        let answer = Box::into_raw(Box::new(u32::MAX));
        // SAFETY: the texts end in NUL and are copied; the place for the answer lives until it is taken back
        // below, or for ever.
        let operation = unsafe {
            let (name, argument) = (name.as_ptr(), argument.as_ptr());
            let context = self.context.as_ptr();
            (self.functions.load_module)(context, name, argument, numbered, answer.cast())
        };
        // If this fails the answer may still come: then its place is never freed.
        self.finish(operation, &what)?;
        // SAFETY: the operation is over, so nobody writes there any more.
        let index = unsafe { Box::from_raw(answer) };
        match *index {
            u32::MAX => Err(self.failed(&what)),
            index => Ok(index),
        }
    }

    /// Has [`Connection::take_changed`] say when the defaults may have changed.
    pub(in crate::audio::pulse) fn watch_defaults(&mut self) -> Result<(), AudioError> {
        // SAFETY: the flag lives as long as `self`, and so longer than the context, which calls back with it;
        // the other callback uses nothing.
        let operation = unsafe {
            let (context, flag) = (self.context.as_ptr(), Arc::as_ptr(&self.changed));
            (self.functions.subscription)(context, changed, flag.cast_mut().cast());
            (self.functions.subscribe)(context, SUBSCRIPTION_SERVER, done, ptr::null_mut())
        };
        self.finish(operation, "tell of its default devices")
    }

    /// Whether the defaults may have changed since this was asked last.
    pub(in crate::audio::pulse) fn take_changed(&self) -> bool {
        self.changed.swap(false, Ordering::Relaxed)
    }

    /// The default devices now; empty where there is none.
    pub(in crate::audio::pulse) fn defaults(&mut self) -> Result<Defaults, AudioError> {
        let answer = Box::into_raw(Box::new(Defaults::default()));
        // SAFETY: the place for the answer lives until it is taken back below, or for ever.
        let operation = unsafe {
            let context = self.context.as_ptr();
            (self.functions.server_info)(context, informed, answer.cast())
        };
        self.finish(operation, "name its default devices")?;
        // SAFETY: the operation is over, so nobody writes there any more.
        Ok(*unsafe { Box::from_raw(answer) })
    }

    /// Unloads a module. That it is not there is no error.
    pub(in crate::audio::pulse) fn unload_module(&mut self, index: u32) -> Result<(), AudioError> {
        // SAFETY: the callback uses nothing.
        let operation = unsafe {
            let context = self.context.as_ptr();
            (self.functions.unload_module)(context, index, done, ptr::null_mut())
        };
        self.finish(operation, "unload a module")
    }

    /// The number and the argument of each module of this name.
    pub(in crate::audio::pulse) fn modules(
        &mut self,
        name: &str,
    ) -> Result<Vec<(u32, String)>, AudioError> {
        let wanted = text(name)?;
        let answer = Box::into_raw(Box::new(Listing {
            wanted,
            found: Vec::new(),
        }));
        // SAFETY: the place for the answer lives until it is taken back below, or for ever.
        let operation = unsafe {
            let context = self.context.as_ptr();
            (self.functions.list_modules)(context, listed, answer.cast())
        };
        self.finish(operation, "list its modules")?;
        // SAFETY: the operation is over, so nobody writes there any more.
        Ok(unsafe { Box::from_raw(answer) }.found)
    }

    pub(super) fn stream(&mut self, name: &str) -> Result<NonNull<PaStream>, AudioError> {
        let name = text(name)?;
        let spec = SampleSpec {
            format: SAMPLE_FLOAT32LE,
            rate: RATE,
            channels: u8::try_from(CHANNELS).unwrap_or(2),
        };
        // SAFETY: the context lives as long as `self`; name and specification are copied; without a map the
        // usual one of two channels is taken.
        let stream = unsafe {
            let context = self.context.as_ptr();
            (self.functions.stream_new)(context, name.as_ptr(), &raw const spec, ptr::null())
        };
        NonNull::new(stream).ok_or_else(|| self.failed("make a stream"))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // SAFETY: all three were made by this library, and nobody uses them any more: streams own their
        // connection.
        unsafe {
            (self.functions.context_disconnect)(self.context.as_ptr());
            (self.functions.context_unref)(self.context.as_ptr());
            (self.functions.mainloop_free)(self.mainloop.as_ptr());
        }
    }
}

struct Listing {
    wanted: CString,
    found: Vec<(u32, String)>,
}

/// The descriptor stays raised: whoever waits lowers it.
unsafe extern "C" fn woken(_: *const Api, _: *mut IoEvent, _: c_int, _: c_int, _: *mut c_void) {}

unsafe extern "C" fn done(_: *mut Context, _: c_int, _: *mut c_void) {}

unsafe extern "C" fn changed(_: *mut Context, _: c_int, _: u32, flag: *mut c_void) {
    // SAFETY: `watch_defaults` gave a flag that outlives the context, and that is only used as an atomic.
    unsafe { (*flag.cast::<AtomicBool>().cast_const()).store(true, Ordering::Relaxed) };
}

unsafe extern "C" fn informed(_: *mut Context, info: *const ServerInfo, answer: *mut c_void) {
    // SAFETY: `defaults` gave the place of an answer, which nobody else looks at while the operation goes on.
    // The library fills `info` in for the time of this call, or gives null; its texts end in NUL or are null.
    unsafe {
        let (Some(info), answer) = (info.as_ref(), &mut *answer.cast::<Defaults>()) else {
            return;
        };
        let name = |name: *const std::ffi::c_char| match name.is_null() {
            true => String::new(),
            false => CStr::from_ptr(name).to_string_lossy().into_owned(),
        };
        answer.sink = name(info.default_sink);
        answer.source = name(info.default_source);
    }
}

unsafe extern "C" fn numbered(_: *mut Context, index: u32, answer: *mut c_void) {
    // SAFETY: `load_module` gave the place of a number, which it keeps while the operation goes on.
    unsafe { *answer.cast::<u32>() = index };
}

unsafe extern "C" fn listed(
    _: *mut Context,
    info: *const ModuleInfo,
    end: c_int,
    answer: *mut c_void,
) {
    if end != 0 || info.is_null() {
        return;
    }
    // SAFETY: `modules` gave the place of a listing, which nobody else looks at while the operation goes on.
    // The library fills `info` in for the time of this call; its texts end in NUL or are null.
    unsafe {
        let (listing, info) = (&mut *answer.cast::<Listing>(), &*info);
        if !info.name.is_null() && CStr::from_ptr(info.name) == listing.wanted.as_c_str() {
            let argument = match info.argument.is_null() {
                true => String::new(),
                false => CStr::from_ptr(info.argument).to_string_lossy().into_owned(),
            };
            listing.found.push((info.index, argument));
        }
    }
}
