//! The attacked portal, with one account, in its own folder.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use anyhow::{Context as _, Result, bail, ensure};
use openuvr_lab::attack::portal::{log_in, request};
use serde_json::Value;

use openuvr_testbed::child::Child;
use openuvr_testbed::pair::TemporaryDir;
use openuvr_testbed::programs::openuvr;

/// The name of the account. `PASSWORD` is its password.
pub(super) const NAME: &str = "ada";
pub(super) const PASSWORD: &str = "correct horse";

/// The user's own address in a proxy header (RFC 5737).
const HOME: (&str, &str) = ("x-forwarded-for", "192.0.2.1");

/// The folder and environment of portals that run one after the other.
pub(super) struct PortalFolder {
    dir: TemporaryDir,
    environment: Vec<(&'static str, String)>,
}

impl PortalFolder {
    /// Creates a new folder with a configuration file. The file contains the line `data = "data"`, followed by
    /// `config`.
    pub(super) fn new(config: &str) -> Result<PortalFolder> {
        let place = PortalFolder {
            dir: TemporaryDir::new()?,
            environment: Vec::new(),
        };
        place.write("portal.toml", &format!("data = \"data\"\n{config}"))?;
        place.write("applications.toml", "")?;
        Ok(place)
    }

    pub(super) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(super) fn write(&self, name: &str, text: &str) -> Result<()> {
        let path = self.path().join(name);
        std::fs::write(&path, text).with_context(|| format!("can't write {}", path.display()))
    }

    /// Sets an environment variable for the portals.
    pub(super) fn set(&mut self, name: &'static str, value: &str) {
        self.environment.push((name, value.to_owned()));
    }

    /// Creates the account.
    pub(super) fn add_account(&self) -> Result<()> {
        let mut added = self
            .command(&["user", "add", NAME, "--password-stdin"])?
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .context("the portal can't be started")?;
        if let Some(mut input) = added.stdin.take() {
            let _ = input.write_all(PASSWORD.as_bytes());
        }
        ensure!(
            added.wait()?.success(),
            "the portal did not create the account"
        );
        Ok(())
    }

    /// Starts a portal and logs in.
    pub(super) fn start(self) -> Result<Victim> {
        let serve = self.command(&["--listen", "127.0.0.1:0"])?;
        let mut portal = Child::start_piped("portal", serve, &self.path().join("log"))?;
        let mut line = String::new();
        let output = portal
            .stdout()
            .context("the portal's standard output is not a pipe")?;
        BufReader::new(output).read_line(&mut line)?;
        let at = line
            .trim()
            .rsplit("://")
            .next()
            .and_then(|at| at.parse().ok());
        let Some(at) = at else {
            bail!("the portal did not start{}", portal.last_words());
        };
        // Log in four times concurrently, because the portal compares two passwords at a time. The memory for these
        // comparisons is then allocated before the first measurement.
        let logins: Vec<_> = (0..4)
            .map(|_| {
                thread::spawn(move || {
                    request(at, "POST", "/api/login", &[HOME], &log_in(NAME, PASSWORD))
                })
            })
            .collect();
        let mut answer = None;
        for login in logins {
            answer = login.join().ok().and_then(Result::ok).or(answer);
        }
        let answer = answer.context("the portal did not answer the log-in")?;
        let [cookie, device] = <[String; 2]>::try_from(answer.cookies).map_err(|cookies| {
            anyhow::anyhow!("the log-in set {} cookies instead of 2", cookies.len())
        })?;
        let output: Value = serde_json::from_str(&answer.body).unwrap_or_default();
        let csrf = output["csrf"].as_str().unwrap_or_default().to_owned();
        Ok(Victim {
            at,
            portal,
            cookie,
            device,
            csrf,
            place: self,
        })
    }

    fn command(&self, words: &[&str]) -> Result<Command> {
        let mut command = openuvr("portal")?;
        command
            .args(words)
            .arg("--config")
            .arg(self.path().join("portal.toml"))
            .envs(self.environment.iter().map(|(name, value)| (name, value)));
        Ok(command)
    }
}

/// A running portal with one account that is logged in.
pub(super) struct Victim {
    pub(super) at: SocketAddr,
    pub(super) portal: Child,
    pub(super) cookie: String,
    pub(super) device: String,
    csrf: String,
    // Declared after the portal, so that the folder is removed after the portal has ended.
    place: PortalFolder,
}

impl Victim {
    /// Starts a portal with this configuration, in a new folder.
    pub(super) fn start(config: &str) -> Result<Victim> {
        let place = PortalFolder::new(config)?;
        place.add_account()?;
        place.start()
    }

    /// Sends a request that changes state, as the user's browser does. Returns status and body.
    pub(super) fn request(&self, method: &str, path: &str, body: &str) -> Result<(u16, String)> {
        let headers = [
            ("cookie", self.cookie.as_str()),
            ("x-openuvr-csrf", self.csrf.as_str()),
        ];
        let answer = request(self.at, method, path, &headers, body)
            .with_context(|| format!("the portal did not answer {method} {path}"))?;
        Ok((answer.status, answer.body))
    }

    /// Stops the portal. Returns the folder, for the next portal.
    pub(super) fn stop(mut self) -> PortalFolder {
        self.portal.stop();
        self.place
    }
}
