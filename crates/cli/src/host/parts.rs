//! The components of a host that a measuring program may replace.

use std::sync::Arc;

use anyhow::Result;
use openuvr_media::capture::Capture;
use openuvr_media::convert::Converter;
use openuvr_net::Link;
use openuvr_proto::units::Bitrate;
use openuvr_runtime::sched::Scheduler;

pub use crate::config::SourceKind;

/// Factory for the replaceable components of a host. Each function is called once, by the thread that starts the host,
/// after everything in its arguments has been opened. An error aborts the start and is printed.
pub trait HostParts {
    /// The host's capture, which may wrap the `default` capture of `source`. It should deliver at most `fps` frames
    /// per second.
    ///
    /// # Errors
    /// Returns an error if the source cannot be captured this way.
    fn capture(
        &self,
        default: Box<dyn Capture>,
        _source: SourceKind,
        _fps: f64,
    ) -> Result<Box<dyn Capture>> {
        Ok(default)
    }

    /// The converter of the primary rendition.
    ///
    /// # Errors
    /// Returns an error if a required resource is unavailable.
    fn converter(&self) -> Result<Converter> {
        Ok(Converter::new())
    }

    /// The host's link, which may wrap the `default` one. `rate` is the target video bitrate; `scheduler` starts the
    /// threads.
    ///
    /// # Errors
    /// Returns an error if no thread can be started.
    fn link(
        &self,
        default: Arc<dyn Link>,
        _rate: Bitrate,
        _scheduler: &Scheduler,
    ) -> Result<Arc<dyn Link>> {
        Ok(default)
    }
}

/// The components of `openuvr host`, without replacements.
pub struct DefaultParts;

impl HostParts for DefaultParts {}
