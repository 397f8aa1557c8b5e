//! Who watches or watched, as the person at the host is told, and what is kept of their frames.
//!
//! The host may be this process or one that tells what happens in lines.

use std::collections::HashMap;
use std::fmt::Display;
use std::time::Duration;

use openuvr_proto::control::negotiate::Role;
use openuvr_proto::host::Ending;
use openuvr_proto::id::SubscriberId;
use openuvr_proto::time::Instant;
use openuvr_proto::wire::control::GoodbyeReason;
use openuvr_runtime::clock;
use openuvr_runtime::line::Line;

use crate::record::{Recorder, Summary};
use openuvr_terminal::out;

/// How often the table is drawn and files are brought up to date.
pub(crate) const TICK: Duration = Duration::from_millis(250);

/// Clients of which is known what they are called: more than a host serves at a time.
const MOST_KNOWN: usize = 256;

/// Who watches or watched.
pub(crate) struct Clients {
    /// The subcommand, as it begins each line.
    who: &'static str,
    known: HashMap<SubscriberId, (Role, String)>,
    recorder: Recorder,
}

/// What a line means for the host.
#[must_use]
pub(crate) enum HostState {
    /// Nothing.
    GoesOn,
    /// It has ended in an orderly way.
    Over,
    /// It has failed, and why.
    Failed(String),
}

impl Clients {
    /// Nobody yet.
    pub(crate) fn new(who: &'static str, recorder: Recorder) -> Clients {
        Clients {
            who,
            known: HashMap::new(),
            recorder,
        }
    }

    /// How many there are now.
    pub(crate) fn count(&self) -> usize {
        self.known.len()
    }

    /// Says what happened.
    pub(crate) fn tell(&mut self, line: Line) -> HostState {
        let who = self.who;
        match line {
            Line::Streaming { size, place } => {
                eprintln!("openuvr {who}: streaming {size} on {place}");
            }
            Line::Invitation { pin, seconds } => invite(who, &pin, seconds.into()),
            Line::Paired { name, fingerprint } => {
                eprintln!("openuvr {who}: paired with {name} ({fingerprint})");
            }
            Line::Pairing(words) => eprintln!("openuvr {who}: {words}"),
            Line::Subscribed {
                subscriber,
                role,
                name,
                software,
                rendition,
            } => {
                let role_name = role.name();
                match software.as_str() {
                    "" => eprintln!("openuvr {who}: {name} joins as {role_name}"),
                    _ => eprintln!("openuvr {who}: {name} joins as {role_name} ({software})"),
                }
                self.recorder.joined(subscriber, role, &name);
                self.recorder.takes(subscriber, rendition);
                self.remember(subscriber, role, name);
            }
            Line::RoleChanged(subscriber, role) => {
                if let Some(client) = self.known.get_mut(&subscriber) {
                    client.0 = role;
                    self.recorder.joined(subscriber, role, &client.1);
                    eprintln!("openuvr {who}: {} is now {}", client.1, role.name());
                }
            }
            Line::Ended(subscriber, ending) => {
                self.recorder.left(subscriber);
                if let Ending::Refused(why) = ending {
                    eprintln!("openuvr {who}: a client was refused: {why}");
                } else if let Some((_, name)) = self.known.remove(&subscriber) {
                    eprintln!("openuvr {who}: {name} is gone: {}", words(ending));
                }
            }
            Line::Link(session, rung) => {
                let subscriber = session.into();
                self.recorder.link(subscriber, rung);
                if let Some((_, name)) = self.known.get(&subscriber) {
                    eprintln!("openuvr {who}: {name} is served by {}", rung.name());
                }
            }
            Line::Record(record) => {
                if let Some((role, name)) = self.known.get(&record.subscriber) {
                    self.recorder.record(clock::now(), &record, *role, name);
                }
            }
            Line::Audio(session, report) => {
                let subscriber = session.into();
                if self.known.contains_key(&subscriber) {
                    self.recorder.audio(clock::now(), subscriber, &report);
                }
            }
            Line::Decision(rendition, decision) => {
                tracing::debug!("{rendition}: {decision}");
                self.recorder.decision(clock::now(), rendition, &decision);
            }
            Line::EncoderOpened {
                rendition,
                encoder,
                size,
            } => eprintln!("openuvr {who}: {rendition}: {encoder} is open for {size}"),
            Line::EncoderClosed(rendition) => {
                eprintln!("openuvr {who}: {rendition}: its encoder is closed");
            }
            Line::Resized(size) => eprintln!("openuvr {who}: the picture is {size}"),
            Line::Shown(false) => eprintln!("openuvr {who}: the window is hidden; waiting for it"),
            Line::Shown(true) => eprintln!("openuvr {who}: the window is shown again"),
            // For who started the game, and for who gives the display its size.
            Line::InputGoesTo(_) | Line::PlayerWindow(_) => {}
            Line::InputKeptBack(Some(why)) => {
                eprintln!("openuvr {who}: keys and clicks are kept back: {why}");
            }
            Line::InputKeptBack(None) => {
                eprintln!("openuvr {who}: keys and clicks reach the window again");
            }
            Line::Clipboard(words) | Line::Sound(words) => eprintln!("openuvr {who}: {words}"),
            Line::Trouble(why) => eprintln!("openuvr {who}: {why}"),
            Line::SourceEnded(why) => {
                eprintln!("openuvr {who}: the end: {why}");
                return HostState::Over;
            }
            Line::Failed(why) => return HostState::Failed(why),
        }
        HostState::GoesOn
    }

    /// Notes who joined. Their end is heard of, unless this machine was too slow to: of more than
    /// [`MOST_KNOWN`] one is forgotten.
    fn remember(&mut self, subscriber: SubscriberId, role: Role, name: String) {
        if self.known.len() >= MOST_KNOWN
            && let Some(one) = self.known.keys().next().copied()
        {
            self.known.remove(&one);
        }
        self.known.insert(subscriber, (role, name));
    }

    /// Brings the table and the files up to date; call it each [`TICK`].
    pub(crate) fn tick(&mut self, now: Instant) {
        self.recorder.tick(now);
    }

    /// Completes the files, and says what is wrong with them.
    ///
    /// # Errors
    /// A file that is not complete.
    pub(crate) fn finish(self) -> anyhow::Result<()> {
        let who = self.who;
        let (summary, complete) = finish(self.recorder);
        for client in summary.subscribers {
            if client.unaccounted() > 0 {
                let (name, frames) = (client.name.as_str(), client.unaccounted());
                eprintln!(
                    "openuvr {who}: {frames} frames of {name} have no record: please report it"
                );
            }
        }
        complete
    }
}

/// Says with what a new device may pair, and for how many seconds.
pub(crate) fn invite(who: &str, pin: &impl Display, seconds: u64) {
    out::answer(format_args!(
        "openuvr {who}: a new device may pair within {seconds} s with the PIN  {pin}"
    ));
}

/// Completes the files; where no table was shown, the totals are. An error for what is not complete.
pub(crate) fn finish(recorder: Recorder) -> (Summary, anyhow::Result<()>) {
    let shown = recorder.shows_table();
    let (summary, failed) = recorder.finish();
    if !shown && !summary.subscribers.is_empty() {
        out::answer(format_args!("{summary}"));
    }
    let complete = match failed.as_slice() {
        [] => Ok(()),
        failed => Err(anyhow::anyhow!("{}", failed.join("; "))),
    };
    (summary, complete)
}

fn words(ending: Ending) -> String {
    match ending {
        Ending::Goodbye(reason) => goodbye(reason).to_owned(),
        Ending::Silent => "it fell silent".to_owned(),
        Ending::Replaced => "it began a new session".to_owned(),
        Ending::Refused(why) => why.to_string(),
        Ending::Closed => "closed by this host".to_owned(),
    }
}

/// A goodbye in words.
pub(crate) fn goodbye(reason: GoodbyeReason) -> &'static str {
    match reason {
        GoodbyeReason::Quit => "it said goodbye",
        GoodbyeReason::SourceEnded => "the application has ended",
        GoodbyeReason::TakenOver => "another client took over",
        GoodbyeReason::Forbidden => "this device is forbidden",
        GoodbyeReason::Failed => "something failed there",
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use openuvr_proto::decision::{Change, Decision};
    use openuvr_proto::id::RenditionId;
    use openuvr_proto::units::Bitrate;

    use super::*;
    use crate::config::kind::TableMode;
    use crate::record::{IdleText, Options};

    /// What is told goes into the trace alone.
    fn clients(trace: Option<PathBuf>) -> Clients {
        let options = Options {
            csv: None,
            trace,
            table: TableMode::Off,
            nobody: IdleText { yet: "", now: "" },
        };
        Clients::new("host", Recorder::new(&options).expect("a folder for it"))
    }

    #[test]
    fn what_was_decided_is_in_the_log_and_in_the_trace() {
        let name = format!("openuvr-clients-{}.json", std::process::id());
        let trace = std::env::temp_dir().join(name);
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
            for change in [Change::Pause { by }, Change::TakenBack { to }] {
                let line = Line::Decision(RenditionId(1), Decision::Rate(change));
                assert!(matches!(clients.tell(line), HostState::GoesOn));
            }
            clients.finish().expect("there is room");
        });
        // Nobody writes to it any more.
        let log = std::io::read_to_string(log).expect("text");
        let file = std::fs::read_to_string(&trace).expect("it was made");
        let _ = std::fs::remove_file(&trace);
        for words in [
            "the rate stays: frames came 63 ms late, all at once, after a pause",
            "rate back to 8.0 Mb/s: the link carries more than it seemed to",
        ] {
            let told = format!("DEBUG openuvr_cli::clients: rendition 1: {words}\n");
            assert_eq!(log.matches(&told).count(), 1, "{log}");
            assert_eq!(file.matches(words).count(), 1, "{file}");
        }
    }

    #[test]
    fn who_comes_without_end_is_not_known_without_end() {
        let mut clients = clients(None);
        for n in 0..10 * MOST_KNOWN as u32 {
            let subscriber = SubscriberId::Other(n);
            clients.remember(subscriber, Role::Observer, "somebody".to_owned());
            assert!(clients.known.contains_key(&subscriber));
            assert!(clients.known.len() <= MOST_KNOWN);
        }
        assert_eq!(clients.known.len(), MOST_KNOWN);
    }
}
