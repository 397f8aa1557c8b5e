//! The host as a service of systemd, or of another manager that uses sd_notify(3): reports start and end, and serves
//! the watchdog (`WatchdogSec=` of the unit). Without a service manager, nothing is sent.
//!
//! Sending blocks while the manager's socket is full. A separate thread therefore sends the messages, so that a manager
//! that does not read cannot block the host.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use openuvr_proto::time::Instant;
use sd_notify::NotifyState;

/// How many messages the service manager gets within the watchdog's time limit. With four messages, a single late one
/// does not make the manager end the host.
const MESSAGES_PER_LIMIT: u32 = 4;

/// Maximum number of messages that wait for the thread. Further messages are dropped.
const QUEUE: usize = 2;

/// How long the ending host waits for the last message to be sent. If it is not sent, the manager still notices the end
/// of the process.
const LAST_MESSAGE: Duration = Duration::from_millis(200);

/// The service manager of this process, if there is one.
pub(super) struct ServiceManager {
    messages: SyncSender<NotifyState<'static>>,
    /// Disconnected when the thread has sent all messages.
    thread: Receiver<()>,
    /// The interval of the watchdog's messages; `None` if the manager expects none.
    interval: Option<Duration>,
    next: Instant,
    /// Whether a hanging thread has been reported.
    reported: bool,
}

impl ServiceManager {
    /// Reports that the host has started. `None` without a service manager.
    pub(super) fn ready(now: Instant) -> Option<ServiceManager> {
        std::env::var_os("NOTIFY_SOCKET")?;
        let (messages, queue) = sync_channel(QUEUE);
        let (ended, thread) = sync_channel(0);
        let started = thread::Builder::new()
            .name("service".to_owned())
            .spawn(move || send(&queue, ended));
        if let Err(why) = started {
            eprintln!("openuvr host: can't start the thread for the service manager: {why}");
            return None;
        }
        let manager = ServiceManager {
            messages,
            thread,
            interval: sd_notify::watchdog_enabled().map(|limit| limit / MESSAGES_PER_LIMIT),
            next: now,
            reported: false,
        };
        manager.send(NotifyState::Ready);
        Some(manager)
    }

    /// Sends the watchdog's message if it is due and no thread hangs. `hanging_thread` returns the name of a hanging
    /// thread.
    pub(super) fn turn(
        &mut self,
        now: Instant,
        hanging_thread: impl FnOnce() -> Option<&'static str>,
    ) {
        let Some(interval) = self.interval.filter(|_| now >= self.next) else {
            return;
        };
        self.next = now + interval;
        match hanging_thread() {
            None => {
                self.reported = false;
                self.send(NotifyState::Watchdog);
            }
            Some(name) if !self.reported => {
                self.reported = true;
                eprintln!(
                    "openuvr host: the {name} thread does not respond; if this continues, the service manager ends the \
                     host, and restarts it if the unit has Restart="
                );
            }
            Some(_) => {}
        }
    }

    /// Reports that the host is ending.
    pub(super) fn stopping(self) {
        self.send(NotifyState::Stopping);
        let ServiceManager {
            messages, thread, ..
        } = self;
        drop(messages);
        // Returns when the thread has ended, or after [`LAST_MESSAGE`].
        let _ = thread.recv_timeout(LAST_MESSAGE);
    }

    /// Passes a message to the thread. If the watchdog's messages are missing, the manager itself reports this, and
    /// restarts the host if the unit is configured so.
    fn send(&self, message: NotifyState<'static>) {
        let _ = self.messages.try_send(message);
    }
}

/// Sends messages until the host drops the queue's sender.
fn send(queue: &Receiver<NotifyState<'static>>, ended: SyncSender<()>) {
    for message in queue {
        let is_start = matches!(message, NotifyState::Ready);
        if let Err(why) = sd_notify::notify(&[message])
            && is_start
        {
            eprintln!(
                "openuvr host: can't report the start to the service manager: {why}; if the host's unit has Type=notify, \
                 the service manager will end the host"
            );
        }
    }
    drop(ended);
}
