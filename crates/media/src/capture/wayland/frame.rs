//! One copy of the output: from the request to the copied pixels.

use openuvr_proto::units::Size;
use wayland_client::WEnum;
use wayland_client::protocol::wl_buffer::WlBuffer;
use wayland_client::protocol::wl_shm::Format;
use wayland_protocols_wlr::screencopy::v1::client::zwlr_screencopy_frame_v1::{
    Event, Flags, ZwlrScreencopyFrameV1,
};

use crate::damage::Block;

/// The memory that the compositor asks for.
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
    /// Where it differs from the previous copy; `None`: unknown.
    pub(super) damage: Option<Block>,
    /// Whether the bottom row is first in memory.
    pub(super) bottom_up: bool,
}

/// The state of the copy in progress.
#[derive(Debug, Default)]
pub(super) struct FrameState {
    proxy: Option<ZwlrScreencopyFrameV1>,
    form: Option<BufferForm>,
    /// All forms are announced, and none is used yet.
    offered: bool,
    with_damage: bool,
    damage: Option<Block>,
    bottom_up: bool,
    copied: bool,
    failed: bool,
}

impl FrameState {
    /// Whether there is no copy in progress.
    pub(super) fn is_idle(&self) -> bool {
        self.proxy.is_none()
    }

    /// A copy was requested.
    pub(super) fn start(&mut self, proxy: ZwlrScreencopyFrameV1) {
        *self = FrameState {
            proxy: Some(proxy),
            ..FrameState::default()
        };
    }

    /// Ends the copy in progress, if there is one.
    pub(super) fn cancel(&mut self) {
        if let Some(proxy) = self.proxy.take() {
            proxy.destroy();
        }
        *self = FrameState::default();
    }

    /// Whether the compositor can't copy the output now.
    pub(super) fn is_failed(&self) -> bool {
        self.failed
    }

    /// The form of the buffer for [`copy`](FrameState::copy), once.
    pub(super) fn take_offered(&mut self) -> Option<BufferForm> {
        std::mem::take(&mut self.offered)
            .then_some(self.form)
            .flatten()
    }

    /// Lets the compositor copy into `buffer`, when there is damage or at once.
    pub(super) fn copy(&mut self, buffer: &WlBuffer, with_damage: bool) {
        self.with_damage = with_damage;
        match &self.proxy {
            Some(proxy) if with_damage => proxy.copy_with_damage(buffer),
            Some(proxy) => proxy.copy(buffer),
            None => {}
        }
    }

    /// The finished copy, which ends it.
    pub(super) fn take_copied(&mut self) -> Option<Copied> {
        if !self.copied {
            return None;
        }
        let copied = Copied {
            damage: self.damage.take().filter(|_| self.with_damage),
            bottom_up: self.bottom_up,
        };
        self.cancel();
        Some(copied)
    }

    pub(super) fn handle(&mut self, proxy: &ZwlrScreencopyFrameV1, event: &Event) {
        // Events of an earlier frame that were sent before it was destroyed.
        if self.proxy.as_ref() != Some(proxy) {
            return;
        }
        match *event {
            Event::Buffer {
                format,
                width,
                height,
                stride,
            } => {
                self.form = Some(BufferForm {
                    size: Size::new(width, height),
                    stride,
                    format,
                });
            }
            Event::BufferDone => {
                // Without a form for shared memory there is nothing to copy into.
                self.failed = self.form.is_none();
                self.offered = !self.failed;
            }
            Event::Flags { flags } => {
                self.bottom_up =
                    matches!(flags, WEnum::Value(flags) if flags.contains(Flags::YInvert));
            }
            Event::Damage {
                x,
                y,
                width,
                height,
            } => {
                let block = Block {
                    columns: x..x.saturating_add(width),
                    rows: y..y.saturating_add(height),
                };
                self.damage = Some(match &self.damage {
                    Some(known) => known.joined(&block),
                    None => block,
                });
            }
            Event::Ready { .. } => self.copied = true,
            Event::Failed => self.failed = true,
            _ => {}
        }
    }

    /// The damage limited to a picture of `size`, in which a picture with the bottom row first is
    /// counted from the top.
    pub(super) fn clip(block: &Block, size: Size, bottom_up: bool) -> Block {
        let end =
            |range: &std::ops::Range<u32>, side: u32| range.start.min(side)..range.end.min(side);
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
}
