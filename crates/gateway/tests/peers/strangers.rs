//! Floods of unauthenticated clients affect only their own networks.

use std::io::{Read as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use openuvr_proto::control::negotiate::Role;
use openuvr_proto::control::ticket::{Holder, Ticket};
use openuvr_proto::units::Size;
use serde_json::Value;

use super::caller::Caller;
use super::portal::Portal;
use super::support::{PIN, Rig, connect_from, eventually};

const SIZE: Size = Size::new(320, 192);

/// Each client repeats the same request over one connection at a time, until `stop`. `answers` counts the responses.
fn flood(strangers: &[(Caller, String)], stop: &AtomicBool, answers: &AtomicU32) {
    let connections = strangers.iter().map(|(stranger, _)| stranger.secure());
    let mut streams: Vec<_> = connections.collect();
    let mut answer = [0; 4096];
    while !stop.load(Ordering::Relaxed) {
        for ((stranger, request), stream) in strangers.iter().zip(&mut streams) {
            let sent = stream.write_all(request.as_bytes());
            match sent.and_then(|()| stream.read(&mut answer)) {
                Ok(length) if length > 0 => {
                    answers.fetch_add(1, Ordering::Relaxed);
                }
                // The connection was evicted, or has expired.
                _ => *stream = stranger.secure(),
            }
        }
    }
}

/// A request of this caller for `path`.
fn request(caller: &Caller, path: &str, body: &str) -> String {
    let (host, origin) = (caller.gateway, caller.origin());
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nhost: {host}\r\norigin: {origin}\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}

/// Waits for this many more responses to the flood.
fn are_answered(answers: &AtomicU32, more: u32) {
    let before = answers.load(Ordering::Relaxed);
    eventually("responses to the flood", || {
        (answers.load(Ordering::Relaxed) - before >= more).then_some(())
    });
}

#[test]
fn junk_log_ins_block_no_known_browser() {
    let rig = Rig::new("junk", SIZE);
    let mut caller = Caller::known(&rig);
    eventually("the device list", || {
        let store = super::caller::devices(rig.folder.path());
        (!store.devices().is_empty()).then_some(())
    });
    let stop = Arc::new(AtomicBool::new(false));
    let answers = Arc::new(AtomicU32::new(0));
    let floods: Vec<_> = (0..4_u8)
        .map(|n| {
            let mut stranger = Caller::new(&rig);
            stranger.from = Some([127, 0, 0, 10 + n]);
            let body = stranger.body(&stranger.challenge(), &stranger.origin(), "");
            let request = match n {
                0 | 1 => request(&stranger, "/login", &body),
                _ => request(&stranger, "/login/challenge", ""),
            };
            let (stop, answers) = (stop.clone(), answers.clone());
            std::thread::spawn(move || flood(&[(stranger, request)], &stop, &answers))
        })
        .collect();
    // More requests than the rate limit of all unknown browsers allows, and more than a table of challenges could hold.
    let many = |more| are_answered(&answers, more);
    many(300);
    for _ in 0..5 {
        let challenge = caller.challenge();
        many(100);
        let body = caller.body(&challenge, &caller.origin(), "");
        let origin = format!("origin: {}", caller.origin());
        let answer = caller.request("POST /login", &[&origin], &body);
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(caller.log_in("").status, 200);
        many(100);
    }
    stop.store(true, Ordering::Relaxed);
    floods.into_iter().for_each(|flood| flood.join().unwrap());
}

/// The body of a log-in with a ticket of this portal.
fn with_ticket(caller: &Caller, portal: &Portal) -> String {
    let ticket = Ticket {
        session: portal.session,
        role: Role::Player,
        holder: Holder::FirstUse,
        not_after: Portal::in_a_minute(),
        id: Ticket::new_id().unwrap(),
    };
    let body = caller.body(&caller.challenge(), &caller.origin(), "");
    let mut body: Value = serde_json::from_str(&body).unwrap();
    body["ticket"] = ticket.sign(&portal.signer).to_string().into();
    body.to_string()
}

#[test]
fn junk_tickets_block_no_valid_ticket() {
    let portal = Portal::new();
    let rig = Rig::with_tickets("tickets", SIZE, portal.lease(), |config| {
        config.pin = None;
        config.ticket_key = Some(portal.signer.public());
        config.ticket_session = Some(portal.session);
    });
    let stop = Arc::new(AtomicBool::new(false));
    let answers = Arc::new(AtomicU32::new(0));
    // There are more networks (80) than tickets that the rate limit allows per second (64), so one ticket from each
    // network would use up the limit. The tickets are well-formed, but from another portal.
    let junk = Portal::new();
    let floods: Vec<_> = (0..4_u8)
        .map(|thread| {
            let strangers = (0..20_u8).map(|n| {
                let mut stranger = Caller::new(&rig);
                stranger.from = Some([127, 0, 1 + thread, 1 + n]);
                let request = request(&stranger, "/login", &with_ticket(&stranger, &junk));
                (stranger, request)
            });
            let strangers: Vec<_> = strangers.collect();
            let (stop, answers) = (stop.clone(), answers.clone());
            std::thread::spawn(move || flood(&strangers, &stop, &answers))
        })
        .collect();
    let many = |more| are_answered(&answers, more);
    many(300);
    for _ in 0..5 {
        let caller = Caller::new(&rig);
        let body = with_ticket(&caller, &portal);
        let origin = format!("origin: {}", caller.origin());
        let answer = caller.request("POST /login", &[&origin], &body);
        assert_eq!(answer.status, 200, "{answer:?}");
        many(200);
    }
    stop.store(true, Ordering::Relaxed);
    floods.into_iter().for_each(|flood| flood.join().unwrap());
}

#[test]
fn four_full_networks_admit_a_browser() {
    let rig = Rig::new("places", SIZE);
    // More idle connections than slots.
    let held: Vec<_> = (0..4_u8)
        .flat_map(|n| std::iter::repeat_n([127, 0, 0, 20 + n], 80))
        .map(|from| connect_from(from, rig.address()))
        .collect();
    let mut caller = Caller::new(&rig);
    assert_eq!(caller.log_in(PIN).status, 200);
    assert!(caller.websocket("", &caller.origin()).is_ok());
    drop(held);
}
