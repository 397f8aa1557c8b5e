//! The boundary to C: what crosses it is checked here.

use std::ffi::{CStr, c_char, c_int};
use std::mem::MaybeUninit;

use crate::catch_panic::catch_panic;
use crate::error::OPENUVR_ERROR::{OPENUVR_ERROR_NULL, OPENUVR_ERROR_PANIC, OPENUVR_ERROR_SIZE};
use crate::error::{DONE, Failure, Outcome};

/// The body of a function that returns an `OPENUVR_ERROR` and has no context to keep a message in.
pub(crate) fn plain(work: impl FnOnce() -> Outcome<()>) -> c_int {
    catch_panic(OPENUVR_ERROR_PANIC as c_int, || match work() {
        Ok(()) => DONE,
        Err(failure) => failure.code as c_int,
    })
}

/// A structure that begins with its size in bytes as a `u32`, and of which every bit pattern is a
/// value: numbers, pointers, and functions that may be absent.
///
/// # Safety
/// That is so, and the type is `repr(C)`.
pub(crate) unsafe trait Sized32: Copy {}

/// The most bytes that a structure of ours may ever have: bounds what is read if a size is nonsense.
const MOST: usize = 4096;

/// The caller's structure. What a shorter one lacks is as in `default`; what a longer one has must
/// be zero, or it asks for something that this library does not know.
///
/// # Safety
/// `from` is NULL, or readable for as many bytes as its first four say.
pub(crate) unsafe fn read<T: Sized32>(from: *const T, default: T, what: &str) -> Outcome<T> {
    // SAFETY: the caller has promised this function the same.
    let size = unsafe { size_of_struct(from, what)? };
    let known = size.min(size_of::<T>());
    for at in known..size {
        // SAFETY: readable up to `size`.
        if unsafe { from.cast::<u8>().add(at).read() } != 0 {
            let why = format!("{what} asks for something that this library is too old for");
            return Err(Failure::new(OPENUVR_ERROR_SIZE, why));
        }
    }
    let mut value = MaybeUninit::new(default);
    // SAFETY: both are valid for `known` bytes, and any bytes are a value of `T`.
    unsafe {
        std::ptr::copy_nonoverlapping(from.cast::<u8>(), value.as_mut_ptr().cast::<u8>(), known);
        Ok(value.assume_init())
    }
}

/// Fills the caller's structure as far as it goes; its size stays what it says.
///
/// # Safety
/// `to` is NULL, or readable and writable for as many bytes as its first four say.
pub(crate) unsafe fn write<T: Sized32>(to: *mut T, value: &T, what: &str) -> Outcome<()> {
    // SAFETY: the caller has promised this function the same.
    let size = unsafe { size_of_struct(to, what)? };
    let (to, from) = (to.cast::<u8>(), std::ptr::from_ref(value).cast::<u8>());
    let known = size.min(size_of::<T>());
    // SAFETY: `to` is writable for `size` bytes, `from` readable for those of `T`; behind the four
    // bytes of the size.
    unsafe {
        std::ptr::copy_nonoverlapping(from.add(4), to.add(4), known - 4);
        std::ptr::write_bytes(to.add(known), 0, size - known);
    }
    Ok(())
}

/// # Safety
/// `of` is NULL or readable for four bytes.
unsafe fn size_of_struct<T>(of: *const T, what: &str) -> Outcome<usize> {
    if of.is_null() {
        return Err(Failure::null(what));
    }
    // SAFETY: readable for four bytes; it may lie anywhere.
    let size = unsafe { of.cast::<u32>().read_unaligned() } as usize;
    // A multiple of the alignment, as every size is: less could end in the middle of a pointer.
    if (8..=MOST).contains(&size) && size.is_multiple_of(align_of::<T>()) {
        return Ok(size);
    }
    let why = format!("{what} says that it has {size} bytes: set its size to sizeof *it first");
    Err(Failure::new(OPENUVR_ERROR_SIZE, why))
}

/// A text of the caller; `None` if there is none.
///
/// # Safety
/// `text` is NULL or ends with a zero byte.
pub(crate) unsafe fn text(text: *const c_char, what: &str) -> Outcome<Option<String>> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: it ends with a zero byte.
    let text = unsafe { CStr::from_ptr(text) };
    match text.to_str() {
        Ok(text) => Ok(Some(text.to_owned())),
        Err(_) => Err(Failure::argument(format!("{what} is not UTF-8"))),
    }
}

/// Writes as much of `text` as fits, ended with a zero byte and not in the middle of a character.
/// Nothing if there is no room at all.
///
/// # Safety
/// `to` is NULL or writable for `size` bytes.
pub(crate) unsafe fn give_text(text: &str, to: *mut c_char, size: usize) {
    let Some(room) = size.checked_sub(1).filter(|_| !to.is_null()) else {
        return;
    };
    let len = text.floor_char_boundary(room);
    // SAFETY: `len + 1 <= size`, and a text of ours does not overlap the caller's buffer.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr().cast(), to, len);
        to.add(len).write(0);
    }
}

/// The same for a function whose only purpose it is.
///
/// # Safety
/// As [`give_text`].
pub(crate) unsafe fn must_give_text(text: &str, to: *mut c_char, size: usize) -> Outcome {
    if to.is_null() || size == 0 {
        let why = "the text has no room to go to";
        return Err(Failure::new(OPENUVR_ERROR_NULL, why));
    }
    // SAFETY: the caller has promised this function the same.
    unsafe { give_text(text, to, size) };
    Ok(DONE)
}
