//! The parameters of `launch` and `resume`.

use super::key::SessionKey;
use super::mode::Mode;
use crate::hex::from_hex;
use crate::query::Query;

/// What a client requested.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Launch {
    /// The application's number; `None` with `resume`.
    pub application: Option<u32>,
    /// The requested mode; `None` for the `resume` of a client that keeps the earlier mode.
    pub mode: Option<Mode>,
    /// The key of all streams.
    pub key: SessionKey,
    /// The number of the key. The initialization vectors of encrypted sound begin with the sum of this number and the
    /// sequence number.
    pub key_id: u32,
    /// Whether the client can seal RTSP (parameter `corever`, from 1 on).
    pub seals_rtsp: bool,
}

/// A parameter is missing or invalid.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the parameter {0} is missing or invalid")]
pub struct InvalidLaunch(pub &'static str);

impl Launch {
    /// Parses the parameters of `launch`.
    ///
    /// # Errors
    /// [`InvalidLaunch`] if a parameter is missing or invalid.
    pub fn from_launch(query: &Query<'_>) -> Result<Launch, InvalidLaunch> {
        let application = query.number("appid").ok_or(InvalidLaunch("appid"))?;
        let launch = Launch {
            application: Some(application),
            ..Launch::from_resume(query)?
        };
        match launch.mode {
            Some(_) => Ok(launch),
            None => Err(InvalidLaunch("mode")),
        }
    }

    /// Parses the parameters of `resume`.
    ///
    /// # Errors
    /// [`InvalidLaunch`] if a parameter is missing or invalid.
    pub fn from_resume(query: &Query<'_>) -> Result<Launch, InvalidLaunch> {
        let mode = match query.text("mode") {
            Some(text) => Some(text.parse().map_err(|_| InvalidLaunch("mode"))?),
            None => None,
        };
        let key = query.text("rikey").and_then(from_hex);
        let key: Option<[u8; 16]> = key.and_then(|bytes| bytes.try_into().ok());
        // Clients send the number of the key as a signed number.
        let key_id: Option<i64> = query.text("rikeyid").and_then(|text| text.parse().ok());
        let range = i64::from(i32::MIN)..=i64::from(u32::MAX);
        let key_id = key_id.filter(|id| range.contains(id));
        let [_, _, _, _, low @ ..] = key_id.ok_or(InvalidLaunch("rikeyid"))?.to_be_bytes();
        Ok(Launch {
            application: None,
            mode,
            key: key.ok_or(InvalidLaunch("rikey"))?.into(),
            key_id: u32::from_be_bytes(low),
            seals_rtsp: query.number("corever").is_some_and(|version| version >= 1),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "rikey=000102030405060708090a0b0c0d0e0f";

    fn launch(text: &str) -> Result<Launch, InvalidLaunch> {
        Launch::from_launch(&Query::parse(text))
    }

    #[test]
    fn a_launch_is_parsed() {
        let text = format!("appid=7&mode=1280x720x60&{KEY}&rikeyid=-2&corever=1");
        let parsed = launch(&text).unwrap();
        assert_eq!(parsed.application, Some(7));
        assert_eq!(parsed.key.bytes()[15], 15);
        assert_eq!(parsed.key_id, 0xffff_fffe);
        assert!(parsed.seals_rtsp);
        let resumed = Launch::from_resume(&Query::parse(&text)).unwrap();
        assert_eq!((resumed.application, resumed.mode), (None, parsed.mode));
        let without = text.replace("mode", "other");
        let resumed = Launch::from_resume(&Query::parse(&without)).unwrap();
        assert_eq!(resumed.mode, None);
        let absurd = text.replace("1280x720x60", "0x0x0");
        assert_eq!(
            Launch::from_resume(&Query::parse(&absurd)),
            Err(InvalidLaunch("mode"))
        );
    }

    #[test]
    fn missing_and_absurd_parameters_are_refused() {
        let all = [
            ("appid", "appid=7"),
            ("mode", "mode=1280x720x60"),
            ("rikey", KEY),
            ("rikeyid", "rikeyid=1"),
        ];
        for (missing, _) in all {
            let others = all.iter().filter(|(name, _)| *name != missing);
            let text: Vec<&str> = others.map(|(_, text)| *text).collect();
            assert_eq!(launch(&text.join("&")), Err(InvalidLaunch(missing)));
        }
        let with = |other: &str| format!("appid=7&mode=1280x720x60&{KEY}&rikeyid=1&{other}");
        for bad in ["mode=0x0x0", "rikey=00", "rikeyid=4294967296", "appid=-1"] {
            assert!(launch(&with(bad)).is_err(), "{bad}");
        }
    }
}
