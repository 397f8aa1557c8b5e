//! The boundary to C: validates arguments.

use std::ffi::{CStr, c_char, c_int};
use std::mem::MaybeUninit;

use crate::catch_panic::catch_panic;
use crate::error::OPENUVR_ERROR::{OPENUVR_ERROR_NULL, OPENUVR_ERROR_PANIC, OPENUVR_ERROR_SIZE};
use crate::error::{DONE, Failure, Outcome};

/// Runs the body of a function that returns an `OPENUVR_ERROR` and has no context for a message.
pub(crate) fn plain(work: impl FnOnce() -> Outcome<()>) -> c_int {
    catch_panic(OPENUVR_ERROR_PANIC as c_int, || match work() {
        Ok(()) => DONE,
        Err(failure) => failure.code as c_int,
    })
}

/// A structure that starts with its size in bytes as a `u32`, and for which every bit pattern is valid:
/// numbers, pointers, and optional functions.
///
/// # Safety
/// The type has these properties, and is `repr(C)`.
pub(crate) unsafe trait Sized32: Copy {}

/// The upper limit of a structure's size in bytes: bounds the read if a size is invalid.
const MAX_SIZE: usize = 4096;

/// Reads the caller's structure. Missing fields of a shorter structure are taken from `default`. Additional fields of a
/// longer structure must be zero, because this library does not know them.
///
/// # Safety
/// `from` is NULL, or readable for the size in its first four bytes.
pub(crate) unsafe fn read<T: Sized32>(from: *const T, default: T, what: &str) -> Outcome<T> {
    // SAFETY: the caller upholds this function's requirements, which include those of the called function.
    let size = unsafe { size_of_struct(from, what)? };
    let known = size.min(size_of::<T>());
    for at in known..size {
        // SAFETY: the caller guarantees that `from` is readable for `size` bytes, and `at` is below `size`.
        if unsafe { from.cast::<u8>().add(at).read() } != 0 {
            let why = format!("{what} uses fields that are newer than this library");
            return Err(Failure::new(OPENUVR_ERROR_SIZE, why));
        }
    }
    let mut value = MaybeUninit::new(default);
    // SAFETY: `from` and `value` are valid for `known` bytes, and every bit pattern is a valid `T` (`Sized32`).
    unsafe {
        std::ptr::copy_nonoverlapping(from.cast::<u8>(), value.as_mut_ptr().cast::<u8>(), known);
        Ok(value.assume_init())
    }
}

/// Fills the caller's structure up to its size, which stays unchanged.
///
/// # Safety
/// `to` is NULL, or readable and writable for the size in its first four bytes.
pub(crate) unsafe fn write<T: Sized32>(to: *mut T, value: &T, what: &str) -> Outcome<()> {
    // SAFETY: the caller upholds this function's requirements, which include those of the called function.
    let size = unsafe { size_of_struct(to, what)? };
    let (to, from) = (to.cast::<u8>(), std::ptr::from_ref(value).cast::<u8>());
    let known = size.min(size_of::<T>());
    // SAFETY: `to` is writable for `size` bytes, and `from` is readable for the size of `T`. The copy skips the four
    // bytes of the size in both structures.
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
    // SAFETY: the caller guarantees that `of`, which is not null, is readable for four bytes. The read may be
    // unaligned.
    let size = unsafe { of.cast::<u32>().read_unaligned() } as usize;
    // A valid size is a multiple of the alignment; otherwise it could end inside a pointer.
    if (8..=MAX_SIZE).contains(&size) && size.is_multiple_of(align_of::<T>()) {
        return Ok(size);
    }
    let why = format!(
        "{what} has an invalid size of {size}: set its size field to sizeof the structure first"
    );
    Err(Failure::new(OPENUVR_ERROR_SIZE, why))
}

/// Reads a string of the caller; `None` if it is NULL.
///
/// # Safety
/// `text` is NULL or NUL-terminated.
pub(crate) unsafe fn text(text: *const c_char, what: &str) -> Outcome<Option<String>> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller guarantees that `text`, which is not null, is NUL-terminated.
    let text = unsafe { CStr::from_ptr(text) };
    match text.to_str() {
        Ok(text) => Ok(Some(text.to_owned())),
        Err(_) => Err(Failure::argument(format!("{what} is not UTF-8"))),
    }
}

/// Writes `text`, NUL-terminated and truncated at a character boundary. Writes nothing if `size` is 0.
///
/// # Safety
/// `to` is NULL or writable for `size` bytes.
pub(crate) unsafe fn give_text(text: &str, to: *mut c_char, size: usize) {
    let Some(capacity) = size.checked_sub(1).filter(|_| !to.is_null()) else {
        return;
    };
    let len = text.floor_char_boundary(capacity);
    // SAFETY: `to` is writable for `size` bytes, `len + 1 <= size`, and `text` does not overlap the caller's buffer.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr().cast(), to, len);
        to.add(len).write(0);
    }
}

/// Like [`give_text`], for functions without another result: returns an error if there is no buffer.
///
/// # Safety
/// As [`give_text`].
pub(crate) unsafe fn must_give_text(text: &str, to: *mut c_char, size: usize) -> Outcome {
    if to.is_null() || size == 0 {
        let why = "the buffer for the text is NULL or has size 0";
        return Err(Failure::new(OPENUVR_ERROR_NULL, why));
    }
    // SAFETY: the caller upholds this function's requirements, which include those of the called function.
    unsafe { give_text(text, to, size) };
    Ok(DONE)
}
