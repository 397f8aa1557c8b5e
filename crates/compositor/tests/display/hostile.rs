//! Clients that break the protocol, truncate their memory, use as much as they can get, or crash. At most, they are
//! disconnected, and the display continues.

use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;

use openuvr_media::capture::Capture as _;
use openuvr_proto::units::Size;
use wayland_client::protocol::{wl_shm, wl_subcompositor};

use crate::client::{Client, memory};
use crate::rig::{Rig, SIZE};

/// Whether a client is still connected.
fn is_connected(client: &mut Client) -> bool {
    client.queue.roundtrip(&mut client.events).is_ok()
}

/// Checks that another client can still show a picture.
fn assert_goes_on(rig: &mut Rig) {
    let mut client = rig.client();
    let window = client.window();
    let picture = client.picture(SIZE);
    picture.fill(0x5a_5a5a);
    window.toplevel.set_maximized();
    client.show(&window.surface, &picture);
    rig.until(3, 3, 0x5a_5a5a);
}

#[test]
fn memory_that_is_truncated_after_the_commit() {
    let mut rig = Rig::new();
    let mut client = rig.client();
    let window = client.window();
    let picture = client.picture(SIZE);
    picture.file.set_len(0).unwrap();
    client.show(&window.surface, &picture);
    rig.next();
    rig.settle();
    assert!(!is_connected(&mut client));
    assert_goes_on(&mut rig);
}

#[test]
fn buffers_outside_their_pool() {
    let mut rig = Rig::new();
    for (offset, width, height, stride) in [
        (0, 640, 360, 640),
        (0, 640, 360, -2560),
        (-4, 640, 360, 2560),
        (0, 0, 0, 0),
        (0, 640, 361, 2560),
        (4, 640, 360, 2560),
        (0, i32::MAX, i32::MAX, i32::MAX),
        (0, 16_384, 262_144, 65_536),
        (i32::MAX, 1, 1, 4),
    ] {
        let mut client = rig.client();
        let window = client.window();
        let qh = client.qh();
        let file = memory(640 * 360 * 4);
        let pool = client.shm.create_pool(file.as_fd(), 640 * 360 * 4, &qh, ());
        let format = wl_shm::Format::Xrgb8888;
        let buffer = pool.create_buffer(offset, width, height, stride, format, &qh, ());
        window.surface.attach(Some(&buffer), 0, 0);
        window.surface.damage(0, 0, i32::MAX, i32::MAX);
        window.surface.commit();
        assert!(
            !is_connected(&mut client),
            "{offset} {width}x{height} {stride}"
        );
    }
    assert_goes_on(&mut rig);
}

#[test]
fn odd_damage_and_regions() {
    let mut rig = Rig::new();
    let mut client = rig.client();
    let window = client.window();
    let picture = client.picture(SIZE);
    let region = client.compositor.create_region(&client.qh(), ());
    let odd = [
        (i32::MIN, i32::MIN, i32::MAX, i32::MAX),
        (i32::MAX, i32::MAX, i32::MAX, i32::MAX),
        (-5, -5, 3, 3),
        (0, 0, -1, -1),
        (0, 0, i32::MIN, i32::MIN),
    ];
    for (x, y, width, height) in odd {
        for _ in 0..100 {
            window.surface.damage(x, y, width, height);
            window.surface.damage_buffer(x, y, width, height);
            region.add(x, y, width, height);
            region.subtract(x, y, width, height);
        }
        window.surface.set_opaque_region(Some(&region));
        window.surface.set_input_region(Some(&region));
        window
            .xdg
            .set_window_geometry(x, y, width.max(1), height.max(1));
        window.surface.attach(Some(&picture.buffer), x, y);
        window.surface.commit();
        let _ = client.conn.flush();
        // The display may disconnect the client for some of these values.
        let _ = client.queue.roundtrip(&mut client.events);
    }
    drop(client);
    assert_goes_on(&mut rig);
}

#[test]
fn a_thousand_surfaces_are_served_and_too_many_are_not() {
    let mut rig = Rig::new();
    let mut client = rig.client();
    let qh = client.qh();
    let picture = client.picture(Size::new(64, 64));
    let surfaces: Vec<_> = (0..1000)
        .map(|_| {
            let surface = client.compositor.create_surface(&qh, ());
            surface.attach(Some(&picture.buffer), 0, 0);
            surface.frame(&qh, ());
            surface.commit();
            surface
        })
        .collect();
    assert!(is_connected(&mut client));
    for surface in surfaces {
        surface.destroy();
    }
    assert!(is_connected(&mut client));
    for round in 0..6 {
        for _ in 0..1000 {
            client.compositor.create_surface(&qh, ());
        }
        assert_eq!(is_connected(&mut client), round < 4, "{round}");
        if round == 4 {
            break;
        }
    }
    assert_goes_on(&mut rig);
}

#[test]
fn subsurfaces_may_be_nested_as_deeply_as_possible() {
    let mut rig = Rig::new();
    let mut client = rig.client();
    let window = client.coloured(None, 0x20_2020);
    let qh = client.qh();
    let subcompositor: wl_subcompositor::WlSubcompositor =
        client.globals.bind(&qh, 1..=1, ()).unwrap();
    let picture = client.picture(Size::new(8, 8));
    let mut parent = window.surface.clone();
    for level in 0..4000 {
        let surface = client.compositor.create_surface(&qh, ());
        subcompositor.get_subsurface(&surface, &parent, &qh, ());
        surface.attach(Some(&picture.buffer), 0, 0);
        surface.commit();
        if level % 100 == 0 {
            client.sync();
        }
        parent = surface;
    }
    window.surface.commit();
    client.sync();
    // The display draws all levels.
    rig.settle();
    assert!(is_connected(&mut client));
    drop(client);
    assert_goes_on(&mut rig);
}

/// Runs the test again in a separate process. Returns `false` in that process, and `true` in this one after the test
/// has passed there.
///
/// Descriptors and their limit belong to a process, and this process runs other displays at the same time.
fn runs_alone(test: &str) -> bool {
    const ALONE: &str = "OPENUVR_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return false;
    }
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test])
        .env(ALONE, "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("1 passed"), "{text}");
    true
}

#[test]
fn more_pools_than_descriptors() {
    use rustix::process::{Resource, getrlimit, setrlimit};

    if runs_alone("hostile::more_pools_than_descriptors") {
        return;
    }
    let mut low = getrlimit(Resource::Nofile);
    low.current = Some(1024);
    setrlimit(Resource::Nofile, low).unwrap();
    let mut rig = Rig::new();
    let mut client = rig.client();
    let qh = client.qh();
    let file = memory(4096);
    let refused = (0..20).any(|_| {
        for _ in 0..100 {
            client.shm.create_pool(file.as_fd(), 4096, &qh, ());
        }
        !is_connected(&mut client)
    });
    assert!(refused, "2000 pools");
    // The client's descriptors are free again, including those that had not been sent yet.
    drop(client);
    for _ in 0..3 {
        assert_goes_on(&mut rig);
    }
    // Only the pools' buffers keep these pools alive. Each buffer is shown by a surface.
    let mut client = rig.client();
    let refused = (0..20).any(|_| {
        for _ in 0..100 {
            let surface = client.compositor.create_surface(&client.qh(), ());
            let picture = client.picture(Size::new(2, 2));
            surface.attach(Some(&picture.buffer), 0, 0);
            surface.commit();
            picture.buffer.destroy();
            let _ = client.conn.flush();
        }
        !is_connected(&mut client)
    });
    assert!(refused, "2000 buffers");
    drop(client);
    assert_goes_on(&mut rig);
}

#[test]
fn too_many_buffers_of_one_pool() {
    let mut rig = Rig::new();
    let mut client = rig.client();
    let qh = client.qh();
    let file = memory(4096);
    let pool = client.shm.create_pool(file.as_fd(), 4096, &qh, ());
    let format = wl_shm::Format::Xrgb8888;
    for round in 0..5 {
        for _ in 0..1000 {
            pool.create_buffer(0, 2, 2, 8, format, &qh, ());
        }
        assert_eq!(is_connected(&mut client), round < 4, "{round}");
    }
    assert_goes_on(&mut rig);
}

#[test]
fn a_hundred_windows_and_a_crash() {
    let mut rig = Rig::new();
    let mut client = rig.client();
    let windows: Vec<_> = (0..100)
        .map(|number| {
            let window = client.window();
            window.toplevel.set_fullscreen(None);
            let picture = client.picture(SIZE);
            picture.fill(number);
            client.show(&window.surface, &picture);
            client.sync();
            window
        })
        .collect();
    rig.until(0, 0, 99);
    assert_eq!((rig.display.windows())(), 100);
    // The connection breaks in the middle of a message.
    drop((windows, client));
    rig.until(0, 0, 0);
    assert_eq!((rig.display.windows())(), 0);
    assert_goes_on(&mut rig);
}

#[test]
fn garbage_instead_of_messages() {
    use std::io::Write as _;

    let mut rig = Rig::new();
    for garbage in [&[0xff; 4096][..], &[0; 4096], b"GET / HTTP/1.1\r\n\r\n"] {
        let mut stream = UnixStream::connect(rig.display.socket()).unwrap();
        let _ = stream.write_all(garbage);
    }
    assert_goes_on(&mut rig);
}

#[test]
fn a_client_that_never_reads() {
    let mut rig = Rig::new();
    let mut client = rig.client();
    let window = client.window();
    let picture = client.picture(SIZE);
    let qh = client.qh();
    for _ in 0..20_000 {
        window.surface.frame(&qh, ());
        window.surface.attach(Some(&picture.buffer), 0, 0);
        window.surface.commit();
        if client.conn.flush().is_err() {
            break;
        }
    }
    let _ = rig.capture.size();
    assert_goes_on(&mut rig);
}
