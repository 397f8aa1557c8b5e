//! Pairs of threads with a standard-library channel for each direction.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Barrier, OnceLock};
use std::thread;

use openuvr_probes::{Message, Options, Pattern, Records, Samples, fail, now, sleep_until};

struct Test {
    options: Options,
    created: Barrier,
    started: Barrier,
    begin: OnceLock<u64>,
}

impl Test {
    /// Two barriers ensure that the test starts only when all threads exist, and that no thread works before the start.
    fn wait_for_begin(&self) -> u64 {
        self.created.wait();
        self.started.wait();
        *self
            .begin
            .get()
            .unwrap_or_else(|| fail("the test has no start time"))
    }

    fn send(&self, pair: usize, there: &Sender<Message>, back: &Receiver<Message>) {
        let begin = self.wait_for_begin();
        for number in 0..self.options.capacity() {
            let intended = (self.options.pattern == Pattern::Paced).then(|| {
                let intended = self.options.intended(begin, pair, number);
                sleep_until(intended);
                intended
            });
            let sent = now();
            let intended = intended.unwrap_or(sent);
            there
                .send(Message { intended, sent })
                .unwrap_or_else(|_| fail("a receiver has ended"));
            if self.options.pattern == Pattern::PingPong && back.recv().is_err() {
                fail("a receiver has ended");
            }
        }
    }

    fn receive(&self, records: &mut Records, there: &Receiver<Message>, back: &Sender<Message>) {
        self.wait_for_begin();
        for _ in 0..self.options.capacity() {
            let Ok(message) = there.recv() else {
                fail("a sender has ended")
            };
            records.received(message);
            if self.options.pattern == Pattern::PingPong && back.send(message).is_err() {
                fail("a sender has ended");
            }
        }
    }
}

fn main() {
    let options = Options::parse();
    let (mut samples, pairs) = Samples::create(&options, "Rust threads (std mpsc)");
    let threads_and_main = 2 * options.pairs + 1;
    let test = Arc::new(Test {
        options,
        created: Barrier::new(threads_and_main),
        started: Barrier::new(threads_and_main),
        begin: OnceLock::new(),
    });
    let mut threads = Vec::new();
    for (pair, mut records) in pairs.into_iter().enumerate() {
        let (there, receives) = channel();
        let (back, answered) = channel();
        let sender = Arc::clone(&test);
        threads.push(thread::spawn(move || sender.send(pair, &there, &answered)));
        let receiver = Arc::clone(&test);
        threads.push(thread::spawn(move || {
            receiver.receive(&mut records, &receives, &back)
        }));
    }
    test.created.wait();
    let _ = test.begin.set(samples.start());
    test.started.wait();
    for thread in threads {
        if thread.join().is_err() {
            fail("a thread panicked");
        }
    }
    samples.end();
}
