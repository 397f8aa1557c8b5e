//! One measurement: a thread periodically wakes another thread.

use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, ensure};
use openuvr_clock as clock;
use openuvr_media::capture::Waker;
use openuvr_proto::time::Instant;
use openuvr_runtime::sched::{Policy, Scheduler, ThreadRole};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

use super::Micros;
use super::idle::Awake;

/// The receiver starts to spin this long before a message is due. The value is the p99 of a timer's wake-up latency
/// (the floor of `openuvr lab jitter`), as measured on one machine.
const LEAD: Duration = Duration::from_micros(150);
/// The receiver spins for at most this time before it sleeps. This is a tenth of a core at 240 messages per second.
const SPIN: Duration = Duration::from_micros(400);

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Primitive {
    Eventfd,
    Channel,
}

/// Placement of the threads, and the state of the machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Condition {
    /// Both threads run on any cores. `true` makes them real-time threads.
    Anywhere(bool),
    /// Both threads run on one core. `true` makes them real-time threads.
    OneCore(bool),
    /// Real-time threads on any cores, while no core of the machine sleeps.
    Awake,
    /// Real-time threads, each on its own core. The receiver spins when a message is due.
    Spinning,
}

/// All conditions, in the order of the table.
pub(super) const CONDITIONS: [Condition; 6] = [
    Condition::Anywhere(false),
    Condition::OneCore(false),
    Condition::Anywhere(true),
    Condition::OneCore(true),
    Condition::Awake,
    Condition::Spinning,
];

impl Condition {
    /// The primitives measured under this condition. Only a channel can be polled without a system call, so an eventfd
    /// is not measured with a spinning receiver.
    pub(super) fn primitives(self) -> &'static [Primitive] {
        match self {
            Condition::Spinning => &[Primitive::Channel],
            _ => &[Primitive::Eventfd, Primitive::Channel],
        }
    }

    pub(super) fn words(self) -> &'static str {
        match self {
            Condition::Anywhere(_) => "",
            Condition::OneCore(_) => "one core",
            Condition::Awake => "no core sleeps",
            Condition::Spinning => "spins",
        }
    }

    fn is_real_time(self) -> bool {
        !matches!(self, Condition::Anywhere(false) | Condition::OneCore(false))
    }
}

/// Rate and duration.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// Messages per second.
    pub(super) rate: f64,
    pub(super) seconds: f64,
}

impl Pace {
    fn period(self) -> Duration {
        Duration::from_secs_f64(1.0 / self.rate)
    }
}

#[derive(Debug, Serialize)]
pub(super) struct Cell {
    primitive: Primitive,
    /// The threads' actual policy, such as `FIFO 45`.
    policy: String,
    pub(super) real_time: bool,
    /// The special condition, such as `one core`. Empty if there is none.
    how: &'static str,
    /// Number of messages that the sender handed over. The receiver received `us.count` of them.
    pub(super) sent: usize,
    pub(super) us: Micros,
    /// The receiver's CPU use, in cores.
    pub(super) receiver_cores: f64,
}

impl Cell {
    /// The name for a line of the table.
    pub(super) fn name(&self) -> String {
        let primitive = match self.primitive {
            Primitive::Eventfd => "eventfd",
            Primitive::Channel => "channel",
        };
        let comma = if self.how.is_empty() { "" } else { ", " };
        format!("{primitive}, {}{comma}{}", self.policy, self.how)
    }
}

/// A receiver's result: the latency of each message in microseconds, and the thread's CPU time.
type Received = (Vec<f64>, Duration);

/// Measures one primitive. The sender sends at a fixed rate, and the receiver waits for each message. The inner error
/// is the reason why the condition cannot be measured on this machine or at this rate.
pub(super) fn cell(
    primitive: Primitive,
    way: Condition,
    pace: Pace,
    stop: &Arc<AtomicBool>,
) -> Result<Result<Cell, String>> {
    let scheduler = match way.is_real_time() {
        true => Scheduler::new(),
        false => Scheduler::ordinary(),
    };
    let awake = match way {
        Condition::Awake => Some(Awake::request()),
        _ => None,
    };
    if let Some(Err(why)) = &awake {
        return Ok(Err(why.clone()));
    }
    let cores = cores()?;
    let [sender_on, receiver_on] = match (way, &cores[..]) {
        (Condition::OneCore(_), [first, ..]) => [Some(*first); 2],
        (Condition::Spinning, _) if pace.period() <= SPIN => {
            return Ok(Err(
                "at this rate, the receiver would spin all the time".into()
            ));
        }
        (Condition::Spinning, [first, .., last]) => [Some(*first), Some(*last)],
        (Condition::Spinning, _) => return Ok(Err("spinning needs two cores".into())),
        _ => [None, None],
    };
    let count = (pace.rate * pace.seconds).ceil() as u32;
    let stopped = Arc::clone(stop);
    // Sends at the given pace, and returns the number of messages sent.
    let paced = move |mut hand_over: Box<dyn FnMut(usize, Instant) -> Result<()>>| {
        pin(sender_on)?;
        let (begin, mut sent) = (clock::now(), 0);
        for n in 1..=count {
            clock::sleep_until(begin + pace.period() * n);
            if stopped.load(Ordering::Relaxed) {
                break;
            }
            hand_over(sent, clock::now())?;
            sent += 1;
        }
        Ok::<usize, anyhow::Error>(sent)
    };
    let (receiver, sender) = match primitive {
        Primitive::Channel => {
            let (sender, inbox) = sync_channel::<Instant>(8);
            let receiver = scheduler.spawn(ThreadRole::Dispatch, "receiver", move || {
                pin(receiver_on)?;
                let spins = (way == Condition::Spinning).then(|| pace.period());
                let samples = of_channel(&inbox, spins);
                Ok::<Received, anyhow::Error>((samples, used()))
            })?;
            let sender = scheduler.spawn(ThreadRole::Dispatch, "sender", move || {
                paced(Box::new(move |_, now| Ok(sender.send(now)?)))
            })?;
            (receiver, sender)
        }
        Primitive::Eventfd => {
            let waker = Waker::new()?;
            // Each message has a slot for its send time, because one wake-up of a late receiver can cover several
            // messages.
            let stamps: Arc<[AtomicI64]> = (0..count).map(|_| AtomicI64::new(0)).collect();
            let all = Arc::new(AtomicUsize::new(usize::MAX));
            let (raised, sent, end) = (waker.clone(), stamps.clone(), all.clone());
            let receiver = scheduler.spawn(ThreadRole::Dispatch, "receiver", move || {
                pin(receiver_on)?;
                let samples = of_eventfd(&raised, &sent, &end)?;
                Ok::<Received, anyhow::Error>((samples, used()))
            })?;
            let sender = scheduler.spawn(ThreadRole::Dispatch, "sender", move || {
                let last = waker.clone();
                let sent = paced(Box::new(move |number, now| {
                    stamps[number].store(now.0, Ordering::Release);
                    waker.wake();
                    Ok(())
                }))?;
                // An additional wake-up after those of all messages marks the end.
                all.store(sent, Ordering::Release);
                last.wake();
                Ok(sent)
            })?;
            (receiver, sender)
        }
    };
    let panicked = |_| anyhow!("a thread of the measurement panicked");
    let sent = sender.join().map_err(panicked)??;
    ensure!(!stop.load(Ordering::Relaxed), "interrupted");
    let (samples, used) = receiver.join().map_err(panicked)??;
    let report = scheduler.report();
    let policy = report.threads.first().map_or(Policy::Other, |t| t.policy);
    Ok(Ok(Cell {
        primitive,
        policy: policy.to_string(),
        real_time: policy != Policy::Other,
        how: way.words(),
        sent,
        us: Micros::of(samples).context("no message arrived")?,
        receiver_cores: used.as_secs_f64() / pace.seconds,
    }))
}

fn micros(sent: Instant, now: Instant) -> f64 {
    now.since(sent).as_secs_f64() * 1e6
}

/// Latencies of all messages until the channel closes. With `spins`, the receiver expects each message at this interval
/// after the previous one, and spins when it is due.
fn of_channel(inbox: &Receiver<Instant>, spins: Option<Duration>) -> Vec<f64> {
    let mut samples = Vec::new();
    let mut due: Option<Instant> = None;
    loop {
        if let Some(due) = due {
            clock::sleep_until(due - LEAD);
        }
        let until = due.map(|due| due - LEAD + SPIN);
        let sent = loop {
            match inbox.try_recv() {
                Ok(sent) => break Some(sent),
                Err(TryRecvError::Disconnected) => break None,
                Err(TryRecvError::Empty) if until.is_some_and(|until| clock::now() < until) => {
                    std::hint::spin_loop();
                }
                Err(TryRecvError::Empty) => break inbox.recv().ok(),
            }
        };
        let Some(sent) = sent else { return samples };
        samples.push(micros(sent, clock::now()));
        due = spins.map(|period| sent + period);
    }
}

fn of_eventfd(raised: &Waker, sent: &[AtomicI64], end: &AtomicUsize) -> Result<Vec<f64>> {
    let mut samples = Vec::new();
    loop {
        let fd = raised.0.as_fd();
        poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], None)?;
        let mut count = [0; 8];
        rustix::io::read(fd, &mut count)?;
        let now = clock::now();
        // The eventfd counts the wake-ups since the last read (eventfd(2)).
        for _ in 0..u64::from_ne_bytes(count) {
            match sent.get(samples.len()) {
                Some(sent) if samples.len() < end.load(Ordering::Acquire) => {
                    let sent = Instant(sent.load(Ordering::Acquire));
                    samples.push(micros(sent, now));
                }
                _ => return Ok(samples),
            }
        }
    }
}

/// CPU time of the calling thread.
fn used() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

fn pin(core: Option<CpuSet>) -> rustix::io::Result<()> {
    core.map_or(Ok(()), |core| sched_setaffinity(None, &core))
}

/// The cores that this process may use.
fn cores() -> Result<Vec<CpuSet>> {
    let allowed = sched_getaffinity(None).context("can't read this process's cores")?;
    let of = |core| {
        let mut one = CpuSet::new();
        one.set(core);
        one
    };
    let cores = (0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core));
    Ok(cores.map(of).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_is_counted_and_none_arrives_before_it_was_sent() {
        let stop = Arc::new(AtomicBool::new(false));
        let pace = Pace {
            rate: 2_000.0,
            seconds: 0.05,
        };
        for way in CONDITIONS {
            for primitive in way.primitives() {
                let Ok(cell) = cell(*primitive, way, pace, &stop).unwrap() else {
                    assert!(
                        matches!(way, Condition::Awake | Condition::Spinning),
                        "{way:?}"
                    );
                    continue;
                };
                // The count includes messages whose wake-ups were merged.
                assert_eq!((cell.sent, cell.us.count), (100, 100), "{cell:?}");
                assert!(cell.us.p50 >= 0.0 && cell.us.max >= cell.us.p999);
                assert!(cell.receiver_cores > 0.0, "{cell:?}");
                assert!(way.is_real_time() || !cell.real_time);
            }
        }
        stop.store(true, Ordering::Relaxed);
        for primitive in [Primitive::Eventfd, Primitive::Channel] {
            let pace = Pace {
                seconds: 3600.0,
                ..pace
            };
            let enough = cell(primitive, Condition::Anywhere(false), pace, &stop).unwrap_err();
            assert_eq!(enough.to_string(), "interrupted");
        }
    }
}
