//! Finds the server-reflexive addresses of the media socket with STUN binding requests (RFC 8489; RFC 8445 section
//! 5.1.1.2).
//!
//! The module has no clock and no socket. Its input comes from the network, so a response counts only if it comes from the
//! queried address and matches an open request.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use stun_proto::agent::{StunAgent, StunAgentPollRet};
use stun_proto::types::TransportType;
use stun_proto::types::attribute::XorMappedAddress;
use stun_proto::types::message::{
    BINDING, Message, MessageClass, MessageWrite as _, MessageWriteVec, TransactionId,
};

/// Delay between the end of a transaction and the next one. The transactions keep NAT bindings alive. (RFC 8445 section
/// 11 sets Tr to 15 s. RFC 4787 requires bindings to last 120 s, but some NATs drop them after 30 s.)
pub(crate) const RESTART_DELAY: Duration = Duration::from_secs(15);

/// Initial retransmission timeout, doubled for each retransmission (RTO, RFC 8489 section 6.2.1).
const RTO: Duration = Duration::from_millis(500);
/// Number of transmissions (Rc).
const RC: u32 = 7;
/// Timeout after the last transmission, in units of RTO (Rm). A transaction thus fails 39.5 s after its first
/// transmission.
const RM: u32 = 16;

/// The reflexive addresses of a socket.
pub struct Reflexive {
    /// Retransmits requests.
    agent: StunAgent,
    /// The time that is zero on the agent's clock.
    origin: Instant,
    servers: Vec<Server>,
}

struct Server {
    at: SocketAddr,
    /// The address in the server's newest response, if it is usable. `None` before the first response, and after a
    /// transaction without a response.
    reflexive_address: Option<SocketAddr>,
    open: Option<TransactionId>,
    /// Time of the next request.
    due: Instant,
}

/// Classification of a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DatagramKind {
    /// Not a response of a server.
    Other,
    /// A server's response that matches no request or contains no usable address.
    Refused,
    /// A server's response with a usable address.
    Answer,
}

impl Reflexive {
    /// Creates the state for a socket at this address, without servers.
    #[must_use]
    pub fn new(now: Instant, socket: SocketAddr) -> Reflexive {
        let agent = StunAgent::builder(TransportType::Udp, socket);
        let agent = agent.request_retransmits(RTO, Duration::MAX, RC, RTO * RM);
        Reflexive {
            agent: agent.build(),
            origin: now,
            servers: Vec::new(),
        }
    }

    /// Sets the servers. Servers that were already set keep their state.
    pub fn request(&mut self, now: Instant, servers: &[SocketAddr]) {
        self.servers.retain(|server| servers.contains(&server.at));
        for at in servers {
            if self.servers.iter().all(|server| server.at != *at) {
                self.servers.push(Server {
                    at: *at,
                    reflexive_address: None,
                    open: None,
                    due: now,
                });
            }
        }
    }

    /// The reflexive addresses, each once.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        let mut addresses = Vec::new();
        for reflexive_address in self
            .servers
            .iter()
            .filter_map(|server| server.reflexive_address)
        {
            if !addresses.contains(&reflexive_address) {
                addresses.push(reflexive_address);
            }
        }
        addresses
    }

    /// Passes due requests to `send`. Returns the time by which `poll` must be called again.
    pub fn poll(&mut self, now: Instant, mut send: impl FnMut(SocketAddr, &[u8])) -> Instant {
        let time = self.time(now);
        for server in &mut self.servers {
            if server.open.is_some() || server.due > now {
                continue;
            }
            let question = Message::builder_request(BINDING, MessageWriteVec::new()).finish();
            let Ok(id) = Message::from_bytes(&question).map(|message| message.transaction_id())
            else {
                continue;
            };
            if let Ok(first) = self.agent.send_request(question, server.at, time) {
                send(first.to, &first.data);
                server.open = Some(id);
            }
        }
        let next = loop {
            match self.agent.poll(time) {
                StunAgentPollRet::TransactionTimedOut(id)
                | StunAgentPollRet::TransactionCancelled(id) => {
                    for server in self.servers.iter_mut().filter(|s| s.open == Some(id)) {
                        server.open = None;
                        server.reflexive_address = None;
                        server.due = now + RESTART_DELAY;
                    }
                }
                StunAgentPollRet::WaitUntil(at) => break at,
            }
        };
        while let Some(again) = self.agent.poll_transmit(time) {
            send(again.to, again.data);
        }
        let next = match self.agent.poll(time) {
            StunAgentPollRet::WaitUntil(at) => at,
            _ => next,
        };
        let due = self.servers.iter().filter(|server| server.open.is_none());
        let due = due.map(|server| server.due).min();
        let next = now + next.saturating_duration_since(time);
        due.map_or(next, |due| due.min(next))
    }

    /// Handles a datagram from `source`.
    pub fn receive(&mut self, now: Instant, source: SocketAddr, datagram: &[u8]) -> DatagramKind {
        let Some(at) = self.servers.iter().position(|server| server.at == source) else {
            return DatagramKind::Other;
        };
        let Ok(message) = Message::from_bytes(datagram) else {
            return DatagramKind::Other;
        };
        if !message.is_response() || !message.has_method(BINDING) {
            return DatagramKind::Other;
        }
        let id = message.transaction_id();
        let time = self.time(now);
        let server = &mut self.servers[at];
        if server.open != Some(id)
            || !(self.agent).handle_stun_message_with_time(&message, source, time)
        {
            return DatagramKind::Refused;
        }
        server.open = None;
        server.due = now + RESTART_DELAY;
        let mapped = message.attribute::<XorMappedAddress>().ok();
        let mapped = mapped.map(|address| address.addr(id));
        let mapped = mapped.filter(|_| message.has_class(MessageClass::Success));
        match mapped.filter(|address| may_be_reached(*address)) {
            Some(address) => {
                server.reflexive_address =
                    Some(SocketAddr::new(address.ip().to_canonical(), address.port()));
                DatagramKind::Answer
            }
            None => {
                server.reflexive_address = None;
                DatagramKind::Refused
            }
        }
    }

    fn time(&self, now: Instant) -> stun_proto::Instant {
        let nanos = now.saturating_duration_since(self.origin).as_nanos();
        stun_proto::Instant::from_nanos(i64::try_from(nanos).unwrap_or(i64::MAX))
    }
}

/// Whether the address can be reachable from other machines.
pub(crate) fn may_be_reached(address: SocketAddr) -> bool {
    let ip = address.ip().to_canonical();
    let never = match ip {
        IpAddr::V4(v4) => v4.is_broadcast() || v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    };
    let none = ip.is_unspecified() || ip.is_multicast() || ip.is_loopback();
    address.port() != 0 && !never && !none
}

#[cfg(test)]
mod tests {
    use stun_proto::types::message::MessageWriteExt as _;

    use super::*;

    const SERVER: &str = "198.51.100.1:3478";

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    /// The due requests, and the delay until the next call.
    fn sent(reflexive: &mut Reflexive, now: Instant) -> (Vec<(SocketAddr, Vec<u8>)>, Duration) {
        let mut all = Vec::new();
        let next = reflexive.poll(now, |to, datagram| all.push((to, datagram.to_vec())));
        (all, next.saturating_duration_since(now))
    }

    fn reflexive(now: Instant) -> Reflexive {
        let mut reflexive = Reflexive::new(now, address("10.0.0.2:4711"));
        reflexive.request(now, &[address(SERVER)]);
        reflexive
    }

    fn answer(question: &[u8], mapped: &str) -> Vec<u8> {
        let question = Message::from_bytes(question).unwrap();
        let mut answer = Message::builder_success(&question, MessageWriteVec::new());
        let mapped = XorMappedAddress::new(address(mapped), question.transaction_id());
        answer.add_attribute(&mapped).unwrap();
        answer.finish()
    }

    #[test]
    fn no_servers_mean_no_requests() {
        let now = Instant::now();
        let mut reflexive = Reflexive::new(now, address("[::]:4711"));
        assert_eq!(sent(&mut reflexive, now).0, []);
        assert_eq!(
            reflexive.receive(now, address(SERVER), &[1, 1, 0, 0]),
            DatagramKind::Other
        );
    }

    #[test]
    fn retransmission_follows_rfc_8489() {
        let start = Instant::now();
        let mut now = start;
        let mut reflexive = reflexive(now);
        let mut times = Vec::new();
        let mut ids = std::collections::BTreeSet::new();
        while now < start + Duration::from_millis(54_500) {
            let (all, wait) = sent(&mut reflexive, now);
            for (to, datagram) in all {
                assert_eq!(to, address(SERVER));
                ids.insert(datagram);
                times.push(now.duration_since(start).as_millis());
            }
            assert!(wait > Duration::ZERO);
            now += wait;
        }
        // RFC 8489 section 6.2.1.
        assert_eq!(times, [0, 500, 1500, 3500, 7500, 15_500, 31_500]);
        assert_eq!(ids.len(), 1, "a retransmission is the same message");
        // The transaction fails after 39.5 s. A new one starts `RESTART_DELAY` later, at this time.
        let (all, _) = sent(&mut reflexive, now);
        assert_eq!(all.len(), 1);
        assert!(ids.insert(all[0].1.clone()), "with another transaction");
    }

    #[test]
    fn the_newest_response_sets_the_address() {
        let mut now = Instant::now();
        let mut reflexive = reflexive(now);
        for mapped in [
            "203.0.113.7:4711",
            "203.0.113.7:4711",
            "203.0.113.8:1024",
            "[2001:db8::7]:4711",
        ] {
            let (all, _) = sent(&mut reflexive, now);
            assert_eq!(all.len(), 1);
            let said = answer(&all[0].1, mapped);
            assert_eq!(
                reflexive.receive(now, address(SERVER), &said),
                DatagramKind::Answer
            );
            assert_eq!(reflexive.addresses(), [address(mapped)]);
            // A duplicate: no request is open.
            assert_eq!(
                reflexive.receive(now, address(SERVER), &said),
                DatagramKind::Refused
            );
            let (all, wait) = sent(&mut reflexive, now);
            assert_eq!((all.len(), wait), (0, RESTART_DELAY));
            now += wait;
        }
        // Without further responses, the address expires with its transaction.
        for _ in 0..8 {
            now += sent(&mut reflexive, now).1;
        }
        sent(&mut reflexive, now);
        assert_eq!(reflexive.addresses(), []);
    }

    #[test]
    fn unmatched_responses_change_nothing() {
        let now = Instant::now();
        let mut reflexive = reflexive(now);
        let (all, _) = sent(&mut reflexive, now);
        let question = &all[0].1;
        let good = answer(question, "203.0.113.7:4711");
        // Wrong address, wrong port, wrong transaction, a request, a truncated response.
        for source in ["198.51.100.2:3478", "198.51.100.1:3479"] {
            assert_eq!(
                reflexive.receive(now, address(source), &good),
                DatagramKind::Other
            );
        }
        let other = Message::builder_request(BINDING, MessageWriteVec::new()).finish();
        let server = address(SERVER);
        let wrong = answer(&other, "203.0.113.7:4711");
        assert_eq!(
            reflexive.receive(now, server, &wrong),
            DatagramKind::Refused
        );
        assert_eq!(
            reflexive.receive(now, server, question),
            DatagramKind::Other
        );
        for length in 0..good.len() {
            let _ = reflexive.receive(now, server, &good[..length]);
        }
        assert_eq!(reflexive.addresses(), []);
        // The correct response still counts.
        assert_eq!(reflexive.receive(now, server, &good), DatagramKind::Answer);
        assert_eq!(reflexive.addresses(), [address("203.0.113.7:4711")]);
    }

    #[test]
    fn unusable_responses_are_refused() {
        for mapped in [
            "0.0.0.0:4711",
            "127.0.0.1:4711",
            "224.0.0.1:4711",
            "255.255.255.255:4711",
            "169.254.1.1:4711",
            "203.0.113.7:0",
            "[::]:4711",
            "[::1]:4711",
            "[fe80::1]:4711",
            "[ff02::1]:4711",
            "[::ffff:127.0.0.1]:4711",
        ] {
            let now = Instant::now();
            let mut reflexive = reflexive(now);
            let (all, _) = sent(&mut reflexive, now);
            let said = answer(&all[0].1, mapped);
            let kind = reflexive.receive(now, address(SERVER), &said);
            assert_eq!(kind, DatagramKind::Refused, "{mapped}");
            assert_eq!(reflexive.addresses(), [], "{mapped}");
        }
        let now = Instant::now();
        let mut reflexive = reflexive(now);
        let (all, _) = sent(&mut reflexive, now);
        let question = Message::from_bytes(&all[0].1).unwrap();
        let error = Message::builder_error(&question, MessageWriteVec::new()).finish();
        assert_eq!(
            reflexive.receive(now, address(SERVER), &error),
            DatagramKind::Refused
        );
        assert_eq!(sent(&mut reflexive, now).1, RESTART_DELAY);
    }
}
