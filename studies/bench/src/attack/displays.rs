//! Two sessions of the same account: tests whether the application of one session can capture the display of the other
//! session, and type there.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, Result};
use openuvr_proto::control::ticket::{SessionUuid, TicketSigner};
use openuvr_testbed::child::Child;
use openuvr_testbed::pair::{TemporaryDir, wait_for};
use openuvr_testbed::programs::{openuvr, own, program};
use openuvr_xserver::Xvfb;
use serde_json::Value;

use super::intruder::{
    self, Attempt, AttemptResult, Cookie, REPORT, SOCKET_KINDS, number_of, reach,
};
use super::table::{Figures, Judged, Row};

/// The reason why an attack that needs a session was not tried.
pub(super) const NO_XVFB: &str = "not tried: Xvfb is not installed";

/// Whether this machine can run a sandbox.
fn has_sandbox() -> bool {
    let tried = Command::new("bwrap")
        .args(["--unshare-user", "--unshare-pid", "--ro-bind", "/", "/"])
        .args(["--proc", "/proc", "true"])
        .output();
    tried.is_ok_and(|tried| tried.status.success())
}

/// Starts a session. Then starts further sessions, one after the other, with an application that tries to reach the
/// display of the first session.
///
/// # Errors
/// Returns an error if a session cannot be started, or has ended.
pub(super) fn attack(name: String, stop: &AtomicBool) -> Result<Row> {
    let figures = Figures::start(None);
    if !Xvfb::is_installed() {
        let judged = Judged {
            words: NO_XVFB.to_owned(),
            held: false,
        };
        return Ok(figures.end(name, 0, None, judged));
    }
    let dir = TemporaryDir::new()?;
    let scene = program()?.display().to_string();
    let scene = [&*scene, "scene", "--size=320x200", "--fps=10"].map(str::to_owned);
    let mut shown = Session::start(dir.path(), "shown", &[], &scene)?;
    let number = shown.display()?;
    let is_there = shown.is_reached(number)?;
    let itself = own(intruder::NAME)?.get_program().to_owned();
    let itself = itself.to_string_lossy().into_owned();
    let readable = format!("--readable={itself}");
    let words = [itself, intruder::NAME.to_owned(), number.to_string()];
    let mut ways: Vec<(&str, Vec<&str>)> = vec![("plain", Vec::new())];
    if has_sandbox() {
        ways.push(("sandbox", vec!["--sandbox", readable.as_str()]));
    }
    let mut found = AttemptCounts {
        sandbox: ways.len() > 1,
        ..AttemptCounts::default()
    };
    for (name, more) in ways {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let mut session = Session::start(dir.path(), name, &more, &words)?;
        found.count(&session.tries()?);
    }
    // The first session must have been running all the time.
    found.is_there = is_there && shown.is_reached(number)?;
    shown.child.check()?;
    let struck = found.tries;
    Ok(figures.end(name, struck, None, found.judged()))
}

#[derive(Default)]
struct AttemptCounts {
    /// Number of attempts that must be refused: all attempts at the other session's display, and the attempts without a
    /// cookie at the session's own display.
    tries: u64,
    refused: u64,
    looked: u64,
    typed: u64,
    /// Number of control attempts: at the session's own display, with its cookie. They must succeed. `reached` is the
    /// number of successes.
    controls: u64,
    reached: u64,
    /// Whether a client that has the cookie of the first session's display can use that display.
    is_there: bool,
    sandbox: bool,
}

impl AttemptCounts {
    fn count(&mut self, tries: &[Attempt]) {
        for one in tries {
            let (looked, typed) = match one.came {
                AttemptResult::In { looked, typed } => (looked, typed),
                AttemptResult::NoSocket | AttemptResult::Refused => (false, false),
            };
            if one.own && one.cookie {
                self.controls += 1;
                self.reached += u64::from(looked && typed);
                continue;
            }
            self.tries += 1;
            self.refused += u64::from(!matches!(one.came, AttemptResult::In { .. }));
            self.looked += u64::from(looked);
            self.typed += u64::from(typed);
        }
    }

    fn judged(&self) -> Judged {
        let proves = self.is_there && self.tries > 0 && self.reached == self.controls;
        let beside = match self.sandbox {
            true => "",
            false => "; the sessions ran without --sandbox because bubblewrap does not work here",
        };
        let AttemptCounts {
            tries,
            refused,
            looked,
            typed,
            ..
        } = self;
        let words = match (proves, refused == tries) {
            (true, true) => format!("{refused} of {tries} attempts refused{beside}"),
            (_, false) => format!(
                "{refused} of {tries} attempts refused; {looked} captured the picture, {typed} typed{beside}"
            ),
            (false, true) if !self.is_there => {
                "inconclusive: no client can connect to the display, not even with its cookie"
                    .to_owned()
            }
            (false, true) => "inconclusive: a session does not reach its own display".to_owned(),
        };
        Judged {
            words,
            held: proves && refused == tries,
        }
    }
}

/// A session, and the home directory of its application. This program, not a portal, starts the session and generates
/// its ticket key.
struct Session {
    child: Child,
    folder: PathBuf,
    home: PathBuf,
}

impl Session {
    fn start(dir: &Path, name: &str, more: &[&str], application: &[String]) -> Result<Session> {
        let place = dir.join(name);
        fs::create_dir(&place).with_context(|| format!("can't make {}", place.display()))?;
        let signer = TicketSigner::generate().context("no random numbers from the system")?;
        let id = SessionUuid::generate().context("no random numbers from the system")?;
        let home = place.join("home");
        let mut command = openuvr("session")?;
        command
            .arg(format!("--id={id}"))
            .arg(format!("--ticket-key={}", signer.public()))
            .args(["--size=320x200", "--lease=600", "--first-picture=600"])
            .args(["--set=realtime=off", "--set=sound=off"])
            .arg(format!("--save={}", home.display()))
            .args(more)
            .arg("--")
            .args(application);
        command.stdout(File::create(place.join("said"))?);
        let child = Child::start("session", command, Some(&place.join("log")))?;
        // `crates/session/src/agent/folder.rs` creates this folder.
        let folder = format!("ouvr-{}", id.to_string().replace('-', ""));
        Ok(Session {
            child,
            folder: std::env::temp_dir().join(folder),
            home,
        })
    }

    /// Waits for the display to start. Returns its number.
    fn display(&mut self) -> Result<u32> {
        let file = self.folder.join("running.json");
        wait_for(&mut self.child, "report its display", |_| {
            let report: Value = serde_json::from_slice(&fs::read(&file).ok()?).ok()?;
            number_of(report["display"].as_str()?)
        })
    }

    /// Whether a client with the display's cookie can connect through both sockets, read the picture and type.
    fn is_reached(&self, display: u32) -> Result<bool> {
        let cookie = Cookie::read(&self.folder.join("xauthority"))?;
        let whole = AttemptResult::In {
            looked: true,
            typed: true,
        };
        Ok(SOCKET_KINDS
            .iter()
            .all(|way| reach(display, *way, Some(&cookie)) == whole))
    }

    /// Waits for the application's report of its attempts.
    fn tries(&mut self) -> Result<Vec<Attempt>> {
        let file = self.home.join(REPORT);
        wait_for(&mut self.child, "report its attempts", |_| {
            serde_json::from_slice(&fs::read(&file).ok()?).ok()
        })
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // When the session stops, it also stops its display and its application.
        self.child.stop_by_itself();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attack::intruder::SocketKind;

    fn tries(own: AttemptResult, other: AttemptResult) -> Vec<Attempt> {
        let all = [(true, false), (true, true), (false, false), (false, true)];
        let came = |(of_own, cookie)| match (of_own, cookie) {
            (true, true) => own,
            (true, false) => AttemptResult::Refused,
            (false, _) => other,
        };
        let one = |(of_own, cookie)| Attempt {
            own: of_own,
            way: SocketKind::Abstract,
            cookie,
            came: came((of_own, cookie)),
        };
        all.into_iter().map(one).collect()
    }

    #[test]
    fn refused_attempts_and_failed_controls_are_reported() {
        let whole = AttemptResult::In {
            looked: true,
            typed: true,
        };
        let judged = |own, other, is_there| {
            let mut found = AttemptCounts {
                is_there,
                sandbox: true,
                ..AttemptCounts::default()
            };
            found.count(&tries(own, other));
            found.judged()
        };
        let good = judged(whole, AttemptResult::Refused, true);
        assert!(good.held && good.words == "3 of 3 attempts refused");
        assert!(judged(whole, AttemptResult::NoSocket, true).held);
        let looked = AttemptResult::In {
            looked: true,
            typed: false,
        };
        let bad = judged(whole, looked, true);
        assert!(!bad.held && bad.words.contains("2 captured the picture, 0 typed"));
        for (own, is_there) in [
            (whole, false),
            (AttemptResult::Refused, true),
            (looked, true),
        ] {
            let void = judged(own, AttemptResult::Refused, is_there);
            assert!(!void.held && void.words.contains("inconclusive"));
        }
    }
}
