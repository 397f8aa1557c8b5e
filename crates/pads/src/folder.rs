//! Maps paths of our devices to their real locations.

use std::ffi::{CStr, c_char, c_int};
use std::sync::atomic::{AtomicBool, Ordering};

use openuvr_media::pad::{DEVICES, FIRST_EVENT, FOLDER, MAX_DEVICES, SOCKETS};

/// The kernel's folder of devices.
const INPUT: &[u8] = b"/dev/input";
const EVENT: &[u8] = b"event";

/// Maximum length of the folder's name. The folder's name and a socket's name together must fit in a socket address
/// (108 bytes).
const LONGEST: usize = 88;

/// The folder, without a terminating zero. It is written once, before the program starts.
static mut NAME: [u8; LONGEST] = [0; LONGEST];
static mut LENGTH: usize = 0;
static ON: AtomicBool = AtomicBool::new(false);

/// The loader runs this before any thread can exist. Earlier calls of `open` see the kernel's devices.
#[used]
#[unsafe(link_section = ".init_array")]
static INIT: extern "C" fn() = init;

extern "C" fn init() {
    let mut name = [0; FOLDER.len() + 1];
    for (to, byte) in name.iter_mut().zip(FOLDER.bytes()) {
        *to = byte;
    }
    // SAFETY: `name` is a string, because its last byte stays zero.
    let value = unsafe { libc::getenv(name.as_ptr().cast()) };
    if value.is_null() {
        return;
    }
    // SAFETY: getenv returns a string.
    let value = unsafe { CStr::from_ptr(value) }.to_bytes();
    if value.first() != Some(&b'/') || value.len() > LONGEST {
        return;
    }
    // SAFETY: no other code of this library runs yet, and the array is not written afterwards. The array is large
    // enough.
    unsafe {
        (&raw mut NAME)
            .cast::<u8>()
            .copy_from_nonoverlapping(value.as_ptr(), value.len());
        (&raw mut LENGTH).write(value.len());
    }
    ON.store(true, Ordering::Release);
}

/// Whether a folder is set.
pub(crate) fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

fn folder() -> &'static [u8] {
    if !ON.load(Ordering::Acquire) {
        return &[];
    }
    // SAFETY: the name was written before `ON` was set, and is never written again.
    unsafe {
        std::slice::from_raw_parts((&raw const NAME).cast::<u8>(), (&raw const LENGTH).read())
    }
}

/// A path that this library serves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum InputPath {
    /// `/dev/input` itself.
    Listing,
    /// A device, from 0.
    Device(u32),
}

/// Classifies `path`; `None` if it is not served by this library.
///
/// # Safety
/// `path` must be null or a string.
pub(crate) unsafe fn classify(path: *const c_char) -> Option<InputPath> {
    if !is_on() || path.is_null() {
        return None;
    }
    // SAFETY: both are strings during the comparison.
    let other = unsafe { libc::strncmp(path, INPUT.as_ptr().cast(), INPUT.len()) } != 0;
    if other {
        return None;
    }
    // SAFETY: a string by the caller's contract.
    let rest = unsafe { CStr::from_ptr(path) }
        .to_bytes()
        .get(INPUT.len()..)?;
    let mut names = rest.split(|byte| *byte == b'/').skip(1).filter(|name| {
        // Empty and `.` components have no effect on the location.
        !name.is_empty() && *name != b"."
    });
    match (rest.first(), names.next(), names.next()) {
        (None | Some(b'/'), None, _) => Some(InputPath::Listing),
        (Some(b'/'), Some(name), None) => Some(InputPath::Device(device(name)?)),
        _ => None,
    }
}

/// Like [`classify`], for a path that may be relative to an open folder.
///
/// # Safety
/// As [`classify`].
pub(crate) unsafe fn classify_at(dir: c_int, path: *const c_char) -> Option<InputPath> {
    if !is_on() || path.is_null() {
        return None;
    }
    // SAFETY: a string has a first byte.
    if unsafe { *path }.to_ne_bytes() == *b"/" {
        // SAFETY: by the caller's contract.
        return unsafe { classify(path) };
    }
    // SAFETY: a string by the caller's contract.
    let number = device(unsafe { CStr::from_ptr(path) }.to_bytes())?;
    is_listing(dir).then_some(InputPath::Device(number))
}

/// Whether a descriptor refers to the folder that replaces `/dev/input`.
fn is_listing(dir: c_int) -> bool {
    let mut link = Name::new();
    link.push(b"/proc/self/fd/");
    link.number(dir.cast_unsigned());
    let mut found = [0_u8; 256];
    let before = crate::real::errno();
    // SAFETY: the path is a string, and the buffer has the given length.
    let length = unsafe {
        libc::syscall(
            libc::SYS_readlinkat,
            libc::AT_FDCWD,
            link.as_ptr(),
            found.as_mut_ptr(),
            found.len(),
        )
    };
    crate::real::set_errno(before);
    let mut ours = Name::new();
    ours.listing();
    let found = usize::try_from(length)
        .ok()
        .and_then(|length| found.get(..length));
    found == Some(ours.bytes())
}

/// The device of this name; `None` if this library does not serve the name.
pub(crate) fn device(name: &[u8]) -> Option<u32> {
    let digits = name.strip_prefix(EVENT)?;
    if digits.is_empty() || digits.len() > 4 || digits.first() == Some(&b'0') {
        return None;
    }
    let mut number = 0;
    for digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        number = number * 10 + u32::from(digit - b'0');
    }
    number.checked_sub(FIRST_EVENT).filter(|n| *n < MAX_DEVICES)
}

/// A path assembled without allocation, NUL-terminated.
pub(crate) struct Name {
    bytes: [u8; 160],
    length: usize,
}

impl Name {
    pub(crate) fn new() -> Name {
        Name {
            bytes: [0; 160],
            length: 0,
        }
    }

    /// Appends text, truncated to the available space, which is always sufficient.
    fn push(&mut self, text: &[u8]) {
        let last = self.bytes.len() - 1;
        if let Some(room) = self.bytes.get_mut(self.length..last) {
            for (to, byte) in room.iter_mut().zip(text) {
                *to = *byte;
                self.length += 1;
            }
        }
    }

    fn number(&mut self, number: u32) {
        let mut divisor = 1_000_000_000;
        while divisor > 1 && number / divisor == 0 {
            divisor /= 10;
        }
        while divisor > 0 {
            let digit = u8::try_from(number / divisor % 10).unwrap_or(0);
            self.push(&[b'0' + digit]);
            divisor /= 10;
        }
    }

    /// Appends the path of the folder that replaces `/dev/input`.
    pub(crate) fn listing(&mut self) {
        self.push(folder());
        self.push(b"/");
        self.push(DEVICES.as_bytes());
    }

    fn event(&mut self, device: u32) {
        self.push(b"/");
        self.push(EVENT);
        self.number(FIRST_EVENT + device);
    }

    /// The real location of a path.
    pub(crate) fn of(place: InputPath) -> Name {
        let mut name = Name::new();
        name.listing();
        if let InputPath::Device(device) = place {
            name.event(device);
        }
        name
    }

    /// The folder of the sockets, with a slash at its end.
    pub(crate) fn sockets() -> Name {
        let mut name = Name::new();
        name.push(folder());
        name.push(b"/");
        name.push(SOCKETS.as_bytes());
        name.push(b"/");
        name
    }

    pub(crate) fn socket(device: u32) -> Name {
        let mut name = Name::sockets();
        name.push(EVENT);
        name.number(FIRST_EVENT + device);
        name
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }

    pub(crate) fn as_ptr(&self) -> *const c_char {
        self.bytes.as_ptr().cast()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_known_by_their_names() {
        assert_eq!(device(b"event240"), Some(0));
        assert_eq!(device(b"event247"), Some(7));
        for name in [
            "event248",
            "event3",
            "event",
            "event0240",
            "event24x",
            "js0",
            "event99999",
        ] {
            assert_eq!(device(name.as_bytes()), None, "{name}");
        }
    }

    #[test]
    fn names_are_assembled() {
        let mut name = Name::new();
        for number in [0, 7, 10, 240, u32::MAX] {
            name.number(number);
            name.push(b",");
        }
        assert_eq!(name.bytes(), b"0,7,10,240,4294967295,");
        name.push(&[b'x'; 400]);
        assert_eq!(name.bytes().len(), 159);
    }
}
