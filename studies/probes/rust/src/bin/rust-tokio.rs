//! Pairs of tasks with an unbounded tokio channel for each direction. One thread for each pair sends paced messages,
//! because tokio's timer has a resolution of a millisecond.

use std::sync::{Arc, Barrier, OnceLock};
use std::thread;

use openuvr_probes::{Message, Options, Pattern, Records, Samples, fail, now, sleep_until};
use tokio::runtime::Builder;
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

async fn receive(
    options: Options,
    mut records: Records,
    mut there: UnboundedReceiver<Message>,
    back: UnboundedSender<Message>,
) {
    for _ in 0..options.capacity() {
        let Some(message) = there.recv().await else {
            fail("a sender has ended")
        };
        records.received(message);
        if options.pattern == Pattern::PingPong && back.send(message).is_err() {
            fail("a sender has ended");
        }
    }
}

async fn send(
    options: Options,
    begun: Arc<Notify>,
    there: UnboundedSender<Message>,
    mut back: UnboundedReceiver<Message>,
) {
    begun.notified().await;
    for _ in 0..options.capacity() {
        let sent = now();
        let message = Message {
            intended: sent,
            sent,
        };
        if there.send(message).is_err() {
            fail("a receiver has ended");
        }
        if options.pattern == Pattern::PingPong && back.recv().await.is_none() {
            fail("a receiver has ended");
        }
    }
}

fn pace(options: &Options, begin: u64, pair: usize, there: &UnboundedSender<Message>) {
    for number in 0..options.capacity() {
        let intended = options.intended(begin, pair, number);
        sleep_until(intended);
        let message = Message {
            intended,
            sent: now(),
        };
        if there.send(message).is_err() {
            fail("a receiver has ended");
        }
    }
}

fn main() {
    let options = Options::parse();
    let (mut samples, pairs) = Samples::create(&options, "Rust tasks (tokio)");
    let runtime = Builder::new_multi_thread()
        .build()
        .unwrap_or_else(|error| fail(&format!("cannot start tokio: {error}")));
    let paced = options.pattern == Pattern::Paced;
    let begin = Arc::new(OnceLock::new());
    let created = Arc::new(Barrier::new(options.pairs + 1));
    let begun = Arc::new(Barrier::new(options.pairs + 1));
    let (mut tasks, mut senders, mut pacers) = (Vec::new(), Vec::new(), Vec::new());
    for (pair, records) in pairs.into_iter().enumerate() {
        let (there, receives) = unbounded_channel();
        let (back, answered) = unbounded_channel();
        tasks.push(runtime.spawn(receive(options.clone(), records, receives, back)));
        if paced {
            let (options, begin) = (options.clone(), Arc::clone(&begin));
            let (created, begun) = (Arc::clone(&created), Arc::clone(&begun));
            pacers.push(thread::spawn(move || {
                // The channel is unused, because paced messages are not answered.
                drop(answered);
                created.wait();
                begun.wait();
                let Some(begin) = begin.get() else {
                    fail("the test has no start time")
                };
                pace(&options, *begin, pair, &there);
            }));
        } else {
            let go = Arc::new(Notify::new());
            senders.push(Arc::clone(&go));
            tasks.push(runtime.spawn(send(options.clone(), go, there, answered)));
        }
    }
    if paced {
        created.wait();
    }
    let _ = begin.set(samples.start());
    if paced {
        begun.wait();
    }
    for go in &senders {
        go.notify_one();
    }
    for task in tasks {
        if runtime.block_on(task).is_err() {
            fail("a task panicked");
        }
    }
    samples.end();
    drop(pacers);
}
