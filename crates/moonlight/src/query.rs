//! The query of a request: names and values. If a name occurs more than once, the last value counts.

/// Maximum parameters of a request. Clients send about twenty.
const MAX_PARAMETERS: usize = 64;

/// The parsed query. Values are not unescaped, because clients escape only values that they show to users.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Query<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Query<'a> {
    /// Parses the text after the question mark.
    #[must_use]
    pub fn parse(text: &'a str) -> Query<'a> {
        let pairs = text.split('&').filter(|pair| !pair.is_empty());
        let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        Query(pairs.take(MAX_PARAMETERS).collect())
    }

    /// The value of `name`.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&'a str> {
        let mut pairs = self.0.iter().rev();
        pairs
            .find(|(known, _)| *known == name)
            .map(|(_, value)| *value)
    }

    /// The value of `name` as a number.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<u32> {
        self.text(name)?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_name() {
        let query = Query::parse("a=1&b&c==x&a=2&&");
        assert_eq!(query.number("a"), Some(2));
        assert_eq!(query.text("b"), Some(""));
        assert_eq!(query.text("c"), Some("=x"));
        assert_eq!(query.text("d"), None);
        let many = "x=1&".repeat(1000) + "y=2";
        assert_eq!(Query::parse(&many).text("y"), None);
    }
}
