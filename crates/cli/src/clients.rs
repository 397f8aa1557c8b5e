//! The current and former clients of a host: messages about them, and records of their frames.
//!
//! The host runs in this process, or in another one that sends reports.

use std::collections::HashMap;
use std::fmt::Display;
use std::path::Path;
use std::time::Duration;

use openuvr_clock as clock;
use openuvr_proto::control::negotiate::Role;
use openuvr_proto::host::Ending;
use openuvr_proto::id::SubscriberId;
use openuvr_proto::time::Instant;
use openuvr_proto::wire::control::GoodbyeReason;
use openuvr_report::{IdleText, Options, Recorder, Summary};
use openuvr_runtime::host::Notice;
use openuvr_runtime::launch_protocol::LaunchReport;
use openuvr_runtime::store::config_dir;
use openuvr_terminal::{out, shell};

use crate::config::HostConfig;

/// The interval of table and file updates.
pub(crate) const TICK: Duration = Duration::from_millis(250);

/// The maximum number of stored client names: more than a host serves at a time.
const MAX_KNOWN: usize = 256;

impl From<&HostConfig> for Options {
    fn from(config: &HostConfig) -> Options {
        Options {
            csv: config.csv.clone(),
            trace: config.trace.clone(),
            table: config.table,
            idle_text: IdleText {
                yet: "no client yet",
                now: "no client now",
            },
        }
    }
}

pub(crate) struct Clients {
    /// The subcommand in the prefix of each line.
    subcommand: &'static str,
    known: HashMap<SubscriberId, (Role, String)>,
    recorder: Recorder,
    /// Whether notices were lost, so that records may be missing.
    lossy: bool,
}

/// The state of the host after a report.
#[must_use]
pub(crate) enum HostState {
    Running,
    /// The host has ended normally.
    Ended,
    /// The host has failed, with the reason.
    Failed(String),
}

impl Clients {
    /// Creates an empty set of clients.
    pub(crate) fn new(subcommand: &'static str, recorder: Recorder) -> Clients {
        Clients {
            subcommand,
            known: HashMap::new(),
            recorder,
            lossy: false,
        }
    }

    /// The number of connected clients.
    pub(crate) fn count(&self) -> usize {
        self.known.len()
    }

    /// Prints and records a report of the host.
    pub(crate) fn handle(&mut self, report: LaunchReport) -> HostState {
        let subcommand = self.subcommand;
        match report {
            LaunchReport::Streaming {
                size,
                endpoint: place,
            } => {
                eprintln!("openuvr {subcommand}: streaming {size} on {place}");
            }
            LaunchReport::Invitation { pin, seconds } => {
                print_invitation(subcommand, &pin, seconds.into());
            }
            // The launcher's socket in `openuvr_runtime` handles this report.
            LaunchReport::InputDisplay(_) => {}
            LaunchReport::Notice(notice) => return self.handle_notice(notice),
        }
        HostState::Running
    }

    fn handle_notice(&mut self, notice: Notice) -> HostState {
        let subcommand = self.subcommand;
        match notice {
            Notice::Paired { name, fingerprint } => {
                eprintln!("openuvr {subcommand}: paired with {name} ({fingerprint})");
            }
            Notice::Pairing(words) => eprintln!("openuvr {subcommand}: {words}"),
            Notice::Subscribed {
                subscriber,
                role,
                name,
                software,
                constraints: _,
                rendition,
            } => {
                let role_name = role.name();
                match software.as_str() {
                    "" => eprintln!("openuvr {subcommand}: {name} joins as {role_name}"),
                    _ => {
                        eprintln!("openuvr {subcommand}: {name} joins as {role_name} ({software})")
                    }
                }
                self.recorder.joined(subscriber, role, &name);
                self.recorder.assign_rendition(subscriber, rendition);
                self.remember(subscriber, role, name);
            }
            Notice::RoleChanged(subscriber, role) => {
                if let Some(client) = self.known.get_mut(&subscriber) {
                    client.0 = role;
                    self.recorder.joined(subscriber, role, &client.1);
                    eprintln!("openuvr {subcommand}: {} is now {}", client.1, role.name());
                }
            }
            Notice::Ended(subscriber, ending) => {
                self.recorder.left(subscriber);
                if let Ending::Refused(why) = ending {
                    eprintln!("openuvr {subcommand}: a client was refused: {why}");
                } else if let Some((_, name)) = self.known.remove(&subscriber) {
                    eprintln!("openuvr {subcommand}: {name} left: {}", ending_text(ending));
                }
            }
            Notice::Link(session, transport) => {
                let subscriber = session.into();
                self.recorder.link(subscriber, transport);
                if let Some((_, name)) = self.known.get(&subscriber) {
                    eprintln!(
                        "openuvr {subcommand}: {name} uses transport {}",
                        transport.name()
                    );
                }
            }
            Notice::Record(record) => {
                if let Some((role, name)) = self.known.get(&record.subscriber) {
                    self.recorder.record(clock::now(), &record, *role, name);
                }
            }
            Notice::Audio(session, report) => {
                let subscriber = session.into();
                if self.known.contains_key(&subscriber) {
                    self.recorder.audio(clock::now(), subscriber, &report);
                }
            }
            Notice::ControlEvent { rendition, event } => {
                tracing::debug!("{rendition}: {event}");
                self.recorder.decision(clock::now(), rendition, &event);
            }
            Notice::EncoderOpened {
                rendition,
                encoder,
                size,
            } => {
                eprintln!("openuvr {subcommand}: {rendition}: {encoder} is open for {size}")
            }
            Notice::EncoderClosed(rendition) => {
                eprintln!("openuvr {subcommand}: {rendition}: its encoder is closed");
            }
            Notice::Resized(size) => {
                eprintln!("openuvr {subcommand}: the picture is {size}")
            }
            Notice::SourceShown(false) => {
                eprintln!("openuvr {subcommand}: the window is hidden; waiting")
            }
            Notice::SourceShown(true) => {
                eprintln!("openuvr {subcommand}: the window is visible again")
            }
            // Only the code that resizes the display uses this notice.
            Notice::PlayerWindow(_) => {}
            Notice::NoPicture => eprintln!(
                "openuvr {subcommand}: a client is waiting, but the application has shown no picture yet"
            ),
            Notice::Lost(notices) => {
                self.note_loss();
                eprintln!(
                    "openuvr {subcommand}: {notices} messages or records lost: this machine can't keep up"
                );
            }
            Notice::InputWithheld(Some(why)) => {
                eprintln!("openuvr {subcommand}: keyboard and mouse input is suspended: {why}");
            }
            Notice::InputWithheld(None) => {
                eprintln!("openuvr {subcommand}: keyboard and mouse input is resumed");
            }
            Notice::Clipboard(words) | Notice::Sound(words) => {
                eprintln!("openuvr {subcommand}: {words}")
            }
            Notice::Warning(why) => eprintln!("openuvr {subcommand}: {why}"),
            Notice::SourceEnded(why) => {
                eprintln!("openuvr {subcommand}: stream ended: {why}");
                return HostState::Ended;
            }
            Notice::Failed(why) => return HostState::Failed(why),
        }
        HostState::Running
    }

    /// Forgets the clients of a host whose process has ended. A killed process does not report that its clients leave.
    pub(crate) fn on_host_ended(&mut self) {
        // The killed process has not sent the records of the clients' newest frames.
        self.lossy |= !self.known.is_empty();
        for (subscriber, (_, name)) in self.known.drain() {
            self.recorder.left(subscriber);
            let subcommand = self.subcommand;
            eprintln!("openuvr {subcommand}: {name} left: the process that streamed has ended");
        }
    }

    /// Records that notices were lost. The caller reports the loss.
    pub(crate) fn note_loss(&mut self) {
        self.lossy = true;
    }

    /// Stores a client's name until the client leaves. The notice that a client has left can be lost, so an arbitrary
    /// other name is removed if [`MAX_KNOWN`] are already stored.
    fn remember(&mut self, subscriber: SubscriberId, role: Role, name: String) {
        if self.known.len() >= MAX_KNOWN
            && let Some(one) = self.known.keys().next().copied()
        {
            self.known.remove(&one);
        }
        self.known.insert(subscriber, (role, name));
    }

    /// Updates the table and the files; call it each [`TICK`].
    pub(crate) fn tick(&mut self, now: Instant) {
        self.recorder.tick(now);
    }

    /// Completes the files. If no records can have been lost, prints for each client the number of frames without a
    /// record.
    ///
    /// # Errors
    /// Returns an error if a file is incomplete.
    pub(crate) fn finish(self) -> anyhow::Result<()> {
        let (subcommand, lossy) = (self.subcommand, self.lossy);
        let (summary, complete) = finish(self.recorder);
        for (name, frames) in unrecorded(&summary, lossy) {
            eprintln!(
                "openuvr {subcommand}: {frames} frames of {name} have no record: please report this bug"
            );
        }
        complete
    }
}

/// The number of frames without a record for each client that has any. Empty if records may have been lost.
fn unrecorded(summary: &Summary, lossy: bool) -> Vec<(&str, u64)> {
    let clients = summary.subscribers.iter().filter(|_| !lossy);
    let counted = clients.map(|client| (client.name.as_str(), client.unaccounted()));
    counted.filter(|(_, frames)| *frames > 0).collect()
}

/// Prints the command that pairs another device with a running host. `folder` is the host's configuration folder.
pub(crate) fn print_pairing_command(subcommand: &str, folder: &Path) {
    let is_default = config_dir().is_ok_and(|default| default == folder);
    let option = match is_default {
        true => String::new(),
        false => format!(" --config-dir {}", shell::word(folder)),
    };
    eprintln!("openuvr {subcommand}: `openuvr devices pair{option}` pairs another device");
}

/// Prints the PIN with which a new device can pair, and for how many seconds it is valid.
pub(crate) fn print_invitation(subcommand: &str, pin: &impl Display, seconds: u64) {
    out::unlimited_message(format_args!(
        "openuvr {subcommand}: a new device may pair within {seconds} s with the PIN  {pin}"
    ));
}

/// Completes the files, and prints the totals if no table was shown. Returns an error for incomplete files.
pub(crate) fn finish(recorder: Recorder) -> (Summary, anyhow::Result<()>) {
    let shown = recorder.shows_table();
    let (summary, failed) = recorder.finish();
    if !shown && !summary.subscribers.is_empty() {
        out::unlimited_message(format_args!("{summary}"));
    }
    let complete = match failed.as_slice() {
        [] => Ok(()),
        failed => Err(anyhow::anyhow!("{}", failed.join("; "))),
    };
    (summary, complete)
}

fn ending_text(ending: Ending) -> String {
    match ending {
        Ending::Goodbye(reason) => goodbye_text(reason).to_owned(),
        Ending::Silent => "no more packets received".to_owned(),
        Ending::Replaced => "it started a new session".to_owned(),
        Ending::Refused(why) => why.to_string(),
        Ending::Closed => "closed by this host".to_owned(),
    }
}

pub(crate) fn goodbye_text(reason: GoodbyeReason) -> &'static str {
    match reason {
        GoodbyeReason::Quit => "it disconnected",
        GoodbyeReason::SourceEnded => "the application has ended",
        GoodbyeReason::TakenOver => "another client took over",
        GoodbyeReason::Forbidden => "this device is forbidden",
        GoodbyeReason::Failed => "it failed",
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use openuvr_proto::control_event::{ControlEvent, RateChange};
    use openuvr_proto::id::{FrameId, RenditionId, ViewId};
    use openuvr_proto::trace::{FrameRecord, Outcome};
    use openuvr_proto::units::Bitrate;
    use openuvr_report::TableMode;

    use super::*;

    /// Creates a set of clients whose frames are recorded only in the trace.
    fn clients(trace: Option<PathBuf>) -> Clients {
        let options = Options {
            csv: None,
            trace,
            table: TableMode::Off,
            idle_text: IdleText { yet: "", now: "" },
        };
        Clients::new(
            "host",
            Recorder::new(&options).expect("a folder for the trace"),
        )
    }

    #[test]
    fn control_events_are_in_the_log_and_in_the_trace() {
        let folder = tempfile::tempdir().expect("a folder");
        let trace = folder.path().join("trace.json");
        let (log, sink) = std::io::pipe().expect("a pipe");
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_max_level(tracing::Level::DEBUG)
            .with_writer(move || sink.try_clone().expect("a descriptor"))
            .finish();
        let to = Bitrate::from_mbps(8);
        let by = Duration::from_millis(63);
        tracing::subscriber::with_default(subscriber, || {
            let mut clients = clients(Some(trace.clone()));
            for change in [RateChange::Stall { by }, RateChange::Reverted { to }] {
                let notice = Notice::ControlEvent {
                    rendition: RenditionId(1),
                    event: ControlEvent::Rate(change),
                };
                assert!(matches!(clients.handle(notice.into()), HostState::Running));
            }
            clients.finish().expect("the disk has space");
        });
        // All writers have been dropped, so the files are complete.
        let log = std::io::read_to_string(log).expect("text");
        let file = std::fs::read_to_string(&trace).expect("the trace exists");
        for words in [
            "rate unchanged: frames arrived 63 ms late in a burst after a stall",
            "rate back to 8.0 Mb/s: the capacity was underestimated",
        ] {
            let expected = format!("DEBUG openuvr_cli::clients: rendition 1: {words}\n");
            assert_eq!(log.matches(&expected).count(), 1, "{log}");
            assert_eq!(file.matches(words).count(), 1, "{file}");
        }
    }

    #[test]
    fn lost_records_are_not_reported_as_a_bug() {
        let subscriber = SubscriberId::Other(1);
        for (lost, expected) in [(None, &[("attic", 2)][..]), (Some(2), &[][..])] {
            let mut clients = clients(None);
            clients.remember(subscriber, Role::Player, "attic".to_owned());
            let records = [1, 4].map(|frame| {
                let of = (ViewId::FIRST, FrameId(frame));
                FrameRecord::new(subscriber, of, Outcome::SentUnacknowledged)
            });
            let records = records.map(|record| Notice::Record(Box::new(record)));
            for notice in records.into_iter().chain(lost.map(Notice::Lost)) {
                assert!(matches!(clients.handle(notice.into()), HostState::Running));
            }
            let lossy = clients.lossy;
            let (summary, _) = clients.recorder.finish();
            assert_eq!(unrecorded(&summary, lossy), expected);
        }
    }

    #[test]
    fn the_clients_of_a_killed_host_are_forgotten() {
        let mut clients = clients(None);
        clients.remember(SubscriberId::Other(1), Role::Player, "attic".to_owned());
        assert_eq!(clients.count(), 1);
        clients.on_host_ended();
        assert_eq!((clients.count(), clients.lossy), (0, true));
    }

    #[test]
    fn the_number_of_known_clients_is_bounded() {
        let mut clients = clients(None);
        for n in (0..).take(10 * MAX_KNOWN) {
            let subscriber = SubscriberId::Other(n);
            clients.remember(subscriber, Role::Observer, "observer".to_owned());
            assert!(clients.known.contains_key(&subscriber));
            assert!(clients.known.len() <= MAX_KNOWN);
        }
        assert_eq!(clients.known.len(), MAX_KNOWN);
    }
}
