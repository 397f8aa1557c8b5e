//! The messages of the control stream, inside their seal: type (2 bytes), length (2 bytes), contents. All numbers are
//! little-endian unless stated otherwise. Types and contents are those of `ControlStream.c` and `Video.h` of
//! moonlight-common-c.

use openuvr_proto::input::pad::{PadId, Rumble};

use crate::feedback::FecStatus;
use crate::input::InputPacket;

/// Types from clients.
const START_A: u16 = 0x0305;
const KEY_FRAME: u16 = 0x0302;
const INVALIDATE: u16 = 0x0301;
const PING: u16 = 0x0200;
const INPUT: u16 = 0x0206;
const FEC_STATUS: u16 = 0x5502;

/// Types from the host.
const RUMBLE: u16 = 0x010b;
const TERMINATION: u16 = 0x0109;

/// The reason code for a termination that is not an error (`NVST_DISCONN_SERVER_TERMINATED_CLOSED`).
const ENDED: u32 = 0x8003_0023;

/// A message from a client.
#[derive(Clone, PartialEq, Debug)]
pub enum Message {
    /// The stream starts, or the client needs a key frame.
    KeyFrame,
    /// Frames from this number on were lost.
    LostFrom(u32),
    /// A keep-alive message.
    Ping,
    /// Input.
    Input(InputPacket),
    /// A report on a block from which packets were lost.
    Fec(FecStatus),
    /// A message that this host ignores: its type is unknown or not used here, or its input packet is invalid or of an
    /// unknown kind.
    Ignored,
}

/// The message is invalid.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("not a message of the control stream")]
pub struct InvalidMessage;

impl Message {
    /// Parses opened contents.
    ///
    /// # Errors
    /// [`InvalidMessage`] if the message is invalid.
    pub fn parse(bytes: &[u8]) -> Result<Message, InvalidMessage> {
        let (header, contents) = bytes.split_at_checked(4).ok_or(InvalidMessage)?;
        let kind = u16::from_le_bytes([header[0], header[1]]);
        let length = u16::from_le_bytes([header[2], header[3]]);
        let contents = contents.get(..length.into()).ok_or(InvalidMessage)?;
        let number = |at: usize| {
            let bytes = contents.get(at..at + 4).ok_or(InvalidMessage)?;
            Ok(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
        };
        // The fields of `FEC_STATUS` are big-endian.
        let count = |at: usize| {
            let bytes = contents.get(at..at + 2).ok_or(InvalidMessage)?;
            Ok(u16::from_be_bytes([bytes[0], bytes[1]]))
        };
        Ok(match kind {
            KEY_FRAME | START_A => Message::KeyFrame,
            INVALIDATE => Message::LostFrom(number(0)?),
            PING => Message::Ping,
            INPUT => InputPacket::parse(contents).map_or(Message::Ignored, Message::Input),
            FEC_STATUS => {
                // The block's number of data packets, number of parity packets, and number of packets missing before
                // the newest packet that arrived. Later packets may still arrive.
                let (data, parity, missing) = (count(10)?, count(12)?, count(8)?);
                Message::Fec(FecStatus {
                    lost: missing.min(data.saturating_add(parity)),
                })
            }
            // For example 0x0307, which clients send after 0x0305 at the start of the stream, and messages of newer
            // clients.
            _ => Message::Ignored,
        })
    }
}

/// A message to a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outgoing {
    /// Run a pad's motors.
    Rumble(PadId, Rumble),
    /// The stream ends without an error.
    Ended,
}

impl Outgoing {
    /// The message's bytes, to be sealed.
    #[must_use]
    pub fn bytes(self) -> Vec<u8> {
        let (kind, contents) = match self {
            Outgoing::Rumble(pad, rumble) => {
                // Four bytes that clients skip.
                let mut contents = vec![0; 4];
                for word in [u16::from(pad.number()), rumble.strong, rumble.weak] {
                    contents.extend(word.to_le_bytes());
                }
                (RUMBLE, contents)
            }
            Outgoing::Ended => (TERMINATION, ENDED.to_be_bytes().to_vec()),
        };
        let length = u16::try_from(contents.len()).unwrap_or(u16::MAX);
        let mut bytes = kind.to_le_bytes().to_vec();
        bytes.extend(length.to_le_bytes());
        bytes.extend(contents);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u16, contents: &[u8]) -> Vec<u8> {
        let mut bytes = kind.to_le_bytes().to_vec();
        bytes.extend(u16::try_from(contents.len()).unwrap().to_le_bytes());
        bytes.extend_from_slice(contents);
        bytes
    }

    #[test]
    fn messages_are_parsed() {
        let parse = |kind, contents: &[u8]| Message::parse(&message(kind, contents));
        assert_eq!(parse(KEY_FRAME, &[0, 0]), Ok(Message::KeyFrame));
        assert_eq!(parse(PING, &[4, 0, 0, 0, 0, 0, 0, 0]), Ok(Message::Ping));
        let mut lost = [0; 24];
        lost[..4].copy_from_slice(&77_u32.to_le_bytes());
        assert_eq!(parse(INVALIDATE, &lost), Ok(Message::LostFrom(77)));
        let mut status = [0; 21];
        status[8..14].copy_from_slice(&[0, 3, 0, 20, 0, 2]);
        let three = Message::Fec(FecStatus { lost: 3 });
        assert_eq!(parse(FEC_STATUS, &status), Ok(three));
        status[8] = 0xff;
        let at_most_all = Message::Fec(FecStatus { lost: 22 });
        assert_eq!(parse(FEC_STATUS, &status), Ok(at_most_all));
        assert_eq!(parse(0x7777, &[]), Ok(Message::Ignored));
    }

    #[test]
    fn truncated_messages_are_refused() {
        for kind in [INVALIDATE, FEC_STATUS] {
            assert_eq!(Message::parse(&message(kind, &[0; 3])), Err(InvalidMessage));
        }
        let whole = message(PING, &[0; 8]);
        for end in 0..whole.len() {
            assert_eq!(Message::parse(&whole[..end]), Err(InvalidMessage), "{end}");
        }
    }

    #[test]
    fn messages_to_clients_have_their_form() {
        let rumble = Rumble {
            strong: 0x1234,
            weak: 0x5678,
        };
        let pad = PadId::new(2).unwrap();
        let expected = [0x0b, 1, 10, 0, 0, 0, 0, 0, 2, 0, 0x34, 0x12, 0x78, 0x56];
        assert_eq!(Outgoing::Rumble(pad, rumble).bytes(), expected);
        assert_eq!(Outgoing::Ended.bytes(), [9, 1, 4, 0, 0x80, 3, 0, 0x23]);
    }
}
