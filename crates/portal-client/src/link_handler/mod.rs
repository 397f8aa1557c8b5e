//! `openuvr link`: opens a portal's links from a browser. The desktop starts this program with the link, and this program
//! starts a client.
//!
//! Any page on any site can contain such a link, and the page's author chooses the link's host. A link is therefore
//! hostile input. It must be a portal's link and nothing else, in one argument. A client that is started for a link
//! shares neither the clipboard nor the microphone. The user can restrict the allowed hosts.

mod allowed;
mod desktop;

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Result, anyhow, bail};
use clap::Subcommand;
use openuvr_runtime::client::link::PortalLink;
use openuvr_terminal::out;

use allowed::Allowed;

/// Options that protect the clipboard and the microphone from the author of a link.
const PRIVACY_OPTIONS: [&str; 2] = ["--clipboard=false", "--microphone=off"];

/// Open portal links (openuvr://…) with this program
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  openuvr link install                      open links with `openuvr client`
  openuvr link install --only play.example.org --only 10.0.0.0/8
                                            open only links to these hosts
  openuvr link uninstall

A link contains only a session's address, the host's key and a ticket. The client that opens a
link uses the settings of `openuvr client` (client.toml), but never shares the clipboard or the
microphone.")]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Register this program as this user's handler of openuvr:// links
    Install {
        /// Host that links may connect to: a name, an address, or a network such as 10.0.0.0/8; may be repeated
        /// [default: any host]
        #[arg(long, value_name = "HOST")]
        only: Vec<Allowed>,
    },
    /// Remove the registration
    Uninstall,
    /// Open one link (used by the desktop)
    Open {
        /// Host that the link may connect to, as for `install`
        #[arg(long, value_name = "HOST")]
        only: Vec<Allowed>,
        /// Link
        #[arg(value_name = "LINK")]
        link: OsString,
    },
}

/// Registers this program, removes the registration, or opens a link. To open a link, calls `client`, which runs
/// `openuvr client` with the given arguments.
///
/// # Errors
/// Returns a one-line error if the registration cannot be changed, the link is invalid or its host is not allowed, or
/// the client fails.
pub fn run(args: Args, client: impl FnOnce(&[&str]) -> Result<ExitCode>) -> Result<ExitCode> {
    match args.action {
        Action::Install { only } => {
            let file = desktop::install(&only)?;
            println!(
                "openuvr:// links now open a client (registered in {})",
                file.display()
            );
            Ok(ExitCode::SUCCESS)
        }
        Action::Uninstall => {
            let removed = desktop::uninstall()?;
            println!("{}", state(removed, desktop::of_all_users().as_deref()));
            Ok(ExitCode::SUCCESS)
        }
        Action::Open { only, link } => {
            let opened = open(&only, &link, client);
            if let Err(why) = &opened {
                notify_user(&format!("{why:#}"));
            }
            opened
        }
    }
}

/// The effect of `uninstall`. `others` is the file that registers the handler for all users.
fn state(removed: bool, others: Option<&Path>) -> String {
    match (removed, others) {
        (true, None) => "openuvr:// links no longer open a client".to_owned(),
        (false, None) => "openuvr:// links were not registered".to_owned(),
        (true, Some(file)) => format!(
            "removed this user's handler of openuvr:// links; links to any host still open a client, because {} \
             registers a handler for all users",
            file.display()
        ),
        (false, Some(file)) => format!(
            "this user has registered no handler of openuvr:// links; {} registers a handler for all users",
            file.display()
        ),
    }
}

/// Starts a client for the link's session.
fn open(
    only: &[Allowed],
    link: &OsStr,
    client: impl FnOnce(&[&str]) -> Result<ExitCode>,
) -> Result<ExitCode> {
    let text = checked(only, link)?;
    let [clipboard, microphone] = PRIVACY_OPTIONS;
    client(&[clipboard, microphone, &text])
}

/// Validates the link and returns it in canonical form, without unknown parameters.
///
/// # Errors
/// Returns a one-line error if the link is invalid or its host is not allowed. The message repeats nothing from the link.
fn checked(only: &[Allowed], link: &OsStr) -> Result<String> {
    let text = link
        .to_str()
        .ok_or_else(|| anyhow!("the link is not UTF-8"))?;
    let link: PortalLink = text.parse()?;
    if !only.is_empty() && !only.iter().any(|one| one.includes(&link.target.host)) {
        bail!(
            "the link's host is not allowed: `openuvr link install --only HOST` sets the allowed hosts"
        );
    }
    Ok(link.to_string())
}

/// Shows an error on the desktop if standard error is not a terminal, as after a click in a browser.
fn notify_user(why: &str) {
    if out::error_is_terminal() {
        return;
    }
    // Without notify-send, the message is only in the desktop's own log.
    let _ = Command::new("notify-send")
        .args(["--app-name=OpenUVR", "--", "OpenUVR", why])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;

    use openuvr_proto::control::identity::Identity;
    use openuvr_proto::control::negotiate::Role;
    use openuvr_proto::control::ticket::{Holder, SessionUuid, Ticket, TicketSigner, UnixTime};
    use openuvr_runtime::client::config::PortalCredentials;

    use super::*;

    fn link(host: &str) -> String {
        let ticket = Ticket {
            session: SessionUuid([1; 16]),
            role: Role::Player,
            holder: Holder::FirstUse,
            not_after: UnixTime(7),
            id: [2; 16],
        };
        let link = PortalLink {
            target: host.parse().unwrap(),
            credentials: PortalCredentials {
                host: Identity::from_bytes([3; 32]).public(),
                ticket: ticket.sign(&TicketSigner::from_seed(&[4; 32]).unwrap()),
            },
        };
        link.to_string()
    }

    #[test]
    fn a_hostile_link_is_refused_and_not_repeated() {
        let good = link("10.1.2.3:4710");
        assert_eq!(checked(&[], good.as_ref()).unwrap(), good);
        // Unknown parameters, such as those of a later portal version, are dropped.
        let more = format!("{good}&more=--exec");
        assert_eq!(checked(&[], more.as_ref()).unwrap(), good);
        let long = format!("{good}&{}", "x".repeat(10_000));
        let split = good.replace("10.1.2.3:4710", "10.1.2.3:4710 --config=evil");
        for bad in [
            b"--config=evil".as_slice(),
            b"desk",
            b"openuvr://\xff\xfe/?key=a&ticket=b",
            b"openuvr://a\x1b[2J/?key=a&ticket=b",
            long.as_bytes(),
            split.as_bytes(),
            good.replace("10.1.2.3", "10.1.2.3\n").as_bytes(),
            good.replace("10.1.2.3", "me@10.1.2.3").as_bytes(),
        ] {
            let why = checked(&[], OsStr::from_bytes(bad))
                .unwrap_err()
                .to_string();
            assert!(!why.contains("evil") && !why.contains('\x1b'), "{why}");
            assert_eq!(why.lines().count(), 1, "{why}");
        }
    }

    #[test]
    fn an_uninstall_names_the_handler_of_all_users() {
        let file = "/usr/share/applications/openuvr-link.desktop";
        for removed in [true, false] {
            assert!(state(removed, Some(Path::new(file))).contains(file));
        }
        assert!(state(true, None).contains("no longer open"));
    }

    #[test]
    fn a_client_of_a_link_shares_nothing() {
        let good = link("10.1.2.3:4710");
        let mut given = Vec::new();
        let opened = open(&[], good.as_ref(), |arguments| {
            given.extend(arguments.iter().map(|word| (*word).to_owned()));
            Ok(ExitCode::SUCCESS)
        });
        opened.unwrap();
        assert_eq!(given, ["--clipboard=false", "--microphone=off", &*good]);
        let refused = open(&[], "desk".as_ref(), |_| panic!("no client starts"));
        assert!(refused.is_err());
    }

    #[test]
    fn a_link_leads_to_hosts_that_are_allowed() {
        let only = ["play.example.org", "10.0.0.0/8", "2001:db8::/32"];
        let only = only.map(|text| text.parse::<Allowed>().unwrap());
        let leads = |host: &str| checked(&only, link(host).as_ref()).is_ok();
        assert!(leads("play.example.org:4710") && leads("Play.Example.org"));
        assert!(leads("10.200.0.1") && leads("[2001:db8::7]:4710"));
        assert!(!leads("11.0.0.1") && !leads("evil.play.example.org"));
        assert!(!leads("play.example.org.evil.com") && !leads("[2001:db9::7]"));
    }
}
