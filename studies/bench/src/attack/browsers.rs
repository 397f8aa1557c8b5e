//! Attacks on the web and RTSP servers: whether a browser that the host knows can still log in, and
//! a video player with the token can still describe the stream.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use anyhow::Result;
use openuvr_clock as clock;
use openuvr_lab::attack::browsers::{IdleConnections, JunkLogins, Page, described};

use super::honest::Honest;
use super::servers::TOKEN;
use super::table::Judged;
use super::{Attackers, Target};

/// Junk log-ins per second of each of [`STRANGERS`].
const LOGINS: u32 = 500;

/// Source networks of unknown peers.
const STRANGERS: u8 = 4;

/// Connections per second to each server.
const CONNECTIONS: u32 = 200;

/// Connections held at each server: more than the limit of either.
const HELD: usize = 600;

/// Attempts of the honest browser and player during one attack.
const TRIES: u32 = 10;

/// File descriptors that remain for the host. The attack uses them up within a second.
const LEFT: u64 = 16;

/// Maximum CPU share of an accept thread that waits for descriptors. A busy-looping one takes a whole core.
const WAITS: f64 = 0.2;

fn strangers() -> impl Iterator<Item = IpAddr> {
    (0..STRANGERS).map(|n| Ipv4Addr::new(127, 0, 0, 31 + n).into())
}

const HONEST: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 41));

/// The successful attempts of browser and player.
fn tried(target: &Target<'_>, honest: &mut Honest) -> Result<(u32, u32)> {
    let (mut logged_in, mut described_streams) = (0, 0);
    for _ in 0..TRIES {
        // Failures are counted, not returned: the table shows them.
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
            "{logged_in} of {TRIES} log-ins of a known browser, {described_streams} of {TRIES} video players"
        ),
        held: (logged_in, described_streams) == (TRIES, TRIES),
    }
}

/// Invalid log-ins from several networks.
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

/// Opens more connections than the host has descriptors, and checks whether its accept threads busy-loop.
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
    // Until they are used up.
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
            "its accept threads took {:.0} % of a core; then {}",
            share * 100.0,
            judged(after).words
        ),
        held: share < WAITS && judged(after).held,
    };
    Ok((struck, Some(judged)))
}

/// The threads that accept connections of browsers and of video players (`crates/gateway`).
const THREADS: [&str; 2] = ["ouvr-gateway", "ouvr-rtsp"];
