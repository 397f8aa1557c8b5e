//! Displays numbered pictures in dma-bufs on `card0`, like a decoder with its own memory: `dma_bufs xrgb|nv12
//! WIDTHxHEIGHT [PICTURES]`.
//!
//! The dma-bufs are buffers that the example creates on the same card through a second descriptor. Each picture has a
//! bar code with its number, and is drawn only into a buffer that the display has released. A picture that the display
//! does not take is copied. After the last picture, a line of text is displayed over it; without `PICTURES`, the
//! pictures go on until SIGTERM. The program ends at SIGTERM and prints the number of buffers that were still in use,
//! before and after the display was closed.

#![allow(clippy::print_stdout, reason = "the example prints its results")]

use std::error::Error;
use std::fs::{File, OpenOptions};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use drm::buffer::{Buffer as _, DrmFourcc};
use drm::control::Device as _;
use drm::control::dumbbuffer::DumbBuffer;
use openuvr_kms::KmsConfig;
use openuvr_media::barcode::{self, Stamp};
use openuvr_media::dma_buf::{DmaBufPicture, LINEAR, Layout, NV12, Objects, PlaneLayout, XRGB8888};
use openuvr_media::present::Presenter as _;
use openuvr_media::window::WindowConfig;
use openuvr_proto::id::FrameId;
use openuvr_proto::units::Size;
use signal_hook::consts::SIGTERM;

/// The display may hold three pictures (displayed, pending and waiting) while the fourth is being drawn.
const BUFFERS: usize = 4;

/// The time between two pictures.
const INTERVAL: Duration = Duration::from_millis(200);

fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt().with_ansi(false).init();
    let usage = "usage: dma_bufs xrgb|nv12 WIDTHxHEIGHT [PICTURES]";
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (format, size) = match words.first().map(String::as_str).zip(words.get(1)) {
        Some(("xrgb", size)) => (XRGB8888, size),
        Some(("nv12", size)) => (NV12, size),
        _ => return Err(usage.into()),
    };
    let (width, height) = size.split_once('x').ok_or(usage)?;
    let size = Size::new(width.parse()?, height.parse()?);
    let last = words.get(2).map_or(Ok(u32::MAX), |word| word.parse())?;
    let end = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGTERM, Arc::clone(&end))?;

    // The presenter opens the card before the pool does, because only the first descriptor of a card may set modes.
    let window = WindowConfig {
        size,
        ..WindowConfig::default()
    };
    let (mut presenter, _input) = openuvr_kms::open(&KmsConfig::default(), &window, None)?;
    let mut pool = Pool::new(format, size)?;
    let (mut direct, mut copied) = (0, 0);
    for number in (1..=last).take_while(|_| !end.load(Ordering::Relaxed)) {
        let picture = pool.draw(number)?;
        let frame = FrameId(number);
        if presenter.present_dma_buf(frame, &picture)? {
            direct += 1;
        } else {
            presenter.present(frame, &picture.map()?.picture())?;
            copied += 1;
        }
        while presenter.presented().is_some() {}
        drop(picture);
        std::thread::sleep(INTERVAL);
    }
    println!("{direct} direct, {copied} copied");
    if !end.load(Ordering::Relaxed) {
        presenter.panel(&["no more pictures".to_owned()])?;
        println!("no more pictures");
    }
    while !end.load(Ordering::Relaxed) {
        std::thread::sleep(INTERVAL);
    }
    println!("{} in use", pool.in_use());
    drop(presenter);
    println!("{} left", pool.in_use());
    Ok(())
}

struct Card(File);

impl AsFd for Card {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl drm::Device for Card {}
impl drm::control::Device for Card {}

/// The buffers, some of which the display holds.
struct Pool {
    card: Card,
    layout: Layout,
    buffers: Vec<DumbBuffer>,
    free: Vec<usize>,
    released: Receiver<usize>,
    release: SyncSender<usize>,
}

/// A buffer that is lent.
struct Lent {
    object: OwnedFd,
    number: usize,
    release: SyncSender<usize>,
}

impl Objects for Lent {
    fn object(&self, number: usize) -> Option<BorrowedFd<'_>> {
        (number == 0).then(|| self.object.as_fd())
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        // The send never blocks, because the channel has space for all buffers. It fails only after the pool was
        // dropped.
        let _ = self.release.send(self.number);
    }
}

impl Pool {
    fn new(format: u32, size: Size) -> Result<Pool, Box<dyn Error>> {
        let card = OpenOptions::new()
            .read(true)
            .write(true)
            .open("/dev/dri/card0")?;
        let card = Card(card);
        // Drivers create dumb buffers with 32 bits per pixel, so four bytes of a row of NV12 count as one pixel.
        let (width, height) = match format {
            NV12 => (size.width / 4, size.height * 3 / 2),
            _ => (size.width, size.height),
        };
        let mut buffers = Vec::new();
        for _ in 0..BUFFERS {
            buffers.push(card.create_dumb_buffer((width, height), DrmFourcc::Xrgb8888, 32)?);
        }
        let pitch = buffers.first().map_or(0, |buffer| buffer.pitch());
        let plane = |offset| PlaneLayout {
            object: 0,
            offset,
            pitch,
        };
        let planes = [plane(0), plane(pitch * size.height)];
        let count = if format == NV12 { 2 } else { 1 };
        let (release, released) = sync_channel(BUFFERS);
        Ok(Pool {
            card,
            layout: Layout::new(size, format, LINEAR, &planes[..count])?,
            buffers,
            free: (0..BUFFERS).collect(),
            released,
            release,
        })
    }

    /// The number of lent buffers.
    fn in_use(&mut self) -> usize {
        self.free.extend(self.released.try_iter());
        BUFFERS - self.free.len()
    }

    /// Draws a picture into a free buffer: grey, with a bar code.
    fn draw(&mut self, frame: u32) -> Result<DmaBufPicture, Box<dyn Error>> {
        self.in_use();
        if self.free.is_empty() {
            return Err("the display keeps all buffers".into());
        }
        let number = self.free.remove(0);
        let Size { width, height } = self.layout.size;
        let (row, rows) = (width as usize * 4, height as usize);
        let mut bgrx = vec![128; row * rows];
        let stamp = Stamp {
            frame,
            ..Stamp::default()
        };
        if !barcode::draw(&mut bgrx, row, self.layout.size, &stamp) {
            return Err("the pictures are too small for a bar code".into());
        }
        let buffer = &mut self.buffers[number];
        let pitch = buffer.pitch() as usize;
        let mut memory = self.card.map_dumb_buffer(buffer)?;
        for (to, from) in memory.chunks_mut(pitch).zip(bgrx.chunks(row)) {
            match self.layout.format {
                NV12 => {
                    for (luma, pixel) in to.iter_mut().zip(from.as_chunks::<4>().0) {
                        *luma = u8::try_from(16 + u32::from(pixel[1]) * 219 / 255)?;
                    }
                }
                _ => to[..row].copy_from_slice(from),
            }
        }
        if self.layout.format == NV12 {
            memory[pitch * rows..].fill(128);
        }
        drop(memory);
        let object = self.card.buffer_to_prime_fd(buffer.handle(), 0)?;
        let lent = Lent {
            object,
            number,
            release: self.release.clone(),
        };
        Ok(DmaBufPicture::new(self.layout, Arc::new(lent))?)
    }
}
