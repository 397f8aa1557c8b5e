//! A connection to the sound server, and the server's modules. The connection's main loop runs only while its owner
//! calls a method.

use std::ffi::{CStr, CString, c_int, c_void};
use std::os::fd::AsRawFd;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use openuvr_clock as clock;
use openuvr_proto::time::Instant;

use super::functions::{
    Api, CONTEXT_FAILED, CONTEXT_NOAUTOSPAWN, CONTEXT_READY, CONTEXT_TERMINATED, Context,
    Functions, IO_EVENT_INPUT, IoEvent, MainLoop, ModuleInfo, OPERATION_RUNNING, Operation,
    PaStream, SAMPLE_FLOAT32LE, SUBSCRIPTION_SERVER, SampleSpec, ServerInfo, library,
};
use crate::audio::{AudioError, CHANNELS, RATE};
use crate::waker::Waker;

pub(super) fn text(text: &str) -> Result<CString, AudioError> {
    CString::new(text)
        .map_err(|_| AudioError(format!("{text:?} is not a valid name of a sound device")))
}

/// Timeout of a reply (guess: a server that is starting needs about a second).
pub(super) const REPLY_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum number of iterations to process all pending messages: two for each of about thirty messages. A raised waker
/// counts as an event in every iteration, so the loop needs a limit.
const MAX_ITERATIONS: u32 = 64;

/// A connection to the server. Its main loop runs only while one thread calls a method.
pub(in crate::audio::pulse) struct Connection {
    pub(super) functions: Arc<Functions>,
    mainloop: NonNull<MainLoop>,
    context: NonNull<Context>,
    waker: Waker,
    /// Whether the server's default devices may have changed. The library's callback has a pointer to this flag.
    changed: Arc<AtomicBool>,
}

/// The names of the default devices.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(in crate::audio::pulse) struct Defaults {
    pub(in crate::audio::pulse) sink: String,
    pub(in crate::audio::pulse) source: String,
}

// SAFETY: libpulse's main loop, context and streams are not bound to a thread. Any thread may use them, but only one at
// a time, which `&mut self` ensures.
unsafe impl Send for Connection {}

impl Connection {
    /// Connects to `server` (`None`: `$PULSE_SERVER`, or the session's server) under the client name `name`.
    ///
    /// # Errors
    /// A one-line [`AudioError`] that states the remedy, if libpulse or the server is missing.
    pub(in crate::audio::pulse) fn open(
        server: Option<&str>,
        name: &str,
    ) -> Result<Connection, AudioError> {
        let functions = library(std::env::var_os("OPENUVR_PULSE"))?;
        let (name, waker) = (text(name)?, Waker::new()?);
        let address = server.map(text).transpose()?;
        // SAFETY: the function takes no arguments.
        let mainloop = NonNull::new(unsafe { (functions.mainloop_new)() });
        let mainloop = mainloop.ok_or_else(|| AudioError("libpulse is out of memory".into()))?;
        // SAFETY: the loop was created just now, and is freed after the context, when this value is dropped. `name` is
        // NUL-terminated and copied.
        let (api, context) = unsafe {
            let api = (functions.mainloop_api)(mainloop.as_ptr());
            (api, (functions.context_new)(api, name.as_ptr()))
        };
        let Some(context) = NonNull::new(context) else {
            // SAFETY: the loop was created above, and no context uses it.
            unsafe { (functions.mainloop_free)(mainloop.as_ptr()) };
            return Err(AudioError("libpulse is out of memory".into()));
        };
        let mut connection = Connection {
            functions,
            mainloop,
            context,
            waker,
            changed: Arc::default(),
        };
        // SAFETY: the loop uses the descriptor until the loop is freed. `waker` is a field of the same value, so the
        // descriptor is closed later. The callback does not read its data pointer, which is null.
        unsafe {
            let fd = connection.waker.0.as_raw_fd();
            ((*api).io_new)(api, fd, IO_EVENT_INPUT, woken, ptr::null_mut());
        }
        let address = address
            .as_ref()
            .map_or(ptr::null(), |address| address.as_ptr());
        // SAFETY: the address is NUL-terminated or null, and is copied. The null pointer for the spawning functions
        // means that there are none.
        let code = unsafe {
            let context = connection.context.as_ptr();
            (connection.functions.context_connect)(
                context,
                address,
                CONTEXT_NOAUTOSPAWN,
                ptr::null(),
            )
        };
        let give_up = clock::now() + REPLY_TIMEOUT;
        loop {
            match connection.state() {
                _ if code < 0 => break,
                CONTEXT_READY => return Ok(connection),
                CONTEXT_FAILED | CONTEXT_TERMINATED => break,
                _ if clock::now() >= give_up => {
                    return Err(AudioError(
                        "the sound server does not respond: restart it (systemctl --user restart \
                         pipewire-pulse, or pulseaudio -k)"
                            .into(),
                    ));
                }
                _ => connection.turn(Some(give_up))?,
            }
        }
        Err(AudioError(format!(
            "can't reach a sound server ({}): start one (pulseaudio --start, or systemctl --user \
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

    /// The library's message for its last error.
    fn reason(&self) -> String {
        // SAFETY: the context lives as long as `self`; for any error code, the message is a constant NUL-terminated
        // string.
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
    /// [`AudioError`] if the server is gone.
    pub(in crate::audio::pulse) fn check(&self) -> Result<(), AudioError> {
        match self.state() {
            CONTEXT_READY => Ok(()),
            _ => Err(AudioError(format!(
                "lost the connection to the sound server ({}): if it has stopped, start it again",
                self.reason()
            ))),
        }
    }

    /// Runs one iteration of the main loop. It waits until an event occurs, the waker is raised, or the time `until` is
    /// reached.
    pub(in crate::audio::pulse) fn turn(
        &mut self,
        until: Option<Instant>,
    ) -> Result<(), AudioError> {
        self.turned(until).map(|_| ())
    }

    /// Processes all pending messages of the server without waiting. This needs several iterations, because one
    /// iteration may read only part of a message.
    pub(in crate::audio::pulse) fn catch_up(&mut self) -> Result<(), AudioError> {
        for _ in 0..MAX_ITERATIONS {
            if self.turned(Some(clock::now()))? == 0 {
                break;
            }
        }
        Ok(())
    }

    /// Runs one iteration and returns its number of events.
    fn turned(&mut self, until: Option<Instant>) -> Result<c_int, AudioError> {
        let micros = until.map_or(-1, |until| {
            let micros = until.since(clock::now()).as_nanos().div_ceil(1000);
            c_int::try_from(micros).unwrap_or(c_int::MAX)
        });
        let mainloop = self.mainloop.as_ptr();
        // SAFETY: the loop lives as long as `self`, and is not run recursively: none of the
        // callbacks below runs it.
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

    /// Runs the main loop until the operation is complete, at most for [`REPLY_TIMEOUT`].
    pub(super) fn finish(
        &mut self,
        operation: *mut Operation,
        what: &str,
    ) -> Result<(), AudioError> {
        let Some(operation) = NonNull::new(operation) else {
            return Err(self.failed(what));
        };
        let give_up = clock::now() + REPLY_TIMEOUT;
        let outcome = loop {
            // SAFETY: this function holds a reference to the operation, which it releases below.
            let state = unsafe { (self.functions.operation_state)(operation.as_ptr()) };
            if state != OPERATION_RUNNING {
                break self.check();
            }
            if clock::now() >= give_up {
                break Err(AudioError(format!(
                    "the sound server did not {what}: no reply"
                )));
            }
            if let Err(error) = self.check().and_then(|()| self.turn(Some(give_up))) {
                break Err(error);
            }
        };
        // SAFETY: nothing uses the operation afterwards.
        unsafe { (self.functions.operation_unref)(operation.as_ptr()) };
        outcome
    }

    /// Loads a module into the server; returns its index.
    pub(in crate::audio::pulse) fn load_module(
        &mut self,
        name: &str,
        argument: &str,
    ) -> Result<u32, AudioError> {
        let what = format!("load {name}");
        let (name, argument) = (text(name)?, text(argument)?);
        let answer = Box::into_raw(Box::new(u32::MAX));
        // SAFETY: the strings are NUL-terminated and copied; the output variable lives until it is
        // reclaimed below, or is leaked.
        let operation = unsafe {
            let (name, argument) = (name.as_ptr(), argument.as_ptr());
            let context = self.context.as_ptr();
            (self.functions.load_module)(context, name, argument, numbered, answer.cast())
        };
        // After a failure, the reply may still arrive, so the variable is leaked.
        self.finish(operation, &what)?;
        // SAFETY: the operation is complete, so the variable is no longer written.
        let index = unsafe { Box::from_raw(answer) };
        match *index {
            u32::MAX => Err(self.failed(&what)),
            index => Ok(index),
        }
    }

    /// Makes [`Connection::take_changed`] report changes of the defaults.
    pub(in crate::audio::pulse) fn watch_defaults(&mut self) -> Result<(), AudioError> {
        // SAFETY: the context passes the flag to `changed`. The flag lives as long as `self`, and therefore longer than
        // the context. The callback `done` uses no data.
        let operation = unsafe {
            let (context, flag) = (self.context.as_ptr(), Arc::as_ptr(&self.changed));
            (self.functions.subscription)(context, changed, flag.cast_mut().cast());
            (self.functions.subscribe)(context, SUBSCRIPTION_SERVER, done, ptr::null_mut())
        };
        self.finish(operation, "report changes of its default devices")
    }

    /// Whether the defaults may have changed since the last call.
    pub(in crate::audio::pulse) fn take_changed(&self) -> bool {
        self.changed.swap(false, Ordering::Relaxed)
    }

    /// The names of the current default devices. A name is empty if there is no such device.
    pub(in crate::audio::pulse) fn defaults(&mut self) -> Result<Defaults, AudioError> {
        let answer = Box::into_raw(Box::new(Defaults::default()));
        // SAFETY: the output variable lives until it is reclaimed below, or is leaked.
        let operation = unsafe {
            let context = self.context.as_ptr();
            (self.functions.server_info)(context, informed, answer.cast())
        };
        self.finish(operation, "report its default devices")?;
        // SAFETY: the operation is complete, so the variable is no longer written.
        Ok(*unsafe { Box::from_raw(answer) })
    }

    /// Unloads a module. It is not an error if the module is missing.
    pub(in crate::audio::pulse) fn unload_module(&mut self, index: u32) -> Result<(), AudioError> {
        // SAFETY: the callback `done` uses no data.
        let operation = unsafe {
            let context = self.context.as_ptr();
            (self.functions.unload_module)(context, index, done, ptr::null_mut())
        };
        self.finish(operation, "unload a module")
    }

    /// The index and argument of each module with this name.
    pub(in crate::audio::pulse) fn modules(
        &mut self,
        name: &str,
    ) -> Result<Vec<(u32, String)>, AudioError> {
        let wanted = text(name)?;
        let answer = Box::into_raw(Box::new(Listing {
            wanted,
            found: Vec::new(),
        }));
        // SAFETY: the output variable lives until it is reclaimed below, or is leaked.
        let operation = unsafe {
            let context = self.context.as_ptr();
            (self.functions.list_modules)(context, listed, answer.cast())
        };
        self.finish(operation, "list its modules")?;
        // SAFETY: the operation is complete, so the variable is no longer written.
        Ok(unsafe { Box::from_raw(answer) }.found)
    }

    pub(super) fn stream(&mut self, name: &str) -> Result<NonNull<PaStream>, AudioError> {
        let name = text(name)?;
        let spec = SampleSpec {
            format: SAMPLE_FLOAT32LE,
            rate: RATE,
            channels: u8::try_from(CHANNELS).unwrap_or(2),
        };
        // SAFETY: the context lives as long as `self`; name and specification are copied; a null channel map selects
        // the default for two channels.
        let stream = unsafe {
            let context = self.context.as_ptr();
            (self.functions.stream_new)(context, name.as_ptr(), &raw const spec, ptr::null())
        };
        NonNull::new(stream).ok_or_else(|| self.failed("create a stream"))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // SAFETY: this library created context and main loop. They have no other users, because a stream owns its
        // connection and is dropped first.
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

/// Does nothing: the waker stays raised until the waiting thread lowers it.
unsafe extern "C" fn woken(_: *const Api, _: *mut IoEvent, _: c_int, _: c_int, _: *mut c_void) {}

unsafe extern "C" fn done(_: *mut Context, _: c_int, _: *mut c_void) {}

unsafe extern "C" fn changed(_: *mut Context, _: c_int, _: u32, flag: *mut c_void) {
    // SAFETY: `watch_defaults` passed a flag that outlives the context and is only used as an
    // atomic.
    unsafe { (*flag.cast::<AtomicBool>().cast_const()).store(true, Ordering::Relaxed) };
}

unsafe extern "C" fn informed(_: *mut Context, info: *const ServerInfo, answer: *mut c_void) {
    // SAFETY: `defaults` passed the output variable, which has no other user during the operation.
    // The library fills `info` for the duration of this call, or passes null; its strings are
    // NUL-terminated or null.
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
    // SAFETY: `load_module` passed the address of a number, which is valid during the operation.
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
    // SAFETY: `modules` passed the listing, which has no other user during the operation. The
    // library fills `info` for the duration of this call; its strings are NUL-terminated or null.
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
