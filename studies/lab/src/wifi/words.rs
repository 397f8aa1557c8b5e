//! The text form of a scenario, such as `profile=he-su mcs=9 stations=4 per=1% background=20M`. The defaults are those
//! of the Unity Render Streaming study.

use std::fmt::Write as _;
use std::str::FromStr;
use std::time::Duration;

use openuvr_sim::script;

use super::air::{Air, Bursts, Signal};
use super::network::Server;
use super::rate::RateRule;
use super::scenario::Scenario;
use super::setup::{Category, Delivery, DeliveryTime, Direction, Edca, Setup, Station};
use super::timing::Profile;
use super::traffic::{Background, Batches, Periodic};
use super::{Impossible, MILLISECOND, Nanos};

/// A scenario while it is being parsed. The stations are added at the end.
struct Draft {
    scenario: Scenario,
    viewers: usize,
    background: Vec<Background>,
    /// Value of the last word `wire`, if there is one; `Some(None)` for `wire=none`.
    wire: Option<Option<u64>>,
    hops: u8,
    server_streams: Option<u8>,
    air: Air,
    /// The SNR of the last viewer, if it differs from that of the others.
    far: Option<f64>,
    rate: RateRule,
}

struct Word {
    name: &'static str,
    value: &'static str,
    help: &'static str,
    set: fn(&mut Draft, &str) -> Result<(), String>,
}

/// Parses a scenario. Spaces or new lines separate the words.
///
/// # Errors
/// Returns an error that names the invalid word and the valid ones, or the reason why the scenario is impossible.
pub fn parse(text: &str) -> Result<Scenario, Impossible> {
    let mut draft = Draft {
        scenario: Scenario::paper(),
        viewers: 1,
        background: Vec::new(),
        wire: None,
        hops: 1,
        server_streams: None,
        air: Air::losing(0.1),
        far: None,
        rate: RateRule::Fixed,
    };
    let wrong = |word: &str, why: String| Impossible(format!("{word}: {why}"));
    let words: Vec<&str> = text.split_whitespace().collect();
    // Apply the profile first, because it sets defaults that other words change.
    let (first, rest): (Vec<&str>, Vec<&str>) =
        words.iter().partition(|word| word.starts_with("profile="));
    for word in first.into_iter().chain(rest) {
        let (name, value) = word.split_once('=').ok_or_else(|| {
            let why = "expected NAME=VALUE, such as mcs=9";
            wrong(word, why.into())
        })?;
        let known = WORDS.iter().find(|known| known.name == name);
        let known = known.ok_or_else(|| {
            let names: Vec<&str> = WORDS.iter().map(|known| known.name).collect();
            let why = format!(
                "unknown word {name}; the valid words are {}",
                names.join(", ")
            );
            wrong(word, why)
        })?;
        (known.set)(&mut draft, value).map_err(|why| wrong(word, why))?;
    }
    let scenario = draft.finish()?;
    scenario.check()?;
    Ok(scenario)
}

/// All words with their meanings, one word per line.
#[must_use]
pub fn help() -> String {
    let mut text = String::new();
    for Word {
        name, value, help, ..
    } in &WORDS
    {
        // Writing to a string doesn't fail.
        let _ = writeln!(text, "  {:<30} {help}", format!("{name}={value}"));
    }
    text
}

impl Draft {
    fn finish(self) -> Result<Scenario, Impossible> {
        let Draft {
            mut scenario,
            viewers,
            background,
            wire,
            hops,
            server_streams,
            air,
            far,
            rate,
        } = self;
        scenario.server = match (hops, wire) {
            (2, None | Some(None)) => Server::Station,
            (2, _) => {
                return Err(Impossible(
                    "hops=2: the server is a station, so it has no wire: omit wire".into(),
                ));
            }
            (_, None) => scenario.server,
            (_, Some(None)) => Server::AccessPoint,
            (_, Some(Some(rate))) => Server::Wired(rate),
        };
        let station = Station {
            air,
            rate,
            streams: None,
        };
        scenario.setup.stations = vec![station; viewers];
        if let Some((mean, last)) = far.zip(scenario.setup.stations.last_mut()) {
            let near = last.air.signal.unwrap_or(STEADY);
            last.air.signal = Some(Signal { mean, ..near });
        }
        // The server's station and the stations with background traffic have the SNR of the first viewer.
        let other = scenario.setup.stations.first().cloned();
        if scenario.server == Server::Station {
            let server = other.clone().map(|station| Station {
                streams: server_streams,
                ..station
            });
            scenario.setup.stations.extend(server);
        }
        let stations = background.iter().filter_map(|_| other.clone());
        scenario.setup.stations.extend(stations);
        scenario.background = background;
        Ok(scenario)
    }
}

/// A signal with a constant SNR.
const STEADY: Signal = Signal {
    mean: 40.0,
    deviation: 0.0,
    coherence: 50 * MILLISECOND,
};

const WORDS: [Word; 35] = [
    Word {
        name: "profile",
        value: "paper|vht-su|he-su|eht-su",
        help: "frame durations as in the paper [paper], 802.11ac, ax or be",
        set: |draft, value| {
            let profile = Profile::ALL.into_iter().find(|p| p.name() == value);
            let profile = profile.ok_or("expected paper, vht-su, he-su or eht-su")?;
            let setup = &mut draft.scenario.setup;
            setup.radio.profile = profile;
            if profile != Profile::Paper {
                setup.radio.mcs = setup.radio.mcs.min(profile.highest_mcs());
                setup.radio.guard = 800;
                setup.edca = Edca::standard();
                setup.delivery = Delivery::InOrder;
                setup.moment = DeliveryTime::OwnEnd;
                setup.backs_off_when_all_lost = true;
                setup.max_ampdu = setup.radio.window();
            }
            Ok(())
        },
    },
    Word {
        name: "mcs",
        value: "0..13",
        help: "modulation and coding scheme [11; vht-su: 9]; 12, 13 only with eht-su",
        set: |draft, value| number(value).map(|mcs| draft.scenario.setup.radio.mcs = mcs),
    },
    Word {
        name: "streams",
        value: "1..8",
        help: "spatial streams [2]",
        set: |draft, value| number(value).map(|n| draft.scenario.setup.radio.streams = n),
    },
    Word {
        name: "width",
        value: "20|40|80|160|320",
        help: "channel width in MHz [80]; 320 only with eht-su",
        set: |draft, value| number(value).map(|n| draft.scenario.setup.radio.width = n),
    },
    Word {
        name: "guard",
        value: "400ns|800ns|1600ns|3200ns",
        help: "guard interval [paper: 3200ns, others: 800ns]; 400ns only with vht-su",
        set: |draft, value| {
            let guard = u16::try_from(time(value)?).map_err(|_| "at most 3200ns")?;
            draft.scenario.setup.radio.guard = guard;
            Ok(())
        },
    },
    Word {
        name: "stations",
        value: "N",
        help: "stations that receive video [1]",
        set: |draft, value| number(value).map(|viewers| draft.viewers = viewers),
    },
    Word {
        name: "background",
        value: "RATE[,WAY[,BYTES]]",
        help: "adds a station with background traffic, up or down [up,1500]",
        set: |draft, value| background(value).map(|stream| draft.background.extend(stream)),
    },
    Word {
        name: "background-category",
        value: "CATEGORY",
        help: "access category of all background words before this word [best-effort]",
        set: |draft, value| {
            let category = category(value)?;
            draft
                .background
                .iter_mut()
                .for_each(|o| o.category = category);
            Ok(())
        },
    },
    Word {
        name: "per",
        value: "SHARE",
        help: "independent MPDU loss [10%]",
        set: |draft, value| script::share(value).map(|per| draft.air.per = per),
    },
    Word {
        name: "bursts",
        value: "GOOD,BAD[,LOSS]",
        help: "Gilbert-Elliott: mean durations of the two states, loss in BAD [100%]",
        set: |draft, value| bursts(value).map(|bursts| draft.air.bursts = bursts),
    },
    Word {
        name: "signal",
        value: "DB[,DEVIATION[,TIME]]",
        help: "SNR, deviation [0], coherence time [50ms]; loss then depends on rate",
        set: |draft, value| signal(value).map(|signal| draft.air.signal = signal),
    },
    Word {
        name: "far",
        value: "DB",
        help: "SNR of the last station that receives video",
        set: |draft, value| number(value).map(|mean| draft.far = Some(mean)),
    },
    Word {
        name: "rate",
        value: "fixed|ideal|learned",
        help: "rate control, never above mcs [fixed]; learned: like Minstrel",
        set: |draft, value| {
            draft.rate = match value {
                "fixed" => RateRule::Fixed,
                "ideal" => RateRule::Ideal,
                "learned" => RateRule::Learned,
                _ => return Err("expected fixed, ideal or learned".into()),
            };
            Ok(())
        },
    },
    Word {
        name: "category",
        value: "CATEGORY",
        help: "access category: voice, video, best-effort or background [best-effort]",
        set: |draft, value| {
            let category = category(value)?;
            draft.scenario = draft.scenario.clone().all_in(category);
            Ok(())
        },
    },
    Word {
        name: "edca",
        value: "uniform|standard",
        help: "all access categories equal, or as in the standard [paper: uniform]",
        set: |draft, value| {
            draft.scenario.setup.edca = match value {
                "uniform" => Setup::paper().edca,
                "standard" => Edca::standard(),
                _ => return Err("expected uniform or standard".into()),
            };
            Ok(())
        },
    },
    Word {
        name: "cw-min",
        value: "SLOTS",
        help: "initial contention window of all categories [paper: 31]",
        set: |draft, value| {
            let slots = number(value)?;
            accesses(draft).for_each(|access| access.cw_min = slots);
            Ok(())
        },
    },
    Word {
        name: "cw-max",
        value: "SLOTS",
        help: "maximum contention window of all categories [paper: 1023]",
        set: |draft, value| {
            let slots = number(value)?;
            accesses(draft).for_each(|access| access.cw_max = slots);
            Ok(())
        },
    },
    Word {
        name: "rts",
        value: "on|off|BYTES",
        help: "RTS/CTS before all PPDUs, no PPDU, or PPDUs of more than BYTES [on]",
        set: |draft, value| {
            draft.scenario.setup.rts_above = match value {
                "on" => Some(0),
                "off" => None,
                bytes => Some(number(bytes)?),
            };
            Ok(())
        },
    },
    Word {
        name: "max-ampdu",
        value: "N",
        help: "maximum packets per PPDU [256; vht-su: 64, eht-su: 1024]",
        set: |draft, value| number(value).map(|n| draft.scenario.setup.max_ampdu = n),
    },
    Word {
        name: "retries",
        value: "N",
        help: "retry limit [7]",
        set: |draft, value| number(value).map(|n| draft.scenario.setup.retry_limit = n),
    },
    Word {
        name: "ap-buffer",
        value: "PACKETS",
        help: "queue limit of the access point [1000]",
        set: |draft, value| number(value).map(|n| draft.scenario.setup.access_point_buffer = n),
    },
    Word {
        name: "ap-aqm",
        value: "none|pie",
        help: "active queue management of the access point's queues [none]",
        set: |draft, value| {
            draft.scenario.setup.access_point_pie = match value {
                "none" => false,
                "pie" => true,
                _ => return Err("expected none or pie".into()),
            };
            Ok(())
        },
    },
    Word {
        name: "station-buffer",
        value: "PACKETS",
        help: "queue limit of a station [150]",
        set: |draft, value| number(value).map(|n| draft.scenario.setup.station_buffer = n),
    },
    Word {
        name: "delivery",
        value: "mpdu|in-order",
        help: "deliver packets as they arrive (mpdu), or in order [paper: mpdu]",
        set: |draft, value| {
            draft.scenario.setup.delivery = match value {
                "mpdu" => Delivery::PerMpdu,
                "in-order" => Delivery::InOrder,
                _ => return Err("expected mpdu or in-order".into()),
            };
            Ok(())
        },
    },
    Word {
        name: "moment",
        value: "acknowledged|own-end",
        help: "delivery at acknowledgement, or at packet's end [paper: acknowledged]",
        set: |draft, value| {
            draft.scenario.setup.moment = match value {
                "acknowledged" => DeliveryTime::Acknowledged,
                "own-end" => DeliveryTime::OwnEnd,
                _ => return Err("expected acknowledged or own-end".into()),
            };
            Ok(())
        },
    },
    Word {
        name: "ofdma",
        value: "on|off",
        help: "the access point sends to several stations at once [off]",
        set: |draft, value| {
            draft.scenario.setup.ofdma = match value {
                "on" => true,
                "off" => false,
                _ => return Err("expected on or off".into()),
            };
            Ok(())
        },
    },
    Word {
        name: "fps",
        value: "N",
        help: "frames per second [60]",
        set: |draft, value| number(value).map(|fps| draft.scenario.video.fps = fps),
    },
    Word {
        name: "bitrate",
        value: "RATE",
        help: "bitrate of each video [50M]",
        set: |draft, value| script::rate(value).map(|rate| draft.scenario.video.bitrate = rate.0),
    },
    Word {
        name: "packet",
        value: "BYTES",
        help: "size of a video packet [1243]",
        set: |draft, value| number(value).map(|bytes| draft.scenario.video.packet = bytes),
    },
    Word {
        name: "tau",
        value: "TIME",
        help: "interval between the batches of a frame [5.56ms]",
        set: |draft, value| time(value).map(|tau| draft.scenario.video.interval = tau),
    },
    Word {
        name: "batches",
        value: "fit|up-to-N|N",
        help: "batches per frame: N, or random: at most N, or all that fit [fit]",
        set: |draft, value| {
            draft.scenario.video.batches = match value.strip_prefix("up-to-") {
                Some(most) => Batches::UpTo(number(most)?),
                None if value == "fit" => Batches::UpTo(0),
                None => Batches::Exactly(number(value)?),
            };
            Ok(())
        },
    },
    Word {
        name: "uplink",
        value: "TIME[,BYTES]|none",
        help: "period and packet size of each viewer's controller [4.16ms,175]",
        set: |draft, value| uplink(draft, value),
    },
    Word {
        name: "wire",
        value: "RATE|none",
        help: "rate of the wired link between server and access point [1G]",
        set: |draft, value| {
            draft.wire = Some(unless_none(value, script::rate)?.map(|rate| rate.0));
            Ok(())
        },
    },
    Word {
        name: "hops",
        value: "1|2",
        help: "1: server at the access point or wired; 2: server is a station [1]",
        set: |draft, value| {
            draft.hops = match value {
                "1" => 1,
                "2" => 2,
                _ => return Err("expected 1 or 2".into()),
            };
            Ok(())
        },
    },
    Word {
        name: "server-streams",
        value: "1..8",
        help: "with hops=2: spatial streams of the server [same as streams]",
        set: |draft, value| number(value).map(|n| draft.server_streams = Some(n)),
    },
];

const NONE: &str = "none";

fn unless_none<T>(
    text: &str,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Result<Option<T>, String> {
    (text != NONE).then(|| parse(text)).transpose()
}

fn number<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse()
        .map_err(|_| format!("`{text}` is not a valid number"))
}

fn time(text: &str) -> Result<Nanos, String> {
    let time: Duration = script::time(text)?;
    u64::try_from(time.as_nanos()).map_err(|_| "too long".to_owned())
}

fn category(text: &str) -> Result<Category, String> {
    let known = Category::ALL.into_iter().find(|c| c.name() == text);
    known.ok_or_else(|| "expected voice, video, best-effort or background".into())
}

fn accesses(draft: &mut Draft) -> impl Iterator<Item = &mut super::setup::Access> {
    let edca = &mut draft.scenario.setup.edca;
    edca.access_point.iter_mut().chain(&mut edca.station)
}

fn background(text: &str) -> Result<Option<Background>, String> {
    unless_none(text, |text| {
        let mut parts = text.split(',');
        let rate = script::rate(parts.next().unwrap_or_default())?;
        let direction = match parts.next() {
            None | Some("up") => Direction::Up,
            Some("down") => Direction::Down,
            Some(_) => return Err("expected the direction up or down, such as 20M,down".into()),
        };
        let bytes = parts.next().map_or(Ok(1500), number)?;
        if parts.next().is_some() {
            return Err("expected rate, direction and bytes, such as 20M,up,1500".into());
        }
        Ok(Background {
            bitrate: rate.0,
            bytes,
            direction,
            category: Category::BestEffort,
        })
    })
}

fn bursts(text: &str) -> Result<Option<Bursts>, String> {
    unless_none(text, |text| {
        let parts: Vec<&str> = text.split(',').collect();
        let (good, bad, loss) =
            match parts[..] {
                [good, bad] => (good, bad, "100%"),
                [good, bad, loss] => (good, bad, loss),
                _ => return Err(
                    "expected two durations and, optionally, a percentage, such as 200ms,5ms,80%"
                        .into(),
                ),
            };
        Ok(Bursts {
            good: time(good)?,
            bad: time(bad)?,
            loss: script::share(loss)?,
        })
    })
}

fn signal(text: &str) -> Result<Option<Signal>, String> {
    unless_none(text, |text| {
        let mut parts = text.split(',');
        let mean = number(parts.next().unwrap_or_default())?;
        let deviation = parts.next().map_or(Ok(STEADY.deviation), number)?;
        let coherence = parts.next().map_or(Ok(STEADY.coherence), time)?;
        if parts.next().is_some() {
            return Err("expected decibels, deviation and time, such as 30,4,50ms".into());
        }
        Ok(Signal {
            mean,
            deviation,
            coherence,
        })
    })
}

fn uplink(draft: &mut Draft, text: &str) -> Result<(), String> {
    let category = draft.scenario.video.category;
    draft.scenario.uplink = unless_none(text, |text| {
        let (period, bytes) = match text.split_once(',') {
            None => (text, Periodic::default().bytes),
            Some((period, bytes)) => (period, number(bytes)?),
        };
        Ok(Periodic {
            period: time(period)?,
            bytes,
            category,
        })
    })?;
    Ok(())
}

#[cfg(test)]
mod tests;
