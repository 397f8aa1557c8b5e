//! Records of frame journeys, for files and for display.
//!
//! The recorder passes the finished [`FrameRecord`]s of all subscribers to the CSV, the trace and the live table. The
//! recorder measures nothing itself; where a record lacks a measurement, the files have an empty value. Writing to
//! files may block, so the recorder runs in a thread for which no frame waits.

#![forbid(unsafe_code)]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "statistics work in floating point"
)]

mod sound;
mod spread;
mod table;
#[cfg(test)]
mod tests;
mod totals;
mod trace;

use std::collections::HashMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use openuvr_proto::control::negotiate::Role;
use openuvr_proto::control::transport_probe::TransportKind;
use openuvr_proto::control_event::ControlEvent;
use openuvr_proto::id::{RenditionId, SubscriberId};
use openuvr_proto::time::Instant;
use openuvr_proto::trace::FrameRecord;
use openuvr_proto::wire::control::AudioReport;

use openuvr_runtime::csv::Csv;

pub use self::table::IdleText;
use self::table::{Drawing, Table};
use self::totals::MAX_SUBSCRIBERS;
use self::totals::Totals;
pub use self::totals::{Count, Subscriber, Summary};
use self::trace::Trace;
use openuvr_terminal::out;

/// The outputs of a recorder.
#[derive(Clone, Debug)]
pub struct Options {
    /// The CSV.
    pub csv: Option<PathBuf>,
    /// The trace.
    pub trace: Option<PathBuf>,
    /// The live table.
    pub table: TableMode,
    /// The table's text when there are no subscribers.
    pub idle_text: IdleText,
}

/// The mode of the live table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TableMode {
    /// Shown only on a terminal.
    Auto,
    /// Shown on a terminal, and as plain lines in a file or pipe.
    On,
    /// Never shown.
    Off,
}

/// Stores and shows records. It belongs to one thread.
pub struct Recorder {
    csv: Option<File<Csv>>,
    trace: Option<File<Trace>>,
    table: Option<Table>,
    totals: Totals,
    renditions: HashMap<SubscriberId, RenditionId>,
    /// Error messages of incomplete files.
    failed: Vec<String>,
}

impl Recorder {
    /// Creates the files. The table is written to the standard output.
    ///
    /// # Errors
    /// Returns a one-line error if a file cannot be created.
    pub fn new(options: &Options) -> anyhow::Result<Recorder> {
        let terminal = out::is_terminal();
        let shown = match options.table {
            TableMode::Auto => terminal,
            TableMode::On => true,
            TableMode::Off => false,
        };
        Ok(Recorder {
            csv: File::create(options.csv.as_deref(), Csv::new)?,
            trace: File::create(options.trace.as_deref(), Trace::new)?,
            table: shown.then(|| Table::new(terminal, options.idle_text)),
            totals: Totals::default(),
            renditions: HashMap::new(),
            failed: Vec::new(),
        })
    }

    /// Records one frame of a subscriber with its current name and role.
    pub fn record(&mut self, now: Instant, record: &FrameRecord, role: Role, name: &str) {
        self.totals.count(now, record, role, name);
        let rendition = self.renditions.get(&record.subscriber).copied();
        self.csv(|csv| csv.row(record, rendition));
        self.trace(|trace| trace.frame(record, name, rendition));
        if let Some(table) = &mut self.table {
            table.add(now, record);
        }
    }

    /// Records a client's report of its sound playback.
    pub fn audio(&mut self, now: Instant, subscriber: SubscriberId, report: &AudioReport) {
        if let Some(file) = &mut self.csv {
            file.content.audio(subscriber, report);
        }
        self.trace(|trace| trace.audio(now, subscriber, report));
        if let Some(table) = &mut self.table {
            table.audio(subscriber, report);
        }
    }

    /// Records that a subscriber has joined or has changed its role.
    pub fn joined(&mut self, subscriber: SubscriberId, role: Role, name: &str) {
        if let Some(table) = &mut self.table {
            table.joined(subscriber, role, name);
        }
    }

    /// Assigns a rendition to a subscriber.
    pub fn assign_rendition(&mut self, subscriber: SubscriberId, rendition: RenditionId) {
        if self.renditions.len() < MAX_SUBSCRIBERS {
            self.renditions.insert(subscriber, rendition);
        }
        if let Some(table) = &mut self.table {
            table.assign_rendition(subscriber, rendition);
        }
    }

    /// Records that a subscriber has left.
    pub fn left(&mut self, subscriber: SubscriberId) {
        self.renditions.remove(&subscriber);
        if let Some(table) = &mut self.table {
            table.left(subscriber);
        }
    }

    /// Records a change of the transport of a subscriber's video.
    pub fn link(&mut self, subscriber: SubscriberId, transport: TransportKind) {
        if let Some(table) = &mut self.table {
            table.link(subscriber, transport);
        }
    }

    /// Records a control event of a rendition.
    pub fn decision(&mut self, now: Instant, rendition: RenditionId, decision: &ControlEvent) {
        let several = self.renditions.values().any(|other| *other != rendition);
        let of = several.then_some(rendition);
        self.trace(|trace| trace.decision(now, of, decision));
        if let Some(table) = &mut self.table {
            table.decision(of, decision);
        }
    }

    /// Updates the table and flushes the files. Call it about four times per second.
    pub fn tick(&mut self, now: Instant) {
        self.csv(|csv| csv.tick(now));
        self.trace(|trace| trace.tick(now));
        let table = self.table.as_mut();
        match table.and_then(|table| table.draw(now, &self.totals, out::terminal_size())) {
            Some(Drawing::Rows(rows)) => out::table(rows),
            Some(Drawing::Lines(text)) => out::print_lines(text),
            None => {}
        }
    }

    /// Whether the live table is shown.
    pub fn shows_table(&self) -> bool {
        self.table.is_some()
    }

    /// Completes the files. Returns a summary of the run, and the error messages of incomplete files.
    pub fn finish(mut self) -> (Summary, Vec<String>) {
        self.csv(Csv::finish);
        self.trace(Trace::finish);
        if let Some(table) = &mut self.table {
            out::end_table();
            out::print_lines(table.finish(&self.totals, out::terminal_size().columns));
        }
        (self.totals.into_summary(), self.failed)
    }

    fn csv(&mut self, write: impl FnOnce(&mut Csv) -> std::io::Result<()>) {
        self.failed.extend(File::write(&mut self.csv, write));
    }

    fn trace(&mut self, write: impl FnOnce(&mut Trace) -> std::io::Result<()>) {
        self.failed.extend(File::write(&mut self.trace, write));
    }
}

struct File<T> {
    content: T,
    path: PathBuf,
}

impl<T> File<T> {
    fn create(
        path: Option<&Path>,
        new: impl FnOnce(Box<dyn Write + Send>) -> std::io::Result<T>,
    ) -> anyhow::Result<Option<File<T>>> {
        let Some(path) = path else { return Ok(None) };
        let content = std::fs::File::create(path).and_then(|file| new(Box::new(file)));
        let content = content.with_context(|| format!("can't write to {}", path.display()))?;
        Ok(Some(File {
            content,
            path: path.to_owned(),
        }))
    }

    /// Writes to the file. If that fails (a full disk), the file is closed with one warning, but the stream continues.
    /// Returns the error when the file is closed.
    fn write(
        file: &mut Option<File<T>>,
        write: impl FnOnce(&mut T) -> std::io::Result<()>,
    ) -> Option<String> {
        let open = file.as_mut()?;
        let error = write(&mut open.content).err()?;
        let why = format!("can't write to {}: {error}", open.path.display());
        tracing::warn!("{why}; the file is incomplete, but the stream continues");
        *file = None;
        Some(why)
    }
}
