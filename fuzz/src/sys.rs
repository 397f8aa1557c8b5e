//! Calls of the C API of `libopenuvr`, as from a careless C program. Configurations and structures consist of arbitrary
//! bytes, except that their pointers are valid or NULL. Features (except that of the encoder) and numbers are
//! arbitrary, and functions are called in any order. Each call must return, and must not report that it caught a panic.

use std::ffi::{CString, c_char, c_int};
use std::ptr::{null, null_mut};

use openuvr::features::*;
use openuvr::host::*;
use openuvr::mud::*;
use openuvr::submit::*;
use openuvr::{
    OPENUVR_ERROR, openuvr_config, openuvr_error_text, openuvr_input, openuvr_mud_config,
    openuvr_picture, openuvr_pose, openuvr_statistics,
};

use crate::Draw;

/// The encoder that needs no library. It is fast and works the same on every machine.
const RGB: u32 = 3;

/// Texts to which a configuration points.
struct Texts(Vec<CString>);

impl Texts {
    fn draw(from: &mut Draw, count: usize) -> Texts {
        let text = |_| {
            let len = usize::from(from.u8()) % 24;
            let bytes: Vec<u8> = from.take(len).iter().copied().filter(|b| *b != 0).collect();
            CString::new(bytes).unwrap_or_default()
        };
        Texts((0..count).map(text).collect())
    }

    /// The text with index `at`, or NULL.
    fn get(&self, at: usize, from: &mut Draw) -> *const c_char {
        match from.u8() % 3 {
            0 => null(),
            _ => self.0[at].as_ptr(),
        }
    }
}

/// The structure `usual`, with some of its first bytes replaced by bytes of the input.
fn structure<T: Copy>(from: &mut Draw, mut usual: T) -> T {
    let len = usize::from(from.u16()) % (size_of::<T>() + 1);
    let bytes = from.take(len);
    // SAFETY: `T` is a structure of the C API, and any bytes are valid for its fields. The caller sets pointers and
    // functions before the structure is used.
    unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), (&raw mut usual).cast::<u8>(), bytes.len());
    }
    usual
}

/// A value for the size field, which is valid in most cases.
fn size<T>(from: &mut Draw) -> u32 {
    match from.u8() {
        // The value never exceeds the real size, because the caller of the API must guarantee that.
        say @ 0..=15 => u32::from(say) * size_of::<T>() as u32 / 16,
        _ => size_of::<T>() as u32,
    }
}

/// Checks a result code. A negative code is an error that has a text and is not a caught panic.
fn sound(code: c_int) -> c_int {
    assert_ne!(code, OPENUVR_ERROR::OPENUVR_ERROR_PANIC as c_int);
    assert!((-11..=1).contains(&code), "{code}");
    assert!(!openuvr_error_text(code).is_null());
    code
}

pub(crate) fn host(bytes: &[u8]) {
    let mut draw = Draw(bytes);
    let from = &mut draw;
    let texts = Texts::draw(from, 5);
    let mut config = structure(from, openuvr_config::default());
    config.size = size::<openuvr_config>(from);
    if from.u8() % 4 != 0 {
        config = openuvr_config::default();
    }
    config.encoder = if from.u8() % 8 == 0 { from.u32() } else { RGB };
    // Do not use the other encoders, some of which probe hardware.
    if (1..=16).contains(&config.encoder) {
        config.encoder = RGB;
    }
    config.pixel_buffer = null();
    (config.log, config.on_input) = (None, None);
    config.name = texts.get(0, from);
    config.bind = texts.get(1, from);
    config.config_dir = texts.get(2, from);
    config.pin = texts.get(3, from);
    config.display = texts.get(4, from);
    let mut context = null_mut();
    let mut why = [0x55; 40];
    // SAFETY: the pointers are valid, and no structure is shorter than its size field.
    unsafe {
        let code = sound(openuvr_open(
            &config,
            &mut context,
            why.as_mut_ptr(),
            why.len(),
        ));
        assert_eq!(code < 0, context.is_null());
        assert!(
            code == 0 || why.contains(&0),
            "the error text is terminated"
        );
        while !from.is_empty() {
            let context = if from.u8() % 32 == 0 {
                null_mut()
            } else {
                context
            };
            match from.u8() % 12 {
                0..=4 => {
                    let (feature, value) = (u32::from(from.u8()) % 16, from.u32() as c_int);
                    // Skip the feature that sets the encoder, because it may need hardware.
                    if feature != 12 {
                        sound(openuvr_set_feature(context, feature, value));
                    }
                }
                5 => {
                    sound(openuvr_map_input_device(context, from.u16().into(), -1));
                }
                6 => {
                    let mut picture = structure(from, openuvr_picture::default());
                    picture.size = size::<openuvr_picture>(from);
                    (picture.data, picture.release, picture.user) = (null(), None, null_mut());
                    sound(openuvr_send_picture(context, &picture, 0));
                }
                7 => {
                    let mut input = structure(from, openuvr_input::default());
                    input.size = size::<openuvr_input>(from);
                    sound(openuvr_next_input(context, &mut input));
                }
                8 => {
                    let mut statistics = std::mem::zeroed::<openuvr_statistics>();
                    statistics.size = size::<openuvr_statistics>(from);
                    sound(openuvr_statistics(context, &mut statistics));
                }
                9 => {
                    let mut text = [0x55; 16];
                    let room = usize::from(from.u8() % 17);
                    if sound(openuvr_last_error(context, text.as_mut_ptr(), room)) == 0 {
                        assert!(text[..room].contains(&0));
                    }
                    assert!(
                        text[room..].iter().all(|b| *b == 0x55),
                        "the text exceeds its buffer"
                    );
                }
                10 => {
                    let pin = texts.get(3, from);
                    sound(openuvr_open_pairing(context, pin, from.u32()));
                }
                _ => {
                    let none = null_mut();
                    sound(openuvr_init_mud_thread(none));
                    // `openuvr_init_mud_thread` does not accept the context of a host.
                    sound(openuvr_init_mud_thread(context.cast()));
                }
            }
        }
        openuvr_close(&mut context);
        assert!(context.is_null());
        openuvr_close(&mut context);
    }
}

pub(crate) fn mud(bytes: &[u8]) {
    let mut draw = Draw(bytes);
    let from = &mut draw;
    let texts = Texts::draw(from, 5);
    let mut config = structure(from, openuvr_mud_config::default());
    config.size = size::<openuvr_mud_config>(from);
    config.decoder = if from.u8() % 8 == 0 { from.u32() } else { RGB };
    if (1..=16).contains(&config.decoder) {
        config.decoder = RGB;
    }
    (config.log, config.on_frame) = (None, None);
    config.host = texts.get(0, from);
    config.pin = texts.get(1, from);
    config.config_dir = texts.get(2, from);
    config.name = texts.get(3, from);
    config.display = texts.get(4, from);
    let mut context = null_mut();
    // SAFETY: the pointers are valid, and no structure is shorter than its size field.
    unsafe {
        let code = sound(openuvr_open_mud(&config, &mut context, null_mut(), 0));
        assert_eq!(code < 0, context.is_null());
        while !from.is_empty() {
            match from.u8() % 5 {
                0 => {
                    let (host, pin) = (texts.get(0, from), texts.get(1, from));
                    sound(openuvr_set_host(context, host, pin));
                }
                1 => {
                    let mut input = structure(from, openuvr_input::default());
                    input.size = size::<openuvr_input>(from);
                    sound(openuvr_send_input(context, &input));
                }
                2 => {
                    let mut pose = structure(from, openuvr_pose::default());
                    pose.size = size::<openuvr_pose>(from);
                    sound(openuvr_send_pose(context, &pose));
                }
                3 => {
                    let mut picture = openuvr_picture::default();
                    picture.size = size::<openuvr_picture>(from);
                    sound(openuvr_next_frame(context, &mut picture, 0));
                }
                _ => {
                    let id = from.u16().into();
                    sound(openuvr_register_input_device(context, id, -1));
                }
            }
        }
        openuvr_close_mud(&mut context);
        assert!(context.is_null());
    }
}
