//! H.264 with libx264, loaded at run time: each slice is delivered as soon as it is encoded.
//!
//! The library's rate control is used only on request: its cost analysis takes 1 ms (720p) to 2 ms (1080p) before the
//! first slice. The quantiser of each picture is in its [`FrameRequest`].

mod options;
mod part;
mod sys;

use openuvr_proto::id::FrameId;
use openuvr_proto::units::Bitrate;

use self::part::CompositePicture;
use super::slice_order::{Pool, SliceOrder};
use super::{
    Backend, Chroma, Codec, EncodeError, Encoded, Encoder, EncoderOptions, FrameRequest, Rate,
    RateSupport, Refresh, Settings, Slice, check_picture, h264_sei, macroblocks,
};
use crate::picture::{Picture, PixelFormat};

/// The table entry.
pub const BACKEND: Backend = Backend {
    name: "x264",
    about: "H.264 by libx264 on the processor, slice by slice",
    codec: Codec::H264,
    pixels: &[Chroma::Yuv420, Chroma::Rgb, Chroma::Yuv444],
    rates: RateSupport::Either,
    refreshes: true,
    options: Some("x264 --fullhelp"),
    hardware: false,
    open: |opening| open(opening.settings, opening.options),
};

/// Maximum quantiser (ITU-T H.264 7.4.2.2, 8 bits per sample).
const QP_MAX: u8 = 51;

/// IEC 61966-2-1 in ITU-T H.264 table E-4.
const SRGB: i32 = 13;

/// Size of the decoded picture buffer. With it, an older picture can be the reference after a loss. Eight pictures
/// cover 7 frames of feedback delay, and cost only memory.
const DPB: u8 = 8;

/// libx264 gives each sliced thread at least this many rows of macroblocks, and reduces the number
/// of threads accordingly.
const MIN_ROWS_PER_THREAD: u16 = 4;

/// Initial size of a slice's buffer. Ordinary slices have 1 to 10 kB, and slices of key frames have 20 kB.
const SLICE_CAPACITY: usize = 64 * 1024;

struct X264 {
    encoder: sys::Encoder,
    input: PixelFormat,
    library: sys::Library,
    settings: Settings,
    options: EncoderOptions,
    slice_layout: SliceLayout,
    total_mbs: u32,
    /// The number of macroblocks of the first thread, whose slices are sent first. Threads may share a core with each
    /// other or with a client's decoder. With real-time scheduling, the first thread therefore has a priority one level
    /// higher than the other threads. The decoder then need not wait for the complete picture. Measured on two cores
    /// with a host and a client: see `docs/adr/0003-encoder-defaults.md`.
    first_part: u32,
    pool: Pool,
    /// Memory of the composed picture, for a frame in which only a part of the picture is encoded.
    mixed: CompositePicture,
    newest: FrameId,
    /// Whether the last frame failed, so that references can't be trusted.
    broken: bool,
}

fn open(settings: &Settings, options: &EncoderOptions) -> Result<Box<dyn Encoder>, EncodeError> {
    let library = sys::Library::open(std::env::var_os("OPENUVR_X264"))?;
    Ok(Box::new(X264::new(&library, settings, options)?))
}

impl X264 {
    fn new(
        library: &sys::Library,
        settings: &Settings,
        options: &EncoderOptions,
    ) -> Result<X264, EncodeError> {
        let size = settings.size;
        let (columns, rows) = macroblocks(size)
            .ok_or_else(|| EncodeError(format!("{size} has too many macroblocks for H.264")))?;
        let slice_layout = SliceLayout::new(columns, rows, settings.slices, settings.threads);
        let encoder = library.encoder(&parameters(library, settings, &slice_layout, options)?)?;
        tracing::debug!(%size, ?slice_layout, build = sys::X264_BUILD, "opened libx264");
        Ok(X264 {
            encoder,
            input: match settings.pixels {
                Chroma::Yuv420 => PixelFormat::Nv12,
                Chroma::Rgb => PixelFormat::Bgrx,
                Chroma::Yuv444 => PixelFormat::I444,
            },
            library: library.clone(),
            settings: *settings,
            options: options.clone(),
            slice_layout,
            total_mbs: u32::from(columns) * u32::from(rows),
            first_part: u32::from(columns) * thread_start(rows, slice_layout.threads, 1),
            // Two more buffers are needed for the parameter sets.
            pool: (0..usize::from(slice_layout.slices) + 2)
                .map(|_| Vec::with_capacity(SLICE_CAPACITY))
                .collect(),
            mixed: CompositePicture::default(),
            newest: FrameId::NONE,
            broken: false,
        })
    }
}

impl Encoder for X264 {
    fn input(&self) -> PixelFormat {
        self.input
    }

    fn slices(&self) -> u8 {
        self.slice_layout.slices
    }

    fn memory(&self) -> u8 {
        match self.settings.refresh {
            None => DPB - 1,
            Some(_) => 1,
        }
    }

    fn supports_partial(&self) -> bool {
        // An intra refresh would also code macroblocks outside of the part.
        self.input != PixelFormat::Bgrx
            && self.settings.rate == Rate::Own
            && self.settings.refresh.is_none()
    }

    fn encode(
        &mut self,
        picture: &Picture<'_>,
        ask: &FrameRequest<'_>,
        sink: &mut (dyn FnMut(Slice<'_>) + Send),
    ) -> Result<Encoded, EncodeError> {
        check_picture(picture, self.settings.size, self.input)?;
        let skips_back = ask.reference != FrameId::NONE && ask.reference < self.newest;
        if skips_back && !ask.key_frame {
            self.encoder.forget_from(i64::from(ask.reference.0) + 1)?;
        }
        if ask.refresh && self.settings.refresh.is_some() && !ask.key_frame {
            self.encoder.refresh();
        }
        self.newest = ask.frame;
        let follows = !(skips_back || ask.key_frame || self.broken);
        let mixed = match ask.part.filter(|_| follows) {
            Some(part) => (self.encoder.newest(self.input, self.settings.size))
                .and_then(|known| self.mixed.of(picture, &known, part)),
            None => None,
        };
        let order = SliceOrder::new(self.total_mbs, std::mem::take(&mut self.pool), sink);
        let input = sys::Input {
            picture: mixed.as_ref().unwrap_or(picture),
            key_frame: ask.key_frame || self.broken,
            qp: (self.settings.rate == Rate::Own).then_some(ask.qp.min(QP_MAX)),
            pts: i64::from(ask.frame.0),
            unchanged: (ask.unchanged)
                .filter(|all| follows && mixed.is_none() && all.len() == self.total_mbs as usize),
        };
        self.broken = true;
        let (first_part, total) = (self.first_part, self.total_mbs);
        let result = self.encoder.encode(&input, &|nal: sys::Nal<'_>| {
            if let Some((first_mb, _)) = nal.macroblocks().filter(|_| first_part < total) {
                sys::boost_priority(first_mb < first_part);
            }
            hand_over(nal, &order);
        });
        let outcome = order.finish();
        self.pool = outcome.pool;
        let key_frame = result?;
        if !outcome.complete {
            return Err(EncodeError(format!(
                "libx264 skipped macroblocks of frame {}: the next frame must be a key frame",
                ask.frame.0
            )));
        }
        self.broken = false;
        Ok(Encoded {
            key_frame,
            bytes: outcome.bytes,
            clean_after: outcome.clean_after,
        })
    }

    fn retarget(&mut self, bitrate: Bitrate) -> Result<(), EncodeError> {
        if self.settings.rate == Rate::Own {
            return Ok(());
        }
        let settings = Settings {
            rate: Rate::Cbr(bitrate),
            ..self.settings
        };
        let parameters = parameters(&self.library, &settings, &self.slice_layout, &self.options)?;
        self.encoder.reconfigure(&parameters)?;
        self.settings = settings;
        Ok(())
    }
}

/// The slices of a picture. With sliced threads, libx264 ignores `i_slice_count`, and slices each
/// thread's rows separately.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct SliceLayout {
    threads: u8,
    slices: u8,
    /// Maximum number of macroblocks of a slice. If 0, the picture is divided by rows into `slices` slices.
    max_mbs: u32,
}

impl SliceLayout {
    /// A layout with at most `slices` slices and at most `threads` threads, and at least one slice
    /// per thread.
    fn new(columns: u16, rows: u16, slices: u8, threads: u8) -> SliceLayout {
        let at_most = |limit: u16| u8::try_from(limit.max(1)).unwrap_or(u8::MAX);
        let slices = slices.min(at_most(rows));
        let threads = threads.min(slices).min(at_most(rows / MIN_ROWS_PER_THREAD));
        if threads == 1 {
            return SliceLayout {
                threads,
                slices,
                max_mbs: 0,
            };
        }
        let start = |i: u8| thread_start(rows, threads, i);
        let mbs = |i: u8| (start(i + 1) - start(i)) * u32::from(columns);
        let largest = (0..threads).map(mbs).max().unwrap_or(1);
        let max_mbs = largest.div_ceil(u32::from(slices / threads));
        let total: u32 = (0..threads).map(|i| mbs(i).div_ceil(max_mbs)).sum();
        SliceLayout {
            threads,
            slices: u8::try_from(total).unwrap_or(u8::MAX),
            max_mbs,
        }
    }
}

/// Writes a NAL unit and passes it to the slice order.
fn hand_over(nal: sys::Nal<'_>, order: &SliceOrder<'_>) {
    let mut bytes = order.buffer();
    if !(nal.is_slice() || nal.is_parameter_set()) {
        // Two kinds of units are not sent: the banner with the library's version (700 bytes of the first frame), and
        // the recovery point SEI message of an intra refresh. [`Slice::clean_after`] replaces this message.
        nal.encode(&mut bytes);
        if let Some(frames) = h264_sei::clean_after(&bytes) {
            order.clean_after(frames);
        }
        return order.unused(bytes);
    }
    let macroblocks = nal.macroblocks();
    nal.encode(&mut bytes);
    match macroblocks {
        Some((first_mb, mbs)) => order.slice(first_mb, mbs, bytes),
        None => order.parameter_set(bytes),
    }
}

/// The first row of macroblocks of libx264's thread `i`.
fn thread_start(rows: u16, threads: u8, i: u8) -> u32 {
    let (rows, n) = (u32::from(rows), u32::from(threads));
    (rows * u32::from(i) + n / 2) / n
}

fn parameters(
    library: &sys::Library,
    settings: &Settings,
    slice_layout: &SliceLayout,
    options: &EncoderOptions,
) -> Result<sys::x264_param_t, EncodeError> {
    let number = |n: u32| i32::try_from(n).unwrap_or(i32::MAX);
    let mut p = options::preset(library, options)?;
    let (references, subpel) = match options.value(options::PRESET) {
        // A requested preset determines the number of references and the precision of the motion search.
        Some(_) => (p.i_frame_reference, p.analyse.i_subpel_refine),
        None => (1, i32::from(settings.subpel)),
    };
    p.i_log_level = sys::X264_LOG_NONE;

    p.i_width = number(settings.size.width);
    p.i_height = number(settings.size.height);
    let (layout, matrix, full) = match settings.pixels {
        Chroma::Yuv420 => (sys::X264_CSP_NV12, 1, 0),
        Chroma::Yuv444 => (sys::X264_CSP_I444, 1, 0),
        Chroma::Rgb => (sys::X264_CSP_BGRA, 0, 1),
    };
    p.i_csp = number(layout);
    p.i_bitdepth = 8;
    p.vui.b_fullrange = full;
    // BT.709 is number 1 of ITU-T H.264 tables E-3, E-4 and E-5, GBR is number 0 of E-5.
    p.vui.i_colorprim = 1;
    p.vui.i_transfer = if full == 1 { SRGB } else { 1 };
    p.vui.i_colmatrix = matrix;
    p.i_fps_num = settings.fps;
    p.i_fps_den = 1;
    p.i_timebase_num = 1;
    p.i_timebase_den = settings.fps;
    p.b_vfr_input = 0;

    p.i_keyint_max = number(sys::X264_KEYINT_MAX_INFINITE);
    p.i_scenecut_threshold = 0;
    p.b_intra_refresh = i32::from(settings.refresh.is_some());
    if let Some(Refresh::Every(frames)) = settings.refresh {
        p.i_keyint_max = i32::from(frames.max(2));
    }
    p.i_bframe = 0;
    p.i_frame_reference = references;
    // With intra refresh, libx264 keeps a single reference picture, and refuses to discard it.
    p.i_dpb_size = match settings.refresh {
        None => i32::from(DPB),
        Some(_) => 1,
    };
    p.b_cabac = 0; // the client conceals with all-P_Skip slices, which need CAVLC
    p.analyse.i_weighted_pred = 0;
    // Full-pixel motion, or quarter-pixel motion with one refinement. Measured on slow motion at 720p, 60 frames/s and
    // 10 Mb/s, with two threads: quarter-pixel motion takes 1.2 ms more per frame, and gains 3.5 dB of luma PSNR.
    p.analyse.i_subpel_refine = subpel;
    // `b_mb_info` costs nothing if no frame has unchanged areas.
    p.analyse.b_mb_info = 1;
    p.b_aud = 0;
    p.b_annexb = 1;
    p.b_repeat_headers = 1;

    match settings.rate {
        // In CQP mode, libx264 clamps a picture's quantiser between the quantisers of I and B pictures. The factors
        // widen this range by 36 steps on both sides.
        Rate::Own => {
            p.rc.i_rc_method = number(sys::X264_RC_CQP);
            p.rc.i_qp_constant = 26;
            p.rc.f_ip_factor = 64.0;
            p.rc.f_pb_factor = 64.0;
            p.rc.i_vbv_max_bitrate = 0;
            p.rc.i_vbv_buffer_size = 0;
        }
        Rate::Cbr(bitrate) => constant_rate(&mut p, bitrate),
    }

    p.i_threads = i32::from(slice_layout.threads);
    p.b_sliced_threads = i32::from(slice_layout.threads > 1);
    if slice_layout.max_mbs == 0 {
        p.i_slice_count = i32::from(slice_layout.slices);
    } else {
        p.i_slice_max_mbs = number(slice_layout.max_mbs);
    }
    options::apply(library, options, &mut p)?;
    Ok(p)
}

/// Constant bitrate per frame, as far as libx264 supports it: its VBV (ITU-T H.264 annex C) holds
/// one frame.
fn constant_rate(p: &mut sys::x264_param_t, bitrate: Bitrate) {
    // libx264 counts in kb/s; its limit is 2 Gb/s.
    let rate = i32::try_from(bitrate.0 / 1000).unwrap_or(i32::MAX);
    let rate = rate.clamp(1, 2_000_000);
    let fps = i32::try_from(p.i_fps_num).unwrap_or(i32::MAX).max(1);
    p.rc.i_rc_method = i32::try_from(sys::X264_RC_ABR).unwrap_or_default();
    p.rc.i_bitrate = rate;
    p.rc.i_vbv_max_bitrate = rate;
    p.rc.i_vbv_buffer_size = (rate / fps).max(1);
}

#[cfg(test)]
mod tests {
    use openuvr_proto::units::Size;

    use super::*;

    #[test]
    fn a_layout_never_exceeds_the_requested_slices() {
        for (columns, rows) in [(80, 45), (120, 68), (54, 30), (1, 1), (2, 9)] {
            for slices in 1..=64 {
                for threads in 1..=64 {
                    let slice_layout = SliceLayout::new(columns, rows, slices, threads);
                    assert!(
                        (1..=slices).contains(&slice_layout.slices),
                        "{slice_layout:?}"
                    );
                    assert!(
                        (1..=threads).contains(&slice_layout.threads),
                        "{slice_layout:?}"
                    );
                }
            }
        }
        assert_eq!(SliceLayout::new(80, 45, 8, 2).slices, 8);
        assert_eq!(SliceLayout::new(120, 68, 16, 4).slices, 16);
    }

    #[test]
    fn a_wrong_library_path_names_the_library() {
        let error = sys::Library::open(Some("/nonexistent/libx264.so".into()))
            .err()
            .expect("no such file")
            .to_string();
        assert!(error.contains("/nonexistent/libx264.so"), "{error}");
        assert!(
            error.contains(&format!("build {}", sys::X264_BUILD)),
            "{error}"
        );
        assert!(error.contains("apt install libx264-"), "{error}");
    }

    #[test]
    fn a_library_of_another_kind_is_refused() {
        let error = sys::Library::open(Some("libc.so.6".into()))
            .err()
            .expect("not libx264")
            .to_string();
        assert!(error.contains("x264_encoder_open_"), "{error}");
    }

    #[test]
    fn a_panic_in_the_sink_leaves_the_encoder_usable() {
        let size = Size::new(64, 64);
        let settings = Settings {
            slices: 2,
            ..Settings::of(size)
        };
        let mut encoder = open(&settings, &EncoderOptions::NONE).expect("libx264");
        let (luma, chroma) = (vec![90; 64 * 64], vec![128; 64 * 32]);
        let plane = |data| crate::picture::Plane { data, stride: 64 };
        let picture = Picture {
            size,
            format: PixelFormat::Nv12,
            rows: crate::picture::RowOrder::TopDown,
            planes: [plane(&luma), plane(&chroma), crate::picture::Plane::EMPTY],
        };
        let ask = FrameRequest {
            frame: FrameId(1),
            key_frame: false,
            reference: FrameId::NONE,
            refresh: false,
            qp: 30,
            part: None,
            unchanged: None,
        };
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            encoder.encode(&picture, &ask, &mut |_| panic!("panic of the sink"))
        }));
        assert!(panicked.is_err());
        let encoded = encoder.encode(&picture, &ask, &mut |_| {}).expect("usable");
        assert!(encoded.key_frame, "a key frame follows a failure");
    }
}
