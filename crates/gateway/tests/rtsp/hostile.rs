//! Whoever comes without the token, with garbage, in masses, or does not read.

use std::net::TcpStream;

use crate::Players;
use crate::player::{Player, VIDEO};

#[test]
fn without_the_token_there_is_nothing_to_see() {
    let players = Players::new("rtsp-token");
    let address = players.server.address();
    for wrong in ["", "/", "/the-secret-of-test", "/the-secret-of-testsx"] {
        let mut player = Player::connect(address, &format!("rtsp://{address}{wrong}"));
        assert_eq!(player.ask("OPTIONS", "", "").0, 200);
        assert_eq!(player.ask("DESCRIBE", "", "").0, 404, "{wrong}");
        let transport = "Transport: RTP/AVP/TCP;interleaved=0-1\r\n";
        assert_eq!(player.ask("SETUP", "/video", transport).0, 404, "{wrong}");
    }
}

#[test]
fn garbage_is_answered_once_and_the_connection_closed() {
    let players = Players::new("rtsp-garbage");
    let address = players.server.address();
    let header = format!(
        "DESCRIBE rtsp://h/ RTSP/1.0\r\nX: {}\r\n",
        "y".repeat(100_000)
    );
    for garbage in [
        &b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"[..],
        &[0xff; 3000],
        header.as_bytes(),
    ] {
        let mut player = Player::connect(address, "");
        player.write(garbage);
        let rest = player.rest();
        // A connection that is reset takes the answer with it.
        assert!(
            rest.is_empty() || rest.starts_with(b"RTSP/1.0 400 "),
            "{rest:?}"
        );
    }
    // Packets nobody asked for, and answers to nothing.
    let mut player = Player::that_plays(address, &players.url());
    for _ in 0..100 {
        player.send(9, &[0x80; 700]);
        player.send(1, &[0x80; 7]);
        player.write(b"RTSP/1.0 200 OK\r\nCSeq: 1\r\n\r\n");
    }
    assert_eq!(player.ask("GET_PARAMETER", "/", "").0, 200);
}

#[test]
fn one_address_has_four_places_and_gets_them_back() {
    let players = Players::new("rtsp-crowd");
    let address = players.server.address();
    let mut four: Vec<Player> = (0..4)
        .map(|_| Player::connect(address, "rtsp://h/"))
        .collect();
    for player in &mut four {
        assert_eq!(player.ask("OPTIONS", "", "").0, 200);
    }
    let mut fifth = Player::connect(address, "rtsp://h/");
    assert!(fifth.rest().is_empty());
    drop(four);
    // The places are free when their threads have ended.
    let mut next = std::iter::from_fn(|| {
        let mut player = Player::connect(address, "rtsp://h/");
        player.write(b"OPTIONS * RTSP/1.0\r\nCSeq: 1\r\nConnection: close\r\n\r\n");
        player.write(b"not RTSP\r\n\r\n");
        Some(player.rest())
    });
    assert!(
        next.by_ref()
            .take(2000)
            .any(|rest| rest.starts_with(b"RTSP/1.0 200"))
    );
}

#[test]
fn one_that_does_not_read_costs_another_nothing() {
    let players = Players::new("rtsp-stalled");
    let address = players.server.address();
    let stalled = Player::that_plays(address, &players.url());
    let mut other = Player::that_plays(address, &players.url());
    let mut frames = 0;
    while frames < 240 {
        let (channel, bytes) = other.packet();
        frames += usize::from(channel == VIDEO && bytes[1] & 0x80 != 0);
    }
    drop(stalled);
}

#[test]
fn a_server_that_ends_ends_all_connections() {
    let players = Players::new("rtsp-end");
    let address = players.server.address();
    let mut player = Player::that_plays(address, &players.url());
    player.packet();
    drop(players);
    player.rest();
    assert!(TcpStream::connect(address).is_err());
}
