//! The client side of a portal: the steps of `openuvr client --portal` before a connection to the host, and links on the
//! desktop ([`link_handler`]). The client logs in at a portal, starts or joins a session there, and gets a ticket for the
//! session's host.
//!
//! ```text
//! LogIn::open ─► PortalClient::join ─► running session ─► ticket for this client's key ─► PortalLink ─► client
//! ```
//! All these steps end before the client's threads start. After the threads have ended, [`PortalSession::finish`] ends
//! the session or prints a final message. This crate is not in the media path.
#![forbid(unsafe_code)]

// The macros `print!`, `println!` and `eprintln!` of `openuvr_terminal` replace those of the standard library.
#[macro_use]
extern crate openuvr_terminal;

mod address;
mod http;
pub mod link_handler;
mod login;
mod password;
mod tls;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail};
use openuvr_proto::control::ticket::SessionUuid;
use openuvr_runtime::client::link::{PortalLink, key_text};
use openuvr_runtime::identity_store::{KeyOwner, load_or_create};
use openuvr_terminal::one_line::visible;
use serde::{Deserialize, Serialize};
use serde_json::json;

use login::LogIn;

pub use address::PortalAddress;
pub use login::Account;

/// The interval at which the session's state is queried.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// The pause between checks of the time and of `stop` while the client waits for the next query. It is the maximum
/// delay until Ctrl-C takes effect during this wait.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(25);

/// How long a portal may be unreachable while the client waits for the session (guess). Sessions survive the portal's
/// restart.
const OUTAGE_LIMIT: Duration = Duration::from_secs(30);

/// The maximum number of attempts to start a session if there is no response. All attempts have the same session id, so
/// the portal starts only one session.
const MAX_ATTEMPTS: u32 = 3;

/// An application in the portal's list.
#[derive(Deserialize)]
struct Application {
    name: String,
    title: String,
    #[serde(default)]
    description: String,
}

/// A session in the portal's list.
#[derive(Clone, Deserialize)]
struct Session {
    id: String,
    application: String,
    title: String,
    user: String,
    own: bool,
    state: State,
    why: Option<String>,
    server: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Queued,
    Starting,
    Running,
    Ended,
    Lost,
}

impl Session {
    /// The state as text.
    fn state(&self) -> String {
        let why = self.why.as_deref().map(visible).unwrap_or_default();
        match (self.state, &self.server) {
            (State::Queued, _) => format!("queued: {why}"),
            (State::Starting, _) => "starting".to_owned(),
            (State::Running, Some(server)) => format!("running on {}", visible(server)),
            (State::Running, None) => "running".to_owned(),
            (State::Ended, _) => format!("ended: {why}"),
            (State::Lost, _) => format!("lost: {why}"),
        }
    }

    fn is_active(&self) -> bool {
        matches!(self.state, State::Queued | State::Starting | State::Running)
    }
}

#[derive(Deserialize)]
struct Ticket {
    /// The link; `None` if the session does not admit native clients.
    native: Option<String>,
}

#[derive(Serialize)]
struct TicketRequest {
    watch: bool,
    key: String,
}

/// Prints the applications and sessions of the portal.
///
/// # Errors
/// Returns a one-line error if the log-in is refused or the portal does not answer.
pub fn list(account: Account<'_>) -> Result<()> {
    let login = LogIn::open(account)?;
    let applications: Vec<Application> = login.list("/api/applications")?;
    let sessions: Vec<Session> = login.list("/api/sessions")?;
    println!(
        "Applications for {} at {}:",
        visible(&login.user),
        account.portal
    );
    let width = applications.iter().map(|of| of.name.chars().count()).max();
    let width = width.unwrap_or_default().min(63);
    for Application {
        name,
        title,
        description,
    } in &applications
    {
        let colon = if description.is_empty() { "" } else { ": " };
        println!(
            "  {:width$}  {}{colon}{}",
            visible(name),
            visible(title),
            visible(description)
        );
    }
    if applications.is_empty() {
        println!("  none");
    }
    let active = sessions.iter().filter(|session| session.is_active());
    for (index, session) in active.enumerate() {
        if index == 0 {
            println!("Sessions:");
        }
        let owner = match session.own {
            true => String::new(),
            false => format!(" of {}", visible(&session.user)),
        };
        println!(
            "  {}  {}{owner}, {}",
            visible(&session.id),
            visible(&session.title),
            session.state()
        );
    }
    Ok(())
}

impl LogIn {
    fn list<T: serde::de::DeserializeOwned>(&self, path: &str) -> Result<T> {
        self.http
            .request("GET", path, Some(&self.credentials), None)?
            .json()
    }
}

/// A log-in at a portal, before the client has a session there.
pub struct PortalClient {
    login: LogIn,
    config_dir: PathBuf,
    /// An application's name, or a session's id.
    wanted: String,
    stop_session: bool,
}

/// A running session that this client may join.
pub struct JoinedSession {
    /// The session.
    pub session: PortalSession,
    /// The address of the session's host, with a ticket for this client's key.
    pub link: PortalLink,
    /// Whether the session is the user's own. For another user's session, the ticket is an observer's ticket.
    pub own: bool,
}

/// A session at a portal.
pub struct PortalSession {
    login: LogIn,
    id: String,
    wanted: String,
    own: bool,
    stop_session: bool,
}

impl PortalClient {
    /// Logs in. May prompt the user. `wanted` is an application's name or a session's id. With `stop_session`, the
    /// user's own session ends together with this client.
    ///
    /// # Errors
    /// Returns a one-line error if the log-in is refused or the portal does not answer.
    pub fn log_in(account: Account<'_>, wanted: &str, stop_session: bool) -> Result<PortalClient> {
        Ok(PortalClient {
            login: LogIn::open(account)?,
            config_dir: account.config_dir.to_owned(),
            wanted: wanted.to_owned(),
            stop_session,
        })
    }

    /// Starts or joins the session, waits until it is running, and gets a ticket for this client's key. With `observe`,
    /// or for another user's session, the ticket is an observer's ticket. Prints the session's state. Returns `None` if
    /// the user has cancelled the wait through `stop`.
    ///
    /// # Errors
    /// Returns a one-line error if there is no such application or session, the session has ended or does not admit
    /// native clients, or the portal does not answer.
    pub fn join(self, observe: bool, stop: &AtomicBool) -> Result<Option<JoinedSession>> {
        let session = match self.find()? {
            Some(session) => session,
            None => self.start()?,
        };
        let PortalClient {
            login,
            config_dir,
            wanted,
            stop_session,
        } = self;
        let own = session.own;
        let portal_session = PortalSession {
            login,
            id: session.id.clone(),
            wanted,
            own,
            stop_session,
        };
        let link = match portal_session.wait_for(session, stop) {
            Ok(true) => portal_session.request_ticket(&config_dir, observe || !own),
            Ok(false) => {
                portal_session.finish();
                return Ok(None);
            }
            Err(why) => Err(why),
        };
        match link {
            Ok(link) => Ok(Some(JoinedSession {
                session: portal_session,
                link,
                own,
            })),
            Err(why) => {
                portal_session.stop_if_requested();
                Err(why)
            }
        }
    }

    /// The requested session, if it is already active.
    fn find(&self) -> Result<Option<Session>> {
        let sessions: Vec<Session> = self.login.list("/api/sessions")?;
        let by_id = self.wanted.parse::<SessionUuid>().is_ok();
        let mut active = sessions.into_iter().filter(Session::is_active);
        let found = active.find(|session| match by_id {
            true => session.id == self.wanted.to_ascii_lowercase(),
            false => session.own && session.application == self.wanted,
        });
        if by_id && found.is_none() {
            bail!("no running session has the id {}", self.wanted);
        }
        if let Some(session) = &found {
            let title = visible(&session.title);
            eprintln!(
                "openuvr client: joining the session {} of {title}",
                visible(&session.id)
            );
        }
        Ok(found)
    }

    fn start(&self) -> Result<Session> {
        let id = SessionUuid::generate().map_err(|e| anyhow!("{e}"))?;
        let path = format!("/api/sessions/{id}");
        let body = json!({ "application": self.wanted });
        let mut attempts = 1;
        let answer = loop {
            let response =
                (self.login.http).request("PUT", &path, Some(&self.login.credentials), Some(&body));
            match response {
                Err(_) if attempts < MAX_ATTEMPTS => attempts += 1,
                response => break response?,
            }
        };
        answer
            .json()
            .with_context(|| format!("can't start {}", self.wanted))
    }
}

impl PortalSession {
    fn path(&self) -> String {
        format!("/api/sessions/{}", self.id)
    }

    /// Waits until the session is running, and prints each change of its state. Returns `false` if the user has
    /// cancelled the wait.
    fn wait_for(&self, mut session: Session, stop: &AtomicBool) -> Result<bool> {
        let mut last_state = String::new();
        let mut answered_at = Instant::now();
        loop {
            let state = session.state();
            if state != last_state {
                eprintln!("openuvr client: {state}");
                last_state = state;
            }
            match session.state {
                State::Running => return Ok(true),
                State::Ended | State::Lost => bail!("the session could not be started"),
                State::Queued | State::Starting => {}
            }
            let next = Instant::now() + POLL_INTERVAL;
            while Instant::now() < next {
                if stop.load(Ordering::Relaxed) {
                    return Ok(false);
                }
                std::thread::sleep(STOP_CHECK_INTERVAL);
            }
            match self.query() {
                Ok(now) => (session, answered_at) = (now, Instant::now()),
                Err(why) if answered_at.elapsed() >= OUTAGE_LIMIT => return Err(why),
                Err(_) => {}
            }
        }
    }

    fn query(&self) -> Result<Session> {
        self.login.list(&self.path())
    }

    /// Requests a link to the session's host with a ticket for this client's key.
    fn request_ticket(&self, config_dir: &Path, watch: bool) -> Result<PortalLink> {
        let identity = load_or_create(config_dir, KeyOwner::Client)?;
        let ticket_request = TicketRequest {
            watch,
            key: key_text(&identity.public()),
        };
        let path = format!("{}/ticket", self.path());
        let ticket_request = serde_json::to_value(ticket_request)?;
        let (http, credentials) = (&self.login.http, &self.login.credentials);
        let ticket: Ticket = http
            .request("POST", &path, Some(credentials), Some(&ticket_request))?
            .json()?;
        let link = ticket.native.ok_or_else(|| {
            let portal = http.address();
            anyhow!("this session admits only browsers: play it at {portal}")
        })?;
        link.parse()
            .map_err(|_| anyhow!("the portal returned an invalid link"))
    }

    /// Ends the session if this was requested and the session is the user's own. Otherwise waits up to a second for the
    /// session to end. If the session has ended, prints its state. If the user's own session still runs, prints a hint.
    pub fn finish(self) {
        if self.stop_if_requested() {
            return;
        }
        // The portal detects the end slightly later than the client.
        let until = Instant::now() + POLL_INTERVAL * 4;
        let (portal, wanted) = (self.login.http.address(), visible(&self.wanted));
        loop {
            match self.query() {
                Ok(session) if !session.is_active() => {
                    eprintln!("openuvr client: session {}", session.state());
                    return;
                }
                Ok(_) if Instant::now() < until => std::thread::sleep(STOP_CHECK_INTERVAL),
                Ok(_) => break,
                Err(why) => {
                    eprintln!("openuvr client: can't query the session's state: {why:#}");
                    return;
                }
            }
        }
        if self.own {
            eprintln!(
                "openuvr client: the session is still running. To join it again: openuvr client --portal {portal} \
                     --application {wanted}. To end it: use the portal's page, or join it with --stop-session and \
                     end the client"
            );
        }
    }

    /// Ends the session if this was requested and the session is the user's own. Returns whether both conditions hold,
    /// even if the request fails.
    fn stop_if_requested(&self) -> bool {
        if !self.stop_session || !self.own {
            return false;
        }
        let response =
            self.login
                .http
                .request("DELETE", &self.path(), Some(&self.login.credentials), None);
        // The portal may already have removed a session that has ended by itself.
        let stopped = response.and_then(|answer| match answer.status {
            404 => Ok(()),
            _ => answer.check_success(),
        });
        match stopped {
            Ok(()) => eprintln!("openuvr client: session ended"),
            Err(why) => eprintln!("openuvr client: can't end the session: {why:#}"),
        }
        true
    }
}
