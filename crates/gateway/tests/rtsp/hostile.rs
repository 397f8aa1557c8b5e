//! Whoever comes without the token, with garbage, in masses, or does not read.

use std::net::TcpStream;

use crate::support::connect_from;

use crate::Players;
use crate::player::{Player, VIDEO};

#[test]
fn without_the_token_there_is_nothing_to_see() {
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
    assert_eq!(player.request("GET_PARAMETER", "/", "").0, 200);
}

#[test]
fn one_network_has_four_players_and_gets_their_places_back() {
    let players = Players::new("rtsp-crowd");
    let address = players.server.address();
    let accept = "Accept: application/sdp\r\n";
    let mut four: Vec<Player> = (0..4)
        .map(|_| Player::connect(address, &players.url()))
        .collect();
    for player in &mut four {
        assert_eq!(player.request("DESCRIBE", "", accept).0, 200);
        // Again: it has its place.
        assert_eq!(player.request("DESCRIBE", "", accept).0, 200);
    }
    let mut fifth = Player::connect(address, &players.url());
    assert_eq!(fifth.request("OPTIONS", "", "").0, 200);
    let (status, text) = fifth.request("DESCRIBE", "", accept);
    assert_eq!(status, 503, "{text}");
    assert!(fifth.rest().is_empty());
    drop(four);
    // The places are free when their threads have ended.
    crate::support::eventually("a place is free", || {
        let mut player = Player::connect(address, &players.url());
        (player.request("DESCRIBE", "", accept).0 == 200).then_some(())
    });
}

/// Connections from these networks that say nothing, so many from each.
fn strangers(players: &Players, networks: impl Iterator<Item = u8>, each: usize) -> Vec<TcpStream> {
    let there = players.server.address();
    let from = networks.flat_map(|network| std::iter::repeat_n(network, each));
    from.map(|network| connect_from([127, 0, 0, network], there))
        .collect()
}

#[test]
fn four_networks_that_hold_all_places_keep_no_player_out() {
    let players = Players::new("rtsp-four");
    // As many as there are places, and more: of each network some say nothing, and some that they are there.
    let mut held = strangers(&players, 2..=5, 16);
    let mut player = Player::that_plays(players.server.address(), &players.url());
    player.packet();
    // One that plays is not displaced.
    held.extend(strangers(&players, 2..=5, 16));
    for _ in 0..100 {
        player.packet();
    }
    let mut other = Player::that_plays(players.server.address(), &players.url());
    other.packet();
    drop(held);
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
