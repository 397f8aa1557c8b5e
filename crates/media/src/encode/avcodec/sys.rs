//! An encoder of libavcodec with its picture and packet. The parent module chooses the options.
#![allow(unsafe_code)]

use std::ffi::{CString, c_int};
use std::ptr::NonNull;
use std::sync::Arc;

use openuvr_proto::units::Size;

use crate::picture::{Picture, PixelFormat, RowOrder};
use crate::sys::avcodec::{AvCodecContext, AvFrame, AvPacket, EAGAIN, Functions};

/// `AV_PICTURE_TYPE_I`, and the type that leaves the choice to the encoder.
const PICTURE_I: c_int = 1;
const PICTURE_ANY: c_int = 0;

/// Options that an encoder may lack; all others must be accepted.
const OPTIONAL: [&str; 5] = [
    "threads",
    "color_primaries",
    "color_trc",
    "colorspace",
    "color_range",
];

/// An open encoder.
pub(super) struct Encoder {
    functions: Arc<Functions>,
    context: NonNull<AvCodecContext>,
    frame: NonNull<AvFrame>,
    packet: NonNull<AvPacket>,
    /// Whether the packet holds data.
    full: bool,
}

// SAFETY: a context, its packet and its frame may be used from any thread, one call at a time;
// `&mut self` ensures this, and `&self` only reads the packet.
unsafe impl Send for Encoder {}

impl Encoder {
    /// Opens the encoder called `name` with `options` for pictures of `size` in `format`: NV12 or I420.
    pub(super) fn open(
        name: &str,
        options: &[(&str, String)],
        size: Size,
        format: PixelFormat,
    ) -> Result<Encoder, String> {
        let functions = Functions::load()?;
        let text = CString::new(name).map_err(|e| e.to_string())?;
        // SAFETY: the name is NUL-terminated, and the library accepts its own results. Allocations
        // are freed by `drop`, or leaked if a later one fails.
        let (codec, context, frame, packet) = unsafe {
            let codec = (functions.find_encoder)(text.as_ptr());
            if codec.is_null() {
                return Err("this libavcodec was built without the encoder".into());
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
            packet,
            full: false,
        };
        for (name, value) in options {
            match encoder.set(name, value) {
                Err(why) if OPTIONAL.contains(name) => {
                    tracing::debug!(%why, "optional setting left unchanged")
                }
                done => done?,
            }
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
        encoder.take_memory(size, format)?;
        Ok(encoder)
    }

    /// Sets an option by name, even while the encoder runs.
    pub(super) fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        // SAFETY: the context is ours.
        unsafe { self.functions.set(self.context.as_ptr(), name, value) }
    }

    /// Allocates the frame's memory.
    fn take_memory(&mut self, size: Size, format: PixelFormat) -> Result<(), String> {
        let side = |n: u32| c_int::try_from(n).unwrap_or(c_int::MAX);
        let name = match format {
            PixelFormat::I420 => c"yuv420p",
            _ => c"nv12",
        };
        // SAFETY: the name is NUL-terminated.
        let format = unsafe { (self.functions.pixel_format)(name.as_ptr()) };
        // SAFETY: the frame is ours and empty; these fields are required by the library.
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

    /// Submits `picture`, which has the encoder's size and format. The caller must have checked that it is complete.
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
        // NV12 has one plane of chroma, and I420 has two of half its width.
        let (chroma, count) = match picture.format {
            PixelFormat::I420 => (width / 2, 3),
            _ => (width, 2),
        };
        let planes = [(width, height), (chroma, height / 2), (chroma, height / 2)];
        for (i, (plane, (width, rows))) in picture.planes.iter().zip(planes).take(count).enumerate()
        {
            // SAFETY: the frame has a picture of the encoder's size and format: these planes, with `width` bytes in each
            // of these rows. Its rows are `linesize` apart, and are writable now. `picture` has such planes, too, as the
            // caller has checked; slicing checks the bounds again.
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
        // SAFETY: context and frame are valid; the library takes a reference to the frame's memory.
        let code = unsafe {
            let frame = self.frame.as_mut();
            frame.kind[place] = kind;
            frame.pts = pts;
            (self.functions.send_frame)(self.context.as_ptr(), self.frame.as_ptr())
        };
        if code < 0 {
            return Err(self.functions.error("accept a picture", code));
        }
        Ok(())
    }

    /// Receives a coded picture, if one is ready. [`Encoder::packet`] then returns this picture.
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
        // SAFETY: valid as long as `self`; written only by `&mut self` methods.
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
        // SAFETY: allocated by this library, no longer used.
        unsafe {
            (self.functions.free_context)(&raw mut context);
            (self.functions.frame_free)(&raw mut frame);
            (self.functions.packet_free)(&raw mut packet);
        }
    }
}
