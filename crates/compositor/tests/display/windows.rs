//! The positions of windows, and how they change.

use openuvr_media::input_sink::InputSink as _;
use openuvr_proto::input::event::{Button, InputEvent};
use openuvr_proto::units::Size;
use wayland_client::Proxy as _;
use wayland_protocols::xdg::shell::client::xdg_positioner::{Anchor, Gravity};

use crate::rig::{Rig, SIZE};

#[test]
fn a_single_window_fills_the_display_and_others_are_centred() {
    let mut rig = Rig::new();
    let mut client = rig.client();
    let main = client.coloured(None, 0x00_3000);
    rig.until(0, 0, 0x00_3000);
    assert_eq!((rig.display.windows())(), 1);
    let dialog = client.window();
    assert_eq!(client.size_of(&dialog), (0, 0), "it has its own size");
    dialog.toplevel.set_parent(Some(&main.toplevel));
    let picture = client.picture(Size::new(100, 60));
    picture.fill(0x00_00ff);
    client.show(&dialog.surface, &picture);
    rig.until(320, 180, 0x00_00ff);
    assert_eq!(rig.pixel(270, 150), Some(0x00_00ff));
    assert_eq!(rig.pixel(269, 150), Some(0x00_3000));
    assert_eq!(rig.pixel(370, 209), Some(0x00_3000));
    assert_eq!((rig.display.windows())(), 2);
    // When the main window is gone, the dialog gets the whole display.
    dialog.toplevel.set_parent(None);
    main.toplevel.destroy();
    main.xdg.destroy();
    main.surface.destroy();
    client.sync();
    client.sync();
    assert_eq!(client.size_of(&dialog), (640, 360));
    rig.until(0, 0, 0);
    drop(client);
    rig.until(320, 180, 0);
    assert_eq!((rig.display.windows())(), 0);
}

#[test]
fn a_new_size_reaches_windows_and_pictures() {
    let mut rig = Rig::new();
    let mut client = rig.client();
    let window = client.coloured(None, 0x00_3000);
    rig.until(0, 0, 0x00_3000);
    let mut resizer = rig.display.resizer();
    assert_eq!(resizer.set(Size::new(800, 500)), Size::new(800, 500));
    client.until("mode", |events| {
        events.modes.last().map(|m| (m.0, m.1)) == Some((800, 500))
    });
    client.until("size", |events| {
        events.sizes.get(&window.toplevel.id()) == Some(&(800, 500))
    });
    // Until the window is drawn in the new size, its old picture is centred on the display.
    while openuvr_media::capture::Capture::size(&rig.capture) != Size::new(800, 500) {
        rig.next();
    }
    rig.until(400, 250, 0x00_3000);
    let picture = client.picture(Size::new(800, 500));
    picture.fill(0x30_0000);
    client.show(&window.surface, &picture);
    rig.until(799, 499, 0x30_0000);
    assert_eq!(resizer.set(Size::new(0, 99_999)), Size::new(1, 4096));
    resizer.restore();
    client.until("size", |events| {
        events.sizes.get(&window.toplevel.id()) == Some(&(640, 360))
    });
}

#[test]
fn popups_stay_on_the_display_and_end_by_a_click_elsewhere() {
    let mut rig = Rig::new();
    let mut client = rig.client();
    let window = client.coloured(None, 0x00_3000);
    rig.until(0, 0, 0x00_3000);
    let mut other = rig.client();
    other.coloured(Some(Size::new(100, 60)), 0xff);
    rig.until(320, 180, 0xff);
    let mut input = rig.display.input();
    let press = |pressed| InputEvent::Button {
        button: Button::LEFT,
        pressed,
    };
    input
        .apply(&InputEvent::PointerAbsolute {
            x: 65_000,
            y: 65_000,
        })
        .unwrap();
    input.apply(&press(true)).unwrap();
    client.until("press", |events| !events.buttons.is_empty());
    let qh = client.qh();
    let positioner = client.shell.create_positioner(&qh, ());
    positioner.set_size(100, 80);
    positioner.set_anchor_rect(630, 350, 10, 10);
    positioner.set_anchor(Anchor::BottomRight);
    positioner.set_gravity(Gravity::BottomRight);
    // The popup may slide in both directions.
    let slide = wayland_protocols::xdg::shell::client::xdg_positioner::ConstraintAdjustment::from_bits_truncate(3);
    positioner.set_constraint_adjustment(slide);
    let surface = client.compositor.create_surface(&qh, ());
    let xdg = client.shell.get_xdg_surface(&surface, &qh, ());
    let popup = xdg.get_popup(Some(&window.xdg), &positioner, &qh, ());
    popup.grab(&client.seat, client.events.serial);
    surface.commit();
    client.sync();
    let picture = client.picture(Size::new(100, 80));
    picture.fill(0xff_ff00);
    client.show(&surface, &picture);
    rig.until(639, 359, 0xff_ff00);
    assert_eq!(rig.pixel(540, 280), Some(0xff_ff00));
    assert_eq!(rig.pixel(539, 280), Some(0x00_3000));
    input.apply(&press(false)).unwrap();
    // The first click, on a window of the same program, does not close the popup: the program decides. The second
    // click, on another program's window, closes the popup.
    for (x, y) in [(0, 0), (32_768, 32_768)] {
        assert_eq!(client.events.popup_done, 0);
        input.apply(&InputEvent::PointerAbsolute { x, y }).unwrap();
        input.apply(&press(true)).unwrap();
        input.apply(&press(false)).unwrap();
        client.sync();
        client.sync();
    }
    client.until("dismissal", |events| events.popup_done == 1);
    popup.destroy();
    xdg.destroy();
    surface.destroy();
    client.sync();
    rig.until(639, 359, 0x00_3000);
}

#[test]
fn a_scaled_display_has_fewer_units_than_pixels() {
    let mut rig = Rig::with(SIZE, 1.5);
    let mut client = rig.client();
    let window = client.window();
    assert_eq!(client.size_of(&window), (427, 240));
    // A buffer of scale 1 is enlarged.
    let picture = client.picture(Size::new(427, 240));
    picture.fill(0x12_3456);
    client.show(&window.surface, &picture);
    rig.until(639, 359, 0x12_3456);
}

#[test]
fn a_dialog_is_moved_with_the_pointer() {
    let mut rig = Rig::new();
    let mut client = rig.client();
    let main = client.coloured(None, 0x00_3000);
    rig.until(0, 0, 0x00_3000);
    let dialog = client.window();
    dialog.toplevel.set_parent(Some(&main.toplevel));
    let picture = client.picture(Size::new(100, 60));
    picture.fill(0x00_00ff);
    client.show(&dialog.surface, &picture);
    rig.until(320, 180, 0x00_00ff);
    let mut input = rig.display.input();
    let at = |x: u32, y: u32| InputEvent::PointerAbsolute {
        x: u16::try_from(x * 65_535 / 640 + 1).unwrap(),
        y: u16::try_from(y * 65_535 / 360 + 1).unwrap(),
    };
    input.apply(&at(320, 180)).unwrap();
    let press = |pressed| InputEvent::Button {
        button: Button::LEFT,
        pressed,
    };
    input.apply(&press(true)).unwrap();
    client.until("press", |events| events.buttons.len() == 1);
    dialog.toplevel._move(&client.seat, client.events.serial);
    client.sync();
    input.apply(&at(420, 230)).unwrap();
    rig.until(469, 229, 0x00_00ff);
    input.apply(&press(false)).unwrap();
    input.apply(&at(10, 10)).unwrap();
    client.sync();
    rig.settle();
    assert_eq!(rig.pixel(370, 200), Some(0x00_00ff));
    assert_eq!(rig.pixel(369, 200), Some(0x00_3000));
    assert_eq!(rig.pixel(300, 170), Some(0x00_3000));
}
