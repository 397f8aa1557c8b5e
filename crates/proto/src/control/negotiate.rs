//! Negotiation: the client's offer and the host's grant, as messages of the reliable stream.

use std::num::NonZeroU16;

use serde::{Deserialize, Serialize};

use super::clipboard::{ClipboardDirections, ClipboardPiece};
use super::streams::{self, Grant, StreamOffer};
use crate::bytes::{Reader, Reject, Writer};
use crate::input::keys::Keys;
use crate::printable::printable;
use crate::units::{Bitrate, Size};

/// A subscriber's role.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[repr(u8)]
pub enum Role {
    /// Sends input. The loss and bandwidth of its link control the encoder. There is at most one player.
    Player = 0,
    /// Only watches. An observer cannot slow down the player.
    Observer = 1,
}

impl Role {
    /// The role's name in logs and tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Role::Player => "player",
            Role::Observer => "observer",
        }
    }
}

/// Why a client observes instead of playing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[repr(u8)]
pub enum ObserverReason {
    /// The client requested to observe.
    Requested = 1,
    /// There is a player, and a request to take over would succeed.
    PlayerPresent = 2,
    /// There is a player, and the host does not allow take-over.
    TakeOverRefused = 3,
    /// Another client took over the player's role.
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
    /// A text for the user: the reason, and how to become the player.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            ObserverReason::Requested => "watching only, as requested",
            ObserverReason::PlayerPresent => {
                "watching only: another client plays; take over its role (--take-over), or wait until it leaves"
            }
            ObserverReason::TakeOverRefused => {
                "watching only: another client plays, and this host does not allow take-over; you play \
                 when it leaves"
            }
            ObserverReason::TakenOver => {
                "watching only: another client took over; you play again when it leaves"
            }
        })
    }
}

/// A client's request for a role and streams. It is sent once at the start of a session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Offer {
    /// The requested role.
    pub role: Role,
    /// Whether to take over the player's role.
    pub take_over: bool,
    /// The codecs that the client can decode: bit n stands for codec number n.
    pub codecs: u32,
    /// The client's name for lists and logs, at most 255 bytes.
    pub name: String,
    /// The client's software and its version, for logs.
    pub software: String,
    /// The client's limits on the video.
    pub constraints: ClientConstraints,
    /// The streams that the client supports in addition to the first view of its video.
    pub streams: Vec<StreamOffer>,
}

/// A client's limits on the video. A player's limits apply within the host's own limits. An observer's limits apply
/// only if each client has its own encoder.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ClientConstraints {
    /// Maximum bits per second; `None` for the host's limit.
    pub bitrate: Option<Bitrate>,
    /// Maximum picture size. Larger pictures are scaled down and keep their aspect ratio. `None` if there is no limit.
    pub size: Option<Size>,
    /// Refresh rate of the client's display in Hz, rounded up; `None` if it is unknown. A host may limit the frame rate
    /// to it, because more frames would not be visible.
    pub fps: Option<NonZeroU16>,
    /// Frame rate in Hz that the client's user has chosen; `None` if the user has not chosen one. It replaces the
    /// host's usual frame rate, up to the limit that the host sets for such choices; without such a limit, it has no
    /// effect. An [`Offer`] on the wire never contains it.
    pub chosen_fps: Option<NonZeroU16>,
}

/// Why a client's offer is refused.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[repr(u8)]
pub enum Refusal {
    /// There is a player, and the host refuses all other clients that request the player's role.
    PlayerPresent = 0,
    /// The client supports none of the host's codecs.
    NoCommonCodec = 1,
    /// The maximum number of observers is reached.
    Full = 2,
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Refusal::PlayerPresent => {
                "the host has a player and does not allow take-over; connect as an observer (--observe), or try again when \
                 the player has left"
            }
            Refusal::NoCommonCodec => {
                "host and client have no common codec: change --encoder at the host, or --codec at the client"
            }
            Refusal::Full => "the host's limit of observers is reached; try again later",
        })
    }
}

/// A message of the reliable stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Negotiation {
    /// Client to host, the first message.
    Offer(Offer),
    /// Host to client: the offer is accepted, with this role. The host repeats the message when the role changes.
    Granted {
        /// The role.
        role: Role,
        /// The host's name, for the window title.
        host: String,
        /// How the host's application reads keys. The client uses this mode unless its user has chosen one.
        keys: Keys,
        /// Why an observer does not play. `None` for a player, and in messages of older hosts.
        observer_reason: Option<ObserverReason>,
    },
    /// Host to client: the offer is refused. The session ends.
    Refused(Refusal),
    /// Host to client: a new cursor shape.
    CursorShape {
        /// Width and height in pixels, at most 256 each.
        size: Size,
        /// Hot spot: its distances from the left and top edges.
        hot: (u16, u16),
        /// Pixels in premultiplied ARGB, row by row.
        argb: Vec<u32>,
    },
    /// Host to client: whether the application wants relative mouse motion (`true`) or absolute positions (`false`).
    /// Initially, it wants absolute positions.
    RelativeMouse(bool),
    /// Host to client: whether the streamed source is visible. Initially, it is visible. While the source is hidden,
    /// for example a minimised window, no pictures are sent.
    SourceShown(bool),
    /// Host to client: the streams that the session carries in addition to the first view of its video. Sent once,
    /// after the first [`Negotiation::Granted`], and only if there are such streams.
    Streams(Vec<Grant>),
    /// Client to host: the window's new size in pixels. The host may resize its source to this size.
    WindowSize(Size),
    /// Either direction: a fragment of the newest copied text. The host accepts fragments only from the player.
    ClipboardPiece(ClipboardPiece),
    /// Host to client: the enabled clipboard directions, until the next [`Negotiation::Granted`]. Sent only to the
    /// player, and only if a direction is enabled.
    ClipboardDirections(ClipboardDirections),
    /// Host to client: the number of game pads that the host accepts. Sent only to the player, after each
    /// [`Negotiation::Granted`], and only if the host accepts a pad. A client sends no pad events before it has
    /// received this message.
    PadsTaken(u8),
    /// Host to client: count the ECN fields of received video datagrams, and add the counts to the report on each
    /// frame. Sent only to the player, and only if the host uses L4S. A client that cannot read the fields ignores the
    /// message.
    EcnFeedback,
}

/// Maximum width and height of a cursor in pixels. XFixes returns no cursor larger than the X server's maximum, which
/// is 256 on common drivers.
pub const MAX_CURSOR_SIDE: u32 = 256;

impl Negotiation {
    /// Serialises the message.
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
            Negotiation::EcnFeedback => {
                w.u8(12);
            }
        }
        out
    }

    /// Parses a message. Returns `None` for a kind that only newer peers define. Trailing bytes are extensions of newer
    /// peers and are ignored.
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
                    chosen_fps: None,
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
            12 => Negotiation::EcnFeedback,
            _ => return Ok(None),
        }))
    }
}
