//! Optional fields of a frame.
//!
//! Each field has a type (u8), a length (u16) and its bytes. The fields are in fragment 0 of slice 0. Readers skip
//! unknown types, and unknown bytes at the end of a field.

use serde::{Deserialize, Serialize};

use crate::bytes::{Reader, Reject, Writer, range};
use crate::id::PoseId;
use crate::pose::Pose;
use crate::time::PeerInstant;
use crate::units::Size;

pub use super::views::{View, Views};
pub use crate::field_of_view::FieldOfView;

/// The decoder parameters of one configuration epoch, sent with each key frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Configuration {
    /// Visible size of the picture in pixels.
    pub size: Size,
    /// The codec number of the bit stream (`media::codec::Codec`).
    pub codec: u8,
    /// Colour: 1 is BT.709, limited range (ITU-T H.273 code points 1/1/1).
    pub colour: u8,
    /// Maximum frame rate, in frames per second.
    pub fps: u16,
}

/// The pose with which the application drew a picture. The application has therefore consumed this pose.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PoseEcho {
    /// The player's pose that the application took.
    pub pose: PoseId,
    /// The head pose with which the application drew: `pose` itself, or a pose predicted from it.
    pub at: Pose,
    /// The expected display time of the frame (host clock), if the application provided it.
    pub display: Option<PeerInstant>,
}

/// The pose and views with which a frame was drawn, as far as the application provided them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Viewpoint {
    /// The player's pose that the application took. It is sent only to the player.
    pub pose: Option<PoseEcho>,
    /// The views of the picture.
    pub views: Option<Views>,
}

/// The times at which an application drew a frame (host clock), as far as they are known.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct DrawingTimes {
    /// The time at which the head pose was predicted.
    pub predicted: Option<PeerInstant>,
    /// The time at which the application started to draw.
    pub begun: Option<PeerInstant>,
}

/// The optional fields of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Extensions {
    /// The configuration, on a key frame.
    pub configuration: Option<Configuration>,
    /// An intra refresh starts with this frame. The value is the number of frames that follow it in the refresh's
    /// reference chain. If this frame and all these frames arrive completely, the picture is clean, regardless of its
    /// earlier state.
    pub clean_after: Option<u16>,
    /// The pose with which the picture was drawn.
    pub pose: Option<PoseEcho>,
    /// The views of the picture.
    pub views: Option<Views>,
    /// The times at which the picture was drawn.
    pub times: DrawingTimes,
}

const CONFIGURATION: u8 = 1;
const CLEAN_AFTER: u8 = 2;
const POSE: u8 = 3;
// Number 4 was the field of view of a picture with one view, and must not be used again.
const VIEWS: u8 = 5;
const DRAWING_TIMES: u8 = 6;

/// Size of an extension's type and length in bytes.
const HEAD: usize = 1 + 2;

/// Encodes an unknown time.
const NO_INSTANT: i64 = i64::MIN;

impl Extensions {
    /// Fills each missing field with the field of `news`.
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

    /// The pose and views of the frame.
    #[must_use]
    pub fn viewpoint(&self) -> Viewpoint {
        Viewpoint {
            pose: self.pose,
            views: self.views,
        }
    }

    /// The encoded size of all fields in bytes.
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

    /// Whether all fields are missing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Extensions::default()
    }

    /// Appends the encoded fields.
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

    /// Parses bytes that contain only extensions.
    ///
    /// # Errors
    /// [`Reject`] if a known field is truncated or has an invalid value.
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
                    // An invalid pose is ignored, because the picture may be valid.
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
