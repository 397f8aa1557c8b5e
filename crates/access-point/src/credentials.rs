//! The data that a client needs to join: name, key and security, as the text of a QR code.
//!
//! ```text
//! WIFI:T:SAE;S:OpenUVR-desk;P:23456-789ab-cdefg-hijkm;;
//! ```
//! Phones can read this text, too. `\`, `;`, `,`, `"` and `:` are preceded by a `\`. Fields may have any order, and
//! unknown ones are skipped.
//!
//! Spec: Wi-Fi Alliance, WPA3 Specification 3.1, section 7 ("URI"); ZXing, "Barcode Contents" for `WPA`.

use std::fmt;
use std::str::FromStr;

use crate::passphrase::Passphrase;
use crate::ssid::Ssid;

/// The protection of a network.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Security {
    /// WPA2 and WPA3 with the same key. A client uses WPA3 if it supports it.
    Mixed,
    /// Only WPA3 (SAE).
    Wpa3,
}

/// The data that a client needs to join.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Credentials {
    /// The network's name.
    pub ssid: Ssid,
    /// The network's key.
    pub key: Passphrase,
    /// The network's protection.
    pub security: Security,
}

/// Why a text is not a QR code of a network that can be joined. The message repeats nothing from the text.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CredentialsError {
    /// The text has another form.
    #[error("it does not begin with WIFI: and end with ;;")]
    Form,
    /// The network is open, uses WEP or WPA-Enterprise (user accounts), or states no security.
    #[error("its security is neither WPA nor SAE")]
    Security,
    /// There is no name, or the name is too long.
    #[error("its name does not have 1 to 32 bytes")]
    Ssid,
    /// There is no key, or the key is invalid.
    #[error("its key does not have 8 to 63 printable ASCII characters")]
    Key,
}

/// The characters that are escaped.
const ESCAPED: &str = "\\;,\":";

/// The text of the QR code.
impl fmt::Display for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.security {
            Security::Mixed => "WPA",
            Security::Wpa3 => "SAE",
        };
        let name = String::from_utf8_lossy(self.ssid.bytes());
        let (name, key) = (escaped(&name), escaped(self.key.text()));
        write!(f, "WIFI:T:{kind};S:{name};P:{key};;")
    }
}

impl FromStr for Credentials {
    type Err = CredentialsError;

    fn from_str(text: &str) -> Result<Credentials, CredentialsError> {
        let rest = text.trim().strip_prefix("WIFI:");
        let rest = rest.and_then(|rest| rest.strip_suffix(';'));
        let rest = rest.ok_or(CredentialsError::Form)?;
        let (mut kind, mut ssid, mut key) = (None, None, None);
        for field in fields(rest).ok_or(CredentialsError::Form)? {
            // The first of repeated fields applies, as in ZXing.
            match field.split_once(':') {
                Some(("T", value)) => _ = kind.get_or_insert(value.to_owned()),
                Some(("S", value)) => _ = ssid.get_or_insert(value.to_owned()),
                Some(("P", value)) => _ = key.get_or_insert(value.to_owned()),
                _ => {}
            }
        }
        let plain = |field: Option<String>| field.map(|field| unescaped(&field));
        let security = match plain(kind).as_deref() {
            Some("WPA") => Security::Mixed,
            Some("SAE") => Security::Wpa3,
            _ => return Err(CredentialsError::Security),
        };
        let ssid = plain(ssid).and_then(Ssid::new);
        let key = plain(key).and_then(|key| Passphrase::new(&key));
        Ok(Credentials {
            ssid: ssid.ok_or(CredentialsError::Ssid)?,
            key: key.ok_or(CredentialsError::Key)?,
            security,
        })
    }
}

/// The fields, each ended by a `;` and still escaped. `None` if the last one has no end.
fn fields(text: &str) -> Option<Vec<&str>> {
    let (mut fields, mut start, mut escape) = (Vec::new(), 0, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escape => escape = false,
            '\\' => escape = true,
            ';' => {
                fields.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    (start == text.len()).then_some(fields)
}

fn escaped(text: &str) -> String {
    let mut all = String::new();
    for c in text.chars() {
        if ESCAPED.contains(c) {
            all.push('\\');
        }
        all.push(c);
    }
    all
}

fn unescaped(text: &str) -> String {
    let (mut all, mut chars) = (String::new(), text.chars());
    while let Some(c) = chars.next() {
        match c {
            '\\' => all.extend(chars.next()),
            c => all.push(c),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn credentials(ssid: &str, key: &str, security: Security) -> Credentials {
        Credentials {
            ssid: Ssid::new(ssid).unwrap(),
            key: Passphrase::new(key).unwrap(),
            security,
        }
    }

    #[test]
    fn the_text_escapes_its_separators() {
        let desk = credentials("a;b:c,d\"e\\f", "k:;12345", Security::Wpa3);
        let text = desk.to_string();
        assert_eq!(
            text,
            "WIFI:T:SAE;S:a\\;b\\:c\\,d\\\"e\\\\f;P:k\\:\\;12345;;"
        );
        assert_eq!(text.parse(), Ok(desk));
    }

    #[test]
    fn fields_come_in_any_order_beside_unknown_ones() {
        let text = " WIFI:R:1;P:12345678;H:true;S:desk;K:abc=;T:WPA;;\n";
        let desk = credentials("desk", "12345678", Security::Mixed);
        assert_eq!(text.parse(), Ok(desk));
    }

    #[test]
    fn other_texts_are_refused_with_a_reason() {
        use CredentialsError::{Form, Key, Security, Ssid};
        let long = format!("WIFI:T:WPA;S:{};P:12345678;;", "x".repeat(33));
        for (text, why) in [
            ("", Form),
            ("https://example.org", Form),
            ("WIFI:T:WPA;S:a;P:12345678", Form),
            ("WIFI:T:WPA;S:a;P:12345678;", Form),
            ("WIFI:T:WPA;S:a;P:12345678\\;;", Form),
            ("WIFI:S:a;P:12345678;;", Security),
            ("WIFI:T:nopass;S:a;;", Security),
            ("WIFI:T:WEP;S:a;P:12345678;;", Security),
            ("WIFI:T:WPA;P:12345678;;", Ssid),
            (&long, Ssid),
            ("WIFI:T:SAE;S:a;;", Key),
            ("WIFI:T:SAE;S:a;P:1234567;;", Key),
        ] {
            assert_eq!(text.parse::<Credentials>(), Err(why), "{text}");
        }
    }

    proptest! {
        #[test]
        fn each_text_is_read_as_it_was_written(
            ssid in ".{1,8}",
            key in "[ -~]{8,63}",
            wpa3: bool,
        ) {
            let security = if wpa3 { Security::Wpa3 } else { Security::Mixed };
            let desk = credentials(&ssid, &key, security);
            prop_assert_eq!(desk.to_string().parse(), Ok(desk));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "(WIFI:)?([TSPH]:)?[;:\\\\a-zA-Z0-9]{0,80};?;?") {
            if let Ok(read) = text.parse::<Credentials>() {
                prop_assert_eq!(read.to_string().parse(), Ok(read));
            }
        }
    }
}
