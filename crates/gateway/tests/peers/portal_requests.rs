//! Requests of a portal to its session. Authenticated browsers are admitted, and other clients learn nothing.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;

use openuvr_gateway::PortalListener;
use openuvr_proto::control::identity::PublicKey;
use openuvr_proto::control::negotiate::Role;
use openuvr_proto::control::ticket::{Action, Holder, KeyHash, Ticket};
use openuvr_proto::units::Size;
use serde_json::json;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{self, WebSocket};

use super::caller::{Caller, Secure, next, send_message};
use super::portal::Portal;
use super::support::{Rig, TIMEOUT};

const SIZE: Size = Size::new(320, 192);

fn rig(portal: &Portal, name: &str, listener: PortalListener) -> Rig {
    Rig::for_portal(name, SIZE, (portal.lease(), listener), |config| {
        config.pin = None;
        config.ticket_key = Some(portal.signer.public());
        config.ticket_session = Some(portal.session);
    })
}

fn token(portal: &Portal, actions: &[Action]) -> (&'static str, String) {
    ("authorization", portal.bearer(actions))
}

impl Portal {
    /// Credentials of a browser.
    fn visitor(&self, device: [u8; 32], role: Role) -> Vec<(&'static str, String)> {
        let ticket = Ticket {
            session: self.session,
            role,
            holder: Holder::Key(KeyHash::of(&PublicKey(device))),
            not_after: Portal::in_a_minute(),
            id: Ticket::new_id().unwrap(),
        };
        let digits = device.iter().map(|byte| format!("{byte:02x}"));
        vec![
            ("x-openuvr-ticket", ticket.sign(&self.signer).to_string()),
            ("x-openuvr-device", digits.collect()),
            ("x-openuvr-name", "ada".to_owned()),
            ("x-forwarded-for", "127.0.0.1".to_owned()),
        ]
    }
}

/// Opens the WebSocket as a portal does. The error is the HTTP status.
fn enter(
    caller: &Caller,
    token: &(&'static str, String),
    visitor: &[(&'static str, String)],
) -> Result<WebSocket<Secure>, u16> {
    let url = format!("wss://{}/session/signalling?reports", caller.gateway);
    let mut request = url.into_client_request().unwrap();
    for (name, value) in visitor.iter().chain([token]) {
        request.headers_mut().insert(*name, value.parse().unwrap());
    }
    match tungstenite::client(request, caller.secure()) {
        Ok((socket, _)) => Ok(socket),
        Err(tungstenite::HandshakeError::Failure(tungstenite::Error::Http(answer))) => {
            Err(answer.status().as_u16())
        }
        Err(e) => panic!("{e}"),
    }
}

fn is_answered(socket: &mut WebSocket<Secure>) {
    send_message(socket, &json!({ "type": "connect", "connectionId": "1" }));
    assert_eq!(next(socket).unwrap()["type"], "connect");
}

#[test]
fn only_the_portals_browsers_come_in_by_https() {
    let portal = Portal::new();
    let rig = rig(&portal, "portal-https", PortalListener::Https);
    let caller = Caller::new(&rig);
    // There is neither page nor log-in for any client.
    let origin = format!("origin: {}", caller.origin());
    for asked in [
        "GET /",
        "GET /page.js",
        "GET /metrics",
        "GET /signalling",
        "POST /login/challenge",
        "POST /login",
    ] {
        let answer = caller.request(asked, &[&origin], "");
        assert_eq!(answer.status, 404, "{asked}");
        assert!(answer.body.contains("open it there"), "{answer:?}");
    }
    let connect = token(&portal, &[Action::Connect]);
    let visitor = || portal.visitor([7; 32], Role::Player);
    let mut plays = enter(&caller, &connect, &visitor()).unwrap();
    is_answered(&mut plays);
    // Refused: the portal's token for other actions, the token of another portal, and a request without a token.
    let status = token(&portal, &[Action::Status, Action::Renew, Action::Stop]);
    assert_eq!(enter(&caller, &status, &visitor()).err(), Some(403));
    let stranger = Portal {
        session: portal.session,
        ..Portal::new()
    };
    let forged = token(&stranger, &[Action::Connect]);
    assert_eq!(enter(&caller, &forged, &visitor()).err(), Some(401));
    let none = ("x-nothing", String::new());
    assert_eq!(enter(&caller, &none, &visitor()).err(), Some(401));
    // A ticket is valid once and for one device, and only a ticket from this portal is accepted.
    let mut stolen = visitor();
    stolen[1].1 = "09".repeat(32);
    assert_eq!(enter(&caller, &connect, &stolen).err(), Some(401));
    let once = portal.visitor([8; 32], Role::Observer);
    is_answered(&mut enter(&caller, &connect, &once).unwrap());
    let mut again = once.clone();
    again[1].1 = "09".repeat(32);
    assert_eq!(enter(&caller, &connect, &again).err(), Some(401));
    let foreign = stranger.visitor([9; 32], Role::Player);
    assert_eq!(enter(&caller, &connect, &foreign).err(), Some(401));
    for lacks in 0..4 {
        let mut some = visitor();
        some.remove(lacks);
        assert_eq!(enter(&caller, &connect, &some).err(), Some(400), "{lacks}");
    }
    is_answered(&mut plays);
}

#[test]
fn a_portal_on_this_machine_connects_through_a_socket() {
    let portal = Portal::new();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("portal");
    let rig = rig(
        &portal,
        "portal-socket",
        PortalListener::Socket(path.clone()),
    );
    assert_eq!(rig.gateway.fingerprint(), "");
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // There is no TCP listener at the gateway's media port.
    std::net::TcpStream::connect(rig.address()).unwrap_err();
    let ask = |request: &str, headers: &[(&str, String)]| {
        let mut stream = UnixStream::connect(&path).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        let mut text = format!("{request} HTTP/1.1\r\nhost: session\r\n");
        for (name, value) in headers {
            text += &format!("{name}: {value}\r\n");
        }
        stream.write_all((text + "\r\n").as_bytes()).unwrap();
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap() == 1 {
            head.push(byte[0]);
        }
        let head = String::from_utf8(head).unwrap();
        head.split(' ').nth(1).unwrap().parse::<u16>().unwrap()
    };
    assert_eq!(ask("GET /", &[]), 404);
    assert_eq!(ask("GET /session", &[]), 401);
    assert_eq!(
        ask("GET /session", &[token(&portal, &[Action::Status])]),
        200
    );
    let mut whole = portal.visitor([7; 32], Role::Player);
    whole.push(token(&portal, &[Action::Connect]));
    for (name, value) in [
        ("connection", "Upgrade"),
        ("upgrade", "websocket"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ] {
        whole.push((name, value.to_owned()));
    }
    assert_eq!(ask("GET /session/signalling", &whole), 101);
}
