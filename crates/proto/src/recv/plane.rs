//! The receiving side of a session's media plane. It decrypts each datagram once, and passes the body to the receiver
//! of the datagram's stream.
//!
//! It is independent of the kind of media. Datagrams of unknown or ungranted streams are counted and skipped. The body stays
//! in one buffer until the receiver has processed it.

use super::ArrivalTimes;
use super::losses::{Losses, Mark};
use super::output::Counters;
use super::reassemble::VideoReceiver;
use super::timed::TimedReceiver;
use crate::bytes::Reject;
use crate::control::handshake::Established;
use crate::control::streams::Grant;
use crate::ecn::{Ecn, EcnCounts};
use crate::id::ViewId;
use crate::time::Instant;
use crate::wire::header::Plane;
use crate::wire::media::{Owner, StreamId, StreamKind};
use crate::wire::seal::{Direction, Opener};

/// Maximum views of a session: two eyes of four video streams.
pub const MAX_VIEWS: usize = 8;

/// Maximum timed streams of a session.
pub const MAX_TIMED: usize = 8;

/// A view's receiver, its position in the loss counting, and the counts of ECN fields since its last report.
struct View {
    receiver: VideoReceiver,
    mark: Mark,
    ecn: EcnCounts,
}

/// Decrypts the datagrams of a session's media plane, and passes them to the receivers of their streams. Owned by the
/// client's media thread.
pub struct MediaReceiver {
    opener: Opener,
    body: Vec<u8>,
    views: Vec<View>,
    timed: Vec<TimedReceiver>,
    losses: Losses,
    received: u64,
    skipped: u64,
    reports_ecn: bool,
}

impl MediaReceiver {
    /// A receiver with the first view, which every session has.
    #[must_use]
    pub fn new(established: &Established) -> MediaReceiver {
        let mut receiver = MediaReceiver {
            opener: Opener::new(
                &established.secret,
                established.session,
                Direction::HostToClient,
                Plane::Media,
            ),
            body: Vec::new(),
            views: Vec::new(),
            timed: Vec::new(),
            losses: Losses::default(),
            received: 0,
            skipped: 0,
            reports_ecn: false,
        };
        receiver.add_view(ViewId::FIRST);
        receiver
    }

    /// Adds receivers for the granted views and timed streams of the host. Existing receivers continue.
    pub fn granted(&mut self, grants: &[Grant]) {
        for grant in grants.iter().filter(|grant| grant.to_client) {
            let stream = grant.stream;
            if stream.kind == StreamKind::Video {
                for view in 0..grant.views {
                    let stream = stream.number;
                    self.add_view(ViewId { stream, view });
                }
            } else if self.timed.len() < MAX_TIMED && self.timed(stream).is_none() {
                self.timed.push(TimedReceiver::new(stream));
            }
        }
    }

    fn add_view(&mut self, id: ViewId) {
        if self.views.len() < MAX_VIEWS && self.view(id).is_none() {
            self.views.push(View {
                receiver: VideoReceiver::new(id),
                mark: Mark::default(),
                ecn: EcnCounts::default(),
            });
        }
    }

    /// Handles a datagram that has just arrived. Poll the receivers afterwards.
    ///
    /// # Errors
    /// [`Reject`] if it is not authentic, is a duplicate, or is invalid. An authentic datagram with an invalid body is
    /// counted as received. After any other error, nothing has changed.
    pub fn handle_datagram(&mut self, now: Instant, datagram: &[u8]) -> Result<(), Reject> {
        self.handle_arrival(ArrivalTimes { now, arrived: now }, None, datagram)
    }

    /// Handles a datagram that arrived earlier, with its ECN field (`None`: unknown).
    ///
    /// # Errors
    /// The errors of [`MediaReceiver::handle_datagram`].
    pub fn handle_arrival(
        &mut self,
        times: ArrivalTimes,
        ecn: Option<Ecn>,
        datagram: &[u8],
    ) -> Result<(), Reject> {
        let opened = self.opener.open(datagram, &mut self.body)?;
        self.received += 1;
        self.losses.note(opened.number);
        let ecn = ecn.filter(|_| self.reports_ecn);
        let (views, body) = (&mut self.views, &mut self.body);
        let taken = match Owner::of(body)? {
            Some(Owner::Fragment(id)) => {
                video(views, id, ecn).map(|view| view.handle_fragment(times, body))
            }
            Some(Owner::FecRepair(id)) => {
                video(views, id, ecn).map(|view| view.handle_parity(times, body))
            }
            Some(Owner::Timed(stream)) => {
                let owner = self.timed.iter_mut().find(|t| t.stream() == stream);
                // Playback must also absorb late wake-ups of this thread, so the processing time counts.
                owner.map(|owner| owner.handle_body(times.now, body))
            }
            None => None,
        };
        taken.unwrap_or_else(|| {
            self.skipped += 1;
            Ok(())
        })
    }

    /// The views, starting with the first view.
    pub fn views(&self) -> impl Iterator<Item = &VideoReceiver> {
        self.views.iter().map(|view| &view.receiver)
    }

    /// The views, for polling.
    pub fn views_mut(&mut self) -> impl Iterator<Item = &mut VideoReceiver> {
        self.views.iter_mut().map(|view| &mut view.receiver)
    }

    /// A view's receiver; `None` if it was not granted.
    pub fn view(&mut self, id: ViewId) -> Option<&mut VideoReceiver> {
        receiver_of(&mut self.views, id)
    }

    /// The first view, which every session has.
    #[must_use]
    pub fn first(&mut self) -> &mut VideoReceiver {
        &mut self.views[0].receiver
    }

    /// A timed stream's receiver; `None` if it was not granted.
    pub fn timed(&mut self, stream: StreamId) -> Option<&mut TimedReceiver> {
        self.timed.iter_mut().find(|t| t.stream() == stream)
    }

    /// When to poll again without a datagram.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Instant> {
        let views = self.views().filter_map(VideoReceiver::next_timeout);
        let timed = self.timed.iter().filter_map(TimedReceiver::next_timeout);
        views.chain(timed).min()
    }

    /// Handles the end of a frame of this view: packets overtaken before the view's previous frame ended are lost.
    pub(crate) fn settle(&mut self, view: ViewId) {
        let of = |v: &&mut View| v.receiver.view() == view;
        if let Some(view) = self.views.iter_mut().find(of) {
            self.losses.settle(&mut view.mark);
        }
    }

    /// Counts and reports the ECN fields of datagrams from now on. Call this method when the host has requested the
    /// counts and the link reads the fields.
    pub fn report_ecn(&mut self) {
        self.reports_ecn = true;
    }

    /// The counts of the ECN fields of a view's datagrams since the last call; `None` if counts are not reported.
    pub(crate) fn take_ecn(&mut self, view: ViewId) -> Option<EcnCounts> {
        let view = view_of(&mut self.views, view).filter(|_| self.reports_ecn)?;
        Some(std::mem::take(&mut view.ecn))
    }

    /// The counters of all streams together.
    #[must_use]
    pub fn counters(&self) -> Counters {
        Counters {
            received: self.received,
            skipped: self.skipped,
            missing: self.losses.lost,
            runs: self.losses.runs,
        }
    }

    /// Panics if an invariant does not hold: for tests and fuzzing.
    pub fn check_invariants(&self) {
        assert!((1..=MAX_VIEWS).contains(&self.views.len()));
        assert!(self.timed.len() <= MAX_TIMED);
        self.views().for_each(VideoReceiver::check_invariants);
        self.timed.iter().for_each(TimedReceiver::check_invariants);
    }
}

fn view_of(views: &mut [View], id: ViewId) -> Option<&mut View> {
    views.iter_mut().find(|view| view.receiver.view() == id)
}

fn receiver_of(views: &mut [View], id: ViewId) -> Option<&mut VideoReceiver> {
    view_of(views, id).map(|view| &mut view.receiver)
}

/// Counts the ECN field of a view's datagram, and returns the view's receiver.
fn video(views: &mut [View], id: ViewId, ecn: Option<Ecn>) -> Option<&mut VideoReceiver> {
    let view = view_of(views, id)?;
    if let Some(ecn) = ecn {
        view.ecn.note(ecn);
    }
    Some(&mut view.receiver)
}
