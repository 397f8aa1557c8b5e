//! `--duration TIME`: durations in seconds.

use openuvr_sim::script;

/// Parses a duration such as `5s` or `1.5m`.
///
/// # Errors
/// As for [`script::time`].
pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    script::time(text).map(|time| time.as_secs_f64())
}

/// Parses a duration such as `5s` or `2m`, without fractions of a second.
///
/// # Errors
/// As for [`script::time`]. Also returns an error if the duration has a fraction of a second.
pub(crate) fn whole_seconds(text: &str) -> Result<u32, String> {
    let time = script::time(text)?;
    let seconds = u32::try_from(time.as_secs()).ok();
    let whole = seconds.filter(|_| time.subsec_nanos() == 0);
    whole.ok_or_else(|| "expected whole seconds, such as 5s".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_read_in_seconds() {
        assert_eq!(seconds("1500ms"), Ok(1.5));
        assert_eq!(whole_seconds("2m"), Ok(120));
        assert_eq!(
            whole_seconds("1.5s"),
            Err("expected whole seconds, such as 5s".into())
        );
        assert!(seconds("5").is_err(), "without a unit");
    }
}
