//! Answers the requests of a session, without I/O: OPTIONS, DESCRIBE, three SETUPs, ANNOUNCE, PLAY, TEARDOWN.

use super::announce::parameters;
use super::description::description;
use super::message::{Request, Response};
use crate::session::Session;

/// Ports of the streams.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StreamPorts {
    /// Video.
    pub video: u16,
    /// Control stream.
    pub control: u16,
    /// Sound.
    pub sound: u16,
}

/// The answer to a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    /// The response.
    pub response: Response,
    /// Whether the client has ended the session.
    pub ends: bool,
    /// Why the request was refused, for the user at the host.
    pub refusal: Option<String>,
}

impl Answer {
    fn of(response: Response) -> Answer {
        Answer {
            response,
            ends: false,
            refusal: None,
        }
    }

    fn refused(status: u16, why: impl ToString) -> Answer {
        Answer {
            refusal: Some(why.to_string()),
            ..Answer::of(Response::of(status))
        }
    }
}

/// Answers a request in `session`.
#[must_use]
pub fn answer(session: &Session, request: &Request, ports: StreamPorts) -> Answer {
    let named = request.session.as_deref();
    if named.is_some_and(|named| named != session.name) {
        return Answer::of(Response::of(454));
    }
    match request.method.as_str() {
        "OPTIONS" => {
            let methods = "OPTIONS, DESCRIBE, SETUP, ANNOUNCE, PLAY, TEARDOWN";
            Answer::of(Response::of(200).with("Public", methods))
        }
        "DESCRIBE" => Answer::of(Response {
            body: description(),
            ..Response::of(200)
        }),
        "SETUP" => Answer::of(set_up(session, &request.target, ports)),
        "ANNOUNCE" => match parameters(&request.body) {
            Ok(parameters) if session.announce(parameters) => Answer::of(Response::of(200)),
            Ok(_) => Answer::refused(455, "the session is already playing"),
            Err(why) => Answer::refused(400, why),
        },
        "PLAY" => match session.play() {
            true => Answer::of(Response::of(200).with("Session", &session.name)),
            false => Answer::refused(455, "the session cannot start playing now"),
        },
        "TEARDOWN" => Answer {
            ends: true,
            ..Answer::of(Response::of(200))
        },
        _ => Answer::of(Response::of(400)),
    }
}

fn set_up(session: &Session, target: &str, ports: StreamPorts) -> Response {
    let stream = target.rsplit_once("streamid=").map(|(_, stream)| stream);
    let stream = stream.and_then(|stream| stream.split('/').next());
    let port = match stream {
        Some("video") => ports.video,
        Some("audio") => ports.sound,
        Some("control") => ports.control,
        _ => return Response::of(404),
    };
    let response = Response::of(200)
        .with("Session", format!("{};timeout = 90", session.name))
        .with("Transport", format!("server_port={port}"));
    match stream {
        Some("control") => response.with("X-SS-Connect-Data", session.connect_data.to_string()),
        // The token consists of hexadecimal digits.
        _ => response.with("X-SS-Ping-Payload", String::from_utf8_lossy(&session.ping)),
    }
}
