//! An RTSP connection: one request, one response.

use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::sync::Arc;

use super::handshake::{StreamPorts, answer};
use super::message::{MAX_REQUEST, Request, Response};
use super::sealed::{SealedRequest, open, seal};
use crate::door::Door;
use crate::session::Session;

/// Answers the request of a client at `from`.
///
/// # Errors
/// Returns an error if the connection failed or the bytes were not a request of a session.
pub(crate) fn serve(door: &Door, stream: &mut (impl Read + Write), from: IpAddr) -> io::Result<()> {
    let candidates = door.sessions.from_address(from);
    if candidates.is_empty() {
        // The sender is a stranger, so nothing is read and nothing is answered.
        return Err(io::Error::other(
            "no session was launched from this address",
        ));
    }
    let invalid = |error| io::Error::new(io::ErrorKind::InvalidData, error);
    let mut bytes = Vec::new();
    loop {
        if SealedRequest::is_begun(&bytes) {
            if let Some(request) = SealedRequest::parse(&bytes).map_err(invalid)? {
                return sealed(door, stream, &request, &candidates);
            }
        } else if let Some(request) = Request::parse(&bytes).map_err(invalid)? {
            return plain(door, stream, &request, &candidates);
        }
        let mut buffer = [0; 2048];
        let length = stream.read(&mut buffer)?;
        if length == 0 || bytes.len() > 2 * MAX_REQUEST {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        bytes.extend_from_slice(&buffer[..length]);
    }
}

fn sealed(
    door: &Door,
    stream: &mut impl Write,
    sealed: &SealedRequest,
    candidates: &[Arc<Session>],
) -> io::Result<()> {
    let opened = candidates.iter().find_map(|session| {
        let plain = open(&session.launch.key, sealed)?;
        Some((session, plain))
    });
    let (session, plain) =
        opened.ok_or_else(|| io::Error::other("the request is sealed with an unknown key"))?;
    if !session.opens_rtsp(sealed.number) {
        return Err(io::Error::other("a repeated request"));
    }
    let request = Request::parse(&plain);
    let request = request.ok().flatten();
    let (response, number) = match &request {
        Some(request) => (respond(door, session, request), request.number),
        None => (Response::of(400), 0),
    };
    let failed = || io::Error::other("the response cannot be sealed");
    let sequence = session.next_rtsp().ok_or_else(failed)?;
    let bytes = seal(&session.launch.key, sequence, &response.bytes(number));
    stream.write_all(&bytes.map_err(|_| failed())?)
}

fn plain(
    door: &Door,
    stream: &mut impl Write,
    request: &Request,
    candidates: &[Arc<Session>],
) -> io::Result<()> {
    // A plain request never reaches the session of a client that supports sealing.
    let mut plain = candidates
        .iter()
        .filter(|session| !session.launch.seals_rtsp);
    let session = match &request.session {
        Some(name) => plain.find(|session| session.name == *name),
        // The newest session is assumed.
        None => plain.next(),
    };
    let response = match session {
        Some(session) => respond(door, session, request),
        None => Response::of(454),
    };
    stream.write_all(&response.bytes(request.number))
}

fn respond(door: &Door, session: &Arc<Session>, request: &Request) -> Response {
    let ports = StreamPorts {
        video: door.addresses.video.port(),
        control: door.addresses.control.port(),
        sound: door.addresses.sound.port(),
    };
    let answered = answer(session, request, ports);
    if let Some(why) = answered.refusal {
        let client = &session.owner.title;
        (door.announce)(&format!("{client} cannot play: {why}"));
    }
    if answered.ends {
        door.end(session);
    }
    answered.response
}
