//! Changes a display's size with RandR 1.2, and restores it when [`DisplaySize`] is dropped. The display must have
//! exactly one active output.
//!
//! A monitor gets only modes that it advertises. Of its modes with the requested size, it gets the mode with the rate
//! nearest to the requested rate. An output without a monitor (Xvfb, the dummy driver) gets a new mode if none of its
//! modes has the requested size and rate. Without a requested rate, only the size counts.
//!
//! This module does not watch the display, because captures detect the new size themselves.

use openuvr_proto::units::Size;
use x11rb::connection::{Connection as _, RequestConnection as _};
use x11rb::errors::ReplyError;
use x11rb::protocol::randr::{
    self, Connection, ConnectionExt as _, Crtc, GetScreenResourcesCurrentReply, Mode, ModeFlag,
    ModeInfo, Output, Rotation, SetConfig,
};
use x11rb::protocol::xproto::Window;
use x11rb::rust_connection::RustConnection;

use crate::display::connect;

/// Refresh rate in Hz of created modes if no rate is requested (guess: the rate of most displays). A created mode
/// drives no monitor, but applications may limit their frame rate to its refresh rate.
const USUAL_RATE: u16 = 60;

/// Size in millimetres of 960 pixels at 96 dpi, as Xvfb reports for its own screen.
const MM_OF_960: u32 = 254;

/// A display with a changeable size. Dropping it restores the original size.
pub struct DisplaySize {
    conn: RustConnection,
    name: String,
    root: Window,
    output: Output,
    crtc: Crtc,
    rotation: Rotation,
    /// The original setting, restored on drop.
    own: Setting,
    /// The setting made by this value, if any.
    given: Option<Setting>,
    /// Whether this value has created the mode of `given`.
    made: bool,
}

/// The setting of an output.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Setting {
    mode: Mode,
    size: Size,
    /// The requested refresh rate in Hz, if any.
    rate: Option<u16>,
}

impl DisplaySize {
    /// Queries `display` without changing it.
    ///
    /// # Errors
    /// Returns one line if the display can't be reached, lacks RandR, or does not have exactly one active output.
    pub fn open(display: &str) -> Result<DisplaySize, String> {
        let (conn, screen) = connect(display)?;
        let root = conn.setup().roots[screen].root;
        let name = format!("X display {display}");
        let there = conn.extension_information(randr::X11_EXTENSION_NAME);
        if !there.is_ok_and(|there| there.is_some()) {
            return Err(format!("{name}: the server lacks the RANDR extension"));
        }
        let failed = |why: ReplyError| format!("{name}: RandR failed: {why}");
        let found = active_outputs(&conn, root).map_err(failed)?;
        let [(crtc, output, rotation, own)] = found[..] else {
            let count = found.len();
            return Err(format!(
                "{name} has {count} active outputs: only a display with exactly one active output can be resized"
            ));
        };
        Ok(DisplaySize {
            conn,
            name,
            root,
            output,
            crtc,
            rotation,
            own,
            given: None,
            made: false,
        })
    }

    /// The display's original size.
    #[must_use]
    pub fn own(&self) -> Size {
        self.own.size
    }

    /// Makes the current setting the original setting, which is restored on drop.
    pub fn keep(&mut self) {
        if let Some(given) = self.given.take() {
            (self.own, self.made) = (given, false);
        }
    }

    /// Sets the display to `wanted`, or the nearest size that its server allows. Returns the new size. `rate` is the
    /// requested refresh rate in Hz; a monitor gets the nearest rate that it supports.
    ///
    /// # Errors
    /// Returns one line with the reason why the size is unchanged.
    pub fn set(&mut self, wanted: Size, rate: Option<u16>) -> Result<Size, String> {
        let range = self.range().map_err(|why| self.failed(&why))?;
        let wanted = Size::new(
            wanted.width.clamp(range.0.width, range.1.width),
            wanted.height.clamp(range.0.height, range.1.height),
        );
        let before = (self.now(), self.made);
        if before.0.size == wanted && (rate.is_none() || before.0.rate == rate) {
            return Ok(wanted);
        }
        if self.own.size == wanted && rate.is_none() {
            return self.restore().map(|()| wanted);
        }
        let (mode, made) = self.mode_of(mode_size(wanted, self.rotation), rate)?;
        let next = Setting {
            mode,
            size: wanted,
            rate,
        };
        if let Err(why) = self.show(before.0, next) {
            if made {
                self.forget_mode(mode);
            }
            return Err(why);
        }
        (self.given, self.made) = (Some(next), made);
        if before.1 {
            self.forget_mode(before.0.mode);
        }
        Ok(wanted)
    }

    /// Restores the original mode and size, unless another program has changed the mode since.
    ///
    /// # Errors
    /// Returns one line with the reason why the size is unchanged.
    pub fn restore(&mut self) -> Result<(), String> {
        let Some(given) = self.given.take() else {
            return Ok(());
        };
        let now = self.shown_mode().map_err(|why| self.failed(&why))?;
        // Another program may have changed the mode in the meantime.
        let restored = match now == given.mode {
            true => self.show(given, self.own),
            false => Ok(()),
        };
        if std::mem::take(&mut self.made) {
            self.forget_mode(given.mode);
        }
        restored
    }

    fn now(&self) -> Setting {
        self.given.unwrap_or(self.own)
    }

    fn failed(&self, why: &ReplyError) -> String {
        format!(
            "{}: the size could not be changed through RandR: {why}",
            self.name
        )
    }

    /// The minimum and maximum size of the screen.
    fn range(&self) -> Result<(Size, Size), ReplyError> {
        let range = self.conn.randr_get_screen_size_range(self.root)?.reply()?;
        let size = |width: u16, height: u16| Size::new(width.max(1).into(), height.max(1).into());
        let least = size(range.min_width, range.min_height);
        let most = size(range.max_width, range.max_height);
        let most = Size::new(most.width.max(least.width), most.height.max(least.height));
        Ok((least, most))
    }

    fn shown_mode(&self) -> Result<Mode, ReplyError> {
        let info = self
            .conn
            .randr_get_crtc_info(self.crtc, x11rb::CURRENT_TIME)?;
        Ok(info.reply()?.mode)
    }

    /// Returns a mode of `size`, and whether this call has added the mode to the output. If the output has several
    /// modes of this size, the mode with the rate nearest to `rate` is chosen; without `rate`, the mode with the
    /// highest pixel clock. If an output without a monitor has no mode with exactly this rate, a mode is added.
    fn mode_of(&self, size: Size, rate: Option<u16>) -> Result<(Mode, bool), String> {
        let failed = |why: ReplyError| self.failed(&why);
        let resources = resources(&self.conn, self.root).map_err(failed)?;
        let info = self
            .conn
            .randr_get_output_info(self.output, resources.config_timestamp);
        let info = info.map_err(ReplyError::from).and_then(|info| info.reply());
        let info = info.map_err(failed)?;
        let of_size = |mode: &&ModeInfo| size_of(mode) == size;
        let modes = (resources.modes.iter())
            .filter(|mode| info.modes.contains(&mode.id))
            .filter(of_size);
        let found = match rate {
            Some(rate) => modes.min_by_key(|mode| rate_of(mode).abs_diff(rate.into())),
            None => modes.max_by_key(|mode| mode.dot_clock),
        };
        let is_monitor = info.mm_width != 0 || info.mm_height != 0;
        if let Some(mode) = found
            && (is_monitor || rate.is_none_or(|rate| rate_of(mode) == u32::from(rate)))
        {
            return Ok((mode.id, false));
        }
        if is_monitor {
            return Err(format!("{}: the monitor has no mode of {size}", self.name));
        }
        let rate = rate.unwrap_or(USUAL_RATE);
        let name = mode_name(size, rate);
        let mut names = resources.names.as_slice();
        // A killed host may have left this mode.
        let left = resources.modes.iter().find(|mode| {
            let (own, rest) = names.split_at(usize::from(mode.name_len).min(names.len()));
            names = rest;
            own == name.as_bytes()
        });
        let mode = match left {
            Some(mode) => Ok(mode.id),
            None => self.make(size, rate, &name),
        };
        let mode = mode.map_err(failed)?;
        let added = self.conn.randr_add_output_mode(self.output, mode);
        if let Err(why) = added
            .map_err(ReplyError::from)
            .and_then(|sent| sent.check())
        {
            self.forget_mode(mode);
            return Err(self.failed(&why));
        }
        Ok((mode, true))
    }

    fn make(&self, size: Size, rate: u16, name: &str) -> Result<Mode, ReplyError> {
        let made = self
            .conn
            .randr_create_mode(self.root, timings(size, rate), name.as_bytes())?;
        Ok(made.reply()?.mode)
    }

    fn forget_mode(&self, mode: Mode) {
        // A leftover mode is harmless. The wait for the reply prevents later queries from returning the mode.
        let deleted = self.conn.randr_delete_output_mode(self.output, mode);
        let destroyed = self.conn.randr_destroy_mode(mode);
        let _ = deleted.map(|request| request.check());
        let _ = destroyed.map(|request| request.check());
    }

    /// Replaces `before` by `next`. During the change, the screen must be large enough for either size.
    fn show(&self, before: Setting, next: Setting) -> Result<(), String> {
        let both = Size::new(
            before.size.width.max(next.size.width),
            before.size.height.max(next.size.height),
        );
        let apply = || -> Result<SetConfig, ReplyError> {
            if both != before.size {
                self.set_screen(both)?;
            }
            let resources = resources(&self.conn, self.root)?;
            let set = self.conn.randr_set_crtc_config(
                self.crtc,
                x11rb::CURRENT_TIME,
                resources.config_timestamp,
                0,
                0,
                next.mode,
                self.rotation,
                &[self.output],
            )?;
            let status = set.reply()?.status;
            if status == SetConfig::SUCCESS {
                self.set_screen(next.size)?;
            }
            Ok(status)
        };
        let status = match apply() {
            Ok(SetConfig::SUCCESS) => return Ok(()),
            Ok(status) => format!("{status:?}"),
            Err(why) => why.to_string(),
        };
        if both != before.size {
            // Restores the old size of the screen.
            let _ = self.set_screen(before.size);
        }
        Err(format!(
            "{}: RandR refused the size {}: {status}",
            self.name, next.size
        ))
    }

    /// Sets the screen's size, unless the server has already adapted this size to the outputs.
    fn set_screen(&self, size: Size) -> Result<(), ReplyError> {
        use x11rb::protocol::xproto::ConnectionExt as _;

        let now = self.conn.get_geometry(self.root)?.reply()?;
        if Size::new(now.width.into(), now.height.into()) == size {
            return Ok(());
        }
        let side = |pixels: u32| u16::try_from(pixels).unwrap_or(u16::MAX);
        let mm = |pixels: u32| (pixels * MM_OF_960 / 960).max(1);
        let (width, height) = (side(size.width), side(size.height));
        self.conn
            .randr_set_screen_size(self.root, width, height, mm(size.width), mm(size.height))?
            .check()
    }
}

impl Drop for DisplaySize {
    fn drop(&mut self) {
        // If the server is gone, there is no size to restore.
        let _ = self.restore();
    }
}

fn resources(
    conn: &RustConnection,
    root: Window,
) -> Result<GetScreenResourcesCurrentReply, ReplyError> {
    conn.randr_get_screen_resources_current(root)?.reply()
}

/// The active outputs: CRTC, output, rotation and setting.
fn active_outputs(
    conn: &RustConnection,
    root: Window,
) -> Result<Vec<(Crtc, Output, Rotation, Setting)>, ReplyError> {
    conn.randr_query_version(1, 3)?.reply()?;
    let resources = resources(conn, root)?;
    let mut found = Vec::new();
    for crtc in resources.crtcs {
        let info = conn.randr_get_crtc_info(crtc, resources.config_timestamp)?;
        let info = info.reply()?;
        for output in info.outputs {
            let state = conn.randr_get_output_info(output, resources.config_timestamp)?;
            if state.reply()?.connection == Connection::DISCONNECTED {
                continue;
            }
            let size = Size::new(info.width.into(), info.height.into());
            let mode = info.mode;
            let own = Setting {
                mode,
                size,
                rate: None,
            };
            found.push((crtc, output, info.rotation, own));
        }
    }
    Ok(found)
}

/// The size of the mode that shows a picture of `size` on an output with this rotation. A mode states its size before
/// the rotation (RandR 1.2).
fn mode_size(size: Size, rotation: Rotation) -> Size {
    match u16::from(rotation & (Rotation::ROTATE90 | Rotation::ROTATE270)) {
        0 => size,
        _ => Size::new(size.height, size.width),
    }
}

fn size_of(mode: &ModeInfo) -> Size {
    Size::new(mode.width.into(), mode.height.into())
}

/// A mode's refresh rate in Hz, rounded; 0 if it is unknown.
fn rate_of(mode: &ModeInfo) -> u32 {
    let pixels = u32::from(mode.htotal) * u32::from(mode.vtotal);
    let rounded = mode.dot_clock.saturating_add(pixels / 2);
    rounded.checked_div(pixels).unwrap_or(0)
}

/// The name of a created mode.
fn mode_name(size: Size, rate: u16) -> String {
    format!("openuvr-{size}-{rate}")
}

/// Timings of a picture of `size` at `rate` Hz according to VESA's CVT 1.2 with reduced blanking: 160 pixels of
/// horizontal blanking, and vertical blanking of at least 460 µs and 13 lines.
fn timings(size: Size, rate: u16) -> ModeInfo {
    let side = |pixels: u32| u16::try_from(pixels).unwrap_or(u16::MAX);
    let (width, height) = (size.width, size.height);
    let line_us = (1e6 / f64::from(rate) - 460.0) / f64::from(height);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "positive, and far below 2^32"
    )]
    let blank = ((460.0 / line_us) as u32 + 1).max(13);
    let (total_x, total_y) = (width + 160, height + blank);
    ModeInfo {
        width: side(width),
        height: side(height),
        dot_clock: total_x.saturating_mul(total_y).saturating_mul(rate.into()),
        hsync_start: side(width + 48),
        hsync_end: side(width + 80),
        htotal: side(total_x),
        vsync_start: side(height + 3),
        vsync_end: side(height + 7),
        vtotal: side(total_y),
        name_len: side(u32::try_from(mode_name(size, rate).len()).unwrap_or(0)),
        mode_flags: ModeFlag::HSYNC_POSITIVE | ModeFlag::VSYNC_NEGATIVE,
        ..ModeInfo::default()
    }
}

#[cfg(test)]
#[cfg(feature = "client")]
mod tests {
    use openuvr_xserver::{Xvfb, fixture};
    use x11rb::protocol::xproto::ConnectionExt as _;

    use super::*;

    fn size(server: &Xvfb) -> Size {
        let (conn, root) = server.connect();
        let now = conn.get_geometry(root).unwrap().reply().unwrap();
        Size::new(now.width.into(), now.height.into())
    }

    fn modes(server: &Xvfb) -> usize {
        let (conn, root) = server.connect();
        resources(&conn, root).unwrap().modes.len()
    }

    #[test]
    fn a_display_is_resized_and_restored() {
        let Some(server) = fixture::xvfb("1280x720", &[]) else {
            return;
        };
        let modes_before = modes(&server);
        let mut display = DisplaySize::open(&server.display).unwrap();
        assert_eq!(display.own(), Size::new(1280, 720));
        // The sizes are smaller, then larger in one direction, odd, and larger again.
        for (width, height) in [(800, 600), (640, 700), (801, 601), (1280, 719)] {
            let wanted = Size::new(width, height);
            assert_eq!(display.set(wanted, None), Ok(wanted));
            assert_eq!(size(&server), wanted);
            assert_eq!(modes(&server), modes_before + 1, "older modes are removed");
        }
        // The size is limited to the server's maximum.
        assert_eq!(
            display.set(Size::new(4000, 500), None),
            Ok(Size::new(1280, 500))
        );
        assert_eq!(size(&server), Size::new(1280, 500));
        drop(display);
        assert_eq!(size(&server), Size::new(1280, 720));
        assert_eq!(modes(&server), modes_before);
    }

    #[test]
    fn a_wanted_rate_is_that_of_the_mode() {
        let Some(server) = fixture::xvfb("1280x720", &[]) else {
            return;
        };
        let mut display = DisplaySize::open(&server.display).unwrap();
        let shown_rate = |display: &DisplaySize| {
            let (conn, root) = server.connect();
            let resources = resources(&conn, root).unwrap();
            let info = conn.randr_get_crtc_info(display.crtc, 0).unwrap();
            let shown = info.reply().unwrap().mode;
            let modes = resources.modes.iter().filter(|mode| mode.id == shown);
            modes.map(rate_of).next().unwrap()
        };
        let modes_before = modes(&server);
        // The modes have a different size, then the same size, and then the display's own size.
        for (wanted, rate) in [
            (Size::new(1024, 600), 144),
            (Size::new(1024, 600), 30),
            (Size::new(1280, 720), 120),
        ] {
            assert_eq!(display.set(wanted, Some(rate)), Ok(wanted));
            assert_eq!(size(&server), wanted);
            assert_eq!(shown_rate(&display), rate.into());
            assert_eq!(modes(&server), modes_before + 1, "older modes are removed");
        }
        display.restore().unwrap();
        assert_eq!(modes(&server), modes_before);
        assert_eq!(size(&server), Size::new(1280, 720));
    }

    #[test]
    fn a_kept_size_becomes_the_displays_own() {
        let Some(server) = fixture::xvfb("1280x720", &[]) else {
            return;
        };
        let mut display = DisplaySize::open(&server.display).unwrap();
        display.set(Size::new(1000, 700), None).unwrap();
        display.keep();
        assert_eq!(display.own(), Size::new(1000, 700));
        display.set(Size::new(640, 480), None).unwrap();
        display.restore().unwrap();
        assert_eq!(size(&server), Size::new(1000, 700));
        drop(display);
        assert_eq!(size(&server), Size::new(1000, 700));
    }

    #[test]
    fn a_size_set_by_another_program_stays() {
        let Some(server) = fixture::xvfb("1280x720", &[]) else {
            return;
        };
        let mut first = DisplaySize::open(&server.display).unwrap();
        first.set(Size::new(1000, 700), None).unwrap();
        let mut second = DisplaySize::open(&server.display).unwrap();
        second.set(Size::new(900, 600), None).unwrap();
        first.restore().unwrap();
        assert_eq!(size(&server), Size::new(900, 600));
    }

    #[test]
    fn a_display_without_randr_gives_a_one_line_error() {
        let Some(server) = fixture::xvfb("1280x720", &["-extension", "RANDR"]) else {
            return;
        };
        let why = DisplaySize::open(&server.display).err().unwrap();
        assert!(why.contains("lacks the RANDR extension"), "{why}");
        assert_eq!(why.lines().count(), 1);
    }

    #[test]
    fn modes_of_a_turned_output_have_the_other_sides() {
        let size = Size::new(1080, 1920);
        let turned = Size::new(1920, 1080);
        for (rotation, expected) in [
            (Rotation::ROTATE0, size),
            (Rotation::ROTATE90, turned),
            (Rotation::ROTATE180, size),
            (Rotation::ROTATE270 | Rotation::REFLECT_X, turned),
        ] {
            assert_eq!(mode_size(size, rotation), expected, "{rotation:?}");
        }
    }

    #[test]
    fn timings_hold_their_picture() {
        for (width, height) in [(1, 1), (1920, 1080), (3840, 2160), (16_384, 16_384)] {
            let mode = timings(Size::new(width, height), USUAL_RATE);
            assert_eq!(size_of(&mode), Size::new(width, height));
            assert!(mode.width < mode.hsync_start && mode.hsync_start < mode.hsync_end);
            assert!(mode.hsync_end < mode.htotal && mode.vsync_end < mode.vtotal);
            assert!(mode.height < mode.vsync_start && mode.vsync_start < mode.vsync_end);
        }
        // CVT 1.2 specifies 138.50 MHz for 1920x1080 at 60 Hz.
        let clock = timings(Size::new(1920, 1080), USUAL_RATE).dot_clock;
        assert!((138_000_000..139_000_000).contains(&clock), "{clock}");
    }
}
