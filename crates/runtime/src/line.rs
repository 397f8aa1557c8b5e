//! The messages from a host in an application's process to the launching program, and the settings it
//! receives first: one datagram each, as text.
//!
//! A line consists of tab-separated fields; the first names its kind. Both sides are of one build and one
//! user: unknown lines are ignored, and nothing is negotiated. The protocol between host and client is in
//! crate `proto`.

use std::str::{FromStr, Split};
use std::time::Duration;

use openuvr_proto::control::clock::Mapped;
use openuvr_proto::control::negotiate::{Refusal, Role};
use openuvr_proto::control::transport_probe::TransportKind;
use openuvr_proto::control_event::ControlEvent;
use openuvr_proto::host::Ending;
use openuvr_proto::id::{FrameId, PoseId, RenditionId, SessionId, SubscriberId, ViewId};
use openuvr_proto::time::{Instant, PeerInstant};
use openuvr_proto::trace::{
    ClientStamps, DisplayLatency, DropCause, Fidelity, FrameCost, FrameRecord, Outcome, Stage,
    Stamps,
};
use openuvr_proto::units::Size;
use openuvr_proto::wire::control::{AudioReport, GoodbyeReason, Message, Messages};
use openuvr_proto::wire::video::EchoKind;
use serde::{Deserialize, Serialize};

use crate::host::Notice;
use crate::host::config::Config;

/// The variable that names the socket to a process with the hook in it; without it the hook does nothing.
pub const SOCKET: &str = "OPENUVR_RUN";

/// The variable that names the socket to a process that links `libopenuvr`: it needs no hook, which
/// [`SOCKET`] would activate.
pub const API_SOCKET: &str = "OPENUVR_API";

/// The variable with the per-eye resolution for the OpenXR runtime: `WIDTHxHEIGHT`, in pixels.
pub const EYE: &str = "OPENUVR_XR_EYE";

/// The file of the OpenXR runtime's [`LaunchSettings`], in the configuration folder, for applications that no
/// OpenUVR program starts.
pub const XR_SETTINGS: &str = "xr-runtime.toml";

/// The settings of a host in an application's process, received once before it starts.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LaunchSettings {
    /// Whether the player's input goes to the application's display.
    pub input: bool,
    /// Streams only the window with this in its title or class; `None`: the largest.
    pub window: Option<String>,
    /// The per-eye resolution, if [`EYE`] is not set.
    pub eye: Option<String>,
    /// Whether the launcher has gateways, which connect to the host at a socket beside [`SOCKET`].
    pub gateways: bool,
    /// The host.
    pub host: Config,
}

impl LaunchSettings {
    /// Longest serialised form in bytes: far more than its few numbers, names and paths (PATH_MAX 4096).
    pub const MAX_LEN: usize = 32 << 10;

    /// As TOML.
    ///
    /// # Errors
    /// A path in it is not UTF-8.
    pub fn text(&self) -> Result<String, String> {
        toml::to_string(self).map_err(|e| format!("can't serialise the settings: {e}"))
    }

    /// Parses the received text.
    ///
    /// # Errors
    /// One line, if it can't be parsed: the other program has another version.
    pub fn read(text: &[u8]) -> Result<LaunchSettings, String> {
        let text = std::str::from_utf8(text).map_err(|e| e.to_string());
        text.and_then(|text| toml::from_str(text).map_err(|e| e.message().to_owned()))
            .map_err(|e| {
                format!(
                    "openuvr run and its library in the application have different versions: {e}"
                )
            })
    }
}

/// A message of the host.
#[derive(Clone, PartialEq, Debug)]
pub enum Line {
    /// It is streaming.
    Streaming {
        /// The picture size.
        size: Size,
        /// The endpoint for clients.
        endpoint: String,
    },
    /// A new device may pair.
    Invitation {
        /// The PIN.
        pin: String,
        /// The window's duration in seconds.
        seconds: u32,
    },
    /// A device paired.
    Paired {
        /// Its name.
        name: String,
        /// Its key's fingerprint.
        fingerprint: String,
    },
    /// An event of the pairing window, as text.
    Pairing(String),
    /// A subscriber joined.
    Subscribed {
        /// The subscriber.
        subscriber: SubscriberId,
        /// Its role.
        role: Role,
        /// Its name.
        name: String,
        /// Its software and version.
        software: String,
        /// Its rendition.
        rendition: RenditionId,
    },
    /// A subscriber's role changed.
    RoleChanged(SubscriberId, Role),
    /// A client's video now uses this transport.
    Link(SessionId, TransportKind),
    /// A subscriber left.
    Ended(SubscriberId, Ending),
    /// The record of a finished frame.
    Record(Box<FrameRecord>),
    /// A client's playback report.
    Audio(SessionId, AudioReport),
    /// A control event of a rendition.
    ControlEvent(RenditionId, ControlEvent),
    /// An encoder was opened for a rendition.
    EncoderOpened {
        /// The rendition.
        rendition: RenditionId,
        /// The encoder's name.
        encoder: String,
        /// The size of its pictures.
        size: Size,
    },
    /// A rendition's encoder was closed.
    EncoderClosed(RenditionId),
    /// The picture has a new size.
    Resized(Size),
    /// The size of the player's window, if there is one.
    PlayerWindow(Option<Size>),
    /// Whether the source is visible.
    SourceShown(bool),
    /// The player's input is injected into this display.
    InputDisplay(String),
    /// Keys and clicks are withheld for this reason; `None`: they reach the window again.
    InputWithheld(Option<String>),
    /// A message about clipboard sharing.
    Clipboard(String),
    /// A message about sound.
    Sound(String),
    /// The source ended normally.
    SourceEnded(String),
    /// A permanent failure; the application continues.
    Failed(String),
    /// Something failed; the stream continues.
    Warning(String),
}

impl From<Notice> for Line {
    fn from(notice: Notice) -> Line {
        match notice {
            Notice::Paired { name, fingerprint } => Line::Paired { name, fingerprint },
            Notice::Pairing(words) => Line::Pairing(words),
            Notice::Subscribed {
                subscriber,
                role,
                name,
                software,
                constraints: _,
                rendition,
            } => Line::Subscribed {
                subscriber,
                role,
                name,
                software,
                rendition,
            },
            Notice::RoleChanged(subscriber, role) => Line::RoleChanged(subscriber, role),
            Notice::Link(session, transport) => Line::Link(session, transport),
            Notice::Ended(subscriber, ending) => Line::Ended(subscriber, ending),
            Notice::Record(record) => Line::Record(record),
            Notice::Audio(session, report) => Line::Audio(session, report),
            Notice::ControlEvent { rendition, event } => Line::ControlEvent(rendition, event),
            Notice::EncoderOpened {
                rendition,
                encoder,
                size,
            } => Line::EncoderOpened {
                rendition,
                encoder,
                size,
            },
            Notice::EncoderClosed(rendition) => Line::EncoderClosed(rendition),
            Notice::Resized(size) => Line::Resized(size),
            Notice::NoPicture => Line::Warning(
                "a client is waiting, but the game has shown no picture yet".to_owned(),
            ),
            Notice::PlayerWindow(size) => Line::PlayerWindow(size),
            Notice::SourceShown(shown) => Line::SourceShown(shown),
            Notice::InputWithheld(why) => Line::InputWithheld(why.map(str::to_owned)),
            Notice::Clipboard(words) => Line::Clipboard(words),
            Notice::Sound(words) => Line::Sound(words),
            Notice::SourceEnded(why) => Line::SourceEnded(why.to_owned()),
            Notice::Failed(why) => Line::Failed(why),
            Notice::Warning(why) => Line::Warning(why),
            Notice::Lost(notices) => Line::Warning(format!(
                "{notices} messages lost: this machine can't keep up"
            )),
        }
    }
}

impl Line {
    /// Longest line in bytes: a record has about 40 numbers, a name or a reason is shorter.
    pub const MAX_LEN: usize = 8 << 10;

    /// Serialises it.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = Text(String::new());
        match self {
            Line::Streaming { size, endpoint } => text.put("streaming").size(*size).put(endpoint),
            Line::Invitation { pin, seconds } => text.put("invitation").put(pin).put(seconds),
            Line::Paired { name, fingerprint } => text.put("paired").put(name).put(fingerprint),
            Line::Pairing(words) => text.put("pairing").put(words),
            Line::Subscribed {
                subscriber,
                role,
                name,
                software,
                rendition,
            } => (text.put("subscribed").put(subscriber).put(role.name()))
                .put(name)
                .put(software)
                .put(rendition.0),
            Line::RoleChanged(subscriber, role) => {
                text.put("role").put(subscriber).put(role.name())
            }
            Line::Link(session, transport) => text.put("link").put(session.0).put(transport.name()),
            Line::Ended(subscriber, ending) => text.put("ended").put(subscriber).put(word(*ending)),
            Line::Record(record) => text.put("record").record(record),
            Line::Audio(session, report) => {
                (text.put("audio").put(session.0)).message(&Message::AudioReport(*report))
            }
            Line::ControlEvent(rendition, event) => {
                (text.put("decision").put(rendition.0)).message(&Message::ControlEvent(*event))
            }
            Line::EncoderOpened {
                rendition,
                encoder,
                size,
            } => (text.put("encoder-opened").put(rendition.0).put(encoder)).size(*size),
            Line::EncoderClosed(rendition) => text.put("encoder-closed").put(rendition.0),
            Line::Resized(size) => text.put("resized").size(*size),
            Line::PlayerWindow(Some(size)) => text.put("player-window").size(*size),
            Line::PlayerWindow(None) => text.put("no-player-window"),
            Line::SourceShown(true) => text.put("shown"),
            Line::SourceShown(false) => text.put("hidden"),
            Line::InputDisplay(display) => text.put("input-goes-to").put(display),
            Line::InputWithheld(Some(why)) => text.put("input-kept-back").put(why),
            Line::InputWithheld(None) => text.put("input-arrives"),
            Line::Clipboard(words) => text.put("clipboard").put(words),
            Line::Sound(words) => text.put("sound").put(words),
            Line::SourceEnded(why) => text.put("source-ended").put(why),
            Line::Failed(why) => text.put("failed").put(why),
            Line::Warning(why) => text.put("trouble").put(why),
        };
        text.0
    }

    /// Parses its text; `None` if it is unknown.
    #[must_use]
    pub fn read(text: &str) -> Option<Line> {
        let mut fields = Fields(text.split('\t'));
        Some(match fields.word()? {
            "streaming" => Line::Streaming {
                size: fields.size()?,
                endpoint: fields.words()?,
            },
            "invitation" => Line::Invitation {
                pin: fields.words()?,
                seconds: fields.number()?,
            },
            "paired" => Line::Paired {
                name: fields.words()?,
                fingerprint: fields.words()?,
            },
            "pairing" => Line::Pairing(fields.words()?),
            "subscribed" => Line::Subscribed {
                subscriber: fields.number()?,
                role: fields.role()?,
                name: fields.words()?,
                software: fields.words()?,
                rendition: RenditionId(fields.number()?),
            },
            "role" => Line::RoleChanged(fields.number()?, fields.role()?),
            "link" => {
                let (session, name) = (fields.session()?, fields.word()?);
                let transport = TransportKind::ALL
                    .into_iter()
                    .find(|transport| transport.name() == name)?;
                Line::Link(session, transport)
            }
            "ended" => Line::Ended(fields.number()?, meant(&ENDINGS, fields.word()?)?),
            "record" => Line::Record(Box::new(fields.record()?)),
            "audio" => match (fields.session()?, fields.message()?) {
                (session, Message::AudioReport(report)) => Line::Audio(session, report),
                _ => return None,
            },
            "decision" => match (fields.number()?, fields.message()?) {
                (rendition, Message::ControlEvent(event)) => {
                    Line::ControlEvent(RenditionId(rendition), event)
                }
                _ => return None,
            },
            "encoder-opened" => Line::EncoderOpened {
                rendition: RenditionId(fields.number()?),
                encoder: fields.words()?,
                size: fields.size()?,
            },
            "encoder-closed" => Line::EncoderClosed(RenditionId(fields.number()?)),
            "resized" => Line::Resized(fields.size()?),
            "player-window" => Line::PlayerWindow(Some(fields.size()?)),
            "no-player-window" => Line::PlayerWindow(None),
            "shown" => Line::SourceShown(true),
            "hidden" => Line::SourceShown(false),
            "input-goes-to" => Line::InputDisplay(fields.words()?),
            "input-kept-back" => Line::InputWithheld(Some(fields.words()?)),
            "input-arrives" => Line::InputWithheld(None),
            "clipboard" => Line::Clipboard(fields.words()?),
            "sound" => Line::Sound(fields.words()?),
            "source-ended" => Line::SourceEnded(fields.words()?),
            "failed" => Line::Failed(fields.words()?),
            "trouble" => Line::Warning(fields.words()?),
            _ => return None,
        })
    }
}

const ENDINGS: [(&str, Ending); 11] = [
    ("quit", Ending::Goodbye(GoodbyeReason::Quit)),
    ("source-ended", Ending::Goodbye(GoodbyeReason::SourceEnded)),
    ("taken-over", Ending::Goodbye(GoodbyeReason::TakenOver)),
    ("forbidden", Ending::Goodbye(GoodbyeReason::Forbidden)),
    ("failed", Ending::Goodbye(GoodbyeReason::Failed)),
    ("silent", Ending::Silent),
    ("replaced", Ending::Replaced),
    ("player-present", Ending::Refused(Refusal::PlayerPresent)),
    ("no-common-codec", Ending::Refused(Refusal::NoCommonCodec)),
    ("full", Ending::Refused(Refusal::Full)),
    ("closed", Ending::Closed),
];

const OUTCOMES: [(&str, Fidelity); 3] = [
    ("whole", Fidelity::Complete),
    ("concealed", Fidelity::Concealed),
    ("tainted", Fidelity::Tainted),
];

/// The outcome of a frame sent to a subscriber without reports.
const LEFT: &str = "left";

const CAUSES: [(&str, DropCause); 9] = [
    ("superseded", DropCause::Superseded),
    ("held-back", DropCause::CongestionSkipped),
    ("encode-failed", DropCause::EncodeFailed),
    ("send-buffer-full", DropCause::SendBufferFull),
    ("lost", DropCause::Lost),
    ("decode-failed", DropCause::DecodeFailed),
    ("awaiting-key-frame", DropCause::AwaitingKeyFrame),
    ("session-ended", DropCause::SessionEnded),
    ("unreported", DropCause::Unreported),
];

const ECHOES: [(&str, EchoKind); 3] = [
    ("none", EchoKind::None),
    ("injected", EchoKind::Injected),
    ("consumed", EchoKind::Consumed),
];

fn word_in<T: PartialEq>(table: &[(&'static str, T)], value: &T) -> &'static str {
    let found = table.iter().find(|(_, meaning)| meaning == value);
    found.map_or("?", |(word, _)| word)
}

fn meant<T: Copy>(table: &[(&str, T)], word: &str) -> Option<T> {
    let found = table.iter().find(|(known, _)| *known == word);
    found.map(|(_, meaning)| *meaning)
}

fn word(ending: Ending) -> &'static str {
    word_in(&ENDINGS, &ending)
}

struct Text(String);

impl Text {
    /// Appends a field; tabs and line breaks in it become spaces.
    fn put(&mut self, field: impl ToString) -> &mut Text {
        if !self.0.is_empty() {
            self.0.push('\t');
        }
        self.0 += &field.to_string().replace(['\t', '\n'], " ");
        self
    }

    /// Appends a field, or `-` for `None`.
    fn put_if(&mut self, field: Option<impl ToString>) -> &mut Text {
        match field {
            Some(field) => self.put(field),
            None => self.put("-"),
        }
    }

    /// Appends a message's wire form in hexadecimal.
    fn message(&mut self, message: &Message<'_>) -> &mut Text {
        let mut bytes = Vec::new();
        message.write(&mut bytes);
        let hex = bytes.iter().map(|byte| format!("{byte:02x}"));
        self.put(hex.collect::<String>())
    }

    fn size(&mut self, size: Size) -> &mut Text {
        self.put(size.width).put(size.height)
    }

    fn record(&mut self, record: &FrameRecord) -> &mut Text {
        self.put(record.subscriber).put(record.frame.0);
        match record.outcome {
            Outcome::Displayed(fidelity) => self.put(word_in(&OUTCOMES, &fidelity)).put("-"),
            Outcome::SentUnacknowledged => self.put(LEFT).put("-"),
            Outcome::Dropped { stage, why } => self.put(word_in(&CAUSES, &why)).put(stage.name()),
        };
        for stage in Stage::ALL {
            self.put_if(record.host.at(*stage).map(|at| at.0));
        }
        let nanos = |span: Option<Duration>| span.map(|span| span.as_nanos());
        let client = record.client;
        self.put_if(client.first_received.map(|at| at.0))
            .put_if(client.first_received_here.map(|here| here.at.0))
            .put_if(nanos(client.first_received_here.map(|here| here.bound)));
        for span in [
            client.recoverable,
            client.decoded,
            client.submitted,
            client.presented,
            record.motion_to_photon,
        ] {
            self.put_if(nanos(span));
        }
        let cost = record.cost;
        self.put(u8::from(cost.key_frame)).put(cost.qp);
        self.put(cost.datagrams).put(cost.parity).put(cost.bytes);
        self.put(word_in(&ECHOES, &record.echo));
        self.put(record.received).put(record.missing);
        self.put(record.runs);
        self.put(record.repaired).put(record.resent);
        self.put(record.view.stream).put(record.view.view);
        self.put_if(record.pose.map(|pose| pose.0))
    }
}

struct Fields<'a>(Split<'a, char>);

impl<'a> Fields<'a> {
    fn word(&mut self) -> Option<&'a str> {
        self.0.next()
    }

    fn words(&mut self) -> Option<String> {
        self.word().map(str::to_owned)
    }

    fn number<T: FromStr>(&mut self) -> Option<T> {
        self.word()?.parse().ok()
    }

    /// `Some(None)` for `-`.
    fn number_if<T: FromStr>(&mut self) -> Option<Option<T>> {
        match self.word()? {
            "-" => Some(None),
            word => word.parse().ok().map(Some),
        }
    }

    fn span_if(&mut self) -> Option<Option<Duration>> {
        Some(self.number_if()?.map(Duration::from_nanos))
    }

    fn size(&mut self) -> Option<Size> {
        let size = Size::new(self.number()?, self.number()?);
        size.is_valid().then_some(size)
    }

    fn message(&mut self) -> Option<Message<'static>> {
        let word = self.word()?;
        let digits = |at| word.get(at..at + 2);
        let bytes = (0..word.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(digits(at)?, 16).ok());
        let bytes: Vec<u8> = bytes.collect::<Option<_>>()?;
        match Messages::new(&bytes).next()? {
            Ok(Message::ControlEvent(event)) => Some(Message::ControlEvent(event)),
            Ok(Message::AudioReport(report)) => Some(Message::AudioReport(report)),
            _ => None,
        }
    }

    fn session(&mut self) -> Option<SessionId> {
        self.number().map(SessionId)
    }

    fn role(&mut self) -> Option<Role> {
        let word = self.word()?;
        let roles = [Role::Player, Role::Observer];
        roles.into_iter().find(|role| role.name() == word)
    }

    fn record(&mut self) -> Option<FrameRecord> {
        let (subscriber, frame) = (self.number()?, FrameId(self.number()?));
        let (word, stage) = (self.word()?, self.word()?);
        let outcome = match meant(&OUTCOMES, word) {
            Some(fidelity) => Outcome::Displayed(fidelity),
            None if word == LEFT => Outcome::SentUnacknowledged,
            None => Outcome::Dropped {
                stage: *Stage::ALL.iter().find(|known| known.name() == stage)?,
                why: meant(&CAUSES, word)?,
            },
        };
        let mut host = Stamps::default();
        for stage in Stage::ALL {
            if let Some(at) = self.number_if()? {
                host.stamp(*stage, Instant(at));
            }
        }
        let first_received = self.number_if()?.map(PeerInstant);
        let (here, bound) = (self.number_if()?, self.span_if()?);
        let here = here.zip(bound).map(|(at, bound)| Mapped {
            at: Instant(at),
            bound,
        });
        let client = ClientStamps {
            first_received,
            first_received_here: here,
            recoverable: self.span_if()?,
            decoded: self.span_if()?,
            submitted: self.span_if()?,
            presented: self.span_if()?,
        };
        let mut record = FrameRecord {
            subscriber,
            view: ViewId::FIRST,
            frame,
            host,
            client,
            outcome,
            motion_to_photon: self.span_if()?,
            cost: FrameCost {
                key_frame: self.number::<u8>()? != 0,
                qp: self.number()?,
                datagrams: self.number()?,
                parity: self.number()?,
                bytes: self.number()?,
            },
            echo: meant(&ECHOES, self.word()?)?,
            received: self.number()?,
            missing: self.number()?,
            runs: self.number()?,
            repaired: self.number()?,
            resent: self.number()?,
            pose: None,
            age: DisplayLatency::default(),
        };
        record.view.stream = self.number()?;
        record.view.view = self.number()?;
        record.pose = self.number_if()?.map(PoseId);
        Some(record)
    }
}

#[cfg(test)]
mod tests;
