//! Attacks on the doors of browsers and video players: whether a browser that the host knows still logs in, and a player
//! with the token still finds what it could watch.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use anyhow::Result;
use openuvr_lab::attack::browsers::{JunkLogins, Page, Silent, described};
use openuvr_runtime::clock;

use super::doors::TOKEN;
use super::honest::Honest;
use super::table::Judged;
use super::{Attackers, Scene};

/// Junk log-ins a second of each of [`STRANGERS`].
const LOGINS: u32 = 500;

/// Networks from which strangers come.
const STRANGERS: u8 = 4;

/// Connections a second that strangers open at each door.
const CONNECTIONS: u32 = 200;

/// Connections that they hold at each door: more than either has places.
const HELD: usize = 600;

/// Tries of the honest ones in one attack.
const TRIES: u32 = 10;

/// Descriptors that are left to the host: the attack takes them within a second.
const LEFT: u64 = 16;

/// The share of a core that a thread may take that waits for descriptors; one that does not wait takes all of it.
const WAITS: f64 = 0.2;

fn strangers() -> impl Iterator<Item = IpAddr> {
    (0..STRANGERS).map(|n| Ipv4Addr::new(127, 0, 0, 31 + n).into())
}

const HONEST: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 41));

/// How often the browser was let in, and the player told something.
fn tried(scene: &Scene<'_>, honest: &mut Honest) -> Result<(u32, u32)> {
    let (mut logged_in, mut told) = (0, 0);
    for _ in 0..TRIES {
        // A failure counts as one: the table says how many.
        let doors = honest.doors();
        logged_in += u32::from(doors.browser.log_in(HONEST).unwrap_or(false));
        told += u32::from(described(doors.players, TOKEN, HONEST).unwrap_or(false));
        scene.wait(scene.lasting / TRIES, honest)?;
    }
    Ok((logged_in, told))
}

fn judged((logged_in, told): (u32, u32)) -> Judged {
    Judged {
        words: format!(
            "{logged_in} of {TRIES} log-ins of a known browser, {told} of {TRIES} video players"
        ),
        held: (logged_in, told) == (TRIES, TRIES),
    }
}

/// Log-ins that are none, from several networks.
pub(super) fn logins(scene: &Scene<'_>, honest: &mut Honest) -> Result<(u64, Option<Judged>)> {
    let page = Page::new(honest.doors().page)?;
    let floods = strangers().map(|from| Ok((JunkLogins::new(page.clone(), from)?, LOGINS)));
    let attackers = Attackers::start(floods.collect::<Result<Vec<_>>>()?);
    let tried = tried(scene, honest)?;
    let (struck, _) = attackers.stop();
    Ok((struck, Some(judged(tried))))
}

/// Connections that take all places of both doors.
pub(super) fn places(scene: &Scene<'_>, honest: &mut Honest) -> Result<(u64, Option<Judged>)> {
    let doors = honest.doors();
    let silent = |to| (Silent::new(to, strangers().collect(), HELD), CONNECTIONS);
    let attackers = Attackers::start(vec![silent(doors.page), silent(doors.players)]);
    let tried = tried(scene, honest)?;
    let (struck, _) = attackers.stop();
    Ok((struck, Some(judged(tried))))
}

/// More connections than the host has descriptors: which of its threads that take them does not wait.
pub(super) fn descriptors(scene: &Scene<'_>, honest: &mut Honest) -> Result<(u64, Option<Judged>)> {
    let doors = honest.doors();
    let silent = |to| (Silent::new(to, strangers().collect(), HELD), CONNECTIONS);
    let floods = vec![silent(doors.page), silent(doors.players)];
    let before = honest.limit_descriptors(LEFT)?;
    let attackers = Attackers::start(floods);
    // Until they are taken.
    scene.wait(Duration::from_secs(1), honest)?;
    let (begun, used) = (clock::now(), honest.threads_use(&THREADS)?);
    scene.wait(scene.lasting, honest)?;
    let span = clock::now().since(begun).as_secs_f64();
    let share = (honest.threads_use(&THREADS)? - used) / span;
    let (struck, _) = attackers.stop();
    honest.restore_descriptors(before)?;
    let after = tried(scene, honest)?;
    let judged = Judged {
        words: format!(
            "its threads that take connections took {:.0} % of a core; then {}",
            share * 100.0,
            judged(after).words
        ),
        held: share < WAITS && judged(after).held,
    };
    Ok((struck, Some(judged)))
}

/// The threads that take connections of browsers and of video players (`crates/gateway`).
const THREADS: [&str; 2] = ["ouvr-gateway", "ouvr-rtsp"];
