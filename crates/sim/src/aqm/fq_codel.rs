//! FQ-CoDel: deficit round robin over the flows, with CoDel in each flow's queue (RFC 8290).
//!
//! Flows are hashed into [`QUEUES`] queues with a seed. New flows are served before old ones.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use openuvr_proto::time::Instant;

use super::codel::CoDel;
use super::{Actions, Aqm, Packet};
use crate::random::Random;

/// The number of queues, and the quantum in bytes: defaults of RFC 8290, sections 5.2.5 and 5.2.4.
const QUEUES: u64 = 1024;
const QUANTUM: i64 = 1514;

/// The queues.
#[derive(Debug)]
pub struct FqCodel<T> {
    limit: usize,
    salt: u64,
    /// The queues that have had packets, by the hash of their flows: those in the lists `new` and `old`, and empty
    /// queues in neither list. At most [`QUEUES`].
    queues: BTreeMap<u64, FlowQueue<T>>,
    new: VecDeque<u64>,
    old: VecDeque<u64>,
    bytes: usize,
    actions: Actions,
}

#[derive(Debug)]
struct FlowQueue<T> {
    codel: CoDel<T>,
    /// Bytes that the queue may still send before another queue is served. Negative if the last packet was longer than
    /// the bytes that were left.
    deficit: i64,
    listed: bool,
}

impl<T> FqCodel<T> {
    /// Empty queues of at most `limit` bytes together.
    #[must_use]
    pub fn new(limit: usize, seed: u64) -> FqCodel<T> {
        FqCodel {
            limit,
            salt: Random::new(seed, 2).bits(),
            queues: BTreeMap::new(),
            new: VecDeque::new(),
            old: VecDeque::new(),
            bytes: 0,
            actions: Actions::default(),
        }
    }

    /// Drops the oldest packets of the longest queue (section 4.1).
    fn shorten(&mut self) {
        while self.bytes > self.limit {
            let longest = self.queues.values_mut().max_by_key(|one| one.codel.held());
            let Some(packet) = longest.and_then(|one| one.codel.drop_oldest()) else {
                return;
            };
            self.bytes -= packet.len;
            self.actions.overflowed += 1;
        }
    }
}

impl<T: fmt::Debug + Send> Aqm<T> for FqCodel<T> {
    fn enqueue(&mut self, now: Instant, packet: Packet<T>) {
        let bucket = Random::new(packet.flow ^ self.salt, 3).bits() % QUEUES;
        let queue = self.queues.entry(bucket).or_insert_with(|| FlowQueue {
            codel: CoDel::new(),
            deficit: 0,
            listed: false,
        });
        self.bytes += packet.len;
        queue.codel.push(now, packet);
        if !queue.listed {
            queue.listed = true;
            queue.deficit = QUANTUM;
            self.new.push_back(bucket);
        }
        self.shorten();
    }

    /// The scheduler of section 4.2.
    fn dequeue(&mut self, now: Instant) -> Option<Packet<T>> {
        loop {
            let from_new = !self.new.is_empty();
            let list = if from_new {
                &mut self.new
            } else {
                &mut self.old
            };
            let bucket = *list.front()?;
            let queue = self.queues.get_mut(&bucket)?;
            if queue.deficit <= 0 {
                queue.deficit += QUANTUM;
                list.pop_front();
                self.old.push_back(bucket);
                continue;
            }
            let before = queue.codel.held();
            let packet = queue.codel.pop(now, &mut self.actions);
            self.bytes -= before - queue.codel.held();
            let Some(packet) = packet else {
                list.pop_front();
                if from_new {
                    // An empty new queue moves to the old queues for one round, so that a flow cannot stay new (section
                    // 4.2).
                    self.old.push_back(bucket);
                } else {
                    queue.listed = false;
                }
                continue;
            };
            queue.deficit -= i64::try_from(packet.len).unwrap_or(i64::MAX);
            return Some(packet);
        }
    }

    fn bytes(&self) -> usize {
        self.bytes
    }

    fn actions(&self) -> Actions {
        self.actions
    }
}
