//! An encoder of libavcodec with its picture, its packet, and a pool of pictures in a device's memory if the encoder
//! needs one. The parent module chooses the options.
#![allow(unsafe_code)]

use std::ffi::{CString, c_int};
use std::ptr::NonNull;
use std::sync::Arc;

use openuvr_proto::units::Size;

use super::kinds::{Kind, Memory};
use crate::codec::Codec;
use crate::encode::EncoderOptions;
use crate::picture::{Picture, PixelFormat, RowOrder};
use crate::sys::avcodec::hardware::{Device, FramePool};
use crate::sys::avcodec::{AvCodec, AvCodecContext, AvFrame, AvPacket, EAGAIN, Functions};

/// `AV_CODEC_ID_H264` and `AV_CODEC_ID_HEVC`, which are the same in all supported versions.
const ID_H264: c_int = 27;
const ID_HEVC: c_int = 173;

/// The option that selects a device, such as `/dev/dri/renderD129`. Only encoders that take pictures from a device's
/// memory have this option.
const DEVICE: &str = "device";

/// `AV_PICTURE_TYPE_I`, and the type that leaves the choice to the encoder.
const PICTURE_I: c_int = 1;
const PICTURE_ANY: c_int = 0;

/// Options that an encoder may lack; it must accept all other options.
const OPTIONAL: [&str; 5] = [
    "threads",
    "color_primaries",
    "color_trc",
    "colorspace",
    "color_range",
];

/// The codec of the encoder `name`; `None` if this libavcodec has no such encoder, or if it encodes neither H.264 nor
/// HEVC.
pub(super) fn codec_of(name: &str) -> Option<Codec> {
    let name = CString::new(name).ok()?;
    let functions = Functions::load().ok()?;
    // SAFETY: the name is NUL-terminated; a found codec is a constant of the library.
    match unsafe { (functions.find_encoder)(name.as_ptr()).as_ref() }?.id {
        ID_H264 => Some(Codec::H264),
        ID_HEVC => Some(Codec::Hevc),
        _ => None,
    }
}

/// Opens a device of the type `kind`, such as `vaapi`, and closes it.
pub(super) fn try_device(kind: &str) -> Result<(), String> {
    Device::open(&Functions::load()?, kind, None).map(drop)
}

/// libavutil's name of a format.
pub(super) const fn format_name(format: PixelFormat) -> &'static str {
    match format {
        PixelFormat::I420 => "yuv420p",
        _ => "nv12",
    }
}

/// A request to open an encoder.
pub(super) struct Order<'a> {
    pub(super) name: &'a str,
    /// Names and values of the options common to all encoders.
    pub(super) common: &'a [(&'static str, String)],
    /// The kind of the encoder, with its own options.
    pub(super) kind: &'a Kind,
    /// The user's options.
    pub(super) options: &'a EncoderOptions,
    /// The format of the pictures in main memory: NV12 or I420.
    pub(super) input: PixelFormat,
    pub(super) size: Size,
}

/// The pictures in a device's memory, for an encoder that takes pictures from there.
struct Upload {
    pool: FramePool,
    /// The current picture, which is a picture of `pool`.
    frame: NonNull<AvFrame>,
}

pub(super) struct Encoder {
    functions: Arc<Functions>,
    context: NonNull<AvCodecContext>,
    /// The current picture in main memory.
    frame: NonNull<AvFrame>,
    upload: Option<Upload>,
    packet: NonNull<AvPacket>,
    /// Whether the packet holds data.
    full: bool,
}

// SAFETY: a context, its packet and its frames may be used from any thread, one call at a time;
// `&mut self` ensures this, and `&self` only reads the packet.
unsafe impl Send for Encoder {}

impl Encoder {
    /// Opens an encoder for pictures of the requested size and format.
    pub(super) fn open(order: &Order<'_>) -> Result<Encoder, String> {
        let (mut encoder, codec) = Encoder::prepare(order)?;
        if let Memory::Device(kind) = order.kind.memory {
            (encoder.use_device(kind, order))
                .map_err(|why| format!("{why}; choose another encoder"))?;
        }
        let functions = encoder.functions.clone();
        // SAFETY: the context was allocated for this codec and is not open yet.
        let code =
            unsafe { (functions.open)(encoder.context.as_ptr(), codec, std::ptr::null_mut()) };
        if code < 0 {
            let why = functions.error("open it", code);
            return Err(format!(
                "{why}: check its device and driver, or choose another encoder \
                 (`openuvr doctor` lists the working encoders)"
            ));
        }
        encoder.take_memory(order.input, order.size)?;
        Ok(encoder)
    }

    /// Allocates an encoder and sets its options. Returns the encoder, which is not open yet, and its codec.
    fn prepare(order: &Order<'_>) -> Result<(Encoder, *const AvCodec), String> {
        let functions = Functions::load()?;
        let text = CString::new(order.name).map_err(|e| e.to_string())?;
        // SAFETY: the name is NUL-terminated, and the library accepts its own results. `drop` frees the allocations. If
        // one fails, the earlier ones are leaked.
        let (codec, context, frame, packet) = unsafe {
            let codec = (functions.find_encoder)(text.as_ptr());
            if codec.is_null() {
                return Err(
                    "this libavcodec was built without the encoder; choose another encoder".into(),
                );
            }
            (
                codec,
                (functions.alloc_context)(codec),
                (functions.frame_alloc)(),
                (functions.packet_alloc)(),
            )
        };
        let (Some(context), Some(frame), Some(packet)) = (
            NonNull::new(context),
            NonNull::new(frame),
            NonNull::new(packet),
        ) else {
            return Err("out of memory".into());
        };
        let mut encoder = Encoder {
            functions,
            context,
            frame,
            upload: None,
            packet,
            full: false,
        };
        encoder.set_all(order)?;
        Ok((encoder, codec))
    }

    /// Sets the options common to all encoders, the options of the kind, and the user's options.
    fn set_all(&mut self, order: &Order<'_>) -> Result<(), String> {
        for (name, value) in order.common {
            match self.set(name, value) {
                Err(why) if OPTIONAL.contains(name) => {
                    tracing::debug!(%why, "optional setting left unchanged")
                }
                done => done?,
            }
        }
        for (name, value) in order.kind.options {
            self.set(name, value)?;
        }
        for (name, value) in order.kind.hints {
            if let Err(why) = self.set(name, value) {
                tracing::debug!(%why, "optional encoder option not set");
            }
        }
        let device = order.kind.memory != Memory::Main;
        let others = |(name, _): &(&str, &str)| !(device && *name == DEVICE);
        for (name, value) in order.options.iter().filter(others) {
            self.set(name, &order.kind.completed(name, value))?;
        }
        Ok(())
    }

    /// Opens a device of the type `kind`, and makes the encoder take pictures from its memory.
    fn use_device(&mut self, kind: &str, order: &Order<'_>) -> Result<(), String> {
        let device = Device::open(&self.functions, kind, order.options.value(DEVICE))?;
        let (format, software) = (self.format(kind)?, self.format(format_name(order.input))?);
        let pool = FramePool::new(&device, (format, software), order.size)?;
        // SAFETY: `self` owns the context, which is not open yet.
        unsafe { pool.attach(self.context.as_ptr()) }?;
        // SAFETY: the call only allocates. The result is checked here, and `drop` frees it.
        let frame = NonNull::new(unsafe { (self.functions.frame_alloc)() });
        let frame = frame.ok_or("out of memory")?;
        self.upload = Some(Upload { pool, frame });
        Ok(())
    }

    /// libavutil's number of a pixel format.
    fn format(&self, name: &str) -> Result<c_int, String> {
        let text = CString::new(name).map_err(|e| e.to_string())?;
        // SAFETY: the name is NUL-terminated.
        match unsafe { (self.functions.pixel_format)(text.as_ptr()) } {
            number if number < 0 => Err(format!("this libavutil has no pixel format {name}")),
            number => Ok(number),
        }
    }

    /// Sets an option by name, even while the encoder runs.
    pub(super) fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        // SAFETY: `self` owns the context.
        unsafe { self.functions.set(self.context.as_ptr(), name, value) }
    }

    /// Allocates the frame's memory.
    fn take_memory(&mut self, format: PixelFormat, size: Size) -> Result<(), String> {
        let side = |n: u32| c_int::try_from(n).unwrap_or(c_int::MAX);
        let format = self.format(format_name(format))?;
        // SAFETY: `self` owns the frame, which is empty. To allocate its memory, the library requires these fields.
        let code = unsafe {
            let frame = self.frame.as_mut();
            frame.format = format;
            frame.width = side(size.width);
            frame.height = side(size.height);
            (self.functions.frame_buffer)(self.frame.as_ptr(), 0)
        };
        if code < 0 {
            return Err(self.functions.error("allocate a picture", code));
        }
        Ok(())
    }

    /// Submits `picture`, in the encoder's format and size. The caller must have checked that it is
    /// complete.
    pub(super) fn send(
        &mut self,
        picture: &Picture<'_>,
        pts: i64,
        key_frame: bool,
    ) -> Result<(), String> {
        let kind = if key_frame { PICTURE_I } else { PICTURE_ANY };
        // libavutil 60 has no `key_frame` field before the picture's type.
        let place = usize::from(self.functions.avutil < 60);
        // SAFETY: the frame has memory, which the library copies if an earlier picture is still in use.
        let code = unsafe { (self.functions.frame_writable)(self.frame.as_ptr()) };
        if code < 0 {
            return Err(self.functions.error("write a picture", code));
        }
        let (width, height) = (picture.size.width as usize, picture.size.height as usize);
        let chroma = match picture.format {
            PixelFormat::I420 => width / 2,
            _ => width,
        };
        let planes = match picture.format {
            PixelFormat::I420 => 3,
            _ => 2,
        };
        let shapes = [(width, height), (chroma, height / 2), (chroma, height / 2)];
        for (i, (plane, (width, rows))) in
            picture.planes.iter().zip(shapes).take(planes).enumerate()
        {
            // SAFETY: the frame has a picture of the encoder's format and size, whose planes have `rows` rows of
            // `width` bytes. The rows are `linesize` apart, and are writable now. The caller has checked that `picture`
            // has such planes, too, and slicing checks the bounds again.
            unsafe {
                let frame = self.frame.as_ref();
                let stride = usize::try_from(frame.linesize[i]).unwrap_or(0);
                if frame.data[i].is_null() || stride < width {
                    return Err("a plane of the frame is missing".into());
                }
                for row in 0..rows {
                    let from = match picture.rows {
                        RowOrder::TopDown => row,
                        RowOrder::BottomUp => rows - 1 - row,
                    };
                    let from = &plane.data[from * plane.stride..][..width];
                    let to = frame.data[i].add(row * stride);
                    std::ptr::copy_nonoverlapping(from.as_ptr(), to, width);
                }
            }
        }
        let mut submitted = self.frame;
        if let Some(upload) = &self.upload {
            submitted = upload.frame;
            // SAFETY: `self` owns both frames. Their pictures are not borrowed, because this method has `&mut self`.
            unsafe { (upload.pool).upload(self.frame.as_ref(), submitted.as_ptr()) }?;
        }
        // SAFETY: context and frame are valid; the library takes a reference to the frame's memory.
        let code = unsafe {
            let frame = submitted.as_mut();
            frame.kind[place] = kind;
            frame.pts = pts;
            (self.functions.send_frame)(self.context.as_ptr(), submitted.as_ptr())
        };
        if code < 0 {
            return Err(self.functions.error("accept a picture", code));
        }
        Ok(())
    }

    /// Receives a coded picture, if the encoder has finished one. [`Encoder::packet`] then returns this picture.
    pub(super) fn receive(&mut self) -> Result<bool, String> {
        self.full = false;
        // SAFETY: context and packet are valid; the library releases the packet's old data.
        let code =
            unsafe { (self.functions.receive_packet)(self.context.as_ptr(), self.packet.as_ptr()) };
        match code {
            EAGAIN => Ok(false),
            code if code < 0 => Err(self.functions.error("return a coded picture", code)),
            _ => {
                self.full = true;
                Ok(true)
            }
        }
    }

    /// Timestamp and bytes of the last received packet.
    pub(super) fn packet(&self) -> (i64, &[u8]) {
        // SAFETY: the packet lives as long as `self`, and only methods with `&mut self` write to it.
        let packet = unsafe { self.packet.as_ref() };
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

impl Drop for Encoder {
    fn drop(&mut self) {
        let (mut frame, mut packet) = (self.frame.as_ptr(), self.packet.as_ptr());
        let mut context = self.context.as_ptr();
        let uploaded = self.upload.take();
        // SAFETY: this library allocated the object, and nothing uses it afterwards.
        unsafe {
            (self.functions.free_context)(&raw mut context);
            if let Some(upload) = uploaded {
                let mut frame = upload.frame.as_ptr();
                (self.functions.frame_free)(&raw mut frame);
            }
            (self.functions.frame_free)(&raw mut frame);
            (self.functions.packet_free)(&raw mut packet);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::BACKENDS;
    use super::*;

    #[test]
    fn the_library_knows_the_options_of_each_kind() {
        let mut known = Vec::new();
        for backend in BACKENDS {
            let kind = Kind::of(backend.name);
            let order = Order {
                name: backend.name,
                common: &[],
                kind,
                options: &EncoderOptions::NONE,
                input: kind.inputs[0],
                size: Size::new(640, 368),
            };
            match Encoder::prepare(&order) {
                Ok(_) => known.push(backend.name),
                Err(why) => assert!(why.contains("built without"), "{}: {why}", backend.name),
            }
        }
        // Each distribution's libavcodec has these encoders.
        for name in ["libx264", "h264_vaapi", "hevc_vaapi"] {
            assert!(known.contains(&name), "{name} is not among {known:?}");
        }
    }
}
