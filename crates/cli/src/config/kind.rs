//! Value types of settings: the accepted texts and the parsed values.
//!
//! A kind defines its range once, for messages, the help and the printed configuration.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use openuvr_gateway_settings::{IceServer, ProxyNetwork, PublicAddress, WebOrigin, is_rtsp_token};
use openuvr_media::encode::{self, EncoderOptions, automatic};
use openuvr_net::address::parse_address;
use openuvr_proto::control::pairing::Pin;
use openuvr_proto::control::ticket::{SessionUuid, TicketKey};
use openuvr_proto::control::transport_probe::TransportKind;
use openuvr_proto::host::SecondPlayer;
use openuvr_proto::input::keys::Keys;
use openuvr_proto::units::{Bitrate, Size};
pub(crate) use openuvr_report::TableMode;
use openuvr_runtime::client::Target;
use openuvr_runtime::host::EncoderName;
use openuvr_runtime::sound_choice::SoundChoice;

/// The value type of a setting.
pub(crate) struct Kind<T> {
    /// The placeholder in the help, such as `NUMBER`.
    pub(super) placeholder: &'static str,
    /// The short form of the range, for the help: `1–240 frames/s`.
    pub(super) range: String,
    /// Completes "must be …".
    pub(super) allowed: String,
    pub(super) form: Form,
    pub(super) parse: Parse<T>,
    /// The value of an absent setting; `None` if the setting is required.
    pub(super) absent: Option<fn() -> T>,
}

/// Parses a value; `None` if the text is not allowed.
type Parse<T> = Box<dyn Fn(&str) -> Option<T>>;

/// The representation of a value in TOML.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Form {
    /// `true` or `false`. A flag without a value means `true`.
    Flag,
    /// A number without quotes.
    Number,
    /// A string.
    Text,
    /// A number without quotes, or a string.
    NumberOrText,
    /// A string that contains the path of a file with a list of tables. The settings file may contain the list itself
    /// instead.
    TextOrTables,
    /// A table of names and values. The flag is given once per entry, as `NAME=VALUE`.
    Table,
    /// A string. A flag without a value means this string.
    TextOr(&'static str),
}

/// A value that may be absent.
pub(super) fn optional<T: 'static>(kind: Kind<T>) -> Kind<Option<T>> {
    let parse = kind.parse;
    Kind {
        placeholder: kind.placeholder,
        range: kind.range,
        allowed: kind.allowed,
        form: kind.form,
        parse: Box::new(move |text| parse(text).map(Some)),
        absent: Some(|| None),
    }
}

/// A Boolean value.
pub(super) fn flag() -> Kind<bool> {
    Kind {
        placeholder: "true|false",
        range: String::new(),
        allowed: "true or false".to_owned(),
        form: Form::Flag,
        parse: Box::new(|text| text.parse().ok()),
        absent: None,
    }
}

/// A whole number with a unit, which may be empty.
pub(super) fn count<T>(range: RangeInclusive<T>, unit: &'static str) -> Kind<T>
where
    T: FromStr + PartialOrd + Display + 'static,
{
    numeric("a whole number", range, unit)
}

/// A number with a unit, fractions allowed.
pub(super) fn number(range: RangeInclusive<f64>, unit: &'static str) -> Kind<f64> {
    numeric("a number", range, unit)
}

fn numeric<T>(noun: &str, range: RangeInclusive<T>, unit: &'static str) -> Kind<T>
where
    T: FromStr + PartialOrd + Display + 'static,
{
    let (low, high) = (range.start(), range.end());
    let (space, of) = if unit.is_empty() {
        ("", "")
    } else {
        (" ", " of ")
    };
    Kind {
        placeholder: "NUMBER",
        range: format!("{low}–{high}{space}{unit}"),
        allowed: format!("{noun}{of}{unit} from {low} to {high}"),
        form: Form::Number,
        parse: Box::new(move |text| text.parse().ok().filter(|n| range.contains(n))),
        absent: None,
    }
}

/// An enumerated value.
pub(super) trait Choice: Copy + 'static {
    /// Each accepted text with its value.
    const VALUES: &'static [(&'static str, Self)];
}

/// One of the values of `T`.
pub(super) fn choice<T: Choice>() -> Kind<T> {
    let words: Vec<&str> = T::VALUES.iter().map(|(word, _)| *word).collect();
    Kind {
        placeholder: "WORD",
        range: words.join(", "),
        allowed: format!("one of {}", words.join(", ")),
        // If a word is a number, TOML may contain it without quotes.
        form: match words.iter().any(|word| word.parse::<u32>().is_ok()) {
            true => Form::NumberOrText,
            false => Form::Text,
        },
        parse: Box::new(|text| {
            let found = T::VALUES.iter().find(|(word, _)| *word == text);
            found.map(|(_, meaning)| *meaning)
        }),
        absent: None,
    }
}

/// A comma-separated list of encoders. For `auto`, parsing tries the hardware of this machine. A name that is not in
/// [`encode::BACKENDS`] is looked up in libavcodec.
pub(super) fn encoders() -> Kind<Vec<EncoderName>> {
    let names: Vec<&str> = encode::BACKENDS
        .iter()
        .map(|backend| backend.name)
        .collect();
    let names = names.join(", ");
    Kind {
        placeholder: "WORD,…",
        range: format!("{}, {names}, …", automatic::NAME),
        allowed: format!(
            "{}, one of {names}, another H.264 or HEVC encoder of libavcodec, or several separated by commas",
            automatic::NAME
        ),
        form: Form::Text,
        parse: Box::new(|text| {
            let names = text.split(',').map(str::to_owned);
            names.map(|name| EncoderName::try_from(name).ok()).collect()
        }),
        absent: None,
    }
}

/// Options of an encoder's library, one `NAME=VALUE` per line.
pub(super) fn encoder_options() -> Kind<EncoderOptions> {
    Kind {
        placeholder: "NAME=VALUE",
        range: String::new(),
        allowed: "NAME=VALUE with a name of letters, digits, - and _ (in a file: a table such as { preset = \"fast\" })"
            .to_owned(),
        form: Form::Table,
        parse: Box::new(|text| text.parse().ok()),
        absent: Some(EncoderOptions::default),
    }
}

/// A comma-separated list of STUN and TURN servers.
pub(super) fn ice_servers() -> Kind<Vec<IceServer>> {
    Kind {
        placeholder: "SERVER,…",
        range: String::new(),
        allowed: "stun:HOST[:PORT] or turn:USER:SECRET@HOST[:PORT], or several separated by commas"
            .to_owned(),
        form: Form::Text,
        parse: Box::new(|text| text.split(',').map(|one| one.parse().ok()).collect()),
        absent: Some(Vec::new),
    }
}

/// A comma-separated list of public addresses of this host.
pub(super) fn public_addresses() -> Kind<Vec<PublicAddress>> {
    Kind {
        placeholder: "IP[:PORT],…",
        range: String::new(),
        allowed: "an address such as 203.0.113.7, 203.0.113.7:4711, 2001:db8::7 or [2001:db8::7]:4711, or several \
                  separated by commas"
            .to_owned(),
        form: Form::Text,
        parse: Box::new(|text| text.split(',').map(|one| one.parse().ok()).collect()),
        absent: Some(Vec::new),
    }
}

pub(super) fn web_origins() -> Kind<Vec<WebOrigin>> {
    Kind {
        placeholder: "https://NAME,…",
        range: String::new(),
        allowed: "an origin such as https://play.example.org or https://play.example.org:8443, or several separated by \
                  commas"
            .to_owned(),
        form: Form::Text,
        parse: Box::new(|text| text.split(',').map(|one| one.parse().ok()).collect()),
        absent: Some(Vec::new),
    }
}

pub(super) fn web_proxies() -> Kind<Vec<ProxyNetwork>> {
    Kind {
        placeholder: "IP[/BITS],…",
        range: String::new(),
        allowed: "an address or a network such as 127.0.0.1, 10.0.0.0/8 or 2001:db8::/64, or several separated by commas"
            .to_owned(),
        form: Form::Text,
        parse: Box::new(|text| text.split(',').map(|one| one.parse().ok()).collect()),
        absent: Some(Vec::new),
    }
}

/// The secret part of the URL for video players.
pub(super) fn rtsp_token() -> Kind<String> {
    Kind {
        placeholder: "TOKEN",
        range: String::new(),
        allowed: "8 to 64 letters, digits, - and _".to_owned(),
        form: Form::Text,
        parse: Box::new(|text| is_rtsp_token(text).then(|| text.to_owned())),
        absent: None,
    }
}

impl Choice for SecondPlayer {
    const VALUES: &'static [(&'static str, Self)] = &[
        ("refuse", SecondPlayer::Refuse),
        ("observe", SecondPlayer::Observe),
        ("take-over", SecondPlayer::TakeOver),
    ];
}

impl Choice for Keys {
    const VALUES: &'static [(&'static str, Self)] = &[
        (Keys::Symbol.name(), Keys::Symbol),
        (Keys::Position.name(), Keys::Position),
    ];
}

impl Choice for tracing::Level {
    const VALUES: &'static [(&'static str, Self)] = &[
        ("error", tracing::Level::ERROR),
        ("warn", tracing::Level::WARN),
        ("info", tracing::Level::INFO),
        ("debug", tracing::Level::DEBUG),
        ("trace", tracing::Level::TRACE),
    ];
}

/// Real-time scheduling of threads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Realtime {
    /// Real-time, if permitted.
    Auto,
    /// Never real-time.
    Off,
}

impl Choice for Realtime {
    const VALUES: &'static [(&'static str, Self)] =
        &[("auto", Realtime::Auto), ("off", Realtime::Off)];
}

impl Choice for TableMode {
    const VALUES: &'static [(&'static str, Self)] = &[
        ("auto", TableMode::Auto),
        ("on", TableMode::On),
        ("off", TableMode::Off),
    ];
}

/// The maximum number of processors of a Linux kernel; a machine may have fewer.
const MAX_CORES: usize = 8192;

/// Processor cores, such as `2,3`, or `off` for any core.
pub(super) fn cores() -> Kind<BTreeSet<usize>> {
    Kind {
        placeholder: "CORES",
        range: "numbers such as 2,3, or off".to_owned(),
        allowed: "core numbers of /proc/cpuinfo separated by commas, such as 2,3, or off"
            .to_owned(),
        form: Form::Text,
        parse: Box::new(|text| {
            if text == "off" {
                return Some(BTreeSet::new());
            }
            let core = |word| {
                usize::try_from(parse_digits(word)?)
                    .ok()
                    .filter(|&n| n < MAX_CORES)
            };
            text.split(',').map(core).collect()
        }),
        absent: None,
    }
}

/// Bits per second, such as `800K`, `20M` or `1.5G`, or without a unit.
pub(super) fn bitrate(range: RangeInclusive<Bitrate>) -> Kind<Bitrate> {
    let (low, high) = (bits(*range.start()), bits(*range.end()));
    Kind {
        placeholder: "BITS",
        range: format!("{low}–{high} bit/s"),
        allowed: format!("bits per second from {low} to {high}, such as 20M"),
        form: Form::NumberOrText,
        parse: Box::new(move |text| {
            let rate = text.parse().ok()?;
            range.contains(&rate).then_some(rate)
        }),
        absent: None,
    }
}

fn bits(rate: Bitrate) -> String {
    match rate.0 {
        n if n >= 1_000_000_000 && n % 1_000_000_000 == 0 => format!("{}G", n / 1_000_000_000),
        n if n >= 1_000_000 && n % 1_000_000 == 0 => format!("{}M", n / 1_000_000),
        n if n >= 1_000 && n % 1_000 == 0 => format!("{}K", n / 1_000),
        n => n.to_string(),
    }
}

/// A time from 1 ms to 30 days, such as `500ms`, `90s`, `2m` or `1h`.
pub(super) fn time() -> Kind<Duration> {
    time_from("1ms", 0.001, "500ms, 90s")
}

/// A time from 1 s to 30 days, for a setting that is passed on in whole seconds.
pub(super) fn seconds() -> Kind<Duration> {
    time_from("1s", 1.0, "90s")
}

/// A time from `low` seconds (`lowest` in messages) to 30 days.
fn time_from(lowest: &str, low: f64, examples: &str) -> Kind<Duration> {
    const UNITS: &[(&str, f64)] = &[("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];
    Kind {
        placeholder: "TIME",
        range: format!("{lowest}–720h"),
        allowed: format!(
            "a time from {lowest} to 720h with its unit, such as {examples}, 2m or 1h"
        ),
        form: Form::Text,
        parse: Box::new(move |text| {
            let seconds = scaled(text, UNITS)?;
            (low..=720.0 * 3600.0)
                .contains(&seconds)
                .then(|| Duration::from_secs_f64(seconds))
        }),
        absent: None,
    }
}

/// Parses a number with a unit, such as `2.5M`.
fn scaled(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (number, unit) = text.split_at(digits.unwrap_or(text.len()));
    let (_, factor) = units.iter().find(|(name, _)| *name == unit)?;
    Some(number.parse::<f64>().ok()? * factor)
}

/// A picture's size, such as `1280x720`.
pub(super) fn size() -> Kind<Size> {
    Kind {
        placeholder: "WxH",
        range: "pixels".to_owned(),
        allowed: format!(
            "a size in pixels up to {0}x{0}, such as 1280x720",
            Size::MAX_SIDE
        ),
        form: Form::Text,
        parse: Box::new(|text| text.parse().ok()),
        absent: None,
    }
}

/// Parses digits only, because `FromStr` also accepts a sign.
fn parse_digits(text: &str) -> Option<u32> {
    let digits = text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.parse().ok())?
}

/// A region of a display, in pixels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Region {
    /// The left edge, 0 to 32 767 (X11 coordinates are signed 16-bit).
    pub(crate) x: i32,
    /// The top edge, in the same range.
    pub(crate) y: i32,
    /// Width and height.
    pub(crate) size: Size,
}

/// A region, such as `640x480+100+50`.
pub(super) fn region() -> Kind<Region> {
    Kind {
        placeholder: "WxH+X+Y",
        range: "pixels".to_owned(),
        allowed: "a size and a position in pixels, such as 640x480+100+50".to_owned(),
        form: Form::Text,
        parse: Box::new(|text| {
            let (size, place) = text.split_once('+')?;
            let (x, y) = place.split_once('+')?;
            let edge = |text| i16::try_from(parse_digits(text)?).ok().map(i32::from);
            Some(Region {
                x: edge(x)?,
                y: edge(y)?,
                size: size.parse().ok()?,
            })
        }),
        absent: None,
    }
}

/// The identification of a window.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum WindowName {
    /// Its X id, as `xwininfo` shows it.
    Id(u32),
    /// A part of its title or class.
    Text(String),
}

/// A window: a part of its title or class, or its id with the prefix `0x`.
pub(super) fn window() -> Kind<WindowName> {
    Kind {
        placeholder: "TITLE|0xID",
        range: String::new(),
        allowed: "a part of a window's title or class, or its id such as 0x1c00007".to_owned(),
        form: Form::Text,
        parse: Box::new(|text| match text.strip_prefix("0x") {
            Some(id) => u32::from_str_radix(id, 16).ok().map(WindowName::Id),
            None => (!text.trim().is_empty()).then(|| WindowName::Text(text.to_owned())),
        }),
        absent: None,
    }
}

/// An address of this machine and a port.
pub(super) fn address() -> Kind<SocketAddr> {
    Kind {
        placeholder: "ADDR:PORT",
        range: String::new(),
        allowed: "an address and a port, such as 192.168.1.5:4710, [::]:4710, or [fe80::1%eth0]:4710 with an \
                  interface of this machine"
            .to_owned(),
        form: Form::Text,
        parse: Box::new(|text| parse_address(text).ok()),
        absent: None,
    }
}

/// A socket address with a default: the flag without a value means `usual`.
pub(super) fn address_or(usual: &'static str) -> Kind<SocketAddr> {
    Kind {
        form: Form::TextOr(usual),
        ..address()
    }
}

/// A transport of `openuvr_net::LINKS`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LinkName(pub(crate) TransportKind);

impl Choice for LinkName {
    const VALUES: &'static [(&'static str, Self)] = &[
        (
            TransportKind::UdpGso.name(),
            LinkName(TransportKind::UdpGso),
        ),
        (TransportKind::Raw.name(), LinkName(TransportKind::Raw)),
        (TransportKind::Ring.name(), LinkName(TransportKind::Ring)),
        (TransportKind::Xdp.name(), LinkName(TransportKind::Xdp)),
        (TransportKind::Udp.name(), LinkName(TransportKind::Udp)),
    ];
}

/// A host: `desk`, `192.168.1.5:4711`, `[fe80::1%eth0]`, `2001:db8::1`, `eth0/52:54:00:12:34:56`.
pub(super) fn target() -> Kind<Target> {
    Kind {
        placeholder: "HOST[:PORT]",
        range: String::new(),
        allowed:
            "the name or address of a host, with its port if that isn't 4710, such as desk, 192.168.1.5:4710, \
             [::1]:4710, [fe80::1%eth0] (with this machine's interface) or eth0/52:54:00:12:34:56"
                .to_owned(),
        form: Form::Text,
        parse: Box::new(|text| text.parse().ok()),
        absent: None,
    }
}

/// A PIN.
pub(super) fn pin() -> Kind<Pin> {
    Kind {
        placeholder: "DIGITS",
        range: "4–12 digits".to_owned(),
        allowed: "4 to 12 digits (in a file: between quotes)".to_owned(),
        form: Form::Text,
        // Pasted PINs may contain blanks.
        parse: Box::new(|text| Pin::parse(text).ok()),
        absent: None,
    }
}

/// Text of 1 to `longest` bytes without control characters.
pub(super) fn text(placeholder: &'static str, longest: usize) -> Kind<String> {
    Kind {
        placeholder,
        range: String::new(),
        allowed: format!("1 to {longest} bytes of text without control characters"),
        form: Form::Text,
        parse: Box::new(move |text| {
            let plain = !text.chars().any(char::is_control) && !text.trim().is_empty();
            (plain && text.len() <= longest).then(|| text.to_owned())
        }),
        absent: None,
    }
}

/// A sound backend and its device, or a keyword.
pub(super) fn sound(placeholder: &'static str, longest: usize) -> Kind<SoundChoice> {
    let kind = text(placeholder, longest);
    let parse = kind.parse;
    Kind {
        placeholder: kind.placeholder,
        range: kind.range,
        allowed: kind.allowed,
        form: kind.form,
        parse: Box::new(move |text| parse(text).map(SoundChoice::from)),
        absent: None,
    }
}

/// A file or folder.
pub(super) fn path(placeholder: &'static str) -> Kind<PathBuf> {
    Kind {
        placeholder,
        range: String::new(),
        allowed: "a path".to_owned(),
        form: Form::Text,
        parse: Box::new(|text| (!text.is_empty()).then(|| PathBuf::from(text))),
        absent: None,
    }
}

/// The path of a file that contains a list of TOML tables. The settings file may contain the list itself instead.
pub(super) fn list(placeholder: &'static str) -> Kind<PathBuf> {
    Kind {
        form: Form::TextOrTables,
        ..path(placeholder)
    }
}

/// The public key of a portal.
pub(super) fn ticket_key() -> Kind<TicketKey> {
    Kind {
        placeholder: "KEY",
        range: String::new(),
        allowed:
            "a portal's key: 43 characters (letters, digits, - and _), as the portal prints it"
                .to_owned(),
        form: Form::Text,
        parse: Box::new(|text| text.parse().ok()),
        absent: None,
    }
}

/// The UUID of a portal's session.
pub(super) fn uuid() -> Kind<SessionUuid> {
    Kind {
        placeholder: "UUID",
        range: String::new(),
        allowed: "a UUID, such as 6f1c2a34-5b6d-4e8f-9a0b-1c2d3e4f5a6b".to_owned(),
        form: Form::Text,
        parse: Box::new(|text| text.parse().ok()),
        absent: None,
    }
}
