//! Functions that serialise and deserialise single fields of messages between processes, and the error for a field whose
//! value is invalid.
//!
//! A type with an invariant is instead converted from a plain form by `#[serde(try_from = …)]`, next to the type's
//! definition.

use serde::{Deserialize as _, Deserializer};

/// The error for a field whose value is invalid for its type.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("invalid {0}")]
pub struct Invalid(pub &'static str);

/// Serialises a duration in whole nanoseconds. It saturates at 584 years, so sums do not overflow.
pub(crate) mod span {
    use std::time::Duration;

    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    /// For `#[serde(with)]`.
    pub(crate) fn serialize<S: Serializer>(
        span: &Duration,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        super::nanos(*span).serialize(serializer)
    }

    /// For `#[serde(with)]`.
    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Duration, D::Error> {
        u64::deserialize(deserializer).map(Duration::from_nanos)
    }
}

/// The same for an optional duration.
pub(crate) mod optional_span {
    use std::time::Duration;

    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    /// For `#[serde(with)]`.
    pub(crate) fn serialize<S: Serializer>(
        span: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        span.map(super::nanos).serialize(serializer)
    }

    /// For `#[serde(with)]`.
    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<u64>::deserialize(deserializer)?.map(Duration::from_nanos))
    }
}

/// Serialises a value as text. The derived form of a socket address would lose its scope.
pub mod as_text {
    use std::fmt::Display;
    use std::str::FromStr;

    use serde::{Deserialize as _, Deserializer, Serializer};

    /// For `#[serde(with)]`.
    ///
    /// # Errors
    /// Returns the serialiser's errors.
    pub fn serialize<T: Display, S: Serializer>(
        value: &T,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_str(value)
    }

    /// For `#[serde(with)]`.
    ///
    /// # Errors
    /// Returns an error if the text is invalid.
    pub fn deserialize<'de, T: FromStr<Err: Display>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<T, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

pub(crate) fn nanos(span: std::time::Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// A fraction of 0 to 1.
pub(crate) fn fraction<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    let value = f64::deserialize(deserializer)?;
    match (0.0..=1.0).contains(&value) {
        true => Ok(value),
        false => Err(serde::de::Error::custom(Invalid("fraction"))),
    }
}
