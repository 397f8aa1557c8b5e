//! Similarity of a stream's displayed pictures to the drawn ones.

use std::time::Duration;

use anyhow::Result;
use openuvr_media::barcode;
use openuvr_testbed::journey;
use openuvr_testbed::picture_match::{History, Shot, psnr};
use openuvr_testbed::reader::{Reader, Sighting};
use openuvr_testbed::screen::Screen;

use super::Rig;
use crate::bench::case::Compared;
use openuvr_clock as clock;

/// Time from one picture to the next.
const APART: Duration = Duration::from_millis(90);

/// Pictures to compare: the sighting, the drawn picture, and the displayed picture of the same frame.
#[derive(Default)]
pub(super) struct Pictures(Vec<(Sighting, Shot, Shot)>);

impl Pictures {
    /// The luma PSNR of each displayed picture, in dB. Call this only after the stream has ended: the comparison uses a
    /// third of a core, which would slow a stream without real-time scheduling.
    pub(super) fn compared(&self) -> Vec<(Sighting, f64)> {
        let ratio = |(sighting, drawn, shown): &(Sighting, Shot, Shot)| {
            Some((*sighting, psnr(drawn, shown)?))
        };
        self.0.iter().filter_map(ratio).collect()
    }
}

impl Rig<'_> {
    /// Captures pairs of pictures with the same frame number, one picture from each display.
    pub(super) fn pictures(&self, reader: &Reader) -> Result<Pictures> {
        let mut pictures = Pictures::default();
        let Some(area) = reader.area() else {
            return Ok(pictures);
        };
        let history = History::start(self.near.name(), None)?;
        let screen = Screen::open(self.far.name())?;
        let wanted = self.setup.compared;
        for _ in 0..3 * wanted {
            if pictures.0.len() == wanted {
                break;
            }
            self.pass(APART, &mut || Ok(()))?;
            let shown = Shot::take(&screen, area)?;
            let seen_us = barcode::micros(clock::now());
            let Some(stamp) = shown.stamp else { continue };
            let sighting = Sighting {
                frame: stamp.frame,
                drawn_us: stamp.drawn_us,
                seen_us,
                inputs: stamp.inputs,
            };
            let mut drawn = history
                .shots()
                .into_iter()
                .filter(|shot| shot.size == shown.size);
            let same = |shot: &Shot| shot.stamp.is_some_and(|other| other.frame == stamp.frame);
            if let Some(drawn) = drawn.find(same) {
                pictures.0.push((sighting, drawn, shown));
            }
        }
        Ok(pictures)
    }
}

/// The record's rows of the compared pictures.
pub(super) fn recorded(compared: &[(Sighting, f64)], record: &[journey::Row]) -> Vec<Compared> {
    let sightings: Vec<Sighting> = compared.iter().map(|(sighting, _)| *sighting).collect();
    let rows = journey::join(&sightings, record);
    let with = |((_, db), row): (&(Sighting, f64), Option<&journey::Row>)| Compared {
        psnr_db: *db,
        outcome: row.map(|row| row.outcome.clone()),
        wire_bytes: row.map_or(0, |row| row.wire_bytes),
    };
    compared.iter().zip(rows).map(with).collect()
}
