//! libwayland-client, opened at run time. EGL draws on the objects of this library. The Rust implementation of the
//! protocol, which `crates/wayland` uses, has no such objects.
//!
//! Requests and events have the names that the protocol uses. Arguments are checked against the tables that
//! wayland-scanner generates for libwayland, so that a wrong request is an error and not undefined behaviour.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};

use anyhow::{Context as _, Result, bail, ensure};
use wayland_client::Proxy as _;
use wayland_client::backend::protocol::{Interface, wl_argument, wl_interface, wl_message};
use wayland_client::protocol::wl_display::WlDisplay;

/// A `struct wl_proxy`.
pub(super) enum Proxy {}

type Dispatcher = unsafe extern "C" fn(
    *const c_void,
    *mut c_void,
    u32,
    *const wl_message,
    *const wl_argument,
) -> c_int;

/// The functions in use, with the types of wayland-client-core.h.
struct Functions {
    connect: unsafe extern "C" fn(*const c_char) -> *mut Proxy,
    disconnect: unsafe extern "C" fn(*mut Proxy),
    descriptor: unsafe extern "C" fn(*mut Proxy) -> c_int,
    roundtrip: unsafe extern "C" fn(*mut Proxy) -> c_int,
    dispatch_pending: unsafe extern "C" fn(*mut Proxy) -> c_int,
    prepare_read: unsafe extern "C" fn(*mut Proxy) -> c_int,
    read_events: unsafe extern "C" fn(*mut Proxy) -> c_int,
    cancel_read: unsafe extern "C" fn(*mut Proxy),
    flush: unsafe extern "C" fn(*mut Proxy) -> c_int,
    add_dispatcher:
        unsafe extern "C" fn(*mut Proxy, Dispatcher, *const c_void, *mut c_void) -> c_int,
    destroy: unsafe extern "C" fn(*mut Proxy),
    request: unsafe extern "C" fn(*mut Proxy, u32, *mut wl_argument),
    create: unsafe extern "C" fn(
        *mut Proxy,
        u32,
        *mut wl_argument,
        *const wl_interface,
        u32,
    ) -> *mut Proxy,
}

/// An object of the protocol. It lives as long as its connection.
#[derive(Clone, Copy)]
pub(super) struct Object {
    proxy: *mut Proxy,
    interface: &'static wl_interface,
    version: u32,
}

impl Object {
    /// The proxy, for EGL.
    pub(super) fn proxy(self) -> *mut Proxy {
        self.proxy
    }
}

/// An argument of a request.
pub(super) enum Argument<'a> {
    Number(u32),
    Text(&'a CStr),
    Object(Object),
    /// No object.
    Null,
    /// The object that the request creates.
    New,
}

/// The maximum number of arguments of an event that is handled here.
const ARGUMENTS: usize = 8;

/// An event.
pub(super) struct Message {
    proxy: *mut Proxy,
    pub(super) name: String,
    /// The event's numbers, each at its position among the arguments; other arguments are 0.
    pub(super) numbers: [u32; ARGUMENTS],
    /// The event's last string argument.
    pub(super) text: Option<CString>,
}

impl Message {
    /// Whether the message is an event of this object.
    pub(super) fn is_of(&self, object: Option<Object>) -> bool {
        object.is_some_and(|object| object.proxy == self.proxy)
    }
}

/// Maximum number of reads of the socket per call of [`Connection::receive`]. Each fills one of libwayland's buffers (4
/// KiB). This limit prevents a compositor that sends faster than the scene reads from blocking the scene.
const READS: usize = 16;

/// A connection to a compositor. Dropping it closes the connection and ends all its objects.
pub(super) struct Connection {
    functions: Functions,
    display: *mut Proxy,
    objects: Vec<*mut Proxy>,
    /// The inbox is at a fixed address, which is passed to the dispatcher.
    inbox: Box<RefCell<Vec<Message>>>,
    /// The last field, so that the library is closed last: the functions belong to it.
    _library: libloading::Library,
}

impl Connection {
    /// Connects to the display with this name or socket.
    ///
    /// # Errors
    /// Returns an error if the library is missing or there is no such display.
    pub(super) fn open(name: &str) -> Result<Connection> {
        // SAFETY: the library's initialisation has no effects.
        let library = unsafe { libloading::Library::new("libwayland-client.so.0") }
            .context("libwayland-client is missing (apt install libwayland-client0)")?;
        // SAFETY: the types are those of its header.
        let functions = unsafe {
            Functions {
                connect: *library.get(c"wl_display_connect")?,
                disconnect: *library.get(c"wl_display_disconnect")?,
                descriptor: *library.get(c"wl_display_get_fd")?,
                roundtrip: *library.get(c"wl_display_roundtrip")?,
                dispatch_pending: *library.get(c"wl_display_dispatch_pending")?,
                prepare_read: *library.get(c"wl_display_prepare_read")?,
                read_events: *library.get(c"wl_display_read_events")?,
                cancel_read: *library.get(c"wl_display_cancel_read")?,
                flush: *library.get(c"wl_display_flush")?,
                add_dispatcher: *library.get(c"wl_proxy_add_dispatcher")?,
                destroy: *library.get(c"wl_proxy_destroy")?,
                request: *library.get(c"wl_proxy_marshal_array")?,
                create: *library.get(c"wl_proxy_marshal_array_constructor_versioned")?,
            }
        };
        let path = CString::new(name)?;
        // SAFETY: the name is NUL-terminated.
        let display = unsafe { (functions.connect)(path.as_ptr()) };
        ensure!(
            !display.is_null(),
            "can't open the Wayland display {name}: check that it is running and that you have access"
        );
        Ok(Connection {
            functions,
            display,
            objects: Vec::new(),
            inbox: Box::default(),
            _library: library,
        })
    }

    /// The display object, which is object 1 of each connection.
    pub(super) fn display(&self) -> Result<Object> {
        Ok(Object {
            proxy: self.display,
            interface: table(WlDisplay::interface())?,
            version: 1,
        })
    }

    /// Sends a request that creates no object.
    ///
    /// # Errors
    /// Returns an error if the interface has no such request or the request has other arguments.
    pub(super) fn request(
        &self,
        object: Object,
        name: &str,
        arguments: &[Argument<'_>],
    ) -> Result<()> {
        let (code, mut arguments) = encode(object, name, arguments, false)?;
        // SAFETY: the object is alive, and the arguments are those of its request.
        unsafe { (self.functions.request)(object.proxy, code, arguments.as_mut_ptr()) };
        Ok(())
    }

    /// Sends a request that creates an object of this interface. From then on, the object's events are received. The
    /// new object gets the version `version`; with `None`, it gets the version of `object`.
    ///
    /// # Errors
    /// As [`Connection::request`].
    pub(super) fn create(
        &mut self,
        object: Object,
        name: &str,
        arguments: &[Argument<'_>],
        interface: &'static Interface,
        version: Option<u32>,
    ) -> Result<Object> {
        let (code, mut arguments) = encode(object, name, arguments, true)?;
        let (interface, version) = (table(interface)?, version.unwrap_or(object.version));
        let inbox: *const RefCell<Vec<Message>> = &raw const *self.inbox;
        // SAFETY: as in `request`; the inbox has a fixed address, and outlives the object.
        let proxy = unsafe {
            let arguments = arguments.as_mut_ptr();
            let proxy = (self.functions.create)(object.proxy, code, arguments, interface, version);
            ensure!(!proxy.is_null(), "no memory is left for a Wayland object");
            let data = std::ptr::null_mut();
            (self.functions.add_dispatcher)(proxy, collect, inbox.cast(), data);
            proxy
        };
        self.objects.push(proxy);
        Ok(Object {
            proxy,
            interface,
            version,
        })
    }

    /// Ends an object. Sends it the request `name`, if the object's version is at least `since`.
    ///
    /// # Errors
    /// As [`Connection::request`].
    pub(super) fn destroy(&mut self, object: Object, name: &str, since: u32) -> Result<()> {
        if object.version >= since {
            self.request(object, name, &[])?;
        }
        self.objects.retain(|proxy| *proxy != object.proxy);
        // SAFETY: the object is alive, and is not used afterwards.
        unsafe { (self.functions.destroy)(object.proxy) };
        Ok(())
    }

    /// Waits until the compositor has handled all requests, and receives its events.
    ///
    /// # Errors
    /// Returns an error if the connection has ended.
    pub(super) fn roundtrip(&self) -> Result<()> {
        // SAFETY: the display is open.
        let result = unsafe { (self.functions.roundtrip)(self.display) };
        self.done(result)
    }

    /// Receives the events that have arrived, without waiting.
    ///
    /// # Errors
    /// Returns an error if the connection has ended.
    pub(super) fn receive(&self) -> Result<()> {
        for _ in 0..READS {
            // SAFETY: the display is open; this thread announces each read, and then either reads or cancels the read.
            unsafe {
                while (self.functions.prepare_read)(self.display) != 0 {
                    self.done((self.functions.dispatch_pending)(self.display))?;
                }
                (self.functions.flush)(self.display);
                let mut socket = libc::pollfd {
                    fd: (self.functions.descriptor)(self.display),
                    events: libc::POLLIN,
                    revents: 0,
                };
                if libc::poll(&raw mut socket, 1, 0) < 1 {
                    (self.functions.cancel_read)(self.display);
                    return Ok(());
                }
                self.done((self.functions.read_events)(self.display))?;
                self.done((self.functions.dispatch_pending)(self.display))?;
            }
        }
        Ok(())
    }

    fn done(&self, result: c_int) -> Result<()> {
        let why = || std::io::Error::last_os_error();
        ensure!(
            result >= 0,
            "the compositor has ended the connection: {}",
            why()
        );
        Ok(())
    }

    /// Takes the received events out of the inbox.
    pub(super) fn messages(&self) -> Vec<Message> {
        self.inbox.take()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // SAFETY: nothing uses the objects afterwards; the compositor frees its side when the connection closes.
        unsafe {
            for proxy in self.objects.iter().rev() {
                (self.functions.destroy)(*proxy);
            }
            (self.functions.disconnect)(self.display);
        }
    }
}

/// The tables of libwayland for an interface.
fn table(interface: &'static Interface) -> Result<&'static wl_interface> {
    let name = interface.name;
    (interface.c_ptr).with_context(|| format!("the interface {name} has no table for libwayland"))
}

/// The letters of a message's signature: one per argument, with `true` if the argument may be null.
fn letters(signature: &CStr) -> Vec<(u8, bool)> {
    let mut letters = Vec::new();
    let mut nullable = false;
    for letter in signature.to_bytes() {
        match letter {
            b'?' => nullable = true,
            // The number of the first version with this message is skipped.
            b'0'..=b'9' => {}
            letter => letters.push((*letter, std::mem::take(&mut nullable))),
        }
    }
    letters
}

/// The code of a request, and its arguments for libwayland. `creates` is whether the request creates an object.
fn encode(
    object: Object,
    name: &str,
    arguments: &[Argument<'_>],
    creates: bool,
) -> Result<(u32, Vec<wl_argument>)> {
    let table = object.interface;
    let count = usize::try_from(table.request_count)?;
    // SAFETY: the table has this number of requests, with NUL-terminated names.
    let (code, signature) = unsafe {
        let requests = std::slice::from_raw_parts(table.requests, count);
        let is_it =
            |message: &&wl_message| CStr::from_ptr(message.name).to_bytes() == name.as_bytes();
        let Some(found) = requests.iter().find(is_it) else {
            bail!("there is no Wayland request {name}");
        };
        let code = requests
            .iter()
            .take_while(|message| !is_it(message))
            .count();
        (u32::try_from(code)?, CStr::from_ptr(found.signature))
    };
    let letters = letters(signature);
    let fits = |(argument, (letter, nullable)): (&Argument<'_>, &(u8, bool))| match argument {
        Argument::Number(_) => matches!(letter, b'u' | b'i' | b'f'),
        Argument::Text(_) => *letter == b's',
        Argument::Object(_) => *letter == b'o',
        Argument::Null => *letter == b'o' && *nullable,
        Argument::New => *letter == b'n' && creates,
    };
    ensure!(
        arguments.len() == letters.len()
            && arguments.iter().zip(&letters).all(fits)
            && creates == arguments.iter().any(|a| matches!(a, Argument::New)),
        "the arguments of the Wayland request {name} do not match its signature {signature:?}"
    );
    let encoded = arguments.iter().map(|argument| match argument {
        Argument::Number(u) => wl_argument { u: *u },
        Argument::Text(text) => wl_argument { s: text.as_ptr() },
        Argument::Object(object) => wl_argument {
            o: object.proxy.cast_const().cast(),
        },
        Argument::Null | Argument::New => wl_argument {
            o: std::ptr::null(),
        },
    });
    Ok((code, encoded.collect()))
}

/// Stores an event in the inbox of its connection.
///
/// # Safety
/// `inbox` must belong to a live connection, and the other arguments must be those of libwayland.
unsafe extern "C" fn collect(
    inbox: *const c_void,
    target: *mut c_void,
    _code: u32,
    message: *const wl_message,
    arguments: *const wl_argument,
) -> c_int {
    // SAFETY: by this function's contract; the signature determines which member of each argument is set.
    unsafe {
        let name = CStr::from_ptr((*message).name);
        let (mut numbers, mut text) = ([0; ARGUMENTS], None);
        for (index, (letter, _)) in letters(CStr::from_ptr((*message).signature))
            .into_iter()
            .enumerate()
        {
            let argument = &*arguments.add(index);
            match letter {
                b'i' | b'u' | b'f' => {
                    if let Some(number) = numbers.get_mut(index) {
                        *number = argument.u;
                    }
                }
                b's' if !argument.s.is_null() => text = Some(CStr::from_ptr(argument.s).to_owned()),
                // The receiver of an event owns the descriptor in it. Only keyboards send a descriptor, for their
                // layout.
                b'h' => _ = libc::close(argument.h),
                _ => {}
            }
        }
        let inbox = &*inbox.cast::<RefCell<Vec<Message>>>();
        // Nothing borrows the inbox while libwayland dispatches.
        if let Ok(mut inbox) = inbox.try_borrow_mut() {
            inbox.push(Message {
                proxy: target.cast(),
                name: name.to_string_lossy().into_owned(),
                numbers,
                text,
            });
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use wayland_client::protocol::wl_registry::WlRegistry;
    use wayland_client::protocol::wl_seat::WlSeat;
    use wayland_protocols::xdg::shell::client::xdg_toplevel::XdgToplevel;

    use super::*;

    /// An object to which no request is sent.
    fn object(interface: &'static Interface) -> Object {
        Object {
            proxy: std::ptr::null_mut(),
            interface: table(interface).unwrap(),
            version: 1,
        }
    }

    #[test]
    fn requests_have_their_codes_and_only_their_arguments() {
        let code = |interface, name, arguments: &[Argument<'_>], creates| {
            encode(object(interface), name, arguments, creates).map(|(code, encoded)| {
                assert_eq!(encoded.len(), arguments.len());
                code
            })
        };
        let registry = WlRegistry::interface();
        let bind = [
            Argument::Number(7),
            Argument::Text(c"wl_seat"),
            Argument::Number(1),
            Argument::New,
        ];
        assert_eq!(code(registry, "bind", &bind, true).ok(), Some(0));
        assert!(code(registry, "bind", &bind, false).is_err());
        assert!(code(registry, "bind", &bind[..3], true).is_err());
        let toplevel = XdgToplevel::interface();
        let title = [Argument::Text(c"title")];
        assert_eq!(code(toplevel, "set_title", &title, false).ok(), Some(2));
        assert!(code(toplevel, "set_title", &[Argument::Number(1)], false).is_err());
        let nowhere = [Argument::Null];
        let full_screen = code(toplevel, "set_fullscreen", &nowhere, false);
        assert_eq!(full_screen.ok(), Some(11));
        let unknown = code(toplevel, "fly", &[], false).unwrap_err();
        assert_eq!(unknown.to_string(), "there is no Wayland request fly");
        let seat = WlSeat::interface();
        let pointer = code(seat, "get_pointer", &[Argument::New], true);
        assert_eq!(pointer.ok(), Some(0));
    }

    #[test]
    fn signatures_have_versions_and_optional_arguments() {
        let expected = [(b'u', false), (b'o', true), (b'i', false)];
        assert_eq!(letters(c"3u?oi"), expected);
    }
}
