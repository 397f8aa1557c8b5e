//! The configuration structures of a host and a MUD.

use std::ffi::{c_char, c_int, c_void};

use crate::enums::{OPENUVR_ENCODER_TYPE, OPENUVR_INPUT_TO, OPENUVR_NETWORK_TYPE, OPENUVR_SURFACE};
use crate::ffi::{Sized32, plain, write};
use crate::input::openuvr_input;
use crate::log::openuvr_log_callback;
use crate::picture::{OPENUVR_PIXEL_FORMAT, openuvr_picture};
use crate::sound_choice::OPENUVR_SOUND;

/// The configuration of a host. Initialize it with `openuvr_config_default`, then change fields.
/// `openuvr_open` copies the strings.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct openuvr_config {
    /// Bytes of this structure.
    pub size: u32,
    /// An `OPENUVR_ENCODER_TYPE`.
    pub encoder: u32,
    /// An `OPENUVR_NETWORK_TYPE`.
    pub network: u32,
    /// Width in pixels of the first picture, and of the pixel buffer; 1920 by default.
    pub width: u32,
    /// Height in pixels; 1080 by default.
    pub height: u32,
    /// The pixel format of the pixel buffer, an `OPENUVR_PIXEL_FORMAT`.
    pub format: u32,
    /// Bytes from the start of a row of the pixel buffer to the start of the next; 0: the row size, rounded up to a multiple
    /// of 4.
    pub stride: u32,
    /// 1: threads request real-time scheduling, the default; 0: they do not.
    pub realtime: u32,
    /// A pointer to the `GLuint` name of a pixel buffer object, or NULL if pictures are sent with
    /// `openuvr_send_picture`. It is read for each picture, so it must stay valid.
    pub pixel_buffer: *const c_void,
    /// Maximum frames per second, 1 to 240.
    pub fps: f64,
    /// Maximum video bitrate in bit/s, 100000 to 1000000000; 0: the encoder's default.
    pub bitrate: u64,
    /// The name of this host that its MUDs show; NULL: the machine's name.
    pub name: *const c_char,
    /// The listening address, `ADDRESS:PORT`; NULL: `[::]:4710`, all addresses of the machine.
    pub bind: *const c_char,
    /// The configuration folder, with keys and paired devices; NULL: `$XDG_CONFIG_HOME/openuvr` or `~/.config/openuvr`.
    pub config_dir: *const c_char,
    /// Opens pairing with this PIN, 4 to 12 digits; NULL: see `pair`.
    pub pin: *const c_char,
    /// 1: opens pairing with a random PIN (see `openuvr_pin`); 0: only if no device is paired.
    pub pair: u32,
    /// How long pairing stays open, in seconds, at least 1; 120 by default.
    pub pair_seconds: u32,
    /// The policy for a second player. 0: refuse; 1: observer, the default; 2: take over the player's role.
    pub second_player: u32,
    /// Maximum number of observers, 0 to 64; 8 by default.
    pub max_observers: u32,
    /// Slices per picture, 1 to 64; 8 by default. Each slice is sent as soon as it is encoded, if the encoder permits
    /// it.
    pub slices: u32,
    /// Encoder threads, 1 to 64; 0: depending on the machine.
    pub encoder_threads: u32,
    /// The target of the player's input, an `OPENUVR_INPUT_TO`.
    pub input: u32,
    /// 1: a separate encoder for each MUD, with rate control for its link; 0: all get the same frames, the
    /// default.
    pub encoder_per_client: u32,
    /// The X display for `OPENUVR_INPUT_TO_DISPLAY`; NULL: `$DISPLAY`.
    pub display: *const c_char,
    /// Passed to the callbacks.
    pub user: *mut c_void,
    /// The callback for log lines; NULL: none.
    pub log: openuvr_log_callback,
    /// The callback for the player's input, one event per call, on a dedicated thread of the library. With a callback,
    /// `openuvr_next_input` is unavailable. NULL: no callback; use `openuvr_next_input`. The event is valid until the
    /// callback returns. The callback must not close this context. For `openuvr_begin_frame`, an event counts as
    /// retrieved when the callback returns, or when the callback itself begins or submits a picture.
    pub on_input: Option<unsafe extern "C" fn(user: *mut c_void, input: *const openuvr_input)>,
    /// A CSV file with a row for each frame and MUD (times of all stages, and the result), like that of `openuvr host
    /// --csv`; NULL: none.
    pub csv: *const c_char,
    /// 1: sound from `openuvr_send_sound`, which requires libopus; 0: no sound, the default.
    pub sound: u32,
    /// The path of a socket to create. The program `openuvr gateway` connects to it and serves browsers and video players,
    /// or records, in its own process. NULL: none. Any program of this user may connect.
    pub gateway: *const c_char,
}

// SAFETY: the type is `repr(C)`, with only numbers, pointers and optional functions, so every bit pattern is valid.
unsafe impl Sized32 for openuvr_config {}

impl Default for openuvr_config {
    fn default() -> openuvr_config {
        openuvr_config {
            size: crate::size_of32::<openuvr_config>(),
            encoder: OPENUVR_ENCODER_TYPE::OPENUVR_ENCODER_H264 as u32,
            network: OPENUVR_NETWORK_TYPE::OPENUVR_NETWORK_ANY as u32,
            // The size in the listing of the OpenUVR paper.
            width: 1920,
            height: 1080,
            format: OPENUVR_PIXEL_FORMAT::OPENUVR_PIXEL_FORMAT_RGB as u32,
            stride: 0,
            realtime: 1,
            pixel_buffer: std::ptr::null(),
            fps: 60.0,
            bitrate: 0,
            name: std::ptr::null(),
            bind: std::ptr::null(),
            config_dir: std::ptr::null(),
            pin: std::ptr::null(),
            pair: 0,
            pair_seconds: 120,
            second_player: 1,
            max_observers: 8,
            slices: 8,
            encoder_threads: 0,
            input: OPENUVR_INPUT_TO::OPENUVR_INPUT_TO_APPLICATION as u32,
            encoder_per_client: 0,
            display: std::ptr::null(),
            user: std::ptr::null_mut(),
            log: None,
            on_input: None,
            csv: std::ptr::null(),
            sound: 0,
            gateway: std::ptr::null(),
        }
    }
}

/// Fills a host's configuration with the defaults. Set its `size` first, to
/// `sizeof(struct openuvr_config)`. From any thread.
///
/// # Safety
/// `config` is NULL or writable for its `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_config_default(config: *mut openuvr_config) -> c_int {
    // SAFETY: the caller upholds this function's requirements, which include those of the called function.
    plain(|| unsafe { write(config, &openuvr_config::default(), "the configuration") })
}

/// The configuration of a MUD. Initialize it with `openuvr_mud_config_default`, then change fields.
/// `openuvr_open_mud` copies the strings.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct openuvr_mud_config {
    /// Bytes of this structure.
    pub size: u32,
    /// The decoder, an `OPENUVR_ENCODER_TYPE`.
    pub decoder: u32,
    /// An `OPENUVR_NETWORK_TYPE`.
    pub network: u32,
    /// The target of pictures, an `OPENUVR_SURFACE`.
    pub surface: u32,
    /// The host: `NAME`, `ADDRESS` or `IFACE/MAC`, with `:PORT` unless it is 4710; an IPv6 address with a port needs
    /// brackets.
    pub host: *const c_char,
    /// The PIN that the host shows, for pairing; NULL: already paired.
    pub pin: *const c_char,
    /// The configuration folder, with keys and paired hosts; NULL: `$XDG_CONFIG_HOME/openuvr` or `~/.config/openuvr`.
    pub config_dir: *const c_char,
    /// The name of this MUD that the host shows; NULL: the machine's name.
    pub name: *const c_char,
    /// 1: join as an observer; 0: as a player.
    pub observe: u32,
    /// 1: take over the player's role, if the host allows it.
    pub take_over: u32,
    /// 1: reconnect to a lost host, the default.
    pub reconnect: u32,
    /// 1: threads request real-time scheduling, the default.
    pub realtime: u32,
    /// The X display of the window; NULL: `$DISPLAY`.
    pub display: *const c_char,
    /// The initial width of the window in pixels; 0: the picture's width.
    pub width: u32,
    /// The initial height of the window in pixels; 0: the picture's height.
    pub height: u32,
    /// 1: full screen.
    pub full_screen: u32,
    /// 1: grab the mouse and send relative motion.
    pub grab: u32,
    /// 1: show latency statistics over the picture.
    pub overlay: u32,
    /// 1: pair with the PIN even if already paired, for a host that may have a new key.
    pub pair_again: u32,
    /// The maximum video bitrate in bit/s that this player requests; 0: the host's limit.
    pub max_bitrate: u64,
    /// The maximum picture width that this player requests, with `max_height`. The host scales a larger picture down and
    /// keeps its aspect ratio. 0 and 0: no limit.
    pub max_width: u32,
    /// The maximum height.
    pub max_height: u32,
    /// Passed to the callbacks.
    pub user: *mut c_void,
    /// The callback for log lines; NULL: none.
    pub log: openuvr_log_callback,
    /// The callback for pictures, with `OPENUVR_SURFACE_APPLICATION`: BGRX without row padding. It runs on the
    /// decoder's thread, so the decoder waits for it. With a callback, `openuvr_next_frame` is unavailable. NULL: no
    /// callback; use `openuvr_next_frame`. The picture is valid until the callback returns. The callback must not close
    /// this context.
    pub on_frame: Option<unsafe extern "C" fn(user: *mut c_void, picture: *const openuvr_picture)>,
    /// The target of the host's sound, an `OPENUVR_SOUND`; none by default.
    pub sound: u32,
}

// SAFETY: the type is `repr(C)`, with only numbers, pointers and optional functions, so every bit pattern is valid.
unsafe impl Sized32 for openuvr_mud_config {}

impl Default for openuvr_mud_config {
    fn default() -> openuvr_mud_config {
        openuvr_mud_config {
            size: crate::size_of32::<openuvr_mud_config>(),
            decoder: OPENUVR_ENCODER_TYPE::OPENUVR_ENCODER_H264 as u32,
            network: OPENUVR_NETWORK_TYPE::OPENUVR_NETWORK_ANY as u32,
            surface: OPENUVR_SURFACE::OPENUVR_SURFACE_WINDOW as u32,
            host: std::ptr::null(),
            pin: std::ptr::null(),
            config_dir: std::ptr::null(),
            name: std::ptr::null(),
            observe: 0,
            take_over: 0,
            reconnect: 1,
            realtime: 1,
            display: std::ptr::null(),
            width: 0,
            height: 0,
            full_screen: 0,
            grab: 0,
            overlay: 0,
            pair_again: 0,
            max_bitrate: 0,
            max_width: 0,
            max_height: 0,
            user: std::ptr::null_mut(),
            log: None,
            on_frame: None,
            sound: OPENUVR_SOUND::OPENUVR_SOUND_NOWHERE as u32,
        }
    }
}

/// Fills a MUD's configuration with the defaults. Set its `size` first, to
/// `sizeof(struct openuvr_mud_config)`. From any thread.
///
/// # Safety
/// `config` is NULL or writable for its `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_mud_config_default(config: *mut openuvr_mud_config) -> c_int {
    // SAFETY: the caller upholds this function's requirements, which include those of the called function.
    plain(|| unsafe { write(config, &openuvr_mud_config::default(), "the configuration") })
}
