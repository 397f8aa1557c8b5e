//! The link ladder: which way a session takes, once it has begun on one that the host answered on.
//!
//! Each rung is tried with a real exchange ([`ClientSession::probe`]), best first: UDP whose batches
//! the kernel cuts, raw Ethernet where the host is on the same segment, plain UDP. The session runs
//! meanwhile. If the rung dies later, the session goes back to where it began.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use openuvr_net::Link as _;
use openuvr_net::address::{address_of, path_of_station, station_of};
use openuvr_net::ladder::Ladder;
use openuvr_net::neighbour;
use openuvr_proto::client::ClientSession;
use openuvr_proto::control::ladder::{Found, Rung, Step};
use openuvr_proto::id::PathId;
use openuvr_proto::time::Instant;

/// Without an answer to a ping for this long a rung is dead: two pings and a part of the third. The
/// host waits longer before it releases what the player holds.
pub(super) const DEAD: Duration = Duration::from_millis(1200);

/// The paths of a session, for all threads.
#[derive(Default)]
pub(super) struct Paths(Mutex<[PathId; 3]>);

impl Paths {
    /// Where datagrams go.
    pub(super) fn now(&self) -> PathId {
        self.lock()[0]
    }

    /// Whether datagrams from there may be the host's: where they go, where the session began, and
    /// what is being tried. All are sealed; this only spares the work for what is nobody's.
    pub(super) fn has(&self, from: PathId) -> bool {
        self.lock().contains(&from)
    }

    /// A session is to begin there.
    pub(super) fn begin(&self, path: PathId) {
        *self.lock() = [path; 3];
    }

    fn base(&self) -> PathId {
        self.lock()[1]
    }

    fn go(&self, path: PathId) {
        self.lock()[0] = path;
    }

    fn listen(&self, path: PathId) {
        self.lock()[2] = path;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, [PathId; 3]> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the ladder has to say.
#[derive(Debug)]
pub(super) enum LinkEvent {
    /// The session's video comes with this now.
    On(Rung),
    /// Something did not work, and the session goes on without it.
    Trouble(String),
    /// The rung that was asked for is unavailable.
    Failed(String),
}

/// Tries one rung after the other for one session.
pub(super) struct LinkProber {
    link: Arc<Ladder>,
    paths: Arc<Paths>,
    only: Option<Rung>,
    trying: Option<Rung>,
    on: Option<Rung>,
    /// The host has said that it sends UDP one by one anyway, and that arrived.
    plain: bool,
    /// Raw Ethernet was tried in this session.
    tried_raw: bool,
}

impl LinkProber {
    /// Begins to climb in a session that just began.
    pub(super) fn begin(
        link: Arc<Ladder>,
        paths: Arc<Paths>,
        only: Option<Rung>,
        now: Instant,
        session: &mut ClientSession,
    ) -> LinkProber {
        let mut prober = LinkProber {
            link,
            paths,
            only,
            trying: None,
            on: None,
            plain: false,
            tried_raw: false,
        };
        let first = match only {
            _ if station_of(prober.paths.base()).is_some() => prober.link.rung(prober.paths.base()),
            Some(only) => only,
            None => Rung::UdpGso,
        };
        prober.try_rung(first, prober.paths.base(), now, session);
        prober
    }

    fn try_rung(&mut self, rung: Rung, path: PathId, now: Instant, session: &mut ClientSession) {
        self.trying = Some(rung);
        self.paths.listen(path);
        let segmented = rung != Rung::Udp;
        session.probe(now, Step { path, segmented });
    }

    /// A try has come to an end.
    pub(super) fn found(
        &mut self,
        found: &Found,
        now: Instant,
        session: &mut ClientSession,
    ) -> Vec<LinkEvent> {
        let said = match self.trying.take() {
            Some(tried) => self.advance(tried, found, now, session),
            None => Vec::new(),
        };
        for said in &said {
            if let LinkEvent::On(rung) = said {
                self.on = Some(*rung);
            }
        }
        said
    }

    /// What the session's video comes with, as far as is known.
    pub(super) fn on(&self) -> Option<Rung> {
        self.on
    }

    fn advance(
        &mut self,
        tried: Rung,
        found: &Found,
        now: Instant,
        session: &mut ClientSession,
    ) -> Vec<LinkEvent> {
        match (tried, found.answer) {
            (Rung::UdpGso, Some(Some(Rung::UdpGso))) => vec![LinkEvent::On(Rung::UdpGso)],
            (tried, Some(answer)) if tried.is_ethernet() => {
                self.go(found.step.path, now, session);
                // AF_XDP or rings at one end are no other wire, but worth telling.
                let own = self.link.rung(found.step.path);
                let theirs = answer.unwrap_or(own);
                vec![LinkEvent::On(if own == Rung::Raw { theirs } else { own })]
            }
            (Rung::Udp, Some(_)) => vec![LinkEvent::On(Rung::Udp)],
            (_, answer) if self.only.is_some() => vec![LinkEvent::Failed(why_not(tried, answer))],
            (Rung::UdpGso, answer) => {
                self.plain = answer.is_some();
                self.after_gso(now, session)
            }
            (Rung::Udp, None) => vec![
                LinkEvent::Trouble(
                    "full datagrams do not arrive from the host: does something on the way drop \
                     what is longer than 1280 bytes?"
                        .to_owned(),
                ),
                LinkEvent::On(Rung::Udp),
            ],
            // Raw Ethernet, and no answer.
            _ => self.after_raw(
                "the host does not answer over raw Ethernet".to_owned(),
                now,
                session,
            ),
        }
    }

    /// Nothing that the kernel cut has arrived.
    fn after_gso(&mut self, now: Instant, session: &mut ClientSession) -> Vec<LinkEvent> {
        if std::mem::replace(&mut self.tried_raw, true) {
            return self.after_raw(String::new(), now, session);
        }
        let opened = self.link.open_ethernet().map_err(|e| e.to_string());
        let station = opened.and_then(|()| {
            neighbour::station(address_of(self.paths.base())).map_err(|e| e.to_string())
        });
        match station {
            Ok(station) => {
                self.try_rung(Rung::Raw, path_of_station(station), now, session);
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
    ) -> Vec<LinkEvent> {
        if self.plain {
            tracing::info!("{why}; staying on UDP");
            return vec![LinkEvent::On(Rung::Udp)];
        }
        self.try_rung(Rung::Udp, self.paths.base(), now, session);
        if why.is_empty() {
            return Vec::new();
        }
        vec![LinkEvent::Trouble(format!("{why}; staying on UDP"))]
    }

    fn go(&mut self, path: PathId, now: Instant, session: &mut ClientSession) {
        if self.paths.now() != path {
            self.paths.go(path);
            session.moved(now);
        }
    }

    /// Goes back to where the session began if the rung it is on is dead.
    pub(super) fn check(&mut self, now: Instant, session: &mut ClientSession) -> Option<LinkEvent> {
        let base = self.paths.base();
        if self.paths.now() == base || session.unanswered(now) < DEAD {
            return None;
        }
        self.go(base, now, session);
        self.try_rung(Rung::UdpGso, base, now, session);
        Some(LinkEvent::Trouble(
            "raw Ethernet fell silent: back on UDP".to_owned(),
        ))
    }
}

fn why_not(tried: Rung, answer: Option<Option<Rung>>) -> String {
    let name = tried.name();
    let why = match answer {
        Some(Some(Rung::Udp)) => {
            "the host sends its datagrams one by one (its kernel cannot cut them, or --link udp \
             there)"
        }
        Some(_) => "the host sends with something else",
        None => "full datagrams that the host sends with it do not arrive here",
    };
    format!("no link {name}: {why}")
}

/// The host's raw Ethernet paths, of those addresses of its that are on a segment of ours; opens
/// raw Ethernet for them.
pub(super) fn ethernet_paths(link: &Ladder, paths: &[PathId]) -> Vec<PathId> {
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
