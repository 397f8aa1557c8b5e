//! Encoders and decoders: each of the tables really codes a picture.

use openuvr_media::codec::Codec;
use openuvr_media::decode::{self, Chunk};
use openuvr_media::encode::{self, Ask, Settings};
use openuvr_media::picture::{Picture, PixelFormat, Plane};
use openuvr_proto::id::FrameId;
use openuvr_proto::units::Size;

use super::finding::Finding;

/// The encoder that `openuvr host` uses if it is asked for none.
const USUAL: &str = "x264";

pub(super) fn encoders() -> Vec<Finding> {
    let tried: Vec<_> = encode::BACKENDS.iter().map(|b| (b, code(b))).collect();
    let instead = tried
        .iter()
        .find(|(backend, coded)| compresses(backend.codec) && coded.is_ok())
        .map(|(backend, _)| backend.name);
    let finding = |(backend, coded): &(&encode::Backend, Result<Coded, String>)| match coded {
        Ok(coded) => {
            let (size, bytes) = (SIZE, coded.bytes());
            Finding::ok(
                backend.name,
                format!("coded a picture of {size} in {bytes} bytes"),
            )
        }
        Err(why) => {
            let (why, remedy) = split(why);
            match (backend.name == USUAL, instead) {
                (true, None) => Finding::missing(backend.name, why, remedy),
                (true, Some(other)) => Finding::better(
                    backend.name,
                    why,
                    format!("{remedy}; or openuvr host --encoder {other}"),
                ),
                (false, _) => Finding::better(backend.name, why, remedy),
            }
        }
    };
    tried.iter().map(finding).collect()
}

pub(super) fn decoders() -> Vec<Finding> {
    let tried: Vec<_> = decode::BACKENDS.iter().map(|b| (b, decoded(b))).collect();
    let usable = |codec: Codec| tried.iter().any(|(b, d)| b.codec == codec && d.is_ok());
    let finding = |(backend, decoded): &(&decode::Backend, Result<String, String>)| match decoded {
        Ok(what) => Finding::ok(backend.name, what),
        Err(why) => {
            let (why, remedy) = split(why);
            // What hosts send unless they are told otherwise.
            match backend.codec == Codec::H264 && !usable(Codec::H264) {
                true => Finding::missing(backend.name, why, remedy),
                false => Finding::better(backend.name, why, remedy),
            }
        }
    };
    tried.iter().map(finding).collect()
}

fn compresses(codec: Codec) -> bool {
    !matches!(codec, Codec::Null | Codec::Raw)
}

/// What is wrong, and what to do about it: the messages of backends put both into one line, with
/// a colon or semicolon before the latter.
fn split(why: &str) -> (String, String) {
    match why.rsplit_once(": ").or_else(|| why.rsplit_once("; ")) {
        Some((what, remedy)) => (what.to_owned(), remedy.to_owned()),
        None => (why.to_owned(), "use another one".to_owned()),
    }
}

/// The picture that is coded: whole macroblocks, small enough to take no time.
const SIZE: Size = Size::new(320, 192);

/// The slices of a coded picture.
struct Coded(Vec<(u16, u16, Vec<u8>)>);

impl Coded {
    fn bytes(&self) -> usize {
        self.0.iter().map(|(_, _, bytes)| bytes.len()).sum()
    }
}

fn code(backend: &encode::Backend) -> Result<Coded, String> {
    let settings = Settings {
        size: SIZE,
        fps: 60,
        slices: 4,
        threads: 1,
        subpel: false,
        rate: encode::Rate::Own,
    };
    let mut encoder = (backend.open)(&settings).map_err(|why| why.to_string())?;
    let (width, pixels) = (SIZE.width as usize, SIZE.pixels());
    // A slope, so that there is something to code; the same bytes serve each format.
    let bytes: Vec<u8> = (0..pixels * 4).map(|i| (i / 64 % 256) as u8).collect();
    let plane = |from, stride| Plane {
        data: bytes.get(from..).unwrap_or_default(),
        stride,
    };
    let format = encoder.input();
    let planes = match format {
        PixelFormat::Bgrx => [plane(0, width * 4), Plane::EMPTY, Plane::EMPTY],
        PixelFormat::Nv12 => [plane(0, width), plane(pixels, width), Plane::EMPTY],
        PixelFormat::I420 => [plane(0, width), plane(0, width / 2), plane(0, width / 2)],
    };
    let picture = Picture {
        size: SIZE,
        format,
        planes,
    };
    let ask = Ask {
        frame: FrameId(1),
        key_frame: true,
        reference: FrameId::NONE,
        qp: 26,
    };
    let mut slices = Vec::new();
    let encoded = encoder
        .encode(&picture, &ask, &mut |slice| {
            slices.push((slice.first_mb, slice.mbs, slice.bytes.to_vec()));
        })
        .map_err(|why| why.to_string())?;
    match encoded.key_frame && !slices.is_empty() {
        true => Ok(Coded(slices)),
        false => Err("it opened, but made no key frame: use another one".to_owned()),
    }
}

/// Feeds a picture that an encoder of this machine coded; where none does, only opens it.
fn decoded(backend: &decode::Backend) -> Result<String, String> {
    let mut decoder = (backend.open)().map_err(|why| why.to_string())?;
    let coded = encode::BACKENDS
        .iter()
        .filter(|encoder| encoder.codec == backend.codec)
        .find_map(|encoder| Some((encoder.name, code(encoder).ok()?)));
    let Some((name, coded)) = coded else {
        return Ok("opened; no encoder here makes a picture to try it on".to_owned());
    };
    let count = coded.0.len();
    for (i, (first_mb, mbs, bytes)) in coded.0.iter().enumerate() {
        let chunk = Chunk {
            frame: FrameId(1),
            first: i == 0,
            last: i + 1 == count,
            first_mb: *first_mb,
            mbs: *mbs,
            bytes: Some(bytes),
        };
        let picture = decoder.feed(&chunk).map_err(|why| why.to_string())?;
        if chunk.last && picture.is_some_and(|picture| picture.size == SIZE) {
            return Ok(format!("decoded what {name} coded, {count} slices"));
        }
    }
    match backend.codec {
        Codec::Null => Ok("takes frames and shows nothing".to_owned()),
        _ => Err(format!(
            "it opened, but did not decode what {name} coded: use another one"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    #[test]
    fn the_backends_without_devices_code_and_decode() {
        for name in ["raw", "null"] {
            let all = [encoders(), decoders()].concat();
            let both: Vec<_> = all.iter().filter(|f| f.name == name).collect();
            assert_eq!(both.len(), 2, "{all:?}");
            assert!(both.iter().all(|f| f.level == Level::Ok), "{both:?}");
        }
    }

    #[test]
    fn a_message_is_split_into_what_it_is_and_what_to_do() {
        let (what, remedy) = split("no libx264 (found none): apt install libx264-164");
        assert_eq!(what, "no libx264 (found none)");
        assert_eq!(remedy, "apt install libx264-164");
    }
}
