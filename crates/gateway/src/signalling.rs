//! Signalling between browser and gateway over a WebSocket, with the messages of Unity Render Streaming. Each message
//! is a JSON object. The protocol distinguishes any number of connections by their ids, but here a WebSocket carries
//! one connection at a time.
//!
//! | message | from | means |
//! |---|---|---|
//! | `connect` | both | starts a connection with this id; the gateway echoes it |
//! | `offer` | browser | session description |
//! | `answer` | gateway | session description of the gateway |
//! | `candidate` | both | one more address; without a `candidate`: end of candidates |
//! | `disconnect` | both | ends the connection |
//! | `error` | gateway | error message for the user (an extension) |

use openuvr_gateway_settings::IceServer;
use serde::{Deserialize, Serialize};

/// Maximum length of a message in bytes. The session description of a browser with all its codecs has 10 kB.
pub const MAX_MESSAGE: usize = 64 * 1024;

/// Maximum length of a connection's id in bytes. Browsers send a UUID.
const MAX_ID: usize = 64;

/// A message from a browser.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Request {
    /// Starts a connection.
    Connect {
        /// Its id.
        connection: String,
    },
    /// The browser's session description.
    Offer {
        /// The connection's id.
        connection: String,
        /// The session description (RFC 8866).
        sdp: String,
    },
    /// Another candidate address of the browser (RFC 8839 section 5.1). An empty one marks the end of candidates.
    Candidate {
        /// The connection's id.
        connection: String,
        /// The address.
        candidate: String,
    },
    /// Ends the connection.
    Disconnect {
        /// Its id.
        connection: String,
    },
}

/// Why a message is invalid.
#[derive(Debug, thiserror::Error)]
pub enum BadMessage {
    /// It is longer than [`MAX_MESSAGE`].
    #[error("message longer than {MAX_MESSAGE} bytes")]
    TooLong,
    /// It is not JSON, or lacks a member.
    #[error("not a signalling message: {0}")]
    Json(#[from] serde_json::Error),
    /// Its type is not a type of [`Request`].
    #[error("unknown message type")]
    Type,
    /// The connection's id is missing or too long.
    #[error("connectionId must have 1 to {MAX_ID} bytes")]
    Id,
    /// An offer without a description.
    #[error("offer without data.sdp")]
    NoSdp,
}

/// The members of all messages. Other members are ignored.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wire {
    #[serde(rename = "type")]
    kind: String,
    from: Option<String>,
    connection_id: Option<String>,
    data: Option<WireData>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireData {
    connection_id: Option<String>,
    sdp: Option<String>,
    candidate: Option<String>,
}

impl Request {
    /// Parses a message.
    ///
    /// # Errors
    /// [`BadMessage`] if the message is invalid.
    pub fn parse(text: &str) -> Result<Request, BadMessage> {
        if text.len() > MAX_MESSAGE {
            return Err(BadMessage::TooLong);
        }
        let wire: Wire = serde_json::from_str(text)?;
        let (in_data, sdp, candidate) = match wire.data {
            Some(data) => (data.connection_id, data.sdp, data.candidate),
            None => (None, None, None),
        };
        let connection = wire.connection_id.or(in_data).or(wire.from);
        let connection = connection.filter(|id| (1..=MAX_ID).contains(&id.len()));
        let connection = connection.ok_or(BadMessage::Id)?;
        match wire.kind.as_str() {
            "connect" => Ok(Request::Connect { connection }),
            "offer" => {
                let sdp = sdp.ok_or(BadMessage::NoSdp)?;
                Ok(Request::Offer { connection, sdp })
            }
            "candidate" => Ok(Request::Candidate {
                connection,
                candidate: candidate.unwrap_or_default(),
            }),
            "disconnect" => Ok(Request::Disconnect { connection }),
            _ => Err(BadMessage::Type),
        }
    }
}

/// A message to a browser.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reply<'a> {
    /// Starts the connection. The message makes the browser the polite peer, which yields when both sides offer at the
    /// same time. Here, only browsers make offers.
    Connect {
        /// Its id.
        connection: &'a str,
        /// ICE servers for the browser. Clients of Unity Render Streaming ignore them.
        ice_servers: &'a [IceServer],
    },
    /// The gateway's session description.
    Answer {
        /// The connection's id.
        connection: &'a str,
        /// The session description.
        sdp: &'a str,
    },
    /// Another candidate address of the gateway.
    Candidate {
        /// The connection's id.
        connection: &'a str,
        /// The address (RFC 8839 section 5.1).
        candidate: &'a str,
    },
    /// Ends the connection.
    Disconnect {
        /// Its id.
        connection: &'a str,
    },
    /// A request failed.
    Error {
        /// The reason, for the user.
        message: &'a str,
    },
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Out<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    connection_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    polite: Option<bool>,
    #[serde(skip_serializing_if = "<[IceServer]>::is_empty")]
    ice_servers: &'a [IceServer],
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<OutData<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OutData<'a> {
    connection_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    sdp: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    candidate: Option<&'a str>,
    /// The media section to which the candidate belongs. All sections share one transport.
    #[serde(rename = "sdpMLineIndex", skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
}

impl Reply<'_> {
    /// Its text.
    #[must_use]
    pub fn to_text(&self) -> String {
        let plain = |kind| Out {
            kind,
            from: None,
            connection_id: None,
            polite: None,
            ice_servers: &[],
            message: None,
            data: None,
        };
        let out = match *self {
            Reply::Connect {
                connection,
                ice_servers,
            } => Out {
                connection_id: Some(connection),
                polite: Some(true),
                ice_servers,
                ..plain("connect")
            },
            Reply::Answer { connection, sdp } => Out {
                from: Some(connection),
                data: Some(OutData {
                    connection_id: connection,
                    sdp: Some(sdp),
                    candidate: None,
                    line: None,
                }),
                ..plain("answer")
            },
            Reply::Candidate {
                connection,
                candidate,
            } => Out {
                from: Some(connection),
                data: Some(OutData {
                    connection_id: connection,
                    sdp: None,
                    candidate: Some(candidate),
                    line: Some(0),
                }),
                ..plain("candidate")
            },
            Reply::Disconnect { connection } => Out {
                connection_id: Some(connection),
                ..plain("disconnect")
            },
            Reply::Error { message } => Out {
                message: Some(message),
                ..plain("error")
            },
        };
        serde_json::to_string(&out).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_unity_render_streaming_are_read() {
        let id = || "a1".to_owned();
        let read = |text| Request::parse(text).unwrap();
        assert_eq!(
            read(r#"{"type":"connect","connectionId":"a1"}"#),
            Request::Connect { connection: id() }
        );
        let offer =
            r#"{"type":"offer","from":"a1","data":{"sdp":"v=0","connectionId":"a1"},"x":[1]}"#;
        let sdp = "v=0".to_owned();
        assert_eq!(
            read(offer),
            Request::Offer {
                connection: id(),
                sdp
            }
        );
        let candidate = r#"{"type":"candidate","from":"a1","data":{"candidate":"candidate:1 1 udp 1 ::1 9 typ host",
            "sdpMLineIndex":0,"sdpMid":"0","connectionId":"a1"}}"#;
        assert!(matches!(
            read(candidate),
            Request::Candidate { candidate, .. } if candidate.starts_with("candidate:1")
        ));
        assert_eq!(
            read(r#"{"type":"disconnect","connectionId":"a1"}"#),
            Request::Disconnect { connection: id() }
        );
    }

    #[test]
    fn invalid_messages_are_refused_with_a_reason() {
        let why = |text: &str| Request::parse(text).unwrap_err().to_string();
        assert!(why("{").starts_with("not a signalling message"));
        assert!(why(r#"{"type":"connect"}"#).contains("connectionId"));
        let long = "x".repeat(MAX_ID + 1);
        let long = format!(r#"{{"type":"connect","connectionId":"{long}"}}"#);
        assert!(why(&long).contains("connectionId"));
        assert!(why(r#"{"type":"offer","from":"a"}"#).contains("data.sdp"));
        assert!(why(r#"{"type":"sing","from":"a"}"#).contains("unknown message type"));
        assert!(why(&" ".repeat(MAX_MESSAGE + 1)).contains("longer than"));
    }

    #[test]
    fn replies_have_the_shape_that_its_client_reads() {
        let answer = Reply::Answer {
            connection: "a1",
            sdp: "v=0",
        };
        assert_eq!(
            answer.to_text(),
            r#"{"type":"answer","from":"a1","data":{"connectionId":"a1","sdp":"v=0"}}"#
        );
        let candidate = Reply::Candidate {
            connection: "a1",
            candidate: "candidate:1",
        };
        assert_eq!(
            candidate.to_text(),
            r#"{"type":"candidate","from":"a1","data":{"connectionId":"a1","candidate":"candidate:1","sdpMLineIndex":0}}"#
        );
        let connect = Reply::Connect {
            connection: "a1",
            ice_servers: &[],
        };
        assert_eq!(
            connect.to_text(),
            r#"{"type":"connect","connectionId":"a1","polite":true}"#
        );
    }
}
