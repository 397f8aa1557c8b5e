//! Valve's KeyValues text: each key has a string as its value, or more keys in braces. The caller limits the length of
//! the text.

/// Maximum nesting. Steam's files have five levels.
const DEEPEST: usize = 16;

/// A string with the keys above it, the outermost first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Pair {
    pub(super) keys: Vec<String>,
    pub(super) value: String,
}

/// All strings of a text, in order; `None` if the text is malformed.
pub(super) fn parse(text: &str) -> Option<Vec<Pair>> {
    let mut tokens = Tokens(text);
    let (mut keys, mut pairs) = (Vec::new(), Vec::new());
    let mut key = None;
    while let Some(token) = tokens.next()? {
        match (token, key.take()) {
            (Token::Text(text), None) => key = Some(text),
            (Token::Text(value), Some(key)) => {
                let keys = keys.iter().cloned().chain([key]).collect();
                pairs.push(Pair { keys, value });
            }
            (Token::Open, Some(key)) if keys.len() < DEEPEST => keys.push(key),
            (Token::Close, None) => drop(keys.pop()?),
            _ => return None,
        }
    }
    (keys.is_empty() && key.is_none()).then_some(pairs)
}

enum Token {
    Text(String),
    Open,
    Close,
}

/// The rest of a text.
struct Tokens<'a>(&'a str);

impl Tokens<'_> {
    /// The next token. The inner `Option` is `None` at the end; the outer one is `None` if a quotation mark is not closed.
    fn next(&mut self) -> Option<Option<Token>> {
        loop {
            self.0 = self.0.trim_start();
            let Some(rest) = self.0.strip_prefix("//") else {
                break;
            };
            self.0 = rest.split_once('\n').map_or("", |(_, rest)| rest);
        }
        let Some(first) = self.0.chars().next() else {
            return Some(None);
        };
        let rest = &self.0[first.len_utf8()..];
        let token = match first {
            '{' => (Token::Open, rest),
            '}' => (Token::Close, rest),
            '"' => {
                let (text, rest) = quoted(rest)?;
                (Token::Text(text), rest)
            }
            _ => {
                let ends = |c: char| c.is_whitespace() || "{}\"".contains(c);
                let end = self.0.find(ends).unwrap_or(self.0.len());
                let (text, rest) = self.0.split_at(end);
                (Token::Text(text.to_owned()), rest)
            }
        };
        self.0 = token.1;
        Some(Some(token.0))
    }
}

/// The text up to the next quotation mark, and the rest after it.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut inside = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((inside, &text[at + 1..])),
            '\\' => inside.push(match characters.next()?.1 {
                'n' => '\n',
                't' => '\t',
                other => other,
            }),
            other => inside.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_found_with_their_keys() {
        let text = "// a comment\n\"a\" { \"b\" \"1 \\\"2\\\" \\\\\" c { \"d\" x } }\n\"e\"\t\"\"";
        let pairs = parse(text).unwrap();
        let flat: Vec<(String, &str)> = (pairs.iter())
            .map(|pair| (pair.keys.join("/"), pair.value.as_str()))
            .collect();
        let expected = [("a/b", "1 \"2\" \\"), ("a/c/d", "x"), ("e", "")];
        assert_eq!(flat, expected.map(|(keys, value)| (keys.to_owned(), value)));
        assert_eq!(parse(""), Some(Vec::new()));
    }

    #[test]
    fn damaged_texts_are_refused() {
        let deep = "a {".repeat(DEEPEST + 1) + &"}".repeat(DEEPEST + 1);
        for text in ["\"a", "a {", "}", "a", "{ }", "a { b }", "\"a\\", &deep] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
