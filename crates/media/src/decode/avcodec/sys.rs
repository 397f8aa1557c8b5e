//! libavcodec and libavutil opened at run time. Distributions ship different major versions, so
//! there are no bindings of one of them: options are set by name, and of the structures only
//! the front that all supported majors share is declared. Not the order of slices: the parent
//! module's.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::ptr::NonNull;

use openuvr_proto::units::Size;

use crate::codec::MAX_PIXELS;
use crate::decode::DecodeError;
use crate::picture::{Picture, PixelFormat, Plane};

/// Majors of libavcodec and the libavutil that belongs to it, newest first: Debian 11 to 13,
/// Ubuntu 22.04 and 24.04, FFmpeg 4.x to 8.x.
const MAJORS: [(c_uint, c_uint); 5] = [(62, 60), (61, 59), (60, 58), (59, 57), (58, 56)];

/// `AV_INPUT_BUFFER_PADDING_SIZE`: the decoder may read as far beyond a packet.
const PADDING: usize = 64;
/// Room for a slice, grown when one is larger.
const FIRST_CAPACITY: usize = 256 * 1024;
/// No slice is larger: 16 Mpixel at 4:2:0 have 24 MiB uncompressed.
const MAX_CHUNK: usize = 32 * 1024 * 1024;

const AV_OPT_SEARCH_CHILDREN: c_int = 1;
const AV_LOG_QUIET: c_int = -8;
const EAGAIN: c_int = -libc::EAGAIN;

/// The front of `AVPacket`: run with libavcodec 59; that 58 and 60 to 62 have the same front is
/// FFmpeg's public history, not tried here.
#[repr(C)]
struct AvPacket {
    buf: *mut c_void,
    pts: i64,
    _dts: i64,
    data: *mut u8,
    size: c_int,
}

/// The front of `AVFrame` on 64-bit machines: run with libavutil 57; that 56 and 58 to 60 have
/// the same is FFmpeg's public history, not tried here. 60 took `key_frame` away, and alignment puts `pts` at the same place with and without
/// it. Every picture's `pts` is compared with the frame's id, so a layout that is not this one
/// shows as "held back", not as wrong pictures.
#[repr(C)]
struct AvFrame {
    data: [*mut u8; 8],
    linesize: [c_int; 8],
    _extended_data: *mut c_void,
    width: c_int,
    height: c_int,
    _nb_samples: c_int,
    format: c_int,
    _differs: [c_int; 4],
    pts: i64,
}

#[cfg(not(target_pointer_width = "64"))]
compile_error!("AVFrame's layout is only known for 64-bit machines: check it for this one");
const _: () = assert!(std::mem::offset_of!(AvFrame, pts) == 136);

enum AvCodec {}
enum AvCodecContext {}

struct Functions {
    find_decoder_by_name: unsafe extern "C" fn(*const c_char) -> *const AvCodec,
    alloc_context: unsafe extern "C" fn(*const AvCodec) -> *mut AvCodecContext,
    free_context: unsafe extern "C" fn(*mut *mut AvCodecContext),
    open: unsafe extern "C" fn(*mut AvCodecContext, *const AvCodec, *mut c_void) -> c_int,
    send_packet: unsafe extern "C" fn(*mut AvCodecContext, *const AvPacket) -> c_int,
    receive_frame: unsafe extern "C" fn(*mut AvCodecContext, *mut AvFrame) -> c_int,
    packet_alloc: unsafe extern "C" fn() -> *mut AvPacket,
    packet_free: unsafe extern "C" fn(*mut *mut AvPacket),
    packet_unref: unsafe extern "C" fn(*mut AvPacket),
    new_packet: unsafe extern "C" fn(*mut AvPacket, c_int) -> c_int,
    frame_alloc: unsafe extern "C" fn() -> *mut AvFrame,
    frame_free: unsafe extern "C" fn(*mut *mut AvFrame),
    frame_unref: unsafe extern "C" fn(*mut AvFrame),
    buffer_is_writable: unsafe extern "C" fn(*const c_void) -> c_int,
    pixel_format: unsafe extern "C" fn(*const c_char) -> c_int,
    opt_set: unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char, c_int) -> c_int,
    strerror: unsafe extern "C" fn(c_int, *mut c_char, usize) -> c_int,
    /// Behind the functions, which must not outlive them.
    _libraries: [libloading::Library; 2],
}

impl Functions {
    /// The newest supported libavcodec that is installed.
    fn load() -> Result<Functions, DecodeError> {
        let mut refused = Vec::new();
        for (avcodec, avutil) in MAJORS {
            let names = [
                format!("libavcodec.so.{avcodec}"),
                format!("libavutil.so.{avutil}"),
            ];
            // SAFETY: neither has an initialiser with preconditions.
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
                refused.push(format!("{} says it is {found:?}", names.join(" with ")));
                continue;
            }
            match Functions::symbols(codec, util) {
                Ok(functions) => {
                    tracing::debug!(avcodec, avutil, "libavcodec is open");
                    return Ok(functions);
                }
                Err(error) => refused.push(format!("{}: {error}", names[0])),
            }
        }
        let wanted: Vec<_> = MAJORS.iter().map(|(major, _)| major.to_string()).collect();
        refused.push("apt install ffmpeg brings it".into());
        Err(DecodeError(format!(
            "no usable libavcodec with its libavutil is installed (supported majors: {}): {}",
            wanted.join(", "),
            refused.join("; ")
        )))
    }

    fn symbols(
        codec: libloading::Library,
        util: libloading::Library,
    ) -> Result<Functions, libloading::Error> {
        // SAFETY: the major versions are known ones, in all of which the functions have these
        // types (structures behind pointers only).
        unsafe {
            let set_level: libloading::Symbol<'_, unsafe extern "C" fn(c_int)> =
                util.get(b"av_log_set_level")?;
            set_level(AV_LOG_QUIET); // it would write on the process's standard error
            Ok(Functions {
                find_decoder_by_name: *codec.get(b"avcodec_find_decoder_by_name")?,
                alloc_context: *codec.get(b"avcodec_alloc_context3")?,
                free_context: *codec.get(b"avcodec_free_context")?,
                open: *codec.get(b"avcodec_open2")?,
                send_packet: *codec.get(b"avcodec_send_packet")?,
                receive_frame: *codec.get(b"avcodec_receive_frame")?,
                packet_alloc: *codec.get(b"av_packet_alloc")?,
                packet_free: *codec.get(b"av_packet_free")?,
                packet_unref: *codec.get(b"av_packet_unref")?,
                new_packet: *codec.get(b"av_new_packet")?,
                frame_alloc: *util.get(b"av_frame_alloc")?,
                frame_free: *util.get(b"av_frame_free")?,
                frame_unref: *util.get(b"av_frame_unref")?,
                buffer_is_writable: *util.get(b"av_buffer_is_writable")?,
                pixel_format: *util.get(b"av_get_pix_fmt")?,
                opt_set: *util.get(b"av_opt_set")?,
                strerror: *util.get(b"av_strerror")?,
                _libraries: [codec, util],
            })
        }
    }

    fn error(&self, what: &str, code: c_int) -> String {
        let mut text = [0u8; 128];
        // SAFETY: the buffer has the length that is passed; the library ends it with NUL.
        unsafe { (self.strerror)(code, text.as_mut_ptr().cast(), text.len()) };
        let text = CStr::from_bytes_until_nul(&text).unwrap_or_default();
        format!("libavcodec could not {what} ({})", text.to_string_lossy())
    }
}

fn major(library: &libloading::Library, function: &str) -> Option<c_uint> {
    // SAFETY: both version functions have had this type in every major.
    let version = unsafe {
        let function: libloading::Symbol<'_, unsafe extern "C" fn() -> c_uint> =
            library.get(function.as_bytes()).ok()?;
        function()
    };
    Some(version >> 16)
}

/// A codec context.
struct Context(NonNull<AvCodecContext>);

impl Context {
    /// Opens H.264.
    fn open(functions: &Functions) -> Result<Context, DecodeError> {
        // SAFETY: the name ends in NUL, and the library knows what it returned itself.
        let (codec, context) = unsafe {
            let codec = (functions.find_decoder_by_name)(c"h264".as_ptr());
            if codec.is_null() {
                return Err(DecodeError(
                    "this libavcodec was built without its H.264 decoder: install the \
                     distribution's full one"
                        .into(),
                ));
            }
            (codec, (functions.alloc_context)(codec))
        };
        let mut context = Context(NonNull::new(context).ok_or_else(no_memory)?);
        match context.set_up(functions, codec) {
            Ok(()) => Ok(context),
            Err(error) => {
                context.free(functions);
                Err(error)
            }
        }
    }

    fn set_up(&mut self, functions: &Functions, codec: *const AvCodec) -> Result<(), DecodeError> {
        let max_pixels = CString::new(MAX_PIXELS.to_string()).unwrap_or_default();
        for (name, value) in [
            (c"flags", c"+low_delay+output_corrupt"),
            (c"flags2", c"+chunks"),
            (c"threads", c"1"),
            (c"thread_type", c"slice"),
            // Else libavcodec conceals the rest of the picture behind every chunk: 10–25 times
            // slower (measured).
            (c"enable_er", c"0"),
            (c"max_pixels", &*max_pixels),
        ] {
            // SAFETY: a context starts with its class, as options need; the strings end in NUL.
            let code = unsafe {
                (functions.opt_set)(
                    self.0.as_ptr().cast(),
                    name.as_ptr(),
                    value.as_ptr(),
                    AV_OPT_SEARCH_CHILDREN,
                )
            };
            if code < 0 {
                let what = format!("set {name:?} to {value:?}");
                return Err(DecodeError(functions.error(&what, code)));
            }
        }
        // SAFETY: the context was allocated for this codec and is not open yet.
        let code = unsafe { (functions.open)(self.0.as_ptr(), codec, std::ptr::null_mut()) };
        if code < 0 {
            return Err(DecodeError(functions.error("open H.264", code)));
        }
        Ok(())
    }

    fn free(self, functions: &Functions) {
        let mut context = self.0.as_ptr();
        // SAFETY: allocated by this library, not used any more.
        unsafe { (functions.free_context)(&raw mut context) }
    }
}

fn no_memory() -> DecodeError {
    DecodeError("no memory for a decoder".into())
}

/// An open H.264 decoder and the last picture it gave.
pub(super) struct Decoder {
    functions: Functions,
    /// `None` only if it could not be opened again.
    context: Option<Context>,
    /// Nothing was sent to the context yet.
    fresh: bool,
    packet: NonNull<AvPacket>,
    /// Bytes that the packet's buffer holds besides its padding.
    capacity: usize,
    frame: NonNull<AvFrame>,
    /// libavutil's numbers of the formats that are understood: they differ between its majors.
    formats: [(c_int, PixelFormat); 4],
}

// SAFETY: a context, its packet and its frame may be used from any thread, one call at a time;
// `&mut self` sees to that, and `&self` only reads the frame.
unsafe impl Send for Decoder {}

impl Decoder {
    pub(super) fn open() -> Result<Decoder, DecodeError> {
        let functions = Functions::load()?;
        let context = Context::open(&functions)?;
        let formats = [
            (c"yuv420p", PixelFormat::I420),
            (c"yuv444p", PixelFormat::I444),
            (c"gbrp", PixelFormat::Gbr),
            (c"nv12", PixelFormat::Nv12),
        ];
        // SAFETY: the names end in NUL; one that is not known is −1, which no picture has.
        let formats = formats
            .map(|(name, format)| (unsafe { (functions.pixel_format)(name.as_ptr()) }, format));
        // SAFETY: plain allocation; the results are checked, and freed by `Drop`.
        let (packet, frame) = unsafe { ((functions.packet_alloc)(), (functions.frame_alloc)()) };
        match (NonNull::new(packet), NonNull::new(frame)) {
            (Some(packet), Some(frame)) => Ok(Decoder {
                functions,
                context: Some(context),
                fresh: true,
                packet,
                capacity: 0,
                frame,
                formats,
            }),
            _ => Err(no_memory()),
        }
    }

    /// Gives it a chunk; `false` if a picture has to be received first.
    pub(super) fn send(&mut self, bytes: &[u8], pts: i64) -> Result<bool, String> {
        let context = self.context()?;
        self.fresh = false;
        self.make_room(bytes.len())?;
        let size = c_int::try_from(bytes.len()).map_err(|_| "a slice is too large")?;
        // SAFETY: `make_room` left a buffer of `capacity + PADDING` bytes that nobody else
        // refers to, and `bytes.len() <= capacity`.
        let code = unsafe {
            let packet = self.packet.as_mut();
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), packet.data, bytes.len());
            std::ptr::write_bytes(packet.data.add(bytes.len()), 0, PADDING);
            packet.size = size;
            packet.pts = pts;
            (self.functions.send_packet)(context, self.packet.as_ptr())
        };
        match code {
            EAGAIN => Ok(false),
            code if code < 0 => Err(self.functions.error("decode a slice", code)),
            _ => Ok(true),
        }
    }

    /// Makes the packet's buffer writable and at least `size` bytes large.
    fn make_room(&mut self, size: usize) -> Result<(), String> {
        if size > MAX_CHUNK {
            return Err(format!("a slice has {size} bytes, at most {MAX_CHUNK}"));
        }
        // SAFETY: the packet is ours; its buffer is there if `capacity` is not 0.
        let reusable = size <= self.capacity
            && self.capacity != 0
            && unsafe { (self.functions.buffer_is_writable)(self.packet.as_ref().buf) } != 0;
        if reusable {
            return Ok(());
        }
        let capacity = size.next_power_of_two().max(FIRST_CAPACITY);
        self.capacity = 0;
        let bytes = c_int::try_from(capacity).map_err(|_| "a slice is too large")?;
        // SAFETY: the old reference is given up before the packet gets a new buffer.
        let code = unsafe {
            (self.functions.packet_unref)(self.packet.as_ptr());
            (self.functions.new_packet)(self.packet.as_ptr(), bytes)
        };
        if code < 0 {
            return Err(self.functions.error("allocate a packet", code));
        }
        self.capacity = capacity;
        Ok(())
    }

    /// Takes a picture out, if one is ready: its `pts`.
    pub(super) fn receive(&mut self) -> Result<Option<i64>, String> {
        let context = self.context()?;
        // SAFETY: context and frame are valid; the library releases the frame's old picture.
        let code = unsafe { (self.functions.receive_frame)(context, self.frame.as_ptr()) };
        match code {
            EAGAIN => Ok(None),
            code if code < 0 => Err(self.functions.error("give a picture", code)),
            // SAFETY: just filled.
            _ => Ok(Some(unsafe { self.frame.as_ref() }.pts)),
        }
    }

    /// The picture that was last received.
    pub(super) fn picture(&self) -> Result<Picture<'_>, String> {
        // SAFETY: valid as long as `self`; written only by `&mut self` methods.
        let frame = unsafe { self.frame.as_ref() };
        let Some((_, format)) = (self.formats.iter()).find(|(number, _)| *number == frame.format)
        else {
            return Err(format!(
                "its pixels have libavutil's format {}, not yuv420p, yuv444p, gbrp or nv12: the \
                 host must encode 8 bits a sample",
                frame.format
            ));
        };
        let side = |n: c_int| u32::try_from(n).unwrap_or(0);
        let size = Size::new(side(frame.width), side(frame.height));
        if !size.is_valid() || size.pixels() > MAX_PIXELS {
            return Err(format!("its size is {size}"));
        }
        let (width, height) = (size.width as usize, size.height as usize);
        let mut planes = [Plane::EMPTY; 3];
        for (i, plane) in planes.iter_mut().enumerate() {
            let (row, rows) = match (*format, i) {
                (PixelFormat::Nv12, 2) => continue,
                (PixelFormat::Nv12, 1) => (width.next_multiple_of(2), height.div_ceil(2)),
                (PixelFormat::I420, 1 | 2) => (width.div_ceil(2), height.div_ceil(2)),
                _ => (width, height),
            };
            let stride = usize::try_from(frame.linesize[i]).unwrap_or(0);
            if frame.data[i].is_null() || stride < row {
                return Err("a plane of it is missing".into());
            }
            // SAFETY: a picture of this format has planes of these sizes, rows `linesize` apart; the
            // frame holds a reference to them until `&mut self` releases it.
            let data =
                unsafe { std::slice::from_raw_parts(frame.data[i], stride * (rows - 1) + row) };
            *plane = Plane { data, stride };
        }
        Ok(Picture {
            size,
            format: *format,
            planes,
        })
    }

    /// Drops everything that is under way, and all references, by opening the codec anew: after
    /// a damaged slice a mere flush leaves coefficients behind in libavcodec 59, which show in the
    /// next key frame (found by the test with damaged bytes).
    pub(super) fn restart(&mut self) {
        if self.fresh {
            return;
        }
        // SAFETY: the frame is ours, and nobody borrows its picture.
        unsafe { (self.functions.frame_unref)(self.frame.as_ptr()) };
        if let Some(context) = self.context.take() {
            context.free(&self.functions);
        }
        self.context = Context::open(&self.functions)
            .inspect_err(|error| tracing::warn!(%error, "libavcodec did not open again"))
            .ok();
        self.fresh = self.context.is_some();
    }

    fn context(&self) -> Result<*mut AvCodecContext, String> {
        let context = self
            .context
            .as_ref()
            .ok_or("libavcodec did not open again")?;
        Ok(context.0.as_ptr())
    }
}

impl Drop for Decoder {
    fn drop(&mut self) {
        let (mut frame, mut packet) = (self.frame.as_ptr(), self.packet.as_ptr());
        // SAFETY: allocated by this library, not used any more.
        unsafe {
            (self.functions.frame_free)(&raw mut frame);
            (self.functions.packet_free)(&raw mut packet);
        }
        if let Some(context) = self.context.take() {
            context.free(&self.functions);
        }
    }
}
