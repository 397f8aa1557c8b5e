//! What a host and a MUD are told in one structure, instead of feature by feature.

use std::ffi::{c_char, c_int, c_void};

use crate::enums::{OPENUVR_ENCODER_TYPE, OPENUVR_INPUT_TO, OPENUVR_NETWORK_TYPE, OPENUVR_SURFACE};
use crate::ffi::{Sized32, plain, write};
use crate::input::openuvr_input;
use crate::log::openuvr_log_callback;
use crate::picture::{OPENUVR_PIXEL_FORMAT, openuvr_picture};
use crate::sound_choice::OPENUVR_SOUND;

/// What a host is told. Let `openuvr_config_default` fill it, then change what you want. The texts
/// are copied by `openuvr_open`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct openuvr_config {
    /// Bytes of this structure.
    pub size: u32,
    /// An `OPENUVR_ENCODER_TYPE`.
    pub encoder: u32,
    /// An `OPENUVR_NETWORK_TYPE`.
    pub network: u32,
    /// Pixels per row of the first picture, and of the pixel buffer; 1920 by default.
    pub width: u32,
    /// Rows; 1080 by default.
    pub height: u32,
    /// How the pixel buffer's bytes are to be read, an `OPENUVR_PIXEL_FORMAT`.
    pub format: u32,
    /// Bytes from a row of the pixel buffer to the next; 0: the least that holds a row and is a
    /// multiple of 4.
    pub stride: u32,
    /// 1: threads ask for real-time scheduling, the default; 0: they do not.
    pub realtime: u32,
    /// A `GLuint` that names a pixel buffer object, or NULL: pictures come by
    /// `openuvr_send_picture`. It is read whenever a picture is given, so it must stay where it is.
    pub pixel_buffer: *const c_void,
    /// Most frames a second, 1 to 240.
    pub fps: f64,
    /// Most bits a second that the video takes, 100000 to 1000000000; 0: what the encoder needs.
    pub bitrate: u64,
    /// This host's name at its MUDs; NULL: the machine's.
    pub name: *const c_char,
    /// Where MUDs reach it, `ADDRESS:PORT`; NULL: `[::]:4710`, every address of the machine.
    pub bind: *const c_char,
    /// The folder of keys and known devices; NULL: `$XDG_CONFIG_HOME/openuvr` or `~/.config/openuvr`.
    pub config_dir: *const c_char,
    /// Lets in a new device that knows this PIN, 4 to 12 digits; NULL: see `pair`.
    pub pin: *const c_char,
    /// 1: lets in a new device with a random PIN (`openuvr_pin` tells it); 0: only if none is known.
    pub pair: u32,
    /// How long it does, in seconds; 120 by default.
    pub pair_seconds: u32,
    /// What a second player gets. 0: nothing; 1: it may watch, the default; 2: the player's role.
    pub second_player: u32,
    /// Most MUDs that only watch, 0 to 64; 8 by default.
    pub max_observers: u32,
    /// Parts of a picture, each sent as soon as it is encoded, 1 to 64; 8 by default.
    pub slices: u32,
    /// Threads of the encoder, 1 to 64; 0: as suits the machine.
    pub encoder_threads: u32,
    /// Where the player's input goes, an `OPENUVR_INPUT_TO`.
    pub input: u32,
    /// 1: each MUD gets an encoder of its own, whose rate follows that MUD's link; 0: all get the same
    /// frames, the default.
    pub each_its_own: u32,
    /// The X display for `OPENUVR_INPUT_TO_DISPLAY`; NULL: `$DISPLAY`.
    pub display: *const c_char,
    /// Given to the callbacks below as it is.
    pub user: *mut c_void,
    /// Is told what happens in words; NULL: nobody.
    pub log: openuvr_log_callback,
    /// Takes the player's input, one event at a time, on a thread of the library that does nothing
    /// else; then `openuvr_next_input` has none. NULL: it has. The event is valid until it returns.
    /// It must not close this context.
    pub on_input: Option<unsafe extern "C" fn(user: *mut c_void, input: *const openuvr_input)>,
    /// A file to write a row into for each frame and MUD, when each stage happened and how it ended,
    /// the same as `openuvr host --csv`; NULL: none.
    pub csv: *const c_char,
    /// 1: MUDs hear what `openuvr_send_sound` gives, which needs libopus; 0: nothing, the default.
    pub sound: u32,
    /// The path of a socket, which is made, by which the program `openuvr gateway` lets browsers and video
    /// players in, or records: none of that runs in this process. NULL: none. Any program of this user may
    /// connect.
    pub gateway: *const c_char,
}

// SAFETY: `repr(C)`; numbers, pointers and functions that may be absent.
unsafe impl Sized32 for openuvr_config {}

impl Default for openuvr_config {
    fn default() -> openuvr_config {
        openuvr_config {
            size: crate::size_of32::<openuvr_config>(),
            encoder: OPENUVR_ENCODER_TYPE::OPENUVR_ENCODER_H264 as u32,
            network: OPENUVR_NETWORK_TYPE::OPENUVR_NETWORK_ANY as u32,
            // The paper's listing.
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
            each_its_own: 0,
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

/// Fills a configuration, whose `size` the caller has set to `sizeof(struct openuvr_config)`, with
/// what a host does unless told otherwise. From any thread.
///
/// # Safety
/// `config` is NULL or writable for as many bytes as its size says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_config_default(config: *mut openuvr_config) -> c_int {
    // SAFETY: the caller has promised this function the same.
    plain(|| unsafe { write(config, &openuvr_config::default(), "the configuration") })
}

/// What a MUD is told. Let `openuvr_mud_config_default` fill it, then change what you want. The texts
/// are copied by `openuvr_open_mud`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct openuvr_mud_config {
    /// Bytes of this structure.
    pub size: u32,
    /// What decodes, an `OPENUVR_ENCODER_TYPE`.
    pub decoder: u32,
    /// An `OPENUVR_NETWORK_TYPE`.
    pub network: u32,
    /// Where pictures go, an `OPENUVR_SURFACE`.
    pub surface: u32,
    /// The host, `NAME`, `ADDRESS` or `IFACE/MAC`, with `:PORT` if that isn't 4710; an IPv6 address
    /// with a port needs brackets.
    pub host: *const c_char,
    /// The PIN that it shows, for the first meeting; NULL: they have met.
    pub pin: *const c_char,
    /// The folder of keys and known hosts; NULL: `$XDG_CONFIG_HOME/openuvr` or `~/.config/openuvr`.
    pub config_dir: *const c_char,
    /// This MUD's name at the host; NULL: the machine's.
    pub name: *const c_char,
    /// 1: only watch; 0: play.
    pub observe: u32,
    /// 1: take the player's role from whoever has it, if the host allows it.
    pub take_over: u32,
    /// 1: look for a lost host again, the default.
    pub reconnect: u32,
    /// 1: threads ask for real-time scheduling, the default.
    pub realtime: u32,
    /// The X display of the window; NULL: `$DISPLAY`.
    pub display: *const c_char,
    /// The window's pixels per row at the start; 0: as many as the picture has.
    pub width: u32,
    /// Its rows; 0: as many as the picture has.
    pub height: u32,
    /// 1: cover the whole screen.
    pub full_screen: u32,
    /// 1: keep the mouse in the window and send how far it moves.
    pub grab: u32,
    /// 1: show figures of the latency over the picture.
    pub overlay: u32,
    /// 1: pair with the host by the PIN although they have met; it may have a new key then.
    pub pair_again: u32,
    /// The most bits per second of video that this player wants; 0: as many as the host allows.
    pub max_bitrate: u64,
    /// The most pixels per row that this player wants, with `max_height`: a larger picture is made
    /// smaller at the host, in its shape; 0 and 0: pictures as they are.
    pub max_width: u32,
    /// The most rows.
    pub max_height: u32,
    /// Given to the callbacks below as it is.
    pub user: *mut c_void,
    /// Is told what happens in words; NULL: nobody.
    pub log: openuvr_log_callback,
    /// With `OPENUVR_SURFACE_APPLICATION`: is given each picture, BGRX without gaps, on the thread
    /// that decodes: until it returns, nothing is decoded. Then `openuvr_next_frame` has none. NULL:
    /// it has. The picture is valid until it returns. It must not close this context.
    pub on_frame: Option<unsafe extern "C" fn(user: *mut c_void, picture: *const openuvr_picture)>,
    /// Where the host's sound goes, an `OPENUVR_SOUND`; nowhere by default.
    pub sound: u32,
}

// SAFETY: `repr(C)`; numbers, pointers and functions that may be absent.
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

/// Fills a configuration, whose `size` the caller has set to `sizeof(struct openuvr_mud_config)`,
/// with what a MUD does unless told otherwise. From any thread.
///
/// # Safety
/// `config` is NULL or writable for as many bytes as its size says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_mud_config_default(config: *mut openuvr_mud_config) -> c_int {
    // SAFETY: the caller has promised this function the same.
    plain(|| unsafe { write(config, &openuvr_mud_config::default(), "the configuration") })
}
