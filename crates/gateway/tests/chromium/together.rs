//! A native client, a browser, a video player and observers at the same time, with one encoder. Each frame has one
//! result for each subscriber.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use openuvr_gateway::rtsp::{RtspServer, RtspSetup};
use openuvr_media::cursor::Cursor;
use openuvr_media::picture::Picture;
use openuvr_media::present::{PresentError, Presenter};
use openuvr_proto::control::negotiate::Role;
use openuvr_proto::control::pairing::Pin;
use openuvr_proto::id::{FrameId, RenditionId, SubscriberId};
use openuvr_runtime::client::config::Config;
use openuvr_runtime::client::{ClientRuntime, Target};

use super::ledger::{Going, listen};
use super::player::{Player, VIDEO};
use super::support::{PIN, Rig, TIMEOUT, eventually};
use super::{SIZE, start};

const TOKEN: &str = "the-secret-of-tests";

/// Maximum mean interval of the player's complete frames. The host captures 60 frames per second, or fewer on a slow
/// machine.
const MAX_INTERVAL: Duration = Duration::from_millis(200);

/// Shows nothing, because the host's records have the results.
struct Nowhere;

impl Presenter for Nowhere {
    fn present(&mut self, _: FrameId, _: &Picture<'_>) -> Result<(), PresentError> {
        Ok(())
    }

    fn cursor(&mut self, _: &Cursor) -> Result<(), PresentError> {
        Ok(())
    }
}

/// A native client that pairs, with its own folder.
fn client(rig: &Rig, folder: &Path, observe: bool) -> ClientRuntime {
    let pin = Pin::parse(PIN).unwrap();
    rig.host.open_pairing(pin, TIMEOUT);
    let target: Target = rig.link.to_string().parse().unwrap();
    let config = Config {
        pin: Some(PIN.to_owned()),
        config_dir: Some(folder.to_owned()),
        realtime: false,
        sound: "off".to_owned(),
        observe,
        ..Config::new(target)
    };
    let opened = config.open().unwrap();
    let client = ClientRuntime::start(opened.setup(
        Box::new(|_, _, _| Ok((Box::new(Nowhere), None))),
        config.scheduler(),
    ));
    client.unwrap()
}

/// A video player that receives everything and counts complete frames.
fn video_player(server: &RtspServer) -> (Going, Arc<AtomicU64>) {
    let url = format!("rtsp://{}/{TOKEN}", server.address());
    let mut player = Player::that_plays(server.address(), &url);
    let frames = Arc::new(AtomicU64::new(0));
    let counted = frames.clone();
    let going = Going::on(move || {
        let (channel, packet) = player.packet();
        // The marker bit (RFC 6184 5.1).
        let ends = channel == VIDEO && packet.get(1).is_some_and(|byte| byte & 0x80 != 0);
        counted.fetch_add(u64::from(ends), Ordering::Relaxed);
    });
    (going, frames)
}

/// Runs all subscribers at the same time, until the player has received this many complete frames.
fn all_at_once(name: &str, observers: usize, frames: usize) {
    let rig = Rig::with(name, SIZE, |config| {
        config.sound = openuvr_runtime::sound_choice::SoundChoice::parse("tone:440");
        config.max_observers = 16;
    });
    let Some((mut browser, _turn)) = start(&rig) else {
        return;
    };
    let (_noting, ledger) = listen(rig.host.notices());
    let look = || ledger.lock().unwrap_or_else(PoisonError::into_inner);
    let wait_for = |role, software: &str, count: usize| {
        eventually(&format!("{count} of {software:?} as {role:?}"), || {
            let found = look().subscribers_as(role, software);
            (found.len() == count).then_some(found)
        })
    };
    let folder = |number: usize| rig.folder.path().join(format!("client-{number}"));
    let _player = client(&rig, &folder(0), false);
    let player = wait_for(Role::Player, "", 1)[0];

    rig.host.open_pairing(Pin::parse(PIN).unwrap(), TIMEOUT);
    let page = format!("https://127.0.0.1:{}/?role=watch", rig.address().port());
    let tab = browser.open(&page);
    browser.log_in(&tab, PIN);
    let in_browser = wait_for(Role::Observer, "a browser", 1)[0];

    let setup = RtspSetup {
        bind: ([127, 0, 0, 1], 0).into(),
        token: TOKEN.parse().unwrap(),
        name: "the test".to_owned(),
        sound: Some(openuvr_runtime::host::SoundCodec::Opus),
    };
    let server = RtspServer::start(setup, rig.host.clone(), &rig.scheduler()).unwrap();
    let (playing, played) = video_player(&server);
    wait_for(Role::Observer, "", 2);
    let mut watching = Vec::new();
    for number in 1..=observers {
        watching.push(client(&rig, &folder(number), true));
        wait_for(Role::Observer, "", 2 + number);
    }

    // Each subscriber gets frames, and the player gets the required number.
    let all: Vec<SubscriberId> = look().subscribers.keys().copied().collect();
    assert_eq!(all.len(), 3 + observers);
    let until = Instant::now() + TIMEOUT + MAX_INTERVAL * u32::try_from(frames).unwrap();
    let (before, pictures) = (look().arrived(player), "document.querySelector('#video')");
    loop {
        let ledger = look();
        let few = all.iter().find(|id| ledger.arrived(**id) < 30).copied();
        let came = ledger.arrived(player) - before;
        assert!(ledger.wrong.is_empty(), "{:?}", ledger.wrong);
        if few.is_none() && came >= frames {
            break;
        }
        assert!(Instant::now() < until, "{came} frames; too few for {few:?}");
        drop(ledger);
        std::thread::sleep(Duration::from_millis(50));
    }
    let decoded = format!("{pictures}.getVideoPlaybackQuality().totalVideoFrames > 30");
    browser.until(&tab, &decoded);
    assert!(
        played.load(Ordering::Relaxed) > 30,
        "the video player got frames"
    );

    // Every frame so far has exactly one result for each subscriber.
    let last = look().newest();
    eventually(&format!("a result of each frame up to {last}"), || {
        look().unaccounted(last).is_none().then_some(())
    });
    let ledger = look();
    for (subscriber, frames) in &ledger.records {
        let twice = frames.iter().find(|(_, outcomes)| outcomes.len() != 1);
        assert_eq!(twice, None, "{subscriber}");
    }
    assert_eq!(ledger.encoders_opened, 1, "one encoder for all");
    let renditions: Vec<RenditionId> = ledger.subscribers.values().map(|(.., of)| *of).collect();
    assert!(
        renditions.windows(2).all(|pair| pair[0] == pair[1]),
        "{renditions:?}"
    );
    assert!(ledger.wrong.is_empty(), "{:?}", ledger.wrong);
    assert!(ledger.arrived(in_browser) > 30);
    drop(ledger);
    drop((playing, watching));
}

#[test]
fn player_browser_and_video_player_share_one_encode() {
    all_at_once("together", 2, 240);
}

#[test]
#[ignore = "a minute: ./dev test-web runs it"]
fn eight_more_watch_for_a_minute() {
    all_at_once("together-long", 8, 60 * 60);
}
