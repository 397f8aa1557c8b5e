//! Session data in a job's comment: four parts separated by dots. Parts with arbitrary text are in base64 (RFC 4648,
//! section 5), so that no character has a special meaning to a shell or to Slurm.

use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64;
use serde::{Deserialize, Serialize};

use crate::launch::LaunchSpec;

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Comment {
    /// Owner and application.
    pub(crate) about: SessionLabels,
    /// The endpoint line of the session's program.
    pub(super) said: Option<String>,
    /// The reason for the session's end, if the portal or the job's script has stored one.
    pub(super) why: Option<String>,
    /// Whether the session must be forgotten when it has ended.
    pub(super) forgotten: bool,
}

/// Owner and application of a session.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct SessionLabels {
    pub(super) user: String,
    pub(super) application: String,
}

/// The last part of a forgotten session's comment.
const FORGOTTEN: &str = "forgotten";

impl Comment {
    /// The comment of a new job.
    pub(super) fn of(spec: &LaunchSpec) -> Comment {
        Comment {
            about: SessionLabels {
                user: spec.user.clone(),
                application: spec.application.clone(),
            },
            ..Comment::default()
        }
    }

    /// Parses a comment. Invalid parts are ignored.
    pub(crate) fn read(text: &str) -> Comment {
        let mut parts = text.split('.');
        let mut part = || parts.next().filter(|of| !of.is_empty());
        let decode = |part: &str| {
            // The base64 command in the job's script uses the standard alphabet.
            let part = part.replace('+', "-").replace('/', "_");
            let bytes = BASE64.decode(part.trim_end_matches('=')).ok()?;
            // A part that decodes to an empty text counts as missing.
            String::from_utf8(bytes).ok().filter(|of| !of.is_empty())
        };
        let about = part().and_then(decode);
        Comment {
            about: about
                .and_then(|text| serde_json::from_str(&text).ok())
                .unwrap_or_default(),
            said: part().and_then(decode),
            why: part().and_then(decode),
            forgotten: part() == Some(FORGOTTEN),
        }
    }
}

impl fmt::Display for Comment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let about = serde_json::to_string(&self.about).map_err(|_| fmt::Error)?;
        let encode = |text: Option<&String>| text.map(|of| BASE64.encode(of)).unwrap_or_default();
        let (said, why) = (encode(self.said.as_ref()), encode(self.why.as_ref()));
        let last = if self.forgotten { FORGOTTEN } else { "" };
        write!(f, "{}.{said}.{why}.{last}", BASE64.encode(about))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comment_is_read_as_it_was_written() {
        let about = SessionLabels {
            user: "ada | $(rm) 'x'".to_owned(),
            application: "Überraschung.".to_owned(),
        };
        let all = [
            Comment {
                about: about.clone(),
                ..Comment::default()
            },
            Comment {
                about,
                said: Some("{\"web\":\"https://a:1\"}".to_owned()),
                why: Some("it said nonsense".to_owned()),
                forgotten: true,
            },
        ];
        for comment in all {
            let text = comment.to_string();
            assert!(
                text.bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
            );
            assert_eq!(Comment::read(&text), comment);
        }
        for wrong in ["", "(null)", "....", "a.=.=.d.e", "a.b.c.d.e", "é"] {
            assert_eq!(Comment::read(wrong).said, None, "{wrong}");
        }
    }
}
