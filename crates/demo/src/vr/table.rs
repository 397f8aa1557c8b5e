//! The measured latency from the head to the pictures, as a table.

use openuvr_proto::time::Instant;
use openuvr_testbed::stats::{Frames, Summary};

use super::eyes::EyeSighting;
use super::head::{HeadMotion, SimulatedHead};
use super::player::DisplayedFrame;

/// The latencies of a picture until its sighting, ms.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
struct Late {
    /// From the time at which the head had the picture's direction. Negative if the head reached this direction only
    /// after the sighting.
    head: Option<f64>,
    /// From the time at which the picture's pose was sampled.
    pose: Option<f64>,
    /// From the picture's predicted display time.
    predicted: f64,
    /// Degrees between the picture's direction and the head's direction at the time of the sighting.
    angle: f64,
}

/// A picture that was handed to the display, and the sampling time of its pose. This time is looked up while the
/// simulated head still stores it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Handed {
    submitted: Instant,
    sampled: Option<Instant>,
}

impl Handed {
    pub(super) fn from(shown: &DisplayedFrame, head: &SimulatedHead) -> Option<Handed> {
        Some(Handed {
            submitted: shown.submitted?,
            sampled: shown.pose.and_then(|pose| head.sampled(pose)),
        })
    }
}

/// The client records the time at which it has handed a picture to the display. A reader of the display may see the
/// picture up to this many nanoseconds before the recorded time.
const NOTED_LATE_NS: i64 = 1_000_000;

/// The maximum angle, in degrees, between a picture's direction and the head's true direction at the predicted display
/// time, for 90 % of the pictures. It is larger than the error of any prediction of 100 ms, and far smaller than the
/// head's turn.
const ALIKE: f64 = 12.0;

/// Prints the latency of the pictures in `seen`. Returns whether their codes are right.
pub(super) fn print(seen: &[EyeSighting], handed: &[Handed], way: HeadMotion) -> bool {
    let numbers = seen.iter().map(|seen| seen.codes[0].frame);
    let Frames { drawn, visible, .. } = Frames::of(numbers);
    println!("demo: {visible} of {drawn} frames of the room became visible");
    let lates: Vec<Late> = seen.iter().map(|seen| late(seen, handed, way)).collect();
    let line = |what: &str, unit: &str, values: Vec<f64>| {
        if let Some(s) = Summary::of(&values) {
            println!(
                "demo: {what:<44} p50 {:>6.1} {unit}, p99 {:>6.1} {unit}, of {} frames",
                s.p50, s.p99, s.count
            );
        }
    };
    let of = |value: fn(&Late) -> Option<f64>| lates.iter().filter_map(value).collect::<Vec<_>>();
    line("pose sampled -> visible", "ms", of(|late| late.pose));
    line(
        "head had the pose -> visible (with prediction)",
        "ms",
        of(|late| late.head),
    );
    line(
        "predicted display time -> visible",
        "ms",
        of(|late| Some(late.predicted)),
    );
    line(
        "angle between head and picture when visible",
        "°",
        of(|late| Some(late.angle)),
    );
    are_right(seen, way)
}

/// Whether each eye's picture was drawn for this eye, both pictures belong to one frame, and the direction of 90 % of
/// the pictures is within [`ALIKE`] of the head's direction at the predicted display time.
fn are_right(seen: &[EyeSighting], way: HeadMotion) -> bool {
    let wrong = seen.iter().filter(|seen| {
        let [left, right] = seen.codes;
        left.right || !right.right || left.frame != right.frame
    });
    let wrong = wrong.count();
    if wrong > 0 {
        println!(
            "demo: FAILED: {wrong} pictures show the wrong eye, or different frames for the two eyes"
        );
    }
    let off: Vec<f64> = seen
        .iter()
        .map(|seen| beside(seen, way, expected(seen)))
        .collect();
    let off = Summary::of(&off);
    let alike = off.is_some_and(|off| off.p90 <= ALIKE);
    if !alike {
        let angle = off.map_or_else(|| "unknown".to_owned(), |off| format!("{:.1}°", off.p90));
        println!(
            "demo: FAILED: the pictures do not match the head's direction: the angle between them is {angle} (p90; at most \
             {ALIKE:.0}° allowed)"
        );
    }
    wrong == 0 && alike
}

fn late(seen: &EyeSighting, handed: &[Handed], way: HeadMotion) -> Late {
    let yaw = f64::from(seen.codes[0].yaw_degrees());
    let ms = |from: Instant| (seen.at.0 - from.0) as f64 / 1e6;
    let until = handed.partition_point(|one| one.submitted.0 <= seen.at.0 + NOTED_LATE_NS);
    let sampled = handed[..until].last().and_then(|one| one.sampled);
    Late {
        head: way.when(yaw, seen.at).map(ms),
        pose: sampled.map(ms),
        predicted: ms(expected(seen)),
        angle: beside(seen, way, seen.at),
    }
}

/// The predicted display time of the sighted picture.
fn expected(seen: &EyeSighting) -> Instant {
    let near = u64::try_from(seen.at.0 / 1000).unwrap_or(0);
    let us = seen.codes[0].display_us_near(near);
    Instant(i64::try_from(us).unwrap_or(0).saturating_mul(1000))
}

/// The angle, in degrees, between a picture's direction and the head's direction at the time `at`.
fn beside(seen: &EyeSighting, way: HeadMotion, at: Instant) -> f64 {
    let [yaw, pitch] = way.at(at);
    let code = seen.codes[0];
    // This approximation holds for small angles near the horizon.
    let across = (f64::from(code.yaw_degrees()) - yaw) * pitch.to_radians().cos();
    across.hypot(f64::from(code.pitch_degrees()) - pitch)
}

#[cfg(test)]
mod tests {
    use openuvr_media::barcode::view::{STEP, ViewStamp};

    use super::*;

    const MS: i64 = 1_000_000;

    /// A picture that was seen at the time `at`, and drawn for the head's direction at the time `drawn_for`.
    fn seen(way: HeadMotion, at: i64, drawn_for: i64, right: bool) -> EyeSighting {
        let code = |right| {
            let [yaw, pitch] = way.at(Instant(drawn_for)).map(|v| (v as f32 / STEP) as i16);
            ViewStamp {
                frame: 7,
                display_us: u64::try_from(drawn_for / 1000).unwrap(),
                yaw: yaw.cast_unsigned(),
                pitch,
                right,
            }
        };
        EyeSighting {
            codes: [code(right), code(!right)],
            at: Instant(at),
        }
    }

    #[test]
    fn a_picture_of_where_the_head_was_is_late_by_that() {
        let way = HeadMotion::from(Instant(0));
        let picture = seen(way, 420 * MS, 400 * MS, false);
        let handed = [410, 430].map(|at| Handed {
            submitted: Instant(at * MS),
            sampled: Some(Instant((at - 20) * MS)),
        });
        let late = late(&picture, &handed, way);
        assert!((late.head.unwrap() - 20.0).abs() < 0.2, "{late:?}");
        assert_eq!((late.pose, late.predicted), (Some(30.0), 20.0));
        assert!((1.0..2.0).contains(&late.angle), "{late:?}");
        assert!(are_right(&[picture], way));
    }

    #[test]
    fn eyes_that_are_exchanged_and_a_head_elsewhere_are_wrong() {
        let way = HeadMotion::from(Instant(0));
        assert!(!are_right(&[seen(way, 420 * MS, 400 * MS, true)], way));
        assert!(!are_right(&[], way));
        let mut elsewhere = seen(way, 420 * MS, 400 * MS, false);
        elsewhere.codes[0].yaw = elsewhere.codes[0].yaw.wrapping_add(8000);
        assert!(!are_right(&[elsewhere], way));
    }
}
