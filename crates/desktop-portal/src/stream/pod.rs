//! Plain old data of PipeWire's SPA, as far as a picture stream needs it: formats, buffers, metadata.
//!
//! All data read here comes from another process, so lengths are checked and nesting is bounded.
//!
//! Spec: spa/pod/pod.h, spa/param/format.h, spa/param/buffers.h of PipeWire 0.3.65 (the same since 0.3.0).

use openuvr_media::picture::PixelFormat;
use openuvr_proto::units::Size;

/// `SPA_TYPE_Id`, `SPA_TYPE_Int`, `SPA_TYPE_Rectangle`, `SPA_TYPE_Fraction`, `SPA_TYPE_Object`, `SPA_TYPE_Choice`.
const ID: u32 = 3;
const INT: u32 = 4;
const RECTANGLE: u32 = 10;
const FRACTION: u32 = 11;
const OBJECT: u32 = 15;
const CHOICE: u32 = 19;

/// `SPA_CHOICE_Range`, `SPA_CHOICE_Enum`, `SPA_CHOICE_Flags`.
const RANGE: u32 = 1;
const ENUM: u32 = 3;
const FLAGS: u32 = 4;

/// `SPA_TYPE_OBJECT_Format`, `SPA_TYPE_OBJECT_ParamBuffers`, `SPA_TYPE_OBJECT_ParamMeta`.
const OBJECT_FORMAT: u32 = 0x40003;
const OBJECT_BUFFERS: u32 = 0x40004;
const OBJECT_META: u32 = 0x40005;

/// `SPA_PARAM_EnumFormat`, `SPA_PARAM_Format`, `SPA_PARAM_Buffers`, `SPA_PARAM_Meta`.
const PARAM_ENUM_FORMAT: u32 = 3;
pub(super) const PARAM_FORMAT: u32 = 4;
const PARAM_BUFFERS: u32 = 5;
const PARAM_META: u32 = 6;

/// `SPA_FORMAT_*` keys.
const FORMAT_MEDIA_TYPE: u32 = 1;
const FORMAT_MEDIA_SUBTYPE: u32 = 2;
const FORMAT_VIDEO_FORMAT: u32 = 0x20001;
const FORMAT_VIDEO_SIZE: u32 = 0x20003;
const FORMAT_VIDEO_FRAMERATE: u32 = 0x20004;

/// `SPA_MEDIA_TYPE_video`, `SPA_MEDIA_SUBTYPE_raw`.
const MEDIA_VIDEO: u32 = 2;
const MEDIA_RAW: u32 = 1;

/// `SPA_PARAM_BUFFERS_buffers`, `SPA_PARAM_BUFFERS_dataType`.
const BUFFERS_BUFFERS: u32 = 1;
const BUFFERS_DATA_TYPE: u32 = 6;

/// `SPA_PARAM_META_type`, `SPA_PARAM_META_size`.
const META_TYPE: u32 = 1;
const META_SIZE: u32 = 2;

/// `SPA_DATA_MemFd`.
pub(super) const DATA_MEM_FD: u32 = 2;

/// `SPA_META_*`: header, part of the picture, changed rectangles, pointer.
pub(super) const META_HEADER: u32 = 1;
pub(super) const META_CROP: u32 = 2;
pub(super) const META_DAMAGE: u32 = 3;
pub(super) const META_CURSOR: u32 = 5;

/// Bytes of `struct spa_meta_header`, `struct spa_meta_region`, and of `struct spa_meta_cursor` with
/// `struct spa_meta_bitmap`.
const HEADER_BYTES: i32 = 32;
const REGION_BYTES: i32 = 16;
const CURSOR_BYTES: i32 = 28 + 20;

/// Number of damage rectangles for which memory is requested (guess; KWin and Mutter 44 send the exact rectangles, and
/// merge them if there are more).
const DAMAGE_REGIONS: i32 = 16;

/// Sides of the pointer images for which memory is requested, in pixels: the usual side and the maximum. Mutter allocates
/// 384.
const CURSOR_SIDES: (i32, i32) = (64, 1024);

/// Number of buffers: one is being encoded, one waits for the frame rate limit, one is in transit, and one is being
/// written. A compositor may allocate 3 to 16 (KWin and Mutter allow 16).
const BUFFERS: (i32, i32, i32) = (4, 3, 16);

/// The accepted pixel formats: SPA's number, and this project's format. The first one is preferred. Alpha is ignored,
/// because a screen is opaque.
const FORMATS: [(u32, PixelFormat); 6] = [
    (8, PixelFormat::Bgrx),
    (12, PixelFormat::Bgrx),
    (7, PixelFormat::Rgbx),
    (11, PixelFormat::Rgbx),
    (16, PixelFormat::Bgr),
    (15, PixelFormat::Rgb),
];

/// Whether red comes first in memory in a pointer image of the SPA format with this number. `None` if it is not a known
/// format with alpha.
pub(super) fn image_red_first(format: u32) -> Option<bool> {
    match format {
        11 => Some(true),
        12 => Some(false),
        _ => None,
    }
}

/// A negotiated picture format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct VideoFormat {
    pub(super) size: Size,
    pub(super) pixels: PixelFormat,
}

/// An SPA object under construction.
struct Builder(Vec<u32>);

impl Builder {
    /// Begins an object with this type and parameter number.
    fn object(kind: u32, id: u32) -> Builder {
        Builder(vec![0, OBJECT, kind, id])
    }

    /// Appends a property whose value has `kind` and this body.
    fn property(mut self, key: u32, kind: u32, body: &[u32]) -> Builder {
        let bytes = u32::try_from(body.len() * 4).unwrap_or(0);
        self.0.extend([key, 0, bytes, kind]);
        self.0.extend(body);
        if body.len() % 2 == 1 {
            self.0.push(0);
        }
        self
    }

    fn id(self, key: u32, id: u32) -> Builder {
        self.property(key, ID, &[id])
    }

    /// Appends a choice between values of `kind`. The first value is the default.
    fn choice(self, key: u32, choice: u32, kind: u32, values: &[&[u32]]) -> Builder {
        let each = u32::try_from(values.first().map_or(0, |value| value.len() * 4)).unwrap_or(0);
        let mut body = vec![choice, 0, each, kind];
        body.extend(values.iter().copied().flatten());
        self.property(key, CHOICE, &body)
    }

    /// Appends a range of numbers: the default, the least and the largest.
    fn range(self, key: u32, (usual, least, most): (i32, i32, i32)) -> Builder {
        let numbers = [usual, least, most].map(|number| [number.cast_unsigned()]);
        let numbers = numbers.each_ref().map(<[u32; 1]>::as_slice);
        self.choice(key, RANGE, INT, &numbers)
    }

    fn finish(mut self) -> Pod {
        self.0[0] = u32::try_from((self.0.len() - 2) * 4).unwrap_or(0);
        // Pairs of words, so that the memory is aligned to 8 bytes.
        let pairs = self.0.chunks(2).map(|pair| {
            let word = |at: usize| u64::from(pair.get(at).copied().unwrap_or(0));
            match cfg!(target_endian = "little") {
                true => word(0) | word(1) << 32,
                false => word(0) << 32 | word(1),
            }
        });
        Pod(pairs.collect())
    }
}

/// A finished SPA object, aligned to 8 bytes, because libpipewire reads it in place.
pub(super) struct Pod(pub(super) Vec<u64>);

/// The formats that this stream accepts, as the parameter with which it connects. `hint` is the probable size.
pub(super) fn offered_formats(hint: Size) -> Pod {
    let formats: Vec<[u32; 1]> = (FORMATS.iter().take(1).chain(&FORMATS))
        .map(|(number, _)| [*number])
        .collect();
    let formats: Vec<&[u32]> = formats.iter().map(<[u32; 1]>::as_slice).collect();
    let usual = [hint.width.max(1), hint.height.max(1)];
    let sizes: [&[u32]; 3] = [&usual, &[1, 1], &[Size::MAX_SIDE, Size::MAX_SIDE]];
    // The frame rate is variable: a frame comes when something has changed. The upper limit is too high to matter.
    let rates: [&[u32]; 3] = [&[0, 1], &[0, 1], &[1000, 1]];
    Builder::object(OBJECT_FORMAT, PARAM_ENUM_FORMAT)
        .id(FORMAT_MEDIA_TYPE, MEDIA_VIDEO)
        .id(FORMAT_MEDIA_SUBTYPE, MEDIA_RAW)
        .choice(FORMAT_VIDEO_FORMAT, ENUM, ID, &formats)
        .choice(FORMAT_VIDEO_SIZE, RANGE, RECTANGLE, &sizes)
        .choice(FORMAT_VIDEO_FRAMERATE, RANGE, FRACTION, &rates)
        .finish()
}

/// The buffers and metadata that this stream requests, as the answer to a format.
pub(super) fn wanted_buffers() -> [Pod; 5] {
    let cursor = |side: i32| CURSOR_BYTES + side * side * 4;
    let meta = |kind: u32, sizes: (i32, i32, i32)| {
        Builder::object(OBJECT_META, PARAM_META)
            .id(META_TYPE, kind)
            .range(META_SIZE, sizes)
            .finish()
    };
    let exactly = |bytes: i32| (bytes, bytes, bytes);
    let buffers = Builder::object(OBJECT_BUFFERS, PARAM_BUFFERS)
        .range(BUFFERS_BUFFERS, BUFFERS)
        .choice(BUFFERS_DATA_TYPE, FLAGS, INT, &[&[1 << DATA_MEM_FD]])
        .finish();
    let damage = REGION_BYTES * DAMAGE_REGIONS;
    [
        buffers,
        meta(META_HEADER, exactly(HEADER_BYTES)),
        meta(META_CROP, exactly(REGION_BYTES)),
        meta(META_DAMAGE, (damage, REGION_BYTES, damage)),
        meta(
            META_CURSOR,
            (cursor(CURSOR_SIDES.0), cursor(1), cursor(CURSOR_SIDES.1)),
        ),
    ]
}

/// Reads the negotiated format.
///
/// # Errors
/// Returns a short reason if it is none of the offered formats.
pub(super) fn read_format(pod: &[u8]) -> Result<VideoFormat, String> {
    let object = Reader(pod).pod().filter(|(kind, _)| *kind == OBJECT);
    let (_, body) = object.ok_or("the format is not an object")?;
    let mut reader = Reader(body);
    let (kind, _) = (reader.word(), reader.word());
    if kind != Some(OBJECT_FORMAT) {
        return Err("the format is an object of a different type".to_owned());
    }
    let (mut size, mut number) = (None, None);
    while let Some(key) = reader.word() {
        let value = reader.word().and_then(|_flags| reader.pod());
        let (kind, body) = value.ok_or("the format is truncated")?;
        let value = single(kind, body);
        match (key, value) {
            (FORMAT_VIDEO_FORMAT, Some((ID, [id, ..]))) => number = Some(id),
            (FORMAT_VIDEO_SIZE, Some((RECTANGLE, [width, height]))) => {
                size = Some(Size::new(width, height));
            }
            _ => {}
        }
    }
    let number = number.ok_or("the format has no pixel format")?;
    let known = FORMATS.iter().find(|(known, _)| *known == number);
    let (_, pixels) =
        known.ok_or_else(|| format!("the pixel format {number} of SPA is not supported"))?;
    let size = size.filter(|size| size.is_valid());
    Ok(VideoFormat {
        size: size.ok_or("the format has no valid size")?,
        pixels: *pixels,
    })
}

/// The type and the first two words of a value, or of the default of a choice.
fn single(kind: u32, body: &[u8]) -> Option<(u32, [u32; 2])> {
    let mut reader = Reader(body);
    let kind = match kind {
        CHOICE => {
            let (_, _, _) = (reader.word()?, reader.word()?, reader.word()?);
            reader.word()?
        }
        kind => kind,
    };
    let first = reader.word()?;
    Some((kind, [first, reader.word().unwrap_or(0)]))
}

/// Reads words and pods from the front of a slice.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn word(&mut self) -> Option<u32> {
        let (word, rest) = self.0.split_first_chunk::<4>()?;
        self.0 = rest;
        Some(u32::from_ne_bytes(*word))
    }

    /// The type and body of the next pod, which is a value of any type. The padding after it is skipped.
    fn pod(&mut self) -> Option<(u32, &'a [u8])> {
        let bytes = usize::try_from(self.word()?).ok()?;
        let kind = self.word()?;
        let body = self.0.get(..bytes)?;
        let end = bytes.checked_next_multiple_of(8)?.min(self.0.len());
        self.0 = &self.0[end..];
        Some((kind, body))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(pod: &Pod) -> Vec<u8> {
        pod.0.iter().flat_map(|pair| pair.to_ne_bytes()).collect()
    }

    fn agreed(number: u32, size: [u32; 2]) -> Vec<u8> {
        let object = Builder::object(OBJECT_FORMAT, PARAM_FORMAT)
            .id(FORMAT_MEDIA_TYPE, MEDIA_VIDEO)
            .id(FORMAT_VIDEO_FORMAT, number)
            .property(FORMAT_VIDEO_SIZE, RECTANGLE, &size);
        bytes(&object.finish())
    }

    #[test]
    fn an_agreed_format_is_read() {
        let format = read_format(&agreed(8, [1280, 720])).unwrap();
        assert_eq!(format.size, Size::new(1280, 720));
        assert_eq!(format.pixels, PixelFormat::Bgrx);
        assert_eq!(
            read_format(&agreed(15, [2, 2])).unwrap().pixels,
            PixelFormat::Rgb
        );
    }

    #[test]
    fn the_default_of_a_choice_is_its_value() {
        // This stream's own offer contains choices, whose defaults are BGRx and the hint.
        let format = read_format(&bytes(&offered_formats(Size::new(641, 359)))).unwrap();
        assert_eq!(format.size, Size::new(641, 359));
        assert_eq!(format.pixels, PixelFormat::Bgrx);
    }

    #[test]
    fn odd_formats_are_refused_in_a_few_words() {
        for (number, size) in [(99, [10, 10]), (8, [0, 10]), (8, [u32::MAX, 1])] {
            let why = read_format(&agreed(number, size)).unwrap_err();
            assert!(!why.is_empty() && !why.contains('\n'), "{why}");
        }
        let whole = agreed(8, [1280, 720]);
        for length in 0..whole.len() - 8 {
            assert!(read_format(&whole[..length]).is_err(), "{length}");
        }
        // A property whose stated length exceeds the data.
        let mut long = whole.clone();
        long[24] = 0xff;
        assert!(read_format(&long).is_err());
    }

    #[test]
    fn objects_are_whole_pairs_of_words_and_state_their_length() {
        for pod in wanted_buffers() {
            let bytes = bytes(&pod);
            let (kind, body) = Reader(&bytes).pod().unwrap();
            assert_eq!((kind, body.len()), (OBJECT, bytes.len() - 8));
        }
    }
}
