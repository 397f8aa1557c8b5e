//! The messages between a host in an application's process and its gateways outside: each kind (u8) and its
//! fields, little-endian.
//!
//! Both ends belong to one user and, except for applications of the C API, to one build: an unknown message
//! ends the connection. Each end treats the other as hostile nonetheless: an attacker in the game's process
//! must not take over the program that started it.

mod figures;
mod gateway_message;
mod host_message;

pub use self::gateway_message::GatewayMessage;
pub use self::host_message::HostMessage;

use openuvr_proto::bytes::{Reader, Reject};
use openuvr_proto::control::negotiate::{ObserverReason, Refusal, Role};
use openuvr_proto::host::{Grant, SubscriberKind};

/// Longest message in bytes: a slice of the largest picture in the best quality (guess; 200 Mb/s at 60
/// frames/s are 0.4 MB per frame, and a key frame is ten times that).
pub const MAX_MESSAGE: usize = 8 << 20;

const REFUSALS: [Refusal; 3] = [
    Refusal::PlayerPresent,
    Refusal::NoCommonCodec,
    Refusal::Full,
];

const REASONS: [ObserverReason; 4] = [
    ObserverReason::Requested,
    ObserverReason::PlayerPresent,
    ObserverReason::TakeOverRefused,
    ObserverReason::TakenOver,
];

fn refused(field: &'static str) -> Reject {
    Reject::Range(field)
}

fn one_of<T: Copy>(all: &[T], number: u8, field: &'static str) -> Result<T, Reject> {
    all.get(usize::from(number)).copied().ok_or(refused(field))
}

fn index_in<T: PartialEq>(all: &[T], value: &T) -> u8 {
    let index = all.iter().position(|other| other == value);
    index
        .and_then(|index| u8::try_from(index).ok())
        .unwrap_or(u8::MAX)
}

fn flag(r: &mut Reader<'_>) -> Result<bool, Reject> {
    one_of(&[false, true], r.u8()?, "flag")
}

fn text(r: &mut Reader<'_>) -> Result<String, Reject> {
    r.text().map(str::to_owned)
}

fn role(number: u8) -> Result<Role, Reject> {
    one_of(&[Role::Player, Role::Observer], number, "role")
}

fn subscriber_kind(r: &mut Reader<'_>) -> Result<SubscriberKind, Reject> {
    one_of(&SubscriberKind::ALL, r.u8()?, "kind of a subscriber")
}

/// The number for "no reason".
const NONE: u8 = u8::MAX;

fn write_grant(w: &mut openuvr_proto::bytes::Writer<'_>, grant: Grant) {
    let why = grant
        .observer_reason
        .map_or(NONE, |why| index_in(&REASONS, &why));
    w.u8(grant.role as u8).u8(why);
}

fn grant(r: &mut Reader<'_>) -> Result<Grant, Reject> {
    Ok(Grant {
        role: role(r.u8()?)?,
        observer_reason: match r.u8()? {
            NONE => None,
            number => Some(one_of(&REASONS, number, "reason")?),
        },
    })
}

#[cfg(test)]
mod tests;
