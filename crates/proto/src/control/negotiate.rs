//! Negotiation: what a client asks for, what the host grants. Messages of the reliable stream.

use std::num::NonZeroU16;

use super::clipboard::{ClipboardDirections, ClipboardPiece};
use super::streams::{self, Grant, StreamOffer};
use crate::bytes::{Reader, Reject, Writer};
use crate::input::keys::Keys;
use crate::printable::printable;
use crate::units::{Bitrate, Size};

/// What a subscriber may do.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Role {
    /// Sends input; its losses and its rate steer the encoder. At most one.
    Player = 0,
    /// Watches; can't slow the player.
    Observer = 1,
}

impl Role {
    /// The role's word, as in logs and tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Role::Player => "player",
            Role::Observer => "observer",
        }
    }
}

/// Why a client watches and does not play.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum ObserverReason {
    /// It asked to.
    Requested = 1,
    /// Somebody plays. Whoever asks to take over gets the role.
    PlayerPresent = 2,
    /// Somebody plays, and the host lets nobody take over.
    TakeOverRefused = 3,
    /// Another took the role over.
    TakenOver = 4,
}

impl ObserverReason {
    fn from_wire(number: u8) -> Option<ObserverReason> {
        use ObserverReason::*;
        let all = [Requested, PlayerPresent, TakeOverRefused, TakenOver];
        all.into_iter().find(|reason| *reason as u8 == number)
    }
}

impl std::fmt::Display for ObserverReason {
    /// In words for the person at the client: why, and how to play.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            ObserverReason::Requested => "watching only, as asked",
            ObserverReason::PlayerPresent => {
                "watching only: somebody else plays; ask to take over (--take-over), or wait until \
                 they leave"
            }
            ObserverReason::TakeOverRefused => {
                "watching only: somebody else plays, and this host lets nobody take over; you play \
                 when they leave"
            }
            ObserverReason::TakenOver => {
                "watching only: another client took over; you play again when it leaves"
            }
        })
    }
}

/// What a client asks for, once, at the start of a session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Offer {
    /// The role that it wants.
    pub role: Role,
    /// Whether it wants to take the player's role from whoever has it.
    pub take_over: bool,
    /// The codecs it decodes: bit n for codec number n.
    pub codecs: u32,
    /// The client's name for lists and logs, at most 255 bytes.
    pub name: String,
    /// The software and its version, for logs.
    pub software: String,
    /// What the picture may cost it.
    pub constraints: ClientConstraints,
    /// The streams that it can carry beside the first view of its video.
    pub streams: Vec<StreamOffer>,
}

/// What a client wants of the video. The host grants a player's constraints within its own limits; an
/// observer's are heard where each client has an encoder of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ClientConstraints {
    /// The most bits per second; `None`: what the host allows.
    pub bitrate: Option<Bitrate>,
    /// The largest picture: a larger one is made smaller, in its shape; `None`: as it is.
    pub size: Option<Size>,
    /// Refreshes a second of the display that shows it, rounded up; `None`: not known. More frames than
    /// these would not be seen.
    pub fps: Option<NonZeroU16>,
}

/// Why a client does not get what it asked for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Refusal {
    /// There is a player, and the host lets a second one neither take over nor watch in its place.
    PlayerPresent = 0,
    /// The client decodes nothing that the host encodes.
    NoCommonCodec = 1,
    /// The host serves as many observers as it may.
    Full = 2,
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Refusal::PlayerPresent => {
                "the host has a player already and lets nobody take over; ask to observe \
                 (--observe), or try again when they have left"
            }
            Refusal::NoCommonCodec => {
                "this client decodes nothing that the host encodes; choose another --encoder at \
                 the host"
            }
            Refusal::Full => "the host serves as many clients as it may; try again later",
        })
    }
}

/// A message of the reliable stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Negotiation {
    /// Client to host, first of all.
    Offer(Offer),
    /// Host to client: welcome, in this role. Sent again when the role changes.
    Granted {
        /// The role.
        role: Role,
        /// The host's name, for the window's title.
        host: String,
        /// How its application reads keys, if the person says nothing else.
        keys: Keys,
        /// Why an observer does not play; `None` for a player, or from an older host.
        observer_reason: Option<ObserverReason>,
    },
    /// Host to client: no. The session ends.
    Refused(Refusal),
    /// Host to client: the pointer looks like this now.
    CursorShape {
        /// Pixels per row and rows, at most 256 each.
        size: Size,
        /// Hot spot from the left and top.
        hot: (u16, u16),
        /// Premultiplied ARGB, row by row.
        argb: Vec<u32>,
    },
    /// Host to client: the application wants to hear how far the mouse moves (`true`), or where the
    /// pointer is, as at first.
    RelativeMouse(bool),
    /// Host to client: whether what is streamed is to be seen there. It is at first; a window that
    /// was minimised is not, and no pictures come until it is back.
    SourceShown(bool),
    /// Host to client: the streams that the session carries beside the first view of its video. Said once,
    /// behind the first [`Negotiation::Granted`], and only if there are any.
    Streams(Vec<Grant>),
    /// Client to host: its window has this size now, in pixels. A host may give what it streams the same.
    WindowSize(Size),
    /// Either way: a part of the text that was copied last. Only the player's counts.
    ClipboardPiece(ClipboardPiece),
    /// Host to client: clipboard text goes these ways from now on, until the next
    /// [`Negotiation::Granted`]. Said to the player alone, and only if there are any.
    ClipboardDirections(ClipboardDirections),
    /// Host to client: it takes game pads, this many at most. Said to the player alone, behind each
    /// [`Negotiation::Granted`]; who has not heard it sends nothing of pads.
    PadsTaken(u8),
}

/// The longest side of a cursor in pixels; XFixes gives at most what the server's largest cursor
/// is, 256 on common drivers.
pub const MAX_CURSOR_SIDE: u32 = 256;

impl Negotiation {
    /// The message's bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut w = Writer(&mut out);
        match self {
            Negotiation::Offer(o) => {
                w.u8(1)
                    .u8(o.role as u8)
                    .u8(u8::from(o.take_over))
                    .u32(o.codecs);
                let size = o.constraints.size.unwrap_or_default();
                w.text(&o.name)
                    .text(&o.software)
                    .u64(o.constraints.bitrate.unwrap_or_default().0)
                    .u32(size.width)
                    .u32(size.height)
                    .u16(o.constraints.fps.map_or(0, NonZeroU16::get));
                streams::write_offers(&mut w, &o.streams);
            }
            Negotiation::Granted {
                role,
                host,
                keys,
                observer_reason,
            } => {
                w.u8(2)
                    .u8(*role as u8)
                    .text(host)
                    .u8(*keys as u8)
                    .u8(observer_reason.map_or(0, |reason| reason as u8));
            }
            Negotiation::Refused(why) => {
                w.u8(3).u8(*why as u8);
            }
            Negotiation::CursorShape { size, hot, argb } => {
                w.u8(4)
                    .u32(size.width)
                    .u32(size.height)
                    .u16(hot.0)
                    .u16(hot.1);
                for pixel in argb {
                    w.u32(*pixel);
                }
            }
            Negotiation::RelativeMouse(wanted) => {
                w.u8(5).u8(u8::from(*wanted));
            }
            Negotiation::SourceShown(shown) => {
                w.u8(6).u8(u8::from(*shown));
            }
            Negotiation::Streams(grants) => {
                streams::write_grants(w.u8(7), grants);
            }
            Negotiation::WindowSize(size) => {
                w.u8(8).u32(size.width).u32(size.height);
            }
            Negotiation::ClipboardPiece(piece) => piece.write(w.u8(9)),
            Negotiation::ClipboardDirections(ways) => ways.write(w.u8(10)),
            Negotiation::PadsTaken(most) => {
                w.u8(11).u8(*most);
            }
        }
        out
    }

    /// Reads a message; `None` for one that only a newer peer knows. Bytes behind the last field
    /// are a newer peer's additions.
    ///
    /// # Errors
    /// [`Reject`] if a field is missing or out of range.
    pub fn parse(bytes: &[u8]) -> Result<Option<Negotiation>, Reject> {
        let mut r = Reader::new(bytes);
        let role = |v| match v {
            0 => Ok(Role::Player),
            1 => Ok(Role::Observer),
            _ => Err(Reject::Range("role")),
        };
        Ok(Some(match r.u8()? {
            1 => Negotiation::Offer(Offer {
                role: role(r.u8()?)?,
                take_over: r.u8()? != 0,
                codecs: r.u32()?,
                name: printable(r.text()?),
                software: printable(r.text()?),
                constraints: ClientConstraints {
                    bitrate: Some(Bitrate(r.u64()?)).filter(|rate| rate.0 != 0),
                    size: match Size::new(r.u32()?, r.u32()?) {
                        Size {
                            width: 0,
                            height: 0,
                        } => None,
                        size if size.is_valid() => Some(size),
                        _ => return Err(Reject::Range("picture size")),
                    },
                    fps: NonZeroU16::new(r.u16()?),
                },
                streams: streams::parse_offers(&mut r)?,
            }),
            2 => Negotiation::Granted {
                role: role(r.u8()?)?,
                host: printable(r.text()?),
                keys: match r.u8()? {
                    1 => Keys::Position,
                    2 => Keys::Both,
                    _ => Keys::Symbol,
                },
                observer_reason: ObserverReason::from_wire(r.u8()?),
            },
            3 => Negotiation::Refused(match r.u8()? {
                0 => Refusal::PlayerPresent,
                1 => Refusal::NoCommonCodec,
                _ => Refusal::Full,
            }),
            4 => {
                let size = Size::new(r.u32()?, r.u32()?);
                let hot = (r.u16()?, r.u16()?);
                if size.width > MAX_CURSOR_SIDE || size.height > MAX_CURSOR_SIDE {
                    return Err(Reject::Range("cursor size"));
                }
                let argb = (0..size.pixels())
                    .map(|_| r.u32())
                    .collect::<Result<_, _>>()?;
                Negotiation::CursorShape { size, hot, argb }
            }
            5 => Negotiation::RelativeMouse(r.u8()? != 0),
            6 => Negotiation::SourceShown(r.u8()? != 0),
            7 => Negotiation::Streams(streams::parse_grants(&mut r)?),
            8 => {
                let size = Some(Size::new(r.u32()?, r.u32()?)).filter(|size| size.is_valid());
                Negotiation::WindowSize(size.ok_or(Reject::Range("window size"))?)
            }
            9 => Negotiation::ClipboardPiece(ClipboardPiece::parse(&mut r)?),
            10 => Negotiation::ClipboardDirections(ClipboardDirections::parse(&mut r)?),
            11 => Negotiation::PadsTaken(r.u8()?),
            _ => return Ok(None),
        }))
    }
}
