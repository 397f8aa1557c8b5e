//! Captures a relay's traffic at both ends of its link, on one clock. `openuvr lab traffic` can recover the link's
//! delays and losses from the two captures.
//!
//! The captured datagrams carry the addresses of client and target, as if there were no relay.

use std::fs::File;
use std::io::{self, BufWriter};
use std::net::SocketAddr;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use openuvr_proto::time::Instant;
use openuvr_sim::medium::Direction;
use openuvr_testbed::hop::{End, Observer};

use super::write::CaptureWriter;

/// The two captures that are being written.
#[derive(Debug)]
pub struct LinkCaptures {
    target: SocketAddr,
    /// Time at which the hop's clock starts, in nanoseconds since 1970.
    origin: u64,
    host: CaptureWriter<BufWriter<File>>,
    client: CaptureWriter<BufWriter<File>>,
    /// Number of datagrams that could not be written.
    unwritten: u64,
}

impl LinkCaptures {
    /// Creates the captures in a folder: first the target's end, then the client's end. Creates the folder if it does
    /// not exist. `target` is the address to which the relay forwards. The captures name `application` as the program
    /// that wrote them.
    ///
    /// # Errors
    /// Returns an error if the files cannot be created.
    pub fn create(
        folder: &Path,
        [host, client]: [&str; 2],
        target: SocketAddr,
        application: &str,
    ) -> io::Result<LinkCaptures> {
        std::fs::create_dir_all(folder)?;
        let create = |name: &str| {
            let file = BufWriter::new(File::create(folder.join(name))?);
            CaptureWriter::new(file, application)
        };
        Ok(LinkCaptures {
            target,
            origin: 0,
            host: create(host)?,
            client: create(client)?,
            unwritten: 0,
        })
    }
}

impl Observer for LinkCaptures {
    fn start_clock(&mut self) {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let nanos = since.map_or(0, |since| since.as_nanos());
        self.origin = u64::try_from(nanos).unwrap_or(0);
    }

    fn record(
        &mut self,
        at: Instant,
        end: End,
        direction: Direction,
        client: SocketAddr,
        bytes: &[u8],
    ) {
        let nanos = at.since(Instant(0)).as_nanos();
        let at = self.origin + u64::try_from(nanos).unwrap_or(0);
        let ends = match direction {
            Direction::Up => (client, self.target),
            Direction::Down => (self.target, client),
        };
        let writer = match end {
            End::Host => &mut self.host,
            End::Client => &mut self.client,
        };
        self.unwritten += u64::from(writer.udp(at, ends, bytes).is_err());
    }

    fn finish(self: Box<Self>) -> io::Result<u64> {
        self.host.finish()?;
        self.client.finish()?;
        Ok(self.unwritten)
    }
}
