//! Transport selection of a session. The session starts on the path on which the host answered.
//!
//! The prober tests the transports one after the other with a real exchange ([`ClientSession::probe`]), best first: UDP
//! with GSO, raw Ethernet if the host is on the same segment, plain UDP. The session runs in the meantime. If the
//! selected transport fails later, the session returns to its initial path. If the initial path answers again after an
//! outage, the transports are probed again, because the path may have changed, for example its MTU. Raw Ethernet is
//! probed at most once per session. An outage of two seconds ends the session, and the next session probes all
//! transports.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use openuvr_net::Link as _;
use openuvr_net::address::{address_of, path_of_station, station_of};
use openuvr_net::neighbour;
use openuvr_net::transport_selection::TransportSelector;
use openuvr_proto::client::ClientSession;
use openuvr_proto::control::transport_probe::{ProbeResult, ProbeTarget, TransportKind};
use openuvr_proto::id::PathId;
use openuvr_proto::time::Instant;

/// A transport counts as dead if pings are unanswered for this long: two ping intervals and a part of the third. The
/// host waits longer before it releases the player's keys.
pub(super) const DEAD_AFTER: Duration = Duration::from_millis(1200);

/// A session's paths, shared by all threads: the current, the initial and the probed path.
#[derive(Default)]
pub(super) struct Paths(Mutex<[PathId; 3]>);

impl Paths {
    /// The path on which datagrams are sent.
    pub(super) fn current(&self) -> PathId {
        self.lock()[0]
    }

    /// Whether `from` is the current, initial or probed path, so that a datagram from there may come from the host.
    /// Datagrams are authenticated in any case; this check only saves work.
    pub(super) fn has(&self, from: PathId) -> bool {
        self.lock().contains(&from)
    }

    /// Sets all paths for a new session.
    pub(super) fn reset(&self, path: PathId) {
        *self.lock() = [path; 3];
    }

    fn base(&self) -> PathId {
        self.lock()[1]
    }

    fn set_current(&self, path: PathId) {
        self.lock()[0] = path;
    }

    fn set_probed(&self, path: PathId) {
        self.lock()[2] = path;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, [PathId; 3]> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
pub(super) enum TransportEvent {
    /// The session's video now uses this transport.
    Selected(TransportKind),
    /// Something failed, but the session continues without it.
    Warning(String),
    /// The forced transport is unavailable.
    Failed(String),
}

/// Probes one transport after the other for one session.
pub(super) struct TransportProber {
    link: Arc<TransportSelector>,
    paths: Arc<Paths>,
    only: Option<TransportKind>,
    probing: Option<TransportKind>,
    selected: Option<TransportKind>,
    /// Whether the host's burst arrived over plain UDP when GSO was probed.
    udp_arrives: bool,
    /// Whether raw Ethernet was tried in this session.
    tried_raw: bool,
    outage: Outage,
}

/// Detects the end of an outage of the initial path.
#[derive(Default)]
struct Outage {
    lasts: bool,
    /// An outage has ended, and the path has not been probed since.
    ended: bool,
}

impl Outage {
    /// Whether to probe the initial path now, because an outage has ended. `unanswered` is the time for which pings on
    /// the initial path have been unanswered; `None` while another path is current. If an outage ends while a probe is
    /// running, the initial path is probed after that probe.
    fn requires_probe(&mut self, unanswered: Option<Duration>, probing: bool) -> bool {
        let Some(unanswered) = unanswered else {
            *self = Outage::default();
            return false;
        };
        let lasts = unanswered >= DEAD_AFTER;
        self.ended |= std::mem::replace(&mut self.lasts, lasts);
        self.ended &= !lasts;
        !probing && std::mem::take(&mut self.ended)
    }
}

impl TransportProber {
    /// Starts probing in a new session.
    pub(super) fn start(
        link: Arc<TransportSelector>,
        paths: Arc<Paths>,
        only: Option<TransportKind>,
        now: Instant,
        session: &mut ClientSession,
    ) -> TransportProber {
        let mut prober = TransportProber {
            link,
            paths,
            only,
            probing: None,
            selected: None,
            udp_arrives: false,
            tried_raw: false,
            outage: Outage::default(),
        };
        let first = match only {
            _ if station_of(prober.paths.base()).is_some() => {
                prober.link.transport(prober.paths.base())
            }
            Some(only) => only,
            None => TransportKind::UdpGso,
        };
        prober.try_transport(first, prober.paths.base(), now, session);
        prober
    }

    fn try_transport(
        &mut self,
        transport: TransportKind,
        path: PathId,
        now: Instant,
        session: &mut ClientSession,
    ) {
        self.probing = Some(transport);
        self.paths.set_probed(path);
        let segmented = transport != TransportKind::Udp;
        session.probe(now, ProbeTarget { path, segmented });
    }

    /// Handles the result of a probe.
    pub(super) fn on_result(
        &mut self,
        found: &ProbeResult,
        now: Instant,
        session: &mut ClientSession,
    ) -> Vec<TransportEvent> {
        let events = match self.probing.take() {
            Some(tried) => self.advance(tried, found, now, session),
            None => Vec::new(),
        };
        for event in &events {
            if let TransportEvent::Selected(transport) = event {
                self.selected = Some(*transport);
            }
        }
        events
    }

    /// The transport of the session's video, if known.
    pub(super) fn selected(&self) -> Option<TransportKind> {
        self.selected
    }

    fn advance(
        &mut self,
        tried: TransportKind,
        found: &ProbeResult,
        now: Instant,
        session: &mut ClientSession,
    ) -> Vec<TransportEvent> {
        match (tried, found.answer) {
            (TransportKind::UdpGso, Some(Some(TransportKind::UdpGso))) => vec![TransportEvent::Selected(TransportKind::UdpGso)],
            (tried, Some(answer)) if tried.is_ethernet() => {
                self.move_to(found.target.path, now, session);
                // AF_XDP and mapped rings use the same wire format as plain packet sockets. Report them if either peer
                // uses them.
                let own = self.link.transport(found.target.path);
                let theirs = answer.unwrap_or(own);
                vec![TransportEvent::Selected(if own == TransportKind::Raw { theirs } else { own })]
            }
            (TransportKind::Udp, Some(_)) => vec![TransportEvent::Selected(TransportKind::Udp)],
            (_, answer) if self.only.is_some() => vec![TransportEvent::Failed(unavailable(tried, answer))],
            (TransportKind::UdpGso, answer) => {
                self.udp_arrives = answer.is_some();
                self.after_gso(now, session)
            }
            (TransportKind::Udp, None) => vec![
                TransportEvent::Warning(
                    "full-size datagrams do not arrive from the host: check that the path MTU allows UDP datagrams of 1400 bytes"
                        .to_owned(),
                ),
                TransportEvent::Selected(TransportKind::Udp),
            ],
            // The session began over raw Ethernet, so there is no UDP path to fall back to.
            (tried, None) if tried.is_ethernet() && station_of(self.paths.base()).is_some() => vec![
                TransportEvent::Warning(
                    "full-size datagrams do not arrive from the host over raw Ethernet: check that the network carries \
                     frames of 1500 bytes"
                        .to_owned(),
                ),
                TransportEvent::Selected(tried),
            ],
            // The host did not answer over raw Ethernet.
            _ => self.after_raw(
                "no answer from the host over raw Ethernet".to_owned(),
                now,
                session,
            ),
        }
    }

    /// Continues with raw Ethernet after the probe of UDP with GSO failed.
    fn after_gso(&mut self, now: Instant, session: &mut ClientSession) -> Vec<TransportEvent> {
        if std::mem::replace(&mut self.tried_raw, true) {
            return self.after_raw(String::new(), now, session);
        }
        let opened = self.link.open_ethernet().map_err(|e| e.to_string());
        let station = opened.and_then(|()| {
            neighbour::station(address_of(self.paths.base())).map_err(|e| e.to_string())
        });
        match station {
            Ok(station) => {
                self.try_transport(TransportKind::Raw, path_of_station(station), now, session);
                Vec::new()
            }
            Err(why) => self.after_raw(why, now, session),
        }
    }

    fn after_raw(
        &mut self,
        why: String,
        now: Instant,
        session: &mut ClientSession,
    ) -> Vec<TransportEvent> {
        if self.udp_arrives {
            if !why.is_empty() {
                tracing::info!("{why}; staying on UDP");
            }
            return vec![TransportEvent::Selected(TransportKind::Udp)];
        }
        self.try_transport(TransportKind::Udp, self.paths.base(), now, session);
        if why.is_empty() {
            return Vec::new();
        }
        vec![TransportEvent::Warning(format!("{why}; staying on UDP"))]
    }

    fn move_to(&mut self, path: PathId, now: Instant, session: &mut ClientSession) {
        if self.paths.current() != path {
            self.paths.set_current(path);
            session.moved(now);
        }
    }

    /// Returns to the initial path if the current transport is dead. After an outage of the initial path, probes the
    /// transports again.
    pub(super) fn check_alive(
        &mut self,
        now: Instant,
        session: &mut ClientSession,
    ) -> Option<TransportEvent> {
        let base = self.paths.base();
        let unanswered = session.unanswered(now);
        let initial = self.paths.current() == base;
        let probing = self.probing.is_some();
        let again = (self.outage).requires_probe(initial.then_some(unanswered), probing);
        if initial {
            // There is no alternative to a forced transport, nor to raw Ethernet as the initial path.
            let chosen = self.only.is_none() && station_of(base).is_none();
            if again && chosen {
                self.udp_arrives = false;
                self.try_transport(TransportKind::UdpGso, base, now, session);
            }
            return None;
        }
        if unanswered < DEAD_AFTER {
            return None;
        }
        self.move_to(base, now, session);
        self.try_transport(TransportKind::UdpGso, base, now, session);
        Some(TransportEvent::Warning(
            "raw Ethernet failed: back on UDP".to_owned(),
        ))
    }
}

fn unavailable(tried: TransportKind, answer: Option<Option<TransportKind>>) -> String {
    let name = tried.name();
    let why = match answer {
        Some(Some(TransportKind::Udp)) => {
            "the host sends single datagrams (no GSO in its kernel, or --link udp there)"
        }
        Some(_) => "the host uses another transport",
        None => "the host's full-size datagrams do not arrive here",
    };
    format!("link {name} is unavailable: {why}")
}

/// The raw Ethernet paths to the host's addresses on local segments. Opens raw Ethernet if there are any.
pub(super) fn ethernet_paths(link: &TransportSelector, paths: &[PathId]) -> Vec<PathId> {
    let stations = paths.iter().filter_map(|path| {
        if station_of(*path).is_some() {
            return None;
        }
        neighbour::station(address_of(*path)).ok()
    });
    let stations: Vec<_> = stations.map(path_of_station).collect();
    if stations.is_empty() || link.open_ethernet().is_err() {
        return Vec::new();
    }
    stations
}

#[cfg(test)]
mod tests {
    use openuvr_net::ether::{Mac, Station};
    use openuvr_proto::control::handshake::{Established, PublicKey, SessionSecret};
    use openuvr_proto::control::negotiate::{ClientConstraints, Offer, Role};
    use openuvr_proto::id::SessionId;

    use super::*;

    #[test]
    fn a_session_that_began_over_raw_ethernet_stays_there() {
        let established = Established {
            session: SessionId(1),
            secret: SessionSecret([2; 32]),
            peer: PublicKey([9; 32]),
            version: 1,
        };
        let offer = Offer {
            role: Role::Player,
            take_over: false,
            codecs: 1,
            name: String::new(),
            software: String::new(),
            constraints: ClientConstraints::default(),
            streams: Vec::new(),
        };
        let now = Instant(0);
        let mut session = ClientSession::new(now, &established, offer);
        let path = path_of_station(Station {
            mac: Mac([2; 6]),
            interface: 1,
            port: 4710,
        });
        let paths = Arc::<Paths>::default();
        paths.reset(path);
        let link = Arc::new(TransportSelector::client(None).expect("a port"));
        let mut prober = TransportProber::start(link, paths, None, now, &mut session);
        prober.probing = Some(TransportKind::Raw);
        let segmented = true;
        let found = ProbeResult {
            target: ProbeTarget { path, segmented },
            answer: None,
        };
        let events = prober.on_result(&found, now, &mut session);
        let [
            TransportEvent::Warning(why),
            TransportEvent::Selected(selected),
        ] = &events[..]
        else {
            panic!("{events:?}");
        };
        assert!(why.contains("raw Ethernet"), "{why}");
        assert_eq!(
            (*selected, prober.probing),
            (TransportKind::Raw, None),
            "no other transport is tried"
        );
    }

    #[test]
    fn an_outage_ends_once_when_pings_are_answered_again() {
        let mut outage = Outage::default();
        let ends = [0, 500, 1100, 1200, 3000, 50, 600, 1300, 0, 0];
        let ends = ends.map(|ms| outage.requires_probe(Some(Duration::from_millis(ms)), false));
        let [a, b] = [5, 8].map(|n| ends[n]);
        assert!(a && b, "{ends:?}");
        assert_eq!(ends.iter().filter(|ends| **ends).count(), 2);
    }

    #[test]
    fn an_outage_that_ends_during_a_probe_requires_another() {
        let mut outage = Outage::default();
        let mut requires = |ms, probing| {
            let unanswered = Some(Duration::from_millis(ms));
            outage.requires_probe(unanswered, probing)
        };
        assert!(!requires(1200, true), "it lasts");
        assert!(!requires(0, true), "a probe is running");
        assert!(!requires(100, true), "it is still running");
        assert!(requires(200, false), "the probe has finished");
        assert!(!requires(300, false), "one probe is enough");
        // A new outage before the probe has finished: the path is probed after this outage.
        assert!(!requires(1200, true));
        assert!(!requires(0, true));
        assert!(!requires(1200, false), "the second outage lasts");
        assert!(requires(0, false));
    }

    #[test]
    fn an_outage_is_forgotten_while_another_path_is_current() {
        let mut outage = Outage::default();
        let dead = Some(DEAD_AFTER);
        assert!(!outage.requires_probe(dead, true));
        assert!(!outage.requires_probe(None, false));
        assert!(!outage.requires_probe(Some(Duration::ZERO), false));
        // The same applies to an ended outage.
        assert!(!outage.requires_probe(dead, true));
        assert!(!outage.requires_probe(Some(Duration::ZERO), true));
        assert!(!outage.requires_probe(None, false));
        assert!(!outage.requires_probe(Some(Duration::ZERO), false));
    }
}
