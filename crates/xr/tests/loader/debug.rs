//! Messages that the application's debug messengers receive through the loader.

use std::ffi::{CStr, c_char, c_void};
use std::ptr::null;
use std::sync::{Mutex, PoisonError};

use openxr_sys as xr;
use openxr_sys::Handle as _;

use crate::rig::{Application, alone};

const EXTENSIONS: &[&[u8]] = &[
    xr::MND_HEADLESS_EXTENSION_NAME,
    xr::EXT_DEBUG_UTILS_EXTENSION_NAME,
    xr::KHR_OPENGL_ENABLE_EXTENSION_NAME,
];
const ORDER: xr::Result = xr::Result::ERROR_CALL_ORDER_INVALID;

/// A message: id, function, text, object names, labels.
type Message = [String; 5];

static MESSAGES: Mutex<Vec<Message>> = Mutex::new(Vec::new());

unsafe extern "system" fn on_message(
    _: xr::DebugUtilsMessageSeverityFlagsEXT,
    _: xr::DebugUtilsMessageTypeFlagsEXT,
    data: *const xr::DebugUtilsMessengerCallbackDataEXT,
    mark: *mut c_void,
) -> xr::Bool32 {
    assert_eq!(mark.addr(), 7, "the user data is passed back");
    // SAFETY: the runtime passes the data, with strings and arrays as specified.
    let message = unsafe {
        let data = &*data;
        let objects = array(data.objects, data.object_count);
        let labels = array(data.session_labels, data.session_label_count);
        [
            text(data.message_id),
            text(data.function_name),
            text(data.message),
            join(objects.iter().map(|object| text(object.object_name))),
            join(labels.iter().map(|label| text(label.label_name))),
        ]
    };
    let mut all = MESSAGES.lock().unwrap_or_else(PoisonError::into_inner);
    all.push(message);
    xr::FALSE
}

/// # Safety
/// `first` points to `count` elements, or `count` is 0.
unsafe fn array<'a, T>(first: *const T, count: u32) -> &'a [T] {
    match count {
        0 => &[],
        // SAFETY: the caller guarantees that `first` points to `count` elements.
        _ => unsafe { std::slice::from_raw_parts(first, count as usize) },
    }
}

fn join(texts: impl Iterator<Item = String>) -> String {
    texts.collect::<Vec<_>>().join(" ")
}

/// # Safety
/// `text` is null or a zero-terminated string.
unsafe fn text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the caller guarantees that `text` is null or a zero-terminated string.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_string_lossy().into_owned()
}

/// The messages since the last call.
fn take_messages() -> Vec<Message> {
    std::mem::take(&mut *MESSAGES.lock().unwrap_or_else(PoisonError::into_inner))
}

fn messenger(app: &Application) -> xr::DebugUtilsMessengerEXT {
    let info = xr::DebugUtilsMessengerCreateInfoEXT {
        ty: xr::DebugUtilsMessengerCreateInfoEXT::TYPE,
        next: null(),
        message_severities: xr::DebugUtilsMessageSeverityFlagsEXT::ERROR,
        message_types: xr::DebugUtilsMessageTypeFlagsEXT::VALIDATION,
        user_callback: Some(on_message),
        user_data: std::ptr::without_provenance_mut(7),
    };
    let mut messenger = xr::DebugUtilsMessengerEXT::NULL;
    let instance = app.instance;
    done!(
        app,
        CreateDebugUtilsMessengerEXT(instance, &info, &mut messenger)
    );
    messenger
}

#[test]
fn an_error_message_has_names_and_labels() {
    let name = "debug::an_error_message_has_names_and_labels";
    alone(name, || {
        let Some(app) = Application::open(EXTENSIONS) else {
            return;
        };
        let messenger = messenger(&app);
        let session = app.session(null()).unwrap();
        assert_eq!(app.begin(session), xr::Result::SUCCESS);
        assert_eq!(take_messages(), [] as [Message; 0], "no error");
        assert_eq!(app.begin_frame(session), ORDER);
        let order = "XR_ERROR_CALL_ORDER_INVALID";
        let text = "no frame was waited for: call xrWaitFrame before each xrBeginFrame";
        assert_eq!(take_messages(), [[order, "xrBeginFrame", text, "", ""]]);
        let object_name = xr::DebugUtilsObjectNameInfoEXT {
            ty: xr::DebugUtilsObjectNameInfoEXT::TYPE,
            next: null(),
            object_type: xr::ObjectType::SESSION,
            object_handle: session.into_raw(),
            object_name: c"the-game".as_ptr(),
        };
        done!(app, SetDebugUtilsObjectNameEXT(app.instance, &object_name));
        let label = xr::DebugUtilsLabelEXT {
            ty: xr::DebugUtilsLabelEXT::TYPE,
            next: null(),
            label_name: c"level-1".as_ptr(),
        };
        done!(app, SessionBeginDebugUtilsLabelRegionEXT(session, &label));
        assert_eq!(app.begin_frame(session), ORDER);
        let wanted = [order, "xrBeginFrame", text, "the-game", "level-1"];
        assert_eq!(take_messages(), [wanted]);
        // If the call does not explain its error, the message is the default explanation of the error code.
        assert_eq!(app.begin(session), xr::Result::ERROR_SESSION_RUNNING);
        let all = take_messages();
        let [id, function, text, ..] = &all[0];
        let running = ["XR_ERROR_SESSION_RUNNING", "xrBeginSession"];
        assert_eq!([id, function], running);
        assert_eq!(text, "the session is already running");
        done!(app, DestroyDebugUtilsMessengerEXT(messenger));
        assert_eq!(app.begin_frame(session), ORDER);
        assert_eq!(take_messages(), [] as [Message; 0], "no messenger left");
    });
}

#[test]
fn a_failed_opengl_binding_is_explained() {
    alone("debug::a_failed_opengl_binding_is_explained", || {
        let Some(app) = Application::open(EXTENSIONS) else {
            return;
        };
        messenger(&app);
        // SAFETY: all fields are numbers or pointers, for which zero is valid.
        let (binding, mut requirements) = unsafe {
            let mut binding: xr::GraphicsBindingOpenGLXlibKHR = std::mem::zeroed();
            binding.ty = xr::GraphicsBindingOpenGLXlibKHR::TYPE;
            let mut requirements: xr::GraphicsRequirementsOpenGLKHR = std::mem::zeroed();
            requirements.ty = xr::GraphicsRequirementsOpenGLKHR::TYPE;
            (binding, requirements)
        };
        let system = app.system();
        done!(
            app,
            GetOpenGLGraphicsRequirementsKHR(app.instance, system, &mut requirements)
        );
        let invalid = Err(xr::Result::ERROR_GRAPHICS_DEVICE_INVALID);
        assert_eq!(app.session((&raw const binding).cast()), invalid);
        let text = take_messages()[0][2].clone();
        assert_eq!(text, "the display or the OpenGL context is null");
        // The application may continue with a headless session.
        assert!(app.session(null()).is_ok());
    });
}
