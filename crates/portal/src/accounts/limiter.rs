//! How many log-ins may fail, as a value: no clock, no lock.
//!
//! Only wrong passwords count. Attempts under way are counted apart: an attempt that would go beyond a limit if all
//! those under way were wrong waits for them. So many attempts at once gain nothing, and right ones all get in.
//!
//! A stranger is counted by account and network, by network, and by account. A browser that logged in to the account
//! before ([`super::Devices`]) is counted alone, and a network from which the account logged in before is free of the
//! limit by account: strangers who use that up keep only other strangers out. Names without an account are counted as
//! others, so that nothing tells them apart.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::network::Network;

/// After how long wrong passwords are forgotten; a guess.
const FORGOTTEN: Duration = Duration::from_secs(15 * 60);

/// Wrong passwords within that time: of an account from one network, as a person who tries what it might have been;
/// of an account from strangers' networks; from one network, behind which a household or a school may be; of an
/// account from a browser that logged in to it before. Guesses.
const OF_BOTH: u32 = 5;
const OF_NAME: u32 = 50;
const PER_NETWORK: u32 = 30;
const OF_DEVICE: u32 = 10;

/// Log-ins by a provider from one network that have begun and not come to a good end; a guess: a school that begins
/// at once.
const OF_PROVIDER: u32 = 200;

/// Attempts of one network, account or browser that are under way at a time; a guess. Passwords are compared two at a
/// time, so more would only take turns from others.
const AT_A_TIME: u32 = 8;

/// Attempts of strangers that are under way at a time: known browsers wait for less than a second behind them, with
/// the rate of docs/deploy.md.
const UNKNOWN_CLIENTS: u32 = 64;

/// What is remembered at most, of wrong passwords and of networks each; a guess. Some 100 bytes are one.
const MAX_KNOWN: usize = 20_000;

/// Who tries.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct AttemptSource {
    /// The account, as it was typed.
    pub(crate) name: String,
    pub(crate) network: Network,
    /// A browser that logged in to this account before.
    pub(crate) device: Option<String>,
}

/// What is counted.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum CounterKey {
    Both(String, Network),
    Name(String),
    Network(Network),
    Device(String),
    Provider(Network),
}

/// Whether an attempt may begin.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Admission {
    /// It has begun, and is counted so: the caller says how it ends.
    Admitted(Vec<CounterKey>),
    /// Once others have ended.
    Later,
    /// After this time.
    Refused(Duration),
}

/// How an attempt ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AttemptResult {
    Correct,
    Wrong,
    /// It is not known: the database did not answer.
    Unknown,
}

#[derive(Clone, Copy)]
struct Count {
    wrong: u32,
    /// When the first of the wrong ones was.
    since: Instant,
    under_way: u32,
}

/// The counts. The caller says what time it is.
#[derive(Default)]
pub(crate) struct Limiter {
    counts: HashMap<CounterKey, Count>,
    /// Strangers' attempts that are under way.
    strangers: u32,
    /// From which networks an account logged in, and when last.
    earlier: HashMap<(String, Network), Instant>,
}

impl Limiter {
    pub(crate) fn start(&mut self, who: &AttemptSource, now: Instant) -> Admission {
        let counted = self.counted(who, now);
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
                under_way >= AT_A_TIME || count.wrong(now) + under_way >= *most
            })
        });
        let stranger = is_unknown(counted.iter().map(|(of, _)| of));
        if full || stranger && self.strangers >= UNKNOWN_CLIENTS {
            return Admission::Later;
        }
        self.strangers += u32::from(stranger);
        let counted: Vec<CounterKey> = counted.into_iter().map(|(of, _)| of).collect();
        for of in &counted {
            self.count(of, now).under_way += 1;
        }
        Admission::Admitted(counted)
    }

    /// What [`Admission::Admitted`] named has ended.
    pub(crate) fn end(
        &mut self,
        who: &AttemptSource,
        counted: &[CounterKey],
        ended: AttemptResult,
        now: Instant,
    ) {
        if is_unknown(counted.iter()) {
            self.strangers = self.strangers.saturating_sub(1);
        }
        for of in counted {
            let count = self.count(of, now);
            count.under_way = count.under_way.saturating_sub(1);
            match ended {
                AttemptResult::Wrong => count.add_wrong(now),
                // A right password takes back what was wrong of its own account alone: the knowledge of one password
                // buys no tries at others.
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
            self.earlier.insert((who.name.clone(), who.network), now);
        }
    }

    /// A log-in by a provider begins; it has no name yet, and counts until it comes to a good end.
    pub(crate) fn start_by_provider(
        &mut self,
        from: Network,
        now: Instant,
    ) -> Result<(), Duration> {
        let of = CounterKey::Provider(from);
        match self.counts.get(&of) {
            Some(count) if count.wrong(now) >= OF_PROVIDER => Err(count.wait(now)),
            _ => {
                self.count(&of, now).add_wrong(now);
                Ok(())
            }
        }
    }

    /// It came to a good end.
    pub(crate) fn succeeded_by_provider(&mut self, from: Network) {
        if let Some(count) = self.counts.get_mut(&CounterKey::Provider(from)) {
            count.wrong = count.wrong.saturating_sub(1);
        }
    }

    /// What counts such an attempt, with the most that may be wrong of it.
    fn counted(&self, who: &AttemptSource, now: Instant) -> Vec<(CounterKey, u32)> {
        let device = who.device.clone().map(CounterKey::Device);
        let device = device.filter(|of| {
            let count = self.counts.get(of);
            count.is_none_or(|count| count.wrong(now) < OF_DEVICE)
        });
        if let Some(device) = device {
            return vec![(device, OF_DEVICE)];
        }
        let mut counted = vec![
            (CounterKey::Both(who.name.clone(), who.network), OF_BOTH),
            (CounterKey::Network(who.network), PER_NETWORK),
        ];
        if !self.earlier.contains_key(&(who.name.clone(), who.network)) {
            counted.push((CounterKey::Name(who.name.clone()), OF_NAME));
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

    /// Forgets what is old; and if that is not enough, those of which the fewest were wrong: one password from each of
    /// many networks does not drive out what is close to its limit.
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
    /// Those that are not forgotten yet.
    fn wrong(&self, now: Instant) -> u32 {
        match now.duration_since(self.since) < FORGOTTEN {
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

    /// Until they are forgotten.
    fn wait(&self, now: Instant) -> Duration {
        FORGOTTEN.saturating_sub(now.duration_since(self.since))
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

    fn who(name: &str, number: u32) -> AttemptSource {
        AttemptSource {
            name: name.to_owned(),
            network: network(number),
            device: None,
        }
    }

    /// An attempt from its beginning to its end; false: it may not begin.
    fn attempt(
        limiter: &mut Limiter,
        who: &AttemptSource,
        ended: AttemptResult,
        now: Instant,
    ) -> bool {
        match limiter.start(who, now) {
            Admission::Admitted(counted) => {
                limiter.end(who, &counted, ended, now);
                true
            }
            Admission::Later => panic!("nothing is under way"),
            Admission::Refused(_) => false,
        }
    }

    fn wrong(limiter: &mut Limiter, who: &AttemptSource, now: Instant) -> bool {
        attempt(limiter, who, AttemptResult::Wrong, now)
    }

    #[test]
    fn wrong_passwords_are_limited_by_account_and_network() {
        let (mut limiter, now) = (Limiter::default(), Instant::now());
        let (here, there) = (who("ada", 1), who("ada", 2));
        for _ in 0..OF_BOTH {
            assert!(wrong(&mut limiter, &here, now));
        }
        assert_eq!(limiter.start(&here, now), Admission::Refused(FORGOTTEN));
        // The person elsewhere is not locked out by it.
        assert!(wrong(&mut limiter, &there, now));
        assert!(wrong(&mut limiter, &here, now + FORGOTTEN));
    }

    #[test]
    fn one_network_does_not_try_all_names() {
        let (mut limiter, now) = (Limiter::default(), Instant::now());
        for n in 0..PER_NETWORK {
            assert!(wrong(&mut limiter, &who(&format!("user{n}"), 1), now));
        }
        assert!(!wrong(&mut limiter, &who("another", 1), now));
        assert!(wrong(&mut limiter, &who("another", 2), now));
    }

    #[test]
    fn a_right_password_takes_back_only_its_own() {
        let (mut limiter, now) = (Limiter::default(), Instant::now());
        let (ada, bob) = (who("ada", 1), who("bob", 1));
        for _ in 1..OF_BOTH {
            assert!(wrong(&mut limiter, &ada, now));
            assert!(wrong(&mut limiter, &bob, now));
        }
        assert!(attempt(&mut limiter, &bob, AttemptResult::Correct, now));
        assert!(wrong(&mut limiter, &ada, now));
        assert!(!wrong(&mut limiter, &ada, now));
        for _ in 0..OF_BOTH {
            assert!(wrong(&mut limiter, &bob, now));
        }
        assert!(!wrong(&mut limiter, &bob, now));
    }

    #[test]
    fn right_passwords_at_once_all_get_in() {
        let (mut limiter, now) = (Limiter::default(), Instant::now());
        // A class behind one address, and one account eight times.
        let class = (0..45).map(|n| who(&format!("user{n}"), 1));
        let mut waiting: Vec<AttemptSource> = class.chain((0..8).map(|_| who("ada", 1))).collect();
        let (mut right, mut most) = (0, 0);
        while !waiting.is_empty() {
            let mut begun = Vec::new();
            waiting.retain(|who| match limiter.start(who, now) {
                Admission::Admitted(counted) => {
                    begun.push((who.clone(), counted));
                    false
                }
                Admission::Later => true,
                Admission::Refused(wait) => panic!("{who:?} is refused for {wait:?}"),
            });
            most = most.max(begun.len());
            right += begun.len();
            for (who, counted) in begun {
                limiter.end(&who, &counted, AttemptResult::Correct, now);
            }
        }
        assert_eq!((right, most), (53, AT_A_TIME as usize));
        assert!(limiter.counts.is_empty(), "nothing is left of them");
    }

    #[test]
    fn wrong_passwords_at_once_are_no_more_than_one_after_the_other() {
        let (mut limiter, now) = (Limiter::default(), Instant::now());
        let ada = who("ada", 1);
        let mut begun = Vec::new();
        while let Admission::Admitted(counted) = limiter.start(&ada, now) {
            begun.push(counted);
        }
        assert_eq!(begun.len(), OF_BOTH as usize);
        for counted in begun {
            limiter.end(&ada, &counted, AttemptResult::Wrong, now);
        }
        assert_eq!(limiter.start(&ada, now), Admission::Refused(FORGOTTEN));
    }

    #[test]
    fn strangers_lock_out_no_known_browser_and_no_known_network() {
        let (mut limiter, now) = (Limiter::default(), Instant::now());
        let at_home = who("ada", 0);
        assert!(attempt(&mut limiter, &at_home, AttemptResult::Correct, now));
        let mut guesses = 0;
        for n in 1..100 {
            for _ in 0..OF_BOTH {
                guesses += u32::from(wrong(&mut limiter, &who("ada", n), now));
            }
        }
        assert_eq!(guesses, OF_NAME);
        let elsewhere = who("ada", 1000);
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
        // A browser that guesses has its own number of guesses, and then those of its network.
        for _ in 0..OF_DEVICE + OF_BOTH {
            assert!(wrong(&mut limiter, &known, now));
        }
        assert!(!wrong(&mut limiter, &known, now));
    }

    #[test]
    fn a_known_browser_passes_strangers_that_are_under_way() {
        let (mut limiter, now) = (Limiter::default(), Instant::now());
        for n in 0..UNKNOWN_CLIENTS {
            let begun = limiter.start(&who(&format!("user{n}"), n), now);
            assert!(matches!(begun, Admission::Admitted(_)));
        }
        let mut ada = who("ada", 1000);
        assert_eq!(limiter.start(&ada, now), Admission::Later);
        ada.device = Some("a browser".to_owned());
        assert!(matches!(limiter.start(&ada, now), Admission::Admitted(_)));
    }

    #[test]
    fn the_provider_and_passwords_have_limits_of_their_own() {
        let (mut limiter, now) = (Limiter::default(), Instant::now());
        let (here, there) = (network(1), network(2));
        for _ in 0..OF_PROVIDER {
            limiter.start_by_provider(here, now).unwrap();
        }
        assert!(limiter.start_by_provider(here, now).is_err());
        assert!(wrong(&mut limiter, &who("ada", 1), now));
        limiter.start_by_provider(there, now).unwrap();
        limiter.succeeded_by_provider(here);
        limiter.start_by_provider(here, now).unwrap();
    }

    #[test]
    fn what_is_remembered_is_bounded_and_high_counts_stay() {
        let (mut limiter, now) = (Limiter::default(), Instant::now());
        for n in 0..OF_NAME {
            assert!(wrong(&mut limiter, &who("ada", n / OF_BOTH), now));
        }
        for n in 100..u32::try_from(MAX_KNOWN).unwrap() {
            assert!(wrong(&mut limiter, &who(&format!("user{n}"), n), now));
        }
        assert!(limiter.counts.len() <= MAX_KNOWN);
        assert!(!wrong(&mut limiter, &who("ada", 99), now));
    }
}
