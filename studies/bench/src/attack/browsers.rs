//! Attacks on the web and RTSP servers. They test whether a browser that the host knows can still log in, and whether a
//! video player with the token can still get the stream's description.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use anyhow::Result;
use openuvr_clock as clock;
use openuvr_lab::attack::browsers::{IdleConnections, JunkLogins, Page, described};

use super::honest::Honest;
use super::servers::TOKEN;
use super::table::Judged;
use super::{Attackers, Target};

/// Junk log-ins per second from each of the networks counted by [`STRANGERS`].
const LOGINS: u32 = 500;

/// Number of source networks of unknown peers.
const STRANGERS: u8 = 4;

/// Connections per second to each server.
const CONNECTIONS: u32 = 200;

/// Connections that are kept open at each server, more than each server's limit.
const HELD: usize = 600;

/// Number of attempts that the honest browser and the honest player each make for one attack.
const TRIES: u32 = 10;

/// Number of further file descriptors that the host may open. The attack uses them up within a second.
const LEFT: u64 = 16;

/// Maximum CPU share of the accept threads while they wait for descriptors. A thread in a busy loop takes a whole core.
const WAITS: f64 = 0.2;

fn strangers() -> impl Iterator<Item = IpAddr> {
    (0..STRANGERS).map(|n| Ipv4Addr::new(127, 0, 0, 31 + n).into())
}

const HONEST: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 41));

/// The numbers of successful attempts of the browser and of the player.
fn tried(target: &Target<'_>, honest: &mut Honest) -> Result<(u32, u32)> {
    let (mut logged_in, mut described_streams) = (0, 0);
    for _ in 0..TRIES {
        // A failure is not returned as an error, but lowers the count in the table.
        let servers = honest.servers();
        logged_in += u32::from(servers.browser.log_in(HONEST).unwrap_or(false));
        described_streams += u32::from(described(servers.players, TOKEN, HONEST).unwrap_or(false));
        target.wait(target.lasting / TRIES, honest)?;
    }
    Ok((logged_in, described_streams))
}

fn judged((logged_in, described_streams): (u32, u32)) -> Judged {
    Judged {
        words: format!(
            "{logged_in} of {TRIES} log-ins of a known browser succeeded, {described_streams} of {TRIES} video players \
             got the stream"
        ),
        held: (logged_in, described_streams) == (TRIES, TRIES),
    }
}

/// Sends invalid log-ins from several networks.
pub(super) fn logins(target: &Target<'_>, honest: &mut Honest) -> Result<(u64, Option<Judged>)> {
    let page = Page::new(honest.servers().page)?;
    let floods = strangers().map(|from| Ok((JunkLogins::new(page.clone(), from)?, LOGINS)));
    let attackers = Attackers::start(floods.collect::<Result<Vec<_>>>()?);
    let tried = tried(target, honest)?;
    let (struck, _) = attackers.stop();
    Ok((struck, Some(judged(tried))))
}

/// Opens connections that exhaust the limits of both servers.
pub(super) fn places(target: &Target<'_>, honest: &mut Honest) -> Result<(u64, Option<Judged>)> {
    let servers = honest.servers();
    let silent = |to| {
        (
            IdleConnections::new(to, strangers().collect(), HELD),
            CONNECTIONS,
        )
    };
    let attackers = Attackers::start(vec![silent(servers.page), silent(servers.players)]);
    let tried = tried(target, honest)?;
    let (struck, _) = attackers.stop();
    Ok((struck, Some(judged(tried))))
}

/// Opens more connections than the host has file descriptors, and checks whether its accept threads run in a busy loop.
pub(super) fn descriptors(
    target: &Target<'_>,
    honest: &mut Honest,
) -> Result<(u64, Option<Judged>)> {
    let servers = honest.servers();
    let silent = |to| {
        (
            IdleConnections::new(to, strangers().collect(), HELD),
            CONNECTIONS,
        )
    };
    let floods = vec![silent(servers.page), silent(servers.players)];
    let before = honest.limit_descriptors(LEFT)?;
    let attackers = Attackers::start(floods);
    // Wait until the descriptors are used up.
    target.wait(Duration::from_secs(1), honest)?;
    let (begun, used) = (clock::now(), honest.threads_use(&THREADS)?);
    target.wait(target.lasting, honest)?;
    let span = clock::now().since(begun).as_secs_f64();
    let share = (honest.threads_use(&THREADS)? - used) / span;
    let (struck, _) = attackers.stop();
    honest.restore_descriptors(before)?;
    let after = tried(target, honest)?;
    let judged = Judged {
        words: format!(
            "the host's accept threads took {:.0} % of a core; afterwards, {}",
            share * 100.0,
            judged(after).words
        ),
        held: share < WAITS && judged(after).held,
    };
    Ok((struck, Some(judged)))
}

/// The threads that accept connections from browsers and from video players (`crates/gateway`).
const THREADS: [&str; 2] = ["ouvr-gateway", "ouvr-rtsp"];
