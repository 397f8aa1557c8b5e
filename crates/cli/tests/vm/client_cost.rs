//! The processor time of a client without a window system, compared with a client with an X11 window. On an emulated
//! processor, only the ratio has a meaning.

use super::VGA;
use super::rig::Rig;

/// Frames before the measurement, in which the client starts up.
const BEFORE: u64 = 15;

/// Frames of a measurement.
const FRAMES: u64 = 30;

/// A point in the life of a client: the frames in its CSV, and its processor time in clock ticks.
type Sample = (u64, u64);

impl Rig {
    /// Waits until a client's CSV contains this number of frames.
    fn sample(&mut self, csv: &str, frames: u64) -> Sample {
        // proc(5): fields 14 and 15 of `stat` are the times in user and kernel mode. The CSV has a header.
        let sample = format!(
            "rows=$(($(wc -l <{csv}) - 1)); test $rows -ge {frames} && \
             awk -v rows=$rows '{{ print rows, $14 + $15 }}' /proc/$(cat /tmp/client.pid)/stat"
        );
        let text = self.machine.wait_for(&sample).unwrap();
        let (rows, ticks) = text.trim().split_once(' ').unwrap();
        (rows.parse().unwrap(), ticks.parse().unwrap())
    }

    /// The clock ticks of a client per frame.
    fn ticks_of_a_frame(&mut self, csv: &str) -> f64 {
        let (first, begun) = self.sample(csv, BEFORE);
        let (last, ended) = self.sample(csv, BEFORE + FRAMES);
        (ended - begun) as f64 / (last - first) as f64
    }
}

#[test]
fn the_cost_of_a_display_and_of_a_window_is_printed() {
    let Some(mut rig) = Rig::start() else {
        return;
    };
    rig.client_options = "--csv /tmp/kms.csv";
    rig.stream_pattern(VGA);
    let kms = rig.ticks_of_a_frame("/tmp/kms.csv");
    rig.end_client();
    rig.start_x_display(VGA);
    // The last value of a repeated option counts.
    rig.client_options = "--present x11 --csv /tmp/x11.csv";
    rig.start_client("env DISPLAY=:7 setsid", ">/tmp/client.log 2>&1");
    let x11 = rig.ticks_of_a_frame("/tmp/x11.csv");
    rig.end_client();
    println!(
        "ticks per frame: {kms:.2} on a display, {x11:.2} in a window: ratio {:.2}",
        kms / x11
    );
    assert!(kms > 0.0 && x11 > 0.0, "{kms} and {x11} ticks");
}
