//! A recording in VLC.

use super::ffmpeg::{self, entries};
use super::support::vlc;
use super::{finished, gets, recorder, rig};

#[test]
fn vlc_plays_a_recording() {
    if !vlc::is_there(None) || !ffmpeg::is_there() {
        return;
    }
    let rig = rig("vlc");
    let file = rig.folder.path().join("it.mp4");
    let (recorder, _) = recorder(&rig, file.clone(), false);
    let recorder = recorder.unwrap();
    recorder.follow(rig.host.clone()).unwrap();
    gets(&rig, "recording to", 120);
    let written = finished(recorder).written;
    let (copy, out) = vlc::copies(&file.display().to_string(), rig.folder.path(), 30);
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{said}");
    let frames = entries(&copy, "v", "packet=pts_time").len() as u64;
    // VLC drops the last frames of a file.
    assert!(
        frames + 10 >= written.frames,
        "{frames} of {written:?}; {said}"
    );
}
