//! Copies with `wlr-screencopy-unstable-v1`, version 3. Each copy has its own protocol object, which announces the form
//! of the buffer. Each copy contains all pixels.

use openuvr_proto::units::Size;
use wayland_client::protocol::wl_buffer::WlBuffer;
use wayland_client::protocol::wl_output::WlOutput;
use wayland_client::{Connection, Dispatch, QueueHandle, WEnum, delegate_noop};
use wayland_protocols_wlr::screencopy::v1::client::zwlr_screencopy_frame_v1::{
    Event, Flags, ZwlrScreencopyFrameV1,
};
use wayland_protocols_wlr::screencopy::v1::client::zwlr_screencopy_manager_v1::ZwlrScreencopyManagerV1;

use super::compositor::State;
use super::copy::{Copier, Progress, Subject};
use openuvr_media::damage::Block;

/// The version with `copy_with_damage`. In this version, all forms of a buffer are announced before the copy.
pub(super) const VERSION: u32 = 3;

/// Copies an output.
pub(super) struct Screencopy {
    manager: ZwlrScreencopyManagerV1,
    handle: QueueHandle<State>,
    output: Option<WlOutput>,
    /// Whether the compositor draws its pointer into the picture.
    pointer: bool,
    frame: Option<ZwlrScreencopyFrameV1>,
}

impl Screencopy {
    pub(super) fn new(
        manager: ZwlrScreencopyManagerV1,
        handle: QueueHandle<State>,
        pointer: bool,
    ) -> Screencopy {
        Screencopy {
            manager,
            handle,
            output: None,
            pointer,
            frame: None,
        }
    }
}

impl Copier for Screencopy {
    fn aim(&mut self, subject: &Subject) {
        self.output = match subject {
            Subject::Output(output) => Some(output.clone()),
            // The protocol cannot capture windows.
            Subject::Window(_) => None,
        };
    }

    fn request(&mut self, _at_once: bool, progress: &mut Progress) {
        let Some(output) = &self.output else {
            return;
        };
        let number = progress.begin_copy_with_form();
        let pointer = i32::from(self.pointer);
        let frame = (self.manager).capture_output(pointer, output, &self.handle, number);
        self.frame = Some(frame);
    }

    fn copy(&mut self, buffer: &WlBuffer, _stale: &Block, at_once: bool) {
        match &self.frame {
            Some(frame) if at_once => frame.copy(buffer),
            Some(frame) => frame.copy_with_damage(buffer),
            None => {}
        }
    }

    fn cancel(&mut self) {
        if let Some(frame) = self.frame.take() {
            frame.destroy();
        }
    }
}

impl Dispatch<ZwlrScreencopyFrameV1, u64> for State {
    fn event(
        state: &mut State,
        _: &ZwlrScreencopyFrameV1,
        event: Event,
        number: &u64,
        _: &Connection,
        _: &QueueHandle<State>,
    ) {
        let (number, progress) = (*number, &mut state.progress);
        match event {
            Event::Buffer {
                format,
                width,
                height,
                stride,
            } => {
                progress.on_size(number, Size::new(width, height));
                progress.on_format(number, format, Some(stride));
            }
            Event::BufferDone => progress.on_form_done(number),
            Event::Flags { flags } => {
                let inverted =
                    matches!(flags, WEnum::Value(flags) if flags.contains(Flags::YInvert));
                progress.on_bottom_up(number, inverted);
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
                progress.on_damage(number, block);
            }
            Event::Ready { .. } => progress.on_ready(number),
            Event::Failed => progress.on_failed(number),
            _ => {}
        }
    }
}

delegate_noop!(State: ZwlrScreencopyManagerV1);
