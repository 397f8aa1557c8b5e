//! Tests whether a portal's secrets are in a command line or in the environment of a session. Every account on the
//! machine can read a command line, and an application can read the environment of its session.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use openuvr_clock as clock;
use openuvr_proto::control::ticket::SessionUuid;
use openuvr_testbed::programs::program;
use openuvr_xserver::Xvfb;
use rustix::process::{Pid, Signal, kill_process};

use super::displays::NO_XVFB;
use super::table::{Figures, Judged, Row, use_of};
use super::victim::{PortalFolder, Victim};

/// An environment variable of the portal with a secret. Operators set it if the portal uses remote storage.
const VARIABLE: &str = "AWS_SECRET_ACCESS_KEY";

/// A variable that only the portal has, although its name has the prefix of the variables that sessions get.
const OWN_VARIABLE: &str = "OPENUVR_PORTAL_SECRET";

/// Time limit for the start of the application.
const START: Duration = Duration::from_secs(30);

/// Time limit for the end of a session.
const END: Duration = Duration::from_secs(20);

/// Sampling period. Some processes exist only briefly while a session starts.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Starts a portal with secrets and one session, and searches `/proc` for the secrets.
///
/// # Errors
/// Returns an error if the portal or the session cannot be started, or has ended.
pub(super) fn attack(name: String, lasting: Duration, stop: &AtomicBool) -> Result<Row> {
    if !Xvfb::is_installed() {
        let judged = Judged {
            words: NO_XVFB.to_owned(),
            held: false,
        };
        return Ok(Figures::start(None).end(name, 0, None, judged));
    }
    let secrets = Secrets {
        variable: random()?,
        relay: random()?,
    };
    let mut victim = start(&secrets)?;
    let figures = Figures::start(Some(use_of(victim.portal.id())?));
    let session = Session::start(&victim)?;
    let (begun, mut seen) = (clock::now(), Observations::default());
    while !stop.load(Ordering::Relaxed) {
        seen.look(victim.portal.id(), &session.mark(), &secrets);
        let took = clock::now().since(begun);
        if (seen.application && took >= lasting) || took >= START {
            break;
        }
        clock::sleep_until(clock::now() + POLL_INTERVAL);
    }
    drop(session);
    victim.portal.check()?;
    let now = use_of(victim.portal.id())?;
    let struck = seen.looks;
    Ok(figures.end(name, struck, Some(now), seen.judged()))
}

fn random() -> Result<String> {
    let random = SessionUuid::generate().context("no random numbers from the system")?;
    Ok(random.to_string())
}

/// Secrets that must not leave the portal.
struct Secrets {
    variable: String,
    /// A secret that is in a file of the portal and in a file for its sessions.
    relay: String,
}

impl Secrets {
    fn are_in(&self, text: &[u8]) -> bool {
        [&self.variable, &self.relay]
            .iter()
            .any(|secret| contains(text, secret))
    }
}

fn contains(text: &[u8], word: &str) -> bool {
    text.windows(word.len()).any(|of| of == word.as_bytes())
}

/// Starts a portal with these secrets and with an application.
fn start(secrets: &Secrets) -> Result<Victim> {
    let openuvr = program()?.display().to_string();
    // No server listens at port 9 (discard, RFC 863).
    let mut place = PortalFolder::new(&format!(
        "ice_file = \"ice\"\n\
         [local]\nprogram = [{openuvr:?}, \"session\"]\n\
         [turn]\nservers = [\"turn:127.0.0.1:9\"]\nsecret_file = \"relay\"\n"
    ))?;
    place.write("relay", &secrets.relay)?;
    place.write("ice", &format!("turn:me:{}@127.0.0.1:9\n", secrets.relay))?;
    place.write(
        "applications.toml",
        &format!(
            "[[application]]\nname = \"scene\"\n\
             command = [{openuvr:?}, {SCENE:?}, \"--size=320x200\", \"--fps=10\"]\n"
        ),
    )?;
    place.set(VARIABLE, &secrets.variable);
    place.set(OWN_VARIABLE, &secrets.variable);
    place.add_account()?;
    place.start()
}

const SCENE: &str = "scene";

/// A session of the portal, which ends when dropped.
struct Session<'a> {
    victim: &'a Victim,
    id: String,
}

impl<'a> Session<'a> {
    fn start(victim: &'a Victim) -> Result<Session<'a>> {
        let id = random()?;
        let body = "{\"application\":\"scene\"}";
        let (status, answer) = victim.request("PUT", &format!("/api/sessions/{id}"), body)?;
        ensure!(
            status == 202,
            "the portal did not start a session: status {status}, {answer}"
        );
        Ok(Session { victim, id })
    }

    /// The environment variable that marks the processes of this session.
    fn mark(&self) -> String {
        format!("OPENUVR_SESSION={}", self.id)
    }

    /// The session's running processes.
    fn processes(&self) -> Vec<u32> {
        let mark = self.mark();
        let of_it = |id: &u32| has_variable(&read(*id, "environ"), &mark);
        processes().filter(of_it).collect()
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        // If the portal has ended, it can't stop the session, so kill the session's processes.
        let path = format!("/api/sessions/{}", self.id);
        let stopped = self.victim.request("DELETE", &path, "");
        let until = clock::now() + END;
        while stopped.is_ok() && clock::now() < until && !self.processes().is_empty() {
            clock::sleep_until(clock::now() + POLL_INTERVAL);
        }
        for id in self.processes() {
            if let Some(process) = i32::try_from(id).ok().and_then(Pid::from_raw) {
                let _ = kill_process(process, Signal::KILL);
            }
        }
    }
}

fn has_variable(environment: &[u8], variable: &str) -> bool {
    environment
        .split(|byte| *byte == 0)
        .any(|of| of == variable.as_bytes())
}

/// All processes of the machine.
fn processes() -> impl Iterator<Item = u32> {
    let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    all.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// A file of `/proc/ID`; empty if the process has ended or belongs to another account.
fn read(id: u32, file: &str) -> Vec<u8> {
    std::fs::read(format!("/proc/{id}/{file}")).unwrap_or_default()
}

#[derive(Default)]
struct Observations {
    looks: u64,
    /// The session's processes whose environment is readable.
    of_session: BTreeSet<u32>,
    program: bool,
    application: bool,
    /// Whether a secret was found in the portal's own environment, which contains one. If not, the search is
    /// inconclusive.
    portal: bool,
    /// Other locations in which a secret was found.
    given_away: BTreeSet<String>,
}

impl Observations {
    /// Scans all processes once. Only the process `portal` may have the secrets in its environment.
    fn look(&mut self, portal: u32, mark: &str, secrets: &Secrets) {
        let words_of_portal = read(portal, "cmdline");
        for id in processes() {
            self.looks += 1;
            let (words, environment) = (read(id, "cmdline"), read(id, "environ"));
            let name = String::from_utf8_lossy(&read(id, "comm")).trim().to_owned();
            if secrets.are_in(&words) {
                self.given_away
                    .insert(format!("the command line of {name}"));
            }
            if id == portal {
                self.portal |= secrets.are_in(&environment);
                continue;
            }
            // A child that the portal has forked counts as the portal until it calls exec.
            if secrets.are_in(&environment) && words != words_of_portal {
                let given = format!("the environment of {name}");
                self.given_away.insert(given);
            }
            if has_variable(&environment, mark) {
                self.of_session.insert(id);
                let first = words.split(|byte| *byte == 0).nth(1).unwrap_or_default();
                self.program |= first == b"session";
                self.application |= first == SCENE.as_bytes();
            }
        }
    }

    fn judged(self) -> Judged {
        let void = match () {
            () if !self.portal => Some("the portal has no secret"),
            () if !self.program => Some("no session process was seen"),
            () if !self.application => Some("no application was seen"),
            () => None,
        };
        let held = self.given_away.is_empty() && void.is_none();
        let given_away: Vec<String> = self.given_away.into_iter().collect();
        let words = match (void, given_away.is_empty()) {
            (_, false) => format!("a secret is in {}", given_away.join(", ")),
            (Some(why), true) => format!("inconclusive: {why}"),
            (None, true) => format!(
                "no secret in the environments of {} session processes, nor in any command line",
                self.of_session.len()
            ),
        };
        Judged { words, held }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaked_secrets_and_failed_controls_are_reported() {
        let secrets = Secrets {
            variable: "hidden".to_owned(),
            relay: "away".to_owned(),
        };
        assert!(secrets.are_in(b"A=1\0B=hidden\0") && secrets.are_in(b"turn:me:away@relay"));
        assert!(!secrets.are_in(b"A=1\0") && !secrets.are_in(b""));
        assert!(has_variable(b"A=1\0B=2\0", "B=2") && !has_variable(b"A=1\0B=22\0", "B=2"));
        let all = Observations {
            of_session: [1, 2].into(),
            program: true,
            application: true,
            portal: true,
            ..Observations::default()
        };
        assert!(all.judged().held);
        let nothing = Observations::default().judged();
        assert!(!nothing.held && nothing.words.contains("inconclusive"));
        let given = Observations {
            given_away: ["the command line of host".to_owned()].into(),
            ..Observations::default()
        };
        let given = given.judged();
        assert!(!given.held && given.words == "a secret is in the command line of host");
    }
}
