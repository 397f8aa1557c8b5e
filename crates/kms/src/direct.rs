//! Decoded pictures that a plane displays without a copy.
//!
//! Each picture takes the place of one of the display's own buffers in the order of flips, and is released when a later
//! picture is displayed.

use std::io;
use std::sync::Arc;

use drm::control::framebuffer;
use openuvr_media::dma_buf::{DmaBufPicture, FourCc, Layout};
use openuvr_media::window::placement::Rect;
use openuvr_proto::units::Size;

use crate::card::Card;
use crate::flips::{BUFFERS, Flips};
use crate::import::{Import, Imports};
use crate::output::{Output, Placed};

/// The decoded pictures of a display.
pub(crate) struct DirectPictures {
    imports: Imports,
    /// The picture in the place of each buffer, by the number of the buffer.
    places: [Option<DirectPicture>; BUFFERS],
    /// The last kind of picture and its plane; no plane if pictures of this kind can't be displayed.
    plane: Option<(Kind, Option<usize>)>,
    /// Number of pictures that were prepared.
    count: u64,
}

/// A picture with its place on the display.
pub(crate) struct DirectPicture {
    pub(crate) picture: DmaBufPicture,
    import: Arc<Import>,
    /// The number of the plane that displays the picture, as in `Placed::plane`.
    plane: usize,
    area: Rect,
}

/// The properties of a picture on which its plane depends.
type Kind = (Layout, Size, Rect);

impl DirectPicture {
    pub(crate) fn placed(&self) -> Placed {
        Placed {
            plane: self.plane,
            framebuffer: self.import.framebuffer,
            size: self.picture.size(),
            area: self.area,
        }
    }
}

impl DirectPictures {
    pub(crate) fn new(card: &Arc<Card>) -> DirectPictures {
        DirectPictures {
            imports: Imports::new(card),
            places: [const { None }; BUFFERS],
            plane: None,
            count: 0,
        }
    }

    /// Imports a picture and selects its plane. `None` if it can't be displayed; the reason is logged for the first of
    /// successive pictures of the same kind.
    pub(crate) fn prepare(
        &mut self,
        output: &Output,
        picture: &DmaBufPicture,
        area: Rect,
        below: framebuffer::Handle,
    ) -> Option<DirectPicture> {
        let kind = (*picture.layout(), picture.size(), area);
        let known = self.plane.filter(|(known, _)| *known == kind);
        if let Some((_, None)) = known {
            return None;
        }
        let (layout, format) = (picture.layout(), FourCc(picture.layout().format));
        let planes = match known {
            Some((_, Some(plane))) => vec![plane],
            _ => output.planes_for(layout),
        };
        if planes.is_empty() {
            self.refuse(
                kind,
                &format!("no plane of {} supports {format}", output.name),
            );
            return None;
        }
        let import = match self.imports.of(picture) {
            Ok(import) => import,
            Err(cause) => {
                self.refuse(kind, &format!("the card can't use them ({cause})"));
                return None;
            }
        };
        let mut direct = DirectPicture {
            picture: picture.clone(),
            import,
            plane: 0,
            area,
        };
        let able = planes.into_iter().find(|plane| {
            direct.plane = *plane;
            known.is_some() || output.can_display(&direct.placed(), below)
        });
        let Some(plane) = able else {
            let why = format!(
                "no plane of {} can display pictures of {} in this mode",
                output.name, kind.1
            );
            self.refuse(kind, &why);
            return None;
        };
        if known.is_none() {
            tracing::info!(
                "{} displays the decoder's pictures without a copy ({format}, {} plane)",
                output.name,
                output.role(plane),
            );
        }
        self.plane = Some((kind, Some(plane)));
        self.count += 1;
        Some(direct)
    }

    /// Records that pictures of this kind can't be displayed, and logs the reason.
    fn refuse(&mut self, kind: Kind, why: &str) {
        self.plane = Some((kind, None));
        tracing::warn!("the decoder's pictures are copied for display: {why}");
    }

    /// Records that the driver has refused the picture in this place.
    pub(crate) fn refused(&mut self, place: usize, cause: &io::Error) {
        if let Some(direct) = self.at(place) {
            let kind = (*direct.picture.layout(), direct.picture.size(), direct.area);
            self.refuse(kind, &format!("the card refuses them ({cause})"));
        }
    }

    /// Puts `picture` in the place of a buffer. With `None`, the buffer itself takes its place again.
    pub(crate) fn put(&mut self, place: usize, picture: Option<DirectPicture>) {
        if let Some(it) = self.places.get_mut(place) {
            *it = picture;
        }
    }

    /// The picture in the place of a buffer.
    pub(crate) fn at(&self, place: usize) -> Option<&DirectPicture> {
        self.places.get(place)?.as_ref()
    }

    /// Releases the pictures that are no longer needed.
    pub(crate) fn release(&mut self, flips: &Flips) {
        for (place, picture) in self.places.iter_mut().enumerate() {
            picture.take_if(|_| !flips.uses(place));
        }
    }
}

impl Drop for DirectPictures {
    fn drop(&mut self) {
        if self.count > 0 {
            let buffers = self.imports.count;
            tracing::info!(
                "{} pictures displayed without a copy, {buffers} buffers imported",
                self.count
            );
        }
    }
}
