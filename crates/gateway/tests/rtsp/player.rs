//! An emulated video player with full control of each step: requests, and packets in its connection.

#![allow(dead_code, reason = "each test uses part of it")]

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use crate::support::TIMEOUT;

/// The requested channels.
pub(crate) const VIDEO: u8 = 0;
pub(crate) const VIDEO_RTCP: u8 = 1;
pub(crate) const AUDIO: u8 = 2;

pub(crate) struct Player {
    stream: TcpStream,
    bytes: Vec<u8>,
    url: String,
    number: u32,
    session: Option<String>,
    /// The response to PLAY.
    plays: Option<String>,
}

impl Player {
    pub(crate) fn connect(address: SocketAddr, url: &str) -> Player {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        Player {
            stream,
            bytes: Vec::new(),
            url: url.to_owned(),
            number: 0,
            session: None,
            plays: None,
        }
    }

    /// A player of both tracks.
    pub(crate) fn that_plays(address: SocketAddr, url: &str) -> Player {
        let mut player = Player::connect(address, url);
        let (status, text) = player.request("DESCRIBE", "", "Accept: application/sdp\r\n");
        assert_eq!(status, 200, "{text}");
        for (track, channels) in [("/video", "0-1"), ("/audio", "2-3")] {
            let transport = format!("Transport: RTP/AVP/TCP;unicast;interleaved={channels}\r\n");
            let (status, text) = player.request("SETUP", track, &transport);
            assert_eq!(status, 200, "{text}");
            let named = text.lines().find_map(|line| line.strip_prefix("Session: "));
            player.session = named.map(|id| id.split(';').next().unwrap().to_owned());
        }
        let (status, text) = player.request("PLAY", "/", "Range: npt=0.000-\r\n");
        assert_eq!(status, 200, "{text}");
        player.plays = Some(text);
        player
    }

    pub(crate) fn answer_to_play(&self) -> &str {
        self.plays.as_deref().unwrap()
    }

    /// Sends a request and waits for the response. Returns its status and its full text. Earlier packets are skipped.
    pub(crate) fn request(&mut self, method: &str, path: &str, headers: &str) -> (u16, String) {
        self.number += 1;
        let session = self.session.as_ref().map(|id| format!("Session: {id}\r\n"));
        let session = session.unwrap_or_default();
        let (url, number) = (&self.url, self.number);
        let request =
            format!("{method} {url}{path} RTSP/1.0\r\nCSeq: {number}\r\n{session}{headers}\r\n");
        self.stream.write_all(request.as_bytes()).unwrap();
        loop {
            self.more();
            if self.bytes[0] == b'$' {
                assert!(
                    self.plays.is_some(),
                    "a packet before the first response to PLAY"
                );
                self.packet();
                continue;
            }
            let text = String::from_utf8_lossy(&self.bytes).into_owned();
            let Some((head, _)) = text.split_once("\r\n\r\n") else {
                self.read().unwrap();
                continue;
            };
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("Content-Length: "));
            let length = length.map_or(0, |length| length.parse().unwrap());
            let whole = head.len() + 4 + length;
            while self.bytes.len() < whole {
                self.read().unwrap();
            }
            let answer: Vec<u8> = self.bytes.drain(..whole).collect();
            let answer = String::from_utf8(answer).unwrap();
            assert!(answer.contains(&format!("CSeq: {number}\r\n")), "{answer}");
            return (answer[9..12].parse().unwrap(), answer);
        }
    }

    /// The next packet: its channel and bytes.
    pub(crate) fn packet(&mut self) -> (u8, Vec<u8>) {
        loop {
            self.more();
            assert_eq!(self.bytes[0], b'$');
            if let [_, channel, high, low, rest @ ..] = &self.bytes[..] {
                let length = usize::from(u16::from_be_bytes([*high, *low]));
                if let Some(packet) = rest.get(..length) {
                    let packet = (*channel, packet.to_vec());
                    self.bytes.drain(..4 + length);
                    return packet;
                }
            }
            self.read().unwrap();
        }
    }

    pub(crate) fn send(&mut self, channel: u8, packet: &[u8]) {
        let [high, low] = u16::try_from(packet.len()).unwrap().to_be_bytes();
        self.stream.write_all(&[b'$', channel, high, low]).unwrap();
        self.stream.write_all(packet).unwrap();
    }

    /// Sends arbitrary bytes.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        // The server may have closed the connection.
        let _ = self.stream.write_all(bytes);
    }

    /// Reads until the server closes the connection.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        while let Ok(true) = self.read() {}
        std::mem::take(&mut self.bytes)
    }

    fn more(&mut self) {
        if self.bytes.is_empty() {
            assert!(self.read().unwrap(), "the server closed the connection");
        }
    }

    /// Reads more data. Returns whether there was any.
    fn read(&mut self) -> std::io::Result<bool> {
        let mut bytes = [0; 65_536];
        let length = self.stream.read(&mut bytes)?;
        self.bytes.extend_from_slice(&bytes[..length]);
        Ok(length > 0)
    }
}
