//! The contexts behind the handles: a header with a type mark and the owning process, and the state.

use std::borrow::Cow;
use std::ffi::{c_char, c_int};
use std::sync::{Arc, Mutex, OnceLock};

use openuvr_runtime::lock::lock;

use crate::callback_scope::CallbackScope;
use crate::catch_panic::catch_panic;
use crate::error::OPENUVR_ERROR::{OPENUVR_ERROR_FORKED, OPENUVR_ERROR_NULL, OPENUVR_ERROR_PANIC};
use crate::error::{DONE, Failure, Outcome};
use crate::ffi::{Sized32, give_text, read};
use crate::log::{Log, OPENUVR_LOG_LEVEL};

/// The differences between the kinds of contexts.
pub(crate) trait Kind: Default {
    /// The first bytes of a context, which identify its kind.
    const MARK: u64;
    /// Its name in messages.
    const NAME: &'static str;
    /// The function that starts it.
    const INIT: &'static str;
    /// The application's configuration, the settings before the start, and the state after it.
    type Config: Sized32 + Default;
    type Settings;
    type Started;

    /// Checks whether this machine supports the configuration's codec and network.
    fn serves(config: &Self::Config) -> Outcome<()>;

    fn log(config: &Self::Config) -> Log;

    /// # Safety
    /// The strings of `config` are NULL or NUL-terminated.
    unsafe fn settings(config: &Self::Config) -> Outcome<Self::Settings>;

    /// Starts its threads. On failure the settings are unchanged.
    fn start(settings: &mut Self::Settings, log: &Arc<Log>) -> Outcome<Self::Started>;
}

/// A context. `repr(C)`: the mark comes first in every kind.
#[repr(C)]
pub(crate) struct Handle<K: Kind> {
    mark: u64,
    /// The process that created it.
    process: u32,
    message: Mutex<Cow<'static, str>>,
    pub(crate) log: Arc<Log>,
    pub(crate) settings: Mutex<K::Settings>,
    /// Dropped before `inner`. It is set while the settings are locked.
    started: OnceLock<K::Started>,
    pub(crate) inner: K,
}

/// Creates a context from a configuration.
///
/// # Safety
/// As for [`Kind::settings`].
unsafe fn make<K: Kind>(config: &K::Config) -> Outcome<Box<Handle<K>>> {
    // SAFETY: the caller upholds this function's requirements, which include those of the called function.
    let settings = unsafe { K::settings(config)? };
    Ok(Box::new(Handle {
        mark: K::MARK,
        process: std::process::id(),
        message: Mutex::default(),
        log: Arc::new(K::log(config)),
        settings: Mutex::new(settings),
        started: OnceLock::new(),
        inner: K::default(),
    }))
}

/// The body of the functions that create a context from a codec and a network, as in the paper. It returns NULL if this
/// machine does not support them.
///
/// # Safety
/// As for [`Kind::settings`].
pub(crate) unsafe fn alloc<K: Kind, C>(config: &K::Config) -> *mut C {
    catch_panic(std::ptr::null_mut(), || {
        // SAFETY: the caller upholds this function's requirements, which include those of the called function.
        let made = K::serves(config).and_then(|()| unsafe { make::<K>(config) });
        made.map_or(std::ptr::null_mut(), |made| Box::into_raw(made).cast())
    })
}

/// The body of the functions that create a context from a configuration and store it in `*context`. On failure, it stores
/// NULL there, and the reason in `why`.
///
/// # Safety
/// Each pointer is NULL or valid for its use, and the configuration is as for [`Kind::settings`].
pub(crate) unsafe fn open<K: Kind, C>(
    config: *const K::Config,
    context: *mut *mut C,
    why: *mut c_char,
    why_size: usize,
) -> c_int {
    catch_panic(OPENUVR_ERROR_PANIC as c_int, || {
        if context.is_null() {
            return OPENUVR_ERROR_NULL as c_int;
        }
        // SAFETY: `context` is not null, and the caller guarantees that it is then valid for a write.
        unsafe { context.write(std::ptr::null_mut()) };
        let made = || {
            // SAFETY: the caller upholds this function's requirements, which include those of the called function.
            let config = unsafe { read(config, K::Config::default(), "the configuration")? };
            // SAFETY: the caller guarantees that the configuration's strings are valid. Parsing comes first, because it
            // is cheaper than the support check.
            let made = unsafe { make::<K>(&config)? };
            K::serves(&config)?;
            Ok(made)
        };
        match made() {
            Ok(made) => {
                // SAFETY: as for the write of NULL to `context` above.
                unsafe { context.write(Box::into_raw(made).cast()) };
                DONE
            }
            Err(Failure {
                code, why: reason, ..
            }) => {
                // SAFETY: the caller upholds this function's requirements, which include those of the called function.
                unsafe { give_text(&reason, why, why_size) };
                code as c_int
            }
        }
    })
}

impl<K: Kind> Handle<K> {
    /// Starts the context, once.
    pub(crate) fn init(&self) -> Outcome {
        // The lock serializes concurrent starts.
        let mut settings = lock(&self.settings);
        self.not_started()?;
        let _ = self.started.set(K::start(&mut settings, &self.log)?);
        Ok(DONE)
    }

    /// The state after the start.
    pub(crate) fn started(&self) -> Outcome<&K::Started> {
        let not_yet = || {
            Failure::state(format!(
                "the context is not started yet: call {} first",
                K::INIT
            ))
        };
        self.running().ok_or_else(not_yet)
    }

    /// The state after the start; `None` before it. It does not change while the settings are locked.
    pub(crate) fn running(&self) -> Option<&K::Started> {
        self.started.get()
    }

    pub(crate) fn not_started(&self) -> Outcome<()> {
        match self.running() {
            None => Ok(()),
            Some(_) => Err(Failure::state("the context is already started")),
        }
    }

    /// The reason why the last call failed or did nothing.
    pub(crate) fn message(&self) -> Cow<'static, str> {
        lock(&self.message).clone()
    }

    /// Stores the reason why a call failed or did nothing.
    pub(crate) fn set_message(&self, why: impl Into<Cow<'static, str>>) {
        *lock(&self.message) = why.into();
    }

    /// Runs a call's body and stores the message if it fails.
    fn run(&self, work: impl FnOnce(&Handle<K>) -> Outcome) -> c_int {
        if self.process != std::process::id() {
            // A thread that does not exist in the child may hold locks of this context.
            return OPENUVR_ERROR_FORKED as c_int;
        }
        match work(self) {
            Ok(value) => value,
            Err(Failure { code, why, known }) => {
                if !known {
                    self.log.write(OPENUVR_LOG_LEVEL::OPENUVR_LOG_ERROR, &why);
                }
                self.set_message(why);
                code as c_int
            }
        }
    }
}

/// The body of every exported function with a context argument.
///
/// # Safety
/// `handle` is NULL or a context of this library that is not closed.
pub(crate) unsafe fn call<T: Kind>(
    handle: *const Handle<T>,
    work: impl FnOnce(&Handle<T>) -> Outcome,
) -> c_int {
    catch_panic(OPENUVR_ERROR_PANIC as c_int, || {
        // SAFETY: the caller upholds this function's requirements, which include those of the called function.
        match unsafe { find(handle) } {
            Ok(handle) => handle.run(work),
            Err(failure) => failure.code as c_int,
        }
    })
}

/// # Safety
/// As for [`call`]; the context outlives `'a`.
unsafe fn find<'a, T: Kind>(handle: *const Handle<T>) -> Outcome<&'a Handle<T>> {
    if handle.is_null() || !handle.is_aligned() {
        return Err(Failure::new(OPENUVR_ERROR_NULL, "the context is NULL"));
    }
    // SAFETY: the caller guarantees that `handle` points to a context of a host or a MUD. Both begin with their mark.
    if unsafe { handle.cast::<u64>().read() } != T::MARK {
        let why = format!("this is not a context of {}", T::NAME);
        return Err(Failure::argument(why));
    }
    // SAFETY: the mark shows that this is a context of kind `T`, and the caller guarantees that it is not closed.
    Ok(unsafe { &*handle })
}

/// Takes a context from the caller's variable, which becomes NULL. Returns `None` if there is no context or if it
/// belongs to the parent process. Also returns `None`, and leaves the variable unchanged, if the context is of the
/// other kind or if this thread is running a callback.
///
/// # Safety
/// `variable` is NULL or points to NULL or to a context of this library that is not closed and that no
/// other call uses.
pub(crate) unsafe fn take<T: Kind>(variable: *mut *mut Handle<T>) -> Option<Box<Handle<T>>> {
    if variable.is_null() || CallbackScope::is_now() {
        return None;
    }
    // SAFETY: the caller guarantees that `variable` points to NULL or to a context that is not closed.
    let (handle, process) = unsafe {
        let handle = variable.read();
        let process = find::<T>(handle).ok()?.process;
        variable.write(std::ptr::null_mut());
        (handle, process)
    };
    if process != std::process::id() {
        return None;
    }
    // SAFETY: `Box::into_raw` created `handle`, and no other call uses it. The mark is cleared, so that it is not found
    // in freed memory.
    unsafe {
        (*handle).mark = 0;
        Some(Box::from_raw(handle))
    }
}
