//! Recorded sensors: folders with the files of sysfs, and a FIFO or file in place of the character
//! device.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use openuvr_proto::input::event::InputEvent;
use openuvr_proto::rotation::Rotation;
use rustix::fs::{CWD, FileType, Mode};
use tempfile::TempDir;

use super::super::{HeadPoseSource as _, open};
use super::synthetic::{ACCELEROMETER_SCALE, GYROSCOPE_SCALE, Motion, Sensor};
use super::*;
use crate::motion::{self, Axes, Effect, MotionSettings, Output};

/// A timeout that is reached only if a test fails.
const LONG: Duration = Duration::from_secs(20);

/// A folder of devices.
struct Tree(TempDir);

impl Tree {
    fn new() -> Tree {
        Tree(tempfile::tempdir().expect("a folder"))
    }

    fn device(&self, number: u32) -> PathBuf {
        self.0.path().join(format!("iio:device{number}"))
    }

    fn write(&self, number: u32, name: &str, text: &str) {
        let path = self.device(number).join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, format!("{text}\n")).expect("written");
    }

    fn read(&self, number: u32, name: &str) -> String {
        let text = fs::read_to_string(self.device(number).join(name)).expect("it exists");
        text.trim().to_owned()
    }

    /// Writes the attributes of a sensor at rest. The indices of its channels start at `first`.
    fn sensor(&self, number: u32, kind: Kind, first: usize) {
        let (prefix, scale, rest) = match kind {
            Kind::Gyroscope => ("in_anglvel", GYROSCOPE_SCALE, [0, 0, 0]),
            Kind::Accelerometer => ("in_accel", ACCELEROMETER_SCALE, [0, 8192, 0]),
        };
        self.write(number, &format!("{prefix}_scale"), &scale.to_string());
        for (axis, name) in ["x", "y", "z"].into_iter().enumerate() {
            let channel = format!("scan_elements/{prefix}_{name}");
            self.write(
                number,
                &format!("{prefix}_{name}_raw"),
                &rest[axis].to_string(),
            );
            self.write(number, &format!("{channel}_en"), "0");
            self.write(
                number,
                &format!("{channel}_index"),
                &(first + axis).to_string(),
            );
            self.write(number, &format!("{channel}_type"), "be:s16/16>>0");
        }
    }

    /// Writes the buffer's attributes. The temperature channel is already enabled.
    fn buffer(&self, number: u32) {
        self.write(number, "name", "recorded");
        self.write(number, "sampling_frequency", "50");
        self.write(
            number,
            "sampling_frequency_available",
            "10 20 50 100 200 500",
        );
        self.write(number, "current_timestamp_clock", "realtime");
        self.write(number, "buffer/enable", "0");
        self.write(number, "buffer/length", "2");
        self.write(number, "scan_elements/in_timestamp_en", "0");
        self.write(number, "scan_elements/in_timestamp_index", "9");
        self.write(number, "scan_elements/in_timestamp_type", "le:s64/64>>0");
        self.write(number, "scan_elements/in_temp_en", "1");
    }

    /// A FIFO as the character device.
    fn fifo(&self, number: u32) -> File {
        let path = self.device(number).join("samples");
        rustix::fs::mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("made");
        let end = OpenOptions::new().read(true).write(true).open(path);
        end.expect("the test's end")
    }

    /// An MPU-6050 with both sensors in one buffer.
    fn one_device() -> (Tree, File) {
        let tree = Tree::new();
        tree.sensor(0, Kind::Accelerometer, 0);
        tree.sensor(0, Kind::Gyroscope, 4);
        tree.buffer(0);
        let fifo = tree.fifo(0);
        (tree, fifo)
    }

    fn open(&self) -> Result<Iio, HeadPoseError> {
        Iio::open(self.0.path())
    }

    /// All files and their contents.
    fn contents(&self) -> Vec<(PathBuf, String)> {
        fn list(folder: &Path, found: &mut Vec<(PathBuf, String)>) {
            for entry in fs::read_dir(folder).expect("listed").flatten() {
                let (path, kind) = (entry.path(), entry.file_type().expect("a type"));
                match kind {
                    kind if kind.is_dir() => list(&path, found),
                    kind if kind.is_file() => {
                        let text = fs::read_to_string(&path).unwrap_or_default();
                        found.push((path, text.trim().to_owned()));
                    }
                    _ => {}
                }
            }
        }
        let mut found = Vec::new();
        list(self.0.path(), &mut found);
        found.sort();
        found
    }
}

/// A scan of one device: acceleration, angular velocity and time.
fn scan(rate: [i16; 3], acceleration: [i16; 3], stamp: i64) -> Vec<u8> {
    let words = acceleration.into_iter().chain(rate);
    let mut bytes: Vec<u8> = words.flat_map(i16::to_be_bytes).collect();
    bytes.extend([0; 4]);
    bytes.extend(stamp.to_le_bytes());
    bytes
}

const UP: [i16; 3] = [0, 8192, 0];

#[test]
fn a_sample_is_a_pose_within_the_same_call() {
    let (tree, mut fifo) = Tree::one_device();
    let before = tree.contents();
    let mut head = tree.open().expect("it opens");
    assert_eq!(tree.read(0, "sampling_frequency"), "200");
    assert_eq!(tree.read(0, "current_timestamp_clock"), "monotonic");
    assert_eq!(tree.read(0, "buffer/enable"), "1");
    assert_eq!(tree.read(0, "scan_elements/in_temp_en"), "0");
    assert!(head.next(Duration::ZERO).expect("it works").is_none());
    for n in 1..100 {
        let stamp = clock::now();
        fifo.write_all(&scan([n, 0, 0], UP, stamp.0)).expect("room");
        let (_, at) = head
            .next(Duration::ZERO)
            .expect("it works")
            .expect("a pose");
        assert_eq!(at, stamp, "the kernel's time, not that of the read");
        assert!(head.next(Duration::ZERO).expect("it works").is_none());
    }
    drop(head);
    assert_eq!(tree.contents(), before, "all is restored");
}

#[test]
fn the_buffer_is_disabled_before_the_rate_is_restored() {
    use rustix::fs::inotify::{self, CreateFlags, WatchFlags};

    let (tree, _fifo) = Tree::one_device();
    let head = tree.open().expect("it opens");
    let events = inotify::init(CreateFlags::NONBLOCK).expect("inotify");
    let names = ["buffer/enable", "sampling_frequency"];
    let watches = names.map(|name| {
        let path = tree.device(0).join(name);
        inotify::add_watch(&events, path, WatchFlags::CLOSE_WRITE).expect("a watch")
    });
    drop(head);
    let mut buffer = [std::mem::MaybeUninit::uninit(); 512];
    let mut events = inotify::Reader::new(&events, &mut buffer);
    let order = [(); 2].map(|()| events.next().expect("a write").wd());
    assert_eq!(order, watches);
}

/// The times of a host that samples poses at this rate per second.
fn poses_per_second(rate: f64) -> Option<RefreshTiming<Instant>> {
    let period = Duration::from_secs_f64(1.0 / rate);
    Some(RefreshTiming {
        phase: clock::now(),
        period,
    })
}

#[test]
fn the_rate_follows_the_poses_that_the_host_samples() {
    use rustix::fs::inotify::{self, CreateFlags, WatchFlags};

    let (tree, mut fifo) = Tree::one_device();
    let before = tree.contents();
    let mut head = tree.open().expect("it opens");
    let events = inotify::init(CreateFlags::NONBLOCK).expect("inotify");
    let [enable, rate] = ["buffer/enable", "sampling_frequency"].map(|name| {
        let path = tree.device(0).join(name);
        inotify::add_watch(&events, path, WatchFlags::CLOSE_WRITE).expect("a watch")
    });
    let mut buffer = [std::mem::MaybeUninit::uninit(); 512];
    let mut events = inotify::Reader::new(&events, &mut buffer);
    let mut writes =
        || std::iter::from_fn(|| events.next().ok().map(|event| event.wd())).collect::<Vec<_>>();
    // 120 samples per second are enough, so the rate stays.
    head.aim(poses_per_second(30.0));
    assert_eq!(tree.read(0, "sampling_frequency"), "200");
    assert!(writes().is_empty(), "the samples are not interrupted");
    // Half of a scan is read before the change, and the other half after it.
    let stamp = clock::now();
    let bytes = scan([1, 0, 0], UP, stamp.0);
    let (first, second) = bytes.split_at(9);
    fifo.write_all(first).expect("room");
    assert!(head.next(Duration::ZERO).expect("it works").is_none());
    head.aim(poses_per_second(90.0));
    assert_eq!(tree.read(0, "sampling_frequency"), "500");
    assert_eq!(writes(), [enable, rate, enable], "drivers need this order");
    assert_eq!(tree.read(0, "buffer/enable"), "1");
    fifo.write_all(second).expect("room");
    let (_, at) = head.next(LONG).expect("it works").expect("a pose");
    assert_eq!(at, stamp);
    // Fewer poses, unknown times, and slightly more poses do not change the rate.
    for wanted in [poses_per_second(60.0), None, poses_per_second(92.0)] {
        head.aim(wanted);
        assert!(writes().is_empty(), "{wanted:?}");
    }
    drop(head);
    assert_eq!(tree.contents(), before, "all is restored");
}

#[test]
fn a_sensor_with_one_rate_keeps_its_rate() {
    let (tree, mut fifo) = Tree::one_device();
    fs::remove_file(tree.device(0).join("sampling_frequency_available")).expect("removed");
    let mut head = tree.open().expect("it opens");
    head.aim(poses_per_second(90.0));
    assert_eq!(tree.read(0, "sampling_frequency"), "50");
    fifo.write_all(&scan([1, 0, 0], UP, clock::now().0))
        .expect("room");
    assert!(head.next(LONG).expect("it works").is_some());
}

#[test]
fn a_recorded_turn_turns_the_head() {
    let (tree, mut fifo) = Tree::one_device();
    let mut head = tree.open().expect("it opens");
    let mut sensor = Sensor::mpu6050(200.0, Motion::LookAround, 1);
    let mut pose = None;
    for n in 1..=200 * 20_i64 {
        let (rate, acceleration) = sensor.digits();
        // The timestamps are those of a recording. Only the steps between them count, not their offset from the current
        // clock.
        fifo.write_all(&scan(rate, acceleration, n * 5_000_000))
            .expect("room");
        pose = head.next(LONG).expect("it works");
    }
    let found = Rotation::of(&pose.expect("a pose").0);
    let off = found.after(sensor.orientation().inverse()).vector();
    let off = off.iter().map(|v| v * v).sum::<f32>().sqrt().to_degrees();
    assert!(off < 1.0, "{off}° off after 20 s");
}

#[test]
fn many_samples_are_one_pose_and_parts_of_scans_are_joined() {
    let (tree, mut fifo) = Tree::one_device();
    let mut head = tree.open().expect("it opens");
    let turns = [3000, 0, 0];
    let bytes: Vec<u8> = (1..=100)
        .flat_map(|n| scan(turns, UP, n * 5_000_000))
        .collect();
    let (first, second) = bytes.split_at(bytes.len() - 7);
    fifo.write_all(first).expect("room");
    let (early, _) = head.next(LONG).expect("it works").expect("a pose");
    fifo.write_all(second).expect("room");
    let (late, _) = head.next(LONG).expect("it works").expect("a pose");
    assert!(head.next(Duration::ZERO).expect("it works").is_none());
    let up = |pose: &Pose| Rotation::of(pose).turn([0.0, 0.0, -1.0])[1];
    assert!(
        up(&early) > 0.1 && up(&late) > up(&early),
        "{early:?} {late:?}"
    );
}

#[test]
fn two_devices_are_one_head() {
    let tree = Tree::new();
    tree.sensor(1, Kind::Gyroscope, 0);
    tree.sensor(2, Kind::Accelerometer, 0);
    let mut ends = [1, 2].map(|number| {
        tree.buffer(number);
        tree.write(number, "scan_elements/in_timestamp_index", "3");
        tree.fifo(number)
    });
    let before = tree.contents();
    let mut head = tree.open().expect("it opens");
    let words = |words: [i16; 3]| {
        let mut bytes: Vec<u8> = words.into_iter().flat_map(i16::to_be_bytes).collect();
        bytes.extend([0; 2]);
        bytes.extend(clock::now().0.to_le_bytes());
        bytes
    };
    ends[0].write_all(&words([1, 2, 3])).expect("room");
    assert!(
        head.next(Duration::ZERO).expect("it works").is_none(),
        "no gravity yet"
    );
    ends[1].write_all(&words(UP)).expect("room");
    assert!(
        head.next(Duration::ZERO).expect("it works").is_none(),
        "no rotation"
    );
    ends[0].write_all(&words([1, 2, 3])).expect("room");
    assert!(head.next(Duration::ZERO).expect("it works").is_some());
    drop(head);
    assert_eq!(tree.contents(), before);
    // The folder of a single device is used for both sensors.
    let gyroscope = tree.device(1);
    drop(Iio::open(&gyroscope).expect("its neighbour has the other sensor"));
}

#[test]
fn a_device_without_a_buffer_is_polled() {
    let tree = Tree::new();
    tree.sensor(0, Kind::Accelerometer, 0);
    tree.sensor(0, Kind::Gyroscope, 3);
    tree.write(0, "mount_matrix", "0, 0, 1; 0, 1, 0; -1, 0, 0");
    // The sensor's z axis is the head's x axis: 60° a second upwards.
    tree.write(0, "in_anglvel_z_raw", "3932");
    let before = tree.contents();
    let mut head = tree.open().expect("it opens");
    let (first, _) = head.next(LONG).expect("it works").expect("a pose");
    let velocity = first.angular_velocity().expect("measured");
    assert!(
        (velocity[0].to_degrees() - 60.0).abs() < 0.1,
        "{velocity:?}"
    );
    let (later, _) = head.next(LONG).expect("it works").expect("a pose");
    let looks = Rotation::of(&later).turn([0.0, 0.0, -1.0]);
    assert!(looks[1] > 0.001, "{looks:?}");
    tree.write(0, "in_anglvel_x_raw", "many");
    let wrong = head.next(LONG).unwrap_err().to_string();
    assert!(
        wrong.contains("in_anglvel_x_raw does not contain a whole number"),
        "{wrong}"
    );
    fs::remove_file(tree.device(0).join("in_anglvel_x_raw")).expect("removed");
    tree.write(0, "in_anglvel_x_raw", "0");
    drop(head);
    assert_eq!(tree.contents(), before);
}

#[test]
fn a_failure_half_way_is_undone() {
    type Fault = fn(&Tree);
    let faults: [(&str, Fault); 7] = [
        ("a wrong type", |tree| {
            tree.write(0, "scan_elements/in_anglvel_y_type", "le:f32/32")
        }),
        ("a quaternion", |tree| {
            tree.write(0, "scan_elements/in_anglvel_y_type", "le:s16/16X4>>0");
        }),
        ("a wrong index", |tree| {
            tree.write(0, "scan_elements/in_anglvel_z_index", "third")
        }),
        ("an absent axis", |tree| {
            let path = tree.device(0).join("scan_elements/in_accel_z_en");
            fs::remove_file(path).expect("removed");
        }),
        ("no length", |tree| {
            fs::remove_file(tree.device(0).join("buffer/length")).expect("removed");
        }),
        ("no character device", |tree| {
            fs::remove_file(tree.device(0).join("samples")).expect("removed");
        }),
        ("a buffer in use", |tree| {
            tree.write(0, "buffer/enable", "1")
        }),
    ];
    for (fault, apply) in faults {
        let (tree, _fifo) = Tree::one_device();
        apply(&tree);
        let before = tree.contents();
        let head = tree.open().unwrap_or_else(|e| panic!("{fault}: {e}"));
        assert!(matches!(head.input, Input::Polled(..)), "{fault}");
        assert_eq!(
            tree.read(0, "sampling_frequency"),
            "200",
            "{fault}: it stays in use"
        );
        drop(head);
        assert_eq!(tree.contents(), before, "{fault}");
    }
}

#[test]
fn unusable_sensors_are_refused_in_one_line() {
    let refused = |spec: &str| {
        let e = open(spec).err().expect("it is refused").to_string();
        assert!(!e.contains('\n') && e.len() < 500, "{e}");
        e
    };
    assert!(refused("iio:/nowhere").contains("--head-pose iio:FOLDER"));
    let tree = Tree::new();
    let spec = format!("iio:{}", tree.0.path().display());
    assert!(refused(&spec).starts_with("no gyroscope in"));
    tree.sensor(0, Kind::Gyroscope, 0);
    assert!(refused(&spec).starts_with("no accelerometer in"));
    tree.sensor(0, Kind::Accelerometer, 3);
    assert!(open(&spec).is_ok());
    let before = tree.contents();
    for (name, value, words) in [
        (
            "in_anglvel_scale",
            "0",
            "in_anglvel_scale is missing or zero",
        ),
        ("in_anglvel_scale", "large", "does not contain a number"),
        ("in_accel_x_raw", "", "does not contain a whole number"),
        (
            "in_mount_matrix",
            "1, 0, 0; 0, 1, 0; 0, 0, -1",
            "does not contain a rotation",
        ),
    ] {
        let old = fs::read(tree.device(0).join(name)).ok();
        tree.write(0, name, value);
        let refusal = refused(&spec);
        assert!(refusal.contains(words), "{refusal}");
        match old {
            Some(old) => fs::write(tree.device(0).join(name), old).expect("written"),
            None => fs::remove_file(tree.device(0).join(name)).expect("removed"),
        }
    }
    assert_eq!(tree.contents(), before);
}

#[test]
fn a_recording_in_a_file_plays_at_its_rate_and_ends() {
    let (tree, _fifo) = Tree::one_device();
    let samples = tree.device(0).join("samples");
    fs::remove_file(&samples).expect("removed");
    let bytes: Vec<u8> = (0..10).flat_map(|n| scan([n, 0, 0], UP, 0)).collect();
    fs::write(&samples, bytes).expect("written");
    let mut head = tree.open().expect("it opens");
    let (mut poses, start) = (0, clock::now());
    let end = loop {
        match head.next(LONG) {
            Ok(Some(_)) => poses += 1,
            Ok(None) => panic!("it waits"),
            Err(e) => break e.to_string(),
        }
    };
    assert_eq!(poses, 10);
    assert!(clock::now().since(start) >= Duration::from_millis(9 * 5));
    assert!(end.contains("have ended"), "{end}");
}

/// A log that the test reads.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn lines(&self) -> Vec<String> {
        let bytes = self.0.lock().expect("no panic");
        let text = String::from_utf8_lossy(&bytes);
        text.lines().map(str::to_owned).collect()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no panic").write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_stuck_sensor_is_reported_once_and_stops_the_view() {
    let (tree, mut fifo) = Tree::one_device();
    let mut head = tree.open().expect("it opens");
    let (log, mut stamp) = (Log::default(), 0);
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    tracing::subscriber::with_default(subscriber, || {
        let mut sample = |rate| {
            stamp += 5_000_000;
            fifo.write_all(&scan(rate, UP, stamp)).expect("room");
            head.next(LONG).expect("it works").expect("a pose").0
        };
        let apart = |a: &Pose, b: &Pose| {
            let turn = Rotation::of(a).after(Rotation::of(b).inverse()).vector();
            turn.iter().map(|v| v * v).sum::<f32>().sqrt().to_degrees()
        };
        // 92° per second to the left: more than the offset of any sensor at rest.
        let stuck = [0, 6000, 0];
        let moved = apart(&sample(stuck), &sample(stuck));
        assert!(moved > 0.3, "{moved}°: at first, it may be a turn");
        let reported = || log.lines().iter().any(|line| line.contains("hangs"));
        let end = clock::now() + LONG;
        while !reported() {
            assert!(clock::now() < end, "no warning: {:?}", log.lines());
            let _ = sample(stuck);
            std::thread::sleep(Duration::from_millis(5));
        }
        let before = sample(stuck);
        for _ in 0..400 {
            let pose = sample(stuck);
            assert!(apart(&pose, &before) < 0.05, "{pose:?} {before:?}");
            assert_eq!(pose.angular_velocity(), Some([0.0; 3]));
        }
        // Another value turns the view again.
        let _ = sample([0, 6001, 0]);
        let moved = apart(&sample([0, 6000, 0]), &before);
        assert!(moved > 0.3, "{moved}°");
    });
    let lines = log.lines();
    let count = |words: &str| lines.iter().filter(|line| line.contains(words)).count();
    assert_eq!(count("WARN"), 1, "{lines:?}");
    assert_eq!((count("hangs"), count("works again")), (1, 1), "{lines:?}");
}

#[test]
fn a_flood_ends_the_source() {
    let (tree, mut fifo) = Tree::one_device();
    let mut head = tree.open().expect("it opens");
    let bytes: Vec<u8> = (0..170).flat_map(|n| scan([n, 0, 0], UP, 0)).collect();
    let flood = loop {
        fifo.write_all(&bytes).expect("room");
        if let Err(flood) = head.next(LONG) {
            break flood.to_string();
        }
    };
    assert!(
        flood.contains("samples a second") && flood.contains("sampling_frequency"),
        "{flood}"
    );
}

#[test]
fn a_recorded_sensor_moves_the_mouse_of_a_game() {
    let (tree, mut fifo) = Tree::one_device();
    let mut head = tree.open().expect("it opens");
    let mut sensor = Sensor::mpu6050(200.0, Motion::LookAround, 5);
    let mut motion = motion::Motion::new(&MotionSettings {
        output: Output::Mouse(10.0),
        axes: Axes::default(),
        dead_zone: 0.0,
    });
    let (mut across, mut events) = (0_i64, 0);
    for n in 1..=200 * 13_i64 {
        let (rate, acceleration) = sensor.digits();
        fifo.write_all(&scan(rate, acceleration, n * 5_000_000))
            .expect("room");
        let (pose, _) = head.next(LONG).expect("it works").expect("a pose");
        if let Some(Effect::Pointer(InputEvent::PointerRelative { dx, .. })) = motion.pose(&pose) {
            across += i64::from(dx);
            events += 1;
        }
    }
    // The pointer has turned the view by the head's yaw, within a degree.
    let [x, _, z] = sensor.orientation().turn([0.0, 0.0, -1.0]);
    let yaw = f64::from((-x).atan2(-z).to_degrees());
    assert!(yaw.abs() > 20.0, "{yaw}: the head has turned");
    #[allow(clippy::cast_precision_loss, reason = "some hundred counts")]
    let view = across as f64 / -10.0;
    assert!((view - yaw).abs() < 1.0, "{view} {yaw}");
    assert!(events > 500, "{events}");
}
