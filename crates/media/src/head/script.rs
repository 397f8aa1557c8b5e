//! A scripted head pose: a file with times and poses, for tests and benchmarks.
//!
//! Each line is `seconds,x,y,z,yaw,pitch,roll`: positions are in metres, and angles in degrees to
//! the left, up and to the left shoulder. Values are interpolated linearly between lines; after the
//! last line the script starts again. Times must increase. Empty lines and lines that start with
//! `#` are skipped.

use std::io::{BufRead, BufReader, Read as _};
use std::time::Duration;

use openuvr_clock as clock;
use openuvr_proto::display::RefreshTiming;
use openuvr_proto::pose::Pose;
use openuvr_proto::time::Instant;

use super::schedule::Schedule;
use super::velocity::{EulerPose, VelocityTracker};
use super::{Backend, HeadPose, HeadPoseError, HeadPoseSource};

/// The table entry.
pub const BACKEND: Backend = Backend {
    name: "script",
    argument: "file",
    open: |file| {
        let source = Box::new(Script::open(file)?);
        Ok(HeadPose {
            source,
            input: None,
        })
    },
};

/// Maximum number of bytes that are read from a script: enough for 262 144 lines of 64 bytes.
const MAX_SIZE: u64 = 16 << 20;

/// Plays a script.
pub struct Script {
    lines: Lines,
    /// Time of the first pose.
    began: Option<Instant>,
    last: Option<Instant>,
    schedule: Schedule,
    moving: VelocityTracker,
}

/// Increasing times in seconds, with the poses.
#[derive(Clone, PartialEq, Debug)]
struct Lines(Vec<(f64, EulerPose)>);

impl Script {
    /// Reads the complete file.
    ///
    /// # Errors
    /// [`HeadPoseError`] if the file can't be read, has an invalid line, or has no pose. The message contains the
    /// number of an invalid line.
    pub fn open(path: &str) -> Result<Script, HeadPoseError> {
        let failed = |cause: &dyn std::fmt::Display| {
            HeadPoseError(format!("the head script {path:?}: {cause}"))
        };
        let file = std::fs::File::open(path).map_err(|cause| failed(&cause))?;
        let reader = BufReader::new(file.take(MAX_SIZE));
        let mut lines = Vec::new();
        for (number, line) in reader.lines().enumerate() {
            let line = line.map_err(|cause| failed(&cause))?;
            let line = line.trim();
            if !line.is_empty() && !line.starts_with('#') {
                let read = parse(line).ok_or_else(|| failed(&no_line(number, line)))?;
                if lines.last().is_some_and(|(before, _)| *before >= read.0) {
                    let why = format!(
                        "line {}: the time must be later than in the previous line",
                        number + 1
                    );
                    return Err(failed(&why));
                }
                lines.push(read);
            }
        }
        if lines.is_empty() {
            return Err(failed(
                &"the file is empty or has only comments; write lines of seconds,x,y,z,yaw,pitch,roll",
            ));
        }
        Ok(Script {
            lines: Lines(lines),
            began: None,
            last: None,
            schedule: Schedule::default(),
            moving: VelocityTracker::default(),
        })
    }
}

fn no_line(number: usize, line: &str) -> String {
    let line: String = line.chars().take(80).collect();
    format!(
        "line {}: {line:?} is not seconds,x,y,z,yaw,pitch,roll with finite numbers",
        number + 1
    )
}

/// Parses the time and pose of a line; `None` if it is invalid.
fn parse(line: &str) -> Option<(f64, EulerPose)> {
    let numbers: Result<Vec<f64>, _> = line.split(',').map(|word| word.trim().parse()).collect();
    let [seconds, x, y, z, yaw, pitch, roll] = numbers.ok()?[..] else {
        return None;
    };
    #[allow(
        clippy::cast_possible_truncation,
        reason = "values that are too large become infinite"
    )]
    let [x, y, z, yaw, pitch, roll] = [x, y, z, yaw, pitch, roll].map(|number| number as f32);
    let [yaw, pitch, roll] = [yaw, pitch, roll].map(f32::to_radians);
    let place = EulerPose {
        at: [x, y, z],
        yaw,
        pitch,
        roll,
    };
    let finite = [x, y, z, yaw, pitch, roll].iter().all(|v| v.is_finite());
    (finite && (0.0..1e6).contains(&seconds)).then_some((seconds, place))
}

impl Lines {
    /// The pose at a time after the start, and whether the script has restarted since `before`.
    fn at(&self, after: Duration, before: Duration) -> (EulerPose, bool) {
        let last = self.0.last().map_or(0.0, |line| line.0).max(f64::EPSILON);
        let (after, before) = (after.as_secs_f64(), before.as_secs_f64());
        let restarted = (after / last).floor() > (before / last).floor();
        let time = after % last;
        let next = self.0.partition_point(|line| line.0 <= time);
        let (from, to) = (next.saturating_sub(1), next.min(self.0.len() - 1));
        let ((t0, a), (t1, b)) = (self.0[from], self.0[to]);
        let part = if t1 > t0 {
            ((time - t0) / (t1 - t0)).clamp(0.0, 1.0)
        } else {
            0.0
        };
        #[allow(clippy::cast_possible_truncation, reason = "between 0 and 1")]
        let part = part as f32;
        let between = |a: f32, b: f32| a + (b - a) * part;
        let place = EulerPose {
            at: [0, 1, 2].map(|i| between(a.at[i], b.at[i])),
            yaw: between(a.yaw, b.yaw),
            pitch: between(a.pitch, b.pitch),
            roll: between(a.roll, b.roll),
        };
        (place, restarted)
    }
}

impl HeadPoseSource for Script {
    fn next(&mut self, timeout: Duration) -> Result<Option<(Pose, Instant)>, HeadPoseError> {
        let now = clock::now();
        let began = *self.began.get_or_insert(now);
        let due = self.last.map_or(began, |last| self.schedule.after(last));
        let wait = due.since(now);
        std::thread::sleep(wait.min(timeout));
        if wait > timeout {
            return Ok(None);
        }
        // Samples missed while the machine was suspended are skipped.
        let now = clock::now();
        let before = self.last.map_or(Duration::ZERO, |last| last.since(began));
        self.last = Some(now);
        let (place, restarted) = self.lines.at(now.since(began), before);
        if restarted {
            self.moving.jumped();
        }
        Ok(self.moving.pose(place, now).map(|pose| (pose, now)))
    }

    fn aim(&mut self, wanted: Option<RefreshTiming<Instant>>) {
        self.schedule.aim(wanted);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(text: &str) -> Result<Script, HeadPoseError> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("script.csv");
        std::fs::write(&path, text).expect("it is written");
        Script::open(path.to_str().expect("UTF-8"))
    }

    #[test]
    fn values_are_interpolated_and_repeat() {
        let text =
            "# seconds,x,y,z,yaw,pitch,roll\n0,0,0,0,0,0,0\n\n1, 1,0,0,90,0,0\n3,1,0,0,0,30,0\n";
        let lines = script(text).expect("valid").lines;
        let yaw = |seconds: f64| {
            let (place, restarted) = lines.at(Duration::from_secs_f64(seconds), Duration::ZERO);
            (
                place.yaw.to_degrees().round(),
                place.pitch.to_degrees().round(),
                restarted,
            )
        };
        assert_eq!(yaw(0.0), (0.0, 0.0, false));
        assert_eq!(yaw(0.5), (45.0, 0.0, false));
        assert_eq!(yaw(1.0), (90.0, 0.0, false));
        assert_eq!(yaw(2.0), (45.0, 15.0, false));
        assert_eq!(yaw(3.5), (45.0, 0.0, true));
        let still = script("0,0,1.6,0,0,0,0").expect("valid").lines;
        let (place, _) = still.at(Duration::from_secs(9), Duration::ZERO);
        assert!((place.at[1] - 1.6).abs() < 1e-6);
    }

    #[test]
    fn mistakes_name_their_line() {
        for (text, what) in [
            ("", "empty"),
            ("0,0,0,0,0,0", "line 1"),
            ("0,0,0,0,0,0,0\n1,0,0,0,nan,0,0", "line 2"),
            ("0,0,0,0,0,0,0\n1,0,1e99,0,0,0,0", "line 2"),
            ("1,0,0,0,0,0,0\n1,0,0,0,0,0,0", "must be later"),
            ("-1,0,0,0,0,0,0", "line 1"),
        ] {
            let error = script(text).err().expect(text).to_string();
            assert!(error.contains(what), "{error}");
        }
        let missing = Script::open("/nowhere/at/all").err().expect("missing");
        assert!(missing.to_string().contains("/nowhere"), "{missing}");
    }

    #[test]
    fn poses_come_with_velocities_after_the_first() {
        let mut script = script("0,0,0,0,0,0,0\n1000,0,0,0,100000,0,0").expect("valid");
        let mut next = || {
            script
                .next(Duration::from_secs(5))
                .expect("it does not end")
        };
        let (first, at) = next().expect("at once");
        assert_eq!(first.angular_velocity(), None);
        let (second, then) = next().expect("a pose");
        assert!(then > at);
        // 100 degrees per second.
        let turns = second.angular_velocity().map(|turns| turns[1].to_degrees());
        // No velocity is derived across a suspension of the machine.
        assert!(
            turns.is_none_or(|turns| (turns - 100.0).abs() < 1.0),
            "{turns:?}"
        );
        assert!(
            script
                .next(Duration::ZERO)
                .expect("it does not end")
                .is_none()
        );
    }
}
