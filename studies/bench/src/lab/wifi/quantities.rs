//! Reported quantities of a scenario: the columns of tables and the values of plots.

use openuvr_lab::wifi::Estimate;
use openuvr_lab::wifi::study::{Spread, Summary};
use serde_json::{Value, json};

/// A column.
pub(super) struct Quantity {
    /// The name in CSV and JSON files.
    pub(super) name: &'static str,
    /// Description with unit.
    pub(super) words: &'static str,
    of: fn(&Summary) -> Option<Estimate>,
}

impl Quantity {
    pub(super) fn of(&self, summary: &Summary) -> Option<Estimate> {
        (self.of)(summary)
    }

    pub(super) fn named(name: &str) -> Option<&'static Quantity> {
        ALL.iter().find(|quantity| quantity.name == name)
    }
}

fn mean(spread: Option<Spread>) -> Option<Estimate> {
    spread.map(|spread| spread.mean)
}

fn at(spread: Option<Spread>, share: f64) -> Option<Estimate> {
    let mean = spread?.at(share);
    Some(Estimate { mean, half: None })
}

/// All columns.
pub(super) const ALL: [Quantity; 20] = [
    Quantity {
        name: "packet_ms",
        words: "packet delay from the server, ms",
        of: |s| mean(s.packets),
    },
    Quantity {
        name: "packet_p99_ms",
        words: "packet delay, p99, ms",
        of: |s| at(s.packets, 0.99),
    },
    Quantity {
        name: "packet_p9999_ms",
        words: "packet delay, p99.99, ms",
        of: |s| at(s.packets, 0.9999),
    },
    Quantity {
        name: "packet_from_queue_ms",
        words: "packet delay from its arrival in the access point's queue, ms",
        of: |s| mean(s.packets_from_queue),
    },
    Quantity {
        name: "frame_ms",
        words: "frame delay, ms",
        of: |s| mean(s.frames),
    },
    Quantity {
        name: "frame_p99_ms",
        words: "frame delay, p99, ms",
        of: |s| at(s.frames, 0.99),
    },
    Quantity {
        name: "assembly_ms",
        words: "from a frame's first packet to its last at the station, ms",
        of: |s| mean(s.assembly),
    },
    Quantity {
        name: "uplink_ms",
        words: "controller's packet delay, ms",
        of: |s| mean(s.uplink),
    },
    Quantity {
        name: "uplink_p99_ms",
        words: "controller's packet delay, p99, ms",
        of: |s| at(s.uplink, 0.99),
    },
    Quantity {
        name: "ampdu_attempted",
        words: "packets sent per A-MPDU",
        of: |s| mean(s.attempted),
    },
    Quantity {
        name: "ampdu_delivered",
        words: "packets delivered per A-MPDU",
        of: |s| mean(s.delivered),
    },
    Quantity {
        name: "transmissions_per_s",
        words: "transmissions of the access point per second",
        of: |s| s.transmissions,
    },
    Quantity {
        name: "airtime_down_percent",
        words: "airtime of the access point, %",
        of: |s| s.down,
    },
    Quantity {
        name: "airtime_up_percent",
        words: "airtime of stations, %",
        of: |s| s.up,
    },
    Quantity {
        name: "airtime_collided_percent",
        words: "airtime of collisions, %",
        of: |s| s.collided,
    },
    Quantity {
        name: "found_waiting",
        words: "packets that an arriving packet finds queued",
        of: |s| s.found,
    },
    Quantity {
        name: "found_any_percent",
        words: "packets that find a non-empty queue, %",
        of: |s| s.found_some,
    },
    Quantity {
        name: "lost_percent",
        words: "packets lost, %",
        of: |s| s.lost,
    },
    Quantity {
        name: "broken_frames_percent",
        words: "frames with a lost packet, %",
        of: |s| s.broken,
    },
    Quantity {
        name: "throughput_mbps",
        words: "delivered video, Mb/s",
        of: |s| s.throughput,
    },
];

/// All quantities of a scenario.
pub(super) fn as_json(summary: &Summary) -> Value {
    let fields = ALL.iter().filter_map(|quantity| {
        let Estimate { mean, half } = quantity.of(summary)?;
        Some((
            quantity.name.to_owned(),
            json!({"mean": mean, "ci95": half}),
        ))
    });
    Value::Object(fields.collect())
}
