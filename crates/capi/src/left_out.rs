//! What was said of pictures that were not taken: a line when that begins and when it comes again, not
//! one for each picture.

use std::time::{Duration, Instant};

/// Between two lines of the same reason at least.
const AGAIN: Duration = Duration::from_secs(1);

/// Reasons that are remembered: more than there are.
const MOST: usize = 16;

/// The reasons of one context.
#[derive(Default)]
pub(crate) struct LeftOut(Vec<Reason>);

struct Reason {
    why: String,
    said: Instant,
    /// No picture was taken since.
    lasts: bool,
}

impl LeftOut {
    /// A picture was left out for this reason: whether to say so.
    pub(crate) fn is_news(&mut self, why: &str, now: Instant) -> bool {
        let Some(known) = self.0.iter_mut().find(|known| known.why == why) else {
            if self.0.len() >= MOST {
                self.0.remove(0);
            }
            self.0.push(Reason {
                why: why.to_owned(),
                said: now,
                lasts: true,
            });
            return true;
        };
        if known.lasts || now.saturating_duration_since(known.said) < AGAIN {
            return false;
        }
        (known.said, known.lasts) = (now, true);
        true
    }

    /// The same for a reason that comes and goes in ordinary use: said once.
    pub(crate) fn is_new(&mut self, why: &str, now: Instant) -> bool {
        self.0.iter().all(|known| known.why != why) && self.is_news(why, now)
    }

    /// A picture was taken.
    pub(crate) fn taken(&mut self) {
        for reason in &mut self.0 {
            reason.lasts = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_said_when_it_begins_and_when_it_returns() {
        let mut left_out = LeftOut::default();
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        assert!(left_out.is_news("mapped", at(0)));
        assert!(!left_out.is_news("mapped", at(5000)), "it lasts");
        assert!(left_out.is_news("too small", at(5000)), "another one");
        left_out.taken();
        assert!(left_out.is_news("mapped", at(5001)), "it returns");
        left_out.taken();
        assert!(!left_out.is_news("mapped", at(5900)), "it flickers");
        assert!(left_out.is_news("mapped", at(6001)), "and stays");
    }

    #[test]
    fn an_ordinary_reason_is_said_once_and_many_are_forgotten() {
        let mut left_out = LeftOut::default();
        let start = Instant::now();
        assert!(left_out.is_new("nobody watches", start));
        left_out.taken();
        let later = start + AGAIN * 10;
        assert!(!left_out.is_new("nobody watches", later));
        for n in 0..100 {
            assert!(left_out.is_news(&n.to_string(), later));
        }
        assert_eq!(left_out.0.len(), MOST);
    }
}
