//! The recorder with a real host. ffmpeg, an independent implementation, reads its files.

#![expect(clippy::unwrap_used, reason = "a failure ends the test")]

#[path = "../rtsp/beside.rs"]
mod beside;
mod ffmpeg;
#[path = "../support/mod.rs"]
mod support;
mod vlc;

use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use openuvr_gateway::record::{Notify, RecordError, RecordSetup, Recorder, Summary};
use openuvr_media::capture::pattern::Pattern as Still;
use openuvr_proto::control::negotiate::{ClientConstraints, Role};
use openuvr_proto::host::SubscribeRequest;
use openuvr_proto::trace::{Outcome, Stage};
use openuvr_proto::units::Size;
use openuvr_runtime::host::{GatewayHost, Notice, SoundCodec, SubscribeError};
use openuvr_runtime::remote::{GatewayListener, NAME, RemoteHost};

use self::beside::{assert_is_part_of, nal_units, write_down};
use self::ffmpeg::{annex_b, decodes, entries, samples};
use self::support::real_time_loops::{Pattern, RealTimeLoops};
use self::support::stalls::measured_without_stalls;
use self::support::{Rig, STALLED, TIMEOUT, eventually};

const SIZE: Size = Size::new(640, 384);

/// Maximum time from the first picture to the first sound of a recording, in seconds. The recorder skips sound that
/// arrives before the first picture, so the delay is the time that this picture takes through the encoder and the
/// queues: tens of milliseconds on a slow machine.
const MAX_SOUND_DELAY: f64 = 0.5;

/// Messages of a recorder to the user.
type Messages = Arc<Mutex<Vec<String>>>;

/// A recorder with Opus, and its messages.
fn recorder(
    rig: &Rig,
    file: PathBuf,
    overwrite: bool,
) -> (Result<Recorder, RecordError>, Messages) {
    recorder_of(rig, file, overwrite, SoundCodec::Opus)
}

/// A recorder with this sound codec, and its messages.
fn recorder_of(
    rig: &Rig,
    file: PathBuf,
    overwrite: bool,
    codec: SoundCodec,
) -> (Result<Recorder, RecordError>, Messages) {
    let said = Messages::default();
    let to = said.clone();
    let tell: Notify = Arc::new(move |words: &str| to.lock().unwrap().push(words.to_owned()));
    let setup = RecordSetup {
        file,
        overwrite,
        sound: Some(codec),
    };
    (Recorder::create(setup, &rig.scheduler(), tell), said)
}

fn rig(name: &str) -> Rig {
    Rig::with(name, SIZE, |config| {
        config.sound = openuvr_runtime::sound_choice::SoundChoice::parse("tone:440")
    })
}

/// Waits until a subscriber with this name has received this many frames.
fn gets(rig: &Rig, prefix: &str, frames: usize) {
    let mut id = None;
    let mut left = 0;
    while left < frames {
        match rig.notices.next(TIMEOUT).expect("a notice") {
            Notice::Subscribed {
                subscriber, name, ..
            } if name.starts_with(prefix) => id = Some(subscriber),
            Notice::Record(record)
                if Some(record.subscriber) == id
                    && record.outcome == Outcome::SentUnacknowledged =>
            {
                left += 1;
            }
            _ => {}
        }
    }
}

/// Follows the next subscriber with this name from its first sent frame on, until `frames` have been sent. Returns the
/// number of sent frames, and the number of encoded frames that were not sent.
fn left_and_missed(rig: &Rig, prefix: &str, frames: usize) -> (usize, usize) {
    let mut id = None;
    let (mut left, mut missed) = (0, 0);
    while left < frames {
        match rig.notices.next(TIMEOUT).expect("a notice") {
            Notice::Subscribed {
                subscriber, name, ..
            } if name.starts_with(prefix) => id = Some(subscriber),
            Notice::Record(record) if Some(record.subscriber) == id => match record.outcome {
                Outcome::SentUnacknowledged => left += 1,
                Outcome::Dropped {
                    stage: Stage::FirstSent,
                    ..
                } if left > 0 => missed += 1,
                _ => {}
            },
            _ => {}
        }
    }
    (left, missed)
}

fn finished(recorder: Recorder) -> Summary {
    recorder.finish().expect("a finished recording")
}

#[test]
fn a_recording_is_the_encoders_output() {
    // A stall delays the start of the sound, and leaves gaps in it.
    measured_without_stalls(3, STALLED, || {
        let Some((begin, pitch)) = sound_beside_the_encoders_output()? else {
            return Ok(());
        };
        // The sound starts with the picture, and has the right pitch.
        match begin < MAX_SOUND_DELAY && (pitch - 440.0).abs() < 10.0 {
            true => Ok(()),
            false => Err(format!(
                "the sound begins {begin} s after the picture, with {pitch} Hz"
            )),
        }
    });
}

/// Makes a recording and checks it. Returns the start of its sound in seconds after the picture, and the pitch of the
/// sound in hertz. Without ffmpeg, prints a message and returns `None`. The error is a gap in the sound.
fn sound_beside_the_encoders_output() -> Result<Option<(f64, f64)>, String> {
    let rig = rig("record");
    let made = write_down(&rig.host);
    let file = rig.folder.path().join("it.mp4");
    let (recorder, said) = recorder(&rig, file.clone(), false);
    let recorder = recorder.unwrap();
    recorder.follow(rig.host.clone()).unwrap();
    gets(&rig, "recording to", 150);
    let Summary {
        written,
        missed,
        bytes,
        failed,
    } = finished(recorder);
    assert!(!failed && missed == 0, "{:?}", said.lock());
    assert!(written.frames >= 100, "{written:?}");
    if written.packets <= 300 {
        return Err(format!("little sound: {written:?}"));
    }
    assert_eq!(std::fs::metadata(&file).unwrap().len(), bytes);
    if !ffmpeg::is_there() {
        return Ok(None);
    }
    // All counted frames and packets are decodable, and their times increase.
    assert_eq!(
        decodes(&file, "v"),
        usize::try_from(written.frames).unwrap()
    );
    for (track, count) in [("v", written.frames), ("a", written.packets)] {
        let times = entries(&file, track, "packet=pts_time");
        assert_eq!(times.len() as u64, count, "{track}");
        assert!(times.is_sorted_by(|one, next| one < next), "{track}");
    }
    // The file contains the encoder's output, frame for frame and in the same order.
    let stream = annex_b(&file);
    assert_is_part_of(&nal_units(&stream), &made);
    let begins = |track| entries(&file, track, "packet=pts_time")[0];
    assert_eq!(begins("v"), 0.0);
    let heard = samples(&file);
    let crossings = heard.windows(2).filter(|two| two[0] < 0.0 && two[1] >= 0.0);
    let pitch = crossings.count() as f64 * 48_000.0 / heard.len() as f64;
    Ok(Some((begins("a"), pitch)))
}

#[test]
fn a_host_in_another_process_is_recorded_with_sound() {
    let rig = rig("remote");
    let made = write_down(&rig.host);
    let path = rig.folder.path().join(NAME);
    let gateways = GatewayListener::open(&path, &rig.host, &rig.scheduler()).unwrap();
    let remote = Arc::new(RemoteHost::new(path, &rig.scheduler()));
    let file = rig.folder.path().join("it.mp4");
    let (recorder, _) = recorder(&rig, file.clone(), false);
    let recorder = recorder.unwrap();
    recorder.follow(remote.clone()).unwrap();
    gets(&rig, "recording to", 90);
    let written = finished(recorder).written;
    assert!(written.frames >= 60 && written.packets > 100, "{written:?}");
    drop((remote, gateways));
    if !ffmpeg::is_there() {
        return;
    }
    assert_eq!(
        decodes(&file, "v"),
        usize::try_from(written.frames).unwrap()
    );
    assert_eq!(
        entries(&file, "a", "packet=pts_time").len() as u64,
        written.packets
    );
    let stream = annex_b(&file);
    assert_is_part_of(&nal_units(&stream), &made);
}

/// The sound of a recording with AAC, from a host in this process and from one in another process.
#[test]
fn a_recording_with_aac_has_the_right_pitch() {
    let rig = rig("aac");
    let path = rig.folder.path().join(NAME);
    let gateways = GatewayListener::open(&path, &rig.host, &rig.scheduler()).unwrap();
    let remote: Arc<dyn GatewayHost> = Arc::new(RemoteHost::new(path, &rig.scheduler()));
    let hosts = [rig.host.clone() as Arc<dyn GatewayHost>, remote];
    for (host, name) in hosts.into_iter().zip(["here.mp4", "there.mp4"]) {
        let file = rig.folder.path().join(name);
        let (recorder, said) = recorder_of(&rig, file.clone(), false, SoundCodec::Aac);
        let recorder = recorder.unwrap();
        recorder.follow(host).unwrap();
        gets(&rig, "recording to", 150);
        let written = finished(recorder).written;
        assert!(said.lock().unwrap().is_empty(), "{said:?}");
        // There are 47 access units per second.
        assert!(written.packets > 70, "{written:?}");
        if !ffmpeg::is_there() {
            return;
        }
        assert_eq!(ffmpeg::sound_format(&file), "aac,LC,48000,2");
        let times = entries(&file, "a", "packet=pts_time");
        assert_eq!(times.len() as u64, written.packets);
        assert!(times.is_sorted_by(|one, next| one < next));
        let heard = samples(&file);
        let second = &heard[heard.len() - 48_000..];
        let crossings = second
            .windows(2)
            .filter(|two| two[0] < 0.0 && two[1] >= 0.0);
        let pitch = crossings.count();
        assert!((435..=445).contains(&pitch), "{name}: {pitch} Hz");
    }
    drop(gateways);
}

#[test]
fn a_recording_is_complete_despite_stalls() {
    for (name, pattern) in [("often", Pattern::OFTEN), ("long", Pattern::LONG)] {
        let rig = rig(name);
        let file = rig.folder.path().join("it.mp4");
        let (recorder, said) = recorder(&rig, file.clone(), false);
        let recorder = recorder.unwrap();
        let Some(loops) = RealTimeLoops::start(pattern) else {
            return;
        };
        recorder.follow(rig.host.clone()).unwrap();
        let (left, missed) = left_and_missed(&rig, "recording to", 300);
        assert!(loops.stops() > 10, "{}", loops.stops());
        let summary = finished(recorder);
        drop(loops);
        let said = said.lock().unwrap();
        assert!(
            missed * 1000 <= left && summary.missed == 0,
            "{name}: {left} left, {missed} missed; {said:?}"
        );
        assert!(summary.written.frames >= 300, "{name}: {summary:?}");
        if ffmpeg::is_there() {
            assert_eq!(decodes(&file, "v") as u64, summary.written.frames);
        }
    }
}

#[test]
fn a_still_recording_ends_at_its_end_time() {
    let still = Box::new(Still::open(SIZE, 0.1).unwrap());
    let rig = Rig::showing("still", still, Vec::new(), |_| ());
    let file = rig.folder.path().join("it.mp4");
    let (recorder, _) = recorder(&rig, file.clone(), false);
    let recorder = recorder.unwrap();
    recorder.follow(rig.host.clone()).unwrap();
    let (_, missed) = left_and_missed(&rig, "recording to", 1);
    let began = Instant::now();
    std::thread::sleep(Duration::from_secs(4));
    let lasted = began.elapsed();
    let written = finished(recorder).written;
    let span = Duration::from_nanos(written.span.unsigned_abs());
    assert_eq!(missed, 0);
    assert!(span >= lasted, "{span:?} of {lasted:?}");
    // There are several frames, because a single one would have an unknown duration.
    assert!(written.frames >= 4, "{written:?}");
    if ffmpeg::is_there() {
        let long = ffmpeg::duration(&file);
        assert!(
            (long - span.as_secs_f64()).abs() < 0.01,
            "{long} of {span:?}"
        );
    }
}

#[test]
fn another_size_continues_in_the_same_file() {
    let rig = rig("resized");
    let file = rig.folder.path().join("it.mp4");
    let (recorder, _) = recorder(&rig, file.clone(), false);
    let recorder = recorder.unwrap();
    recorder.follow(rig.host.clone()).unwrap();
    gets(&rig, "recording to", 30);
    // A player with a small display.
    let constraints = ClientConstraints {
        size: Some(Size::new(320, 192)),
        ..ClientConstraints::default()
    };
    let request = SubscribeRequest {
        constraints,
        ..SubscribeRequest::new(Role::Player, "a small display")
    };
    let small = beside::write_down_as(&rig.host, request);
    eventually("smaller frames", || {
        (small.lock().unwrap().units.len() > 300).then_some(())
    });
    let written = finished(recorder).written;
    if !ffmpeg::is_there() {
        return;
    }
    let widths = entries(&file, "v", "frame=width");
    assert_eq!(widths.len() as u64, written.frames);
    let (large, small): (Vec<f64>, Vec<f64>) = widths.iter().partition(|width| **width == 640.0);
    assert!(large.len() >= 30 && small.len() >= 10, "{widths:?}");
    assert!(small.iter().all(|width| *width == 320.0), "{widths:?}");
}

#[test]
fn an_existing_file_needs_overwrite() {
    let rig = rig("exists");
    let file = rig.folder.path().join("it.mp4");
    std::fs::write(&file, "existing").unwrap();
    let (refused, _) = recorder(&rig, file.clone(), false);
    let refused = refused.err().unwrap();
    assert!(matches!(refused, RecordError::Exists(_)), "{refused}");
    assert_eq!(std::fs::read(&file).unwrap(), b"existing");
    let (told, _) = recorder(&rig, file.clone(), true);
    // Nothing was recorded, so existing files are kept and no new file remains.
    let summary = finished(told.unwrap());
    assert_eq!(summary.bytes, 0);
    assert_eq!(std::fs::read(&file).unwrap(), b"existing");
    let new = rig.folder.path().join("new.mp4");
    let (made, _) = recorder(&rig, new.clone(), false);
    assert_eq!(finished(made.unwrap()).bytes, 0);
    assert!(!new.exists());
    // A longer file is replaced completely.
    std::fs::write(&file, vec![7; 1 << 24]).unwrap();
    let (over, _) = recorder(&rig, file.clone(), true);
    let over = over.unwrap();
    over.follow(rig.host.clone()).unwrap();
    eventually("a fragment", || {
        let length = std::fs::metadata(&file).unwrap().len();
        (length < 1 << 24).then_some(())
    });
    let summary = finished(over);
    assert_eq!(summary.bytes, std::fs::metadata(&file).unwrap().len());
}

#[test]
fn a_full_disk_ends_the_recording_alone() {
    let rig = rig("full");
    let made = write_down(&rig.host);
    let (recorder, said) = recorder(&rig, "/dev/full".into(), true);
    let recorder = recorder.unwrap();
    recorder.follow(rig.host.clone()).unwrap();
    eventually("a message", || {
        (said.lock().unwrap().len() == 1).then_some(())
    });
    // The recorder has unsubscribed, and the other subscribers continue.
    eventually("its end", || match rig.notices.next(TIMEOUT)? {
        Notice::Ended(..) => Some(()),
        _ => None,
    });
    let before = made.lock().unwrap().units.len();
    eventually("more frames", || {
        (made.lock().unwrap().units.len() > before + 500).then_some(())
    });
    let summary = finished(recorder);
    assert!(summary.failed && summary.written.frames == 0, "{summary:?}");
    let said = said.lock().unwrap();
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains("No space left on device"), "{said:?}");
}

#[test]
fn a_blocked_disk_delays_no_subscriber() {
    let rig = rig("stuck");
    let made = write_down(&rig.host);
    // A pipe from which nothing is read: it takes 64 KiB, then blocks the writer.
    let (reader, pipe) = std::io::pipe().unwrap();
    let pipe = OwnedFd::from(pipe);
    let path = format!("/proc/self/fd/{}", pipe.as_raw_fd());
    let (recorder, said) = recorder(&rig, path.into(), true);
    let recorder = recorder.unwrap();
    recorder.follow(rig.host.clone()).unwrap();
    gets(&rig, "recording to", 200);
    let before = made.lock().unwrap().units.len();
    eventually("more frames", || {
        (made.lock().unwrap().units.len() > before + 500).then_some(())
    });
    let said = said.lock().unwrap().clone();
    assert!(said.is_empty(), "{said:?}");
    // Now writing fails.
    drop(reader);
    let summary = finished(recorder);
    assert!(summary.failed, "{summary:?}");
}

#[test]
fn a_host_without_h264_is_not_recorded() {
    let rig = Rig::with("jpeg", SIZE, |config| {
        config.encoders = vec![openuvr_runtime::host::EncoderName("jpeg")];
    });
    let (recorder, _) = recorder(&rig, rig.folder.path().join("it.mp4"), false);
    let refused = recorder.unwrap().follow(rig.host.clone()).unwrap_err();
    assert!(matches!(refused, RecordError::NoH264), "{refused}");
}

#[test]
fn a_host_that_has_stopped_is_not_recorded() {
    let rig = rig("stopped");
    rig.host.cancel();
    let (recorder, _) = recorder(&rig, rig.folder.path().join("it.mp4"), false);
    let refused = recorder.unwrap().follow(rig.host.clone()).unwrap_err();
    let stopped = matches!(refused, RecordError::Refused(SubscribeError::Stopped));
    assert!(stopped, "{refused}");
}
