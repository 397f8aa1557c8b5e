//! Pairs of tasks; an unbounded channel of tokio for each direction. Paced messages come from threads
//! of their own, one for each pair: tokio's timer counts in milliseconds.

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
            fail("a sender is gone")
        };
        records.received(message);
        if options.pattern == Pattern::PingPong && back.send(message).is_err() {
            fail("a sender is gone");
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
            fail("a receiver is gone");
        }
        if options.pattern == Pattern::PingPong && back.recv().await.is_none() {
            fail("a receiver is gone");
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
            fail("a receiver is gone");
        }
    }
}

fn main() {
    let options = Options::parse();
    let (mut samples, pairs) = Samples::create(&options, "Rust tasks (tokio)");
    let runtime = Builder::new_multi_thread()
        .build()
        .unwrap_or_else(|error| fail(&format!("can't start tokio: {error}")));
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
                // Not used: what does not answer needs no channel back.
                drop(answered);
                created.wait();
                begun.wait();
                let Some(begin) = begin.get() else {
                    fail("the test has no begin")
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
    let _ = begin.set(samples.begin());
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
