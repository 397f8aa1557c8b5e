//! `openuvr link`: what happens when a person follows a portal's link in a browser. The desktop starts this program
//! with the link, and it starts a client.
//!
//! Any page on any site can have such a link, and whoever wrote it chooses the host. So a link is taken as a hostile
//! word: it is a link of a portal and nothing else, in one argument; the client that it starts shares neither
//! clipboard nor microphone; and a person can say which hosts may be meant at all.

mod allowed;
mod desktop;

use std::ffi::{OsStr, OsString};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Result, anyhow, bail};
use clap::Subcommand;
use openuvr_runtime::client::link::PortalLink;
use openuvr_terminal::out;

use crate::client;
use crate::config::ClientConfig;

use allowed::Allowed;

/// What a client does not share with whoever wrote a link.
const KEPT_BACK: [&str; 2] = ["--clipboard=false", "--microphone=off"];

/// Open the links of a portal (openuvr://…) with this program
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  openuvr link install                      links open a client from now on
  openuvr link install --only play.example.org --only 10.0.0.0/8
                                            those to these hosts alone
  openuvr link uninstall

A link says where to connect, and nothing else. Whatever page it stands in, the client that it opens
has the settings of openuvr client (client.toml), but shares no clipboard and no microphone.")]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Debug)]
enum What {
    /// Have this person's desktop open links with this program
    Install {
        /// A host that links may lead to: its name, its address, or a network as 10.0.0.0/8; may be repeated
        /// [default: any host]
        #[arg(long, value_name = "HOST")]
        only: Vec<Allowed>,
    },
    /// Undo that
    Uninstall,
    /// Open one link: what the desktop does
    Open {
        /// As for install
        #[arg(long, value_name = "HOST")]
        only: Vec<Allowed>,
        /// The link
        #[arg(value_name = "LINK")]
        link: OsString,
    },
}

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    match args.what {
        What::Install { only } => {
            let file = desktop::install(&only)?;
            println!("openuvr:// links open a client now: {}", file.display());
            Ok(ExitCode::SUCCESS)
        }
        What::Uninstall => {
            match desktop::uninstall()? {
                true => println!("openuvr:// links open nothing of ours any more"),
                false => println!("openuvr:// links opened nothing of ours"),
            }
            Ok(ExitCode::SUCCESS)
        }
        What::Open { only, link } => {
            let opened = open(&only, &link);
            if let Err(why) = &opened {
                show(&format!("{why:#}"));
            }
            opened
        }
    }
}

/// Starts a client at the link's session.
fn open(only: &[Allowed], link: &OsStr) -> Result<ExitCode> {
    let text = checked(only, link)?;
    let words = ["client"].into_iter().chain(KEPT_BACK).chain([&*text]);
    let matches = ClientConfig::command().try_get_matches_from(words);
    client::run(&matches.map_err(|_| anyhow!("the link is none"))?)
}

/// The link again, as this program writes it.
///
/// # Errors
/// One line, in which nothing of the link is repeated: it is none, or leads elsewhere.
fn checked(only: &[Allowed], link: &OsStr) -> Result<String> {
    let text = link
        .to_str()
        .ok_or_else(|| anyhow!("the link is no text (UTF-8)"))?;
    let link: PortalLink = text.parse()?;
    if !only.is_empty() && !only.iter().any(|one| one.takes(&link.target.host)) {
        bail!(
            "the link leads to a host that links may not lead to: `openuvr link install --only HOST` says to which"
        );
    }
    Ok(link.to_string())
}

/// Who follows a link in a browser has no terminal to read why nothing comes of it.
fn show(why: &str) {
    if out::error_is_terminal() {
        return;
    }
    // Where there is none, the desktop's own log has it.
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
    use openuvr_runtime::client::config::PortalWord;

    use super::*;

    fn link(host: &str) -> String {
        let ticket = Ticket {
            session: SessionUuid([1; 16]),
            role: Role::Player,
            holder: Holder::FirstToCome,
            not_after: UnixTime(7),
            id: [2; 16],
        };
        let link = PortalLink {
            target: host.parse().unwrap(),
            word: PortalWord {
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
        // What a later portal says besides is left out, whatever it is.
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
