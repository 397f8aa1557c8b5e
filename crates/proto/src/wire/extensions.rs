//! What a frame says besides its header: typed fields that a reader may skip.
//!
//! Each is type (u8), length (u16), bytes, on fragment 0 of slice 0. Readers skip types that they do not
//! know, and bytes behind the last field that they know.

use crate::bytes::{Reader, Reject, Writer, range};
use crate::id::PoseId;
use crate::pose::Pose;
use crate::time::PeerInstant;
use crate::units::Size;

pub use super::views::{View, Views};
pub use crate::field_of_view::FieldOfView;

/// What a decoder has to know, sent with each key frame: the configuration epoch's content.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Configuration {
    /// Visible size of the picture in pixels.
    pub size: Size,
    /// The bit stream's number (`media::codec::Codec`).
    pub codec: u8,
    /// Colour: 1 is BT.709, limited range (ITU-T H.273 code points 1/1/1).
    pub colour: u8,
    /// Highest number of frames a second.
    pub fps: u16,
}

/// The pose that the application drew a picture with: it has consumed it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PoseEcho {
    /// The player's pose that the application took.
    pub pose: PoseId,
    /// The pose of the head that it drew with: that one, or what was predicted from it.
    pub at: Pose,
    /// When it expected the frame to be displayed, on the host's clock, if it said so.
    pub display: Option<PeerInstant>,
}

/// With what a frame was drawn, as far as the application said so.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Viewpoint {
    /// The player's pose that it took; only the player is told.
    pub pose: Option<PoseEcho>,
    /// The views of the picture.
    pub views: Option<Views>,
}

/// When an application drew a frame, on the host's clock, as far as it is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DrawingTimes {
    /// When it was predicted where the head would be.
    pub predicted: Option<PeerInstant>,
    /// When the application began to draw.
    pub begun: Option<PeerInstant>,
}

/// All that a frame may say.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Extensions {
    /// The configuration, on a key frame.
    pub configuration: Option<Configuration>,
    /// An intra refresh begins here: if this frame and those of its chain after it arrive
    /// whole, the picture is clean at the one so many after it, whatever it was before.
    pub clean_after: Option<u16>,
    /// The pose that the picture was drawn with.
    pub pose: Option<PoseEcho>,
    /// The views of the picture.
    pub views: Option<Views>,
    /// When it was drawn.
    pub times: DrawingTimes,
}

const CONFIGURATION: u8 = 1;
const CLEAN_AFTER: u8 = 2;
const POSE: u8 = 3;
// 4 was the field of view of a picture with one view.
const VIEWS: u8 = 5;
const DRAWING_TIMES: u8 = 6;

/// Bytes of an extension's type and length.
const HEAD: usize = 1 + 2;

/// In place of a time that was not told.
const NO_INSTANT: i64 = i64::MIN;

impl Extensions {
    /// What is known, and what `news` adds to it.
    pub(crate) fn or(self, news: Extensions) -> Extensions {
        Extensions {
            configuration: self.configuration.or(news.configuration),
            clean_after: self.clean_after.or(news.clean_after),
            pose: self.pose.or(news.pose),
            views: self.views.or(news.views),
            times: match self.times == DrawingTimes::default() {
                true => news.times,
                false => self.times,
            },
        }
    }

    /// With what the frame was drawn.
    #[must_use]
    pub fn viewpoint(&self) -> Viewpoint {
        Viewpoint {
            pose: self.pose,
            views: self.views,
        }
    }

    /// Bytes that they take.
    #[must_use]
    pub fn len(&self) -> usize {
        let configuration = self.configuration.map_or(0, |_| 4 + 4 + 1 + 1 + 2);
        let clean_after = self.clean_after.map_or(0, |_| 2);
        let pose = self.pose.map_or(0, |echo| 4 + 8 + echo.at.len());
        let views = self.views.map_or(0, |views| views.len());
        let times = match self.times == DrawingTimes::default() {
            true => 0,
            false => 8 + 8,
        };
        let bodies = [configuration, clean_after, pose, views, times];
        bodies.iter().filter(|b| **b > 0).map(|b| HEAD + b).sum()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Extensions::default()
    }

    /// Appends their bytes.
    pub fn write(&self, out: &mut Vec<u8>) {
        if let Some(c) = self.configuration {
            extension(out, CONFIGURATION, |w| {
                w.u32(c.size.width)
                    .u32(c.size.height)
                    .u8(c.codec)
                    .u8(c.colour)
                    .u16(c.fps);
            });
        }
        if let Some(frames) = self.clean_after {
            extension(out, CLEAN_AFTER, |w| {
                w.u16(frames);
            });
        }
        if let Some(echo) = self.pose {
            extension(out, POSE, |w| {
                w.u32(echo.pose.0)
                    .i64(echo.display.map_or(NO_INSTANT, |at| at.0));
                echo.at.write(w);
            });
        }
        if let Some(views) = self.views {
            extension(out, VIEWS, |w| views.write(w));
        }
        if self.times != DrawingTimes::default() {
            let instant = |at: Option<PeerInstant>| at.map_or(NO_INSTANT, |at| at.0);
            extension(out, DRAWING_TIMES, |w| {
                w.i64(instant(self.times.predicted))
                    .i64(instant(self.times.begun));
            });
        }
    }

    /// Of their bytes and nothing else.
    ///
    /// # Errors
    /// [`Reject`] if a known one is cut off, or says what can't be.
    pub fn parse(bytes: &[u8]) -> Result<Extensions, Reject> {
        let mut r = Reader::new(bytes);
        let mut extensions = Extensions::default();
        while r.remaining() > 0 {
            let kind = r.u8()?;
            let length = r.u16()?;
            let mut body = Reader::new(r.bytes(usize::from(length))?);
            match kind {
                CONFIGURATION => {
                    let size = Size::new(body.u32()?, body.u32()?);
                    range(size.is_valid(), "picture size")?;
                    extensions.configuration = Some(Configuration {
                        size,
                        codec: body.u8()?,
                        colour: body.u8()?,
                        fps: body.u16()?,
                    });
                }
                CLEAN_AFTER => extensions.clean_after = Some(body.u16()?),
                POSE => {
                    let (pose, display) = (PoseId(body.u32()?), body.i64()?);
                    // Numbers that are no pose say nothing, but the picture may be fine.
                    extensions.pose = Pose::parse(&mut body)?.map(|at| PoseEcho {
                        pose,
                        at,
                        display: (display != NO_INSTANT).then_some(PeerInstant(display)),
                    });
                }
                VIEWS => extensions.views = Views::parse(&mut body)?,
                DRAWING_TIMES => {
                    let instant = |at| (at != NO_INSTANT).then_some(PeerInstant(at));
                    extensions.times = DrawingTimes {
                        predicted: instant(body.i64()?),
                        begun: instant(body.i64()?),
                    };
                }
                _ => {}
            }
        }
        Ok(extensions)
    }
}

fn extension(out: &mut Vec<u8>, kind: u8, write: impl FnOnce(&mut Writer<'_>)) {
    let start = out.len();
    let mut w = Writer(out);
    write(w.u8(kind).u16(0));
    let length = u16::try_from(out.len() - start - HEAD).unwrap_or(u16::MAX);
    out[start + 1..start + HEAD].copy_from_slice(&length.to_le_bytes());
}
