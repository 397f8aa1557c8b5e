//! libavcodec and libavutil, loaded at run time. Distributions have different major versions, so there are no bindings.
//! Options are set by name. Only the first fields of each structure are declared; all supported major versions have
//! them. The modules of `encode` and `decode` use the codecs.

pub(crate) mod hardware;

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::sync::Arc;

use self::hardware::HardwareFunctions;

/// Majors of libavcodec and the matching libavutil, newest first: Debian 11 to 13, Ubuntu 22.04 and
/// 24.04, FFmpeg 4.x to 8.x.
const MAJORS: [(c_uint, c_uint); 5] = [(62, 60), (61, 59), (60, 58), (59, 57), (58, 56)];

const AV_OPT_SEARCH_CHILDREN: c_int = 1;
const AV_LOG_QUIET: c_int = -8;
pub(crate) const EAGAIN: c_int = -libc::EAGAIN;

/// The first fields of `AVPacket`: tested with libavcodec 59 to 61. According to FFmpeg's history, 58 and 62 have the
/// same layout; this is not tested.
#[repr(C)]
pub(crate) struct AvPacket {
    pub(crate) buf: *mut c_void,
    pub(crate) pts: i64,
    _dts: i64,
    pub(crate) data: *mut u8,
    pub(crate) size: c_int,
}

/// The first fields of `AVFrame` on 64-bit machines: tested with libavutil 57 to 59. According to FFmpeg's history, 56
/// and 60 have the same layout; this is not tested. Version 60 has removed `key_frame`, but because of alignment, `pts`
/// has the same offset with and without it. Every picture's `pts` is compared with the frame's id. A different layout
/// therefore results in a missing picture, not in wrong pixels.
#[repr(C)]
pub(crate) struct AvFrame {
    pub(crate) data: [*mut u8; 8],
    pub(crate) linesize: [c_int; 8],
    _extended_data: *mut c_void,
    pub(crate) width: c_int,
    pub(crate) height: c_int,
    _nb_samples: c_int,
    pub(crate) format: c_int,
    /// `key_frame` (if present), `pict_type` and `sample_aspect_ratio`.
    pub(crate) kind: [c_int; 4],
    pub(crate) pts: i64,
}

#[cfg(not(target_pointer_width = "64"))]
compile_error!("AVFrame's layout is only verified for 64-bit machines: check it for this one");
const _: () = assert!(std::mem::offset_of!(AvFrame, pts) == 136);

/// The first fields of `AVCodec`, as for [`AvPacket`].
#[repr(C)]
pub(crate) struct AvCodec {
    _name: *const c_char,
    _long_name: *const c_char,
    _kind: c_int,
    pub(crate) id: c_int,
}

#[cfg(feature = "host")]
pub(crate) enum AvCodecParameters {}

/// The first fields of `AVCodecContext`, as for [`AvPacket`].
#[repr(C)]
pub(crate) struct AvCodecContext {
    _front: [*mut c_void; 6],
    /// The owner's data, which the library does not use.
    #[cfg(feature = "client")]
    pub(crate) opaque: *mut c_void,
}

/// The first field of `AVCodecHWConfig`, as for [`AvPacket`].
#[cfg(feature = "client")]
#[repr(C)]
struct AvCodecHwConfig {
    format: c_int,
}

/// Called by a decoder when more rows of a picture are final: context, picture, offsets of these
/// rows in its planes (bytes), first row, picture structure, and number of rows.
#[cfg(feature = "client")]
pub(crate) type RowsAreFinal =
    unsafe extern "C" fn(*mut AvCodecContext, *const AvFrame, *const c_int, c_int, c_int, c_int);

/// The functions of both libraries that this crate uses.
pub(crate) struct Functions {
    pub(crate) find_decoder: unsafe extern "C" fn(*const c_char) -> *const AvCodec,
    pub(crate) send_packet: unsafe extern "C" fn(*mut AvCodecContext, *const AvPacket) -> c_int,
    pub(crate) receive_frame: unsafe extern "C" fn(*mut AvCodecContext, *mut AvFrame) -> c_int,
    pub(crate) new_packet: unsafe extern "C" fn(*mut AvPacket, c_int) -> c_int,
    #[cfg(feature = "client")]
    pub(crate) frame_ref: unsafe extern "C" fn(*mut AvFrame, *const AvFrame) -> c_int,
    pub(crate) frame_unref: unsafe extern "C" fn(*mut AvFrame),
    #[cfg(feature = "client")]
    pub(crate) buffer_is_writable: unsafe extern "C" fn(*const c_void) -> c_int,
    #[cfg(feature = "client")]
    hardware_config: unsafe extern "C" fn(*const AvCodec, c_int) -> *const AvCodecHwConfig,
    /// The default of `get_format`. Only its address is used, by [`Functions::report_rows`].
    #[cfg(feature = "client")]
    default_format: usize,
    #[cfg(feature = "host")]
    pub(crate) find_encoder: unsafe extern "C" fn(*const c_char) -> *const AvCodec,
    #[cfg(feature = "host")]
    pub(crate) send_frame: unsafe extern "C" fn(*mut AvCodecContext, *const AvFrame) -> c_int,
    #[cfg(feature = "host")]
    pub(crate) receive_packet: unsafe extern "C" fn(*mut AvCodecContext, *mut AvPacket) -> c_int,
    #[cfg(feature = "host")]
    pub(crate) frame_buffer: unsafe extern "C" fn(*mut AvFrame, c_int) -> c_int,
    #[cfg(feature = "host")]
    pub(crate) frame_writable: unsafe extern "C" fn(*mut AvFrame) -> c_int,
    #[cfg(feature = "host")]
    pub(crate) sample_format: unsafe extern "C" fn(*const c_char) -> c_int,
    #[cfg(feature = "host")]
    pub(crate) parameters_alloc: unsafe extern "C" fn() -> *mut AvCodecParameters,
    #[cfg(feature = "host")]
    pub(crate) parameters_free: unsafe extern "C" fn(*mut *mut AvCodecParameters),
    #[cfg(feature = "host")]
    pub(crate) parameters_from_context:
        unsafe extern "C" fn(*mut AvCodecParameters, *const AvCodecContext) -> c_int,
    #[cfg(feature = "host")]
    pub(crate) parameters_to_context:
        unsafe extern "C" fn(*mut AvCodecContext, *const AvCodecParameters) -> c_int,
    pub(crate) alloc_context: unsafe extern "C" fn(*const AvCodec) -> *mut AvCodecContext,
    pub(crate) free_context: unsafe extern "C" fn(*mut *mut AvCodecContext),
    pub(crate) open:
        unsafe extern "C" fn(*mut AvCodecContext, *const AvCodec, *mut c_void) -> c_int,
    pub(crate) packet_alloc: unsafe extern "C" fn() -> *mut AvPacket,
    pub(crate) packet_free: unsafe extern "C" fn(*mut *mut AvPacket),
    #[cfg(feature = "client")]
    pub(crate) packet_unref: unsafe extern "C" fn(*mut AvPacket),
    pub(crate) frame_alloc: unsafe extern "C" fn() -> *mut AvFrame,
    pub(crate) frame_free: unsafe extern "C" fn(*mut *mut AvFrame),
    pub(crate) pixel_format: unsafe extern "C" fn(*const c_char) -> c_int,
    opt_set: unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char, c_int) -> c_int,
    strerror: unsafe extern "C" fn(c_int, *mut c_char, usize) -> c_int,
    hardware: HardwareFunctions,
    /// The major versions of libavcodec and libavutil.
    pub(crate) avcodec: c_uint,
    #[cfg(feature = "host")]
    pub(crate) avutil: c_uint,
    /// Declared after the functions, which must not outlive them.
    _libraries: [libloading::Library; 2],
}

impl Functions {
    /// Loads the newest supported libavcodec that is installed.
    ///
    /// # Errors
    /// Returns a message with the supported versions, the versions found, and the package to install.
    pub(crate) fn load() -> Result<Arc<Functions>, String> {
        let mut refused = Vec::new();
        for (avcodec, avutil) in MAJORS {
            let names = [
                format!("libavcodec.so.{avcodec}"),
                format!("libavutil.so.{avutil}"),
            ];
            let ours = !is_loaded(&names[1]);
            // SAFETY: neither library has an initialiser with preconditions.
            let opened = unsafe {
                (
                    libloading::Library::new(&names[0]),
                    libloading::Library::new(&names[1]),
                )
            };
            let (Ok(codec), Ok(util)) = opened else {
                continue;
            };
            let found = [
                major(&codec, "avcodec_version"),
                major(&util, "avutil_version"),
            ];
            if found != [Some(avcodec), Some(avutil)] {
                refused.push(format!("{} is version {found:?}", names.join(" with ")));
                continue;
            }
            match Functions::symbols(codec, util, (avcodec, avutil), ours) {
                Ok(functions) => {
                    tracing::debug!(avcodec, avutil, "loaded libavcodec");
                    return Ok(Arc::new(functions));
                }
                Err(error) => refused.push(format!("{}: {error}", names[0])),
            }
        }
        let wanted: Vec<_> = MAJORS.iter().map(|(major, _)| major.to_string()).collect();
        refused.push("apt install ffmpeg".into());
        Err(format!(
            "no supported libavcodec with its libavutil is installed (supported major versions: {}): {}",
            wanted.join(", "),
            refused.join("; ")
        ))
    }

    fn symbols(
        codec: libloading::Library,
        util: libloading::Library,
        #[cfg_attr(not(feature = "host"), expect(unused, reason = "encoders need it"))]
        (avcodec, avutil): (c_uint, c_uint),
        ours: bool,
    ) -> Result<Functions, libloading::Error> {
        // SAFETY: the major versions are supported. In all of them, the functions have these types; structures are
        // only passed by pointer.
        unsafe {
            if ours {
                let set_level: libloading::Symbol<'_, unsafe extern "C" fn(c_int)> =
                    util.get(b"av_log_set_level")?;
                set_level(AV_LOG_QUIET); // otherwise it writes to the process's standard error
            }
            Ok(Functions {
                find_decoder: *codec.get(b"avcodec_find_decoder_by_name")?,
                send_packet: *codec.get(b"avcodec_send_packet")?,
                receive_frame: *codec.get(b"avcodec_receive_frame")?,
                new_packet: *codec.get(b"av_new_packet")?,
                #[cfg(feature = "client")]
                frame_ref: *util.get(b"av_frame_ref")?,
                frame_unref: *util.get(b"av_frame_unref")?,
                #[cfg(feature = "client")]
                buffer_is_writable: *util.get(b"av_buffer_is_writable")?,
                #[cfg(feature = "client")]
                hardware_config: *codec.get(b"avcodec_get_hw_config")?,
                #[cfg(feature = "client")]
                default_format: *codec.get::<usize>(b"avcodec_default_get_format")?,
                #[cfg(feature = "host")]
                find_encoder: *codec.get(b"avcodec_find_encoder_by_name")?,
                #[cfg(feature = "host")]
                send_frame: *codec.get(b"avcodec_send_frame")?,
                #[cfg(feature = "host")]
                receive_packet: *codec.get(b"avcodec_receive_packet")?,
                #[cfg(feature = "host")]
                frame_buffer: *util.get(b"av_frame_get_buffer")?,
                #[cfg(feature = "host")]
                frame_writable: *util.get(b"av_frame_make_writable")?,
                #[cfg(feature = "host")]
                sample_format: *util.get(b"av_get_sample_fmt")?,
                #[cfg(feature = "host")]
                parameters_alloc: *codec.get(b"avcodec_parameters_alloc")?,
                #[cfg(feature = "host")]
                parameters_free: *codec.get(b"avcodec_parameters_free")?,
                #[cfg(feature = "host")]
                parameters_from_context: *codec.get(b"avcodec_parameters_from_context")?,
                #[cfg(feature = "host")]
                parameters_to_context: *codec.get(b"avcodec_parameters_to_context")?,
                alloc_context: *codec.get(b"avcodec_alloc_context3")?,
                free_context: *codec.get(b"avcodec_free_context")?,
                open: *codec.get(b"avcodec_open2")?,
                packet_alloc: *codec.get(b"av_packet_alloc")?,
                packet_free: *codec.get(b"av_packet_free")?,
                #[cfg(feature = "client")]
                packet_unref: *codec.get(b"av_packet_unref")?,
                frame_alloc: *util.get(b"av_frame_alloc")?,
                frame_free: *util.get(b"av_frame_free")?,
                pixel_format: *util.get(b"av_get_pix_fmt")?,
                opt_set: *util.get(b"av_opt_set")?,
                strerror: *util.get(b"av_strerror")?,
                hardware: HardwareFunctions::of(&util)?,
                avcodec,
                #[cfg(feature = "host")]
                avutil,
                _libraries: [codec, util],
            })
        }
    }

    /// Sets an option of a context or of its codec, by name.
    ///
    /// # Errors
    /// Returns the library's error message.
    ///
    /// # Safety
    /// `context` must have been allocated by this library and have no other user now.
    pub(crate) unsafe fn set(
        &self,
        context: *mut AvCodecContext,
        name: &str,
        value: &str,
    ) -> Result<(), String> {
        // SAFETY: the caller upholds this function's contract.
        unsafe { self.set_with(context, name, value, AV_OPT_SEARCH_CHILDREN) }
    }

    /// Whether a codec declares that it provides pictures in dma-bufs.
    ///
    /// # Safety
    /// `codec` must be a codec of this library.
    #[cfg(feature = "client")]
    pub(crate) unsafe fn provides_dma_bufs(&self, codec: *const AvCodec) -> bool {
        // SAFETY: the name is NUL-terminated.
        let wanted = unsafe { (self.pixel_format)(c"drm_prime".as_ptr()) };
        // SAFETY: the caller passes a codec of this library. Its list ends with null, and the entries are constants of
        // the library.
        let configs = (0..).map_while(|n| unsafe { (self.hardware_config)(codec, n).as_ref() });
        wanted >= 0 && configs.into_iter().any(|config| config.format == wanted)
    }

    /// Sets an option of a context, even if its codec has an option of the same name.
    ///
    /// # Errors
    /// Returns the library's error message.
    ///
    /// # Safety
    /// As for [`set`](Self::set).
    #[cfg(feature = "client")]
    pub(crate) unsafe fn set_own(
        &self,
        context: *mut AvCodecContext,
        name: &str,
        value: &str,
    ) -> Result<(), String> {
        // SAFETY: the caller upholds this function's contract.
        unsafe { self.set_with(context, name, value, 0) }
    }

    unsafe fn set_with(
        &self,
        context: *mut AvCodecContext,
        name: &str,
        value: &str,
        flags: c_int,
    ) -> Result<(), String> {
        let text = |text: &str| CString::new(text).map_err(|e| e.to_string());
        let (key, word) = (text(name)?, text(value)?);
        // SAFETY: a context starts with its class, as options require; the strings are
        // NUL-terminated.
        let code = unsafe { (self.opt_set)(context.cast(), key.as_ptr(), word.as_ptr(), flags) };
        if code < 0 {
            return Err(self.error(&format!("set {name} to {value}"), code));
        }
        Ok(())
    }

    /// Makes a decoder call `call` when rows are final (`draw_horiz_band`). Returns `false` if that is not supported.
    /// There is no option for this field, and its offset in the context differs between major versions. However, the
    /// next field is always `get_format`, and the address of its default is known.
    ///
    /// # Safety
    /// `context` must have been allocated by this library and must have no other user now. Since its allocation,
    /// nothing but options may have been set.
    #[cfg(feature = "client")]
    pub(crate) unsafe fn report_rows(
        &self,
        context: *mut AvCodecContext,
        call: RowsAreFinal,
    ) -> bool {
        // The smallest supported context (FFmpeg 8) has more words than this.
        const WORDS: usize = 64;
        let words = context.cast::<usize>();
        // SAFETY: the context has at least `WORDS` words, and any word may be read as an integer.
        let word = |i: usize| unsafe { words.add(i).read() };
        let found = (8..WORDS).find(|i| word(*i) == self.default_format);
        let Some(place) = found.map(|i| i - 1).filter(|i| word(*i) == 0) else {
            return false;
        };
        // SAFETY: the word is the callback's field: it is null, and the next word is the default `get_format`, which
        // follows the callback in all supported versions.
        unsafe { words.add(place).cast::<RowsAreFinal>().write(call) };
        true
    }

    /// The library's message for `code`, with the failed action `what`.
    pub(crate) fn error(&self, what: &str, code: c_int) -> String {
        let mut text = [0u8; 128];
        // SAFETY: the buffer has the passed length; the library terminates it with NUL.
        unsafe { (self.strerror)(code, text.as_mut_ptr().cast(), text.len()) };
        let text = CStr::from_bytes_until_nul(&text).unwrap_or_default();
        format!("libavcodec could not {what} ({})", text.to_string_lossy())
    }
}

/// Whether this process has already loaded `library`. If so, it may belong to the application, and
/// all users share its log level.
fn is_loaded(library: &str) -> bool {
    use libloading::os::unix::{Library, RTLD_LAZY};
    // SAFETY: with `RTLD_NOLOAD`, no library is loaded, so no code of the library runs.
    unsafe { Library::open(Some(library), RTLD_LAZY | libc::RTLD_NOLOAD) }.is_ok()
}

fn major(library: &libloading::Library, function: &str) -> Option<c_uint> {
    // SAFETY: both version functions have this type in every major.
    let version = unsafe {
        let function: libloading::Symbol<'_, unsafe extern "C" fn() -> c_uint> =
            library.get(function.as_bytes()).ok()?;
        function()
    };
    Some(version >> 16)
}

#[cfg(test)]
mod tests {
    use super::is_loaded;

    #[test]
    fn loaded_libraries_are_detected() {
        assert!(is_loaded("libc.so.6"));
        assert!(!is_loaded("libavutil.so.1"));
    }
}
