//! Rate limits for log-ins, as a value without a clock or a lock.
//!
//! Only wrong passwords count. Pending attempts are counted separately: a new attempt waits if the wrong passwords and
//! the pending attempts together have reached the limit. Therefore, concurrent guesses gain nothing, and concurrent
//! correct attempts all succeed.
//!
//! An attempt of an unknown client counts in three counters: one for the combination of account and network, one for
//! the network, and one for the account. A browser that logged in to the account before ([`super::Devices`]) has its
//! own counter. The limit per account does not apply to a network from which the account logged in before. Guesses by
//! unknown clients therefore never lock out known browsers. Names without an account are counted in the same way, so
//! that they cannot be distinguished from accounts.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::network::Network;

/// Time from the first wrong password of a counter until its wrong passwords are forgotten (a guess).
const EXPIRY: Duration = Duration::from_secs(15 * 60);

/// Maximum number of wrong passwords within [`EXPIRY`] for an account from one network (a guess: a user who tries
/// several passwords).
const PER_NAME_AND_NETWORK: u32 = 5;
/// Maximum number of wrong passwords within [`EXPIRY`] for an account from all unknown networks together (a guess).
const PER_NAME: u32 = 50;
/// Maximum number of wrong passwords within [`EXPIRY`] for all accounts together from one network (a guess: a household
/// or a school).
const PER_NETWORK: u32 = 30;
/// Maximum number of wrong passwords within [`EXPIRY`] for an account from a known browser (a guess). The browser then
/// counts as an unknown client.
const PER_DEVICE: u32 = 10;

/// Maximum number of unfinished log-ins within [`EXPIRY`] through the provider from one network (a guess: a school
/// class that starts at the same time).
const PER_PROVIDER: u32 = 200;

/// Maximum pending attempts per network, account or browser (a guess). Only two passwords are verified at a time, so
/// more pending attempts would only delay others.
const MAX_PENDING: u32 = 8;

/// Maximum pending attempts of unknown clients. They delay known browsers by less than a second at the log-in rate that
/// docs/deploy.md reports.
const UNKNOWN_CLIENTS: u32 = 64;

/// Maximum number of counters, and of known networks (a guess). Each takes about 100 bytes.
const MAX_KNOWN: usize = 20_000;

/// The client that attempts to log in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct AttemptSource {
    /// The account name, as typed.
    pub(crate) name: String,
    pub(crate) network: Network,
    /// Id of a browser that logged in to this account before.
    pub(crate) device: Option<String>,
}

/// Identifies a counter.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum CounterKey {
    Both(String, Network),
    Name(String),
    Network(Network),
    Device(String),
    Provider(Network),
}

/// Whether an attempt may start.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Admission {
    /// The attempt has been started and counted. The caller must report its result.
    Admitted(Vec<CounterKey>),
    /// The attempt may start after other attempts have ended.
    Later,
    /// The attempt may start after this time.
    Refused(Duration),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AttemptResult {
    Correct,
    Wrong,
    /// Unknown: the attempt ended without a result, for example because the database did not answer.
    Unknown,
}

#[derive(Clone, Copy)]
struct Count {
    wrong: u32,
    /// Time of the first wrong password.
    since: Instant,
    under_way: u32,
}

/// The counters. The caller passes the time.
#[derive(Default)]
pub(crate) struct Limiter {
    counts: HashMap<CounterKey, Count>,
    /// Pending attempts of unknown clients.
    unknown_pending: u32,
    /// The networks from which an account logged in, with the time of the last log-in.
    earlier: HashMap<(String, Network), Instant>,
}

impl Limiter {
    pub(crate) fn start(&mut self, source: &AttemptSource, now: Instant) -> Admission {
        let counted = self.counted(source, now);
        let of = |of: &CounterKey| self.counts.get(of).copied();
        for (key, most) in &counted {
            if let Some(count) = of(key)
                && count.wrong(now) >= *most
            {
                return Admission::Refused(count.wait(now));
            }
        }
        let full = counted.iter().any(|(key, most)| {
            of(key).is_some_and(|count| {
                let under_way = count.under_way;
                under_way >= MAX_PENDING || count.wrong(now) + under_way >= *most
            })
        });
        let unknown = is_unknown(counted.iter().map(|(of, _)| of));
        if full || unknown && self.unknown_pending >= UNKNOWN_CLIENTS {
            return Admission::Later;
        }
        self.unknown_pending += u32::from(unknown);
        let counted: Vec<CounterKey> = counted.into_iter().map(|(of, _)| of).collect();
        for of in &counted {
            self.count(of, now).under_way += 1;
        }
        Admission::Admitted(counted)
    }

    /// Ends an attempt. `counted` contains the counters from [`Admission::Admitted`].
    pub(crate) fn end(
        &mut self,
        source: &AttemptSource,
        counted: &[CounterKey],
        ended: AttemptResult,
        now: Instant,
    ) {
        if is_unknown(counted.iter()) {
            self.unknown_pending = self.unknown_pending.saturating_sub(1);
        }
        for of in counted {
            let count = self.count(of, now);
            count.under_way = count.under_way.saturating_sub(1);
            match ended {
                AttemptResult::Wrong => count.add_wrong(now),
                // A correct password resets only the counters of the account that belong to this network or this
                // browser. If it reset the network's counter, a client that knows the password of one account could
                // guess more passwords of other accounts.
                AttemptResult::Correct
                    if matches!(of, CounterKey::Both(..) | CounterKey::Device(_)) =>
                {
                    count.wrong = 0
                }
                AttemptResult::Correct | AttemptResult::Unknown => {}
            }
            if count.under_way == 0 && count.wrong == 0 {
                self.counts.remove(of);
            }
        }
        if ended == AttemptResult::Correct {
            if self.earlier.len() >= MAX_KNOWN
                && let Some(oldest) = self.earlier.iter().min_by_key(|(_, at)| **at)
            {
                let oldest = oldest.0.clone();
                self.earlier.remove(&oldest);
            }
            self.earlier
                .insert((source.name.clone(), source.network), now);
        }
    }

    /// Starts a log-in through the provider. The log-in has no account name yet, and counts as a wrong password until
    /// it succeeds.
    pub(crate) fn start_by_provider(
        &mut self,
        from: Network,
        now: Instant,
    ) -> Result<(), Duration> {
        let of = CounterKey::Provider(from);
        match self.counts.get(&of) {
            Some(count) if count.wrong(now) >= PER_PROVIDER => Err(count.wait(now)),
            _ => {
                self.count(&of, now).add_wrong(now);
                Ok(())
            }
        }
    }

    /// Ends a log-in through the provider successfully.
    pub(crate) fn succeeded_by_provider(&mut self, from: Network) {
        if let Some(count) = self.counts.get_mut(&CounterKey::Provider(from)) {
            count.wrong = count.wrong.saturating_sub(1);
        }
    }

    /// The counters that apply to an attempt from `source`, with their limits.
    fn counted(&self, source: &AttemptSource, now: Instant) -> Vec<(CounterKey, u32)> {
        let device = source.device.clone().map(CounterKey::Device);
        let device = device.filter(|of| {
            let count = self.counts.get(of);
            count.is_none_or(|count| count.wrong(now) < PER_DEVICE)
        });
        if let Some(device) = device {
            return vec![(device, PER_DEVICE)];
        }
        let mut counted = vec![
            (
                CounterKey::Both(source.name.clone(), source.network),
                PER_NAME_AND_NETWORK,
            ),
            (CounterKey::Network(source.network), PER_NETWORK),
        ];
        if !self
            .earlier
            .contains_key(&(source.name.clone(), source.network))
        {
            counted.push((CounterKey::Name(source.name.clone()), PER_NAME));
        }
        counted
    }

    fn count(&mut self, of: &CounterKey, now: Instant) -> &mut Count {
        if self.counts.len() >= MAX_KNOWN && !self.counts.contains_key(of) {
            self.make_room(now);
        }
        self.counts.entry(of.clone()).or_insert(Count {
            wrong: 0,
            since: now,
            under_way: 0,
        })
    }

    /// Removes expired counters. If there are still too many, removes the counters with the fewest wrong passwords.
    /// Single guesses from many networks therefore cannot remove counters that are close to their limits.
    fn make_room(&mut self, now: Instant) {
        self.counts
            .retain(|_, count| count.under_way > 0 || count.wrong(now) > 0);
        while self.counts.len() >= MAX_KNOWN {
            let free = self.counts.values().filter(|count| count.under_way == 0);
            let Some(fewest) = free.map(|count| count.wrong).min() else {
                return;
            };
            self.counts
                .retain(|_, count| count.under_way > 0 || count.wrong > fewest);
        }
    }
}

impl Count {
    /// The number of wrong passwords that have not expired.
    fn wrong(&self, now: Instant) -> u32 {
        match now.duration_since(self.since) < EXPIRY {
            true => self.wrong,
            false => 0,
        }
    }

    fn add_wrong(&mut self, now: Instant) {
        let before = self.wrong(now);
        if before == 0 {
            self.since = now;
        }
        self.wrong = before + 1;
    }

    /// The time until the counter expires.
    fn wait(&self, now: Instant) -> Duration {
        EXPIRY.saturating_sub(now.duration_since(self.since))
    }
}

fn is_unknown<'a>(mut counted: impl Iterator<Item = &'a CounterKey>) -> bool {
    !counted.any(|of| matches!(of, CounterKey::Device(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(number: u32) -> Network {
        let number = u16::try_from(number).unwrap();
        Network::V6([0x2001, 0xdb8, 0, number])
    }

    fn source(name: &str, number: u32) -> AttemptSource {
        AttemptSource {
            name: name.to_owned(),
            network: network(number),
            device: None,
        }
    }

    /// Makes a complete attempt. Returns false if it was refused.
    fn attempt(
        limiter: &mut Limiter,
        source: &AttemptSource,
        ended: AttemptResult,
        now: Instant,
    ) -> bool {
        match limiter.start(source, now) {
            Admission::Admitted(counted) => {
                limiter.end(source, &counted, ended, now);
                true
            }
            Admission::Later => panic!("no attempt is pending"),
            Admission::Refused(_) => false,
        }
    }

    fn wrong(limiter: &mut Limiter, source: &AttemptSource, now: Instant) -> bool {
        attempt(limiter, source, AttemptResult::Wrong, now)
    }

    #[test]
    fn wrong_passwords_are_limited_by_account_and_network() {
        let (mut limiter, now) = (Limiter::default(), Instant::now());
        let (here, there) = (source("ada", 1), source("ada", 2));
        for _ in 0..PER_NAME_AND_NETWORK {
            assert!(wrong(&mut limiter, &here, now));
        }
        assert_eq!(limiter.start(&here, now), Admission::Refused(EXPIRY));
        // The wrong passwords do not lock out the user on another network.
        assert!(wrong(&mut limiter, &there, now));
        assert!(wrong(&mut limiter, &here, now + EXPIRY));
    }

    #[test]
    fn one_network_does_not_try_all_names() {
        let (mut limiter, now) = (Limiter::default(), Instant::now());
        for n in 0..PER_NETWORK {
            assert!(wrong(&mut limiter, &source(&format!("user{n}"), 1), now));
        }
        assert!(!wrong(&mut limiter, &source("another", 1), now));
        assert!(wrong(&mut limiter, &source("another", 2), now));
    }

    #[test]
    fn a_correct_password_resets_only_its_own() {
        let (mut limiter, now) = (Limiter::default(), Instant::now());
        let (ada, bob) = (source("ada", 1), source("bob", 1));
        for _ in 1..PER_NAME_AND_NETWORK {
            assert!(wrong(&mut limiter, &ada, now));
            assert!(wrong(&mut limiter, &bob, now));
        }
        assert!(attempt(&mut limiter, &bob, AttemptResult::Correct, now));
        assert!(wrong(&mut limiter, &ada, now));
        assert!(!wrong(&mut limiter, &ada, now));
        for _ in 0..PER_NAME_AND_NETWORK {
            assert!(wrong(&mut limiter, &bob, now));
        }
        assert!(!wrong(&mut limiter, &bob, now));
    }

    #[test]
    fn concurrent_correct_passwords_all_succeed() {
        let (mut limiter, now) = (Limiter::default(), Instant::now());
        // A school class behind one address, and eight attempts for one account.
        let class = (0..45).map(|n| source(&format!("user{n}"), 1));
        let mut waiting: Vec<AttemptSource> =
            class.chain((0..8).map(|_| source("ada", 1))).collect();
        let (mut right, mut most) = (0, 0);
        while !waiting.is_empty() {
            let mut admitted = Vec::new();
            waiting.retain(|source| match limiter.start(source, now) {
                Admission::Admitted(counted) => {
                    admitted.push((source.clone(), counted));
                    false
                }
                Admission::Later => true,
                Admission::Refused(wait) => panic!("{source:?} is refused for {wait:?}"),
            });
            most = most.max(admitted.len());
            right += admitted.len();
            for (source, counted) in admitted {
                limiter.end(&source, &counted, AttemptResult::Correct, now);
            }
        }
        assert_eq!((right, most), (53, MAX_PENDING as usize));
        assert!(limiter.counts.is_empty(), "all counters are removed");
    }

    #[test]
    fn concurrent_guesses_gain_nothing() {
        let (mut limiter, now) = (Limiter::default(), Instant::now());
        let ada = source("ada", 1);
        let mut admitted = Vec::new();
        while let Admission::Admitted(counted) = limiter.start(&ada, now) {
            admitted.push(counted);
        }
        assert_eq!(admitted.len(), PER_NAME_AND_NETWORK as usize);
        for counted in admitted {
            limiter.end(&ada, &counted, AttemptResult::Wrong, now);
        }
        assert_eq!(limiter.start(&ada, now), Admission::Refused(EXPIRY));
    }

    #[test]
    fn guessing_locks_out_no_known_browser_or_network() {
        let (mut limiter, now) = (Limiter::default(), Instant::now());
        let at_home = source("ada", 0);
        assert!(attempt(&mut limiter, &at_home, AttemptResult::Correct, now));
        let mut guesses = 0;
        for n in 1..100 {
            for _ in 0..PER_NAME_AND_NETWORK {
                guesses += u32::from(wrong(&mut limiter, &source("ada", n), now));
            }
        }
        assert_eq!(guesses, PER_NAME);
        let elsewhere = source("ada", 1000);
        assert!(!attempt(
            &mut limiter,
            &elsewhere,
            AttemptResult::Correct,
            now
        ));
        assert!(attempt(&mut limiter, &at_home, AttemptResult::Correct, now));
        let mut known = elsewhere;
        known.device = Some("a browser".to_owned());
        assert!(attempt(&mut limiter, &known, AttemptResult::Correct, now));
        // If a known browser guesses, it reaches its own limit, and then the limit of an unknown client on its network.
        for _ in 0..PER_DEVICE + PER_NAME_AND_NETWORK {
            assert!(wrong(&mut limiter, &known, now));
        }
        assert!(!wrong(&mut limiter, &known, now));
    }

    #[test]
    fn a_known_browser_passes_pending_attempts() {
        let (mut limiter, now) = (Limiter::default(), Instant::now());
        for n in 0..UNKNOWN_CLIENTS {
            let admitted = limiter.start(&source(&format!("user{n}"), n), now);
            assert!(matches!(admitted, Admission::Admitted(_)));
        }
        let mut ada = source("ada", 1000);
        assert_eq!(limiter.start(&ada, now), Admission::Later);
        ada.device = Some("a browser".to_owned());
        assert!(matches!(limiter.start(&ada, now), Admission::Admitted(_)));
    }

    #[test]
    fn the_provider_and_passwords_have_limits_of_their_own() {
        let (mut limiter, now) = (Limiter::default(), Instant::now());
        let (here, there) = (network(1), network(2));
        for _ in 0..PER_PROVIDER {
            limiter.start_by_provider(here, now).unwrap();
        }
        assert!(limiter.start_by_provider(here, now).is_err());
        assert!(wrong(&mut limiter, &source("ada", 1), now));
        limiter.start_by_provider(there, now).unwrap();
        limiter.succeeded_by_provider(here);
        limiter.start_by_provider(here, now).unwrap();
    }

    #[test]
    fn memory_is_bounded_and_high_counts_are_kept() {
        let (mut limiter, now) = (Limiter::default(), Instant::now());
        for n in 0..PER_NAME {
            assert!(wrong(
                &mut limiter,
                &source("ada", n / PER_NAME_AND_NETWORK),
                now
            ));
        }
        for n in 100..u32::try_from(MAX_KNOWN).unwrap() {
            assert!(wrong(&mut limiter, &source(&format!("user{n}"), n), now));
        }
        assert!(limiter.counts.len() <= MAX_KNOWN);
        assert!(!wrong(&mut limiter, &source("ada", 99), now));
    }
}
