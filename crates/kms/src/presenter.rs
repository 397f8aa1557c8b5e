//! The media thread: paints pictures into memory, and composes their changed rows into the next buffer.

use std::ops::Range;
use std::process::Command;
use std::sync::{Arc, MutexGuard};
use std::thread::JoinHandle;

use openuvr_media::cursor::Cursor;
use openuvr_media::dma_buf::DmaBufPicture;
use openuvr_media::picture::Picture;
use openuvr_media::present::{Canvas, PresentError, Presented, Presenter, to_bgrx};
use openuvr_media::window::WindowConfig;
use openuvr_proto::id::FrameId;
use openuvr_proto::units::Size;

use crate::buffers::around;
use crate::card::Card;
use crate::console::Console;
use crate::display::{Display, Shared, Update};
use crate::input::ConsoleInput;
use crate::mode::Rate;
use crate::{KmsConfig, KmsError, events};

/// Displays pictures without a window system.
pub struct KmsPresenter {
    shared: Arc<Shared>,
    /// The picture that is being painted, with its size and the painted rows.
    painting: Option<(Vec<u8>, Size, Range<u32>)>,
    /// Whether rows are displayed before their picture is complete.
    slices: bool,
    thread: Option<JoinHandle<()>>,
}

pub(crate) fn open(
    config: &KmsConfig,
    window: &WindowConfig,
    guard: Option<Command>,
) -> Result<(KmsPresenter, ConsoleInput), KmsError> {
    let resources = |cause| KmsError::Resources { cause };
    // The card is checked first, so that an error leaves the console unchanged.
    let card = Card::open(&config.choice)?;
    card.display(&config.choice)?;
    let console = Console::take(guard)?;
    let rate = match (config.refresh, window.frame_rate) {
        (Some(refresh), _) => Rate::Near(refresh),
        (None, Some(frame_rate)) => Rate::MultipleOf(frame_rate),
        (None, None) => Rate::Highest,
    };
    let update = match window.slices {
        true => Update::Front,
        false => Update::Flip {
            at_once: window.tearing,
        },
    };
    let mut display = Display::open(card, &config.choice, rate, update, window.size)?;
    display.scene.observer = window.observer;
    let size = display.size();
    let card = display.card();
    let switcher = console
        .as_ref()
        .map(|console| (console.switcher(), console.number()));
    let switcher = switcher.map(|(switcher, number)| switcher.map(|switcher| (switcher, number)));
    let switcher = switcher.transpose().map_err(resources)?;
    let shared = Arc::new(Shared::new(display).map_err(resources)?);
    let input = ConsoleInput::open(Arc::clone(&shared), switcher, window, size)?;
    let for_thread = Arc::clone(&shared);
    let thread = std::thread::Builder::new()
        .name("ouvr-kms".to_owned())
        .spawn(move || events::run(&for_thread, &card, console))
        .map_err(resources)?;
    let presenter = KmsPresenter {
        shared,
        painting: None,
        slices: window.slices,
        thread: Some(thread),
    };
    Ok((presenter, input))
}

impl Drop for KmsPresenter {
    fn drop(&mut self) {
        self.shared.display().stopped = true;
        self.shared.events.wake();
        self.shared.input.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl KmsPresenter {
    /// The memory of the picture that is being painted.
    fn painting(&mut self, size: Size) -> &mut (Vec<u8>, Size, Range<u32>) {
        let other = self.painting.take_if(|(_, before, _)| *before != size);
        if let Some((bytes, size, painted)) = other {
            // This picture was not completed.
            self.shared
                .display()
                .scene
                .put_picture(bytes, size, &painted);
        }
        let shared = &self.shared;
        self.painting
            .get_or_insert_with(|| (shared.display().scene.take_picture(size), size, 0..0))
    }

    fn show_painted(&mut self, frame: FrameId) {
        if let Some((bytes, size, painted)) = self.painting.take() {
            let mut display = self.shared.display();
            display.picture(frame, bytes, size, &painted);
            self.flush(display);
        }
    }

    /// Makes the event thread display the written rows, because the request may wait for the display.
    fn flush(&self, display: MutexGuard<'_, Display>) {
        let wanted = display.wants_flush();
        drop(display);
        if wanted {
            self.shared.events.wake();
        }
    }
}

fn check(size: Size) -> Result<(), PresentError> {
    match size.is_valid() {
        true => Ok(()),
        false => Err(PresentError(format!("invalid picture size {size}"))),
    }
}

impl Presenter for KmsPresenter {
    fn present(&mut self, frame: FrameId, picture: &Picture<'_>) -> Result<(), PresentError> {
        check(picture.size)?;
        let (bytes, size, painted) = self.painting(picture.size);
        *painted = 0..size.height;
        let converted = to_bgrx(picture, bytes);
        self.show_painted(frame);
        converted
    }

    fn present_dma_buf(
        &mut self,
        frame: FrameId,
        picture: &DmaBufPicture,
    ) -> Result<bool, PresentError> {
        check(picture.size())?;
        Ok(self.shared.display().direct_picture(frame, picture))
    }

    fn canvas(&mut self) -> Option<&mut dyn Canvas> {
        Some(self)
    }

    /// Without flips, nothing is reported.
    fn reports_times(&self) -> bool {
        !self.slices
    }

    fn presented(&mut self) -> Option<Presented> {
        self.shared.display().flips.take_report()
    }

    fn cursor(&mut self, cursor: &Cursor) -> Result<(), PresentError> {
        let mut display = self.shared.display();
        display.scene.set_cursor(cursor.clone());
        display.cursor_dirty = true;
        drop(display);
        // Requests to the display may wait, so the event thread makes them.
        self.shared.events.wake();
        Ok(())
    }

    /// Stores the request in the scene; the input source controls the pointer.
    fn relative_mouse(&mut self, wanted: bool) -> Result<(), PresentError> {
        self.shared.display().scene.relative = wanted;
        self.shared.input.wake();
        Ok(())
    }

    /// A display has no title.
    fn set_observer(&mut self, observer: bool, _title: &str) -> Result<(), PresentError> {
        let mut display = self.shared.display();
        display.scene.redrawn(|scene| scene.observer = observer);
        display.cursor_dirty = true;
        drop(display);
        self.shared.events.wake();
        self.shared.input.wake();
        Ok(())
    }

    fn panel(&mut self, lines: &[String]) -> Result<(), PresentError> {
        let mut display = self.shared.display();
        display.scene.set_panel(lines);
        display.refresh();
        self.flush(display);
        Ok(())
    }
}

impl Canvas for KmsPresenter {
    fn rows(&mut self, size: Size, rows: Range<u32>) -> Option<&mut [u8]> {
        // This error is reported when the picture is shown.
        check(size).ok()?;
        let (bytes, _, painted) = self.painting(size);
        *painted = around(painted, &rows);
        let row = size.width as usize * 4;
        bytes.get_mut(rows.start as usize * row..rows.end as usize * row)
    }

    fn show_rows(&mut self) -> Result<(), PresentError> {
        if !self.slices {
            return Ok(());
        }
        let mut display = self.shared.display();
        let shown = display.scene.size();
        // The first picture of a size is displayed when it is complete, because below its first rows, the display does
        // not show a picture of this size yet.
        let ready = self
            .painting
            .take_if(|(_, size, painted)| Some(*size) == shown && painted.start < painted.end);
        if let Some((bytes, size, painted)) = ready {
            display.rows(bytes, size, &painted);
        }
        self.flush(display);
        Ok(())
    }

    fn show(&mut self, frame: FrameId, size: Size) -> Result<bool, PresentError> {
        check(size)?;
        let shown = self.shared.display().scene.size();
        if self.painting.is_none() && shown == Some(size) {
            // Nothing was painted, so the picture is the previous one.
            return Ok(true);
        }
        self.painting(size);
        self.show_painted(frame);
        Ok(true)
    }
}
