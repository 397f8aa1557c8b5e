//! Messages to the application's debug messengers (`XR_EXT_debug_utils`): failed calls with an explanation,
//! messages that the application submits, and failures of the stream.
//!
//! ```text
//! handles: get ─► set_handle: the handle that a call uses ───┐
//! api, logic: with_message(code, "explanation") ─────────────┤ thread-local
//!                                                            ▼
//! ffi::call, with an error ─► report ─► each messenger of the instance
//! ```
//! Like handles, messengers are global to the process, because OpenXR functions get no other context.

mod annotations;
mod messages;

use std::cell::Cell;
use std::ffi::{CStr, CString, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

use openxr_sys::{self as xr, pfn};

use annotations::Annotations;

pub(crate) type Severity = xr::DebugUtilsMessageSeverityFlagsEXT;

pub(crate) type Kind = xr::DebugUtilsMessageTypeFlagsEXT;

static DEBUG: Mutex<Debug> = Mutex::new(Debug {
    newest: 0,
    messengers: Vec::new(),
    annotations: Annotations::new(),
});

thread_local! {
    static CALL: Cell<CallContext> = const { Cell::new(CallContext::EMPTY) };
}

struct Debug {
    newest: u64,
    messengers: Vec<Messenger>,
    /// Object names and session labels.
    annotations: Annotations,
}

/// A debug messenger: a callback of the application.
#[derive(Clone, Copy)]
pub(crate) struct Messenger {
    /// Handle of its instance.
    pub(crate) instance: u64,
    pub(crate) severities: Severity,
    pub(crate) kinds: Kind,
    pub(crate) callback: pfn::DebugUtilsMessengerCallbackEXT,
    pub(crate) data: *mut c_void,
    number: u64,
}

// SAFETY: the pointer is only passed to the application's callback. OpenXR allows calls of the callback from any
// thread.
unsafe impl Send for Messenger {}

/// Context of the API call that a thread is executing.
#[derive(Clone, Copy)]
struct CallContext {
    /// The handle that was looked up last, and its instance.
    handle: Option<(xr::ObjectType, u64)>,
    instance: Option<u64>,
    /// Explanation of the error.
    text: Option<&'static CStr>,
}

impl CallContext {
    const EMPTY: CallContext = CallContext {
        handle: None,
        instance: None,
        text: None,
    };
}

/// An object of a message, with the name that the application passed.
pub(crate) struct Object {
    pub(crate) kind: xr::ObjectType,
    pub(crate) handle: u64,
    pub(crate) name: Option<CString>,
}

pub(crate) struct Message<'a> {
    pub(crate) severity: Severity,
    pub(crate) kind: Kind,
    pub(crate) id: &'a CStr,
    pub(crate) function: &'a CStr,
    pub(crate) text: &'a CStr,
    pub(crate) objects: Vec<Object>,
}

impl Messenger {
    /// Reads a messenger's create info.
    ///
    /// # Errors
    /// Returns an error if the create info has no callback, no severity or no type.
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

/// Adds a messenger and returns its number.
pub(crate) fn add(mut messenger: Messenger) -> u64 {
    let mut debug = debug();
    debug.newest += 1;
    messenger.number = debug.newest;
    debug.messengers.push(messenger);
    messenger.number
}

/// Removes a destroyed messenger.
pub(crate) fn remove(number: u64) {
    debug()
        .messengers
        .retain(|messenger| messenger.number != number);
}

/// Changes the application's annotations.
pub(crate) fn annotate<T>(change: impl FnOnce(&mut Annotations) -> T) -> T {
    change(&mut debug().annotations)
}

/// Resets the context at the start of a call.
pub(crate) fn start_call() {
    CALL.set(CallContext::EMPTY);
}

/// Sets the handle that the call uses, and its instance.
pub(crate) fn set_handle(kind: xr::ObjectType, handle: u64, instance: u64) {
    CALL.set(CallContext {
        handle: Some((kind, handle)),
        instance: Some(instance),
        ..CALL.get()
    });
}

/// Attaches an explanation to an error code.
pub(crate) fn with_message(code: xr::Result, text: &'static CStr) -> xr::Result {
    CALL.set(CallContext {
        text: Some(text),
        ..CALL.get()
    });
    code
}

/// Reports a failed call to the instance's messengers. Returns the explanation and the error's name.
pub(crate) fn report(function: &CStr, code: xr::Result) -> (&'static CStr, &'static CStr) {
    let context = CALL.replace(CallContext::EMPTY);
    let to = of(context.instance);
    if !to.is_empty() {
        send(&to, &failure(function, code, &context));
    }
    (message_of(code, &context), messages::name(code))
}

/// The explanation that the call has set, or otherwise the default explanation of the error code.
fn message_of(code: xr::Result, context: &CallContext) -> &'static CStr {
    context
        .text
        .unwrap_or_else(|| messages::default_message(code))
}

/// Reports a failed call to a messenger that exists only for this call.
pub(crate) fn report_to(messenger: &Messenger, function: &CStr, code: xr::Result) {
    send(&[*messenger], &failure(function, code, &CALL.get()));
}

fn failure<'a>(function: &'a CStr, code: xr::Result, context: &CallContext) -> Message<'a> {
    let (severity, kind) = messages::severity(code);
    Message {
        severity,
        kind,
        id: messages::name(code),
        function,
        text: message_of(code, context),
        objects: context
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

/// Reports a problem in the current call that is not an error of the application.
pub(crate) fn warn(text: &str) {
    // The conversion fails only if the text contains a zero byte, which no message does.
    let text = CString::new(text).unwrap_or_default();
    let message = Message {
        severity: Severity::WARNING,
        kind: Kind::GENERAL,
        id: c"OpenUVR",
        function: c"",
        text: &text,
        objects: Vec::new(),
    };
    send(&of(CALL.get().instance), &message);
}

/// `xrSubmitDebugUtilsMessageEXT`.
pub(crate) fn submit(instance: u64, message: &Message<'_>) {
    send(&of(Some(instance)), message);
}

/// The messengers of an instance, or of all instances if the instance is unknown.
fn of(instance: Option<u64>) -> Vec<Messenger> {
    let debug = debug();
    let its = |messenger: &&Messenger| instance.is_none_or(|its| its == messenger.instance);
    debug.messengers.iter().filter(its).copied().collect()
}

/// Calls the messengers whose filters match the message. No lock is held, because a callback may call the API.
fn send(to: &[Messenger], message: &Message<'_>) {
    let wants = |messenger: &&Messenger| {
        let kinds = messenger.kinds.into_raw() & message.kind.into_raw();
        messenger.severities.contains(message.severity) && kinds != 0
    };
    let mut to = to.iter().filter(wants).peekable();
    if to.peek().is_none() {
        return;
    }
    let (names, labels) = annotate(|annotations| {
        let name = |object: &Object| {
            let known = annotations.name(object.kind, object.handle);
            known.or_else(|| object.name.clone())
        };
        let names: Vec<Option<CString>> = message.objects.iter().map(name).collect();
        let sessions = message.objects.iter();
        let sessions = sessions.filter(|object| object.kind == xr::ObjectType::SESSION);
        let labels: Vec<CString> = sessions
            .flat_map(|o| annotations.labels(o.handle))
            .collect();
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
        message: message.text.as_ptr(),
        object_count: u32::try_from(objects.len()).unwrap_or(0),
        objects: objects.as_mut_ptr(),
        session_label_count: u32::try_from(labels.len()).unwrap_or(0),
        session_labels: labels.as_mut_ptr(),
    };
    for messenger in to {
        // SAFETY: the application's callback has this type, and the messenger is not destroyed. The data outlives the
        // call.
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
