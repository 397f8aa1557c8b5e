//! Reading of a display's pixels through shared memory, with change notification.
//!
//! This module is for the instruments (bench, demo), which observe displays from outside, as a camera would. The server
//! shares memory as a file descriptor, which is read with `pread`. Therefore, nothing here needs `unsafe`, and two
//! displays can share one segment.

use std::os::fd::{AsFd as _, OwnedFd};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use openuvr_media::barcode::{self, Stamp};
use openuvr_media::picture::Picture;
use openuvr_proto::units::Size;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use x11rb::connection::{Connection as _, RequestConnection as _};
use x11rb::cookie::Cookie;
use x11rb::protocol::damage::{self, ConnectionExt as _};
use x11rb::protocol::shm::{self, ConnectionExt as _};
use x11rb::protocol::xfixes::ConnectionExt as _;
use x11rb::protocol::xproto::{
    ConnectionExt as _, KEY_PRESS_EVENT, KEY_RELEASE_EVENT, MapState, Window,
};
use x11rb::protocol::xtest::ConnectionExt as _;
use x11rb::rust_connection::RustConnection;

/// A connection to a display for reading its pixels.
pub struct Screen {
    /// The connection.
    pub conn: RustConnection,
    /// The root window.
    pub root: Window,
    /// Colour depth in bits: 24 or 32.
    pub depth: u8,
    /// The size of the screen, in pixels.
    pub size: Size,
    /// The shared memory for one picture, as known to the X server.
    pub segment: shm::Seg,
    /// The file of the shared memory.
    pub memory: OwnedFd,
    watching: Option<damage::Damage>,
}

/// A rectangle of the screen, in pixels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Area {
    /// From the left.
    pub x: i16,
    /// From the top.
    pub y: i16,
    /// Width and height.
    pub size: Size,
}

impl Screen {
    /// Connects to `display`, and creates shared memory for a picture of the whole display.
    pub fn open(display: &str) -> Result<Screen> {
        let (conn, number) = x11rb::connect(Some(display))
            .with_context(|| format!("can't open the X display {display}: is it running?"))?;
        let root = &conn.setup().roots[number];
        let size = Size::new(root.width_in_pixels.into(), root.height_in_pixels.into());
        let (root, depth) = (root.root, root.root_depth);
        if depth != 24 && depth != 32 {
            bail!("the display {display} has {depth} bit colour; 24 bit is required");
        }
        for name in [shm::X11_EXTENSION_NAME, damage::X11_EXTENSION_NAME] {
            if conn.extension_information(name)?.is_none() {
                bail!("the display {display} lacks the X extension {name}");
            }
        }
        // DAMAGE builds on XFIXES, and both require a version query first.
        conn.xfixes_query_version(5, 0)?.reply()?;
        conn.damage_query_version(1, 1)?.reply()?;
        let segment = conn.generate_id()?;
        let bytes = u32::try_from(size.pixels() * 4)?;
        let memory = conn
            .shm_create_segment(segment, bytes, false)?
            .reply()
            .with_context(|| {
                format!("the display {display} does not support shared memory (is it remote?)")
            })?
            .shm_fd;
        Ok(Screen {
            conn,
            root,
            depth,
            size,
            segment,
            memory,
            watching: None,
        })
    }

    /// The whole screen.
    pub fn all(&self) -> Area {
        Area {
            x: 0,
            y: 0,
            size: self.size,
        }
    }

    /// Subscribes to changes anywhere on the screen.
    pub fn watch(&mut self) -> Result<()> {
        let damage = self.conn.generate_id()?;
        self.conn
            .damage_create(damage, self.root, damage::ReportLevel::NON_EMPTY)?
            .check()?;
        self.watching = Some(damage);
        Ok(())
    }

    /// Waits at most `timeout` for a change since the last call. Returns whether there was one.
    ///
    /// The method acknowledges the reported changes before it returns. A subsequent read therefore includes these
    /// changes, and any later change is reported again.
    pub fn changed(&self, timeout: Duration) -> Result<bool> {
        if !self.take_damage()? {
            let wait = Timespec::try_from(timeout)?;
            let mut fds = [PollFd::new(self.conn.stream(), PollFlags::IN)];
            match poll(&mut fds, Some(&wait)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            if !self.take_damage()? {
                return Ok(false);
            }
        }
        if let Some(damage) = self.watching {
            self.conn
                .damage_subtract(damage, x11rb::NONE, x11rb::NONE)?;
            // Acknowledge the changes before the pixels are read, so that a change during the read is reported, too.
            self.conn.flush()?;
        }
        Ok(true)
    }

    fn take_damage(&self) -> Result<bool> {
        let mut seen = false;
        while let Some(event) = self.conn.poll_for_event()? {
            seen |= matches!(event, x11rb::protocol::Event::DamageNotify(_));
        }
        Ok(seen)
    }

    /// Makes the server write `area` to the shared memory, with packed rows.
    pub fn fetch(&self, area: Area) -> Result<()> {
        self.request(area, 0)?.reply()?;
        Ok(())
    }

    /// Like [`fetch`](Self::fetch), but the picture starts at byte `offset` of the shared memory, and the call does not
    /// wait for the server.
    fn request(
        &self,
        area: Area,
        offset: u32,
    ) -> Result<Cookie<'_, RustConnection, shm::GetImageReply>> {
        let (width, height) = (side(area.size.width), side(area.size.height));
        let z_pixmap = 2;
        Ok(self.conn.shm_get_image(
            self.root,
            area.x,
            area.y,
            width,
            height,
            !0,
            z_pixmap,
            self.segment,
            offset,
        )?)
    }

    /// Reads the pixels of `area` into `pixels`, as BGRX.
    pub fn grab(&self, area: Area, pixels: &mut Vec<u8>) -> Result<()> {
        self.fetch(area)?;
        self.copy(area.size.pixels() * 4, pixels)
    }

    /// Copies the first `bytes` bytes of the shared memory into `pixels`.
    fn copy(&self, bytes: usize, pixels: &mut Vec<u8>) -> Result<()> {
        pixels.resize(bytes, 0);
        let mut done = 0;
        while done < pixels.len() {
            let more = rustix::io::pread(self.memory.as_fd(), &mut pixels[done..], done as u64)?;
            if more == 0 {
                bail!("the X server's shared memory is shorter than its picture");
            }
            done += more;
        }
        Ok(())
    }

    /// Reads only the bar code at the top of `area`.
    pub fn stamp(&self, area: Area, pixels: &mut Vec<u8>) -> Result<Option<Stamp>> {
        let Size { width, height } = area.size;
        let rows = barcode::height(width);
        if width < barcode::MIN_WIDTH || height < rows {
            return Ok(None);
        }
        let strip = Size::new(width, rows);
        self.grab(
            Area {
                size: strip,
                ..area
            },
            pixels,
        )?;
        Ok(barcode::read(&Picture::bgrx(
            strip,
            pixels,
            width as usize * 4,
        )))
    }

    /// Reads the bar codes in the first and the last rows of `area`. Both are from the same picture.
    pub fn stamps(&self, area: Area, pixels: &mut Vec<u8>) -> Result<[Option<Stamp>; 2]> {
        let Size { width, height } = area.size;
        let rows = barcode::height(width);
        if width < barcode::MIN_WIDTH || height < 2 * rows {
            return Ok([None; 2]);
        }
        let strip = Size::new(width, rows);
        let top = Area {
            size: strip,
            ..area
        };
        let bottom = Area {
            y: area.y.saturating_add_unsigned(side(height - rows)),
            ..top
        };
        let bytes = strip.pixels() * 4;
        // No client draws between the two reads.
        self.conn.grab_server()?;
        let first = self.request(top, 0)?;
        let second = self.request(bottom, u32::try_from(bytes)?)?;
        self.conn.ungrab_server()?;
        first.reply()?;
        second.reply()?;
        self.copy(2 * bytes, pixels)?;
        let (first, second) = pixels.split_at(bytes);
        let stamp = |pixels| barcode::read(&Picture::bgrx(strip, pixels, width as usize * 4));
        Ok([stamp(first), stamp(second)])
    }

    /// The windows that lie completely on the screen, largest first, and then the screen itself.
    pub fn windows(&self) -> Result<Vec<Area>> {
        let mut areas = Vec::new();
        let mut parents = vec![(self.root, 0_i16, 0_i16)];
        // A window manager adds one or two frame windows around an application's window.
        for _ in 0..3 {
            let mut next = Vec::new();
            for (parent, x, y) in parents {
                for child in self.conn.query_tree(parent)?.reply()?.children {
                    let Ok(is) = self.conn.get_window_attributes(child)?.reply() else {
                        continue;
                    };
                    let Ok(at) = self.conn.get_geometry(child)?.reply() else {
                        continue;
                    };
                    if is.map_state != MapState::VIEWABLE {
                        continue;
                    }
                    let border = i16::try_from(at.border_width).unwrap_or(0);
                    let (x, y) = (x + at.x + border, y + at.y + border);
                    let size = Size::new(at.width.into(), at.height.into());
                    let fits = |start: i16, side: u32, all: u32| {
                        start >= 0 && start.unsigned_abs() as u32 + side <= all
                    };
                    if fits(x, size.width, self.size.width)
                        && fits(y, size.height, self.size.height)
                    {
                        areas.push(Area { x, y, size });
                    }
                    next.push((child, x, y));
                }
            }
            parents = next;
        }
        areas.sort_by_key(|area| std::cmp::Reverse(area.size.pixels()));
        areas.push(self.all());
        Ok(areas)
    }

    /// The window (or screen) that currently has a bar code.
    pub fn find_code(&self, pixels: &mut Vec<u8>) -> Result<Option<Area>> {
        for area in self.windows()? {
            // A window may close between the list and the read.
            if let Ok(Some(_)) = self.stamp(area, pixels) {
                return Ok(Some(area));
            }
        }
        Ok(None)
    }

    /// Presses and releases the space bar as if on the keyboard (XTEST).
    pub fn press_key(&self) -> Result<()> {
        // Key code of the space bar on every PC keyboard under X (evdev 57 + 8).
        const SPACE: u8 = 65;
        for kind in [KEY_PRESS_EVENT, KEY_RELEASE_EVENT] {
            self.conn
                .xtest_fake_input(kind, SPACE, x11rb::CURRENT_TIME, self.root, 0, 0, 0)?;
        }
        self.conn.flush()?;
        Ok(())
    }
}

/// A width or height for the X protocol. Sizes come from X, so they fit.
pub fn side(pixels: u32) -> u16 {
    u16::try_from(pixels).unwrap_or(u16::MAX)
}
