//! A browser's connection: signalling over its WebSocket, then the messages of a player or observer. The connection
//! ends with the WebSocket, unless the portal that carried the WebSocket is gone.

mod pairing;
mod session;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::{SinkExt as _, StreamExt as _};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use openuvr_proto::control::identity::PublicKey;
use openuvr_proto::control::negotiate::ClientConstraints;
use tokio::sync::{broadcast, watch};
use tokio::time::{sleep_until, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::error::ProtocolError;
use tokio_tungstenite::tungstenite::{Error, Message};

use self::session::Session;
use crate::addresses::base;
use crate::peer::{OfferRefused, Peer};
use crate::shared::{Endpoints, Shared};
use crate::signalling::{Reply, Request};
use crate::visitor::Visitor;

type Socket = WebSocketStream<TokioIo<Upgraded>>;

/// Timeout for an offer, from the WebSocket's opening or from the end of a peer connection.
const OFFER_TIMEOUT: Duration = Duration::from_secs(30);

/// Timeout from the offer to the established connection. It also ends an attempt in which ICE finds no path.
const CONNECTED_TIMEOUT: Duration = Duration::from_secs(20);

/// Maximum signalling messages per second. A browser sends a dozen when it connects.
const MESSAGES_PER_SECOND: u32 = 100;

/// Interval of WebSocket pings (RFC 6455 section 5.5.2). Reverse proxies close a connection without traffic after a
/// minute (nginx, `proxy_read_timeout`), and a playing page sends no signalling.
const KEEP_ALIVE: Duration = Duration::from_secs(20);

/// Timeout for sending a message (a guess: the same as for video players). While a message is being sent, the other
/// timeouts and the end of the session are not checked. A browser that does not read must not delay these checks for
/// long.
const SEND_TIMEOUT: Duration = Duration::from_secs(10);

/// Options in the query of the WebSocket's URL.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct PageOptions {
    /// Observe only.
    pub(crate) watch: bool,
    /// The page reports the outcome of each frame. Only OpenUVR's own page does this.
    pub(crate) reports: bool,
    /// Requested constraints on the stream.
    pub(crate) constraints: ClientConstraints,
}

impl PageOptions {
    /// Ignores unknown and invalid options.
    pub(crate) fn from_query(query: &str) -> PageOptions {
        let has = |word: &str| query.split('&').any(|part| part == word);
        let value = |name: &str| {
            let mut pairs = query.split('&').filter_map(|part| part.split_once('='));
            pairs.find_map(|(key, value)| (key == name).then_some(value))
        };
        PageOptions {
            watch: has("role=watch"),
            reports: has("reports"),
            constraints: ClientConstraints {
                bitrate: value("bitrate").and_then(|bits| bits.parse().ok()),
                size: value("size").and_then(|size| size.parse().ok()),
                fps: None,
                chosen_fps: None,
            },
        }
    }
}

/// The peer connection that the browser has offered.
struct OfferedPeer {
    id: String,
    peer: Arc<Peer>,
    since: Instant,
    session: Option<Session>,
}

/// Serves a browser until it disconnects.
pub(crate) async fn serve(
    mut socket: Socket,
    visitor: Visitor,
    page_options: PageOptions,
    endpoints: Endpoints,
    shared: Arc<Shared>,
) {
    let stopping = shared.stopping.subscribe();
    let mut connection = Connection {
        visitor,
        page_options,
        local: media_address(&shared, endpoints),
        known: shared.addresses.watch(),
        dismissed: shared.dismissed.subscribe(),
        carrier_lost: false,
        shared,
        stopping,
        offered: None,
        idle_since: Instant::now(),
        counted: (Instant::now(), 0),
    };
    let mut last_ping = Instant::now();
    'serving: while let Some(replies) = connection.turn(&mut socket).await {
        let mut messages: Vec<Message> = replies.into_iter().map(Message::text).collect();
        if messages.is_empty() && last_ping.elapsed() >= KEEP_ALIVE && !connection.carrier_lost {
            messages.push(Message::Ping(Default::default()));
        }
        for message in messages {
            last_ping = Instant::now();
            match timeout(SEND_TIMEOUT, socket.send(message)).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => break,
                Err(_) => break 'serving,
            }
        }
    }
    connection.hang_up();
    let _ = timeout(SEND_TIMEOUT, socket.close(None)).await;
}

/// The local address for media: the address at which the browser reached the page or, behind a reverse proxy, the address
/// from which the kernel sends to the browser.
fn media_address(shared: &Shared, endpoints: Endpoints) -> SocketAddr {
    let towards = Some(endpoints.remote).filter(|_| endpoints.through_proxy);
    let own = towards.and_then(|browser| base(shared.media.main(), browser));
    own.unwrap_or_else(|| SocketAddr::new(endpoints.local.ip(), shared.media_port))
}

/// Runs a blocking operation without blocking other browsers.
async fn blocking<T: Send + 'static>(what: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(what).await {
        Ok(done) => done,
        Err(failed) => std::panic::resume_unwind(failed.into_panic()),
    }
}

struct Connection {
    visitor: Visitor,
    page_options: PageOptions,
    /// The local media address, as seen by the browser.
    local: SocketAddr,
    shared: Arc<Shared>,
    /// Other addresses at which this machine is reachable.
    known: watch::Receiver<Vec<SocketAddr>>,
    /// Set when the gateway stops. The gateway then waits until all receivers are dropped, at most `GOODBYE_TIMEOUT`.
    stopping: watch::Receiver<bool>,
    /// Devices that the portal disconnects.
    dismissed: broadcast::Receiver<PublicKey>,
    /// Whether the portal that carried the WebSocket is gone. Media continues until the browser disconnects.
    carrier_lost: bool,
    offered: Option<OfferedPeer>,
    idle_since: Instant,
    counted: (Instant, u32),
}

impl Connection {
    /// Waits for the next event and handles it. Returns the replies, or `None` at the end.
    async fn turn(&mut self, socket: &mut Socket) -> Option<Vec<String>> {
        if *self.stopping.borrow() {
            return None;
        }
        if self.carrier_lost && self.offered.is_none() {
            return None;
        }
        let Some(offered) = &mut self.offered else {
            let until = self.idle_since + OFFER_TIMEOUT;
            return tokio::select! {
                message = socket.next() => self.message(message?.ok()?),
                _ = self.stopping.changed() => None,
                () = sleep_until(until.into()) => None,
            };
        };
        let (events, next) = offered.peer.poll();
        let replies = self.handle_events(events).await;
        if replies.as_ref().is_none_or(|replies| !replies.is_empty()) {
            return replies;
        }
        let offered = self.offered.as_mut()?;
        let session = offered.session.as_ref();
        let next = session.map_or(next, |session| next.min(session.next_turn()));
        tokio::select! {
            message = socket.next(), if !self.carrier_lost => self.on_socket_message(message),
            _ = self.stopping.changed() => Some(self.goodbye()),
            Ok(device) = self.dismissed.recv() => match device == self.visitor.device {
                true => None,
                false => Some(Vec::new()),
            },
            () = offered.peer.woken.notified() => Some(Vec::new()),
            Ok(()) = self.known.changed() => Some(self.announce_addresses()),
            () = sleep_until(next.into()) => {
                offered.peer.tick();
                Some(Vec::new())
            }
        }
    }

    async fn handle_events(&mut self, events: Vec<crate::peer::PeerEvent>) -> Option<Vec<String>> {
        let offered = self.offered.as_mut()?;
        let mut why = None;
        for event in events {
            match &mut offered.session {
                Some(session) => session.event(&self.shared, event),
                None if matches!(event, crate::peer::PeerEvent::Connected) => {
                    let (shared, peer) = (self.shared.clone(), offered.peer.clone());
                    let (visitor, page_options) = (self.visitor.clone(), self.page_options);
                    // This call blocks if the host is in another process that is slow to answer.
                    let start = move || Session::start(&shared, &peer, &visitor, page_options);
                    match blocking(start).await {
                        Ok(session) => offered.session = Some(session),
                        Err(refused) => why = Some(refused),
                    }
                }
                // Without a session, messages of the data channels are ignored.
                None => {}
            }
        }
        if let Some(session) = &mut offered.session {
            session.request_role_change().await;
        }
        let late = offered.session.is_none() && offered.since.elapsed() > CONNECTED_TIMEOUT;
        if late && why.is_none() {
            why = Some("found no network path for media between browser and host".to_owned());
        }
        if let Some(session) = &mut offered.session
            && let Some(over) = session.turn(&self.shared)
        {
            why = Some(over);
        }
        if why.is_none() && offered.peer.is_alive() {
            return Some(Vec::new());
        }
        Some(self.end(why.as_deref()))
    }

    /// Announces new addresses to the browser.
    fn announce_addresses(&mut self) -> Vec<String> {
        let known = self.known.borrow_and_update().clone();
        let Some(OfferedPeer { id, peer, .. }) = &self.offered else {
            return Vec::new();
        };
        let candidates = peer.reached_at(&known);
        let told = candidates.iter().map(|candidate| Reply::Candidate {
            connection: id,
            candidate,
        });
        told.map(|reply| reply.to_text()).collect()
    }

    /// The final messages of a gateway that stops, with the host's reason if it gave one.
    fn goodbye(&mut self) -> Vec<String> {
        let session = self.offered.as_mut().and_then(|o| o.session.as_mut());
        let why = session.and_then(|session| session.turn(&self.shared));
        self.end(Some(why.as_deref().unwrap_or("the host has stopped")))
    }

    /// Ends the peer connection and reports the reason, if there is one.
    fn end(&mut self, why: Option<&str>) -> Vec<String> {
        let id = self.offered.as_ref().map(|offered| offered.id.clone());
        self.hang_up();
        let error = why.map(|message| Reply::Error { message }.to_text());
        let over = id.map(|id| Reply::Disconnect { connection: &id }.to_text());
        error.into_iter().chain(over).collect()
    }

    /// Handles a message or the end of the WebSocket. The loss of a portal's connection does not mean that the browser
    /// has disconnected.
    fn on_socket_message(
        &mut self,
        message: Option<Result<Message, Error>>,
    ) -> Option<Vec<String>> {
        let plays = self.offered.as_ref().is_some_and(|o| o.session.is_some());
        match message? {
            Ok(message) => self.message(message),
            Err(Error::Io(_) | Error::Protocol(ProtocolError::ResetWithoutClosingHandshake))
                if self.shared.portal_alone && plays =>
            {
                self.carrier_lost = true;
                Some(Vec::new())
            }
            Err(_) => None,
        }
    }

    fn message(&mut self, message: Message) -> Option<Vec<String>> {
        let (since, count) = &mut self.counted;
        if since.elapsed() >= Duration::from_secs(1) {
            (*since, *count) = (Instant::now(), 0);
        }
        *count += 1;
        if *count > MESSAGES_PER_SECOND {
            return None;
        }
        match message {
            Message::Text(text) => Some(self.request(&text)),
            Message::Close(_) => None,
            // Binary messages are ignored; the WebSocket library answers pings.
            _ => Some(Vec::new()),
        }
    }

    fn request(&mut self, text: &str) -> Vec<String> {
        let request = match Request::parse(text) {
            Ok(request) => request,
            Err(why) => {
                self.shared.counters.bad_messages.add(1);
                let message = why.to_string();
                return vec![Reply::Error { message: &message }.to_text()];
            }
        };
        match request {
            Request::Connect { connection } => vec![
                Reply::Connect {
                    connection: &connection,
                    ice_servers: &self.shared.ice_servers,
                }
                .to_text(),
            ],
            Request::Offer { connection, sdp } => vec![self.offer(connection, &sdp)],
            Request::Candidate {
                connection,
                candidate,
            } => {
                if let Some(offered) = self.offered.as_ref().filter(|o| o.id == connection) {
                    offered.peer.candidate(&candidate);
                }
                Vec::new()
            }
            Request::Disconnect { connection } => {
                if self.offered.as_ref().is_some_and(|o| o.id == connection) {
                    self.hang_up();
                }
                vec![
                    Reply::Disconnect {
                        connection: &connection,
                    }
                    .to_text(),
                ]
            }
        }
    }

    fn offer(&mut self, id: String, sdp: &str) -> String {
        if let Some(offered) = self.offered.as_ref().filter(|o| o.id == id) {
            // An ICE restart (RFC 8829 section 5.2.3.1): the session continues.
            return match offered.peer.answer_again(sdp) {
                Ok(sdp) => Reply::Answer {
                    connection: &id,
                    sdp: &sdp,
                }
                .to_text(),
                Err(why) => self.refused(&why),
            };
        }
        // One peer connection per WebSocket.
        self.hang_up();
        let mut known = self.known.borrow_and_update().clone();
        if self.local.ip().is_loopback() {
            known.extend(self.shared.media.on_this_machine());
        }
        let answered = Peer::answer(
            self.shared.media.clone(),
            (self.local, &known),
            sdp,
            &self.shared.media_options,
        );
        let (peer, answer) = match answered {
            Ok(answered) => answered,
            Err(why) => return self.refused(&why),
        };
        let peer = Arc::new(peer);
        self.shared.add(&peer);
        let reply = Reply::Answer {
            connection: &id,
            sdp: &answer,
        };
        let reply = reply.to_text();
        self.offered = Some(OfferedPeer {
            id,
            peer,
            since: Instant::now(),
            session: None,
        });
        reply
    }

    fn refused(&self, why: &OfferRefused) -> String {
        self.shared.counters.refused_offers.add(1);
        let message = why.to_string();
        Reply::Error { message: &message }.to_text()
    }

    /// Ends the peer connection, if there is one.
    fn hang_up(&mut self) {
        self.idle_since = Instant::now();
        let Some(offered) = self.offered.take() else {
            return;
        };
        drop(offered.session);
        offered.peer.close();
        self.shared.remove(&offered.peer);
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // The drop also runs if the task is cancelled when the gateway stops.
        self.hang_up();
    }
}

#[cfg(test)]
mod tests {
    use openuvr_proto::units::{Bitrate, Size};

    use super::*;

    #[test]
    fn the_query_sets_options() {
        let page_options =
            PageOptions::from_query("reports&role=watch&size=1280x720&bitrate=5000000");
        assert!(page_options.watch && page_options.reports);
        assert_eq!(page_options.constraints.size, Some(Size::new(1280, 720)));
        assert_eq!(page_options.constraints.bitrate, Some(Bitrate(5_000_000)));
        for nonsense in [
            "",
            "size=0x0&bitrate=-1",
            "size=&bitrate=",
            "size=1x1x1&bitrate=x",
        ] {
            assert_eq!(PageOptions::from_query(nonsense), PageOptions::default());
        }
    }
}
