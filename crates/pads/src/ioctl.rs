//! `ioctl` of event devices (`linux/input.h`), with the answers of the kernel's evdev.

use std::ffi::{c_int, c_ulong, c_void};
use std::sync::atomic::{AtomicU32, Ordering};

use openuvr_media::pad::MAX_DEVICES;
use openuvr_media::pad::codes::{EV_CNT, FF_RUMBLE, KEY_CNT};
use openuvr_media::pad::description::{
    AXIS, EFFECTS, Field, ID, KEYS_DOWN, LOCATION, NAME, bits_of, info_of,
};
use openuvr_media::pad::requests::{Effect, Request};

use crate::device::{self, NOWHERE};
use crate::folder::is_on;
use crate::real::{RealFunction, fail};

/// `EV_VERSION`.
const VERSION: c_int = 0x01_0001;

/// Maximum number of effects of a device.
const MAX_EFFECTS: u32 = 16;

/// Size of `struct ff_effect` in bytes.
const EFFECT: usize = 48;

/// For each device, a bit mask of the effect numbers in use by this process. If all numbers are in use, all are freed:
/// the process has probably closed a device without erasing its effects.
static IN_USE: [AtomicU32; MAX_DEVICES as usize] =
    [const { AtomicU32::new(0) }; MAX_DEVICES as usize];

/// See ioctl(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn ioctl(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int {
    static REAL: RealFunction = RealFunction::new(c"ioctl");
    type Call = unsafe extern "C" fn(c_int, c_ulong, ...) -> c_int;
    if request >> 8 & 0xff == c_ulong::from(b'E')
        && is_on()
        && let Some(device) = device::of(fd)
    {
        // SAFETY: the caller passes an argument as the request's number requires.
        return unsafe { answer(fd, device, request, argument) };
    }
    // SAFETY: `Call` is the type of the function; the caller's arguments are passed on.
    match unsafe { REAL.get::<Call>() } {
        // SAFETY: by the caller's contract.
        Some(real) => unsafe { real(fd, request, argument) },
        None => fail(libc::ENOSYS),
    }
}

/// # Safety
/// `argument` must match the request's number.
unsafe fn answer(fd: c_int, device: u32, request: c_ulong, argument: *mut c_void) -> c_int {
    let number = u16::try_from(request & 0xff).unwrap_or(0);
    let room = usize::try_from(request >> 16 & 0x3fff).unwrap_or(0);
    let to = Answer {
        device,
        to: argument.cast(),
        room,
    };
    // SAFETY: `argument` has the space that the request's number encodes.
    unsafe {
        match number {
            0x01 => to.bytes(&VERSION.to_ne_bytes()),
            0x02 => to.field(ID, 0),
            // There is no auto-repeat.
            0x03 => fail(libc::ENOSYS),
            0x06 => to.text(NAME),
            0x07 => to.text(LOCATION),
            0x08 => fail(libc::ENOENT),
            // There are no properties, LEDs, sounds or switches.
            0x09 | 0x19..=0x1b => to.nothing(8),
            0x18 => to.field(KEYS_DOWN, KEYS_DOWN.length),
            0x20..0x40 => match bits_of(number - 0x20) {
                Some(bits) => to.field(bits, bits.length),
                None => to.nothing(8),
            },
            // EVIOCGABS asks for an axis's values. EVIOCSABS, which would set them, has the numbers from 0xc0 on.
            0x40..0x80 => match info_of(number - 0x40) {
                Some(info) => to.field(info, 0),
                None => fail(libc::EINVAL),
            },
            0x80 => upload(fd, device, argument.cast(), room),
            0x81 => erase(fd, device, argument as usize),
            0x84 => to.field(EFFECTS, 0),
            // EVIOCGRAB succeeds without an effect: all processes that see the device belong to one game, so none needs
            // exclusive access.
            0x90 => 0,
            0x91 => libc::shutdown(fd, libc::SHUT_RDWR),
            0xa0 => clock(fd, argument.cast()),
            0xc0..=0xff => 0,
            _ => fail(libc::EINVAL),
        }
    }
}

/// The destination of an answer.
struct Answer {
    device: u32,
    to: *mut u8,
    room: usize,
}

impl Answer {
    /// # Safety
    /// The space must exist.
    unsafe fn bytes(&self, bytes: &[u8]) -> c_int {
        if self.to.cast() == NOWHERE {
            return fail(libc::EFAULT);
        }
        let length = bytes.len().min(self.room);
        // SAFETY: by the caller's contract.
        unsafe { self.to.copy_from_nonoverlapping(bytes.as_ptr(), length) };
        0
    }

    /// Answers with a field of the description, truncated to the space. Returns `count`, or the size of the space if
    /// that is smaller.
    ///
    /// # Safety
    /// The space must exist.
    unsafe fn field(&self, field: Field, count: usize) -> c_int {
        let mut bytes = [0; LONGEST];
        let Some(bytes) = bytes.get_mut(..field.length) else {
            return fail(libc::EINVAL);
        };
        if !device::read(self.device, field.at, bytes) {
            return fail(libc::ENODEV);
        }
        // SAFETY: by the caller's contract.
        match unsafe { self.bytes(bytes) } {
            0 => c_int::try_from(count.min(self.room)).unwrap_or(0),
            failed => failed,
        }
    }

    /// Answers with a string and its terminating zero.
    ///
    /// # Safety
    /// The space must exist.
    unsafe fn text(&self, field: Field) -> c_int {
        let mut bytes = [0; LONGEST];
        let Some(bytes) = bytes.get_mut(..field.length) else {
            return fail(libc::EINVAL);
        };
        if !device::read(self.device, field.at, bytes) {
            return fail(libc::ENODEV);
        }
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(0) + 1;
        // SAFETY: by the caller's contract.
        match unsafe { self.bytes(bytes.get(..end).unwrap_or_default()) } {
            0 => c_int::try_from(end.min(self.room)).unwrap_or(0),
            failed => failed,
        }
    }

    /// Answers with `count` zeros.
    ///
    /// # Safety
    /// The space must exist.
    unsafe fn nothing(&self, count: usize) -> c_int {
        let zeros = [0; 8];
        // SAFETY: by the caller's contract.
        match unsafe { self.bytes(zeros.get(..count).unwrap_or_default()) } {
            0 => c_int::try_from(count.min(self.room)).unwrap_or(0),
            failed => failed,
        }
    }
}

/// The longest field that is answered in one piece.
const LONGEST: usize = 96;
const _: () = assert!(NAME.length <= LONGEST && KEY_CNT / 8 <= LONGEST && AXIS <= LONGEST);
const _: () = assert!(EV_CNT <= 0x20);

/// # Safety
/// `effect` must be null or have this many bytes.
unsafe fn upload(fd: c_int, device: u32, effect: *mut u8, room: usize) -> c_int {
    if effect.is_null() || room < EFFECT {
        return fail(libc::EINVAL);
    }
    // SAFETY: all offsets in use are within the structure.
    let half = |at: usize| unsafe { effect.add(at).cast::<u16>().read_unaligned() };
    if half(0) != FF_RUMBLE {
        return fail(libc::EINVAL);
    }
    let Some(in_use) = IN_USE.get(usize::try_from(device).unwrap_or(usize::MAX)) else {
        return fail(libc::ENODEV);
    };
    let id = match half(2).cast_signed() {
        -1 => free(in_use),
        id => match u32::try_from(id) {
            Ok(id) if id < MAX_EFFECTS => id,
            _ => return fail(libc::EINVAL),
        },
    };
    let wanted = Effect {
        length: half(10),
        delay: half(12),
        strong: half(16),
        weak: half(18),
    };
    let number = u16::try_from(id).unwrap_or(0);
    let asked = device::notify(fd, Request::Upload(number, wanted));
    if asked == 0 {
        // SAFETY: the offset is within the structure.
        unsafe { effect.add(2).cast::<u16>().write_unaligned(number) };
    }
    asked
}

/// Returns the lowest unused number. If all numbers are in use, frees all first.
fn free(in_use: &AtomicU32) -> u32 {
    let mut bits = in_use.load(Ordering::Relaxed);
    loop {
        let lowest = bits.trailing_ones();
        let (id, next) = match lowest < MAX_EFFECTS {
            true => (lowest, bits | 1 << lowest),
            false => (0, 1),
        };
        match in_use.compare_exchange_weak(bits, next, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return id,
            Err(now) => bits = now,
        }
    }
}

fn erase(fd: c_int, device: u32, id: usize) -> c_int {
    let number = u16::try_from(id)
        .ok()
        .filter(|id| u32::from(*id) < MAX_EFFECTS);
    let in_use = IN_USE.get(usize::try_from(device).unwrap_or(usize::MAX));
    let (Some(number), Some(in_use)) = (number, in_use) else {
        return fail(libc::EINVAL);
    };
    in_use.fetch_and(!(1 << number), Ordering::Relaxed);
    device::notify(fd, Request::Erase(number))
}

/// # Safety
/// `clock` must be null or point to a number.
unsafe fn clock(fd: c_int, clock: *const c_int) -> c_int {
    if clock.is_null() {
        return fail(libc::EFAULT);
    }
    // SAFETY: by the caller's contract.
    match unsafe { clock.read_unaligned() } {
        clock @ (libc::CLOCK_REALTIME | libc::CLOCK_MONOTONIC | libc::CLOCK_BOOTTIME) => {
            device::notify(fd, Request::Clock(clock))
        }
        _ => fail(libc::EINVAL),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_effects_are_given_out_lowest_first() {
        let in_use = AtomicU32::new(0b1011);
        assert_eq!((free(&in_use), free(&in_use)), (2, 4));
        in_use.store(0xffff, Ordering::Relaxed);
        assert_eq!((free(&in_use), free(&in_use)), (0, 1));
    }
}
