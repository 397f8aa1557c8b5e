//! Hostile clients: without the token, sending garbage, flooding, or not reading.

use std::net::TcpStream;

use crate::support::connect_from;

use crate::Players;
use crate::player::{Player, VIDEO};

#[test]
fn without_the_token_nothing_is_found() {
    let players = Players::new("rtsp-token");
    let address = players.server.address();
    for wrong in ["", "/", "/the-secret-of-test", "/the-secret-of-testsx"] {
        let mut player = Player::connect(address, &format!("rtsp://{address}{wrong}"));
        assert_eq!(player.request("OPTIONS", "", "").0, 200);
        assert_eq!(player.request("DESCRIBE", "", "").0, 404, "{wrong}");
        let transport = "Transport: RTP/AVP/TCP;interleaved=0-1\r\n";
        assert_eq!(
            player.request("SETUP", "/video", transport).0,
            404,
            "{wrong}"
        );
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
        // A connection reset discards the response.
        assert!(
            rest.is_empty() || rest.starts_with(b"RTSP/1.0 400 "),
            "{rest:?}"
        );
    }
    // Unsolicited packets and responses.
    let mut player = Player::that_plays(address, &players.url());
    for _ in 0..100 {
        player.send(9, &[0x80; 700]);
        player.send(1, &[0x80; 7]);
        player.write(b"RTSP/1.0 200 OK\r\nCSeq: 1\r\n\r\n");
    }
    assert_eq!(player.request("GET_PARAMETER", "/", "").0, 200);
}

#[test]
fn one_network_has_four_players() {
    let players = Players::new("rtsp-crowd");
    let address = players.server.address();
    let accept = "Accept: application/sdp\r\n";
    let mut four: Vec<Player> = (0..4)
        .map(|_| Player::connect(address, &players.url()))
        .collect();
    for player in &mut four {
        assert_eq!(player.request("DESCRIBE", "", accept).0, 200);
        // The player still has its slot.
        assert_eq!(player.request("DESCRIBE", "", accept).0, 200);
    }
    let mut fifth = Player::connect(address, &players.url());
    assert_eq!(fifth.request("OPTIONS", "", "").0, 200);
    let (status, text) = fifth.request("DESCRIBE", "", accept);
    assert_eq!(status, 503, "{text}");
    assert!(fifth.rest().is_empty());
    drop(four);
    // Slots are free once their threads have ended.
    crate::support::eventually("a free slot", || {
        let mut player = Player::connect(address, &players.url());
        (player.request("DESCRIBE", "", accept).0 == 200).then_some(())
    });
}

/// Idle connections from these networks, `each` per network.
fn strangers(players: &Players, networks: impl Iterator<Item = u8>, each: usize) -> Vec<TcpStream> {
    let there = players.server.address();
    let from = networks.flat_map(|network| std::iter::repeat_n(network, each));
    from.map(|network| connect_from([127, 0, 0, network], there))
        .collect()
}

#[test]
fn four_full_networks_admit_a_player() {
    let players = Players::new("rtsp-four");
    // More connections than slots. All of them are idle.
    let mut held = strangers(&players, 2..=5, 16);
    let mut player = Player::that_plays(players.server.address(), &players.url());
    player.packet();
    // A player is not evicted.
    held.extend(strangers(&players, 2..=5, 16));
    for _ in 0..100 {
        player.packet();
    }
    let mut other = Player::that_plays(players.server.address(), &players.url());
    other.packet();
    drop(held);
}

#[test]
fn a_slow_reader_does_not_affect_others() {
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
