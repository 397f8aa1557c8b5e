//! The thread of the control stream.

use std::collections::HashMap;
use std::net::UdpSocket;
use std::sync::Arc;
use std::time::{Duration, Instant};

use openuvr_runtime::host::GatewayHost;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rusty_enet::{EventNoRef, Host, HostSettings, Packet, PeerID};

use super::message::Outgoing;
use super::peers::ConnectedClient;
use super::socket::KnownPeers;
use crate::door::Door;
use crate::session::{MAX_SESSIONS, Session};

/// Number of channels that clients open (`CTRL_CHANNEL_COUNT` of moonlight-common-c).
const CHANNELS: usize = 0x30;

/// Number of ENet peers: one for each session, and the same number for new connections.
const PEERS: usize = 2 * MAX_SESSIONS;

/// Maximum message length. The longest message of clients has about a hundred bytes.
const MAX_MESSAGE: usize = 4096;

/// Maximum memory for messages that wait for earlier ones.
const MAX_WAITING: usize = 64 * 1024;

/// Maximum events handled in a row before the thread does its other work.
const MAX_EVENTS: usize = 256;

/// Interval of the work that no message triggers: with sessions, and without sessions.
const BUSY_INTERVAL: Duration = Duration::from_millis(10);
const IDLE_INTERVAL: Duration = Duration::from_millis(100);

/// The first channel, which all clients have.
const CHANNEL: u8 = 0;

/// Serves clients until the Moonlight server stops.
pub(crate) fn serve(door: &Door, socket: UdpSocket) {
    let settings = HostSettings {
        peer_limit: PEERS,
        channel_limit: CHANNELS,
        ..HostSettings::default()
    };
    let mut enet = match Host::new(KnownPeers::new(socket, door.sessions.clone()), settings) {
        Ok(enet) => enet,
        Err(error) => {
            tracing::error!(
                "cannot open the control stream for Moonlight clients: {error}; restart the host"
            );
            return;
        }
    };
    // The results are ignored: both values are within the library's limits, so the calls cannot fail.
    let _ = enet.set_maximum_packet_size(MAX_MESSAGE);
    let _ = enet.set_maximum_waiting_data(MAX_WAITING);
    let mut clients = Clients::default();
    while !door.is_closing() {
        let interval = match door.sessions.all().is_empty() {
            true => IDLE_INTERVAL,
            false => BUSY_INTERVAL,
        };
        wait(enet.socket(), interval);
        let now = Instant::now();
        for _ in 0..MAX_EVENTS {
            match enet.service() {
                Ok(Some(event)) => {
                    let event = event.no_ref();
                    clients.event(now, event, &mut enet, door);
                }
                Ok(None) => break,
                Err(error) => {
                    tracing::debug!(%error, "control stream");
                    break;
                }
            }
        }
        clients.turn(now, &mut enet, &*door.host);
        clients.end_lost(now, &mut enet, door);
    }
    for (peer, client) in clients.0 {
        end_stream(&client, peer, &mut enet);
        door.end(&client.session);
    }
    // Sessions without a control connection must end, too.
    for session in door.sessions.all() {
        door.end(&session);
    }
    enet.flush();
}

fn wait(socket: &KnownPeers, timeout: Duration) {
    let timeout = Timespec::try_from(timeout).ok();
    let mut polled = [PollFd::new(socket, PollFlags::IN)];
    // If `poll` is interrupted or fails, the caller retries.
    let _ = poll(&mut polled, timeout.as_ref());
}

fn send(enet: &mut Host<KnownPeers>, peer: PeerID, message: &[u8]) {
    if let Some(peer) = enet.get_peer_mut(peer) {
        // An error is ignored, because a peer that is gone receives nothing more.
        let _ = peer.send(CHANNEL, &Packet::reliable(message));
    }
}

/// Notifies a client that its stream is over.
fn end_stream(client: &ConnectedClient, peer: PeerID, enet: &mut Host<KnownPeers>) {
    client.seal(Outgoing::Ended, &mut |message| send(enet, peer, &message));
    if let Some(peer) = enet.get_peer_mut(peer) {
        peer.disconnect_later(0);
    }
}

#[derive(Default)]
struct Clients(HashMap<PeerID, ConnectedClient>);

impl Clients {
    fn event(&mut self, now: Instant, event: EventNoRef, enet: &mut Host<KnownPeers>, door: &Door) {
        match event {
            EventNoRef::Connect { peer, data } => self.connect(now, peer, data, enet, door),
            EventNoRef::Disconnect { peer, .. } => {
                if let Some(client) = self.0.remove(&peer) {
                    door.end(&client.session);
                }
            }
            EventNoRef::Receive { peer, packet, .. } => {
                if let Some(client) = self.0.get_mut(&peer) {
                    client.receive(now, packet.data(), &*door.host);
                }
            }
        }
    }

    fn connect(
        &mut self,
        now: Instant,
        peer: PeerID,
        data: u32,
        enet: &mut Host<KnownPeers>,
        door: &Door,
    ) {
        let Some(connected) = enet.get_peer_mut(peer) else {
            return;
        };
        let address = connected
            .address()
            .map(|address| address.ip().to_canonical());
        let session = address.and_then(|address| door.sessions.of_connection(data, address));
        let session = session.filter(|session| session.plays());
        // A client that lost its connection connects again before the old connection times out. Its state is kept:
        // otherwise, an attacker could replay recorded messages of the old connection on the new one.
        let is_same = |other: &ConnectedClient| {
            (session.as_ref()).is_some_and(|session| Arc::ptr_eq(&other.session, session))
        };
        let before = self.0.iter().find(|(_, other)| is_same(other));
        let before = before.map(|(before, _)| *before);
        let client = match before.and_then(|before| self.0.remove(&before)) {
            Some(client) => Some(client),
            None => session.and_then(|session| ConnectedClient::new(session, now).ok()),
        };
        let Some(client) = client else {
            tracing::debug!(?address, "control connection without a session refused");
            connected.disconnect_now(0);
            return;
        };
        if let Some(before) = before
            && let Some(before) = enet.get_peer_mut(before)
        {
            before.disconnect_now(0);
        }
        self.0.insert(peer, client);
    }

    fn turn(&mut self, now: Instant, enet: &mut Host<KnownPeers>, host: &dyn GatewayHost) {
        for (peer, client) in &mut self.0 {
            let round_trip = enet.get_peer_mut(*peer).map(|peer| peer.round_trip_time());
            let round_trip = round_trip.unwrap_or_default();
            client.turn(now, round_trip, host, |message| send(enet, *peer, &message));
        }
    }

    /// Ends the sessions whose clients are gone, and the sessions that the host or a new launch has ended.
    fn end_lost(&mut self, now: Instant, enet: &mut Host<KnownPeers>, door: &Door) {
        for session in door.sessions.lost(now) {
            tracing::debug!(
                client = session.owner.title,
                "a Moonlight client has stopped responding"
            );
            door.end(&session);
        }
        door.end_finished();
        let is_over = |session: &Session| session.is_closed() || session.updates.ended().is_some();
        let over = self.0.extract_if(|_, client| is_over(&client.session));
        for (peer, client) in over.collect::<Vec<_>>() {
            end_stream(&client, peer, enet);
            door.end(&client.session);
        }
    }
}
