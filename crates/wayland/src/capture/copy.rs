//! One copy of the source. It consists of requests, which differ between the two capture protocols, and of the
//! compositor's announcements, which both protocols share.

use openuvr_proto::units::Size;
use wayland_client::WEnum;
use wayland_client::protocol::wl_buffer::WlBuffer;
use wayland_client::protocol::wl_output::WlOutput;
use wayland_client::protocol::wl_shm::Format;
use wayland_protocols::ext::foreign_toplevel_list::v1::client::ext_foreign_toplevel_handle_v1::ExtForeignToplevelHandleV1;

use super::turn::Transform;
use openuvr_media::damage::Block;
use openuvr_media::picture::PixelFormat;

/// The captured object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Subject {
    Output(WlOutput),
    Window(ExtForeignToplevelHandleV1),
}

/// The requests of one protocol. The protocol's events fill a [`Progress`].
pub(super) trait Copier: Send {
    /// Captures this subject from now on. No copy may be in progress.
    fn aim(&mut self, subject: &Subject);

    /// Requests a copy. The compositor then announces the form of the buffer, if the form is not known from an earlier
    /// copy.
    ///
    /// With `at_once`, this copy does not wait for damage. `wlr-screencopy` ignores this argument, and uses that of
    /// [`Copier::copy`].
    fn request(&mut self, at_once: bool, progress: &mut Progress);

    /// Lets the compositor copy into `buffer`, at once or when there is damage. `ext-image-copy-capture` ignores
    /// `at_once`, and uses that of [`Copier::request`].
    fn copy(&mut self, buffer: &WlBuffer, stale: &Block, at_once: bool);

    /// Ends the copy in progress, if there is one.
    fn cancel(&mut self);
}

/// The form of the buffers that the compositor requires: size, stride and pixel format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct BufferForm {
    pub(super) size: Size,
    /// Bytes per row.
    pub(super) stride: u32,
    pub(super) format: WEnum<Format>,
}

/// A finished copy.
#[derive(Debug)]
pub(super) struct Copied {
    /// The area in which this copy differs from the previous one; `None` if unknown.
    pub(super) damage: Option<Block>,
    /// Whether the bottom row comes first in memory.
    pub(super) bottom_up: bool,
    /// The rotation that the compositor has applied, if the protocol reports it.
    pub(super) transform: Option<Transform>,
}

/// The state of the copy in progress.
///
/// Protocol objects are numbered, because events of an object may arrive after the object was destroyed.
#[derive(Debug, Default)]
pub(super) struct Progress {
    last_number: u64,
    /// The number of the object that announces forms.
    former: Option<u64>,
    /// The number of the object that reports the progress of the copy.
    frame: Option<u64>,
    announced: Announced,
    form: Option<BufferForm>,
    copying: bool,
    damage: Option<Block>,
    bottom_up: bool,
    transform: Option<Transform>,
    copied: bool,
    failed: bool,
}

/// The parts of a form, some of which may not have arrived yet.
#[derive(Clone, Copy, Debug, Default)]
struct Announced {
    size: Size,
    /// The best format so far, and its number of bytes per row if the compositor determines it.
    format: Option<(WEnum<Format>, Option<u32>)>,
}

impl Progress {
    fn number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    /// Returns the number of a new object that announces forms. Forms from earlier objects are discarded.
    pub(super) fn begin_forms(&mut self) -> u64 {
        let number = self.number();
        (self.former, self.form) = (Some(number), None);
        self.announced = Announced::default();
        number
    }

    /// Starts a copy and returns its number.
    pub(super) fn begin_copy(&mut self) -> u64 {
        let number = self.number();
        self.end_copy();
        self.frame = Some(number);
        number
    }

    /// Starts a copy that announces its own form, and returns its number.
    pub(super) fn begin_copy_with_form(&mut self) -> u64 {
        let number = self.begin_forms();
        self.end_copy();
        self.frame = Some(number);
        number
    }

    pub(super) fn end_copy(&mut self) {
        self.frame = None;
        (self.copying, self.copied, self.failed) = (false, false, false);
        (self.damage, self.transform, self.bottom_up) = (None, None, false);
    }

    /// Whether there is no copy in progress.
    pub(super) fn is_idle(&self) -> bool {
        self.frame.is_none()
    }

    /// Whether the compositor cannot copy the subject now.
    pub(super) fn is_failed(&self) -> bool {
        self.failed
    }

    /// The form of the buffer to copy into, if the compositor is waiting for one.
    pub(super) fn offered(&self) -> Option<BufferForm> {
        let waits = self.frame.is_some() && !self.copying && !self.failed;
        self.form.filter(|_| waits)
    }

    /// Records that the compositor has received a buffer to copy into.
    pub(super) fn set_copying(&mut self) {
        self.copying = true;
    }

    /// Takes the finished copy, if there is one. It is then no longer in progress.
    pub(super) fn take_copied(&mut self) -> Option<Copied> {
        if !self.copied || self.failed {
            return None;
        }
        let copied = Copied {
            damage: self.damage.take(),
            bottom_up: self.bottom_up,
            transform: self.transform.take(),
        };
        self.end_copy();
        Some(copied)
    }

    // Handlers of events. `number` is the number of the object that has sent the event.

    pub(super) fn on_size(&mut self, number: u64, size: Size) {
        if self.former == Some(number) {
            self.announced.size = size;
        }
    }

    pub(super) fn on_format(&mut self, number: u64, format: WEnum<Format>, stride: Option<u32>) {
        let known = self.announced.format;
        let better = known.is_none_or(|(known, _)| readable(known).is_none());
        if self.former == Some(number) && better {
            self.announced.format = Some((format, stride));
        }
    }

    /// Handles the end of a form's announcement: all its parts have been announced.
    pub(super) fn on_form_done(&mut self, number: u64) {
        if self.former != Some(number) {
            return;
        }
        let size = self.announced.size;
        self.form = self.announced.format.take().map(|(format, stride)| {
            let pixel = readable(format).and_then(PixelFormat::packed).unwrap_or(4);
            let row = size.width.saturating_mul(u32::try_from(pixel).unwrap_or(4));
            BufferForm {
                size,
                // The stride is a multiple of four bytes, as image libraries require.
                stride: stride.unwrap_or(row.div_ceil(4).saturating_mul(4)),
                format,
            }
        });
        // Without a form for shared memory, there is no buffer to copy into.
        self.failed |= self.form.is_none();
    }

    /// Handles the end of the object that announces forms.
    pub(super) fn on_stopped(&mut self, number: u64) {
        if self.former == Some(number) {
            self.failed = true;
        }
    }

    pub(super) fn on_damage(&mut self, number: u64, block: Block) {
        if self.frame == Some(number) {
            self.damage = Some(match &self.damage {
                Some(known) => known.joined(&block),
                None => block,
            });
        }
    }

    pub(super) fn on_bottom_up(&mut self, number: u64, bottom_up: bool) {
        if self.frame == Some(number) {
            self.bottom_up = bottom_up;
        }
    }

    pub(super) fn on_transform(&mut self, number: u64, transform: Transform) {
        if self.frame == Some(number) {
            self.transform = Some(transform);
        }
    }

    pub(super) fn on_ready(&mut self, number: u64) {
        self.copied |= self.frame == Some(number);
    }

    pub(super) fn on_failed(&mut self, number: u64) {
        self.failed |= self.frame == Some(number);
    }
}

/// The damage, limited to a picture of `size`. If the bottom row comes first, the rows of the damage are converted so
/// that they count from the top.
pub(super) fn clip(block: &Block, size: Size, bottom_up: bool) -> Block {
    let end = |range: &std::ops::Range<u32>, side: u32| range.start.min(side)..range.end.min(side);
    let (columns, rows) = (
        end(&block.columns, size.width),
        end(&block.rows, size.height),
    );
    let rows = match bottom_up {
        true => size.height - rows.end..size.height - rows.start,
        false => rows,
    };
    Block { columns, rows }
}

/// The pixel format in memory that corresponds to a format of `wl_shm`. The name of a `wl_shm` format lists the
/// channels from the highest byte of a little-endian word.
pub(super) fn readable(format: WEnum<Format>) -> Option<PixelFormat> {
    match format {
        WEnum::Value(Format::Xrgb8888 | Format::Argb8888) => Some(PixelFormat::Bgrx),
        WEnum::Value(Format::Xbgr8888 | Format::Abgr8888) => Some(PixelFormat::Rgbx),
        WEnum::Value(Format::Rgb888) => Some(PixelFormat::Bgr),
        WEnum::Value(Format::Bgr888) => Some(PixelFormat::Rgb),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: Size = Size::new(3, 2);

    fn announce(progress: &mut Progress, formats: &[Format]) -> u64 {
        let number = progress.begin_forms();
        progress.on_size(number, SIZE);
        for format in formats {
            progress.on_format(number, WEnum::Value(*format), None);
        }
        progress.on_form_done(number);
        number
    }

    #[test]
    fn the_first_readable_format_is_taken() {
        let mut progress = Progress::default();
        announce(
            &mut progress,
            &[Format::Xrgb2101010, Format::Rgb888, Format::Xrgb8888],
        );
        assert_eq!(progress.offered(), None, "no copy is requested");
        progress.begin_copy();
        let form = progress.offered().unwrap();
        assert_eq!((form.size, form.stride), (SIZE, 12));
        assert_eq!(form.format, WEnum::Value(Format::Rgb888));
        // An unsupported format is offered, too, so that the error message can name it.
        announce(&mut progress, &[Format::Xrgb2101010]);
        let form = progress.offered().unwrap();
        assert_eq!(form.format, WEnum::Value(Format::Xrgb2101010));
    }

    #[test]
    fn without_a_format_the_copy_fails() {
        let mut progress = Progress::default();
        progress.begin_copy();
        announce(&mut progress, &[]);
        assert!(progress.is_failed() && progress.offered().is_none());
    }

    #[test]
    fn events_of_earlier_objects_do_not_count() {
        let mut progress = Progress::default();
        let forms = announce(&mut progress, &[Format::Xrgb8888]);
        let first = progress.begin_copy();
        progress.set_copying();
        progress.end_copy();
        progress.begin_forms();
        let second = progress.begin_copy();
        progress.on_stopped(forms);
        progress.on_form_done(forms);
        progress.on_failed(first);
        progress.on_ready(first);
        assert!(!progress.is_failed() && progress.offered().is_none());
        assert!(progress.take_copied().is_none() && !progress.is_idle());
        let block = |columns, rows| Block { columns, rows };
        progress.on_damage(second, block(0..1, 0..1));
        progress.on_damage(second, block(2..3, 1..2));
        progress.on_ready(second);
        let copied = progress.take_copied().unwrap();
        assert_eq!(copied.damage, Some(block(0..3, 0..2)));
        assert!(progress.is_idle());
    }

    #[test]
    fn damage_ends_with_the_picture() {
        let block = Block {
            columns: 1..u32::MAX,
            rows: 0..1,
        };
        let clipped = clip(&block, SIZE, true);
        assert_eq!(
            clipped,
            Block {
                columns: 1..3,
                rows: 1..2
            }
        );
    }
}
