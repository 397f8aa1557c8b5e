//! The C interface between wlcs 1.5 and a display: `display_server.h`, `pointer.h` and `touch.h` of Debian's package
//! wlcs.
//!
//! The suite calls these functions from one thread. A panic ends the process, and with it the suite.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::os::fd::IntoRawFd;

use libloading::os::unix::Library;

use crate::{Pointer, Server};

/// `wl_fixed_t`: a number in 1/256.
type Fixed = i32;

/// `struct WlcsServerIntegration`, version 1.
#[repr(C)]
pub(crate) struct Integration {
    version: u32,
    create: extern "C" fn(c_int, *const *const c_char) -> *mut Display,
    destroy: unsafe extern "C" fn(*mut Display),
}

/// `struct WlcsDisplayServer`, version 3, followed by the display.
#[repr(C)]
pub(crate) struct Display {
    version: u32,
    start: unsafe extern "C" fn(*mut Display),
    stop: unsafe extern "C" fn(*mut Display),
    create_client_socket: unsafe extern "C" fn(*mut Display) -> c_int,
    position_window: unsafe extern "C" fn(*mut Display, *mut c_void, *mut c_void, c_int, c_int),
    create_pointer: unsafe extern "C" fn(*mut Display) -> *mut PointerDevice,
    create_touch: unsafe extern "C" fn(*mut Display) -> *mut TouchDevice,
    descriptor: extern "C" fn(*const Display) -> *const Descriptor,
    start_on_this_thread: Option<extern "C" fn(*mut Display, *mut c_void)>,
    server: Option<Server>,
}

/// `struct WlcsPointer`, version 1, followed by the pointer.
#[repr(C)]
struct PointerDevice {
    version: u32,
    move_absolute: unsafe extern "C" fn(*mut PointerDevice, Fixed, Fixed),
    move_relative: unsafe extern "C" fn(*mut PointerDevice, Fixed, Fixed),
    button_up: unsafe extern "C" fn(*mut PointerDevice, c_int),
    button_down: unsafe extern "C" fn(*mut PointerDevice, c_int),
    destroy: unsafe extern "C" fn(*mut PointerDevice),
    pointer: Pointer,
}

/// `struct WlcsTouch`, version 1.
#[repr(C)]
struct TouchDevice {
    version: u32,
    down: extern "C" fn(*mut TouchDevice, Fixed, Fixed),
    moved: extern "C" fn(*mut TouchDevice, Fixed, Fixed),
    up: extern "C" fn(*mut TouchDevice),
    destroy: unsafe extern "C" fn(*mut TouchDevice),
}

/// `struct WlcsIntegrationDescriptor`, version 1.
#[repr(C)]
struct Descriptor {
    version: u32,
    count: usize,
    extensions: *const Extension,
}

// SAFETY: `extensions` points to a constant, which is never written.
unsafe impl Sync for Descriptor {}

/// `struct WlcsExtensionDescriptor`.
#[repr(C)]
struct Extension {
    name: *const c_char,
    version: u32,
}

// SAFETY: `name` points to a constant, which is never written.
unsafe impl Sync for Extension {}

const fn extension(name: &'static CStr, version: u32) -> Extension {
    Extension {
        name: name.as_ptr(),
        version,
    }
}

/// The announced protocols. The suite skips the tests of all other protocols.
static EXTENSIONS: [Extension; 12] = [
    extension(c"wl_compositor", 6),
    extension(c"wl_subcompositor", 1),
    extension(c"wl_data_device_manager", 3),
    extension(c"wl_seat", 9),
    extension(c"wl_output", 4),
    extension(c"xdg_wm_base", 6),
    extension(c"zxdg_output_manager_v1", 3),
    extension(c"zwp_pointer_constraints_v1", 1),
    extension(c"zwp_relative_pointer_manager_v1", 1),
    extension(c"zwp_primary_selection_device_manager_v1", 1),
    extension(c"zwp_text_input_manager_v3", 1),
    extension(c"wp_viewporter", 1),
];

static DESCRIPTOR: Descriptor = Descriptor {
    version: 1,
    count: EXTENSIONS.len(),
    extensions: EXTENSIONS.as_ptr(),
};

/// The suite's entry point.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "the suite's name")]
pub(crate) static wlcs_server_integration: Integration = Integration {
    version: 1,
    create: create_display,
    destroy: destroy_display,
};

extern "C" fn create_display(_: c_int, _: *const *const c_char) -> *mut Display {
    Box::into_raw(Box::new(Display {
        version: 3,
        start,
        stop,
        create_client_socket,
        position_window,
        create_pointer,
        create_touch,
        descriptor,
        start_on_this_thread: None,
        server: None,
    }))
}

unsafe extern "C" fn destroy_display(display: *mut Display) {
    // SAFETY: the pointer is from `create_display`, and the suite destroys it only once.
    drop(unsafe { Box::from_raw(display) });
}

unsafe extern "C" fn start(display: *mut Display) {
    // SAFETY: the pointer is from `create_display`, and the suite uses it in one thread only.
    unsafe { (*display).server = Some(Server::start()) };
}

unsafe extern "C" fn stop(display: *mut Display) {
    // SAFETY: as in `start`.
    unsafe { (*display).server = None };
}

/// The running display.
///
/// # Safety
/// `display` must be a pointer from `create_display`.
unsafe fn server<'a>(display: *mut Display) -> &'a Server {
    // SAFETY: the caller guarantees that `display` is a pointer from `create_display`.
    let server = unsafe { (*display).server.as_ref() };
    server.expect("the suite has started the display")
}

unsafe extern "C" fn create_client_socket(display: *mut Display) -> c_int {
    // SAFETY: as in `start`.
    let socket = unsafe { server(display) }.connect();
    socket.map_or(-1, IntoRawFd::into_raw_fd)
}

unsafe extern "C" fn position_window(
    display: *mut Display,
    client: *mut c_void,
    surface: *mut c_void,
    x: c_int,
    y: c_int,
) {
    let library = Library::this();
    // SAFETY: libwayland-client, which the suite has linked, contains these functions with these types. The suite
    // passes a client's display and a surface of this client.
    let (client, surface) = unsafe {
        let number =
            library.get::<unsafe extern "C" fn(*mut c_void) -> c_int>(b"wl_display_get_fd\0");
        let id = library.get::<unsafe extern "C" fn(*mut c_void) -> u32>(b"wl_proxy_get_id\0");
        let missing = "the suite links libwayland-client";
        (number.expect(missing)(client), id.expect(missing)(surface))
    };
    // SAFETY: as in `start`.
    unsafe { server(display) }.move_window(client, surface, x, y);
}

unsafe extern "C" fn create_pointer(display: *mut Display) -> *mut PointerDevice {
    Box::into_raw(Box::new(PointerDevice {
        version: 1,
        move_absolute,
        move_relative,
        button_up,
        button_down,
        destroy: destroy_pointer,
        // SAFETY: as in `start`.
        pointer: unsafe { server(display) }.pointer(),
    }))
}

/// Converts to whole units; the suite uses no fractions.
fn units(fixed: Fixed) -> i32 {
    fixed.div_euclid(256)
}

/// A button's number in `linux/input-event-codes.h`.
fn code(button: c_int) -> u16 {
    u16::try_from(button).expect("a button's number has 16 bits")
}

unsafe extern "C" fn move_absolute(device: *mut PointerDevice, x: Fixed, y: Fixed) {
    // SAFETY: the pointer is from `create_pointer`, and the suite uses it in one thread only.
    unsafe { (*device).pointer.move_to(units(x), units(y)) };
}

unsafe extern "C" fn move_relative(device: *mut PointerDevice, dx: Fixed, dy: Fixed) {
    // SAFETY: as in `move_absolute`.
    unsafe { (*device).pointer.move_by(units(dx), units(dy)) };
}

unsafe extern "C" fn button_up(device: *mut PointerDevice, button: c_int) {
    // SAFETY: as in `move_absolute`.
    unsafe { (*device).pointer.button(code(button), false) };
}

unsafe extern "C" fn button_down(device: *mut PointerDevice, button: c_int) {
    // SAFETY: as in `move_absolute`.
    unsafe { (*device).pointer.button(code(button), true) };
}

unsafe extern "C" fn destroy_pointer(device: *mut PointerDevice) {
    // SAFETY: the pointer is from `create_pointer`, and the suite destroys it only once.
    drop(unsafe { Box::from_raw(device) });
}

/// The display does not support touch input, so the suite's touch tests fail.
unsafe extern "C" fn create_touch(_: *mut Display) -> *mut TouchDevice {
    extern "C" fn ignore_position(_: *mut TouchDevice, _: Fixed, _: Fixed) {}
    extern "C" fn ignore_up(_: *mut TouchDevice) {}
    unsafe extern "C" fn destroy(device: *mut TouchDevice) {
        // SAFETY: the pointer is from `create_touch`, and the suite destroys it only once.
        drop(unsafe { Box::from_raw(device) });
    }
    Box::into_raw(Box::new(TouchDevice {
        version: 1,
        down: ignore_position,
        moved: ignore_position,
        up: ignore_up,
        destroy,
    }))
}

extern "C" fn descriptor(_: *const Display) -> *const Descriptor {
    &raw const DESCRIPTOR
}
