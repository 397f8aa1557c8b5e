//! How often a log-in may fail.
//!
//! Counted for the name together with the address, for the name, and for the address; names without an account are
//! counted as others, so that nothing tells them apart. A log-in that succeeds takes back its own name's count at
//! that address alone: who knows one password can't buy tries at others with it.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// After how long failures are forgotten; a guess.
const FORGOTTEN: Duration = Duration::from_secs(15 * 60);

/// Failures within that time: of a name from one address, as a person who tries what it might have been; of a name
/// from anywhere; from one address, behind which a household or a school may be.
const OF_BOTH: u32 = 5;
const OF_NAME: u32 = 50;
const OF_ADDRESS: u32 = 30;

/// Log-ins by a provider from one address that have begun and not come to a good end; a guess.
const OF_PROVIDER: u32 = 60;

/// What is remembered at most; beyond it everybody waits until something is forgotten.
const MAX_KNOWN: usize = 20_000;

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Of {
    Both(String, IpAddr),
    Name(String),
    Address(IpAddr),
    Provider(IpAddr),
}

/// The counts. The caller says what time it is.
#[derive(Default)]
pub(crate) struct Limiter {
    failures: HashMap<Of, (u32, Instant)>,
}

impl Limiter {
    /// Counts an attempt as failed before it is known how it ends, so that many at once gain nothing; or says how
    /// long to wait.
    pub(crate) fn attempt(
        &mut self,
        name: &str,
        from: IpAddr,
        now: Instant,
    ) -> Result<(), Duration> {
        self.failures
            .retain(|_, (_, since)| now.duration_since(*since) < FORGOTTEN);
        let counted = [
            (Of::Both(name.to_owned(), from), OF_BOTH),
            (Of::Name(name.to_owned()), OF_NAME),
            (Of::Address(from), OF_ADDRESS),
        ];
        self.count(&counted, now)
    }

    /// The same of a log-in by a provider, which has no name yet.
    pub(crate) fn attempt_by_provider(
        &mut self,
        from: IpAddr,
        now: Instant,
    ) -> Result<(), Duration> {
        self.failures
            .retain(|_, (_, since)| now.duration_since(*since) < FORGOTTEN);
        self.count(&[(Of::Provider(from), OF_PROVIDER)], now)
    }

    fn count(&mut self, counted: &[(Of, u32)], now: Instant) -> Result<(), Duration> {
        for (of, most) in counted {
            if let Some((count, since)) = self.failures.get(of)
                && count >= most
            {
                return Err(FORGOTTEN.saturating_sub(now.duration_since(*since)));
            }
        }
        if self.failures.len() + counted.len() > MAX_KNOWN {
            return Err(FORGOTTEN);
        }
        for (of, _) in counted {
            self.failures.entry(of.clone()).or_insert((0, now)).0 += 1;
        }
        Ok(())
    }

    /// It came to a good end.
    pub(crate) fn succeeded_by_provider(&mut self, from: IpAddr) {
        if let Some((count, _)) = self.failures.get_mut(&Of::Provider(from)) {
            *count = count.saturating_sub(1);
        }
    }

    /// It was the right password.
    pub(crate) fn succeeded(&mut self, name: &str, from: IpAddr) {
        self.failures.remove(&Of::Both(name.to_owned(), from));
        for of in [Of::Name(name.to_owned()), Of::Address(from)] {
            if let Some((count, _)) = self.failures.get_mut(&of) {
                *count = count.saturating_sub(1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const THERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));

    #[test]
    fn wrong_passwords_are_limited_by_name_and_address() {
        let (mut limiter, now) = (Limiter::default(), Instant::now());
        for _ in 0..OF_BOTH {
            limiter.attempt("ada", HERE, now).unwrap();
        }
        let wait = limiter.attempt("ada", HERE, now).unwrap_err();
        assert_eq!(wait, FORGOTTEN);
        // The person elsewhere is not locked out by it.
        limiter.attempt("ada", THERE, now).unwrap();
        limiter.attempt("ada", HERE, now + FORGOTTEN).unwrap();
    }

    #[test]
    fn one_address_does_not_try_all_names() {
        let (mut limiter, now) = (Limiter::default(), Instant::now());
        for n in 0..OF_ADDRESS {
            limiter.attempt(&format!("user{n}"), HERE, now).unwrap();
        }
        assert!(limiter.attempt("another", HERE, now).is_err());
        assert!(limiter.attempt("another", THERE, now).is_ok());
    }

    #[test]
    fn a_right_password_takes_back_only_its_own() {
        let (mut limiter, now) = (Limiter::default(), Instant::now());
        for _ in 0..OF_BOTH {
            limiter.attempt("ada", HERE, now).unwrap();
        }
        limiter.attempt("bob", HERE, now).unwrap();
        limiter.succeeded("bob", HERE);
        assert!(limiter.attempt("ada", HERE, now).is_err());
        limiter.succeeded("ada", HERE);
        limiter.attempt("ada", HERE, now).unwrap();
    }

    #[test]
    fn the_provider_and_passwords_have_limits_of_their_own() {
        let (mut limiter, now) = (Limiter::default(), Instant::now());
        for _ in 0..OF_PROVIDER {
            limiter.attempt_by_provider(HERE, now).unwrap();
        }
        assert!(limiter.attempt_by_provider(HERE, now).is_err());
        limiter.attempt("ada", HERE, now).unwrap();
        limiter.attempt_by_provider(THERE, now).unwrap();
        limiter.succeeded_by_provider(HERE);
        limiter.attempt_by_provider(HERE, now).unwrap();
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let (mut limiter, now) = (Limiter::default(), Instant::now());
        for n in 0..u32::try_from(MAX_KNOWN).unwrap() {
            let from = IpAddr::from(n.to_be_bytes());
            let _ = limiter.attempt(&format!("user{n}"), from, now);
        }
        assert!(limiter.failures.len() <= MAX_KNOWN);
    }
}
