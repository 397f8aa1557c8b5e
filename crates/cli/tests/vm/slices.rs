//! `--present-slices`: rows are drawn into the displayed buffer.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use openuvr_media::barcode;
use openuvr_media::capture::pattern::Pattern;
use openuvr_media::capture::{Capture as _, CaptureEvent};
use openuvr_media::picture::Picture as View;
use openuvr_proto::units::Size;

use super::VGA;
use super::rig::Rig;

/// Frames to compare.
const FRAMES: usize = 4;

/// The number of newest frames in which the test looks for the displayed rows. A slow client does not display each
/// frame, so rows of older frames may remain on the display.
const RECENT: u32 = 32;

/// The maximum duration of the comparison. It is long, because an emulated processor is fifty times slower than a real
/// one.
const TIMEOUT: Duration = Duration::from_secs(240);

/// The host's test pattern, generated here.
struct Expected {
    pattern: Pattern,
    frame: u32,
}

impl Expected {
    fn new(size: Size) -> Expected {
        let pattern = Pattern::open(size, 1000.0).unwrap();
        Expected { pattern, frame: 0 }
    }

    /// The pixels of a frame below its bar code. The bar code is omitted, because it contains a time. Frame numbers
    /// must not decrease from call to call.
    fn below_code(&mut self, frame: u32, rows: u32) -> Vec<[u8; 3]> {
        while self.frame < frame {
            self.frame += u32::from(self.pattern.next(None).unwrap() == CaptureEvent::Frame);
        }
        let picture = self.pattern.picture().unwrap();
        colours(picture.planes[0].data, picture.size, rows)
    }
}

fn colours(bgrx: &[u8], size: Size, first_row: u32) -> Vec<[u8; 3]> {
    let pixels = bgrx.as_chunks::<4>().0.iter();
    let below = pixels.skip((first_row * size.width) as usize);
    below
        .map(|[blue, green, red, _]| [*blue, *green, *red])
        .collect()
}

#[test]
fn pictures_are_whole_at_the_end_of_each_frame() {
    let Some(mut rig) = Rig::start() else {
        return;
    };
    // Each complete frame stays on the display long enough to be captured.
    rig.host_options = "--fps 1";
    rig.client_options = "--present-slices";
    rig.stream_pattern(VGA);
    let (mut expected, code) = (Expected::new(VGA), barcode::height(VGA.width));
    let (mut whole, end) = (Vec::new(), Instant::now() + TIMEOUT);
    while whole.len() < FRAMES {
        assert!(Instant::now() < end, "only the frames {whole:?} were whole");
        let shown = rig.machine.picture().unwrap();
        let view = View::bgrx(shown.size, &shown.bgrx, shown.size.width as usize * 4);
        let Some(frame) = barcode::read(&view).map(|stamp| stamp.frame) else {
            continue;
        };
        // If a frame is captured twice, the first picture may lack the frame's last rows.
        if whole.last() != Some(&frame)
            && colours(&shown.bgrx, shown.size, code) == expected.below_code(frame, code)
        {
            whole.push(frame);
        }
    }
    assert!(whole.is_sorted_by(|a, b| a < b), "{whole:?}");
    rig.end_client();
    assert_eq!(rig.client_log_value(" flips"), "0");
    rig.expect_text_console();
}

/// The newest frames of the test pattern.
struct Recent {
    expected: Expected,
    frames: VecDeque<(u32, Vec<[u8; 3]>)>,
}

impl Recent {
    /// Adds the frames up to this one.
    fn advance(&mut self, frame: u32, first_row: u32) {
        let oldest = frame.saturating_sub(RECENT) + 1;
        let next = self.frames.back().map_or(oldest, |(last, _)| last + 1);
        for number in next.max(oldest)..=frame {
            let rows = self.expected.below_code(number, first_row);
            self.frames.push_back((number, rows));
        }
        let old = self.frames.len().saturating_sub(RECENT as usize);
        self.frames.drain(..old);
    }

    /// Whether a picture shows the newest frame above an older one.
    fn are_mixed_in(&self, shown: &[[u8; 3]], width: usize) -> bool {
        let Some((newest, rows)) = self.frames.back() else {
            return false;
        };
        let mut pairs = shown.chunks(width).zip(rows.chunks(width));
        let Some(first @ 1..) = pairs.position(|(shown, row)| shown != row) else {
            return false;
        };
        let below = first * width;
        self.frames.iter().any(|(number, rows)| {
            number < newest && rows.len() == shown.len() && rows[below..] == shown[below..]
        })
    }
}

#[test]
fn rows_are_displayed_before_their_frame_is_complete() {
    let Some(mut rig) = Rig::start() else {
        return;
    };
    rig.client_options = "--present-slices";
    rig.stream_pattern(VGA);
    let (width, code) = (VGA.width as usize, barcode::height(VGA.width));
    let mut recent = Recent {
        expected: Expected::new(VGA),
        frames: VecDeque::new(),
    };
    let (mut pictures, end) = (0, Instant::now() + TIMEOUT);
    // The display shows two frames only for a moment, so most of the pictures are whole.
    loop {
        assert!(
            Instant::now() < end,
            "none of {pictures} pictures shows rows of two frames"
        );
        let shown = rig.machine.picture().unwrap();
        let view = View::bgrx(shown.size, &shown.bgrx, shown.size.width as usize * 4);
        let stamp = barcode::read(&view).filter(|_| shown.size == VGA);
        let Some(frame) = stamp.map(|stamp| stamp.frame) else {
            continue;
        };
        pictures += 1;
        recent.advance(frame, code);
        if recent.are_mixed_in(&colours(&shown.bgrx, shown.size, code), width) {
            break;
        }
    }
    rig.end_client();
    assert_eq!(rig.client_log_value(" flips"), "0");
    rig.expect_text_console();
}
