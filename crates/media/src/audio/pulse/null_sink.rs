//! A null sink. The sound of an application that plays to the sink is recorded, but not audible on the machine.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use super::NAME;
use super::sys::Connection;
use crate::audio::{AudioError, RATE};

const MODULE: &str = "module-null-sink";

/// Prefix of the names of our sinks. The PID namespace's number, the process ID in it, and the
/// sink's number follow.
const PREFIX: &str = "openuvr_";

/// A sink that exists as long as this value. An application plays to the sink if its environment variable `PULSE_SINK`
/// contains the sink's name.
pub struct NullSink {
    connection: Connection,
    module: u32,
    name: String,
}

impl NullSink {
    /// Creates a sink on `server` (`None`: `$PULSE_SERVER`, or the session's server), and removes
    /// sinks left by killed processes of this program.
    ///
    /// # Errors
    /// [`AudioError`] if libpulse or the server is missing, or if the server refuses.
    pub fn create(server: Option<&str>) -> Result<NullSink, AudioError> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let mut connection = Connection::open(server, NAME)?;
        for (module, argument) in connection.modules(MODULE)? {
            if let Some(owner) = Owner::of(&argument).filter(|owner| !owner.lives()) {
                tracing::info!(process = owner.process, "removing a leftover sound sink");
                connection.unload_module(module)?;
            }
        }
        let owner = Owner::this();
        let (namespace, process) = (owner.namespace, owner.process);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}{namespace}_{process}_{number}");
        let argument = format!(
            "sink_name={name} format=float32le rate={RATE} channels=2 \
             sink_properties=device.description={NAME}"
        );
        // Until a client requests a lower latency, the sink renders ahead of time: up to 2 s, or up to 50 ms without
        // rewinding. Samples rendered ahead are missing in the sink's monitor at the start of a stream. `norewinds` is
        // available since PulseAudio 15.
        let prompt = format!("{argument} norewinds=1");
        let module = (connection.load_module(MODULE, &prompt))
            .or_else(|_| connection.load_module(MODULE, &argument))?;
        Ok(NullSink {
            connection,
            module,
            name,
        })
    }

    /// The connection over which the sink's modules are loaded and unloaded.
    pub(super) fn connection(&mut self) -> &mut Connection {
        &mut self.connection
    }

    /// The sink's name: the value for `PULSE_SINK`, and the device of the capture.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for NullSink {
    fn drop(&mut self) {
        if let Err(error) = self.connection.unload_module(self.module) {
            tracing::debug!("the sound sink {} was not removed: {error}", self.name);
        }
    }
}

/// The process that created a sink.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Owner {
    /// The PID namespace of the process ID; 0 if unknown.
    namespace: u64,
    process: u32,
}

impl Owner {
    fn this() -> Owner {
        Owner {
            namespace: namespace(),
            process: std::process::id(),
        }
    }

    /// Parses the owner from a module's argument, if the sink was created by this program.
    fn of(argument: &str) -> Option<Owner> {
        let mut words = argument.split_whitespace();
        let name = words.find_map(|word| word.strip_prefix("sink_name="))?;
        let mut parts = name.strip_prefix(PREFIX)?.split('_');
        let owner = Owner {
            namespace: parts.next()?.parse().ok()?,
            process: parts.next()?.parse().ok()?,
        };
        parts.next()?.parse::<u32>().ok()?;
        parts.next().is_none().then_some(owner)
    }

    /// Whether the process may exist. Processes of other namespaces can't be queried, so they count as existing.
    fn lives(self) -> bool {
        self.namespace != namespace() || Path::new(&format!("/proc/{}", self.process)).exists()
    }
}

/// The number of this process's PID namespace (namespaces(7)).
fn namespace() -> u64 {
    let link = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    let digits = link.to_string_lossy();
    let digits = digits.trim_start_matches("pid:[").trim_end_matches(']');
    digits.parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sinks_of_dead_processes_are_removed() {
        let this = Owner::this();
        let (namespace, process) = (this.namespace, this.process);
        let argument = format!("sink_name=openuvr_{namespace}_{process}_3 rate=48000");
        assert_eq!(Owner::of(&argument), Some(this));
        assert!(this.lives());
        // Above the maximum process ID of Linux.
        let dead = Owner::of(&format!("rate=1 sink_name=openuvr_{namespace}_4194305_0")).unwrap();
        assert!(!dead.lives());
        assert!(
            Owner::of("sink_name=openuvr_1_4194305_0").unwrap().lives(),
            "elsewhere"
        );
        for other in [
            "",
            "sink_name=game",
            "sink_name=openuvr_x_1_0",
            "sink_name=openuvr_1_2",
        ] {
            assert_eq!(Owner::of(other), None, "{other}");
        }
    }
}
