//! Assembles frames and sound into fragments of a file, with presentation times and durations. This module uses neither
//! a clock nor a file.
//!
//! Frames are placed on a time grid with the stream's maximum frame rate or a multiple of it (`FrameSlots`), because
//! capture times jitter. Some programs, such as ffmpeg when it decodes, assume a constant frame rate and warn about two
//! frames in one slot.
//!
//! A frame's duration is known only when the next frame arrives, so the newest frame stays pending until then. After a
//! second, it is written anyway, because the picture may not change for a long time. Sound is timed by counting
//! samples. If loss or clock drift separates this count from the capture time, the sound moves to its capture time.

use std::collections::VecDeque;

use openuvr_proto::time::Instant;
use openuvr_runtime::host::SoundCodec;

use super::mp4;
pub use super::queue::{Frame, Sound};
use super::track::{SOUND_RATE, Track, TrackFragment, VIDEO_RATE};
use crate::packetise::nal_units;

/// Duration of a fragment. If the program is killed, the current fragment and the pending newest frame are lost. A player
/// reads one fragment before it starts.
const SPAN: i64 = 500_000_000;

/// Maximum bytes of video in a fragment.
const BYTES: usize = 4 << 20;

/// How long the newest frame is pending.
const MAX_PENDING: i64 = 1_000_000_000;

/// Maximum offset of sound from its capture time in samples: 20 ms, which is imperceptible (EBU R37 allows 40 ms).
const MAX_DRIFT: i64 = SOUND_RATE as i64 / 50;

/// Types of NAL units (ITU-T H.264 table 7-1).
const SEQUENCE_SET: u8 = 7;
const PICTURE_SET: u8 = 8;

/// Contents of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Contents {
    /// Number of frames.
    pub frames: u64,
    /// Number of sound packets.
    pub packets: u64,
    /// Nanoseconds from the first frame to the end of the last.
    pub span: i64,
}

/// The newest frame.
struct PendingFrame {
    captured: Instant,
    at: u64,
    key: bool,
    /// NAL units with length prefixes.
    bytes: Vec<u8>,
}

/// Minimum number of slots per second, so that each frame has a slot nearby.
const SLOTS: u32 = 50;

/// Maximum distance in ticks between a slot and the capture time: 12 ms, which is half of a slot plus the usual jitter
/// (EBU R37 allows 40 ms between picture and sound).
const MAX_OFFSET: u64 = VIDEO_RATE as u64 * 12 / 1000;

/// Each frame changes the phase estimate by this fraction of its deviation: 1 / `PHASE_SHARE` (guess).
const PHASE_SHARE: i64 = 8;

/// The grid for frames.
#[derive(Clone, Copy, Debug, Default)]
struct FrameSlots {
    /// Slots per second: the frame rate or a multiple of it; 0 if there is no grid.
    per_second: u32,
    /// Estimated time in ticks by which frames are behind their slots. Without this estimate, frames halfway between
    /// two slots would jitter between these slots.
    phase: i64,
}

impl FrameSlots {
    /// The grid for a stream of this frame rate.
    fn at_rate(self, fps: u16) -> FrameSlots {
        let fps = u32::from(fps);
        let per_second = fps * SLOTS.div_ceil(fps.max(1));
        FrameSlots {
            // No grid is finer than the clock.
            per_second: if per_second < VIDEO_RATE {
                per_second
            } else {
                0
            },
            ..self
        }
    }

    /// The time for a frame that was captured at `captured`; never before `earliest`. If no free slot is nearby, as in
    /// a burst of frames, the frame keeps its capture time, or gets `earliest` if that is later.
    fn place(&mut self, captured: u64, earliest: u64) -> u64 {
        let exact = captured.max(earliest);
        if self.per_second == 0 {
            return exact;
        }
        let (rate, each) = (u64::from(VIDEO_RATE), u64::from(self.per_second));
        let in_phase = captured.saturating_add_signed(-self.phase);
        let nearest = (in_phase * each + rate / 2) / rate;
        let at = nearest.max((earliest * each).div_ceil(rate)) * rate / each;
        if at.abs_diff(captured) > MAX_OFFSET {
            return exact;
        }
        let behind =
            i64::try_from(captured).unwrap_or(i64::MAX) - i64::try_from(at).unwrap_or(i64::MAX);
        let half = i64::from(VIDEO_RATE / self.per_second) / 2;
        self.phase += (behind - self.phase) / PHASE_SHARE;
        self.phase = self.phase.clamp(-half, half);
        at
    }
}

/// The state of a recording that is being assembled; see the module's documentation.
pub struct Fragments {
    sound: Option<SoundCodec>,
    /// Capture time of the first frame.
    began: Option<Instant>,
    newest: Option<PendingFrame>,
    slots: FrameSlots,
    /// Earliest time of the next frame.
    video_at: u64,
    /// Time of the next sound packet.
    sound_at: Option<u64>,
    pictures: TrackFragment,
    packets: TrackFragment,
    sequence: u32,
    so_far: Contents,
    whole: VecDeque<(Vec<u8>, Contents)>,
}

impl Fragments {
    /// Creates the state for a new file. `sound` is the codec of the sound track; `None` without sound.
    #[must_use]
    pub fn new(sound: Option<SoundCodec>) -> Fragments {
        Fragments {
            sound,
            began: None,
            newest: None,
            slots: FrameSlots::default(),
            video_at: 0,
            sound_at: None,
            pictures: TrackFragment::default(),
            packets: TrackFragment::default(),
            sequence: 0,
            so_far: Contents::default(),
            whole: VecDeque::new(),
        }
    }

    /// Adds a frame. Skips frames before the first key frame.
    pub fn frame(&mut self, frame: Frame) {
        let began = match (self.began, frame.key) {
            (Some(began), _) => began,
            (None, true) if self.write_head(&frame) => *self.began.insert(frame.captured),
            (None, _) => return,
        };
        self.slots = frame.fps.map_or(self.slots, |fps| self.slots.at_rate(fps));
        let captured = ticks(frame.captured, began, VIDEO_RATE);
        let at = self.slots.place(captured, self.video_at);
        self.settle(at);
        let span = u64::from(VIDEO_RATE) * SPAN.unsigned_abs() / 1_000_000_000;
        let full = self.pictures.span() >= span || self.pictures.data.len() >= BYTES;
        // Players find a key frame by its fragment, so a key frame begins a new fragment.
        if full || frame.key {
            self.cut();
        }
        self.video_at = at + 1;
        self.newest = Some(PendingFrame {
            captured: frame.captured,
            at,
            key: frame.key,
            bytes: with_lengths(&frame.bytes),
        });
    }

    /// Adds a sound packet. Skips packets that were captured before the first frame.
    pub fn sound(&mut self, sound: Sound) {
        let Some(began) = self
            .began
            .filter(|began| self.sound.is_some() && sound.captured >= *began)
        else {
            return;
        };
        let captured = ticks(sound.captured, began, SOUND_RATE);
        let at = match self.sound_at {
            Some(next) if captured.abs_diff(next) <= MAX_DRIFT.unsigned_abs() => next,
            // Times in a file must not decrease. If the count of samples is ahead of the host's clock, the packet is
            // dropped.
            Some(next) if captured < next => return,
            _ => {
                self.cut_sound();
                captured
            }
        };
        let samples = u64::from(sound.samples);
        self.packets.push(at, samples, true, &sound.bytes);
        self.so_far.packets += 1;
        self.sound_at = Some(at + samples);
        let span = u64::from(SOUND_RATE) * SPAN.unsigned_abs() / 1_000_000_000;
        if self.packets.span() >= span {
            self.cut();
        }
        // A still picture must not delay sound.
        self.idle(sound.captured);
    }

    /// Writes the pending frame, a still picture, if it was captured at least `MAX_PENDING` before `now`.
    pub fn idle(&mut self, now: Instant) {
        let Some(newest) = &self.newest else { return };
        if now.0.saturating_sub(newest.captured.0) < MAX_PENDING {
            return;
        }
        // The frame gets a duration of half a second. The next frame begins later, because this one has been shown for
        // at least `MAX_PENDING`.
        let shown = u64::from(VIDEO_RATE) / 2;
        let until = newest.at + shown;
        self.settle(until);
        self.video_at = until;
        self.cut();
    }

    /// Ends the recording at this time. The last frame ends at the same time, but lasts at least 1/60 s.
    pub fn finish(&mut self, ended: Instant) {
        if let Some((newest, began)) = self.newest.as_ref().zip(self.began) {
            let least = newest.at + u64::from(VIDEO_RATE) / 60;
            self.settle(ticks(ended, began, VIDEO_RATE).max(least));
        }
        self.cut();
    }

    /// The next bytes to write, and the contents of the file after them.
    pub fn poll(&mut self) -> Option<(Vec<u8>, Contents)> {
        self.whole.pop_front()
    }

    /// Ends the pending frame at this time.
    fn settle(&mut self, until: u64) {
        let Some(newest) = self.newest.take() else {
            return;
        };
        let duration = until.saturating_sub(newest.at).max(1);
        let PendingFrame { at, key, bytes, .. } = newest;
        self.pictures.push(at, duration, key, &bytes);
        self.so_far.frames += 1;
        let end = i128::from(until) * 1_000_000_000 / i128::from(VIDEO_RATE);
        self.so_far.span = i64::try_from(end).unwrap_or(i64::MAX);
    }

    /// Writes the file header. Returns whether the frame has the required parameter sets.
    fn write_head(&mut self, frame: &Frame) -> bool {
        let of = |kind: u8| {
            let mut units = nal_units(&frame.bytes);
            units.find(|unit| unit.first().is_some_and(|first| first & 0x1f == kind))
        };
        let (Some(sequence), Some(picture), Some(size)) =
            (of(SEQUENCE_SET), of(PICTURE_SET), frame.size)
        else {
            return false;
        };
        let Some(head) = mp4::head((sequence, picture), size, self.sound) else {
            return false;
        };
        self.whole.push_back((head, self.so_far));
        true
    }

    /// Completes a fragment.
    fn cut(&mut self) {
        let (pictures, packets) = (
            std::mem::take(&mut self.pictures),
            std::mem::take(&mut self.packets),
        );
        self.fragment(&[(Track::Video, pictures), (Track::Sound, packets)]);
    }

    /// Completes a fragment that contains only sound. In a fragment, the samples of a track must be contiguous.
    fn cut_sound(&mut self) {
        let packets = std::mem::take(&mut self.packets);
        self.fragment(&[(Track::Sound, packets)]);
    }

    fn fragment(&mut self, parts: &[(Track, TrackFragment)]) {
        if parts.iter().all(|(_, part)| part.samples.is_empty()) {
            return;
        }
        self.sequence = self.sequence.wrapping_add(1);
        if let Some(bytes) = mp4::fragment(self.sequence, parts) {
            self.whole.push_back((bytes, self.so_far));
        }
    }
}

/// Ticks from the start of the recording, 0 before it.
fn ticks(at: Instant, began: Instant, rate: u32) -> u64 {
    let nanos = i128::from(at.0) - i128::from(began.0);
    let ticks = nanos.max(0) * i128::from(rate) / 1_000_000_000;
    u64::try_from(ticks).unwrap_or(u64::MAX)
}

/// A frame with length-prefixed NAL units (ISO/IEC 14496-15 section 5.3.3) instead of start codes.
fn with_lengths(stream: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(stream.len() + 16);
    for unit in nal_units(stream) {
        let length = u32::try_from(unit.len()).unwrap_or(u32::MAX);
        bytes.extend_from_slice(&length.to_be_bytes());
        bytes.extend_from_slice(unit);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use mp4_atom::{Any, DecodeMaybe as _, Moof};

    use super::*;

    /// Parameter sets of x264 for 640x384, and a slice.
    const KEY: &[u8] = &[
        0, 0, 0, 1, 0x67, 0x42, 0xc0, 0x1e, 0xd9, 0, 0xa0, 0x18, 0x2a, 0x10, 0, 0, 0, 1, 0x68,
        0xcb, 0x83, 0xcb, 0x20, 0, 0, 1, 0x65, 0x88, 0x84,
    ];

    const MS: i64 = 1_000_000;

    /// Start of the recording on the host's clock.
    const BEGAN: i64 = 7_000 * MS;

    fn frame(millis: i64, key: bool) -> Frame {
        Frame {
            captured: Instant(BEGAN + millis * MS),
            key,
            size: key.then_some(openuvr_proto::units::Size::new(640, 384)),
            fps: None,
            bytes: if key {
                KEY.to_vec()
            } else {
                vec![0, 0, 1, 0x41, 0x9a]
            },
        }
    }

    fn sound(millis: i64) -> Sound {
        Sound {
            captured: Instant(BEGAN + millis * MS),
            samples: 240,
            bytes: vec![1, 2, 3],
        }
    }

    /// The fragments' tracks: number, start, and duration of each sample.
    fn tracks(fragments: &mut Fragments) -> Vec<(u32, u64, Vec<u32>)> {
        let mut found = Vec::new();
        while let Some((bytes, _)) = fragments.poll() {
            let mut bytes = &bytes[..];
            while let Some(atom) = Any::decode_maybe(&mut bytes).unwrap() {
                let Any::Moof(Moof { traf, .. }) = atom else {
                    continue;
                };
                for track in traf {
                    let samples = track.trun[0].samples.iter();
                    let durations = samples.map(|sample| sample.duration.unwrap());
                    found.push((
                        track.tfhd.track_id,
                        track.tfdt.unwrap().base_media_decode_time,
                        durations.collect(),
                    ));
                }
            }
        }
        found
    }

    #[test]
    fn frames_last_until_the_next_one() {
        let mut fragments = Fragments::new(None);
        fragments.frame(frame(-20, false));
        for (millis, key) in [(0, true), (10, false), (30, false), (40, true)] {
            fragments.frame(frame(millis, key));
        }
        fragments.finish(Instant(BEGAN));
        let video = 1;
        assert_eq!(
            tracks(&mut fragments),
            [
                (video, 0, vec![900, 1800, 900]),
                // A key frame begins a fragment.
                (video, 3600, vec![1500]),
            ]
        );
    }

    #[test]
    fn a_still_picture_is_written() {
        let mut fragments = Fragments::new(None);
        fragments.frame(frame(0, true));
        fragments.idle(Instant(BEGAN + 999 * MS));
        assert_eq!(tracks(&mut fragments), []);
        fragments.idle(Instant(BEGAN + 1000 * MS));
        assert_eq!(tracks(&mut fragments), [(1, 0, vec![45_000])]);
        fragments.frame(frame(60_000, false));
        fragments.finish(Instant(BEGAN));
        assert_eq!(tracks(&mut fragments), [(1, 60 * 90_000, vec![1500])]);
    }

    /// The times in ticks of frames captured at these milliseconds.
    fn placed(captured: &[i64]) -> Vec<u64> {
        let mut fragments = Fragments::new(None);
        for (number, millis) in captured.iter().enumerate() {
            let frame = frame(*millis, number == 0);
            fragments.frame(Frame {
                fps: (number == 0).then_some(60),
                ..frame
            });
        }
        fragments.finish(Instant(BEGAN));
        let mut at = Vec::new();
        for (_, begins, durations) in tracks(&mut fragments) {
            let mut next = begins;
            for duration in durations {
                at.push(next);
                next += u64::from(duration);
            }
        }
        assert!(at.windows(2).all(|two| two[1] > two[0]), "{at:?}");
        at
    }

    /// The largest offset of a frame from its capture time, in milliseconds.
    fn worst(at: &[u64], captured: &[i64]) -> i64 {
        let far = |(at, millis): (&u64, &i64)| (i64::try_from(at / 90).unwrap() - millis).abs();
        at.iter().zip(captured).map(far).max().unwrap()
    }

    #[test]
    fn frames_have_slots_near_to_where_they_were_captured() {
        let jitter = [0, 2, -2, 1, -1, 2, 0, -2, 1];
        // The frames are in phase with the first frame, or later by 4, 8 (about half a slot) or 12 ms.
        for phase in [0, 4, 8, 12] {
            let mut captured = vec![0];
            captured.extend((1..600_i64).map(|number| {
                let wobble = jitter[usize::try_from(number).unwrap() % jitter.len()];
                number * 1000 / 60 + phase + wobble
            }));
            let at = placed(&captured);
            assert_eq!(at.len(), captured.len());
            assert!(at.iter().all(|at| at % 1500 == 0), "{phase}: {at:?}");
            assert!(worst(&at, &captured) <= 12, "{phase}");
        }
    }

    #[test]
    fn bursts_do_not_shift_later_frames() {
        // A machine stalls and catches up. The stream has its full rate before and after the stall, so no slot becomes
        // free.
        let mut captured: Vec<i64> = (0..60).map(|number| number * 1000 / 60).collect();
        captured.extend([1_100, 1_101, 1_103, 1_104, 1_106, 1_108]);
        captured.extend((67..240).map(|number| number * 1000 / 60));
        let at = placed(&captured);
        assert_eq!(at.len(), captured.len());
        assert!(worst(&at, &captured) <= 12, "{at:?}");
        assert!(at[70..].iter().all(|at| at % 1500 == 0), "{at:?}");
    }

    #[test]
    fn slots_are_a_multiple_of_the_frame_rate() {
        for (fps, each) in [
            (60, 60),
            (30, 60),
            (24, 72),
            (144, 144),
            (1, 50),
            (0, 0),
            (u16::MAX, 65_535),
        ] {
            assert_eq!(FrameSlots::default().at_rate(fps).per_second, each, "{fps}");
        }
        assert_eq!(FrameSlots::default().place(7, 3), 7);
        assert_eq!(FrameSlots::default().place(3, 7), 7);
    }

    #[test]
    fn a_recording_ends_at_its_end_time() {
        let mut fragments = Fragments::new(None);
        // The picture does not change, so the host sends a frame twice a second.
        for half in 0..18 {
            fragments.frame(frame(half * 500, half == 0));
        }
        fragments.finish(Instant(BEGAN + 8_990 * MS));
        let mut newest = None;
        let mut whole = VecDeque::new();
        while let Some((bytes, written)) = fragments.poll() {
            newest = Some(written);
            whole.push_back((bytes, written));
        }
        assert_eq!(newest.map(|written| written.span), Some(8_990 * MS));
        let mut again = Fragments::new(None);
        again.whole = whole;
        let durations = tracks(&mut again).into_iter();
        let sum: u32 = durations.flat_map(|(_, _, durations)| durations).sum();
        assert_eq!(sum, 8_990 * 90);
    }

    #[test]
    fn sound_is_where_it_was_captured() {
        let mut fragments = Fragments::new(Some(SoundCodec::Opus));
        fragments.sound(sound(-1));
        fragments.frame(frame(0, true));
        // A small clock drift has no effect.
        for millis in [2, 7, 13, 17] {
            fragments.sound(sound(millis));
        }
        // A gap moves the sound to its capture time. The packet at 3 ms is dropped, because times must not decrease.
        for millis in [100, 105, 3] {
            fragments.sound(sound(millis));
        }
        fragments.finish(Instant(BEGAN));
        let sound = 2;
        let found = tracks(&mut fragments);
        let sound_entries: Vec<_> = found.iter().filter(|(track, ..)| *track == sound).collect();
        assert_eq!(
            sound_entries,
            [&(sound, 96, vec![240; 4]), &(sound, 4800, vec![240; 2]),]
        );
    }

    #[test]
    fn a_fragment_is_half_a_second_at_most() {
        let mut fragments = Fragments::new(Some(SoundCodec::Opus));
        for number in 0..150 {
            fragments.frame(frame(number * 10, number == 0));
            fragments.sound(sound(number * 10));
            fragments.sound(sound(number * 10 + 5));
        }
        fragments.finish(Instant(BEGAN));
        let found = tracks(&mut fragments);
        assert!(found.len() >= 6, "{found:?}");
        let frames: usize = found.iter().filter(|t| t.0 == 1).map(|t| t.2.len()).sum();
        let packets: usize = found.iter().filter(|t| t.0 == 2).map(|t| t.2.len()).sum();
        assert_eq!((frames, packets), (150, 300));
        for (track, _, durations) in &found {
            let rate = if *track == 1 { 90_000 } else { 48_000 };
            let span: u32 = durations.iter().sum();
            assert!(span * 100 <= rate * 52, "{track}: {span}");
        }
    }

    #[test]
    fn a_stream_without_parameter_sets_writes_nothing() {
        let mut fragments = Fragments::new(Some(SoundCodec::Opus));
        for bytes in [
            &[][..],
            &[0, 0, 1],
            &[0, 0, 1, 0x65, 1],
            &[0, 0, 1, 0x67, 0, 0, 1, 0x68, 1],
        ] {
            fragments.frame(Frame {
                bytes: bytes.to_vec(),
                ..frame(0, true)
            });
        }
        fragments.finish(Instant(BEGAN));
        assert!(fragments.poll().is_none());
    }
}
