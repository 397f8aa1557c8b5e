//! The text form of a link's schedule: `rate=50M; 10s rate=8M loss=1%; 20s rate=50M`.
//!
//! Steps are separated by semicolons or new lines. Each step starts with its time, relative to the start of the run.
//! The first step may omit its time, which is then 0s. After the time, words of the form `name=value` set the values
//! that change in this step; all other values stay the same. `#` starts a comment. The values have the same form as
//! those of the options of `openuvr lab hop`, which this module parses, too.
//!
//! A script is not a program: it has neither loops nor variables.

use std::fmt;
use std::time::Duration;

use openuvr_proto::units::Bitrate;

use crate::impairment::{BurstLoss, Impairment, Queue};
use crate::schedule::ImpairmentSchedule;

/// A parse error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("step {step} of the link's script, `{word}`: {why}")]
pub struct ScriptError {
    /// The step, counted from 1.
    pub step: usize,
    /// The invalid word.
    pub word: String,
    /// The reason, with the correct form.
    pub why: String,
}

/// Maximum number of steps (guess). It is far more than a user writes by hand.
pub const MAX_STEPS: usize = 10_000;

/// Parses a script. `from` is the impairment at the start, before the words of the first step.
///
/// # Errors
/// Returns the first invalid word.
pub fn parse(from: &Impairment, text: &str) -> Result<ImpairmentSchedule, ScriptError> {
    let mut schedule = ImpairmentSchedule::from(from);
    let mut last = None;
    let steps = text
        .lines()
        .flat_map(|line| line.split('#').next().unwrap_or_default().split(';'))
        .filter(|step| !step.trim().is_empty());
    for (index, step) in steps.enumerate() {
        let wrong = |word: &str, why: String| ScriptError {
            step: index + 1,
            word: word.to_owned(),
            why,
        };
        if index == MAX_STEPS {
            return Err(wrong(
                step.trim(),
                format!("a script has at most {MAX_STEPS} steps"),
            ));
        }
        let mut words = step.split_whitespace().peekable();
        let at = match words.next_if(|word| !word.contains('=')) {
            Some(word) => time(word).map_err(|why| wrong(word, why))?,
            None if index == 0 => Duration::ZERO,
            None => {
                let why = "expected the time of a step, such as 10s".to_owned();
                return Err(wrong(step.trim(), why));
            }
        };
        if last.is_some_and(|last| at <= last) {
            let why = "a step's time must be later than the previous one".to_owned();
            return Err(wrong(step.trim(), why));
        }
        last = Some(at);
        let mut next = schedule.last().clone();
        for word in words {
            set(&mut next, word).map_err(|why| wrong(word, why))?;
        }
        schedule = schedule.then(at, next);
    }
    Ok(schedule)
}

/// A word of a script.
struct Key {
    name: &'static str,
    set: fn(&mut Impairment, &str) -> Result<(), String>,
    show: fn(&Impairment) -> String,
}

/// All words, named like the options.
const KEYS: [Key; 9] = [
    Key {
        name: "delay",
        set: |link, value| time(value).map(|value| link.delay = value),
        show: |link| shown(link.delay),
    },
    Key {
        name: "jitter",
        set: |link, value| time(value).map(|value| link.jitter = value),
        show: |link| shown(link.jitter),
    },
    Key {
        name: "loss",
        set: |link, value| share(value).map(|value| link.loss = value),
        show: |link| link.loss.to_string(),
    },
    Key {
        name: "burst-loss",
        set: |link, value| unless_none(value, burst).map(|value| link.burst = value),
        show: |link| {
            link.burst.map_or(NONE.into(), |burst| {
                format!("{},{},{}", burst.enter, burst.leave, burst.loss)
            })
        },
    },
    Key {
        name: "reorder",
        set: |link, value| share(value).map(|value| link.reorder = value),
        show: |link| link.reorder.to_string(),
    },
    Key {
        name: "reorder-by",
        set: |link, value| time(value).map(|value| link.reorder_by = value),
        show: |link| shown(link.reorder_by),
    },
    Key {
        name: "duplicate",
        set: |link, value| share(value).map(|value| link.duplicate = value),
        show: |link| link.duplicate.to_string(),
    },
    Key {
        name: "rate",
        set: |link, value| unless_none(value, rate).map(|value| link.rate = value),
        show: |link| {
            let scaled = |Bitrate(bits)| {
                [(1_000_000, "M"), (1000, "k"), (1, "")]
                    .into_iter()
                    .find(|(unit, _)| bits % unit == 0)
                    .map_or(String::new(), |(unit, name)| {
                        format!("{}{name}", bits / unit)
                    })
            };
            link.rate.map_or(NONE.into(), scaled)
        },
    },
    Key {
        name: "queue",
        set: |link, value| queue(value).map(|value| link.queue = value),
        show: |link| match link.queue {
            Queue::Bytes(bytes) if bytes % 1024 == 0 => format!("{}k", bytes / 1024),
            Queue::Bytes(bytes) => bytes.to_string(),
            Queue::Time(time) => shown(time),
        },
    },
];

/// The value that disables an impairment for which 0 is not a valid value.
const NONE: &str = "none";

fn set(link: &mut Impairment, word: &str) -> Result<(), String> {
    let (name, value) = word
        .split_once('=')
        .ok_or("expected NAME=VALUE, such as rate=8M")?;
    let Some(key) = KEYS.iter().find(|key| key.name == name) else {
        let names: Vec<&str> = KEYS.iter().map(|key| key.name).collect();
        return Err(format!(
            "unknown name {name}; expected one of {}",
            names.join(", ")
        ));
    };
    (key.set)(link, value)
}

impl fmt::Display for ImpairmentSchedule {
    /// An equivalent script. The first step omits the values of a perfect link, and further steps omit unchanged
    /// values.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut before = &Impairment::default();
        for (index, (at, link)) in self.steps().iter().enumerate() {
            if index > 0 {
                f.write_str("; ")?;
            }
            f.write_str(&shown(*at))?;
            for key in &KEYS {
                let value = (key.show)(link);
                if value != (key.show)(before) {
                    write!(f, " {}={value}", key.name)?;
                }
            }
            before = link;
        }
        Ok(())
    }
}

/// Formats a time in the form that [`time`] reads.
fn shown(time: Duration) -> String {
    if time.is_zero() {
        return "0s".into();
    }
    format!("{time:?}")
}

fn unless_none<T>(
    text: &str,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Result<Option<T>, String> {
    (text != NONE).then(|| parse(text)).transpose()
}

/// Splits `12.5ms` into the number and its unit.
fn split(text: &str) -> Result<(f64, &str), String> {
    let at = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(at);
    number.parse().map(|number| (number, unit)).map_err(|_| {
        format!("expected a number with its unit, such as 5ms, 8M or 1%, not `{text}`")
    })
}

/// Reads a time, such as `5ms`, `200us` or `1.5s`, of at most a day.
///
/// # Errors
/// Returns a short reason, as do the other functions here.
pub fn time(text: &str) -> Result<Duration, String> {
    let (number, unit) = split(text)?;
    let seconds = match unit {
        "h" => number * 3600.0,
        "m" => number * 60.0,
        "s" => number,
        "ms" => number / 1e3,
        "us" | "µs" => number / 1e6,
        "ns" => number / 1e9,
        _ => return Err("expected a time with its unit, such as 5ms, 200us or 1.5s".into()),
    };
    if seconds > 86_400.0 {
        return Err("a time must be at most a day".into());
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// Reads `1%` or `0.01`.
///
/// # Errors
/// Returns a short reason, as [`time`] does.
pub fn share(text: &str) -> Result<f64, String> {
    let share = match split(text)? {
        (number, "%") => number / 100.0,
        (number, "") => number,
        _ => return Err("expected a share, such as 1% or 0.01".into()),
    };
    if share > 1.0 {
        return Err("a share must be at most 100%".into());
    }
    Ok(share)
}

/// Reads `1%,25%` or `1%,25%,80%`.
///
/// # Errors
/// Returns a short reason, as [`time`] does.
pub fn burst(text: &str) -> Result<BurstLoss, String> {
    let shares: Vec<f64> = text.split(',').map(share).collect::<Result<_, _>>()?;
    let (enter, leave, loss) = match shares[..] {
        [enter, leave] => (enter, leave, 1.0),
        [enter, leave, loss] => (enter, leave, loss),
        _ => return Err("expected two or three shares, such as 1%,25% or 1%,25%,80%".into()),
    };
    if leave <= 0.0 {
        return Err("the second share must be above 0, because a burst must end".into());
    }
    Ok(BurstLoss { enter, leave, loss })
}

/// Reads bits per second: `50M`, `800k`, `1G`.
///
/// # Errors
/// Returns a short reason, as [`time`] does.
pub fn rate(text: &str) -> Result<Bitrate, String> {
    let bits = match split(text)? {
        (number, "") => number,
        (number, "k") => number * 1e3,
        (number, "M") => number * 1e6,
        (number, "G") => number * 1e9,
        _ => return Err("expected a rate in bits per second, such as 50M, 800k or 1G".into()),
    };
    if !(1.0..=1e12).contains(&bits) {
        return Err("a rate must be between 1 and 1000G".into());
    }
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Checked above.
    Ok(Bitrate(bits.round() as u64))
}

/// Reads a size in bytes (`64k`, `1M`; k is 1024) or a time (`50ms`).
///
/// # Errors
/// Returns a short reason, as [`time`] does.
pub fn queue(text: &str) -> Result<Queue, String> {
    let bytes = match split(text)? {
        (number, "") => number,
        (number, "k") => number * 1024.0,
        (number, "M") => number * 1024.0 * 1024.0,
        (_, "s" | "ms" | "us" | "µs" | "ns") => return time(text).map(Queue::Time),
        _ => {
            return Err(
                "expected a queue size in bytes or as a time, such as 64k, 1M or 50ms".into(),
            );
        }
    };
    if bytes > 1e9 {
        return Err("a queue must have at most 1000000000 bytes".into());
    }
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Checked above.
    Ok(Queue::Bytes(bytes.round() as usize))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn perfect(text: &str) -> Result<ImpairmentSchedule, ScriptError> {
        parse(&Impairment::default(), text)
    }

    #[test]
    fn steps_change_what_they_name_and_keep_the_rest() {
        let script = "rate=50M queue=20ms; 10s rate=8M loss=1% # narrow\n\n 20s rate=none";
        let narrow = Impairment {
            rate: Some(Bitrate::from_mbps(50)),
            queue: Queue::Time(Duration::from_millis(20)),
            ..Impairment::default()
        };
        let narrower = Impairment {
            rate: Some(Bitrate::from_mbps(8)),
            loss: 0.01,
            ..narrow.clone()
        };
        let wide = Impairment {
            rate: None,
            ..narrower.clone()
        };
        let want = ImpairmentSchedule::from(narrow)
            .then(Duration::from_secs(10), narrower)
            .then(Duration::from_secs(20), wide);
        assert_eq!(perfect(script), Ok(want));
    }

    #[test]
    fn unnamed_values_keep_their_defaults() {
        let slow = Impairment {
            delay: Duration::from_millis(5),
            ..Impairment::default()
        };
        let schedule = parse(&slow, "3s loss=2%").unwrap();
        assert_eq!(schedule.steps()[0], (Duration::ZERO, slow.clone()));
        let later = schedule.last();
        assert_eq!((later.delay, later.loss), (slow.delay, 0.02));
        assert_eq!(parse(&slow, " ;\n# nothing\n"), Ok(slow.into()));
    }

    #[test]
    fn invalid_words_are_named() {
        for (script, step, word) in [
            ("rate=5Q", 1, "rate=5Q"),
            ("0s rate=5M; speed=7", 2, "speed=7"),
            ("0s; 1s wobble=3", 2, "wobble=3"),
            ("1s loss=2; 2s", 1, "loss=2"),
            ("2s loss=1%; 2s loss=2%", 2, "2s loss=2%"),
            ("5 loss=1%", 1, "5"),
            ("1s loss", 1, "loss"),
            ("0s burst-loss=1%", 1, "burst-loss=1%"),
            ("0s rate=0", 1, "rate=0"),
            ("0s queue=9999M", 1, "queue=9999M"),
        ] {
            let error = perfect(script).unwrap_err();
            assert_eq!((error.step, error.word.as_str()), (step, word), "{error}");
        }
        let many: String = (0..=MAX_STEPS).map(|s| format!("{s}s;")).collect();
        assert_eq!(perfect(&many).unwrap_err().step, MAX_STEPS + 1);
    }

    prop_compose! {
        fn any_impairment()(
            times in [0..10_000_000_000_u64, 0..10_000_000_000, 0..10_000_000_000],
            shares in [0.0..=1.0, 0.0..=1.0, 0.0..=1.0],
            burst in proptest::option::of((0.0..=1.0, 0.001..=1.0, 0.0..=1.0)),
            rate in proptest::option::of(1..1_000_000_000_000_u64),
            queue in prop_oneof![
                (0..1_000_000_000_usize).prop_map(Queue::Bytes),
                (0..86_400_000_000_000_u64).prop_map(|ns| Queue::Time(Duration::from_nanos(ns))),
            ],
        ) -> Impairment {
            let [delay, jitter, reorder_by] = times.map(Duration::from_nanos);
            let [loss, reorder, duplicate] = shares;
            Impairment {
                delay, jitter, loss, reorder, reorder_by, duplicate, queue,
                burst: burst.map(|(enter, leave, loss)| BurstLoss { enter, leave, loss }),
                rate: rate.map(Bitrate),
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn any_course_is_read_back_from_its_text(
            first in any_impairment(),
            more in proptest::collection::vec((1..86_000_000_000_000_u64, any_impairment()), 0..5),
        ) {
            let mut more = more;
            more.sort_by_key(|(at, _)| *at);
            more.dedup_by_key(|(at, _)| *at);
            let schedule = more.into_iter().fold(ImpairmentSchedule::from(first), |schedule, (at, next)| {
                schedule.then(Duration::from_nanos(at), next)
            });
            let text = schedule.to_string();
            prop_assert_eq!(perfect(&text), Ok(schedule), "{}", text);
        }

        #[test]
        fn any_text_is_parsed_in_order_or_refused(
            text in "([0-9.]{0,4}(s|ms|us|k|M|%|)|[;#\n =,]|rate|loss|queue|none|burst-loss|é){0,30}"
        ) {
            if let Ok(schedule) = perfect(&text) {
                let times: Vec<Duration> = schedule.steps().iter().map(|(at, _)| *at).collect();
                prop_assert!(times.is_sorted() && times[0] == Duration::ZERO);
            }
        }
    }
}
