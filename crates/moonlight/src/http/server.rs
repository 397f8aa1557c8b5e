//! A connection over HTTP or HTTPS: one request, one answer.

use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::answers::{answer_paired, answer_stranger};
use super::request::{MAX_HEADER, Request};
use super::response::Response;
use crate::admission::AdmissionSlot;
use crate::door::Door;

/// Answers a request over HTTP, at the host's own address `here`.
///
/// # Errors
/// Returns an error if the connection failed or the bytes were not a request.
pub(crate) fn serve(
    door: &Door,
    stream: &mut (impl Read + Write),
    slot: &mut AdmissionSlot,
    here: IpAddr,
) -> io::Result<()> {
    let request = read(stream)?;
    let response = answer_stranger(door, &request, slot, here);
    write(stream, &response)
}

/// Answers a request over HTTPS. A paired client has its own slot from the handshake on.
///
/// # Errors
/// Returns an error if the connection failed or the bytes were not a request.
pub(crate) fn serve_tls(
    door: &Door,
    config: Arc<ServerConfig>,
    stream: impl Read + Write,
    slot: &mut AdmissionSlot,
    here: IpAddr,
) -> io::Result<()> {
    let connection = ServerConnection::new(config).map_err(io::Error::other)?;
    let mut stream = StreamOwned::new(connection, stream);
    while stream.conn.is_handshaking() {
        stream.conn.complete_io(&mut stream.sock)?;
    }
    let certificate = stream
        .conn
        .peer_certificates()
        .and_then(|chain| chain.first());
    let certificate = certificate.map(|certificate| certificate.as_ref());
    let client = certificate.and_then(|certificate| door.paired(certificate));
    if let Some(client) = &client {
        slot.authenticated(Instant::now(), client.device);
    }
    let request = read(&mut stream)?;
    let response = match client {
        Some(client) => answer_paired(door, &request, &client, slot.from(), here),
        None => Response::refused(401, "The client is not paired with this host"),
    };
    write(&mut stream, &response)?;
    stream.conn.send_close_notify();
    stream.flush()
}

fn read(stream: &mut impl Read) -> io::Result<Request> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let parsed = Request::parse(&bytes);
        if let Some(request) = parsed.map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))? {
            return Ok(request);
        }
        let length = stream.read(&mut buffer)?;
        if length == 0 || bytes.len() > MAX_HEADER + 4 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        bytes.extend_from_slice(&buffer[..length]);
    }
}

fn write(stream: &mut impl Write, response: &Response) -> io::Result<()> {
    stream.write_all(&response.bytes())?;
    stream.flush()
}
