//! What a handle points to: a head that says what it is and whose, and the rest.

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

/// Where a kind of handle differs from the other.
pub(crate) trait Kind: Default {
    /// What a context of it begins with, so that one of the other kind is recognised.
    const MARK: u64;
    /// What it is in messages.
    const NAME: &'static str;
    /// The function that starts it.
    const INIT: &'static str;
    /// What the program says, what is kept of it until the start, and what there is from then on.
    type Config: Sized32 + Default;
    type Settings;
    type Started;

    /// Whether this machine can serve the words of the paper in it.
    fn serves(config: &Self::Config) -> Outcome<()>;

    /// Where its lines go.
    fn log(config: &Self::Config) -> Log;

    /// # Safety
    /// The texts of `config` are NULL or end with a zero byte.
    unsafe fn settings(config: &Self::Config) -> Outcome<Self::Settings>;

    /// Starts its threads. If that fails, the settings are as they were.
    fn start(settings: &mut Self::Settings, log: &Arc<Log>) -> Outcome<Self::Started>;
}

/// A context. `repr(C)`: the mark of any kind lies at its beginning.
#[repr(C)]
pub(crate) struct Handle<K: Kind> {
    mark: u64,
    /// The process that made it.
    process: u32,
    message: Mutex<Cow<'static, str>>,
    pub(crate) log: Arc<Log>,
    pub(crate) settings: Mutex<K::Settings>,
    /// Ends before what follows. Set while the settings are locked.
    started: OnceLock<K::Started>,
    pub(crate) inner: K,
}

/// A context of a configuration.
///
/// # Safety
/// As [`Kind::settings`].
unsafe fn make<K: Kind>(config: &K::Config) -> Outcome<Box<Handle<K>>> {
    // SAFETY: the caller has promised this function the same.
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

/// The body of the functions that make a context of the paper's two words: NULL if this machine does
/// not serve them.
///
/// # Safety
/// As [`Kind::settings`].
pub(crate) unsafe fn alloc<K: Kind, C>(config: &K::Config) -> *mut C {
    catch_panic(std::ptr::null_mut(), || {
        // SAFETY: the caller has promised this function the same.
        let made = K::serves(config).and_then(|()| unsafe { make::<K>(config) });
        made.map_or(std::ptr::null_mut(), |made| Box::into_raw(made).cast())
    })
}

/// The body of the functions that make a context of a configuration and put it into `*context`, NULL
/// there if that fails, and then the reason into `why`.
///
/// # Safety
/// Each pointer is NULL or valid for that, and the configuration as in [`Kind::settings`].
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
        // SAFETY: not NULL, and valid.
        unsafe { context.write(std::ptr::null_mut()) };
        let made = || {
            // SAFETY: the caller has promised this function the same.
            let config = unsafe { read(config, K::Config::default(), "the configuration")? };
            // SAFETY: its texts are the caller's. What is wrong with the words is cheaper to find.
            let made = unsafe { make::<K>(&config)? };
            K::serves(&config)?;
            Ok(made)
        };
        match made() {
            Ok(made) => {
                // SAFETY: as above.
                unsafe { context.write(Box::into_raw(made).cast()) };
                DONE
            }
            Err(Failure {
                code, why: reason, ..
            }) => {
                // SAFETY: the caller has promised this function the same.
                unsafe { give_text(&reason, why, why_size) };
                code as c_int
            }
        }
    })
}

impl<K: Kind> Handle<K> {
    /// Starts it, once.
    pub(crate) fn init(&self) -> Outcome {
        // Two threads that start it take turns.
        let mut settings = lock(&self.settings);
        self.not_started()?;
        let _ = self.started.set(K::start(&mut settings, &self.log)?);
        Ok(DONE)
    }

    /// What was started.
    pub(crate) fn started(&self) -> Outcome<&K::Started> {
        let not_yet = || Failure::state(format!("not started yet: call {} first", K::INIT));
        self.running().ok_or_else(not_yet)
    }

    /// The same; `None` before the start. It stays so while the settings are locked.
    pub(crate) fn running(&self) -> Option<&K::Started> {
        self.started.get()
    }

    pub(crate) fn not_started(&self) -> Outcome<()> {
        match self.running() {
            None => Ok(()),
            Some(_) => Err(Failure::state("the thread is started already")),
        }
    }

    /// Why the last call that failed, or did nothing, did so.
    pub(crate) fn message(&self) -> Cow<'static, str> {
        lock(&self.message).clone()
    }

    /// A call does nothing, and that is no failure: why.
    pub(crate) fn remark(&self, why: impl Into<Cow<'static, str>>) {
        *lock(&self.message) = why.into();
    }

    /// Does a call's work and keeps the message if it fails.
    fn run(&self, work: impl FnOnce(&Handle<K>) -> Outcome) -> c_int {
        if self.process != std::process::id() {
            // Its locks may be held by threads that are not here.
            return OPENUVR_ERROR_FORKED as c_int;
        }
        match work(self) {
            Ok(value) => value,
            Err(Failure { code, why, known }) => {
                if !known {
                    self.log.tell(OPENUVR_LOG_LEVEL::OPENUVR_LOG_ERROR, &why);
                }
                self.remark(why);
                code as c_int
            }
        }
    }
}

/// The body of every exported function that is given a context.
///
/// # Safety
/// `handle` is NULL or a context of this library that is not closed.
pub(crate) unsafe fn call<T: Kind>(
    handle: *const Handle<T>,
    work: impl FnOnce(&Handle<T>) -> Outcome,
) -> c_int {
    catch_panic(OPENUVR_ERROR_PANIC as c_int, || {
        // SAFETY: the caller has promised this function the same.
        match unsafe { find(handle) } {
            Ok(handle) => handle.run(work),
            Err(failure) => failure.code as c_int,
        }
    })
}

/// # Safety
/// As [`call`]; the context outlives `'a`.
unsafe fn find<'a, T: Kind>(handle: *const Handle<T>) -> Outcome<&'a Handle<T>> {
    if handle.is_null() || !handle.is_aligned() {
        return Err(Failure::new(OPENUVR_ERROR_NULL, "the context is NULL"));
    }
    // SAFETY: a context of either kind begins with its mark.
    if unsafe { handle.cast::<u64>().read() } != T::MARK {
        let why = format!("this is no context of {}", T::NAME);
        return Err(Failure::argument(why));
    }
    // SAFETY: it has the mark of its kind, and is not closed.
    Ok(unsafe { &*handle })
}

/// Takes a context back from the caller's variable, which becomes NULL. `None` if there is none; if
/// it is of the other kind or this is a callback, and then the variable stays; or if it is the parent's,
/// which keeps it.
///
/// # Safety
/// `variable` is NULL or points to NULL or to a context of this library that is not closed and that no
/// other call uses.
pub(crate) unsafe fn take<T: Kind>(variable: *mut *mut Handle<T>) -> Option<Box<Handle<T>>> {
    if variable.is_null() || CallbackScope::is_now() {
        return None;
    }
    // SAFETY: it points to a pointer, as the caller has promised.
    let (handle, process) = unsafe {
        let handle = variable.read();
        let process = find::<T>(handle).ok()?.process;
        variable.write(std::ptr::null_mut());
        (handle, process)
    };
    if process != std::process::id() {
        return None;
    }
    // SAFETY: it was made by `Box::into_raw`, and this was the last use. What is freed has no mark.
    unsafe {
        (*handle).mark = 0;
        Some(Box::from_raw(handle))
    }
}
