//! Answers: a picture, or an XML document with the root `root`, whose attributes state success or failure.

use std::fmt::Write as _;

/// An answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Response {
    /// A document.
    Document {
        /// The attribute `status_code`: 200, or a status like HTTP's.
        status: u16,
        /// The attribute `status_message`.
        message: String,
        /// The elements of the root.
        body: String,
    },
    /// A picture, as PNG.
    Picture(Vec<u8>),
}

impl Response {
    /// Success, without elements yet.
    #[must_use]
    pub fn ok() -> Response {
        Response::refused(200, "OK")
    }

    /// A status with a message.
    #[must_use]
    pub fn refused(status: u16, message: impl ToString) -> Response {
        Response::Document {
            status,
            message: message.to_string(),
            body: String::new(),
        }
    }

    /// Adds an element with text.
    #[must_use]
    pub fn with(mut self, name: &str, text: impl ToString) -> Response {
        if let Response::Document { body, .. } = &mut self {
            // Writing to a string cannot fail.
            let _ = write!(body, "<{name}>{}</{name}>", escaped(&text.to_string()));
        }
        self
    }

    /// Adds elements that are already XML.
    #[must_use]
    pub fn with_elements(mut self, elements: &str) -> Response {
        if let Response::Document { body, .. } = &mut self {
            body.push_str(elements);
        }
        self
    }

    /// The answer's bytes, with an HTTP header. The status in the HTTP header is always 200, because clients read the
    /// status of the document.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let (kind, content) = match self {
            Response::Document {
                status,
                message,
                body,
            } => {
                let message = escaped(message);
                let document = format!(
                    "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n\
                     <root status_code=\"{status}\" status_message=\"{message}\">{body}</root>"
                );
                ("application/xml", document.into_bytes())
            }
            Response::Picture(bytes) => ("image/png", bytes.clone()),
        };
        let length = content.len();
        let mut bytes = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
        )
        .into_bytes();
        bytes.extend(content);
        bytes
    }
}

/// Escapes text for an XML document. Control characters and the characters U+FFFE and U+FFFF are omitted.
pub(super) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\u{fffe}' | '\u{ffff}' => {}
            other if other.is_control() => {}
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_escaped() {
        let response = Response::refused(400, "a \"b\"").with("App", "<&>\u{0}\n");
        let text = String::from_utf8(response.bytes()).unwrap();
        let root = "<root status_code=\"400\" status_message=\"a &quot;b&quot;\"><App>&lt;&amp;&gt;</App></root>";
        assert!(text.ends_with(root), "{text}");
    }

    #[test]
    fn the_length_is_that_of_the_content() {
        let text = String::from_utf8(Response::ok().with("name", "é").bytes()).unwrap();
        let (header, content) = text.split_once("\r\n\r\n").unwrap();
        let length = format!("Content-Length: {}\r\n", content.len());
        assert!(header.contains(&length), "{header}");
    }
}
