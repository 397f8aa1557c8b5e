//! The client's report on one frame, and its encoding.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::view;
use crate::bytes::{Reader, Reject, Writer, span_from_wire, span_to_wire};
use crate::ecn::EcnCounts;
use crate::id::{FrameId, PoseId, ViewId};
use crate::input::echo::EchoKind;
use crate::time::PeerInstant;
use crate::trace::{DisplayLatency, DropCause, Fidelity, FrameRecord, Outcome, Stage};

/// The result of one frame at the client, with timestamps on the client's clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Report {
    /// The view.
    pub view: ViewId,
    /// The frame of the view.
    pub frame: FrameId,
    /// How it ended.
    pub outcome: Outcome,
    /// The time of [`Stage::FirstReceived`], from which the durations below are measured.
    pub first_received: Option<PeerInstant>,
    /// From `first_received` to [`Stage::Recoverable`].
    #[serde(with = "crate::validated::optional_span")]
    pub recoverable: Option<Duration>,
    /// From `first_received` to [`Stage::Decoded`].
    #[serde(with = "crate::validated::optional_span")]
    pub decoded: Option<Duration>,
    /// From `first_received` to [`Stage::Submitted`].
    #[serde(with = "crate::validated::optional_span")]
    pub submitted: Option<Duration>,
    /// From `first_received` to [`Stage::Presented`].
    #[serde(with = "crate::validated::optional_span")]
    pub presented: Option<Duration>,
    /// Motion-to-photon latency: the time from [`Stage::InputSampled`] to the last stage in this report. The sample is
    /// the newest input that this frame is the first to show or, without such an input, the frame's head pose.
    #[serde(with = "crate::validated::optional_span")]
    pub motion_to_photon: Option<Duration>,
    /// Whether the motion-to-photon latency is exact or a lower bound.
    pub echo: EchoKind,
    /// Media datagrams of all streams that the client received since its previous report on any view.
    pub datagrams: u16,
    /// Media datagrams of all streams that the client found missing since its previous report on any view. Datagrams
    /// that may still arrive are counted in a later report.
    pub missing: u16,
    /// Runs of missing datagrams that started since the previous report on any view. The mean run length follows from
    /// them.
    pub runs: u16,
    /// Fragments of this frame that were recovered by FEC.
    pub repaired: u16,
    /// Fragments of this frame that the client received from retransmissions.
    pub resent: u16,
    /// The pose with which the application drew the frame, if it is known.
    pub pose: Option<PoseId>,
    /// The counts of the ECN fields of the view's datagrams since the previous report. `None` if the host has not
    /// requested counts ([`Negotiation::EcnFeedback`](crate::control::negotiate::Negotiation::EcnFeedback)), or if the
    /// client cannot read the fields.
    pub ecn: Option<EcnCounts>,
    /// The age of the frame at the client. It is not sent; only the client uses it.
    #[serde(skip)]
    pub age: DisplayLatency,
}

impl Report {
    /// The report on a frame of the first view, if only the outcome of the frame is known.
    #[must_use]
    pub fn new(frame: FrameId, outcome: Outcome) -> Report {
        Report {
            view: ViewId::FIRST,
            frame,
            outcome,
            first_received: None,
            recoverable: None,
            decoded: None,
            submitted: None,
            presented: None,
            motion_to_photon: None,
            echo: EchoKind::None,
            datagrams: 0,
            missing: 0,
            runs: 0,
            repaired: 0,
            resent: 0,
            pose: None,
            ecn: None,
            age: DisplayLatency::default(),
        }
    }
}

impl From<&FrameRecord> for Report {
    /// The client's report on the frame. If the client sent no report, only the known fields are set.
    fn from(record: &FrameRecord) -> Report {
        let client = record.client;
        Report {
            view: record.view,
            frame: record.frame,
            outcome: record.outcome,
            first_received: client.first_received,
            recoverable: client.recoverable,
            decoded: client.decoded,
            submitted: client.submitted,
            presented: client.presented,
            motion_to_photon: record.motion_to_photon,
            echo: record.echo,
            datagrams: record.received,
            missing: record.missing,
            runs: record.runs,
            repaired: record.repaired,
            resent: record.resent,
            pose: record.pose,
            ecn: record.ecn,
            age: record.age,
        }
    }
}

/// Encodes "no arrival time": no datagram arrived, or the time of the first arrival was not measured.
const NO_INSTANT: i64 = i64::MIN;

/// Bytes of the ECN counts at the end of a report.
const ECN_COUNTS: usize = 4 * 2;

/// Encodes [`Outcome::SentUnacknowledged`]: a receiver without a display accepted the frame.
const LEFT: u8 = 3;

pub(super) fn write(w: &mut Writer<'_>, report: &Report) {
    view::write(w, report.view).u32(report.frame.0);
    match report.outcome {
        Outcome::Displayed(fidelity) => {
            let how = match fidelity {
                Fidelity::Complete => 0,
                Fidelity::Concealed => 1,
                Fidelity::Tainted => 2,
            };
            w.u8(how).u8(0);
        }
        Outcome::SentUnacknowledged => {
            w.u8(LEFT).u8(0);
        }
        Outcome::Dropped { stage, why } => {
            let cause = DropCause::ALL.iter().position(|c| *c == why).unwrap_or(0);
            w.u8(16 + u8::try_from(cause).unwrap_or(0)).u8(stage as u8);
        }
    }
    w.i64(report.first_received.map_or(NO_INSTANT, |at| at.0));
    for span in [
        report.recoverable,
        report.decoded,
        report.submitted,
        report.presented,
        report.motion_to_photon,
    ] {
        w.u32(span_to_wire(span));
    }
    w.u8(report.echo as u8)
        .u16(report.datagrams)
        .u16(report.missing)
        .u16(report.runs)
        .u16(report.repaired)
        .u16(report.resent)
        .u32(report.pose.map_or(0, |pose| pose.0));
    // An older host ignores these bytes.
    if let Some(ecn) = report.ecn {
        w.u16(ecn.not_ect).u16(ecn.ect1).u16(ecn.ect0).u16(ecn.ce);
    }
}

fn parse_ecn(r: &mut Reader<'_>) -> Result<Option<EcnCounts>, Reject> {
    if r.remaining() < ECN_COUNTS {
        return Ok(None);
    }
    Ok(Some(EcnCounts {
        not_ect: r.u16()?,
        ect1: r.u16()?,
        ect0: r.u16()?,
        ce: r.u16()?,
    }))
}

pub(super) fn parse(r: &mut Reader<'_>) -> Result<Report, Reject> {
    let view = view::parse(r)?;
    let frame = FrameId(r.u32()?);
    let how = r.u8()?;
    let stage = usize::from(r.u8()?);
    let outcome = match how {
        0 => Outcome::Displayed(Fidelity::Complete),
        1 => Outcome::Displayed(Fidelity::Concealed),
        2 => Outcome::Displayed(Fidelity::Tainted),
        LEFT => Outcome::SentUnacknowledged,
        16.. => Outcome::Dropped {
            stage: *Stage::ALL.get(stage).ok_or(Reject::Range("stage"))?,
            why: *DropCause::ALL
                .get(usize::from(how - 16))
                .ok_or(Reject::Range("drop cause"))?,
        },
        other => return Err(Reject::Kind(other)),
    };
    let first_received = r.i64()?;
    Ok(Report {
        view,
        frame,
        outcome,
        first_received: (first_received != NO_INSTANT).then_some(PeerInstant(first_received)),
        recoverable: span_from_wire(r.u32()?),
        decoded: span_from_wire(r.u32()?),
        submitted: span_from_wire(r.u32()?),
        presented: span_from_wire(r.u32()?),
        motion_to_photon: span_from_wire(r.u32()?),
        echo: match r.u8()? {
            0 => EchoKind::None,
            1 => EchoKind::Injected,
            2 => EchoKind::Consumed,
            other => return Err(Reject::Kind(other)),
        },
        datagrams: r.u16()?,
        missing: r.u16()?,
        runs: r.u16()?,
        repaired: r.u16()?,
        resent: r.u16()?,
        pose: Some(PoseId(r.u32()?)).filter(|pose| pose.0 != 0),
        ecn: parse_ecn(r)?,
        age: DisplayLatency::default(),
    })
}
