//! Links that send in the same way as other programs do. Each wraps an OpenUVR link and changes how it sends; receiving
//! is unchanged.
//!
//! A datagram's send timestamp is the time at which the datagram is handed to this link, not the time of its
//! transmission.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use openuvr_clock as clock;
use openuvr_net::{Link, LinkError, MAX_DATAGRAM, RecvBatch};
use openuvr_proto::control::transport_probe::TransportKind;
use openuvr_proto::id::PathId;
use openuvr_proto::units::Bitrate;
use openuvr_runtime::lock::lock;
use openuvr_runtime::sched::{Scheduler, ThreadRole};

/// Sends each datagram in its own system call.
pub(super) struct Single(pub(super) Arc<dyn Link>);

impl Link for Single {
    fn transport(&self, path: PathId) -> TransportKind {
        self.0.transport(path)
    }

    fn send(&self, to: PathId, batch: &[u8], segment: usize) -> Result<(), LinkError> {
        batch
            .chunks(segment.max(1))
            .try_for_each(|datagram| self.0.send(to, datagram, datagram.len()))
    }

    fn recv(&self, batch: &mut RecvBatch, timeout: Option<Duration>) -> Result<(), LinkError> {
        self.0.recv(batch, timeout)
    }

    fn wake(&self) {
        self.0.wake();
    }

    fn local_addr(&self) -> Option<SocketAddr> {
        self.0.local_addr()
    }
}

/// Interval between batches. A study of Unity Render Streaming observed this interval at every frame rate, and in its
/// appendix C also for other WebRTC programs.
const BATCH_EVERY: Duration = Duration::from_micros(5_560);

/// Ratio of the rate of the batches to the bitrate of the video, fitted to the batches and idle times of the same study
/// (`docs/studies/traffic.md`).
const DRAIN: f64 = 1.54;

/// Maximum size of the queue in bytes: one second of a stream at 134 Mb/s. Frames are far smaller.
const MOST_WAITING: usize = 16 << 20;

/// Unity's pacer: queues datagrams and sends a batch every [`BATCH_EVERY`]. The pacer delays datagrams by design, so
/// figures that represent a program without WebRTC must be measured without this pacer.
pub(super) struct Batches {
    link: Arc<dyn Link>,
    waiting: Arc<(Mutex<SendQueue>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct SendQueue {
    datagrams: VecDeque<(PathId, Vec<u8>)>,
    bytes: usize,
    stop: bool,
}

impl Batches {
    /// Starts the sending thread; `rate` is the video's bitrate.
    ///
    /// # Errors
    /// Returns an error if the thread cannot be started.
    pub(super) fn start(
        link: Arc<dyn Link>,
        rate: Bitrate,
        scheduler: &Scheduler,
    ) -> std::io::Result<Batches> {
        let waiting = Arc::<(Mutex<SendQueue>, Condvar)>::default();
        let budget = budget(rate);
        let (out, shared) = (link.clone(), waiting.clone());
        let thread = scheduler.spawn(ThreadRole::Dispatch, "ouvr-batches", move || {
            run(out.as_ref(), &shared, budget);
        })?;
        Ok(Batches {
            link,
            waiting,
            thread: Some(thread),
        })
    }
}

/// Number of bytes in a batch, for a video of this bitrate.
fn budget(rate: Bitrate) -> usize {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "a gigabit a second is far within both types"
    )]
    let bytes = (rate.0 as f64 / 8.0 * DRAIN * BATCH_EVERY.as_secs_f64()) as usize;
    bytes.max(MAX_DATAGRAM)
}

fn run(link: &dyn Link, (waiting, changed): &(Mutex<SendQueue>, Condvar), budget: usize) {
    let mut due = clock::now();
    loop {
        let mut now_waiting = lock(waiting);
        while now_waiting.datagrams.is_empty() && !now_waiting.stop {
            now_waiting = changed
                .wait(now_waiting)
                .unwrap_or_else(PoisonError::into_inner);
        }
        if now_waiting.stop {
            return;
        }
        drop(now_waiting);
        // Keep the phase of the batches while the queue is empty.
        while due <= clock::now() {
            due = due + BATCH_EVERY;
        }
        std::thread::sleep(due.since(clock::now()));
        send_batch(link, waiting, budget);
    }
}

/// Sends queued datagrams until `budget` bytes have been sent.
fn send_batch(link: &dyn Link, waiting: &Mutex<SendQueue>, budget: usize) {
    let mut sent = 0;
    while sent < budget {
        let Some((to, datagram)) = take(waiting) else {
            break;
        };
        sent += datagram.len();
        // As on any link, a datagram that cannot be sent is lost.
        let _ = link.send(to, &datagram, datagram.len());
    }
}

fn take(waiting: &Mutex<SendQueue>) -> Option<(PathId, Vec<u8>)> {
    let mut waiting = lock(waiting);
    let next = waiting.datagrams.pop_front()?;
    waiting.bytes -= next.1.len();
    Some(next)
}

impl Link for Batches {
    fn transport(&self, path: PathId) -> TransportKind {
        self.link.transport(path)
    }

    fn send(&self, to: PathId, batch: &[u8], segment: usize) -> Result<(), LinkError> {
        let mut waiting = lock(&self.waiting.0);
        if waiting.bytes + batch.len() > MOST_WAITING {
            return Err(LinkError::Full);
        }
        waiting.bytes += batch.len();
        let datagrams = batch.chunks(segment.max(1)).map(|d| (to, d.to_vec()));
        waiting.datagrams.extend(datagrams);
        self.waiting.1.notify_one();
        Ok(())
    }

    fn recv(&self, batch: &mut RecvBatch, timeout: Option<Duration>) -> Result<(), LinkError> {
        self.link.recv(batch, timeout)
    }

    fn wake(&self) {
        self.link.wake();
    }

    fn local_addr(&self) -> Option<SocketAddr> {
        self.link.local_addr()
    }
}

impl Drop for Batches {
    fn drop(&mut self) {
        lock(&self.waiting.0).stop = true;
        self.waiting.1.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Records the sizes of sent datagrams.
    #[derive(Default)]
    pub(in super::super) struct RecordingLink(pub(in super::super) Mutex<Vec<usize>>);

    impl Link for RecordingLink {
        fn transport(&self, _: PathId) -> TransportKind {
            TransportKind::Udp
        }

        fn send(&self, _: PathId, batch: &[u8], _: usize) -> Result<(), LinkError> {
            lock(&self.0).push(batch.len());
            Ok(())
        }

        fn recv(&self, _: &mut RecvBatch, _: Option<Duration>) -> Result<(), LinkError> {
            Ok(())
        }

        fn wake(&self) {}
    }

    #[test]
    fn single_datagrams_are_those_of_the_batch() {
        let recording = Arc::new(RecordingLink::default());
        Single(recording.clone())
            .send(PathId::default(), &[7; 3000], 1400)
            .expect("sent");
        assert_eq!(*lock(&recording.0), [1400, 1400, 200]);
    }

    #[test]
    fn a_batch_stays_within_its_budget() {
        let (recording, waiting) = (RecordingLink::default(), Mutex::new(SendQueue::default()));
        for size in [[1400; 10].as_slice(), &[100]].concat() {
            let mut waiting = lock(&waiting);
            (waiting.datagrams).push_back((PathId::default(), vec![1; size]));
            waiting.bytes += size;
        }
        // A batch has 10.7 kB, so the eighth datagram of 1400 bytes fills it.
        let budget = budget(Bitrate::from_mbps(10));
        send_batch(&recording, &waiting, budget);
        assert_eq!(*lock(&recording.0), [1400; 8]);
        send_batch(&recording, &waiting, budget);
        assert_eq!(lock(&recording.0)[8..], [1400, 1400, 100], "in order");
        assert_eq!(lock(&waiting).bytes, 0);
    }

    #[test]
    fn all_batches_leave() {
        let recording = Arc::new(RecordingLink::default());
        let rate = Bitrate::from_mbps(10);
        let link =
            Batches::start(recording.clone(), rate, &Scheduler::ordinary()).expect("a thread");
        let bytes: Vec<u8> = vec![1; 1400 * 19 + 100];
        link.send(PathId::default(), &bytes, 1400).expect("room");
        let until = clock::now() + Duration::from_secs(30);
        while lock(&recording.0).len() < 20 && clock::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        let sent = lock(&recording.0);
        assert_eq!((sent.len(), sent[0], sent[19]), (20, 1400, 100));
    }
}
