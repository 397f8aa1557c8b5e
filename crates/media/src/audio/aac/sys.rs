//! libavcodec's AAC encoder with its frame and packet.
//!
//! The sample format of a context and the channel layout of a frame are not options, and their offsets differ between
//! the major versions of the library. This module sets the format through the context's `AVCodecParameters`. A decoder
//! of uncompressed sound fills the frame and sets its channel layout.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_int};
use std::ptr::NonNull;
use std::sync::Arc;

use super::FRAME;
use crate::audio::{CHANNELS, RATE};
use crate::sys::avcodec::{AvCodec, AvCodecContext, AvFrame, AvPacket, EAGAIN, Functions};

/// Size of one channel's samples in a frame, in bytes.
const PLANE: usize = FRAME as usize * size_of::<f32>();

/// `FF_PROFILE_AAC_LOW`.
const PROFILE_LOW: &str = "1";

/// `AV_SAMPLE_FMT_NONE`, the format of a new context.
const FORMAT_NONE: c_int = -1;

/// The 32-bit words of `AVCodecParameters` that are searched for the sample format. The structure begins with the type,
/// the codec, the tag, a pointer and a length. In libavcodec 58 to 60, the format follows these fields; 61 and 62
/// insert a pointer and a number before the format. The structure is longer than this range in all versions.
const FORMAT_WORDS: std::ops::Range<usize> = 6..12;

/// A context of a codec.
struct Context {
    functions: Arc<Functions>,
    codec: *const AvCodec,
    context: NonNull<AvCodecContext>,
}

impl Context {
    /// Allocates a context for the encoder or decoder `name`, which `find` looks up.
    fn new(
        functions: &Arc<Functions>,
        find: unsafe extern "C" fn(*const std::ffi::c_char) -> *const AvCodec,
        name: &CStr,
    ) -> Result<Context, String> {
        // SAFETY: the name is NUL-terminated, and the caller passes one of this library's search functions as `find`.
        let codec = unsafe { find(name.as_ptr()) };
        if codec.is_null() {
            let name = name.to_string_lossy();
            return Err(format!(
                "this libavcodec was built without {name}: apt install ffmpeg"
            ));
        }
        // SAFETY: `codec` is not null, and belongs to this library.
        let context = unsafe { (functions.alloc_context)(codec) };
        Ok(Context {
            functions: functions.clone(),
            codec,
            context: NonNull::new(context).ok_or("out of memory")?,
        })
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        // SAFETY: `self` owns the context.
        unsafe { self.functions.set(self.context.as_ptr(), name, value) }
    }

    /// Sets the sampling rate and the channels.
    fn set_sound(&mut self) -> Result<(), String> {
        self.set("ar", &RATE.to_string())?;
        if self.set("ch_layout", "stereo").is_ok() {
            return Ok(());
        }
        // FFmpeg 5.0 and older lack `ch_layout` and have these two options instead. 3 is the bit mask of the left and
        // right channels.
        self.set("ac", &CHANNELS.to_string())?;
        self.set("channel_layout", "3")
    }

    /// Sets the sample format of a context that has no sample format yet.
    fn set_format(&mut self, format: c_int) -> Result<(), String> {
        let functions = &self.functions;
        let context = self.context.as_ptr();
        // SAFETY: `self` owns the context, which is not open yet. The parameters are freed below. They are longer than
        // the range of words that is searched here, and each of these words may be read as an integer.
        unsafe {
            let mut parameters = (functions.parameters_alloc)();
            if parameters.is_null() {
                return Err("out of memory".into());
            }
            let mut code = (functions.parameters_from_context)(parameters, context);
            let words = parameters.cast::<c_int>();
            let mut places = FORMAT_WORDS.map(|word| words.add(word));
            let place = places.find(|place| place.read() == FORMAT_NONE);
            if let Some(place) = place.filter(|_| code >= 0) {
                place.write(format);
                code = (functions.parameters_to_context)(context, parameters);
            }
            (functions.parameters_free)(&raw mut parameters);
            match place {
                _ if code < 0 => Err(functions.error("set the sample format", code)),
                Some(_) => Ok(()),
                None => Err(
                    "this libavcodec has an unknown layout of AVCodecParameters; choose Opus"
                        .into(),
                ),
            }
        }
    }

    fn open(&mut self) -> Result<(), String> {
        let (context, codec) = (self.context.as_ptr(), self.codec);
        // SAFETY: the context was allocated for this codec and is not open yet.
        let code = unsafe { (self.functions.open)(context, codec, std::ptr::null_mut()) };
        match code {
            code if code < 0 => Err(self.functions.error("open its AAC encoder", code)),
            _ => Ok(()),
        }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        let mut context = self.context.as_ptr();
        // SAFETY: this library allocated the object, and nothing uses it afterwards.
        unsafe { (self.functions.free_context)(&raw mut context) };
    }
}

struct Packet {
    functions: Arc<Functions>,
    packet: NonNull<AvPacket>,
}

impl Packet {
    fn new(functions: &Arc<Functions>) -> Result<Packet, String> {
        // SAFETY: the function takes no arguments.
        let packet = unsafe { (functions.packet_alloc)() };
        Ok(Packet {
            functions: functions.clone(),
            packet: NonNull::new(packet).ok_or("out of memory")?,
        })
    }
}

impl Drop for Packet {
    fn drop(&mut self) {
        let mut packet = self.packet.as_ptr();
        // SAFETY: this library allocated the object, and nothing uses it afterwards.
        unsafe { (self.functions.packet_free)(&raw mut packet) };
    }
}

struct Frame {
    functions: Arc<Functions>,
    frame: NonNull<AvFrame>,
}

impl Frame {
    /// Allocates a frame of [`FRAME`] sample frames in the planar `format`.
    fn planar(functions: &Arc<Functions>, format: c_int) -> Result<Frame, String> {
        let frame = Frame::decoded(functions)?;
        // SAFETY: `frame` owns the frame, and nothing else refers to it.
        let fields = unsafe { &mut *frame.frame.as_ptr() };
        let interleaved = usize::try_from(fields.linesize[0]).unwrap_or(0);
        if fields.data[0].is_null() || interleaved < PLANE * CHANNELS {
            return Err("this libavutil has an unknown layout of AVFrame; choose Opus".into());
        }
        // The memory of the interleaved samples is large enough for both planes.
        fields.format = format;
        fields.linesize[0] = c_int::try_from(PLANE).unwrap_or(c_int::MAX);
        // SAFETY: the memory has space for at least two planes: `interleaved` was compared with their size above.
        fields.data[1] = unsafe { fields.data[0].add(PLANE) };
        Ok(frame)
    }

    /// Decodes a packet of silence to a frame with [`FRAME`] interleaved sample frames and their channel layout.
    fn decoded(functions: &Arc<Functions>) -> Result<Frame, String> {
        let mut decoder = Context::new(functions, functions.find_decoder, c"pcm_f32le")?;
        decoder.set_sound()?;
        decoder.open()?;
        let packet = Packet::new(functions)?;
        // SAFETY: the function takes no arguments.
        let frame = unsafe { (functions.frame_alloc)() };
        let frame = Frame {
            functions: functions.clone(),
            frame: NonNull::new(frame).ok_or("out of memory")?,
        };
        let length = PLANE * CHANNELS;
        let (context, to) = (decoder.context.as_ptr(), frame.frame.as_ptr());
        // SAFETY: context, packet and frame are valid. The packet gets `length` bytes, all of which are written.
        let code = unsafe {
            let mut code = (functions.new_packet)(
                packet.packet.as_ptr(),
                c_int::try_from(length).unwrap_or(c_int::MAX),
            );
            if code >= 0 {
                (*packet.packet.as_ptr()).data.write_bytes(0, length);
                code = (functions.send_packet)(context, packet.packet.as_ptr());
            }
            if code >= 0 {
                code = (functions.receive_frame)(context, to);
            }
            code
        };
        match code {
            code if code < 0 => Err(functions.error("allocate a frame of sound", code)),
            _ => Ok(frame),
        }
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        let mut frame = self.frame.as_ptr();
        // SAFETY: this library allocated the object, and nothing uses it afterwards.
        unsafe { (self.functions.frame_free)(&raw mut frame) };
    }
}

pub(super) struct Encoder {
    context: Context,
    frame: Frame,
    packet: Packet,
    /// Whether the packet holds data.
    full: bool,
}

// SAFETY: a context, its packet and its frame may be used from any thread, one call at a time; `&mut self` ensures this,
// and `&self` only reads the packet.
unsafe impl Send for Encoder {}

impl Encoder {
    /// Opens the encoder. `bitrate` is in bit/s.
    pub(super) fn open(bitrate: u64) -> Result<Encoder, String> {
        let functions = Functions::load()?;
        // SAFETY: the name is NUL-terminated.
        let format = unsafe { (functions.sample_format)(c"fltp".as_ptr()) };
        let mut context = Context::new(&functions, functions.find_encoder, c"aac")?;
        // The format comes first, because `set_format` also sets all other parameters to their defaults.
        context.set_format(format)?;
        context.set_sound()?;
        context.set("b", &bitrate.to_string())?;
        context.set("profile", PROFILE_LOW)?;
        context.open()?;
        Ok(Encoder {
            context,
            frame: Frame::planar(&functions, format)?,
            packet: Packet::new(&functions)?,
            full: false,
        })
    }

    /// Submits a block of [`FRAME`] sample frames. `first` is the index of its first sample frame.
    pub(super) fn send(&mut self, block: &[f32], first: i64) -> Result<(), String> {
        let functions = &self.context.functions;
        let frame = self.frame.frame.as_ptr();
        // SAFETY: the frame has memory, which the library copies if the encoder still uses it for an earlier block.
        let code = unsafe { (functions.frame_writable)(frame) };
        if code < 0 {
            return Err(functions.error("write a block of sound", code));
        }
        // SAFETY: `self` owns the frame, which lives as long as `self`.
        let planes = unsafe { (*frame).data };
        for (channel, plane) in planes.into_iter().take(CHANNELS).enumerate() {
            if plane.is_null() {
                return Err("a channel of the frame is missing".into());
            }
            // SAFETY: the frame has a plane of `FRAME` samples for each channel. The library and `planar` align planes
            // to more than the size of a sample. The planes are writable now, and nothing else refers to them.
            let plane =
                unsafe { std::slice::from_raw_parts_mut(plane.cast::<f32>(), FRAME.into()) };
            for (to, from) in plane
                .iter_mut()
                .zip(block.iter().skip(channel).step_by(CHANNELS))
            {
                *to = *from;
            }
        }
        // SAFETY: context and frame are valid; the library takes a reference to the frame's memory.
        let code = unsafe {
            (*frame).pts = first;
            (functions.send_frame)(self.context.context.as_ptr(), frame)
        };
        match code {
            code if code < 0 => Err(functions.error("accept a block of sound", code)),
            _ => Ok(()),
        }
    }

    /// Receives an access unit, if the encoder has finished one. [`Encoder::packet`] then returns this access unit.
    pub(super) fn receive(&mut self) -> Result<bool, String> {
        self.full = false;
        let functions = &self.context.functions;
        let (context, packet) = (self.context.context.as_ptr(), self.packet.packet.as_ptr());
        // SAFETY: context and packet are valid; the library releases the packet's old data.
        let code = unsafe { (functions.receive_packet)(context, packet) };
        match code {
            EAGAIN => Ok(false),
            code if code < 0 => Err(functions.error("return coded sound", code)),
            _ => {
                self.full = true;
                Ok(true)
            }
        }
    }

    /// The last received access unit: the index of its first decoded sample frame, and its bytes.
    pub(super) fn packet(&self) -> (i64, &[u8]) {
        // SAFETY: the packet lives as long as `self`, and only methods with `&mut self` write to it.
        let packet = unsafe { self.packet.packet.as_ref() };
        let size = usize::try_from(packet.size).unwrap_or(0);
        if !self.full || packet.data.is_null() || size == 0 {
            return (packet.pts, &[]);
        }
        // SAFETY: the packet holds `size` bytes until the next receive.
        (packet.pts, unsafe {
            std::slice::from_raw_parts(packet.data, size)
        })
    }
}
