//! The encoding of rate-control events: kind (u8), then the fields of that kind.

use std::time::Duration;

use crate::bytes::{Reader, Reject, Writer};
use crate::control_event::{ControlEvent, KeyFrameReason, L4sChange, Loss, RateChange};
use crate::id::FrameId;
use crate::units::Bitrate;

mod kind {
    pub(super) const QUEUE: u8 = 1;
    pub(super) const LOSS: u8 = 2;
    pub(super) const SILENCE: u8 = 3;
    pub(super) const CLIMB: u8 = 4;
    pub(super) const FULL: u8 = 5;
    pub(super) const LONGER: u8 = 6;
    pub(super) const SKIP_BACK: u8 = 7;
    pub(super) const REFRESH: u8 = 8;
    pub(super) const KEY: u8 = 9;
    pub(super) const PROTECT: u8 = 10;
    pub(super) const HOLD: u8 = 11;
    pub(super) const TAKEN_BACK: u8 = 12;
    pub(super) const PAUSE: u8 = 13;
    pub(super) const MARKED: u8 = 14;
    pub(super) const CLASSIC_MARKS: u8 = 15;
    pub(super) const L4S: u8 = 16;
    pub(super) const ESTIMATE: u8 = 17;
}

const KEY_REASONS: [KeyFrameReason; 5] = [
    KeyFrameReason::Requested,
    KeyFrameReason::NoReference,
    KeyFrameReason::RefreshFailed,
    KeyFrameReason::Periodic,
    KeyFrameReason::First,
];

const L4S_CHANGES: [L4sChange; 3] = [L4sChange::Started, L4sChange::Bleached, L4sChange::Remarked];

/// The value that encodes a ratio of 1.
const ONE: f64 = u16::MAX as f64;

/// Run lengths are encoded in hundredths.
const RUN: f64 = 100.0;

pub(super) fn write(w: &mut Writer<'_>, event: &ControlEvent) {
    match *event {
        ControlEvent::Rate(change) => write_change(w, change),
        ControlEvent::ReferenceInvalidation { frame, to } => {
            w.u8(kind::SKIP_BACK).u32(frame.0).u32(to.0)
        }
        ControlEvent::IntraRefresh { frame, lost } => w.u8(kind::REFRESH).u32(frame.0).u32(lost.0),
        ControlEvent::KeyFrame { frame, why } => {
            let why = KEY_REASONS.iter().position(|known| *known == why);
            let why = why.and_then(|why| u8::try_from(why).ok()).unwrap_or(0);
            w.u8(kind::KEY).u32(frame.0).u8(why)
        }
        ControlEvent::Protection {
            parity,
            resend,
            loss,
            round_trip,
        } => (w.u8(kind::PROTECT).u8(parity).u8(u8::from(resend)))
            .u16(fixed(loss.rate, ONE))
            .u16(fixed(loss.run, RUN))
            .u32(micros(round_trip)),
        ControlEvent::CongestionSkip { wait } => w.u8(kind::HOLD).u32(micros(wait)),
        ControlEvent::L4s(change) => {
            let change = L4S_CHANGES.iter().position(|known| *known == change);
            let change = change.and_then(|change| u8::try_from(change).ok());
            w.u8(kind::L4S).u8(change.unwrap_or(0))
        }
    };
}

fn write_change<'a, 'b>(w: &'a mut Writer<'b>, change: RateChange) -> &'a mut Writer<'b> {
    match change {
        RateChange::Queue {
            to,
            waited,
            capacity,
        } => w
            .u8(kind::QUEUE)
            .u64(to.0)
            .u32(micros(waited))
            .u64(capacity.0),
        RateChange::Loss { to, lost } => w.u8(kind::LOSS).u64(to.0).u16(fixed(lost, ONE)),
        RateChange::Silence { to } => w.u8(kind::SILENCE).u64(to.0),
        RateChange::Increase { to } => w.u8(kind::CLIMB).u64(to.0),
        RateChange::Maximum { to } => w.u8(kind::FULL).u64(to.0),
        RateChange::LongerPath { by } => w.u8(kind::LONGER).u32(micros(by)),
        RateChange::Reverted { to } => w.u8(kind::TAKEN_BACK).u64(to.0),
        RateChange::Estimate { to } => w.u8(kind::ESTIMATE).u64(to.0),
        RateChange::Stall { by } => w.u8(kind::PAUSE).u32(micros(by)),
        RateChange::Marked { to, share } => w.u8(kind::MARKED).u64(to.0).u16(fixed(share, ONE)),
        RateChange::ClassicMarks { to, waited } => {
            w.u8(kind::CLASSIC_MARKS).u64(to.0).u32(micros(waited))
        }
    }
}

/// Returns `None` for an event that only a newer host sends. Events are only for display, so unknown events can be
/// skipped.
pub(super) fn parse(r: &mut Reader<'_>) -> Result<Option<ControlEvent>, Reject> {
    let rate = |r: &mut Reader<'_>| Ok::<_, Reject>(Bitrate(r.u64()?));
    let span = |r: &mut Reader<'_>| Ok::<_, Reject>(Duration::from_micros(r.u32()?.into()));
    let frame = |r: &mut Reader<'_>| Ok::<_, Reject>(FrameId(r.u32()?));
    let share = |r: &mut Reader<'_>, one: f64| Ok::<_, Reject>(f64::from(r.u16()?) / one);
    Ok(Some(match r.u8()? {
        kind::QUEUE => ControlEvent::Rate(RateChange::Queue {
            to: rate(r)?,
            waited: span(r)?,
            capacity: rate(r)?,
        }),
        kind::LOSS => ControlEvent::Rate(RateChange::Loss {
            to: rate(r)?,
            lost: share(r, ONE)?,
        }),
        kind::SILENCE => ControlEvent::Rate(RateChange::Silence { to: rate(r)? }),
        kind::CLIMB => ControlEvent::Rate(RateChange::Increase { to: rate(r)? }),
        kind::FULL => ControlEvent::Rate(RateChange::Maximum { to: rate(r)? }),
        kind::LONGER => ControlEvent::Rate(RateChange::LongerPath { by: span(r)? }),
        kind::TAKEN_BACK => ControlEvent::Rate(RateChange::Reverted { to: rate(r)? }),
        kind::ESTIMATE => ControlEvent::Rate(RateChange::Estimate { to: rate(r)? }),
        kind::PAUSE => ControlEvent::Rate(RateChange::Stall { by: span(r)? }),
        kind::SKIP_BACK => ControlEvent::ReferenceInvalidation {
            frame: frame(r)?,
            to: frame(r)?,
        },
        kind::REFRESH => ControlEvent::IntraRefresh {
            frame: frame(r)?,
            lost: frame(r)?,
        },
        kind::KEY => {
            let (frame, why) = (frame(r)?, usize::from(r.u8()?));
            let Some(why) = KEY_REASONS.get(why).copied() else {
                return Ok(None);
            };
            ControlEvent::KeyFrame { frame, why }
        }
        kind::PROTECT => ControlEvent::Protection {
            parity: r.u8()?,
            resend: r.u8()? != 0,
            loss: Loss {
                rate: share(r, ONE)?,
                run: share(r, RUN)?,
            },
            round_trip: span(r)?,
        },
        kind::HOLD => ControlEvent::CongestionSkip { wait: span(r)? },
        kind::MARKED => ControlEvent::Rate(RateChange::Marked {
            to: rate(r)?,
            share: share(r, ONE)?,
        }),
        kind::CLASSIC_MARKS => ControlEvent::Rate(RateChange::ClassicMarks {
            to: rate(r)?,
            waited: span(r)?,
        }),
        kind::L4S => {
            let Some(change) = L4S_CHANGES.get(usize::from(r.u8()?)).copied() else {
                return Ok(None);
            };
            ControlEvent::L4s(change)
        }
        _ => return Ok(None),
    }))
}

/// Converts to whole microseconds; saturates at 71 minutes.
fn micros(span: Duration) -> u32 {
    u32::try_from(span.as_micros()).unwrap_or(u32::MAX)
}

/// Converts to a fixed-point value in which `one` stands for 1.0; saturates.
fn fixed(value: f64, one: f64) -> u16 {
    #[expect(clippy::cast_possible_truncation, reason = "within 16 bits")]
    #[expect(clippy::cast_sign_loss, reason = "not below zero")]
    let parts = (value * one).round().clamp(0.0, f64::from(u16::MAX)) as u16;
    parts
}
