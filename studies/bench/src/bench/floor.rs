//! The floor: the latency of a program that copies pictures from one display to another, without a codec and without a
//! network.
//!
//! It contains the latency of the displays, the events and the reader, and is a lower bound for any stream between
//! these displays. Both X servers share a memory segment: one server writes the picture there, and the other reads it.

use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, Result};
use x11rb::connection::Connection as _;
use x11rb::protocol::shm::ConnectionExt as _;
use x11rb::protocol::xproto::{
    ConnectionExt as _, CreateGCAux, CreateWindowAux, Gcontext, Window, WindowClass,
};

use openuvr_testbed::sched::{Participant, Sched};
use openuvr_testbed::screen::{Screen, side};

pub(crate) struct Copier {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<()>>>,
}

impl Copier {
    /// Starts to copy each new picture of the display `from` into a window on the display `to`.
    pub(super) fn start_as(from: &str, to: &str, sched: Sched) -> Result<Copier> {
        let mut source = Screen::open(from)?;
        let target = Screen::open(to)?;
        let segment = target.conn.generate_id()?;
        let memory = source.memory.as_fd().try_clone_to_owned()?;
        target
            .conn
            .shm_attach_fd(segment, memory, false)?
            .check()
            .context("the second display can't share the memory of the first display")?;
        let (window, gc) = open_window(&target, &source)?;
        source.watch()?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("copier".into())
            .spawn(move || {
                sched.raise_me(Participant::Copier);
                let area = source.all();
                let (width, height) = (side(area.size.width), side(area.size.height));
                let z_pixmap = 2;
                while !stopped.load(Ordering::Relaxed) {
                    if !source.changed(Duration::from_millis(50))? {
                        continue;
                    }
                    source.fetch(area)?;
                    target.conn.shm_put_image(
                        window,
                        gc,
                        width,
                        height,
                        0,
                        0,
                        width,
                        height,
                        0,
                        0,
                        target.depth,
                        z_pixmap,
                        false,
                        segment,
                        0,
                    )?;
                    // The memory must not be overwritten before the picture is displayed.
                    target.conn.get_input_focus()?.reply()?;
                }
                Ok(())
            })?;
        Ok(Copier {
            stop,
            thread: Some(thread),
        })
    }

    /// Stops the copier. Returns an error if the copier has failed.
    pub(crate) fn stop(mut self) -> Result<()> {
        self.end()
    }

    fn end(&mut self) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        match self.thread.take().map(JoinHandle::join) {
            None | Some(Ok(Ok(()))) => Ok(()),
            Some(Ok(Err(error))) => Err(error.context("the copier failed")),
            Some(Err(_)) => anyhow::bail!("the copier panicked"),
        }
    }
}

impl Drop for Copier {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

fn open_window(target: &Screen, source: &Screen) -> Result<(Window, Gcontext)> {
    let (window, gc) = (target.conn.generate_id()?, target.conn.generate_id()?);
    target.conn.create_window(
        x11rb::COPY_DEPTH_FROM_PARENT,
        window,
        target.root,
        0,
        0,
        side(source.size.width),
        side(source.size.height),
        0,
        WindowClass::INPUT_OUTPUT,
        x11rb::COPY_FROM_PARENT,
        &CreateWindowAux::new().override_redirect(1),
    )?;
    target.conn.create_gc(gc, window, &CreateGCAux::new())?;
    target.conn.map_window(window)?.check()?;
    Ok((window, gc))
}

#[cfg(test)]
mod tests {
    use openuvr_media::barcode::{self, Stamp};
    use openuvr_proto::units::Size;
    use x11rb::protocol::xproto::ImageFormat;

    use openuvr_clock as clock;
    use openuvr_testbed::display::for_test as display;
    use openuvr_testbed::reader::Reader;

    use super::*;

    /// Draws bar codes with plain X requests. The reader must see each of them on the second display before the next is
    /// drawn.
    #[test]
    fn every_code_drawn_on_one_display_is_read_from_the_other() {
        let size = Size::new(640, 120);
        let Some(a) = display(size) else { return };
        let Some(b) = display(size) else { return };
        let copier = Copier::start_as(a.name(), b.name(), Sched::Off).unwrap();
        let reader = Reader::start(b.name()).unwrap();
        let screen = Screen::open(a.name()).unwrap();
        let gc = screen.conn.generate_id().unwrap();
        screen
            .conn
            .create_gc(gc, screen.root, &CreateGCAux::new())
            .unwrap();
        let mut pixels = vec![90; size.pixels() * 4];
        for frame in 1..=30 {
            let stamp = Stamp {
                frame,
                drawn_us: barcode::micros(clock::now()),
                inputs: 3,
            };
            assert!(barcode::draw(&mut pixels, 640 * 4, size, &stamp));
            screen
                .conn
                .put_image(
                    ImageFormat::Z_PIXMAP,
                    screen.root,
                    gc,
                    640,
                    120,
                    0,
                    0,
                    0,
                    screen.depth,
                    &pixels,
                )
                .unwrap();
            screen.conn.flush().unwrap();
            let seen = reader
                .wait(0, Duration::from_secs(10), |sighting| {
                    sighting.frame == frame
                })
                .unwrap()
                .expect("the code arrives");
            assert_eq!((seen.drawn_us, seen.inputs), (stamp.drawn_us, 3));
            assert!(seen.seen_us >= seen.drawn_us, "never before it was drawn");
        }
        let frames: Vec<u32> = reader
            .since(0)
            .iter()
            .map(|sighting| sighting.frame)
            .collect();
        assert_eq!(frames, (1..=30).collect::<Vec<_>>(), "each once, in order");
        copier.stop().unwrap();
    }
}
