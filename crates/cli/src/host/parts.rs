//! The parts of a host that a program which measures may replace.

use std::sync::Arc;

use anyhow::Result;
use openuvr_media::capture::Capture;
use openuvr_media::convert::Converter;
use openuvr_net::Link;
use openuvr_proto::units::Bitrate;
use openuvr_runtime::sched::Scheduler;

pub use crate::config::SourceKind;

/// Who makes these parts of a host. Each is asked for once, by the thread that starts the host, when all
/// that its arguments name is open; an error ends the start with its text.
pub trait HostParts {
    /// The capture that the host takes its pictures from, made of the `usual` one of `source`, which may
    /// be inside it. It is to give `fps` frames a second at most.
    ///
    /// # Errors
    /// There is none for that source.
    fn capture(
        &self,
        usual: Box<dyn Capture>,
        _source: SourceKind,
        _fps: f64,
    ) -> Result<Box<dyn Capture>> {
        Ok(usual)
    }

    /// The converter of the rendition that the capturing thread makes.
    ///
    /// # Errors
    /// What it needs is not there.
    fn converter(&self) -> Result<Converter> {
        Ok(Converter::new())
    }

    /// The link that the host uses, made of the `usual` one, which may be inside it. The video aims at
    /// `rate`; threads are started by `scheduler`.
    ///
    /// # Errors
    /// No thread can be started.
    fn link(
        &self,
        usual: Arc<dyn Link>,
        _rate: Bitrate,
        _scheduler: &Scheduler,
    ) -> Result<Arc<dyn Link>> {
        Ok(usual)
    }
}

/// Those of `openuvr host`: nothing is replaced.
pub struct Usual;

impl HostParts for Usual {}
