//! The words for a client's ends: where its pictures go, where its input comes from, and whose head looks.

use openuvr_media::head;

use super::kind::{Choice, Form, Kind};

/// Where pictures go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PresentKind {
    /// A window on an X display.
    X11,
    /// A headset.
    Xr,
    /// PNG files.
    Headless,
    /// Nowhere.
    Null,
}

impl Choice for PresentKind {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("x11", PresentKind::X11),
        ("xr", PresentKind::Xr),
        ("headless", PresentKind::Headless),
        ("null", PresentKind::Null),
    ];
}

/// Where input comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum InputKind {
    /// The window.
    X11,
    /// A file.
    Script,
    /// These devices.
    Evdev(String),
    /// Nowhere.
    None,
}

/// Whose head it is, as `openuvr_media::head::open` takes it; `None`: nobody's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct HeadFrom(pub(crate) Option<String>);

pub(super) fn head() -> Kind<HeadFrom> {
    const WORDS: &str = "none, mouse, script:FILE, opentrack[:ADDRESS:PORT]";
    Kind {
        placeholder: "WORD",
        range: WORDS.to_owned(),
        allowed: format!("one of {WORDS}"),
        form: Form::Text,
        parse: Box::new(|text| match (text, head::find(text)) {
            ("none", _) => Some(HeadFrom(None)),
            // A script needs its file, a mouse nothing.
            (_, Ok((backend, argument))) => match (backend.name, argument) {
                ("script", "") => None,
                ("mouse", argument) if !argument.is_empty() => None,
                _ => Some(HeadFrom(Some(text.to_owned()))),
            },
            (_, Err(_)) => None,
        }),
        absent: None,
    }
}

pub(super) fn input() -> Kind<InputKind> {
    Kind {
        placeholder: "WORD",
        range: "x11, none, script, evdev:DEVICES".to_owned(),
        allowed: "one of x11, none, script, evdev:DEVICES".to_owned(),
        form: Form::Text,
        parse: Box::new(|text| match text {
            "x11" => Some(InputKind::X11),
            "none" => Some(InputKind::None),
            "script" => Some(InputKind::Script),
            _ => {
                let devices = text.strip_prefix("evdev:")?;
                (!devices.is_empty()).then(|| InputKind::Evdev(devices.to_owned()))
            }
        }),
        absent: None,
    }
}
