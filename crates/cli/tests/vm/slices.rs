//! `--present-slices`: rows are drawn into the displayed buffer.

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

/// Limit of the comparison; an emulated processor is fifty times slower.
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
