//! The boxes of a fragmented MP4 (ISO/IEC 14496-12), encoded by a library.

use mp4_atom::esds::{self, Esds};
use mp4_atom::{
    Audio, Avc1, Avcc, AvccExt, Codec, Dinf, Dops, Dref, DrefEntry, Encode as _, FourCC, Ftyp,
    Hdlr, Mdhd, Mdia, Mfhd, Minf, Moof, Moov, Mp4a, Mvex, Mvhd, Opus, Smhd, Stbl, Stco, Stsd, Tfdt,
    Tfhd, Tkhd, Traf, Trak, Trex, Trun, TrunEntry, Url, Visual, Vmhd,
};
use openuvr_proto::units::Size;
use openuvr_runtime::host::{AAC_CONFIG, AAC_MAX_BYTES, SoundCodec};

use super::track::{SOUND_RATE, Track, TrackFragment, VIDEO_RATE};

/// Flags of a sync sample, and of a sample that depends on others (ISO/IEC 14496-12 section 8.8.3.1).
const KEY: u32 = 0x0200_0000;
const NOT_KEY: u32 = 0x0101_0000;

/// Header length of an `mdat` in bytes.
const DATA_HEADER: usize = 8;

/// `objectTypeIndication` of MPEG-4 audio, and `streamType` of sound (ISO/IEC 14496-1 tables 5 and 6).
const MPEG4_AUDIO: u8 = 0x40;
const AUDIO_STREAM: u8 = 5;

/// Length of the longest access unit in bytes, as a 24-bit number.
const AAC_BUFFER: [u8; 3] = {
    let [high, low] = AAC_MAX_BYTES.to_be_bytes();
    [0, high, low]
};

/// Channels of the host's sound.
const CHANNELS: u8 = 2;

/// The header before all fragments; `None` if the parameter sets are invalid.
pub(super) fn head(sets: (&[u8], &[u8]), size: Size, sound: Option<SoundCodec>) -> Option<Vec<u8>> {
    let brands: [&[u8; 4]; 3] = [b"iso6", b"avc1", b"mp41"];
    let ftyp = Ftyp {
        major_brand: b"iso6".into(),
        minor_version: 0,
        compatible_brands: brands.into_iter().map(Into::into).collect(),
    };
    let mut trak = vec![video(sets, size)?];
    trak.extend(sound.map(sound_track));
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

fn sound_track(codec: SoundCodec) -> Trak {
    let audio = Audio {
        data_reference_index: 1,
        channel_count: CHANNELS.into(),
        sample_size: 16,
        sample_rate: 48_000.into(),
    };
    let entry: Codec = match codec {
        SoundCodec::Opus => opus(audio).into(),
        SoundCodec::Aac => mp4a(audio).into(),
    };
    let minf = Minf {
        smhd: Some(Smhd::default()),
        ..Minf::default()
    };
    let mut trak = track(Track::Sound, SOUND_RATE, (b"soun", "sound"), minf, entry);
    trak.tkhd.volume = 1.into();
    trak
}

fn opus(audio: Audio) -> Opus {
    Opus {
        audio,
        dops: Dops {
            output_channel_count: CHANNELS,
            // Packet timestamps already include the encoder delay.
            pre_skip: 0,
            input_sample_rate: SOUND_RATE,
            output_gain: 0,
            channel_mapping: None,
        },
        btrt: None,
    }
}

/// The sample entry of AAC (ISO/IEC 14496-14 section 5.6). Packet timestamps already include the encoder delay.
fn mp4a(audio: Audio) -> Mp4a {
    let [high, low] = AAC_CONFIG;
    let dec_config = esds::DecoderConfig {
        object_type_indication: MPEG4_AUDIO,
        stream_type: AUDIO_STREAM,
        up_stream: 0,
        // The longest access unit. The bitrates are unknown here, and 0 means that they vary.
        buffer_size_db: AAC_BUFFER.into(),
        max_bitrate: 0,
        avg_bitrate: 0,
        dec_specific: Some(esds::DecoderSpecific {
            profile: high >> 3,
            freq_index: (high & 7) << 1 | low >> 7,
            chan_conf: low >> 3 & 15,
            raw: AAC_CONFIG.to_vec(),
        }),
    };
    Mp4a {
        audio,
        esds: Esds {
            es_desc: esds::EsDescriptor {
                // In a file, the number of the stream is 0, because the track number identifies the stream (section
                // 3.1.2).
                es_id: 0,
                dec_config,
                ..esds::EsDescriptor::default()
            },
        },
        btrt: None,
        taic: None,
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Parameter sets of x264 for 640x384.
    const SETS: (&[u8], &[u8]) = (
        &[0x67, 0x42, 0xc0, 0x1e, 0xd9, 0, 0xa0, 0x18, 0x2a, 0x10],
        &[0x68, 0xcb, 0x83, 0xcb, 0x20],
    );

    /// The bytes after the first occurrence of `name` in the header of a file.
    fn after(name: &[u8], sound: SoundCodec) -> Option<Vec<u8>> {
        let head = head(SETS, Size::new(640, 384), Some(sound)).unwrap();
        let at = head.windows(name.len()).position(|four| four == name)?;
        Some(head[at + name.len()..].to_vec())
    }

    #[test]
    fn the_aac_sample_entry_has_the_fields_of_the_standard() {
        let bytes = after(b"esds", SoundCodec::Aac).unwrap();
        #[rustfmt::skip]
        let expected = [
            // Version and flags (ISO/IEC 14496-14 section 5.6.1).
            0, 0, 0, 0,
            // ES_Descriptor (ISO/IEC 14496-1 section 7.2.6.5): tag, length, number, flags.
            3, 25, 0, 0, 0,
            // DecoderConfigDescriptor (7.2.6.6): MPEG-4 audio, an audio stream with the reserved bit, buffer size 1536,
            // and the maximum and mean bitrates.
            4, 17, 0x40, 0x15, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0,
            // DecoderSpecificInfo (7.2.6.7): the AudioSpecificConfig.
            5, 2, 0x11, 0x90,
            // SLConfigDescriptor (7.3.2.3): as in all MP4 files.
            6, 1, 2,
        ];
        assert_eq!(bytes[..expected.len()], expected);
        let bytes = after(b"mp4a", SoundCodec::Aac).unwrap();
        // Reserved bytes, the data reference, reserved bytes, channels, bits, reserved bytes, and the rate in 16.16
        // bits (ISO/IEC 14496-12 section 12.2.3.2).
        #[rustfmt::skip]
        let expected = [
            0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 16, 0, 0, 0, 0, 0xbb, 0x80, 0, 0,
        ];
        assert_eq!(bytes[..expected.len()], expected);
        assert_eq!(after(b"Opus", SoundCodec::Aac), None);
        assert_eq!(after(b"mp4a", SoundCodec::Opus), None);
        assert!(after(b"dOps", SoundCodec::Opus).is_some());
    }
}
