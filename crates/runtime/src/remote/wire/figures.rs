//! Serialisation of subscriber statistics.

use std::time::Duration;

use openuvr_proto::bytes::{Reader, Reject, Writer};
use openuvr_proto::host::SubscriberKind;
use openuvr_proto::host::figures::{LatencyFigures, SubscriberFigures};

use super::{flag, index_in, refused, role, subscriber_kind};

/// Most subscribers: more than a host has ([`Config`](crate::host::config::Config) allows 64 observers);
/// further ones are omitted.
const MAX_SUBSCRIBERS: u8 = 128;

pub(super) fn write(w: &mut Writer<'_>, all: &[SubscriberFigures]) {
    let count = u8::try_from(all.len())
        .unwrap_or(MAX_SUBSCRIBERS)
        .min(MAX_SUBSCRIBERS);
    w.u8(count);
    for of in all.iter().take(count.into()) {
        w.u8(index_in(&SubscriberKind::ALL, &of.kind))
            .u8(of.role as u8)
            .u8(u8::from(of.frames_per_second.is_some()))
            .u64(of.frames_per_second.unwrap_or_default().to_bits())
            .u8(u8::from(of.latency.is_some()));
        let spans = of.latency.map(|of| [of.p50, of.p99, of.bound]);
        for span in spans.unwrap_or_default() {
            w.u64(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX));
        }
    }
}

pub(super) fn read(r: &mut Reader<'_>) -> Result<Vec<SubscriberFigures>, Reject> {
    let count = r.u8()?;
    if count > MAX_SUBSCRIBERS {
        return Err(refused("number of subscribers"));
    }
    (0..count).map(|_| one(r)).collect()
}

fn one(r: &mut Reader<'_>) -> Result<SubscriberFigures, Reject> {
    let (kind, role) = (subscriber_kind(r)?, role(r.u8()?)?);
    let (known, rate) = (flag(r)?, f64::from_bits(r.u64()?));
    if !rate.is_finite() || rate < 0.0 {
        return Err(refused("frames a second"));
    }
    let measured = flag(r)?;
    let [p50, p99, bound] = [r.u64()?, r.u64()?, r.u64()?].map(Duration::from_nanos);
    if p50 > p99 {
        return Err(refused("latency"));
    }
    Ok(SubscriberFigures {
        kind,
        role,
        frames_per_second: known.then_some(rate),
        latency: measured.then_some(LatencyFigures { p50, p99, bound }),
    })
}
