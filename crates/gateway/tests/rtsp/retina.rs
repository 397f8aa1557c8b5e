//! retina, an RTSP client that rejects reordered packets and incomplete frames.

use futures_util::StreamExt as _;
use retina::client::{PlayOptions, Session, SessionOptions, SetupOptions, Transport};
use retina::codec::{CodecItem, ParametersRef};

use crate::support::STALLED;
use crate::support::stalls::measured_without_stalls;
use crate::{Players, SIZE};

/// Number of frames: two seconds.
const FRAMES: usize = 120;

/// The frames of a stream: whether each is a key frame, and the number of packets lost before it.
async fn frames(url: &str, transport: Transport) -> Vec<(bool, u16)> {
    let url = url.parse().unwrap();
    let session = Session::describe(url, SessionOptions::default()).await;
    let mut session = session.unwrap();
    let video = session.streams().iter().position(|s| s.media() == "video");
    let video = video.unwrap();
    let setup = SetupOptions::default().transport(transport);
    session.setup(video, setup).await.unwrap();
    let playing = session.play(PlayOptions::default()).await.unwrap();
    let mut items = playing.demuxed().unwrap();
    let mut frames = Vec::new();
    while frames.len() < FRAMES {
        if let CodecItem::VideoFrame(frame) = items.next().await.unwrap().unwrap() {
            frames.push((frame.is_random_access_point(), frame.loss()));
        }
    }
    let Some(ParametersRef::Video(parameters)) = items.streams()[video].parameters() else {
        panic!("no picture size");
    };
    assert_eq!(parameters.pixel_dimensions(), (SIZE.width, SIZE.height));
    frames
}

#[test]
fn retina_gets_complete_frames_from_a_key_frame_on() {
    let players = Players::new("retina");
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().unwrap();
    let complete = |transport| {
        let frames = runtime.block_on(frames(&players.url(), transport));
        if frames.iter().any(|(_, lost)| *lost != 0) {
            return Err(format!("packets are lost: {frames:?}"));
        }
        assert!(frames[0].0, "the first frame is no key frame: {frames:?}");
        Ok(())
    };
    complete(Transport::Tcp(Default::default())).unwrap();
    // A starved reader's socket loses datagrams.
    measured_without_stalls(5, STALLED, || complete(Transport::Udp(Default::default())));
}
