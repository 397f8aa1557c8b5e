//! The boxes of a fragmented MP4 (ISO/IEC 14496-12), encoded by a library.

use mp4_atom::{
    Audio, Avc1, Avcc, AvccExt, Codec, Dinf, Dops, Dref, DrefEntry, Encode as _, FourCC, Ftyp,
    Hdlr, Mdhd, Mdia, Mfhd, Minf, Moof, Moov, Mvex, Mvhd, Opus, Smhd, Stbl, Stco, Stsd, Tfdt, Tfhd,
    Tkhd, Traf, Trak, Trex, Trun, TrunEntry, Url, Visual, Vmhd,
};
use openuvr_proto::units::Size;

use super::track::{SOUND_RATE, Track, TrackFragment, VIDEO_RATE};

/// Flags of a sync sample, and of a sample that depends on others (ISO/IEC 14496-12 section 8.8.3.1).
const KEY: u32 = 0x0200_0000;
const NOT_KEY: u32 = 0x0101_0000;

/// Header length of an `mdat` in bytes.
const DATA_HEADER: usize = 8;

/// Channels of the host's sound.
const CHANNELS: u8 = 2;

/// The header before all fragments; `None` if the parameter sets are invalid.
pub(super) fn head(sets: (&[u8], &[u8]), size: Size, sound: bool) -> Option<Vec<u8>> {
    let brands: [&[u8; 4]; 3] = [b"iso6", b"avc1", b"mp41"];
    let ftyp = Ftyp {
        major_brand: b"iso6".into(),
        minor_version: 0,
        compatible_brands: brands.into_iter().map(Into::into).collect(),
    };
    let mut trak = vec![video(sets, size)?];
    trak.extend(sound.then(sound_track));
    let trex = trak.iter().map(|trak| Trex {
        track_id: trak.tkhd.track_id,
        default_sample_description_index: 1,
        ..Trex::default()
    });
    let moov = Moov {
        mvhd: Mvhd {
            timescale: VIDEO_RATE,
            rate: 1.into(),
            volume: 1.into(),
            next_track_id: Track::Sound as u32 + 1,
            ..Mvhd::default()
        },
        mvex: Some(Mvex {
            mehd: None,
            trex: trex.collect(),
        }),
        trak,
        ..Moov::default()
    };
    let mut bytes = Vec::new();
    ftyp.encode(&mut bytes).ok()?;
    moov.encode(&mut bytes).ok()?;
    Some(bytes)
}

fn video((sequence, picture): (&[u8], &[u8]), size: Size) -> Option<Trak> {
    let avcc = Avcc {
        ext: chroma(sequence),
        ..Avcc::new(sequence, picture).ok()?
    };
    let [width, height] = [size.width, size.height].map(u16::try_from);
    let (width, height) = (width.ok()?, height.ok()?);
    let visual = Visual {
        data_reference_index: 1,
        width,
        height,
        ..Visual::default()
    };
    let entry = Avc1 {
        visual,
        avcc,
        ..Avc1::default()
    };
    let minf = Minf {
        vmhd: Some(Vmhd::default()),
        ..Minf::default()
    };
    let mut trak = track(
        Track::Video,
        VIDEO_RATE,
        (b"vide", "picture"),
        minf,
        entry.into(),
    );
    trak.tkhd.width = width.into();
    trak.tkhd.height = height.into();
    Some(trak)
}

fn sound_track() -> Trak {
    let entry = Opus {
        audio: Audio {
            data_reference_index: 1,
            channel_count: CHANNELS.into(),
            sample_size: 16,
            sample_rate: 48_000.into(),
        },
        dops: Dops {
            output_channel_count: CHANNELS,
            // Packet timestamps already include the encoder delay.
            pre_skip: 0,
            input_sample_rate: SOUND_RATE,
            output_gain: 0,
            channel_mapping: None,
        },
        btrt: None,
    };
    let minf = Minf {
        smhd: Some(Smhd::default()),
        ..Minf::default()
    };
    let mut trak = track(
        Track::Sound,
        SOUND_RATE,
        (b"soun", "sound"),
        minf,
        entry.into(),
    );
    trak.tkhd.volume = 1.into();
    trak
}

fn track(
    track: Track,
    timescale: u32,
    (handler, name): (&[u8; 4], &str),
    minf: Minf,
    entry: Codec,
) -> Trak {
    Trak {
        tkhd: Tkhd {
            track_id: track as u32,
            enabled: true,
            in_movie: true,
            ..Tkhd::default()
        },
        mdia: Mdia {
            mdhd: Mdhd {
                timescale,
                language: "und".to_owned(),
                ..Mdhd::default()
            },
            hdlr: Hdlr {
                handler: FourCC::new(handler),
                name: name.to_owned(),
            },
            minf: Minf {
                // Self-contained: the data is in this file.
                dinf: Dinf {
                    dref: Dref {
                        entries: vec![DrefEntry::Url(Url::default())],
                    },
                },
                stbl: Stbl {
                    stsd: Stsd {
                        codecs: vec![entry],
                    },
                    // This box is empty, because all samples are in fragments. It must be present, because VLC ignores
                    // a track without it (section 8.7.5 requires exactly one).
                    stco: Some(Stco::default()),
                    ..Stbl::default()
                },
                ..minf
            },
        },
        ..Trak::default()
    }
}

/// A fragment of these parts. Each part starts at the time of its first sample.
pub(super) fn fragment(sequence: u32, parts: &[(Track, TrackFragment)]) -> Option<Vec<u8>> {
    let parts: Vec<_> = (parts.iter())
        .filter(|(_, part)| !part.samples.is_empty())
        .collect();
    // Offsets count from the start of the fragment. The length of the `moof` box does not depend on the offsets.
    let mut bytes = Vec::new();
    moof(sequence, &parts, 0)?.encode(&mut bytes).ok()?;
    let data_at = bytes.len() + DATA_HEADER;
    bytes.clear();
    moof(sequence, &parts, data_at)?.encode(&mut bytes).ok()?;
    let length: usize = parts.iter().map(|(_, part)| part.data.len()).sum();
    let length = u32::try_from(length + DATA_HEADER).ok()?;
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.extend_from_slice(b"mdat");
    for (_, part) in parts {
        bytes.extend_from_slice(&part.data);
    }
    Some(bytes)
}

fn moof(sequence: u32, parts: &[&(Track, TrackFragment)], data_at: usize) -> Option<Moof> {
    let mut data_at = data_at;
    let mut traf = Vec::new();
    for (track, part) in parts {
        let entries = part.samples.iter().map(|sample| TrunEntry {
            duration: Some(sample.duration),
            size: Some(sample.bytes),
            flags: Some(if sample.key { KEY } else { NOT_KEY }),
            cts: None,
        });
        let entries: Vec<TrunEntry> = entries.collect();
        traf.push(Traf {
            tfhd: Tfhd {
                track_id: *track as u32,
                default_base_is_moof: true,
                ..Tfhd::default()
            },
            tfdt: Some(Tfdt {
                base_media_decode_time: part.samples.first()?.at,
            }),
            trun: vec![Trun {
                data_offset: Some(i32::try_from(data_at).ok()?),
                samples: entries.into(),
            }],
            ..Traf::default()
        });
        data_at += part.data.len();
    }
    Some(Moof {
        mfhd: Mfhd {
            sequence_number: sequence,
        },
        traf,
    })
}

/// The additional fields of a high profile's decoder configuration (ISO/IEC 14496-15 section 5.3.3.1): chroma format
/// and bit depths; `None` for other profiles.
fn chroma(sequence: &[u8]) -> Option<AvccExt> {
    let [_, profile, _, _, rest @ ..] = sequence else {
        return None;
    };
    if !matches!(profile, 100 | 110 | 122 | 244) {
        return None;
    }
    let mut bits = Bits { bytes: rest, at: 0 };
    // seq_parameter_set_id
    bits.number()?;
    let chroma_format = bits.number()?;
    if chroma_format == 3 {
        // separate_colour_plane_flag
        bits.bit()?;
    }
    let (luma, chroma) = (bits.number()?, bits.number()?);
    Some(AvccExt {
        chroma_format,
        bit_depth_luma: luma.checked_add(8)?,
        bit_depth_chroma: chroma.checked_add(8)?,
        sequence_parameter_sets_ext: Vec::new(),
    })
}

/// Bits of a parameter set. Its first few bytes cannot contain emulation prevention, which follows two zeros.
struct Bits<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Bits<'_> {
    fn bit(&mut self) -> Option<bool> {
        let byte = self.bytes.get(self.at / 8)?;
        let bit = byte >> (7 - self.at % 8) & 1;
        self.at += 1;
        Some(bit == 1)
    }

    /// An unsigned Exp-Golomb code (ITU-T H.264 section 9.1), if it is small.
    fn number(&mut self) -> Option<u8> {
        let mut zeros = 0;
        while !self.bit()? {
            zeros += 1;
            if zeros > 7 {
                return None;
            }
        }
        let mut number = 1_u16;
        for _ in 0..zeros {
            number = number << 1 | u16::from(self.bit()?);
        }
        u8::try_from(number - 1).ok()
    }
}
