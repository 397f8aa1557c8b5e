//! Writes the analysis as tables and as JSON.

use anyhow::Result;
use openuvr_lab::traffic::distribution::Distribution;
use openuvr_lab::traffic::join::{Crossing, JoinedCaptures};
use openuvr_lab::traffic::kind::Kind;
use openuvr_lab::traffic::video::Video;
use openuvr_lab::traffic::{Analysis, StreamFound};
use openuvr_lab::wifi::Direction;
use serde_json::{Value, json};

use super::super::folder::{Folder, print_table};
use super::{Capture, file};

type Rows = Vec<Vec<String>>;

/// Nanoseconds per millisecond.
pub(super) const MS: f64 = 1e6;

/// Writes and prints the tables of one capture.
pub(super) fn capture(folder: &mut Folder, capture: &Capture, is_one_of_two: bool) -> Result<()> {
    let analysis = &capture.analysis;
    let name = |name: &str| file(name, capture, is_one_of_two);
    println!("{}\n", described(capture));
    for note in notes(analysis) {
        println!("{note}");
    }
    println!();
    let rows = streams(analysis);
    print_table(&STREAM_HEADS, &rows);
    folder.csv(&name("streams.csv"), &STREAM_HEADS, rows)?;
    let rows = directions(analysis);
    println!();
    print_table(&DIRECTION_HEADS, &rows);
    folder.csv(&name("directions.csv"), &DIRECTION_HEADS, rows)?;
    let file = name("distributions.csv");
    folder.csv(&file, &DISTRIBUTION_HEADS, distributions(analysis))?;
    for found in &analysis.streams {
        if let Some(video) = &found.video {
            let rows = video_rows(found, video);
            println!("\n{} from {}:", found.name(), found.key.from);
            print_table(&VIDEO_HEADS, &rows);
            let file = name(&format!("video-{:08x}.csv", found.key.id));
            folder.csv(&file, &VIDEO_HEADS, rows)?;
            if found.key.kind == Kind::OpenUvrMedia {
                println!("{SEALED}");
            }
        }
    }
    Ok(())
}

const SEALED: &str = "OpenUVR encrypts each datagram's frame number and kind (video, FEC, retransmission), so \
                      this command can't analyse frames, assembly or retransmissions. The session, the plane, the \
                      datagram's number (for losses and reordering) and its send timestamp (for jitter) are not \
                      encrypted. A batch is a frame or a slice.";

fn described(capture: &Capture) -> String {
    let account = &capture.analysis.account;
    let place = capture
        .end
        .map_or("at an unknown end (name it with --end)".to_owned(), |end| {
            format!("at the {}", end.name())
        });
    let by = account.application.as_ref();
    let by = by.map_or(String::new(), |name| format!(", written by {name}"));
    format!(
        "{}, captured {place}{by}: {} datagrams in {:.1} s; the server is {}, which sent the most bytes",
        capture.path.display(),
        account.datagrams,
        capture.analysis.seconds(),
        capture.analysis.server
    )
}

/// Notes on the limits of the figures.
fn notes(analysis: &Analysis) -> Vec<String> {
    let account = &analysis.account;
    let mut notes = Vec::new();
    let mut note = |count: u64, words: &str| {
        if count > 0 {
            notes.push(format!("{count} {words}"));
        }
    };
    note(
        account.joined,
        "packets consisted of several datagrams, joined by segmentation or receive offload (GSO, GRO); they \
         were split, and each datagram has its packet's time",
    );
    note(
        account.joined_datagrams,
        "datagrams were contained in these packets",
    );
    note(
        account.joined_unseen,
        "joined datagrams were split at the stream's usual size, because too little of each packet was captured",
    );
    note(
        account.joined_uncut,
        "large packets look joined but could not be split: each counts as one datagram",
    );
    note(account.tcp, "packets are TCP and were left out");
    note(
        account.fragments,
        "packets are fragments of IP and were left out",
    );
    note(
        account.others,
        "packets are neither UDP nor TCP and were left out",
    );
    note(
        account.cut,
        "packets have incomplete headers, because too little of each was captured",
    );
    note(
        account.out_of_order,
        "packets have an earlier time than a previous packet: negative intervals count as 0",
    );
    note(
        analysis.beyond,
        "datagrams belong to streams after the first 128: these streams have no rows",
    );
    if let Some(error) = &analysis.ended {
        notes.push(format!("INCOMPLETE: {error}"));
    }
    notes
}

const STREAM_HEADS: [&str; 13] = [
    "way",
    "stream",
    "from",
    "to",
    "packets",
    "bytes",
    "ms",
    "Mb/s",
    "lost",
    "reordered",
    "repeated",
    "clock, Hz",
    "id",
];

fn streams(analysis: &Analysis) -> Rows {
    let row = |found: &StreamFound| {
        let stream = &found.stream;
        let way = found.direction.map_or("–", way_name);
        let of = |value: Option<f64>, digits: usize| cell(value, digits);
        let account = stream.account(found.key.kind);
        let count = |value: Option<u64>| value.map_or("–".to_owned(), |value| value.to_string());
        let rate = found.role.and_then(|(_, rate)| rate);
        vec![
            way.to_owned(),
            found.name(),
            found.key.from.to_string(),
            found.key.to.to_string(),
            stream.sizes.count().to_string(),
            of(stream.sizes.mean(), 2),
            of(stream.gaps.mean().map(|gap| gap / MS), 3),
            of(load(found, analysis), 4),
            count(account.map(|account| account.lost)),
            count(account.map(|account| account.reordered)),
            count(account.map(|account| account.repeated)),
            count(rate.map(u64::from)),
            format!("{:08x}", found.key.id),
        ]
    };
    analysis.streams.iter().map(row).collect()
}

/// The stream's load in megabits per second, averaged over the whole capture.
pub(super) fn load(found: &StreamFound, analysis: &Analysis) -> Option<f64> {
    let seconds = analysis.seconds();
    (seconds > 0.0).then(|| found.bytes() * 8.0 / seconds / 1e6)
}

pub(super) fn way_name(way: Direction) -> &'static str {
    match way {
        Direction::Down => "down",
        Direction::Up => "up",
    }
}

fn cell(value: Option<f64>, digits: usize) -> String {
    value.map_or("–".to_owned(), |value| format!("{value:.digits$}"))
}

const DIRECTION_HEADS: [&str; 6] = [
    "way",
    "packets",
    "Mb/s",
    "mean ms to next packet",
    "at once, %",
    "mean packets at once",
];

fn directions(analysis: &Analysis) -> Rows {
    let ways = [Direction::Down, Direction::Up]
        .into_iter()
        .zip(&analysis.directions);
    let rows = ways.filter_map(|(way, direction)| {
        let direction = direction.as_ref()?;
        let packets = direction.gaps.count() + 1;
        let load = direction.bytes as f64 * 8.0 / analysis.seconds().max(1e-9) / 1e6;
        Some(vec![
            way_name(way).to_owned(),
            packets.to_string(),
            format!("{load:.3}"),
            cell(direction.gaps.mean().map(|gap| gap / MS), 3),
            cell(direction.at_once_percent(), 1),
            cell(direction.aggregates.mean(), 2),
        ])
    });
    rows.collect()
}

const VIDEO_HEADS: [&str; 10] = [
    "what", "unit", "count", "mean", "min", "p25", "p50", "p75", "p99", "max",
];

fn video_rows(found: &StreamFound, video: &Video) -> Rows {
    let mut rows = vec![
        spread("packet size", "bytes", &found.stream.sizes, 1.0),
        spread("packet to packet", "ms", &found.stream.gaps, MS),
        spread("batch to batch", "ms", &video.batch_interval_ns, MS),
        spread("packets per batch", "", &video.batch_packets, 1.0),
        spread("batch size", "kB", &video.batch_bytes, 1e3),
        spread("batch duration", "ms", &video.batch_lasted_ns, MS),
    ];
    if let Some(frames) = &video.frames {
        rows.extend([
            spread("frame to frame", "ms", &frames.interval_ns, MS),
            spread("frame size", "kB", &frames.bytes, 1e3),
            spread("packets per frame", "", &frames.packets, 1.0),
            spread("batches per frame", "", &frames.batches, 1.0),
            spread("frame: first to last packet", "ms", &frames.assembly_ns, MS),
        ]);
    }
    rows.push(spread(
        "jitter, per packet (RFC 3550)",
        "ms",
        &video.jitter_ns,
        MS,
    ));
    if video.frames.is_some() {
        rows.push(spread(
            "jitter, per frame (libwebrtc)",
            "ms",
            &video.frame_jitter_ns,
            MS,
        ));
    }
    let mut one = |what: &str, unit: &str, value: Option<f64>| {
        let mut row = vec![
            what.to_owned(),
            unit.to_owned(),
            String::new(),
            cell(value, 3),
        ];
        row.resize(VIDEO_HEADS.len(), String::new());
        rows.push(row);
    };
    one(
        "pause that ends a batch",
        "ms",
        Some(video.pause_ns as f64 / MS),
    );
    one(
        "usual interval between batches",
        "ms",
        video.usual_interval().map(|ns| ns / MS),
    );
    one(
        "batch intervals without a batch",
        "%",
        video.idle().map(|(_, share)| share * 100.0),
    );
    if let Some(frames) = &video.frames {
        one("complete frames", "", Some(frames.complete as f64));
        one(
            "frames with missing packets",
            "",
            Some(frames.broken as f64),
        );
    }
    rows
}

fn spread(what: &str, unit: &str, of: &Distribution, scale: f64) -> Vec<String> {
    let at = |share: f64| cell(of.quantile(share).map(|value| value as f64 / scale), 3);
    let mut row = vec![what.to_owned(), unit.to_owned(), of.count().to_string()];
    row.push(cell(of.mean().map(|mean| mean / scale), 3));
    row.extend([0.0, 0.25, 0.5, 0.75, 0.99, 1.0].map(at));
    row
}

/// Writes and prints the combined results of both captures.
pub(super) fn joined(folder: &mut Folder, joined: &JoinedCaptures) -> Result<()> {
    let mut said = match joined.offset_ns {
        Some(offset) => format!(
            "The offset of the client's clock (client minus server) is {:+.6} s, and its drift {:+.2} ppm; both are \
             corrected. The offset is right if the fastest packets of both directions are equally fast, \
             which can't be known; the round trip does not depend on the offset.",
            offset / 1e9,
            joined.drift_ppm
        ),
        None => format!(
            "The drift of the client's clock (client minus server) is {:+.2} ppm, and is corrected. There are packets \
             of only one direction, so the offset can't be known: delays are relative to the delay of the fastest \
             packet.",
            joined.drift_ppm
        ),
    };
    if joined.swapped {
        said += " The captures were given in the wrong order and have been swapped: in the given order, packets \
             would have arrived before they were sent. Name the server's capture first.";
    }
    if joined.one_of > 1 {
        said += &format!(" Only one packet in {} was examined.", joined.one_of);
    }
    println!("\n{said}");
    let lost = |crossing: &Crossing| crossing.sent - crossing.arrived;
    let mut rows = vec![
        spread("packets down", "ms", &joined.down.delay_ns, MS),
        spread("video down", "ms", &joined.down.video_delay_ns, MS),
        spread("packets up", "ms", &joined.up.delay_ns, MS),
        spread(
            "frames: first sent to last arrived",
            "ms",
            &joined.frame_ns,
            MS,
        ),
    ];
    let mut one = |what: &str, unit: &str, value: String| {
        let mut row = vec![what.to_owned(), unit.to_owned(), value];
        row.resize(VIDEO_HEADS.len(), String::new());
        rows.push(row);
    };
    one("sent down", "packets", joined.down.sent.to_string());
    one("lost of them", "packets", lost(&joined.down).to_string());
    one("sent up", "packets", joined.up.sent.to_string());
    one("lost of them", "packets", lost(&joined.up).to_string());
    print_table(&VIDEO_HEADS, &rows);
    folder.csv("joined.csv", &VIDEO_HEADS, rows)?;
    let all = [
        ("packets down", &joined.down.delay_ns),
        ("packets up", &joined.up.delay_ns),
        ("frames down", &joined.frame_ns),
    ];
    let rows = all
        .into_iter()
        .flat_map(|(name, of)| values("delay_ns", name, of));
    folder.csv("joined-distributions.csv", &DISTRIBUTION_HEADS, rows)
}

const DISTRIBUTION_HEADS: [&str; 4] = ["quantity", "stream", "value", "count"];

/// Each distinct value of a distribution and its count.
fn values<'a>(
    quantity: &'static str,
    stream: &str,
    of: &'a Distribution,
) -> impl Iterator<Item = Vec<String>> + use<'a> {
    let stream = stream.to_owned();
    of.values().map(move |(value, count)| {
        let numbers = [value.to_string(), count.to_string()];
        [quantity.to_owned(), stream.clone()]
            .into_iter()
            .chain(numbers)
            .collect()
    })
}

/// The distributions of a capture, for plots.
fn distributions(analysis: &Analysis) -> Rows {
    let mut rows = Rows::new();
    let mut add = |quantity, stream: &str, of: &Distribution| {
        rows.extend(values(quantity, stream, of));
    };
    let ways = [Direction::Down, Direction::Up].into_iter();
    for (way, direction) in ways.zip(&analysis.directions) {
        if let Some(direction) = direction {
            let name = format!("packets {}", way_name(way));
            add("packet_interval_ns", &name, &direction.gaps);
            add("packets_at_once", &name, &direction.aggregates);
        }
    }
    for found in &analysis.streams {
        if found.direction == Some(Direction::Down) {
            add("stream_interval_ns", &found.name(), &found.stream.gaps);
        }
    }
    let Some((found, video)) = analysis.main_video() else {
        return rows;
    };
    add("packet_bytes", "video packets", &found.stream.sizes);
    let groups = &video.arrivals.aggregates;
    add("packets_at_once", "video packets", groups);
    add("batch_interval_ns", "batches", &video.batch_interval_ns);
    add("batch_packets", "batches", &video.batch_packets);
    add("jitter_ns", "each packet (RFC 3550)", &video.jitter_ns);
    if let Some(frames) = &video.frames {
        add(
            "jitter_ns",
            "once a frame (libwebrtc)",
            &video.frame_jitter_ns,
        );
        add("frame_bytes", "frames", &frames.bytes);
        add("frame_interval_ns", "frames", &frames.interval_ns);
        add("frame_batches", "frames", &frames.batches);
        add("assembly_ns", "frames", &frames.assembly_ns);
    }
    rows
}

/// All data of a capture.
pub(super) fn as_json(capture: &Capture) -> Value {
    let analysis = &capture.analysis;
    let streams = analysis.streams.iter().map(|found| {
        let rtp = found.stream.rtp.as_ref();
        json!({
            "name": found.name(), "way": found.direction.map(way_name),
            "from": found.key.from.to_string(), "to": found.key.to.to_string(),
            "id": found.key.id, "relayed": found.key.relayed,
            "mbps": load(found, analysis), "bytes": found.stream.sizes,
            "interval_ns": found.stream.gaps,
            "below_1ms_percent": found.stream.gaps.share_below(MS as u64).map(|share| share * 100.0),
            "role": found.role.map(|(role, _)| role),
            "clock_hz": found.role.and_then(|(_, rate)| rate),
            "payload_type": rtp.map(|source| source.payload_type.0),
            "sequence": found.stream.account(found.key.kind),
            "video": found.video.as_ref().map(video_json),
        })
    });
    let directions = analysis.directions.iter().map(|direction| {
        direction.as_ref().map(|direction| {
            json!({
                "bytes": direction.bytes, "interval_ns": direction.gaps,
                "at_once_percent": direction.at_once_percent(),
                "packets_at_once": direction.aggregates,
            })
        })
    });
    json!({
        "file": capture.path.display().to_string(),
        "end": capture.end.map(super::End::name),
        "account": analysis.account, "seconds": analysis.seconds(),
        "server": analysis.server.to_string(), "beyond": analysis.beyond,
        "generated": analysis.is_generated(),
        "broken": analysis.ended.as_ref().map(ToString::to_string),
        "streams": streams.collect::<Vec<_>>(),
        "directions": directions.collect::<Vec<_>>(),
    })
}

fn video_json(video: &Video) -> Value {
    let mut value = json!(video);
    value["usual_interval_ns"] = json!(video.usual_interval());
    value["idle"] = json!(video.idle().map(|(_, share)| share));
    value["packets_at_once"] = json!(video.arrivals.aggregates);
    value
}
