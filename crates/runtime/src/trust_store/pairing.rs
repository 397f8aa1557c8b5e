//! Requests to running hosts for a pairing window. `openuvr devices pair` writes a request to the trust folder. Each
//! host that uses this folder opens its pairing window and records this in the file.
//!
//! The PIN is in the file (mode 0600, next to the keys) until the request is withdrawn some seconds later.

use std::path::Path;
use std::time::Duration;

use openuvr_clock as clock;
use openuvr_proto::control::pairing::Pin;
use serde::{Deserialize, Serialize};

use super::{DeviceStore, TrustFile};
use crate::store::StoreError;

/// The file name.
const FILE: &str = "pairing.toml";

/// The longest pairing window.
pub const MAX_WINDOW: Duration = Duration::from_hours(1);

/// Maximum requests in the file, and maximum processes that answer a request (guesses: a user makes one request at a
/// time).
const MAX_REQUESTS: usize = 16;
/// See [`MAX_REQUESTS`].
const MAX_ANSWERS: usize = 64;

/// `pairing.toml`.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Requests {
    request: Vec<Request>,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    id: String,
    pin: String,
    /// The window's duration.
    seconds: u64,
    /// When the request expires, in seconds since 1970.
    until: u64,
    /// The process ids of the hosts that have opened a window.
    opened: Vec<u32>,
}

/// A submitted request.
#[derive(Debug)]
pub struct PairingRequest {
    file: TrustFile,
    id: String,
}

impl PairingRequest {
    /// Requests a window of `span` with this PIN from all hosts that use the folder `dir`. `now` is in seconds since
    /// 1970.
    ///
    /// # Errors
    /// [`StoreError`] if the file cannot be changed.
    pub fn submit(
        dir: &Path,
        pin: &Pin,
        span: Duration,
        now: u64,
    ) -> Result<PairingRequest, StoreError> {
        // The id is unique among the few requests in a file, and is not a secret.
        let id = format!("{}-{}", std::process::id(), clock::now().0);
        let mut file = TrustFile::new(dir, FILE);
        file.change(|all: &mut Requests| {
            all.request.retain(|old| old.until > now);
            if all.request.len() >= MAX_REQUESTS {
                all.request.remove(0);
            }
            all.request.push(Request {
                id: id.clone(),
                pin: pin.to_string(),
                seconds: span.as_secs(),
                until: now.saturating_add(span.as_secs()),
                opened: Vec::new(),
            });
            Ok(())
        })?;
        Ok(PairingRequest { file, id })
    }

    /// The processes that have opened a window so far.
    ///
    /// # Errors
    /// [`StoreError`] if the file cannot be read.
    pub fn opened(&self) -> Result<Vec<u32>, StoreError> {
        let all: Requests = self.file.parse()?;
        let mut ours = all.request.into_iter().filter(|one| one.id == self.id);
        Ok(ours.next().map(|ours| ours.opened).unwrap_or_default())
    }

    /// Withdraws the request. Open windows stay open.
    ///
    /// # Errors
    /// [`StoreError`] if the file cannot be changed.
    pub fn withdraw(mut self) -> Result<(), StoreError> {
        let id = self.id;
        self.file.change(|all: &mut Requests| {
            all.request.retain(|one| one.id != id);
            Ok(())
        })
    }
}

/// A host's view of the requests.
#[derive(Clone, Debug)]
pub struct PairingRequests {
    file: TrustFile,
    /// The ids of requests that have already been handled, or are older than this host.
    seen: Vec<String>,
}

/// A requested pairing window.
#[derive(Debug)]
pub struct RequestedWindow {
    /// The id to pass to [`PairingRequests::opened`].
    pub id: String,
    /// The PIN.
    pub pin: Pin,
    /// The window's duration.
    pub span: Duration,
}

impl DeviceStore {
    /// Watches for requests for pairing windows in this store's folder. Existing requests are ignored.
    #[must_use]
    pub fn pairing_requests(&self) -> PairingRequests {
        let file = TrustFile::new(&self.file.dir, FILE);
        let before: Result<Requests, _> = file.parse();
        let before = before.unwrap_or_default().request.into_iter();
        PairingRequests {
            file,
            seen: before.map(|request| request.id).collect(),
        }
    }
}

impl PairingRequests {
    /// The newest request since the last call that has not expired at `now`, in seconds since 1970. Each request is
    /// returned at most once. If the file has not changed, a call costs one `stat`.
    ///
    /// # Errors
    /// [`StoreError`]. `StoreError::Corrupt` is returned once per version of the file.
    pub fn poll(&mut self, now: u64) -> Result<Option<RequestedWindow>, StoreError> {
        let Some(found) = self.file.read_if_changed::<Requests>()? else {
            return Ok(None);
        };
        let mut requested = None;
        let fresh = |one: &&Request| !self.seen.contains(&one.id) && one.until > now;
        if let Some(request) = found.request.iter().rfind(fresh)
            && let Ok(pin) = Pin::parse(&request.pin)
        {
            requested = Some(RequestedWindow {
                id: request.id.clone(),
                pin,
                span: Duration::from_secs(request.seconds).min(MAX_WINDOW),
            });
        }
        let all = found.request.into_iter().take(MAX_REQUESTS);
        self.seen = all.map(|request| request.id).collect();
        Ok(requested)
    }

    /// Records that this process has opened the window.
    ///
    /// # Errors
    /// [`StoreError`] if the file cannot be changed.
    pub fn opened(&mut self, id: &str) -> Result<(), StoreError> {
        self.file.change(|all: &mut Requests| {
            let request = all.request.iter_mut().find(|one| one.id == id);
            if let Some(request) = request.filter(|request| request.opened.len() < MAX_ANSWERS) {
                request.opened.push(std::process::id());
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::tests::private_folder;

    const SPAN: Duration = Duration::from_secs(120);

    fn pin() -> Pin {
        Pin::parse("271828").unwrap()
    }

    #[test]
    fn each_running_host_gets_a_request_once() {
        let dir = private_folder();
        let store = DeviceStore::open(dir.path()).unwrap();
        let (mut one, mut other) = (store.pairing_requests(), store.pairing_requests());
        assert!(one.poll(1000).unwrap().is_none());
        let request = PairingRequest::submit(dir.path(), &pin(), SPAN, 1000).unwrap();
        for host in [&mut one, &mut other] {
            let requested = host.poll(1001).unwrap().unwrap();
            assert_eq!((requested.pin, requested.span), (pin(), SPAN));
            host.opened(&requested.id).unwrap();
            assert!(host.poll(1001).unwrap().is_none());
        }
        assert_eq!(request.opened().unwrap(), [std::process::id(); 2]);
        // A host started later ignores the request.
        assert!(store.pairing_requests().poll(1002).unwrap().is_none());
        request.withdraw().unwrap();
        assert!(one.poll(1002).unwrap().is_none());
        let text = std::fs::read_to_string(dir.path().join(FILE)).unwrap();
        assert!(!text.contains("271828"), "{text}");
    }

    #[test]
    fn an_expired_or_damaged_request_opens_nothing() {
        let dir = private_folder();
        let store = DeviceStore::open(dir.path()).unwrap();
        let mut host = store.pairing_requests();
        let request = PairingRequest::submit(dir.path(), &pin(), SPAN, 1000).unwrap();
        assert!(host.poll(1120).unwrap().is_none());
        assert_eq!(request.opened().unwrap(), [0_u32; 0]);
        let path = dir.path().join(FILE);
        let text = std::fs::read_to_string(&path).unwrap();
        for bad in [
            "",
            "request = 1",
            &text.replace("271828", "27"),
            &text[..text.len() / 2],
        ] {
            std::fs::write(&path, bad).unwrap();
            let mut host = store.pairing_requests();
            host.seen.clear();
            assert!(!matches!(host.poll(1001), Ok(Some(_))), "{bad}");
        }
        // A damaged file is reported to the user.
        let why = PairingRequest::submit(dir.path(), &pin(), SPAN, 1000).unwrap_err();
        assert!(why.to_string().contains("pairing.toml"), "{why}");
    }
}
