//! The captured pictures, and their times.

use std::time::Duration;

use openuvr_media::barcode::{self, Stamp};
use openuvr_media::capture::{Capture as _, CaptureEvent};
use openuvr_media::damage::Block;
use openuvr_proto::units::Size;
use wayland_client::protocol::wl_shm;
use wayland_client::protocol::{wl_subcompositor, wl_surface};
use wayland_protocols::wp::presentation_time::client::wp_presentation;

use crate::client::{Client, Picture};
use crate::rig::{Rig, SILENCE, SIZE};

fn stamped(number: u32) -> Vec<u8> {
    let mut pixels = vec![0x80; SIZE.pixels() * 4];
    let stamp = Stamp {
        frame: number,
        ..Stamp::default()
    };
    assert!(barcode::draw(
        &mut pixels,
        SIZE.width as usize * 4,
        SIZE,
        &stamp
    ));
    pixels
}

#[test]
fn each_commit_is_a_picture_with_exactly_its_contents() {
    let mut rig = Rig::new();
    let mut client = rig.client();
    let window = client.window();
    assert_eq!(client.size_of(&window), (640, 360), "it fills the display");
    let picture = client.picture(SIZE);
    rig.settle();
    for number in 1..=20 {
        picture.write(&stamped(number));
        client.show(&window.surface, &picture);
        rig.next();
        let seen = barcode::read(&rig.capture.picture().unwrap());
        assert_eq!(seen.map(|stamp| stamp.frame), Some(number));
        client.until("release", |events| events.released == number as usize);
    }
    assert_eq!(rig.settle(), 0);
}

#[test]
fn a_still_picture_causes_no_callback_and_no_picture() {
    let mut rig = Rig::new();
    let mut client = rig.client();
    let window = client.window();
    let picture = client.picture(SIZE);
    let qh = client.qh();
    let presentation: wp_presentation::WpPresentation =
        client.globals.bind(&qh, 1..=2, ()).unwrap();
    for number in 1..=5 {
        window.surface.frame(&qh, ());
        presentation.feedback(&window.surface, &qh, ());
        client.show(&window.surface, &picture);
        client.until("callback", |events| events.frames_done == number);
        client.until("feedback", |events| events.presented == number);
    }
    rig.settle();
    client.sync();
    let counts = (client.events.frames_done, client.events.presented);
    std::thread::sleep(SILENCE);
    assert_eq!(rig.settle(), 0);
    client.sync();
    assert_eq!((client.events.frames_done, client.events.presented), counts);
    assert_eq!(counts, (5, 5), "one for each commit");
    // A commit without a picture is answered, too, but yields no picture.
    window.surface.frame(&qh, ());
    window.surface.commit();
    client.until("callback", |events| events.frames_done == 6);
    assert_eq!(rig.settle(), 0);
}

#[test]
fn callbacks_come_at_most_at_the_frame_rate() {
    let mut rig = Rig::new();
    rig.capture.limit_fps(20.0);
    let mut client = rig.client();
    let window = client.window();
    let picture = client.picture(SIZE);
    client.until("mode", |events| {
        events.modes.last() == Some(&(640, 360, 20_000))
    });
    let qh = client.qh();
    let began = std::time::Instant::now();
    for number in 1..=11 {
        window.surface.frame(&qh, ());
        client.show(&window.surface, &picture);
        client.until("callback", |events| events.frames_done == number);
    }
    // Ten intervals cannot be shorter than this. How much longer they are depends on the machine.
    assert!(began.elapsed() >= Duration::from_millis(480));
}

#[test]
fn only_the_damage_is_reported() {
    let mut rig = Rig::new();
    let mut client = rig.client();
    let window = client.window();
    let picture = client.picture(SIZE);
    let warm_up = |rig: &mut Rig, client: &mut Client, picture: &Picture| {
        client.show(&window.surface, picture);
        rig.settle();
        // Each of the display's buffers lacks the damage that was drawn into the other ones.
        for _ in 0..3 {
            window.surface.attach(Some(&picture.buffer), 0, 0);
            window.surface.damage_buffer(0, 0, 1, 1);
            window.surface.commit();
            client.sync();
            rig.settle();
        }
    };
    warm_up(&mut rig, &mut client, &picture);
    picture.fill(0x11_2233);
    window.surface.attach(Some(&picture.buffer), 0, 0);
    window.surface.damage_buffer(100, 50, 20, 10);
    window.surface.commit();
    client.sync();
    rig.next();
    let macroblocks = Block {
        columns: 96..128,
        rows: 48..64,
    };
    assert_eq!(rig.capture.changed(), Some(macroblocks));
    assert_eq!(rig.pixel(100, 50), Some(0x11_2233));
    assert_eq!(rig.pixel(200, 50), Some(0), "not reported, not copied");
    // With a buffer scale of 2, a surface coordinate is two pixels of the buffer.
    let large = client.picture(Size::new(1280, 720));
    window.surface.set_buffer_scale(2);
    warm_up(&mut rig, &mut client, &large);
    large.fill(0x44_5566);
    window.surface.attach(Some(&large.buffer), 0, 0);
    window.surface.damage(16, 32, 16, 16);
    window.surface.commit();
    client.sync();
    rig.next();
    assert_eq!(rig.pixel(16, 32), Some(0x44_5566));
    assert_eq!(rig.pixel(40, 32), Some(0));
}

#[test]
fn the_newest_commit_wins_and_none_is_lost() {
    let mut rig = Rig::new();
    let mut client = rig.client();
    let window = client.window();
    let pictures = [client.picture(SIZE), client.picture(SIZE)];
    // The client commits without waiting for callbacks, and faster than the frame rate.
    for number in 1..=100 {
        let picture = &pictures[number as usize % 2];
        picture.write(&stamped(number));
        client.show(&window.surface, picture);
        client.sync();
    }
    let taken = rig.settle();
    let seen = barcode::read(&rig.capture.picture().unwrap());
    assert_eq!(seen.map(|stamp| stamp.frame), Some(100));
    assert!((1..=100).contains(&taken));
}

#[test]
fn the_first_viewer_gets_the_newest_picture_at_once() {
    let mut rig = Rig::new();
    rig.capture.set_watched(false);
    let mut client = rig.client();
    let window = client.window();
    let picture = client.picture(SIZE);
    let qh = client.qh();
    for number in 1..=10 {
        picture.write(&stamped(number));
        window.surface.frame(&qh, ());
        client.show(&window.surface, &picture);
        client.until("callback", |events| events.frames_done == number as usize);
    }
    rig.capture.set_watched(true);
    let read = |rig: &Rig| barcode::read(&rig.capture.picture()?).map(|stamp| stamp.frame);
    while read(&rig) != Some(10) {
        rig.next();
    }
}

#[test]
fn formats_transparency_and_single_pixels() {
    let mut rig = Rig::new();
    let mut client = rig.client();
    let window = client.window();
    // Red first.
    let red = client.picture_of(SIZE, wl_shm::Format::Xbgr8888);
    red.fill(0x00_00ff);
    client.show(&window.surface, &red);
    rig.until(5, 5, 0xff_0000);
    // A half transparent picture over black, which is the background of the display.
    let half = client.picture_of(SIZE, wl_shm::Format::Argb8888);
    half.fill(0x8000_8000);
    client.show(&window.surface, &half);
    rig.until(5, 5, 0x00_8000);
    let opaque = client.compositor.create_region(&client.qh(), ());
    opaque.add(0, 0, 640, 360);
    window.surface.set_opaque_region(Some(&opaque));
    half.fill(0xff12_3456);
    client.show(&window.surface, &half);
    rig.until(5, 5, 0x12_3456);
}

#[test]
fn subsurfaces_are_composed_and_their_parents_come_back() {
    let mut rig = Rig::new();
    let mut client = rig.client();
    let window = client.coloured(None, 0x20_2020);
    rig.until(5, 5, 0x20_2020);
    let qh = client.qh();
    let subcompositor: wl_subcompositor::WlSubcompositor =
        client.globals.bind(&qh, 1..=1, ()).unwrap();
    let surface: wl_surface::WlSurface = client.compositor.create_surface(&qh, ());
    let sub = subcompositor.get_subsurface(&surface, &window.surface, &qh, ());
    sub.set_position(100, 60);
    sub.set_desync();
    let picture = client.picture(Size::new(50, 40));
    picture.fill(0xaa_0000);
    client.show(&surface, &picture);
    // The subsurface's position and existence take effect when its parent is committed.
    window.surface.commit();
    client.sync();
    rig.until(120, 80, 0xaa_0000);
    assert_eq!(rig.pixel(99, 60), Some(0x20_2020));
    assert_eq!(rig.pixel(100, 60), Some(0xaa_0000));
    assert_eq!(rig.pixel(150, 60), Some(0x20_2020));
    // A position takes effect with the parent's commit, even if the subsurface commits earlier.
    sub.set_position(200, 60);
    picture.fill(0x00_bb00);
    client.show(&surface, &picture);
    rig.until(120, 80, 0x00_bb00);
    assert_eq!(rig.pixel(220, 80), Some(0x20_2020));
    window.surface.commit();
    client.sync();
    rig.until(220, 80, 0x00_bb00);
    assert_eq!(rig.pixel(120, 80), Some(0x20_2020));
    // The parent's buffer was released at once. The display must still have its pixels.
    surface.attach(None, 0, 0);
    surface.commit();
    client.sync();
    rig.until(220, 80, 0x20_2020);
}

#[test]
fn a_display_that_ends_fails_its_capture_in_one_line() {
    let rig = Rig::new();
    let (display, mut capture) = (rig.display, rig.capture);
    drop(display);
    let failed = loop {
        match capture.next(None) {
            Ok(CaptureEvent::Frame) => {}
            other => break other,
        }
    };
    let why = failed.unwrap_err().to_string();
    assert_eq!(why, "the Wayland display has ended");
}
