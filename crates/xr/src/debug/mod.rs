//! What an application's debugger is told (`XR_EXT_debug_utils`): each error with our words for what is wrong, what
//! the application itself says, and what does not work with the stream.
//!
//! ```text
//! handles: get ─► about: the handle that this call is about ─┐
//! api, logic: because(code, "in words") ─────────────────────┤ kept for the thread
//!                                                            ▼
//! border::call, with an error ─► tell ─► each messenger of the instance
//! ```
//! Messengers are the process's, like handles: the functions of OpenXR have nothing else to find them with.

mod notes;
mod words;

use std::cell::Cell;
use std::ffi::{CStr, CString, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

use openxr_sys::{self as xr, pfn};

use notes::Notes;

/// How bad something is.
pub(crate) type Severity = xr::DebugUtilsMessageSeverityFlagsEXT;

/// What something is about.
pub(crate) type Kind = xr::DebugUtilsMessageTypeFlagsEXT;

static DEBUG: Mutex<Debug> = Mutex::new(Debug {
    newest: 0,
    messengers: Vec::new(),
    notes: Notes::new(),
});

thread_local! {
    static ABOUT: Cell<About> = const { Cell::new(About::NOTHING) };
}

struct Debug {
    newest: u64,
    messengers: Vec<Messenger>,
    /// Names of handles, and what sessions are at.
    notes: Notes,
}

/// A function of the application's that is called with messages.
#[derive(Clone, Copy)]
pub(crate) struct Messenger {
    /// Whose messages it gets; as a number.
    pub(crate) instance: u64,
    pub(crate) severities: Severity,
    pub(crate) kinds: Kind,
    pub(crate) callback: pfn::DebugUtilsMessengerCallbackEXT,
    pub(crate) data: *mut c_void,
    number: u64,
}

// SAFETY: the pointer is the application's, handed back to its function as it came; OpenXR lets that function be called
// from any thread.
unsafe impl Send for Messenger {}

/// What the call that a thread is in is about.
#[derive(Clone, Copy)]
struct About {
    /// The handle that was looked up last, if there is such a one, and the instance that it hangs on.
    handle: Option<(xr::ObjectType, u64)>,
    instance: Option<u64>,
    /// What is wrong.
    words: Option<&'static CStr>,
}

impl About {
    const NOTHING: About = About {
        handle: None,
        instance: None,
        words: None,
    };
}

/// A handle that a message is about, with the name that the application gave along.
pub(crate) struct Object {
    pub(crate) kind: xr::ObjectType,
    pub(crate) handle: u64,
    pub(crate) name: Option<CString>,
}

/// A message.
pub(crate) struct Message<'a> {
    pub(crate) severity: Severity,
    pub(crate) kind: Kind,
    pub(crate) id: &'a CStr,
    pub(crate) function: &'a CStr,
    pub(crate) words: &'a CStr,
    pub(crate) objects: Vec<Object>,
}

impl Messenger {
    /// Reads one.
    ///
    /// # Errors
    /// It has no function, or asks for nothing.
    pub(crate) fn read(
        instance: u64,
        info: &xr::DebugUtilsMessengerCreateInfoEXT,
    ) -> Result<Messenger, xr::Result> {
        let wrong = xr::Result::ERROR_VALIDATION_FAILURE;
        let (severities, kinds) = (info.message_severities, info.message_types);
        if severities.into_raw() == 0 || kinds.into_raw() == 0 {
            return Err(wrong);
        }
        Ok(Messenger {
            instance,
            severities,
            kinds,
            callback: info.user_callback.ok_or(wrong)?,
            data: info.user_data,
            number: 0,
        })
    }
}

fn debug() -> MutexGuard<'static, Debug> {
    DEBUG.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One more messenger; its number.
pub(crate) fn add(mut messenger: Messenger) -> u64 {
    let mut debug = debug();
    debug.newest += 1;
    messenger.number = debug.newest;
    debug.messengers.push(messenger);
    messenger.number
}

/// A messenger is destroyed.
pub(crate) fn remove(number: u64) {
    debug()
        .messengers
        .retain(|messenger| messenger.number != number);
}

/// What the application notes of its handles.
pub(crate) fn note<T>(change: impl FnOnce(&mut Notes) -> T) -> T {
    change(&mut debug().notes)
}

/// A call begins.
pub(crate) fn begin() {
    ABOUT.set(About::NOTHING);
}

/// The call is about this handle, which hangs on this instance.
pub(crate) fn about(kind: xr::ObjectType, handle: u64, instance: u64) {
    ABOUT.set(About {
        handle: Some((kind, handle)),
        instance: Some(instance),
        ..ABOUT.get()
    });
}

/// The error, with words for what is wrong.
pub(crate) fn because(code: xr::Result, words: &'static CStr) -> xr::Result {
    ABOUT.set(About {
        words: Some(words),
        ..ABOUT.get()
    });
    code
}

/// The call has ended with this error: the application's debugger is told. What is wrong, and the error's name.
pub(crate) fn tell(function: &CStr, code: xr::Result) -> (&'static CStr, &'static CStr) {
    let about = ABOUT.replace(About::NOTHING);
    let to = of(about.instance);
    if !to.is_empty() {
        send(&to, &failure(function, code, &about));
    }
    (words_of(code, &about), words::name(code))
}

/// What is wrong.
fn words_of(code: xr::Result, about: &About) -> &'static CStr {
    about.words.unwrap_or_else(|| words::usual(code))
}

/// The same for a messenger that is there for one call only.
pub(crate) fn tell_only(messenger: &Messenger, function: &CStr, code: xr::Result) {
    send(&[*messenger], &failure(function, code, &ABOUT.get()));
}

fn failure<'a>(function: &'a CStr, code: xr::Result, about: &About) -> Message<'a> {
    let (severity, kind) = words::rank(code);
    Message {
        severity,
        kind,
        id: words::name(code),
        function,
        words: words_of(code, about),
        objects: about
            .handle
            .map(|(kind, handle)| Object {
                kind,
                handle,
                name: None,
            })
            .into_iter()
            .collect(),
    }
}

/// Something of ours does not work, in the call that this thread is in.
pub(crate) fn warn(words: &str) {
    // Only one with a zero byte in it is no text, and we write none.
    let words = CString::new(words).unwrap_or_default();
    let message = Message {
        severity: Severity::WARNING,
        kind: Kind::GENERAL,
        id: c"OpenUVR",
        function: c"",
        words: &words,
        objects: Vec::new(),
    };
    send(&of(ABOUT.get().instance), &message);
}

/// `xrSubmitDebugUtilsMessageEXT`.
pub(crate) fn submit(instance: u64, message: &Message<'_>) {
    send(&of(Some(instance)), message);
}

/// The messengers of an instance, or all if nobody knows which it is.
fn of(instance: Option<u64>) -> Vec<Messenger> {
    let debug = debug();
    let its = |messenger: &&Messenger| instance.is_none_or(|its| its == messenger.instance);
    debug.messengers.iter().filter(its).copied().collect()
}

/// Calls those that want such a message. No lock is held: they may call us.
fn send(to: &[Messenger], message: &Message<'_>) {
    let wants = |messenger: &&Messenger| {
        let kinds = messenger.kinds.into_raw() & message.kind.into_raw();
        messenger.severities.contains(message.severity) && kinds != 0
    };
    let mut to = to.iter().filter(wants).peekable();
    if to.peek().is_none() {
        return;
    }
    let (names, labels) = note(|notes| {
        let name = |object: &Object| {
            let known = notes.name(object.kind, object.handle);
            known.or_else(|| object.name.clone())
        };
        let names: Vec<Option<CString>> = message.objects.iter().map(name).collect();
        let sessions = message.objects.iter();
        let sessions = sessions.filter(|object| object.kind == xr::ObjectType::SESSION);
        let labels: Vec<CString> = sessions.flat_map(|o| notes.labels(o.handle)).collect();
        (names, labels)
    });
    let null = std::ptr::null();
    let mut objects: Vec<_> = message
        .objects
        .iter()
        .zip(&names)
        .map(|(object, name)| xr::DebugUtilsObjectNameInfoEXT {
            ty: xr::DebugUtilsObjectNameInfoEXT::TYPE,
            next: null,
            object_type: object.kind,
            object_handle: object.handle,
            object_name: name.as_deref().map_or(std::ptr::null(), CStr::as_ptr),
        })
        .collect();
    let mut labels: Vec<_> = labels
        .iter()
        .map(|label| xr::DebugUtilsLabelEXT {
            ty: xr::DebugUtilsLabelEXT::TYPE,
            next: null,
            label_name: label.as_ptr(),
        })
        .collect();
    let data = xr::DebugUtilsMessengerCallbackDataEXT {
        ty: xr::DebugUtilsMessengerCallbackDataEXT::TYPE,
        next: null,
        message_id: message.id.as_ptr(),
        function_name: message.function.as_ptr(),
        message: message.words.as_ptr(),
        object_count: u32::try_from(objects.len()).unwrap_or(0),
        objects: objects.as_mut_ptr(),
        session_label_count: u32::try_from(labels.len()).unwrap_or(0),
        session_labels: labels.as_mut_ptr(),
    };
    for messenger in to {
        // SAFETY: the application's function, of this type, that it has not destroyed; all that the data leads to lives
        // until it has come back.
        unsafe {
            (messenger.callback)(
                message.severity,
                message.kind,
                &raw const data,
                messenger.data,
            );
        }
    }
}
