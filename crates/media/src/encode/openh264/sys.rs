//! libopenh264, loaded at run time: its function table and structures. The parent module explains
//! the settings.
//!
//! The structures are from codec_api.h and codec_app_def.h of version 2.3.1 (Debian 12, tested here). Versions 2.1 to
//! 2.5 have the same structures. Version 2.6 (Debian 13, not tested) adds three numbers at the end of each output
//! layer, and adds fields after the last declared field of the other structures.
#![allow(unsafe_code)]

use std::ffi::{OsString, c_int, c_longlong, c_uchar, c_uint, c_void};
use std::mem::{offset_of, size_of};
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::encode::{EncodeError, Settings};
use crate::picture::Picture;
use crate::sys::{open, words};

/// Maximum number of slices per layer (`MAX_SLICES_NUM_TMP`).
pub(super) const MAX_SLICES: u8 = 35;

/// `MAX_LAYER_NUM_OF_FRAME`.
const LAYERS: usize = 128;
const RC_OFF_MODE: c_int = -1;
const PRO_BASELINE: c_int = 66;
const SM_SINGLE_SLICE: c_int = 0;
const SM_FIXEDSLCNUM_SLICE: c_int = 1;
const VIDEO_FORMAT_I420: c_int = 23;
const VIDEO_FORMAT_UNDEFINED: c_uchar = 5;
/// A required value that is ignored while the rate control is off.
const BITRATE: c_int = 100_000_000;
/// ITU-T H.264 tables E-3 to E-5.
const BT709: c_uchar = 1;
const ENCODER_OPTION_SVC_ENCODE_PARAM_EXT: c_int = 3;
const ENCODER_OPTION_TRACE_LEVEL: c_int = 25;
const WELS_LOG_QUIET: c_int = 0;

#[derive(Clone, Copy)]
#[repr(C)]
struct SliceArgument {
    mode: c_int,
    count: c_uint,
    mbs: [c_uint; MAX_SLICES as usize],
    bytes: c_uint,
}

#[derive(Clone, Copy)]
#[repr(C)]
struct Layer {
    width: c_int,
    height: c_int,
    fps: f32,
    bitrate: c_int,
    max_bitrate: c_int,
    profile: c_int,
    level: c_int,
    qp: c_int,
    slices: SliceArgument,
    signal_present: u8,
    format: c_uchar,
    full_range: u8,
    colour_present: u8,
    primaries: c_uchar,
    transfer: c_uchar,
    matrix: c_uchar,
    aspect_present: u8,
    aspect: c_int,
    aspect_width: u16,
    aspect_height: u16,
}

#[derive(Clone, Copy)]
#[repr(C)]
struct Parameters {
    usage: c_int,
    width: c_int,
    height: c_int,
    bitrate: c_int,
    rate_control: c_int,
    fps: f32,
    temporal_layers: c_int,
    spatial_layers: c_int,
    layers: [Layer; 4],
    complexity: c_int,
    intra_period: c_uint,
    references: c_int,
    id_strategy: c_int,
    prefix_units: u8,
    messages: u8,
    simulcast: u8,
    padding: c_int,
    cabac: c_int,
    frame_skip: u8,
    max_bitrate: c_int,
    max_qp: c_int,
    min_qp: c_int,
    max_unit: c_uint,
    long_term: u8,
    long_term_references: c_int,
    long_term_period: c_uint,
    threads: u16,
    load_balancing: u8,
    loop_filter_off: c_int,
    loop_filter_alpha: c_int,
    loop_filter_beta: c_int,
    denoise: u8,
    background_detection: u8,
    adaptive_quantiser: u8,
    cropping: u8,
    scene_change: u8,
    lossless_link: u8,
    fix_overshoot: u8,
    key_frame_percent: c_int,
    /// Space for fields of later versions.
    _later: [u64; 16],
}

// This size and these offsets were compared with a C compiler's results for the headers.
const _: () = assert!(size_of::<Layer>() == 200 && offset_of!(Parameters, complexity) == 832);
const _: () = assert!(offset_of!(Parameters, max_qp) == 868);
const _: () = assert!(offset_of!(Parameters, threads) == 892);
const _: () = assert!(offset_of!(Parameters, key_frame_percent) == 916);
const _: () = assert!(offset_of!(SourcePicture, millis) == 64);
#[cfg(not(target_pointer_width = "64"))]
compile_error!(
    "libopenh264's structures are only verified for 64-bit machines: check them for this one"
);

#[repr(C)]
struct SourcePicture {
    format: c_int,
    strides: [c_int; 4],
    planes: [*const c_uchar; 4],
    width: c_int,
    height: c_int,
    millis: c_longlong,
    /// Space for fields of later versions.
    _later: [u64; 4],
}

/// The first fields of an output layer, common to all versions.
#[repr(C)]
struct LayerInfo {
    _ids: [u8; 3],
    _frame_type: c_int,
    _layer_type: u8,
    _sub_sequence: c_int,
    units: c_int,
    lengths: *const c_int,
    bytes: *const c_uchar,
}

/// Sizes of an output layer in bytes: up to version 2.5, and from version 2.6 on.
const LAYER_INFO: usize = size_of::<LayerInfo>();
const LAYER_INFO_2_6: usize = 56;
const _: () = assert!(LAYER_INFO == 40);

/// Length of the output of any version, in 8-byte words: the number of layers, the layers, and later fields.
const ANSWER: usize = 1 + LAYERS * LAYER_INFO_2_6 / 8 + 8;
type Answer = [u64; ANSWER];

/// The encoder's functions, in the order of `ISVCEncoderVtbl`.
#[repr(C)]
struct Table {
    _initialise: unsafe extern "C" fn(),
    initialise: unsafe extern "C" fn(Handle, *const Parameters) -> c_int,
    defaults: unsafe extern "C" fn(Handle, *mut Parameters) -> c_int,
    uninitialise: unsafe extern "C" fn(Handle) -> c_int,
    encode: unsafe extern "C" fn(Handle, *const SourcePicture, *mut Answer) -> c_int,
    _parameter_sets: unsafe extern "C" fn(),
    /// The last argument is the layer, or −1 for all layers. The C++ implementation reads it, but the C header omits
    /// it.
    key_frame: unsafe extern "C" fn(Handle, bool, c_int) -> c_int,
    set_option: unsafe extern "C" fn(Handle, c_int, *mut c_void) -> c_int,
}

/// An `ISVCEncoder`: its first field is a pointer to the table.
type Handle = *mut *const Table;

/// The loaded library.
#[derive(Clone)]
pub(super) struct Library(Arc<Functions>);

struct Functions {
    create: unsafe extern "C" fn(*mut Handle) -> c_int,
    destroy: unsafe extern "C" fn(Handle),
    /// Size of an output layer.
    layer_info: usize,
    _library: libloading::Library,
}

impl Library {
    /// Loads `path`, or the system's library.
    ///
    /// # Errors
    /// [`EncodeError`] with the path, the reason, and what to do.
    pub(super) fn open(path: Option<OsString>) -> Result<Library, EncodeError> {
        let files = match path {
            Some(path) => vec![path],
            None => ["libopenh264.so.8", "libopenh264.so.7", "libopenh264.so.6"]
                .map(OsString::from)
                .to_vec(),
        };
        let named = files.last().cloned().unwrap_or_default();
        // SAFETY: libopenh264 has no initialiser with preconditions.
        let opened = unsafe { open(&files) };
        opened
            .and_then(Functions::load)
            .map(|functions| Library(Arc::new(functions)))
            .map_err(|reason| {
                EncodeError(format!(
                    "{} can't be used ({reason}): libopenh264 2.1 to 2.6 is required; apt \
                     install libopenh264-7 (Debian 13: libopenh264-8, Ubuntu 22.04: libopenh264-6), \
                     or set OPENUVR_OPENH264 to its path",
                    Path::new(&named).display()
                ))
            })
    }

    pub(super) fn encoder(&self, settings: &Settings) -> Result<Encoder, EncodeError> {
        let mut handle: Handle = std::ptr::null_mut();
        // SAFETY: the function writes one pointer, to `handle`.
        let failed = unsafe { (self.0.create)(&raw mut handle) };
        let handle = NonNull::new(handle)
            .filter(|_| failed == 0)
            .ok_or_else(|| EncodeError("libopenh264 is out of memory".into()))?;
        let mut encoder = Encoder {
            library: self.clone(),
            handle,
            // SAFETY: all fields are numbers, for which zero is valid.
            parameters: Box::new(unsafe { std::mem::zeroed() }),
            answer: Box::new([0; ANSWER]),
            open: false,
        };
        encoder.set_up(settings)?;
        Ok(encoder)
    }
}

impl Functions {
    fn load(library: libloading::Library) -> Result<Functions, String> {
        type Create = unsafe extern "C" fn(*mut Handle) -> c_int;
        type Destroy = unsafe extern "C" fn(Handle);
        type Version = unsafe extern "C" fn(*mut [c_uint; 4]);
        // SAFETY: the functions have these types in every version of libopenh264.
        let (create, destroy, version) = unsafe {
            let get = |name: &[u8]| library.get::<Create>(name).map(|symbol| *symbol);
            let create = get(b"WelsCreateSVCEncoder").map_err(|e| words(&e))?;
            let destroy: Destroy =
                *(library.get(b"WelsDestroySVCEncoder")).map_err(|e| words(&e))?;
            let version: Version =
                *(library.get(b"WelsGetCodecVersionEx")).map_err(|e| words(&e))?;
            (create, destroy, version)
        };
        let mut found = [0; 4];
        // SAFETY: the function writes four numbers, and `found` has four.
        unsafe { version(&raw mut found) };
        let layer_info = match (found[0], found[1]) {
            (2, 1..=5) => LAYER_INFO,
            (2, 6) => LAYER_INFO_2_6,
            (major, minor) => return Err(format!("its version is {major}.{minor}")),
        };
        Ok(Functions {
            create,
            destroy,
            layer_info,
            _library: library,
        })
    }
}

pub(super) struct Encoder {
    library: Library,
    handle: NonNull<*const Table>,
    parameters: Box<Parameters>,
    answer: Box<Answer>,
    /// Whether the encoder is initialised, and must be uninitialised on drop.
    open: bool,
}

// SAFETY: any thread may use a handle, but only one call at a time, which `&mut self` ensures. The output's pointers
// are only followed while `self` is borrowed.
unsafe impl Send for Encoder {}

impl Parameters {
    /// Changes the library's defaults to the required values.
    fn fill(&mut self, settings: &Settings) {
        let number = |n: u32| c_int::try_from(n).unwrap_or(c_int::MAX);
        self.usage = 0; // camera, real time
        self.width = number(settings.size.width);
        self.height = number(settings.size.height);
        self.bitrate = BITRATE;
        self.rate_control = RC_OFF_MODE;
        self.fps = f32::from(u16::try_from(settings.fps).unwrap_or(u16::MAX));
        self.temporal_layers = 1;
        self.complexity = 0;
        self.intra_period = 0; // key frames on request only
        self.references = 1;
        self.id_strategy = 0;
        (self.prefix_units, self.messages, self.simulcast) = (0, 0, 0);
        self.cabac = 0;
        self.frame_skip = 0;
        self.long_term = 0;
        (self.min_qp, self.max_qp) = (0, 51);
        self.threads = settings.threads.into();
        self.load_balancing = 0; // it would slice each picture differently
        self.loop_filter_off = 1; // as in x264's fastest preset: the filter would also cost decoder time
        (
            self.denoise,
            self.background_detection,
            self.adaptive_quantiser,
        ) = (0, 0, 0);
        self.scene_change = 0; // no automatic key frames
        self.cropping = 1;
        let layer = &mut self.layers[0];
        layer.width = self.width;
        layer.height = self.height;
        layer.fps = self.fps;
        layer.bitrate = self.bitrate;
        layer.max_bitrate = 0;
        layer.profile = PRO_BASELINE;
        layer.qp = 26;
        layer.slices.mode = match settings.slices {
            1 => SM_SINGLE_SLICE,
            _ => SM_FIXEDSLCNUM_SLICE,
        };
        layer.slices.count = settings.slices.into();
        (layer.signal_present, layer.colour_present) = (1, 1);
        layer.format = VIDEO_FORMAT_UNDEFINED;
        layer.full_range = 0;
        (layer.primaries, layer.transfer, layer.matrix) = (BT709, BT709, BT709);
    }
}

impl Encoder {
    fn table(&self) -> &Table {
        // SAFETY: an encoder that the library created starts with a pointer to a table of functions. The table lives as
        // long as the library.
        unsafe { &**self.handle.as_ptr() }
    }

    fn set_up(&mut self, settings: &Settings) -> Result<(), EncodeError> {
        let handle = self.handle.as_ptr();
        let mut quiet = WELS_LOG_QUIET;
        // SAFETY: the argument of the option is a number, and the parameters have space for those of any supported
        // version.
        let failed = unsafe {
            let option = (&raw mut quiet).cast();
            (self.table().set_option)(handle, ENCODER_OPTION_TRACE_LEVEL, option);
            (self.table().defaults)(handle, &raw mut *self.parameters)
        };
        let p = &mut *self.parameters;
        // These defaults show whether the library's structure has the expected layout.
        if failed != 0 || (p.spatial_layers, p.max_qp, p.key_frame_percent) != (1, 51, 400) {
            return Err(EncodeError(
                "this libopenh264's structures have an unknown layout: install the distribution's libopenh264"
                    .into(),
            ));
        }
        p.fill(settings);
        // SAFETY: the parameters are the library's defaults with changed values; the library copies them.
        let failed = unsafe { (self.table().initialise)(handle, &raw const *self.parameters) };
        if failed != 0 {
            return Err(EncodeError(format!(
                "libopenh264 refused to encode {} in {} slices with {} threads (it returned \
                 {failed}): try another size, or fewer slices",
                settings.size, settings.slices, settings.threads
            )));
        }
        self.open = true;
        Ok(())
    }

    /// Encodes an I420 picture of the encoder's size. The caller must have checked that the picture is complete.
    /// Returns its NAL units with start codes, which are valid until the next call.
    pub(super) fn encode(
        &mut self,
        picture: &Picture<'_>,
        qp: u8,
        key_frame: bool,
        millis: i64,
    ) -> Result<Vec<&[u8]>, EncodeError> {
        let handle = self.handle.as_ptr();
        let said = |what: &str, code: c_int| {
            EncodeError(format!(
                "libopenh264 could not {what} (it returned {code}): the next frame must be a key frame"
            ))
        };
        if self.parameters.layers[0].qp != c_int::from(qp) {
            self.parameters.layers[0].qp = qp.into();
            let option = (&raw mut *self.parameters).cast();
            // SAFETY: for this option, the argument is a parameter structure, which the library copies.
            let code = unsafe {
                (self.table().set_option)(handle, ENCODER_OPTION_SVC_ENCODE_PARAM_EXT, option)
            };
            if code != 0 {
                return Err(said("change the quantiser", code));
            }
        }
        if key_frame {
            // SAFETY: the function takes only numbers.
            let code = unsafe { (self.table().key_frame)(handle, true, -1) };
            if code != 0 {
                return Err(said("start a key frame", code));
            }
        }
        let mut source = SourcePicture {
            format: VIDEO_FORMAT_I420,
            strides: [0; 4],
            planes: [std::ptr::null(); 4],
            width: self.parameters.width,
            height: self.parameters.height,
            millis,
            _later: [0; 4],
        };
        for (i, plane) in picture.planes.iter().enumerate() {
            source.planes[i] = plane.data.as_ptr();
            source.strides[i] = c_int::try_from(plane.stride)
                .map_err(|_| EncodeError("a stride is over 2 GiB".into()))?;
        }
        // SAFETY: the caller has checked that the planes hold the complete picture, and the library only reads them.
        // The output has space for the output of any supported version.
        let code =
            unsafe { (self.table().encode)(handle, &raw const source, &raw mut *self.answer) };
        if code != 0 {
            return Err(said("encode a picture", code));
        }
        Ok(self.units())
    }

    /// The units listed in the output.
    fn units(&self) -> Vec<&[u8]> {
        let answer: *const u8 = (&raw const *self.answer).cast();
        // SAFETY: the output starts with the number of layers.
        let layers = unsafe { *answer.cast::<c_int>() };
        let layers = usize::try_from(layers).unwrap_or(0).min(LAYERS);
        let mut units = Vec::new();
        for layer in 0..layers {
            // SAFETY: the layers follow the number of layers, 8 bytes from the start, and each has the size
            // `layer_info`. Each layer points to the lengths of its units and to their contiguous bytes. The encoder
            // owns both, and they stay valid until its next call, which needs `&mut self`.
            unsafe {
                let layer = answer.add(8 + layer * self.library.0.layer_info);
                let layer = &*layer.cast::<LayerInfo>();
                let count = usize::try_from(layer.units).unwrap_or(0);
                if layer.lengths.is_null() || layer.bytes.is_null() {
                    continue;
                }
                let mut at = 0;
                for length in std::slice::from_raw_parts(layer.lengths, count) {
                    let length = usize::try_from(*length).unwrap_or(0);
                    units.push(std::slice::from_raw_parts(layer.bytes.add(at), length));
                    at += length;
                }
            }
        }
        units
    }
}

impl Drop for Encoder {
    fn drop(&mut self) {
        let handle = self.handle.as_ptr();
        // SAFETY: this library created the encoder, and nothing uses it afterwards.
        unsafe {
            if self.open {
                (self.table().uninitialise)(handle);
            }
            (self.library.0.destroy)(handle);
        }
    }
}
