//! Properties of a client's display: its refresh timing, and the field of view of each eye.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::bytes::{Reader, Reject, Writer};
use crate::field_of_view::FieldOfView;
use crate::time::{Instant, Mapped, PeerInstant};

/// Maximum distance between the eyes in metres.
const WIDEST: f32 = 0.2;

/// The valid refresh periods correspond to 10 to 1000 refreshes a second.
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_millis(100);

/// The refresh timing of a display: it refreshes at `phase`, and at multiples of `period` before and after.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RefreshTiming<T> {
    /// The time of one refresh, past or future.
    pub phase: T,
    /// The time between two refreshes.
    #[serde(with = "crate::validated::span")]
    pub period: Duration,
}

impl<T> RefreshTiming<T> {
    /// Returns `None` if no display has such a period.
    pub(crate) fn valid_only(self) -> Option<RefreshTiming<T>> {
        (SHORTEST..=LONGEST).contains(&self.period).then_some(self)
    }
}

impl RefreshTiming<PeerInstant> {
    pub(crate) fn write(&self, w: &mut Writer<'_>) {
        let nanos = u32::try_from(self.period.as_nanos()).unwrap_or(u32::MAX);
        w.i64(self.phase.0).u32(nanos);
    }

    /// Parses the timing without validating it.
    pub(crate) fn parse(r: &mut Reader<'_>) -> Result<RefreshTiming<PeerInstant>, Reject> {
        Ok(RefreshTiming {
            phase: PeerInstant(r.i64()?),
            period: Duration::from_nanos(r.u32()?.into()),
        })
    }
}

/// The geometry of a headset's views.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Eyes {
    /// Fields of view of the left and the right eye.
    pub fov: [FieldOfView; 2],
    /// Distance between the eyes in metres: 0 to 0.2.
    pub between: f32,
}

// All floating-point fields are finite, so equality is reflexive.
impl Eq for Eyes {}

/// Properties of a client's display.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(from = "DisplayFields", into = "DisplayFields")]
pub struct Display {
    /// Refresh timing (client clock).
    pub refresh: Option<RefreshTiming<PeerInstant>>,
    /// The geometry of the views.
    pub eyes: Option<Eyes>,
}

type DisplayFields = (Option<RefreshTiming<PeerInstant>>, Option<Eyes>);

impl From<DisplayFields> for Display {
    /// Invalid values are omitted.
    fn from((refresh, eyes): DisplayFields) -> Display {
        Display { refresh, eyes }.valid_only()
    }
}

impl From<Display> for DisplayFields {
    fn from(display: Display) -> DisplayFields {
        (display.refresh, display.eyes)
    }
}

impl Display {
    /// Without invalid values.
    pub(crate) fn valid_only(self) -> Display {
        let eyes = |eyes: &Eyes| (0.0..=WIDEST).contains(&eyes.between);
        Display {
            refresh: self.refresh.and_then(RefreshTiming::valid_only),
            eyes: self.eyes.filter(eyes),
        }
    }

    pub(crate) fn write(&self, w: &mut Writer<'_>) {
        let has = u8::from(self.refresh.is_some()) | u8::from(self.eyes.is_some()) << 1;
        w.u8(has);
        if let Some(refresh) = self.refresh {
            refresh.write(w);
        }
        if let Some(eyes) = self.eyes {
            eyes.fov.iter().for_each(|fov| fov.write(w));
            w.f32(eyes.between);
        }
    }

    /// Invalid values are omitted.
    pub(crate) fn parse(r: &mut Reader<'_>) -> Result<Display, Reject> {
        let has = r.u8()?;
        let refresh = match has & 1 {
            0 => None,
            _ => Some(RefreshTiming::parse(r)?),
        };
        let eyes = match has & 2 {
            0 => None,
            _ => {
                let (left, right) = (FieldOfView::parse(r)?, FieldOfView::parse(r)?);
                let between = r.f32()?;
                let fov = left.zip(right).map(|(left, right)| [left, right]);
                fov.map(|fov| Eyes { fov, between })
            }
        };
        Ok(Display { refresh, eyes }.valid_only())
    }
}

/// Properties of the player's display, as known to the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PlayerDisplay {
    /// Refresh timing (host clock); `None` if unknown or until the clocks are synchronised.
    pub refresh: Option<RefreshTiming<Mapped<Instant>>>,
    /// The geometry of the views.
    pub eyes: Option<Eyes>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_display_properties_are_omitted() {
        let fov = FieldOfView::new(-0.8, 0.7, 0.7, -0.7).unwrap();
        let display = |nanos, between| Display {
            refresh: Some(RefreshTiming {
                phase: PeerInstant(5),
                period: Duration::from_nanos(nanos),
            }),
            eyes: Some(Eyes {
                fov: [fov; 2],
                between,
            }),
        };
        let read = |display: Display| {
            let mut bytes = Vec::new();
            display.write(&mut Writer(&mut bytes));
            Display::parse(&mut Reader::new(&bytes)).unwrap()
        };
        let fine = display(11_111_111, 0.063);
        assert_eq!(read(fine), fine);
        assert_eq!(read(Display::default()), Display::default());
        for (nanos, between) in [(0, f32::NAN), (200_000_000, -0.01), (999_999, 0.3)] {
            assert_eq!(read(display(nanos, between)), Display::default());
        }
    }
}
