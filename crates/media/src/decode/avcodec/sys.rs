//! A decoder of libavcodec with its packet, its complete and incomplete pictures, and its device if it uses one. The
//! parent module orders slices.
#![allow(unsafe_code)]

use std::ffi::{CString, c_int};
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::Arc;

use openuvr_proto::units::Size;

use super::drm_prime::Descriptor;
use crate::codec::MAX_PIXELS;
use crate::decode::DecodeError;
use crate::dma_buf::{DmaBufPicture, Objects};
use crate::picture::{Picture, PixelFormat, Plane, RowOrder};
use crate::sys::avcodec::hardware::{Device, download};
use crate::sys::avcodec::{AvCodec, AvCodecContext, AvFrame, AvPacket, EAGAIN, Functions};

/// `AV_INPUT_BUFFER_PADDING_SIZE`: the decoder may read this number of bytes beyond the end of a packet.
const PADDING: usize = 64;
/// Initial space for a slice, grown on demand.
const FIRST_CAPACITY: usize = 256 * 1024;
/// Maximum size of a slice in bytes: more than an uncompressed picture of 16 Mpixel at 4:2:0, which has 24 MiB.
const MAX_CHUNK: usize = 32 * 1024 * 1024;

/// A decoder of libavcodec, and its settings.
pub(super) struct Kind {
    /// The name of the decoder on the command line.
    pub(super) backend: &'static str,
    /// The name of the decoder in libavcodec.
    pub(super) name: &'static str,
    /// Names and values of the codec's options.
    pub(super) options: &'static [(&'static str, &'static str)],
    /// Whether the decoder takes only complete pictures. Such a decoder, for example hardware, may return a picture at
    /// any later time.
    pub(super) whole: bool,
    /// Whether pictures in dma-bufs are requested. A libavcodec that can't provide them returns pictures in main memory.
    pub(super) dma_bufs: bool,
    /// The type of the device that the caller must open for the decoder, if any. Pictures that the device has decoded
    /// are copied to main memory.
    pub(super) device: Option<&'static str>,
}

struct Context(NonNull<AvCodecContext>);

impl Context {
    /// Opens the decoder `kind.name` of libavcodec.
    ///
    /// # Errors
    /// [`DecodeError`] that starts with the decoder's name on the command line.
    fn open(
        functions: &Functions,
        kind: &Kind,
        device: Option<&Device>,
    ) -> Result<Context, DecodeError> {
        Context::of(functions, kind, device).map_err(|why| unusable(kind, &why))
    }

    fn of(functions: &Functions, kind: &Kind, device: Option<&Device>) -> Result<Context, String> {
        let name = CString::new(kind.name).unwrap_or_default();
        // SAFETY: the name is NUL-terminated, and the library accepts its own results.
        let (codec, context) = unsafe {
            let codec = (functions.find_decoder)(name.as_ptr());
            if codec.is_null() {
                return Err(format!(
                    "this libavcodec was built without the decoder {}; install the \
                     distribution's full build, or choose another decoder",
                    kind.name
                ));
            }
            (codec, (functions.alloc_context)(codec))
        };
        let mut context = Context(NonNull::new(context).ok_or_else(|| no_memory().to_string())?);
        match context.set_up(functions, codec, kind, device) {
            Ok(()) => Ok(context),
            Err(why) => {
                context.free(functions);
                Err(why)
            }
        }
    }

    fn set_up(
        &mut self,
        functions: &Functions,
        codec: *const AvCodec,
        kind: &Kind,
        device: Option<&Device>,
    ) -> Result<(), String> {
        let max_pixels = MAX_PIXELS.to_string();
        let common = [("max_pixels", &*max_pixels)];
        for (name, value) in common.iter().chain(kind.options) {
            // SAFETY: this library allocated the context, and `self` owns it.
            unsafe { functions.set(self.0.as_ptr(), name, value) }.map_err(with_remedy)?;
        }
        // SAFETY: the caller found the codec in this library.
        if kind.dma_bufs && unsafe { functions.provides_dma_bufs(codec) } {
            // SAFETY: this library allocated the context, and `self` owns it.
            unsafe { functions.set_own(self.0.as_ptr(), "pixel_format", "drm_prime") }
                .map_err(with_remedy)?;
        } else if kind.dma_bufs {
            // `pixel_format` is not set here: in a libavcodec that can't provide dma-bufs, this option has a different
            // meaning.
            tracing::info!(
                "this libavcodec copies the pictures of {} into main memory",
                kind.name
            );
        }
        if let Some(device) = device {
            // If the context has a device, the default callback `get_format` selects the device's pixel format.
            // SAFETY: `self` owns the context, which is not open yet.
            unsafe { device.attach(self.0.as_ptr()) }.map_err(with_remedy)?;
        }
        // SAFETY: the context was allocated for this codec and is not open yet.
        let code = unsafe { (functions.open)(self.0.as_ptr(), codec, std::ptr::null_mut()) };
        if code < 0 {
            let what = format!("open its decoder {}", kind.name);
            let why = functions.error(&what, code);
            return Err(format!(
                "{why}; check its device and driver, or choose another decoder \
                 (`openuvr doctor` lists the working decoders)"
            ));
        }
        Ok(())
    }

    /// Makes the decoder report finished rows to `progress`.
    fn watch(&mut self, functions: &Functions, progress: NonNull<Progress>) {
        // SAFETY: this library allocated the context, and `self` owns it. `note` reads the address of `progress` from
        // `opaque`.
        unsafe {
            self.0.as_mut().opaque = progress.as_ptr().cast();
            if !functions.report_rows(self.0.as_ptr(), note) {
                tracing::info!("this libavcodec does not report decoded rows");
            }
        }
    }

    fn free(self, functions: &Functions) {
        let mut context = self.0.as_ptr();
        // SAFETY: this library allocated the object, and nothing uses it afterwards.
        unsafe { (functions.free_context)(&raw mut context) }
    }
}

/// The decoder's progress with the incomplete picture.
struct Progress {
    functions: Arc<Functions>,
    /// A reference to the incomplete picture. It keeps the picture's memory valid even if the decoder releases the
    /// picture.
    frame: NonNull<AvFrame>,
    /// Final rows from the top; 0 without a picture.
    rows: u32,
}

impl Progress {
    fn start_picture(&mut self) {
        // SAFETY: `self` owns the frame. Its picture is not borrowed, because this method has `&mut self`.
        unsafe { (self.functions.frame_unref)(self.frame.as_ptr()) };
        self.rows = 0;
    }

    fn note(&mut self, frame: &AvFrame, rows: Option<u32>) {
        // SAFETY: `self` owns the frame, which lives as long as `self`.
        if unsafe { self.frame.as_ref() }.data[0] != frame.data[0] {
            self.start_picture();
            // SAFETY: `start_picture` has released the picture of `self.frame`. `frame` belongs to the library, and
            // references the picture in progress.
            if unsafe { (self.functions.frame_ref)(self.frame.as_ptr(), frame) } < 0 {
                return;
            }
        }
        self.rows = rows.unwrap_or(0);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        let mut frame = self.frame.as_ptr();
        // SAFETY: this library allocated the object, and nothing uses it afterwards.
        unsafe { (self.functions.frame_free)(&raw mut frame) }
    }
}

/// Called by the library, on the thread that has called the library.
unsafe extern "C" fn note(
    context: *mut AvCodecContext,
    frame: *const AvFrame,
    _: *const c_int,
    first: c_int,
    _: c_int,
    rows: c_int,
) {
    // SAFETY: the library passes the context and the picture in progress. `watch` stored the `Progress` in the context.
    // Nothing else accesses this `Progress` during a call into the library.
    let noted = unsafe { ((*context).opaque.cast::<Progress>().as_mut()).zip(frame.as_ref()) };
    if let Some((progress, frame)) = noted {
        progress.note(frame, u32::try_from(first.saturating_add(rows)).ok());
    }
}

/// A picture in dma-bufs, whose memory the decoder can't reuse while this value exists.
struct HeldFrame {
    functions: Arc<Functions>,
    /// A reference to a picture of the format DRM_PRIME.
    frame: NonNull<AvFrame>,
    descriptor: Descriptor,
}

// SAFETY: libavutil counts references atomically, so any thread may release the last reference. The frame is used only
// to hold this reference.
unsafe impl Send for HeldFrame {}
// SAFETY: shared references only read `descriptor`.
unsafe impl Sync for HeldFrame {}

impl Objects for HeldFrame {
    fn object(&self, number: usize) -> Option<BorrowedFd<'_>> {
        let fd = self.descriptor.objects().get(number)?.fd;
        // SAFETY: the picture owns its descriptors, and `self` holds a reference to the picture.
        (fd >= 0).then(|| unsafe { BorrowedFd::borrow_raw(fd) })
    }
}

impl Drop for HeldFrame {
    fn drop(&mut self) {
        let mut frame = self.frame.as_ptr();
        // SAFETY: this library allocated the object, and nothing uses it afterwards.
        unsafe { (self.functions.frame_free)(&raw mut frame) }
    }
}

fn no_memory() -> DecodeError {
    DecodeError("out of memory for a decoder".into())
}

/// The error for a decoder that can't be opened. `why` contains the reason and the remedy.
fn unusable(kind: &Kind, why: &str) -> DecodeError {
    DecodeError(format!("{} can't be used: {why}", kind.backend))
}

/// Adds the remedy to a reason why a decoder can't be opened.
fn with_remedy(why: String) -> String {
    why + "; choose another decoder"
}

/// An open decoder and its last picture.
pub(super) struct Decoder {
    functions: Arc<Functions>,
    kind: &'static Kind,
    device: Option<Device>,
    /// The frame that receives a picture copied from the device to main memory. It is then swapped with `frame`. `None`
    /// without a device.
    spare: Option<NonNull<AvFrame>>,
    /// `None` only if the codec could not be reopened.
    context: Option<Context>,
    /// Whether the context has received no data yet.
    fresh: bool,
    packet: NonNull<AvPacket>,
    /// Size of the packet's buffer without its padding.
    capacity: usize,
    frame: NonNull<AvFrame>,
    /// A `Box` that the context points to.
    progress: NonNull<Progress>,
    /// libavutil's numbers of the supported formats: they differ between major versions.
    formats: [(c_int, PixelFormat); 4],
    /// libavutil's number of the format of pictures in dma-bufs.
    drm_prime: c_int,
}

// SAFETY: a context, its packet and its frames may be used from any thread, one call at a time;
// `&mut self` ensures this, and `&self` only reads the frame.
unsafe impl Send for Decoder {}

impl Decoder {
    pub(super) fn open(kind: &'static Kind) -> Result<Decoder, DecodeError> {
        let functions = Functions::load().map_err(DecodeError)?;
        let opened = |device| {
            Device::open(&functions, device, None).map_err(|why| unusable(kind, &with_remedy(why)))
        };
        let device = kind.device.map(opened).transpose()?;
        let mut context = Context::open(&functions, kind, device.as_ref())?;
        let formats = [
            (c"yuv420p", PixelFormat::I420),
            (c"yuv444p", PixelFormat::I444),
            (c"gbrp", PixelFormat::Gbr),
            (c"nv12", PixelFormat::Nv12),
        ];
        // SAFETY: the names are NUL-terminated; an unknown name gives −1, which is not the format of any picture.
        let formats = formats
            .map(|(name, format)| (unsafe { (functions.pixel_format)(name.as_ptr()) }, format));
        // SAFETY: the name is NUL-terminated.
        let drm_prime = unsafe { (functions.pixel_format)(c"drm_prime".as_ptr()) };
        // SAFETY: both functions only allocate. The results are checked below, and `Drop` frees them.
        let (packet, frame) = unsafe { ((functions.packet_alloc)(), (functions.frame_alloc)()) };
        // SAFETY: as above.
        let under_way = unsafe { (functions.frame_alloc)() };
        let all = [frame, under_way].map(NonNull::new);
        let (Some(packet), [Some(frame), Some(under_way)]) = (NonNull::new(packet), all) else {
            return Err(no_memory());
        };
        let spare = kind.device.map(|_| {
            // SAFETY: the call only allocates. The result is checked here, and `Drop` frees it.
            NonNull::new(unsafe { (functions.frame_alloc)() }).ok_or_else(no_memory)
        });
        let spare = spare.transpose()?;
        let progress = NonNull::from(Box::leak(Box::new(Progress {
            functions: Arc::clone(&functions),
            frame: under_way,
            rows: 0,
        })));
        if !kind.whole {
            context.watch(&functions, progress);
        }
        Ok(Decoder {
            functions,
            kind,
            device,
            spare,
            context: Some(context),
            fresh: true,
            packet,
            capacity: 0,
            frame,
            progress,
            formats,
            drm_prime,
        })
    }

    /// Sends a chunk. Returns `false` if a picture must be received first.
    pub(super) fn send(&mut self, bytes: &[u8], pts: i64) -> Result<bool, String> {
        let context = self.context()?;
        self.fresh = false;
        self.make_room(bytes.len())?;
        let size = c_int::try_from(bytes.len()).map_err(|_| "a slice is too large")?;
        // SAFETY: `make_room` left an unshared buffer of `capacity + PADDING` bytes, and
        // `bytes.len() <= capacity`.
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
            return Err(format!(
                "a slice has {size} bytes; the maximum is {MAX_CHUNK}"
            ));
        }
        // SAFETY: `self` owns the packet, which has a buffer if `capacity` is not 0.
        let reusable = size <= self.capacity
            && self.capacity != 0
            && unsafe { (self.functions.buffer_is_writable)(self.packet.as_ref().buf) } != 0;
        if reusable {
            return Ok(());
        }
        let capacity = size.next_power_of_two().max(FIRST_CAPACITY);
        self.capacity = 0;
        let bytes = c_int::try_from(capacity).map_err(|_| "a slice is too large")?;
        // SAFETY: the old reference is released before the packet gets a new buffer.
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

    /// Whether the decoder takes only complete pictures.
    pub(super) fn is_whole(&self) -> bool {
        self.kind.whole
    }

    /// Receives a picture, if one is ready. Returns its `pts`.
    pub(super) fn receive(&mut self) -> Result<Option<i64>, String> {
        let context = self.context()?;
        // SAFETY: context and frame are valid; the library releases the frame's old picture.
        let code = unsafe { (self.functions.receive_frame)(context, self.frame.as_ptr()) };
        match code {
            EAGAIN => Ok(None),
            code if code < 0 => Err(self.functions.error("return a picture", code)),
            _ => {
                self.fetch()?;
                // SAFETY: the call above has filled the frame.
                Ok(Some(unsafe { self.frame.as_ref() }.pts))
            }
        }
    }

    /// Copies the received picture to main memory if it is in the memory of the device.
    fn fetch(&mut self) -> Result<(), String> {
        // SAFETY: the frame lives as long as `self`, and the library is not at work.
        let received = unsafe { self.frame.as_ref() };
        let here = |(number, _): &(c_int, PixelFormat)| *number == received.format;
        let Some(spare) = self.spare.filter(|_| !self.formats.iter().any(here)) else {
            return Ok(());
        };
        // SAFETY: `self` owns both frames. Their pictures are not borrowed, because this method has `&mut self`.
        unsafe { download(&self.functions, received, spare.as_ptr()) }?;
        self.spare = Some(std::mem::replace(&mut self.frame, spare));
        Ok(())
    }

    /// The last received picture.
    pub(super) fn picture(&self) -> Result<Picture<'_>, String> {
        // SAFETY: the frame lives as long as `self`, and only methods with `&mut self` write to it.
        self.read(unsafe { self.frame.as_ref() })
    }

    /// The last received picture, if it is in dma-bufs.
    pub(super) fn dma_bufs(&self) -> Result<Option<DmaBufPicture>, String> {
        // SAFETY: the frame lives as long as `self`, and only methods with `&mut self` write to it.
        let frame = unsafe { self.frame.as_ref() };
        if !self.kind.dma_bufs || frame.format != self.drm_prime {
            return Ok(None);
        }
        // SAFETY: in this format, `data[0]` is null or the descriptor's address, and the frame holds a reference to the
        // descriptor. The descriptor is aligned, because the library itself accesses it as this structure.
        let Some(descriptor) = (unsafe { frame.data[0].cast::<Descriptor>().as_ref() }) else {
            return Err("the picture has no description of its memory".to_owned());
        };
        let descriptor = *descriptor;
        let layout = descriptor.layout(size_of(frame)?);
        let layout = layout.map_err(|why| why.to_string())?;
        // SAFETY: the call only allocates. The result is checked here, and `HeldFrame` frees it.
        let held = NonNull::new(unsafe { (self.functions.frame_alloc)() });
        let held = HeldFrame {
            functions: Arc::clone(&self.functions),
            frame: held.ok_or_else(|| no_memory().to_string())?,
            descriptor,
        };
        // SAFETY: the new frame has no picture; `frame` has a picture, and the call adds a reference to it.
        let code = unsafe { (self.functions.frame_ref)(held.frame.as_ptr(), frame) };
        if code < 0 {
            return Err(self.functions.error("keep a picture", code));
        }
        let picture = DmaBufPicture::new(layout, Arc::new(held));
        picture.map(Some).map_err(|why| why.to_string())
    }

    /// Discards the progress of the previous picture.
    pub(super) fn begin_picture(&mut self) {
        // SAFETY: the progress lives as long as `self`, and the library is not at work.
        unsafe { self.progress.as_mut() }.start_picture();
    }

    /// The incomplete picture, and the number of its final rows, which do not change. The rest of the picture is
    /// undefined. `None` if there are no final rows, the library does not report them, or the picture can't be read.
    pub(super) fn progress(&self) -> Option<(Picture<'_>, u32)> {
        // SAFETY: the progress lives as long as `self`. Only methods with `&mut self` write to it, and also `note`. The
        // library calls `note` only during these methods.
        let progress = unsafe { self.progress.as_ref() };
        if progress.rows == 0 {
            return None;
        }
        // SAFETY: the frame lives as long as `progress`, and is written only by the same methods.
        let frame = unsafe { progress.frame.as_ref() };
        Some((self.read(frame).ok()?, progress.rows))
    }

    /// The picture that `frame` references.
    fn read<'a>(&'a self, frame: &'a AvFrame) -> Result<Picture<'a>, String> {
        let Some((_, format)) = (self.formats.iter()).find(|(number, _)| *number == frame.format)
        else {
            return Err(format!(
                "libavutil's pixel format {} is not supported: the host must encode 8 bits per sample with 4:2:0 or \
                 4:4:4 chroma",
                frame.format
            ));
        };
        let size = size_of(frame)?;
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
                return Err("a plane of the picture is missing or too narrow".into());
            }
            // SAFETY: a picture of this format has planes of these sizes, with rows `linesize`
            // apart; the frame holds a reference to them until `&mut self` releases it.
            let data =
                unsafe { std::slice::from_raw_parts(frame.data[i], stride * (rows - 1) + row) };
            *plane = Plane { data, stride };
        }
        Ok(Picture {
            size,
            format: *format,
            rows: RowOrder::TopDown,
            planes,
        })
    }

    /// Discards pending data and all references by reopening the codec. After a damaged slice, a
    /// flush is not enough, because libavcodec 59 keeps coefficients that are visible in the next
    /// key frame (found by the test with damaged bytes).
    pub(super) fn restart(&mut self) {
        if self.fresh {
            return;
        }
        // SAFETY: `self` owns the frame. Its picture is not borrowed, because this method has `&mut self`.
        unsafe { (self.functions.frame_unref)(self.frame.as_ptr()) };
        if let Some(context) = self.context.take() {
            context.free(&self.functions);
        }
        self.begin_picture();
        self.context = Context::open(&self.functions, self.kind, self.device.as_ref())
            .inspect_err(|error| tracing::warn!(%error, "libavcodec could not be reopened"))
            .ok();
        if let (Some(context), false) = (&mut self.context, self.kind.whole) {
            context.watch(&self.functions, self.progress);
        }
        self.fresh = self.context.is_some();
    }

    fn context(&self) -> Result<*mut AvCodecContext, String> {
        let context = self
            .context
            .as_ref()
            .ok_or("libavcodec could not be reopened")?;
        Ok(context.0.as_ptr())
    }
}

fn size_of(frame: &AvFrame) -> Result<Size, String> {
    let side = |n: c_int| u32::try_from(n).unwrap_or(0);
    let size = Size::new(side(frame.width), side(frame.height));
    if !size.is_valid() || size.pixels() > MAX_PIXELS {
        return Err(format!("invalid picture size {size}"));
    }
    Ok(size)
}

impl Drop for Decoder {
    fn drop(&mut self) {
        let (mut frame, mut packet) = (self.frame.as_ptr(), self.packet.as_ptr());
        // SAFETY: this library allocated the object, and nothing uses it afterwards.
        unsafe {
            (self.functions.frame_free)(&raw mut frame);
            (self.functions.packet_free)(&raw mut packet);
            if let Some(spare) = self.spare {
                let mut spare = spare.as_ptr();
                (self.functions.frame_free)(&raw mut spare);
            }
        }
        if let Some(context) = self.context.take() {
            context.free(&self.functions);
        }
        // SAFETY: the progress is a leaked `Box`, and the context that pointed to it was freed above.
        drop(unsafe { Box::from_raw(self.progress.as_ptr()) });
    }
}

#[cfg(all(test, feature = "host"))]
mod tests {
    use std::os::fd::AsRawFd as _;

    use super::*;
    use crate::dma_buf::NV12;

    /// libavcodec's own decoder, in place of a decoder that provides dma-bufs.
    static KIND: Kind = Kind {
        backend: "h264",
        name: "h264",
        options: &[],
        whole: true,
        dma_bufs: true,
        device: None,
    };

    #[test]
    fn an_unusable_decoder_is_named_as_on_the_command_line() {
        static UNUSABLE: Kind = Kind {
            backend: "h264_test",
            name: "h264",
            options: &[("no_such_option", "1")],
            whole: true,
            dma_bufs: false,
            device: None,
        };
        let opened = Decoder::open(&UNUSABLE).map(drop);
        let why = opened.expect_err("no such option").to_string();
        assert!(why.starts_with("h264_test can't be used: "), "{why}");
        assert!(why.ends_with("; choose another decoder"), "{why}");
    }

    #[test]
    fn only_declared_codecs_are_asked_for_dma_bufs() {
        let functions = Functions::load().expect("libavcodec");
        // SAFETY: the name is NUL-terminated; codec and context come from this library, and the context is freed once.
        unsafe {
            let codec = (functions.find_decoder)(c"h264".as_ptr());
            assert!(!functions.provides_dma_bufs(codec));
            let mut context = (functions.alloc_context)(codec);
            let set = functions.set_own(context, "pixel_format", "drm_prime");
            assert_eq!(set, Ok(()), "the option exists");
            (functions.free_context)(&raw mut context);
        }
    }

    /// Turns the decoder's last picture into a picture in dma-bufs, with this descriptor or without a descriptor.
    fn returns(decoder: &mut Decoder, descriptor: Option<&'static Descriptor>) {
        let functions = Arc::clone(&decoder.functions);
        // SAFETY: the decoder owns the frame and has no other user. The frame owns a reference-counted buffer.
        unsafe {
            let frame = decoder.frame.as_mut();
            (functions.frame_unref)(frame);
            (frame.width, frame.height) = (64, 32);
            frame.format = (functions.pixel_format)(c"yuv420p".as_ptr());
            assert_eq!((functions.frame_buffer)(frame, 0), 0);
            frame.format = decoder.drm_prime;
            frame.data[0] = descriptor.map_or(std::ptr::null_mut(), |descriptor| {
                std::ptr::from_ref(descriptor).cast_mut().cast()
            });
        }
    }

    #[test]
    fn a_picture_in_dma_bufs_outlives_its_decoder() {
        let mut decoder = Decoder::open(&KIND).expect("libavcodec");
        returns(&mut decoder, None);
        let why = decoder.dma_bufs().expect_err("no descriptor");
        assert!(why.contains("no description"), "{why}");
        let file = tempfile::tempfile().expect("a file");
        let number = file.as_raw_fd();
        let described = Descriptor::linear(number, NV12, &[(0, 64), (64 * 32, 64)]);
        returns(&mut decoder, Some(Box::leak(Box::new(described))));
        let picture = decoder.dma_bufs().expect("valid").expect("in dma-bufs");
        drop(decoder);
        assert_eq!(picture.size(), Size::new(64, 32));
        assert_eq!(picture.layout().planes()[1].offset, 64 * 32);
        let object = picture.object(0).map(|fd| fd.as_raw_fd());
        assert_eq!(object, Some(number));
        assert!(picture.object(1).is_none());
    }
}
