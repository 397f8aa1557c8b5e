//! Where STUN servers see the socket of the media: the questions and their answers as a value (RFC 8489, binding
//! requests; RFC 8445 section 5.1.1.2).
//!
//! It has no clock and no socket. What it is told comes from the network: only an answer counts that a server gave
//! from the address that was asked, to a question that is open.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use stun_proto::agent::{StunAgent, StunAgentPollRet};
use stun_proto::types::TransportType;
use stun_proto::types::attribute::XorMappedAddress;
use stun_proto::types::message::{
    BINDING, Message, MessageClass, MessageWrite as _, MessageWriteVec, TransactionId,
};

/// From the end of a question to the next: keeps what translators remember of the socket (RFC 8445 section 11 has Tr
/// of 15 s; RFC 4787 lets no translator forget within 120 s, but some forget after 30).
pub(crate) const AGAIN_AFTER: Duration = Duration::from_secs(15);

/// Until the first repetition of a question; each further one comes after twice as long (RTO, RFC 8489 section 6.2.1).
const RTO: Duration = Duration::from_millis(500);
/// How often it is sent in all (Rc) …
const RC: u32 = 7;
/// … and after how often the RTO from the last one on it has failed (Rm): 39.5 s after the first.
const RM: u32 = 16;

/// Where servers see a socket.
pub struct Reflexive {
    /// Repeats questions.
    agent: StunAgent,
    /// Zero on the agent's clock.
    origin: Instant,
    servers: Vec<Server>,
}

struct Server {
    at: SocketAddr,
    /// What its newest answer says; `None`: it has given none, or not to the last question.
    seen: Option<SocketAddr>,
    open: Option<TransactionId>,
    /// When it is asked again.
    due: Instant,
}

/// What a datagram was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DatagramKind {
    /// Nothing that a server answers.
    Other,
    /// A server's answer that fits no question, or says nothing of use.
    Refused,
    /// A server's answer.
    Answer,
}

impl Reflexive {
    /// Of a socket at this address; no server is asked.
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

    /// These are the servers from now on. One that was there before stays as it is.
    pub fn request(&mut self, now: Instant, servers: &[SocketAddr]) {
        self.servers.retain(|server| servers.contains(&server.at));
        for at in servers {
            if self.servers.iter().all(|server| server.at != *at) {
                self.servers.push(Server {
                    at: *at,
                    seen: None,
                    open: None,
                    due: now,
                });
            }
        }
    }

    /// The addresses at which servers see the socket, each once.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        let mut addresses = Vec::new();
        for seen in self.servers.iter().filter_map(|server| server.seen) {
            if !addresses.contains(&seen) {
                addresses.push(seen);
            }
        }
        addresses
    }

    /// Gives `send` what is to be sent now, and says when to call this again: at the latest then.
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
                        server.seen = None;
                        server.due = now + AGAIN_AFTER;
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

    /// A datagram came from `source`.
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
        server.due = now + AGAIN_AFTER;
        let mapped = message.attribute::<XorMappedAddress>().ok();
        let mapped = mapped.map(|address| address.addr(id));
        let mapped = mapped.filter(|_| message.has_class(MessageClass::Success));
        match mapped.filter(|address| may_be_reached(*address)) {
            Some(address) => {
                server.seen = Some(SocketAddr::new(address.ip().to_canonical(), address.port()));
                DatagramKind::Answer
            }
            None => {
                server.seen = None;
                DatagramKind::Refused
            }
        }
    }

    fn time(&self, now: Instant) -> stun_proto::Instant {
        let nanos = now.saturating_duration_since(self.origin).as_nanos();
        stun_proto::Instant::from_nanos(i64::try_from(nanos).unwrap_or(i64::MAX))
    }
}

/// Whether others may reach something at this address at all.
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

    /// What is to be sent now, and after how long to look again.
    fn sent(asked: &mut Reflexive, now: Instant) -> (Vec<(SocketAddr, Vec<u8>)>, Duration) {
        let mut all = Vec::new();
        let next = asked.poll(now, |to, datagram| all.push((to, datagram.to_vec())));
        (all, next.saturating_duration_since(now))
    }

    fn asked(now: Instant) -> Reflexive {
        let mut asked = Reflexive::new(now, address("10.0.0.2:4711"));
        asked.request(now, &[address(SERVER)]);
        asked
    }

    fn answer(question: &[u8], mapped: &str) -> Vec<u8> {
        let question = Message::from_bytes(question).unwrap();
        let mut answer = Message::builder_success(&question, MessageWriteVec::new());
        let mapped = XorMappedAddress::new(address(mapped), question.transaction_id());
        answer.add_attribute(&mapped).unwrap();
        answer.finish()
    }

    #[test]
    fn without_a_server_nobody_is_asked() {
        let now = Instant::now();
        let mut asked = Reflexive::new(now, address("[::]:4711"));
        assert_eq!(sent(&mut asked, now).0, []);
        assert_eq!(
            asked.receive(now, address(SERVER), &[1, 1, 0, 0]),
            DatagramKind::Other
        );
    }

    #[test]
    fn a_question_is_repeated_as_specified_and_then_fails() {
        let start = Instant::now();
        let mut now = start;
        let mut asked = asked(now);
        let mut times = Vec::new();
        let mut ids = std::collections::BTreeSet::new();
        while now < start + Duration::from_millis(54_500) {
            let (all, wait) = sent(&mut asked, now);
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
        assert_eq!(ids.len(), 1, "a repetition is the same message");
        // Failed after 39.5 s, and asked anew.
        let (all, _) = sent(&mut asked, now);
        assert_eq!(all.len(), 1);
        assert!(ids.insert(all[0].1.clone()), "with another transaction");
    }

    #[test]
    fn the_newest_answer_says_where_the_socket_is_seen() {
        let mut now = Instant::now();
        let mut asked = asked(now);
        for mapped in [
            "203.0.113.7:4711",
            "203.0.113.7:4711",
            "203.0.113.8:1024",
            "[2001:db8::7]:4711",
        ] {
            let (all, _) = sent(&mut asked, now);
            assert_eq!(all.len(), 1);
            let said = answer(&all[0].1, mapped);
            assert_eq!(
                asked.receive(now, address(SERVER), &said),
                DatagramKind::Answer
            );
            assert_eq!(asked.addresses(), [address(mapped)]);
            // The same again: nothing is open.
            assert_eq!(
                asked.receive(now, address(SERVER), &said),
                DatagramKind::Refused
            );
            let (all, wait) = sent(&mut asked, now);
            assert_eq!((all.len(), wait), (0, AGAIN_AFTER));
            now += wait;
        }
        // It goes silent: what it said is forgotten with its question.
        for _ in 0..8 {
            now += sent(&mut asked, now).1;
        }
        sent(&mut asked, now);
        assert_eq!(asked.addresses(), []);
    }

    #[test]
    fn what_answers_no_question_changes_nothing() {
        let now = Instant::now();
        let mut asked = asked(now);
        let (all, _) = sent(&mut asked, now);
        let question = &all[0].1;
        let good = answer(question, "203.0.113.7:4711");
        // Another place, another port of the same machine, another transaction, no answer, half of one.
        for source in ["198.51.100.2:3478", "198.51.100.1:3479"] {
            assert_eq!(
                asked.receive(now, address(source), &good),
                DatagramKind::Other
            );
        }
        let other = Message::builder_request(BINDING, MessageWriteVec::new()).finish();
        let server = address(SERVER);
        let wrong = answer(&other, "203.0.113.7:4711");
        assert_eq!(asked.receive(now, server, &wrong), DatagramKind::Refused);
        assert_eq!(asked.receive(now, server, question), DatagramKind::Other);
        for length in 0..good.len() {
            let _ = asked.receive(now, server, &good[..length]);
        }
        assert_eq!(asked.addresses(), []);
        // The true answer still counts.
        assert_eq!(asked.receive(now, server, &good), DatagramKind::Answer);
        assert_eq!(asked.addresses(), [address("203.0.113.7:4711")]);
    }

    #[test]
    fn an_answer_of_no_use_is_none() {
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
            let mut asked = asked(now);
            let (all, _) = sent(&mut asked, now);
            let said = answer(&all[0].1, mapped);
            let kind = asked.receive(now, address(SERVER), &said);
            assert_eq!(kind, DatagramKind::Refused, "{mapped}");
            assert_eq!(asked.addresses(), [], "{mapped}");
        }
        let now = Instant::now();
        let mut asked = asked(now);
        let (all, _) = sent(&mut asked, now);
        let question = Message::from_bytes(&all[0].1).unwrap();
        let error = Message::builder_error(&question, MessageWriteVec::new()).finish();
        assert_eq!(
            asked.receive(now, address(SERVER), &error),
            DatagramKind::Refused
        );
        assert_eq!(sent(&mut asked, now).1, AGAIN_AFTER);
    }
}
