//! From slices to the eye: decoder, surface and pointer of one client.

use std::sync::Arc;

use openuvr_media::codec::Codec;
use openuvr_media::cursor::{Cursor, CursorShape};
use openuvr_media::decode::{self, Chunk, Decoded, Decoder, View};
use openuvr_media::present::Presenter;
use openuvr_proto::client::playout;
use openuvr_proto::control::negotiate::Role;
use openuvr_proto::id::{ConfigEpoch, FrameId};
use openuvr_proto::recv::reassemble::Step;
use openuvr_proto::trace::{DropCause, Stage};
use openuvr_proto::units::Size;
use openuvr_proto::wire::video::{Configuration, FrameHeader, Viewpoint};

use crate::clock;

/// Where the client's pictures become visible.
pub(super) struct Screen {
    /// What decodes its codec, if the person chose it.
    chosen: Option<decode::Backend>,
    decoder: Option<(ConfigEpoch, Box<dyn Decoder>)>,
    pub(super) presenter: Option<Box<dyn Presenter>>,
    cursor: Cursor,
    relative_mouse: bool,
    /// What is shown.
    pub(super) configuration: Option<Configuration>,
    /// The frame whose picture the surface's canvas has, if nothing else was painted on it since.
    shown: Option<FrameId>,
    /// The frame that is under way, and whether that is the one that it refers to.
    under_way: (FrameId, bool),
    /// Of the frame that is under way.
    pub(super) presentation: playout::Presentation,
}

/// What showing a slice led to.
pub(super) enum Shown {
    /// Nothing to tell.
    Fine,
    /// There is no surface yet, and this is the first picture's size.
    NeedsSurface(Size),
    /// The decoder gave up on this frame.
    DecodeFailed(String),
    /// The surface is gone.
    Gone(String),
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
            under_way: (FrameId::NONE, false),
            presentation: playout::Presentation::default(),
        }
    }

    /// Forgets the decoder: a new session begins with a key frame.
    pub(super) fn reset(&mut self) {
        self.decoder = None;
        self.shown = None;
        self.under_way = (FrameId::NONE, false);
        self.begin();
    }

    /// A new frame begins.
    pub(super) fn begin(&mut self) {
        self.presentation = playout::Presentation::default();
    }

    /// Feeds what came out of the reassembly; behind a frame's last slice its picture is shown,
    /// unless a later one is here already (`outdated`).
    pub(super) fn show(&mut self, step: &Step<'_>, outdated: bool) -> Shown {
        let (header, configuration, viewpoint, (first_mb, mbs), first, last, bytes) = match step {
            Step::Slice {
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
            Step::Missing {
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
            Step::End(_) | Step::Dropped { .. } => return Shown::Fine,
        };
        if self.presenter.is_none() {
            return Shown::NeedsSurface(configuration.size);
        }
        if self.presentation.failure.is_some() {
            // The rest of a frame that failed already.
            return Shown::Fine;
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
    ) -> Shown {
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
            return Shown::Fine;
        };
        let decoded = match presenter.canvas() {
            Some(canvas) => {
                if self.under_way.0 != header.frame {
                    // Until it is shown, the canvas has a part of it.
                    let before = self.shown.take();
                    let follows = before.is_some_and(|before| before == header.reference);
                    self.under_way = (header.frame, follows);
                }
                let view = View {
                    size: configuration.size,
                    follows: self.under_way.1,
                };
                decoder.paint(chunk, (!outdated).then_some(view), canvas)
            }
            None => (decoder.feed(chunk)).map(|picture| picture.map(Decoded::Picture)),
        };
        let decoded = match decoded {
            Ok(Some(decoded)) => decoded,
            Ok(None) => return Shown::Fine,
            Err(e) => {
                let why = e.to_string();
                return self.failed(why);
            }
        };
        self.presentation.decoded = Some(clock::now());
        if outdated {
            self.presentation.failure = Some((Stage::Submitted, DropCause::Superseded));
            return Shown::Fine;
        }
        presenter.viewpoint(viewpoint);
        let presented = match (decoded, presenter.canvas()) {
            (Decoded::Picture(picture), _) => {
                presenter.present(header.frame, &picture.cropped(configuration.size))
            }
            (Decoded::OnCanvas(size), Some(canvas)) => {
                canvas.show(header.frame, size).map(|shown| {
                    self.shown = shown.then_some(header.frame);
                })
            }
            (Decoded::OnCanvas(_), None) => return Shown::Fine,
        };
        match presented {
            Ok(()) => {
                self.presentation.submitted = Some(clock::now());
                Shown::Fine
            }
            Err(e) => Shown::Gone(e.to_string()),
        }
    }

    fn failed(&mut self, why: String) -> Shown {
        self.presentation.failure = Some((Stage::Decoded, DropCause::DecodeFailed));
        Shown::DecodeFailed(why)
    }

    /// The pointer is elsewhere.
    pub(super) fn cursor_moved(&mut self, at: Option<(u16, u16)>) {
        self.cursor.at = at;
        self.draw_cursor();
    }

    /// The pointer looks different.
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
            // If the surface is gone, the next picture says so.
            let _ = presenter.cursor(&self.cursor);
        }
    }

    /// The host's application wants to hear how far the mouse moves, or where the pointer is.
    pub(super) fn relative_mouse(&mut self, wanted: bool) {
        self.relative_mouse = wanted;
        if let Some(presenter) = self.presenter.as_mut() {
            let _ = presenter.relative_mouse(wanted);
        }
    }

    /// The host granted another role; the surface is named `title` from now on.
    pub(super) fn role_changed(&mut self, role: Role, title: &str) {
        if let Some(presenter) = self.presenter.as_mut() {
            let _ = presenter.set_observer(role == Role::Observer, title);
        }
    }

    /// What was said of the pointer before there was a surface.
    pub(super) fn pointer_for_new_surface(&mut self) {
        self.draw_cursor();
        self.relative_mouse(self.relative_mouse);
    }

    /// Lays text over the picture; no lines take it away.
    pub(super) fn write(&mut self, lines: &[String]) {
        if let Some(presenter) = self.presenter.as_mut() {
            let _ = presenter.panel(lines);
        }
    }
}
