//! Copying in an application and pasting into it.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::AsFd as _;

use openuvr_media::clipboard::{Clipboard as _, ClipboardEvent, ReadFailure, WatchMode};
use openuvr_media::input_sink::InputSink as _;
use openuvr_proto::input::event::{InputEvent, KeyCode};
use wayland_client::protocol::wl_data_device_manager::WlDataDeviceManager;

use crate::client::Client;
use crate::rig::Rig;

const MOST: usize = 1000;

/// A client with a window, the keyboard focus, a data device, and a serial.
fn client(rig: &Rig) -> (Client, WlDataDeviceManager) {
    let mut client = rig.client();
    client.coloured(None, 1);
    let mut input = rig.display.input();
    for pressed in [true, false] {
        let key = InputEvent::Key {
            code: KeyCode(30),
            text: None,
            pressed,
        };
        input.apply(&key).unwrap();
    }
    client.until("keys", |events| events.keys.len() == 2);
    let manager = client.globals.bind(&client.qh(), 3..=3, ()).unwrap();
    (client, manager)
}

#[test]
fn copied_text_is_read_within_its_limit() {
    let rig = Rig::new();
    let (mut client, manager) = client(&rig);
    let mut clipboard = rig.display.clipboard(WatchMode::Changes, MOST).unwrap();
    let qh = client.qh();
    let device = manager.get_data_device(&client.seat, &qh, ());
    let mut copy = |kind: &str, text: &str| {
        client.events.own_text = text.to_owned();
        let source = manager.create_data_source(&qh, ());
        source.offer(kind.to_owned());
        device.set_selection(Some(&source), client.events.serial);
        client.sync();
        client.sync();
        clipboard.next_event().unwrap()
    };
    let copied = copy("text/plain;charset=utf-8", "grüße");
    assert_eq!(copied, ClipboardEvent::Copied("grüße".into()));
    let copied = copy("text/plain", &"x".repeat(MOST + 1));
    assert_eq!(copied, ClipboardEvent::ReadFailed(ReadFailure::TooLong));
    let copied = copy("image/png", "");
    assert_eq!(copied, ClipboardEvent::ReadFailed(ReadFailure::NotText));
}

#[test]
fn the_players_text_is_pasted() {
    let rig = Rig::new();
    let (mut client, manager) = client(&rig);
    let mut clipboard = rig.display.clipboard(WatchMode::Nothing, MOST).unwrap();
    let qh = client.qh();
    manager.get_data_device(&client.seat, &qh, ());
    client.sync();
    let text = "to be pasted, 漢";
    clipboard.offer(text.into()).unwrap();
    client.until("offer", |events| {
        events.offer.is_some() && events.offered.iter().any(|kind| kind == "UTF8_STRING")
    });
    let (mut source, target) = {
        let (source, target) = rustix::pipe::pipe().unwrap();
        (File::from(source), target)
    };
    let offer = client.events.offer.clone().unwrap();
    offer.receive("UTF8_STRING".to_owned(), target.as_fd());
    client.sync();
    drop(target);
    let waker = clipboard.waker();
    let thread = std::thread::spawn(move || clipboard.next_event().unwrap());
    let mut pasted = String::new();
    source.read_to_string(&mut pasted).unwrap();
    assert_eq!(pasted, text);
    waker.wake();
    assert_eq!(thread.join().unwrap(), ClipboardEvent::Woken);
}
