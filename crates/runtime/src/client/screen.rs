//! Decoder, surface and pointer of one client.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use openuvr_clock as clock;
use openuvr_media::codec::{Codec, MAX_PIXELS};
use openuvr_media::cursor::{Cursor, CursorShape};
use openuvr_media::decode::{self, Chunk, Decoded, Decoder, View};
use openuvr_media::present::{Presented, Presenter};
use openuvr_proto::client::playout;
use openuvr_proto::control::negotiate::Role;
use openuvr_proto::id::{ConfigEpoch, FrameId};
use openuvr_proto::recv::reassemble::VideoOutput;
use openuvr_proto::trace::{DropCause, Stage};
use openuvr_proto::units::Size;
use openuvr_proto::wire::video::{Configuration, FrameHeader, Viewpoint};

/// Decodes and shows the client's pictures.
pub(super) struct Screen {
    /// The chosen decoder, if any.
    chosen: Option<decode::Backend>,
    decoder: Option<(ConfigEpoch, Box<dyn Decoder>)>,
    pub(super) presenter: Option<Box<dyn Presenter>>,
    cursor: Cursor,
    relative_mouse: bool,
    /// The configuration of the shown stream.
    pub(super) configuration: Option<Configuration>,
    /// The frame that the surface's canvas contains, if nothing else has been painted since.
    shown: Option<FrameId>,
    /// The current frame, and whether the canvas contains the frame that the current frame references.
    current: (FrameId, bool),
    /// Whether it has been reported that pictures are copied from the memory of a device.
    copy_reported: bool,
    /// The progress of presenting the current frame.
    pub(super) presentation: playout::Presentation,
}

/// The result of showing a slice.
pub(super) enum ShowOutcome {
    /// Nothing to report.
    Ok,
    /// There is no surface yet. The first picture has this configuration.
    NeedsSurface(Configuration),
    DecodeFailed(String),
    SurfaceLost(String),
}

impl Screen {
    pub(super) fn new(chosen: Option<decode::Backend>) -> Screen {
        Screen {
            chosen,
            decoder: None,
            presenter: None,
            cursor: Cursor {
                at: None,
                shape: Arc::new(CursorShape::default()),
            },
            relative_mouse: false,
            configuration: None,
            shown: None,
            current: (FrameId::NONE, false),
            copy_reported: false,
            presentation: playout::Presentation::default(),
        }
    }

    /// Discards the decoder, because a new session begins with a key frame.
    pub(super) fn reset(&mut self) {
        self.decoder = None;
        self.shown = None;
        self.current = (FrameId::NONE, false);
        self.start_frame();
    }

    pub(super) fn start_frame(&mut self) {
        self.presentation = playout::Presentation::default();
    }

    /// Handles a step of reassembly. After the last slice of a frame, its picture is shown, unless a later frame is
    /// already complete (`outdated`).
    pub(super) fn show(&mut self, step: &VideoOutput<'_>, outdated: bool) -> ShowOutcome {
        let (header, configuration, viewpoint, (first_mb, mbs), first, last, bytes) = match step {
            VideoOutput::Slice {
                header,
                configuration,
                viewpoint,
                macroblocks,
                first,
                last,
                bytes,
            } => (
                header,
                configuration,
                viewpoint,
                *macroblocks,
                *first,
                *last,
                Some(*bytes),
            ),
            VideoOutput::Missing {
                header,
                configuration,
                viewpoint,
                macroblocks,
                first,
                last,
            } => (
                header,
                configuration,
                viewpoint,
                *macroblocks,
                *first,
                *last,
                None,
            ),
            VideoOutput::End(_) | VideoOutput::Dropped { .. } => return ShowOutcome::Ok,
        };
        if self.presentation.failure.is_some() {
            // Skip the rest of a frame that has already failed.
            return ShowOutcome::Ok;
        }
        // A surface allocates memory for a picture of this size before the decoder checks the size.
        if configuration.size.pixels() > MAX_PIXELS {
            let (frame, size) = (header.frame.0, configuration.size);
            return self.failed(format!(
                "frame {frame} is dropped: its size is {size}, but at most {MAX_PIXELS} pixels are decoded"
            ));
        }
        if self.presenter.is_none() {
            return ShowOutcome::NeedsSurface(*configuration);
        }
        let chunk = Chunk {
            frame: header.frame,
            first,
            last,
            first_mb,
            mbs,
            bytes,
        };
        self.decode_and_present(header, configuration, viewpoint, &chunk, outdated)
    }

    fn decode_and_present(
        &mut self,
        header: &FrameHeader,
        configuration: &Configuration,
        viewpoint: &Viewpoint,
        chunk: &Chunk<'_>,
        outdated: bool,
    ) -> ShowOutcome {
        if self
            .decoder
            .as_ref()
            .is_none_or(|(epoch, _)| *epoch != header.epoch)
        {
            let opened = Codec::try_from(configuration.codec)
                .map_err(|e| e.to_string())
                .and_then(|codec| {
                    match self.chosen.filter(|chosen| chosen.codec == codec) {
                        Some(chosen) => (chosen.open)(),
                        None => decode::open(codec),
                    }
                    .map_err(|e| e.to_string())
                });
            match opened {
                Ok(decoder) => {
                    self.decoder = Some((header.epoch, decoder));
                    self.configuration = Some(*configuration);
                }
                Err(e) => return self.failed(e),
            }
        }
        let (Some((_, decoder)), Some(presenter)) =
            (self.decoder.as_mut(), self.presenter.as_mut())
        else {
            return ShowOutcome::Ok;
        };
        let decoded = match presenter.canvas() {
            Some(canvas) => {
                if self.current.0 != header.frame {
                    // Until the new frame is shown, the canvas contains only a part of it.
                    let before = self.shown.take();
                    let follows = before.is_some_and(|before| before == header.reference);
                    self.current = (header.frame, follows);
                }
                let view = View {
                    size: configuration.size,
                    follows: self.current.1,
                };
                decoder.paint(chunk, (!outdated).then_some(view), canvas)
            }
            None => (decoder.feed(chunk)).map(|picture| picture.map(Decoded::Picture)),
        };
        let decoded = match decoded {
            Ok(Some(decoded)) => decoded,
            Ok(None) => {
                // No rows of an outdated picture are displayed.
                let canvas = presenter.canvas().filter(|_| !outdated);
                return match canvas.map_or(Ok(()), |canvas| canvas.show_rows()) {
                    Ok(()) => ShowOutcome::Ok,
                    Err(e) => ShowOutcome::SurfaceLost(e.to_string()),
                };
            }
            Err(e) => {
                let why = e.to_string();
                return self.failed(why);
            }
        };
        self.presentation.decoded = Some(clock::now());
        if outdated {
            self.presentation.failure = Some((Stage::Submitted, DropCause::Superseded));
            return ShowOutcome::Ok;
        }
        presenter.viewpoint(viewpoint);
        let presented = match (decoded, presenter.canvas()) {
            (Decoded::Picture(picture), _) => presenter
                .present(header.frame, &picture.cropped(configuration.size))
                .map(|()| !presenter.has_skipped()),
            (Decoded::DmaBuf(picture), _) => {
                let picture = picture.cropped(configuration.size);
                match presenter.present_dma_buf(header.frame, &picture) {
                    Ok(false) => match picture.map() {
                        Ok(copied) => {
                            if !std::mem::replace(&mut self.copy_reported, true) {
                                tracing::info!("the decoder's pictures are copied for display");
                            }
                            presenter
                                .present(header.frame, &copied.picture())
                                .map(|()| !presenter.has_skipped())
                        }
                        Err(why) => return self.failed(why.to_string()),
                    },
                    other => other,
                }
            }
            (Decoded::OnCanvas(size), Some(canvas)) => {
                let shown = canvas.show(header.frame, size);
                if let Ok(true) = shown {
                    self.shown = canvas.keeps_picture().then_some(header.frame);
                }
                shown
            }
            (Decoded::OnCanvas(_), None) => return ShowOutcome::Ok,
        };
        match presented {
            Ok(true) => {
                self.presentation.submitted = Some(clock::now());
                ShowOutcome::Ok
            }
            // The display hangs, and the next picture that it accepts replaces this one.
            Ok(false) => {
                self.presentation.failure = Some((Stage::Submitted, DropCause::Superseded));
                ShowOutcome::Ok
            }
            Err(e) => ShowOutcome::SurfaceLost(e.to_string()),
        }
    }

    /// Whether the surface reports the times at which pictures become visible.
    pub(super) fn reports_times(&self) -> bool {
        (self.presenter.as_ref()).is_some_and(|presenter| presenter.reports_times())
    }

    /// The surface's next report on a frame; see [`Presenter::presented`].
    pub(super) fn presented(&mut self) -> Option<Presented> {
        self.presenter.as_mut()?.presented()
    }

    fn failed(&mut self, why: String) -> ShowOutcome {
        self.presentation.failure = Some((Stage::Decoded, DropCause::DecodeFailed));
        ShowOutcome::DecodeFailed(why)
    }

    /// Moves the pointer.
    pub(super) fn cursor_moved(&mut self, at: Option<(u16, u16)>) {
        self.cursor.at = at;
        self.draw_cursor();
    }

    /// Changes the pointer's shape.
    pub(super) fn cursor_shape(&mut self, size: Size, hot: (u16, u16), argb: Vec<u32>) {
        let (Ok(width), Ok(height)) = (u16::try_from(size.width), u16::try_from(size.height))
        else {
            return;
        };
        let (hot_x, hot_y) = hot;
        self.cursor.shape = Arc::new(CursorShape {
            width,
            height,
            hot_x,
            hot_y,
            argb,
        });
        self.draw_cursor();
    }

    pub(super) fn draw_cursor(&mut self) {
        if let Some(presenter) = self.presenter.as_mut() {
            // Ignore an error here: if the surface was lost, the next picture reports that.
            let _ = presenter.cursor(&self.cursor);
        }
    }

    /// Switches between relative mouse motion and absolute pointer positions.
    pub(super) fn relative_mouse(&mut self, relative: bool) {
        self.relative_mouse = relative;
        if let Some(presenter) = self.presenter.as_mut() {
            let _ = presenter.relative_mouse(relative);
        }
    }

    /// Handles a new role granted by the host and sets the surface's title.
    pub(super) fn role_changed(&mut self, role: Role, title: &str) {
        if let Some(presenter) = self.presenter.as_mut() {
            let _ = presenter.set_observer(role == Role::Observer, title);
        }
    }

    /// Applies the pointer state received before there was a surface.
    pub(super) fn pointer_for_new_surface(&mut self) {
        self.draw_cursor();
        self.relative_mouse(self.relative_mouse);
    }

    /// Shows text over the picture. An empty list removes it.
    pub(super) fn set_panel(&mut self, lines: &[String]) {
        if let Some(presenter) = self.presenter.as_mut() {
            let _ = presenter.panel(lines);
        }
    }
}
