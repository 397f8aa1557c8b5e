//! Tests with real contexts of Mesa's software renderer, or of a GPU (`OPENUVR_EGL_DEVICE`).

mod context;
mod cost;

use std::ffi::CStr;
use std::ptr::null;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::thread::ThreadId;
use std::time::Duration;

use glow::HasContext as _;

use openuvr_proto::units::Size;
use openuvr_xserver::{Xvfb, fixture};

use self::context::{Context, ContextConfig, Egl, Glx, Profile, colour, draw, functions};
use super::super::{ReadSource, ReadStatus, Sharing, SkipReason, Submit};
use super::{ReadBack, Version};
use crate::capture::submit::{self, Frame};
use crate::capture::{Capture as _, CaptureEvent, RenderInfo};
use crate::picture::{Picture, PixelFormat, RowOrder};

const SIZE: Size = Size::new(71, 46);

/// Collects the submitted pictures, oldest first.
#[derive(Clone, Default)]
struct Shelf(Arc<Mutex<Vec<Picked>>>);

/// A picture, and the thread that submitted it.
type Picked = (Box<dyn Frame>, RenderInfo, ThreadId);

impl Shelf {
    fn submit(&self) -> Submit {
        let shelf = self.clone();
        Arc::new(move |frame, drawn| {
            let thread = std::thread::current().id();
            shelf.0.lock().unwrap().push((frame, drawn, thread));
            None
        })
    }

    fn take(&self) -> Vec<Picked> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }

    /// The only picture.
    fn one(&self) -> Box<dyn Frame> {
        let mut all = self.take();
        assert_eq!(all.len(), 1);
        all.remove(0).0
    }
}

fn read_back(context: &dyn Context, sharing: Sharing, shelf: &Shelf) -> ReadBack {
    read_back_without(context, sharing, shelf, &[])
}

/// Creates a read-back as if the driver lacked these functions.
fn read_back_without(
    context: &dyn Context,
    sharing: Sharing,
    shelf: &Shelf,
    lacks: &[&CStr],
) -> ReadBack {
    let mut find = |name: &CStr| {
        if lacks.contains(&name) {
            null()
        } else {
            context.find(name)
        }
    };
    // SAFETY: the context is current, here and when it is used, and is destroyed afterwards.
    unsafe { ReadBack::new(&mut find, sharing, shelf.submit()) }.expect("a context")
}

/// The read-back methods, identified by the functions that the driver lacks.
const WAYS: [&[&CStr]; 3] = [
    &[],
    &[c"glBufferStorage", c"glBufferStorageEXT"],
    &[c"glFenceSync"],
];

fn window(back: &mut ReadBack) -> ReadStatus {
    back.read(SIZE, ReadSource::Window, RenderInfo::default())
}

fn glx(server: &Xvfb, wanted: ContextConfig) -> Glx {
    Glx::open(&server.display, SIZE, wanted, None).expect("Mesa has it")
}

/// Red, green and blue of the pixel at column `x` and row `y`, counted from the top.
fn pixel(picture: &Picture<'_>, x: u32, y: u32) -> [u8; 3] {
    let y = match picture.rows {
        RowOrder::TopDown => y,
        RowOrder::BottomUp => picture.size.height - 1 - y,
    };
    let bytes = picture.format.packed().expect("packed");
    let plane = picture.planes[0];
    let at = y as usize * plane.stride + x as usize * bytes;
    let [a, b, c] = [0, 1, 2].map(|i| plane.data[at + i]);
    match picture.format {
        PixelFormat::Rgbx | PixelFormat::Rgb => [a, b, c],
        _ => [c, b, a],
    }
}

fn assert_shows(frame: &dyn Frame, size: Size, seed: u32, what: &str) {
    let picture = frame.picture();
    assert_eq!(picture.size, size, "{what}");
    for y in 0..size.height {
        for x in 0..size.width {
            let (have, want) = (pixel(&picture, x, y), colour(x, y, seed));
            assert_eq!(have, want, "{what}: {x}, {y}");
        }
    }
}

#[test]
fn pictures_are_read_bit_exact() {
    let Some(server) = fixture::xvfb("320x240", &[]) else {
        return;
    };
    let kinds = [
        ContextConfig::DEFAULT,
        ContextConfig::of(Profile::Core, 4, 5),
        ContextConfig::of(Profile::Core, 3, 2),
        ContextConfig::of(Profile::Compatible, 2, 1),
        ContextConfig::of(Profile::Embedded, 3, 0),
        ContextConfig::of(Profile::Embedded, 2, 0),
        ContextConfig {
            double: false,
            ..ContextConfig::DEFAULT
        },
        ContextConfig {
            samples: 4,
            ..ContextConfig::DEFAULT
        },
    ];
    let mut contexts = 0;
    for wanted in kinds {
        let glx = Glx::open(&server.display, SIZE, wanted, None);
        let glx = glx.map(|context| Box::new(context) as Box<dyn Context>);
        let usual = wanted.samples == 0 && wanted.double;
        let egl = |display| {
            let context = usual.then(|| Egl::open(display, SIZE, wanted)).flatten();
            context.map(|context| Box::new(context) as Box<dyn Context>)
        };
        let in_window = egl(Some(&*server.display));
        for (name, context) in [("GLX", glx), ("EGL", in_window), ("EGL alone", egl(None))] {
            let Some(context) = context else {
                eprintln!("{name}: {wanted:?} is not available");
                continue;
            };
            contexts += 1;
            context.make_current(true);
            let gl = functions(&*context);
            for lacks in WAYS {
                let what = format!("{name}, {wanted:?} without {lacks:?}");
                let shelf = Shelf::default();
                let mut back = read_back_without(&*context, Sharing::None, &shelf, lacks);
                for seed in 0..3 {
                    draw(&gl, SIZE, seed);
                    let reading = window(&mut back);
                    assert!(
                        !matches!(reading, ReadStatus::Skipped(_)),
                        "{what}: {reading:?}"
                    );
                    // Mesa's threads may still be drawing, especially if no window is swapped.
                    back.finish(Duration::from_secs(30));
                    assert_shows(&*shelf.one(), SIZE, seed, &what);
                    context.swap();
                }
                back.retire(true);
                // SAFETY: the context is current.
                assert_eq!(unsafe { gl.get_error() }, glow::NO_ERROR, "{what}");
            }
            context.make_current(false);
        }
    }
    assert!(contexts >= 18, "{contexts}");
}

/// Apart from the measurements in `cost`, the only test that can run on a GPU without a display
/// (`OPENUVR_EGL_DEVICE=0`). On a GPU, no picture is finished immediately.
#[test]
fn without_a_display_pictures_arrive_exactly_and_in_order() {
    let Some(egl) = Egl::open(None, SIZE, ContextConfig::of(Profile::Core, 4, 5)) else {
        return crate::skip::skip(
            "EGL has no OpenGL without a display: apt-get install libegl1 libgl1-mesa-dri",
        );
    };
    let gl = functions(&egl);
    for lacks in WAYS {
        for sharing in [Sharing::Egl, Sharing::None] {
            let shelf = Shelf::default();
            let mut back = read_back_without(&egl, sharing, &shelf, lacks);
            for seed in 0..20 {
                // Two pictures are pending at the same time.
                for seed in [seed, seed + 100] {
                    draw(&gl, SIZE, seed);
                    assert!(
                        !matches!(window(&mut back), ReadStatus::Skipped(_)),
                        "{lacks:?}"
                    );
                }
                back.finish(Duration::from_secs(30));
                let what = format!("{sharing:?} without {lacks:?}");
                let all = shelf.take();
                assert_eq!(all.len(), 2, "{what}");
                for ((frame, ..), seed) in all.iter().zip([seed, seed + 100]) {
                    assert_shows(&**frame, SIZE, seed, &what);
                }
            }
            back.retire(true);
            // SAFETY: the context is current.
            assert_eq!(unsafe { gl.get_error() }, glow::NO_ERROR, "{lacks:?}");
        }
    }
}

#[test]
fn a_separate_thread_waits_for_unfinished_pictures() {
    let Some(server) = fixture::xvfb("320x240", &[]) else {
        return;
    };
    let here = std::thread::current().id();
    let of = |wanted, sharing| (Box::new(glx(&server, wanted)) as Box<dyn Context>, sharing);
    let without = |wanted| {
        let egl = Egl::open(None, SIZE, wanted).expect("Mesa has it");
        (Box::new(egl) as Box<dyn Context>, Sharing::Egl)
    };
    let threads = Sharing::Glx { threads: true };
    let all = [
        of(ContextConfig::DEFAULT, threads),
        of(ContextConfig::of(Profile::Core, 3, 3), threads),
        of(ContextConfig::of(Profile::Embedded, 3, 0), threads),
        without(ContextConfig::of(Profile::Core, 4, 5)),
        without(ContextConfig::of(Profile::Compatible, 3, 0)),
        without(ContextConfig::of(Profile::Embedded, 3, 0)),
    ];
    for (context, sharing) in &all {
        context.make_current(true);
        let gl = functions(&**context);
        let shelf = Shelf::default();
        let mut back = read_back(&**context, *sharing, &shelf);
        back.looks = false;
        for seed in 0..6 {
            draw(&gl, SIZE, seed);
            assert_eq!(window(&mut back), ReadStatus::Pending);
            context.swap();
            back.finish(Duration::from_secs(60));
            let mut all = shelf.take();
            assert_eq!(all.len(), 1, "{sharing:?}");
            let (frame, _, thread) = all.remove(0);
            assert_ne!(thread, here);
            assert_shows(&*frame, SIZE, seed, "by the waiting thread");
        }
        back.retire(true);
        // SAFETY: the context is current.
        assert_eq!(unsafe { gl.get_error() }, glow::NO_ERROR);
        context.make_current(false);
    }
}

#[test]
fn a_ticket_belongs_to_the_picture_waited_for() {
    let Some(server) = fixture::xvfb("320x240", &[]) else {
        return;
    };
    let context = glx(&server, ContextConfig::DEFAULT);
    let gl = functions(&context);
    let (app, mut host) = submit::channel(SIZE, 1000.0).unwrap();
    let tickets = Arc::new(Mutex::new(Vec::new()));
    let given = tickets.clone();
    let submit: Submit = Arc::new(move |frame, drawn| {
        let ticket = app.submit(frame, drawn);
        given.lock().unwrap().push(ticket);
        ticket
    });
    let mut find = |name: &CStr| context.find(name);
    // SAFETY: the context is current, here and when it is used, and is destroyed afterwards.
    let mut back = unsafe { ReadBack::new(&mut find, Sharing::Glx { threads: true }, submit) }
        .expect("a context");
    back.looks = false;
    for seed in 0..10 {
        // This picture's ticket is not queried.
        draw(&gl, SIZE, 0);
        assert_eq!(window(&mut back), ReadStatus::Pending);
        assert_eq!(host.next(None).unwrap(), CaptureEvent::Frame);
        draw(&gl, SIZE, seed);
        assert_eq!(window(&mut back), ReadStatus::Pending);
        let early = back.finish(Duration::ZERO);
        let ticket = early.or_else(|| back.finish(Duration::from_secs(60)));
        assert!(ticket.is_some());
        assert_eq!(ticket, *tickets.lock().unwrap().last().unwrap());
        assert_eq!(host.next(None).unwrap(), CaptureEvent::Frame);
    }
    assert_eq!(tickets.lock().unwrap().len(), 20);
    // The host uses its last picture until the host is dropped. `retire` would wait for this picture, so the host is
    // dropped first.
    drop(host);
    back.retire(true);
}

#[test]
fn without_a_waiting_thread_the_next_poll_finds_it() {
    let Some(server) = fixture::xvfb("320x240", &[]) else {
        return;
    };
    let context = glx(&server, ContextConfig::DEFAULT);
    let gl = functions(&context);
    for lacks in &WAYS[..2] {
        let shelf = Shelf::default();
        let mut back = read_back_without(&context, Sharing::None, &shelf, lacks);
        back.looks = false;
        draw(&gl, SIZE, 1);
        assert_eq!(window(&mut back), ReadStatus::Pending);
        assert!(shelf.take().is_empty());
        draw(&gl, SIZE, 2);
        assert_eq!(window(&mut back), ReadStatus::Pending);
        assert_shows(&*shelf.one(), SIZE, 1, "by the next read");
        back.poll();
        assert_shows(&*shelf.one(), SIZE, 2, "by a poll");
    }
}

/// All state that a read may change.
const STATE: [(&str, u32); 14] = [
    ("pack buffer", glow::PIXEL_PACK_BUFFER_BINDING),
    ("unpack buffer", glow::PIXEL_UNPACK_BUFFER_BINDING),
    ("copy read buffer", 0x8F36),
    ("copy write buffer", 0x8F37),
    ("draw framebuffer", glow::DRAW_FRAMEBUFFER_BINDING),
    ("read framebuffer", glow::READ_FRAMEBUFFER_BINDING),
    ("read buffer", glow::READ_BUFFER),
    ("row length", glow::PACK_ROW_LENGTH),
    ("skipped rows", glow::PACK_SKIP_ROWS),
    ("skipped pixels", glow::PACK_SKIP_PIXELS),
    ("alignment", glow::PACK_ALIGNMENT),
    ("swapped bytes", 0x0D00),
    ("inverted", 0x8758),
    ("reversed", 0x93A4),
];

#[test]
fn the_applications_state_and_errors_are_preserved() {
    let Some(server) = fixture::xvfb("320x240", &[]) else {
        return;
    };
    for wanted in [
        ContextConfig::DEFAULT,
        ContextConfig::of(Profile::Embedded, 3, 0),
    ] {
        let embedded = wanted.profile == Profile::Embedded;
        let context = glx(&server, wanted);
        let gl = functions(&context);
        let known: Vec<_> = STATE
            .into_iter()
            .filter(|(name, _)| !embedded || !["swapped bytes", "inverted"].contains(name))
            .filter(|(name, _)| {
                let extensions = gl.supported_extensions();
                *name != "reversed" || extensions.contains("GL_ANGLE_pack_reverse_row_order")
            })
            .collect();
        draw(&gl, SIZE, 5);
        // SAFETY: the context is current; nothing is written through the buffers.
        let theirs = unsafe {
            let buffers = [(); 2].map(|()| gl.create_buffer().unwrap());
            gl.bind_buffer(glow::PIXEL_PACK_BUFFER, Some(buffers[0]));
            let bytes = i32::try_from(SIZE.pixels() * 4).unwrap();
            gl.buffer_data_size(glow::PIXEL_PACK_BUFFER, bytes, glow::STREAM_READ);
            gl.bind_buffer(glow::PIXEL_UNPACK_BUFFER, Some(buffers[1]));
            let target = gl.create_renderbuffer().unwrap();
            gl.bind_renderbuffer(glow::RENDERBUFFER, Some(target));
            gl.renderbuffer_storage(glow::RENDERBUFFER, glow::RGBA8, 64, 64);
            let framebuffer = gl.create_framebuffer().unwrap();
            gl.read_buffer(if embedded { glow::NONE } else { glow::FRONT });
            gl.bind_framebuffer(glow::FRAMEBUFFER, Some(framebuffer));
            gl.framebuffer_renderbuffer(
                glow::FRAMEBUFFER,
                glow::COLOR_ATTACHMENT0,
                glow::RENDERBUFFER,
                Some(target),
            );
            for (name, value) in [
                (glow::PACK_ROW_LENGTH, 99),
                (glow::PACK_SKIP_ROWS, 3),
                (glow::PACK_SKIP_PIXELS, 7),
                (glow::PACK_ALIGNMENT, 8),
                (0x0D00, 1),
                (0x8758, 1),
            ] {
                if known.iter().any(|(_, known)| *known == name) {
                    gl.pixel_store_i32(name, value);
                }
            }
            assert_eq!(gl.get_error(), glow::NO_ERROR);
            buffers[0]
        };
        let state = || {
            known.iter().map(|(name, value)| {
                // SAFETY: the context is current and has these parameters.
                (*name, unsafe { gl.get_parameter_i32(*value) })
            })
        };
        let before: Vec<_> = state().collect();
        for lacks in WAYS {
            let shelf = Shelf::default();
            let mut back = read_back_without(&context, Sharing::None, &shelf, lacks);
            let theirs = ReadSource::Buffer {
                name: theirs.0.get(),
                offset: 0,
                format: PixelFormat::Bgrx,
                stride: SIZE.width as usize * 4,
            };
            // SAFETY: the context is current.
            unsafe { gl.enable(0xFFFF) };
            for what in [ReadSource::Window, theirs, ReadSource::Window] {
                back.read(SIZE, what, RenderInfo::default());
                assert_eq!(state().collect::<Vec<_>>(), before, "{lacks:?}");
            }
            // SAFETY: the context is current.
            let errors = unsafe { [gl.get_error(), gl.get_error()] };
            assert_eq!(errors, [glow::INVALID_ENUM, glow::NO_ERROR], "{lacks:?}");
            for (at, (frame, ..)) in shelf.take().iter().enumerate() {
                if at != 1 || lacks == WAYS[2] {
                    assert_shows(&**frame, SIZE, 5, "the window, not the bound framebuffer");
                }
            }
            back.retire(true);
            assert_eq!(state().collect::<Vec<_>>(), before, "{lacks:?}");
        }
        // SAFETY: the context is current.
        unsafe {
            gl.bind_framebuffer(glow::FRAMEBUFFER, None);
            let selected = gl.get_parameter_i32(glow::READ_BUFFER).cast_unsigned();
            assert_eq!(selected, if embedded { glow::NONE } else { glow::FRONT });
        }
    }
}

#[test]
fn pixel_transfer_of_the_application_changes_no_colour() {
    /// `glPixelTransferf` and `glPixelMapfv`, which glow does not have.
    type Set = unsafe extern "C" fn(u32, f32);
    type Map = unsafe extern "C" fn(u32, i32, *const f32);
    const MAP_COLOR: u32 = 0x0D10;
    const RED_TO_RED: u32 = 0x0C76;
    let theirs = [
        (MAP_COLOR, 1.0),
        (0x0D14, 0.25), // GL_RED_SCALE
        (0x0D19, 0.5),  // GL_GREEN_BIAS
        (0x0D1A, -1.0), // GL_BLUE_SCALE
        (0x0D1B, 1.0),  // GL_BLUE_BIAS
        (0x0D1C, 0.5),  // GL_ALPHA_SCALE
    ];
    let Some(server) = fixture::xvfb("320x240", &[]) else {
        return;
    };
    let mut changed = 0;
    for (wanted, fixed) in [
        (ContextConfig::DEFAULT, true),
        (ContextConfig::of(Profile::Compatible, 2, 1), true),
        (ContextConfig::of(Profile::Core, 3, 1), false),
        (ContextConfig::of(Profile::Core, 3, 2), false),
        (ContextConfig::of(Profile::Embedded, 2, 0), false),
    ] {
        let Some(context) = Glx::open(&server.display, SIZE, wanted, None) else {
            eprintln!("{wanted:?} is not available");
            continue;
        };
        let gl = functions(&context);
        let state = || {
            let values = theirs.iter().filter(|_| fixed);
            // SAFETY: the context is current and has these parameters.
            let values = values.map(|(name, _)| unsafe { gl.get_parameter_f32(*name) });
            values.collect::<Vec<_>>()
        };
        if fixed {
            // SAFETY: the functions have these types; the context is current.
            unsafe {
                let find = |name| context.find(name);
                let set: Set = std::mem::transmute(find(c"glPixelTransferf"));
                let map: Map = std::mem::transmute(find(c"glPixelMapfv"));
                map(RED_TO_RED, 2, [1.0, 0.0].as_ptr());
                for (name, value) in theirs {
                    set(name, value);
                }
            }
            assert_eq!(state(), theirs.map(|(_, value)| value));
            changed += 1;
        }
        let before = state();
        for lacks in WAYS {
            let what = format!("{wanted:?} without {lacks:?}");
            let shelf = Shelf::default();
            let mut back = read_back_without(&context, Sharing::None, &shelf, lacks);
            draw(&gl, SIZE, 4);
            window(&mut back);
            back.finish(Duration::from_secs(30));
            assert_shows(&*shelf.one(), SIZE, 4, &what);
            assert_eq!(state(), before, "{what}");
            back.retire(true);
            // SAFETY: the context is current.
            assert_eq!(unsafe { gl.get_error() }, glow::NO_ERROR, "{what}");
        }
        context.make_current(false);
    }
    assert!(changed > 0);
}

#[test]
fn a_resized_window_gets_new_buffers() {
    let Some(server) = fixture::xvfb("320x240", &[]) else {
        return;
    };
    for by_egl in [false, true] {
        let context: Box<dyn Context> = if by_egl {
            let egl = Egl::open(Some(&server.display), SIZE, ContextConfig::DEFAULT);
            Box::new(egl.expect("Mesa has it"))
        } else {
            Box::new(glx(&server, ContextConfig::DEFAULT))
        };
        resize(&*context);
        context.make_current(false);
    }
}

fn resize(context: &dyn Context) {
    let gl = functions(context);
    for lacks in WAYS {
        let shelf = Shelf::default();
        let mut back = read_back_without(context, Sharing::None, &shelf, lacks);
        let mut kept = Vec::new();
        for (seed, size) in (0..).zip([(71, 46), (120, 80), (33, 90), (71, 46)]) {
            let size = Size::new(size.0, size.1);
            context.resize(size);
            // The driver updates the window's size at the next drawing.
            context.swap();
            // SAFETY: the context is current.
            unsafe { gl.viewport(0, 0, 200, 200) };
            draw(&gl, size, seed);
            let reading = back.read(size, ReadSource::Window, RenderInfo::default());
            assert_eq!(reading, ReadStatus::Submitted(None));
            kept.push((shelf.one(), size, seed));
        }
        for (frame, size, seed) in &kept {
            assert_shows(&**frame, *size, *seed, "after a resize");
        }
        kept.clear();
        let size = Size::new(71, 46);
        draw(&gl, size, 9);
        back.read(size, ReadSource::Window, RenderInfo::default());
        assert!(back.slots.len() <= 2, "buffers of other sizes are freed");
    }
}

#[test]
fn a_picture_without_a_free_buffer_is_skipped() {
    let Some(server) = fixture::xvfb("320x240", &[]) else {
        return;
    };
    let context = glx(&server, ContextConfig::DEFAULT);
    let gl = functions(&context);
    for lacks in &WAYS[..2] {
        let shelf = Shelf::default();
        let mut back = read_back_without(&context, Sharing::None, &shelf, lacks);
        draw(&gl, SIZE, 1);
        for _ in 0..4 {
            assert_eq!(window(&mut back), ReadStatus::Submitted(None));
        }
        draw(&gl, SIZE, 2);
        for _ in 0..2 {
            assert!(matches!(
                window(&mut back),
                ReadStatus::Skipped(SkipReason::RingFull)
            ));
        }
        assert_eq!(back.skipped(), 2);
        let mut four = shelf.take();
        for (frame, ..) in &four {
            assert_shows(&**frame, SIZE, 1, "not overwritten");
        }
        let last = four.pop();
        std::thread::spawn(move || drop(last)).join().unwrap();
        assert_eq!(window(&mut back), ReadStatus::Submitted(None));
        assert_shows(&*shelf.one(), SIZE, 2, "in the returned buffer");
        assert_eq!(back.slots.len(), 4);
    }
}

#[test]
fn pictures_outlive_their_context() {
    let Some(server) = fixture::xvfb("320x240", &[]) else {
        return;
    };
    for (lacks, current) in WAYS.into_iter().flat_map(|way| [(way, true), (way, false)]) {
        let mut context = glx(&server, ContextConfig::DEFAULT);
        let gl = functions(&context);
        let shelf = Shelf::default();
        let mut back = read_back_without(&context, Sharing::None, &shelf, lacks);
        for seed in 1..4 {
            draw(&gl, SIZE, seed);
            window(&mut back);
        }
        let mut all = shelf.take();
        // The host uses one picture, and then calls `rest`.
        assert_shows(&*all[1].0, SIZE, 2, "before");
        all[1].0.rest();
        if !current {
            context.make_current(false);
        }
        back.retire(current);
        context.destroy();
        for (seed, (frame, ..)) in (1..).zip(&all) {
            assert_shows(&**frame, SIZE, seed, "afterwards");
        }
    }
}

#[test]
fn a_picture_in_use_is_not_withdrawn() {
    let Some(server) = fixture::xvfb("320x240", &[]) else {
        return;
    };
    let mut context = glx(&server, ContextConfig::DEFAULT);
    let gl = functions(&context);
    let shelf = Shelf::default();
    let mut back = read_back(&context, Sharing::None, &shelf);
    draw(&gl, SIZE, 3);
    window(&mut back);
    let mut frame = shelf.one();
    let (looking, looks) = mpsc::sync_channel(1);
    let away = Arc::new(AtomicBool::new(false));
    let looked_away = away.clone();
    let host = std::thread::spawn(move || {
        let picture = frame.picture();
        looking.send(()).unwrap();
        for _ in 0..50 {
            for y in 0..SIZE.height {
                for x in 0..SIZE.width {
                    assert_eq!(pixel(&picture, x, y), colour(x, y, 3));
                }
            }
        }
        looked_away.store(true, Ordering::SeqCst);
        frame.rest();
        frame
    });
    looks.recv().unwrap();
    back.retire(true);
    assert!(away.load(Ordering::SeqCst), "it has waited");
    context.destroy();
    assert_shows(&*host.join().unwrap(), SIZE, 3, "a copy");
}

#[test]
fn a_buffer_of_the_application_is_not_torn() {
    let Some(server) = fixture::xvfb("320x240", &[]) else {
        return;
    };
    let contexts: [Box<dyn Context>; 2] = [
        Box::new(glx(&server, ContextConfig::DEFAULT)),
        Box::new(
            Egl::open(None, SIZE, ContextConfig::of(Profile::Embedded, 3, 0)).expect("Mesa has it"),
        ),
    ];
    for (at, context) in contexts.iter().enumerate() {
        context.make_current(true);
        let gl = functions(&**context);
        let mut formats = vec![(PixelFormat::Rgbx, glow::RGBA, 4)];
        if at == 0 {
            formats.extend([
                (PixelFormat::Bgrx, glow::BGRA, 4),
                (PixelFormat::Rgb, glow::RGB, 3),
                (PixelFormat::Bgr, glow::BGR, 3),
            ]);
        }
        for (format, theirs, bytes) in formats {
            let shelf = Shelf::default();
            let mut back = read_back(&**context, Sharing::None, &shelf);
            let (width, height) = (71, 46);
            // Rows start at multiples of 4, OpenGL's default.
            let stride = (width * bytes as usize).next_multiple_of(4);
            let offset = 64;
            // SAFETY: the context is current, and the buffer has room for the picture.
            let buffer = unsafe {
                let buffer = gl.create_buffer().unwrap();
                gl.bind_buffer(glow::PIXEL_PACK_BUFFER, Some(buffer));
                let bytes = i32::try_from(offset + stride * height).unwrap();
                gl.buffer_data_size(glow::PIXEL_PACK_BUFFER, bytes, glow::DYNAMIC_COPY);
                buffer
            };
            // SAFETY: the context is current, and the buffer has room for the picture.
            let read = || unsafe {
                gl.read_pixels(
                    0,
                    0,
                    71,
                    46,
                    theirs,
                    glow::UNSIGNED_BYTE,
                    glow::PixelPackData::BufferOffset(64),
                );
            };
            let what = ReadSource::Buffer {
                name: buffer.0.get(),
                offset,
                format,
                stride,
            };
            let mut kept = Vec::new();
            for seed in 0..3 {
                draw(&gl, SIZE, seed);
                read();
                let reading = back.read(SIZE, what, RenderInfo::default());
                assert_eq!(reading, ReadStatus::Submitted(None), "{format:?}");
                kept.push((shelf.one(), seed));
            }
            for (frame, seed) in &kept {
                assert_eq!(frame.picture().format, format);
                assert_shows(&**frame, SIZE, *seed, &format!("{format:?}"));
            }
            let refused = |back: &mut ReadBack, size, what, word| {
                let reading = back.read(size, what, RenderInfo::default());
                assert!(
                    matches!(reading, ReadStatus::Skipped(why) if why.to_string().contains(word)),
                    "{reading:?}, not {word}"
                );
            };
            let other = |name, offset, stride| ReadSource::Buffer {
                name,
                offset,
                format,
                stride,
            };
            let name = buffer.0.get();
            refused(&mut back, SIZE, other(name + 1000, 0, stride), "unknown");
            refused(
                &mut back,
                SIZE,
                other(name, 65 + 4, stride),
                "the picture needs",
            );
            refused(&mut back, SIZE, other(name, 0, stride / 2), "stride");
            refused(&mut back, Size::new(0, 5), other(name, 0, stride), "size");
            refused(
                &mut back,
                SIZE,
                other(name, usize::MAX, stride),
                "the picture needs",
            );
            // SAFETY: the context is current; the mapping is not accessed.
            unsafe {
                gl.map_buffer_range(glow::PIXEL_PACK_BUFFER, 0, 64, glow::MAP_READ_BIT);
                drop(kept);
                refused(&mut back, SIZE, what, "unmap");
                gl.unmap_buffer(glow::PIXEL_PACK_BUFFER);
                assert_eq!(gl.get_error(), glow::NO_ERROR, "{format:?}");
                gl.bind_buffer(glow::PIXEL_PACK_BUFFER, None);
            }
        }
        context.make_current(false);
    }
}

#[test]
fn contexts_of_several_threads_are_independent() {
    let Some(server) = fixture::xvfb("320x240", &[]) else {
        return;
    };
    let first = glx(&server, ContextConfig::DEFAULT);
    let second =
        Glx::open(&server.display, SIZE, ContextConfig::DEFAULT, Some(&first)).expect("shared");
    second.make_current(false);
    let third = glx(&server, ContextConfig::of(Profile::Core, 4, 5));
    third.make_current(false);
    let together = Barrier::new(3);
    std::thread::scope(|scope| {
        for (number, context) in (0..).zip([first, second, third]) {
            let together = &together;
            scope.spawn(move || {
                context.make_current(true);
                let gl = functions(&context);
                let shelf = Shelf::default();
                let mut back = read_back(&context, Sharing::Glx { threads: true }, &shelf);
                // The second context always uses a waiting thread.
                back.looks = number != 1;
                together.wait();
                for n in 0..20 {
                    let seed = number * 100 + n;
                    draw(&gl, SIZE, seed);
                    let reading = window(&mut back);
                    assert!(!matches!(reading, ReadStatus::Skipped(_)), "{reading:?}");
                    context.swap();
                    back.finish(Duration::from_secs(60));
                    assert_shows(&*shelf.one(), SIZE, seed, "on its thread");
                }
                back.retire(true);
                context.make_current(false);
                context
            });
        }
    });
}

#[test]
fn a_context_may_move_between_threads() {
    let Some(server) = fixture::xvfb("320x240", &[]) else {
        return;
    };
    let context = glx(&server, ContextConfig::DEFAULT);
    let shelf = Shelf::default();
    let mut back = read_back(&context, Sharing::Glx { threads: true }, &shelf);
    context.make_current(false);
    let mut pair = (context, back);
    for seed in 0..4 {
        let shelf = shelf.clone();
        let next = std::thread::spawn(move || {
            let (context, mut back) = pair;
            context.make_current(true);
            draw(&functions(&context), SIZE, seed);
            back.looks = seed % 2 == 0;
            window(&mut back);
            back.finish(Duration::from_secs(60));
            assert_shows(&*shelf.one(), SIZE, seed, "elsewhere");
            context.make_current(false);
            (context, back)
        });
        pair = next.join().unwrap();
    }
    (_, back) = pair;
    back.retire(false);
}

#[test]
fn without_a_context_there_is_an_error() {
    let Some(server) = fixture::xvfb("320x240", &[]) else {
        return;
    };
    let context = glx(&server, ContextConfig::DEFAULT);
    context.make_current(false);
    let shelf = Shelf::default();
    let mut find = |name: &CStr| context.find(name);
    // SAFETY: with no context, the driver's functions do nothing.
    let error = unsafe { ReadBack::new(&mut find, Sharing::None, shelf.submit()) };
    let error = error.err().expect("no context").0;
    assert!(error.contains("current on this thread"), "{error}");
    let mut nothing = |_: &CStr| null();
    // SAFETY: the loader returns null for every function.
    let error = unsafe { ReadBack::new(&mut nothing, Sharing::None, shelf.submit()) };
    assert!(error.err().expect("no OpenGL").0.contains("glReadPixels"));
}

#[test]
fn gl_versions_are_parsed() {
    let of = |embedded, major, minor| {
        Some(Version {
            embedded,
            major,
            minor,
        })
    };
    for (words, version) in [
        ("4.5 (Compatibility Profile) Mesa 22.3.6", of(false, 4, 5)),
        ("3.1.0 NVIDIA 535.54", of(false, 3, 1)),
        ("OpenGL ES 3.2 Mesa 22.3.6", of(true, 3, 2)),
        ("OpenGL ES-CM 1.1 Mesa", of(true, 1, 1)),
        ("1.4 (2.1 Mesa)", of(false, 1, 4)),
        ("", None),
        ("four", None),
    ] {
        assert_eq!(Version::parse(words), version, "{words}");
    }
}
