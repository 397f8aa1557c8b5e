//! The X display names (as in `DISPLAY`) of a program's connections.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::os::fd::BorrowedFd;

use rustix::net::{SocketAddrAny, SocketAddrUnix, getpeername};

use crate::real::NextFunction;

/// The path of an X server's socket, without the server's number.
const SOCKETS: &[u8] = b"/tmp/.X11-unix/X";

/// The TCP port of X server 0.
const PORT: u16 = 6000;

/// The name of an Xlib display.
///
/// # Safety
/// `display` must be an open Xlib display.
pub(crate) unsafe fn of_xlib(display: *mut c_void) -> Option<String> {
    type Name = unsafe extern "C" fn(*mut c_void) -> *const c_char;
    static NAME: NextFunction = NextFunction::new(c"XDisplayString");
    // SAFETY: `Name` is the type of `XDisplayString`.
    let name: Name = unsafe { NAME.function() }?;
    // SAFETY: the caller guarantees that the display is open. The returned string is valid while the display is open.
    let name = unsafe { name(display) };
    if name.is_null() {
        return None;
    }
    // SAFETY: null was excluded above. Xlib's string is zero-terminated, and is copied before the display can be
    // closed.
    let name = unsafe { CStr::from_ptr(name) };
    Some(name.to_str().ok()?.to_owned())
}

/// The display name of an XCB connection, from its peer address, because XCB does not keep the
/// name.
///
/// # Safety
/// `connection` must be an open XCB connection.
pub(crate) unsafe fn of_xcb(connection: *mut c_void) -> Option<String> {
    type Descriptor = unsafe extern "C" fn(*mut c_void) -> c_int;
    static DESCRIPTOR: NextFunction = NextFunction::new(c"xcb_get_file_descriptor");
    // SAFETY: `Descriptor` is the type of `xcb_get_file_descriptor`.
    let descriptor: Descriptor = unsafe { DESCRIPTOR.function() }?;
    // SAFETY: the caller guarantees that the connection is open.
    let descriptor = unsafe { descriptor(connection) };
    if descriptor < 0 {
        return None;
    }
    // SAFETY: the connection owns the descriptor, and the caller guarantees that the connection is open.
    let descriptor = unsafe { BorrowedFd::borrow_raw(descriptor) };
    at(&getpeername(descriptor).ok()??)
}

/// The display name of a server address.
fn at(address: &SocketAddrAny) -> Option<String> {
    if let Ok(unix) = SocketAddrUnix::try_from(address.clone()) {
        let path = unix.path_bytes().or_else(|| unix.abstract_name())?;
        let number = path.strip_prefix(SOCKETS)?;
        let number: u16 = str::from_utf8(number).ok()?.parse().ok()?;
        return Some(format!(":{number}"));
    }
    let address = std::net::SocketAddr::try_from(address.clone()).ok()?;
    let number = address.port().checked_sub(PORT)?;
    Some(format!("{}:{number}", address.ip()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_its_display() {
        let file = SocketAddrUnix::new("/tmp/.X11-unix/X12").unwrap();
        let hidden = SocketAddrUnix::new_abstract_name(b"/tmp/.X11-unix/X3").unwrap();
        let other = SocketAddrUnix::new("/run/user/0/bus").unwrap();
        assert_eq!(at(&file.into()).as_deref(), Some(":12"));
        assert_eq!(at(&hidden.into()).as_deref(), Some(":3"));
        assert_eq!(at(&other.into()), None);
        let tcp: std::net::SocketAddr = "127.0.0.1:6010".parse().unwrap();
        assert_eq!(at(&tcp.into()).as_deref(), Some("127.0.0.1:10"));
        let none: std::net::SocketAddr = "127.0.0.1:80".parse().unwrap();
        assert_eq!(at(&none.into()), None);
    }
}
