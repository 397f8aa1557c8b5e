//! Links made worse on purpose, for measuring what the usual way is worth. Each wraps a link and
//! changes how it sends; what it receives is untouched.
//!
//! Who sends through them notes the time at which a datagram was handed over here, not the time
//! at which it left.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use openuvr_net::{Link, LinkError, MAX_DATAGRAM, RecvBatch};
use openuvr_proto::control::ladder::Rung;
use openuvr_proto::id::PathId;
use openuvr_proto::units::Bitrate;

use crate::clock;
use crate::lock::lock;
use crate::sched::{Scheduler, ThreadRole};

/// Each datagram in a system call of its own.
pub struct Single(pub Arc<dyn Link>);

impl Link for Single {
    fn rung(&self, path: PathId) -> Rung {
        self.0.rung(path)
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

/// How far apart batches leave: what a study of a cloud renderer on WebRTC saw on the wire,
/// whatever the frame rate.
pub const BATCH_EVERY: Duration = Duration::from_micros(5_560);

/// How much faster than the video's rate the batches drain, as in the same study.
const DRAIN: f64 = 1.54;

/// What may wait, in bytes: a frame of any size, and no more than a second of a fast stream.
const MOST_WAITING: usize = 16 << 20;

/// Holds what is sent, and lets a batch of it go every [`BATCH_EVERY`].
pub struct Batches {
    link: Arc<dyn Link>,
    waiting: Arc<(Mutex<Waiting>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Waiting {
    datagrams: VecDeque<(PathId, Vec<u8>)>,
    bytes: usize,
    stop: bool,
}

impl Batches {
    /// Starts the thread that sends; `rate` is that of the video.
    ///
    /// # Errors
    /// The thread can't be started.
    pub fn start(
        link: Arc<dyn Link>,
        rate: Bitrate,
        scheduler: &Scheduler,
    ) -> std::io::Result<Batches> {
        let waiting = Arc::<(Mutex<Waiting>, Condvar)>::default();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_precision_loss,
            clippy::cast_sign_loss,
            reason = "a gigabit a second is far within both types"
        )]
        let budget = (rate.0 as f64 / 8.0 * DRAIN * BATCH_EVERY.as_secs_f64()) as usize;
        let (out, shared) = (link.clone(), waiting.clone());
        let thread = scheduler.spawn(ThreadRole::HandOff, "ouvr-batches", move || {
            run(out.as_ref(), &shared, budget.max(MAX_DATAGRAM));
        })?;
        Ok(Batches {
            link,
            waiting,
            thread: Some(thread),
        })
    }
}

fn run(link: &dyn Link, (waiting, changed): &(Mutex<Waiting>, Condvar), budget: usize) {
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
        // The clock of the batches goes on while nothing waits.
        while due <= clock::now() {
            due = due + BATCH_EVERY;
        }
        std::thread::sleep(due.since(clock::now()));
        let mut sent = 0;
        while sent < budget {
            let Some((to, datagram)) = take(waiting) else {
                break;
            };
            sent += datagram.len();
            // What is lost here is lost as on any link.
            let _ = link.send(to, &datagram, datagram.len());
        }
    }
}

fn take(waiting: &Mutex<Waiting>) -> Option<(PathId, Vec<u8>)> {
    let mut waiting = lock(waiting);
    let next = waiting.datagrams.pop_front()?;
    waiting.bytes -= next.1.len();
    Some(next)
}

impl Link for Batches {
    fn rung(&self, path: PathId) -> Rung {
        self.link.rung(path)
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
mod tests {
    use super::*;

    /// Notes what is sent, and when.
    #[derive(Default)]
    struct Noted(Mutex<Vec<(openuvr_proto::time::Instant, usize)>>);

    impl Link for Noted {
        fn rung(&self, _: PathId) -> Rung {
            Rung::Udp
        }

        fn send(&self, _: PathId, batch: &[u8], _: usize) -> Result<(), LinkError> {
            self.0.lock().unwrap().push((clock::now(), batch.len()));
            Ok(())
        }

        fn recv(&self, _: &mut RecvBatch, _: Option<Duration>) -> Result<(), LinkError> {
            Ok(())
        }

        fn wake(&self) {}
    }

    #[test]
    fn single_datagrams_are_those_of_the_batch() {
        let noted = Arc::new(Noted::default());
        Single(noted.clone())
            .send(PathId::default(), &[7; 3000], 1400)
            .unwrap();
        let sizes: Vec<_> = noted.0.lock().unwrap().iter().map(|n| n.1).collect();
        assert_eq!(sizes, [1400, 1400, 200]);
    }

    #[test]
    fn batches_leave_in_order_within_their_budget_and_apart() {
        let noted = Arc::new(Noted::default());
        // 10 Mb/s: 10.7 kB a batch, so that the eighth datagram of 1400 bytes fills it.
        let link = Batches::start(
            noted.clone(),
            Bitrate::from_mbps(10),
            &Scheduler::ordinary(),
        )
        .unwrap();
        let bytes: Vec<u8> = vec![1; 1400 * 19 + 100];
        link.send(PathId::default(), &bytes, 1400).unwrap();
        let until = clock::now() + Duration::from_secs(10);
        while noted.0.lock().unwrap().len() < 20 && clock::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        let sent = noted.0.lock().unwrap();
        let sizes: Vec<_> = sent.iter().map(|n| n.1).collect();
        assert_eq!(sizes.len(), 20);
        assert_eq!((sizes[0], sizes[19]), (1400, 100), "in order");
        assert!(
            sent[8].0.since(sent[0].0) >= Duration::from_millis(1),
            "the ninth waits for the next batch"
        );
    }
}
