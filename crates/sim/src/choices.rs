//! The names of a table of choices, for errors.

/// The names as a phrase, such as `a, b or c`.
pub(crate) fn choices<T>(all: &[(&str, T)]) -> String {
    let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
    match names.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => names.concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_names_form_one_phrase() {
        let all = [("a", 1), ("b", 2), ("c", 3)];
        let phrases = [0, 1, 2, 3].map(|count| choices(&all[..count]));
        assert_eq!(phrases, ["", "a", "a or b", "a, b or c"]);
    }
}
