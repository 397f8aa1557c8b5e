//! All sessions of a host.

use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use openuvr_proto::control::identity::PublicKey;
use openuvr_runtime::lock::lock;

use super::{PING_WORDS, Session};

/// Maximum concurrent sessions (a guess: more than the devices with which a household watches one application).
pub const MAX_SESSIONS: usize = 8;

/// Time of silence after which the client of a playing session counts as lost. The client sends a message ten times a
/// second (`PERIODIC_PING_INTERVAL_MS` of moonlight-common-c), and its own limit is 10 s.
const SILENCE: Duration = Duration::from_secs(10);

/// The corresponding limit for a session that is not playing yet. The steps from `launch` to PLAY take a few round
/// trips.
const SET_UP: Duration = Duration::from_secs(60);

/// The sessions.
#[derive(Debug, Default)]
pub struct Sessions(Mutex<Vec<Arc<Session>>>);

impl Sessions {
    /// Adds a session. Returns the device's earlier session, if any, which is replaced and must be ended. `Err` if
    /// [`MAX_SESSIONS`] other devices have a session.
    pub fn add(&self, session: Arc<Session>) -> Result<Option<Arc<Session>>, Arc<Session>> {
        let mut all = lock(&self.0);
        let before = all
            .iter()
            .position(|other| other.owner.device == session.owner.device)
            .map(|at| all.remove(at));
        if before.is_none() && all.len() >= MAX_SESSIONS {
            return Err(session);
        }
        all.push(session);
        Ok(before)
    }

    /// The session of a device.
    #[must_use]
    pub fn of_device(&self, device: &PublicKey) -> Option<Arc<Session>> {
        self.find(|session| session.owner.device == *device)
    }

    /// The sessions launched from an address, newest first.
    #[must_use]
    pub fn from_address(&self, address: IpAddr) -> Vec<Arc<Session>> {
        let all = lock(&self.0);
        let of_it = all.iter().rev().filter(|s| s.owner.address == address);
        of_it.cloned().collect()
    }

    /// Whether there is a session from an address.
    #[must_use]
    pub fn is_known(&self, address: IpAddr) -> bool {
        lock(&self.0).iter().any(|s| s.owner.address == address)
    }

    /// The session whose client pings with this token from this address.
    #[must_use]
    pub fn of_ping(&self, words: &[u8; PING_WORDS], address: IpAddr) -> Option<Arc<Session>> {
        self.find(|session| session.ping == *words && session.owner.address == address)
    }

    /// The session whose client presents this number from this address.
    #[must_use]
    pub fn of_connection(&self, connect_data: u32, address: IpAddr) -> Option<Arc<Session>> {
        self.find(|s| s.connect_data == connect_data && s.owner.address == address)
    }

    /// Removes a session.
    pub fn remove(&self, session: &Arc<Session>) {
        lock(&self.0).retain(|other| !Arc::ptr_eq(other, session));
    }

    /// All sessions.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<Session>> {
        lock(&self.0).clone()
    }

    /// Removes and returns the sessions whose clients are gone.
    #[must_use]
    pub fn lost(&self, now: Instant) -> Vec<Arc<Session>> {
        let is_lost = |session: &mut Arc<Session>| {
            let limit = if session.plays() { SILENCE } else { SET_UP };
            now.saturating_duration_since(session.last_message()) > limit
        };
        lock(&self.0).extract_if(.., is_lost).collect()
    }

    fn find(&self, is: impl Fn(&Session) -> bool) -> Option<Arc<Session>> {
        lock(&self.0).iter().find(|session| is(session)).cloned()
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, UdpSocket};

    use super::*;
    use crate::session::{Launch, Mode, Owner};

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn session(device: u8) -> Arc<Session> {
        let owner = Owner {
            device: PublicKey([device; 32]),
            title: "Phone".to_owned(),
            address: HERE,
        };
        let launch = Launch {
            application: Some(1),
            mode: Some(Mode::USUAL),
            key: [device; 16].into(),
            key_id: 0,
            seals_rtsp: true,
        };
        let socket = Arc::new(UdpSocket::bind((HERE, 0)).unwrap());
        let sockets = (socket.clone(), socket);
        Arc::new(Session::new(owner, launch, (1, Mode::USUAL), sockets).unwrap())
    }

    #[test]
    fn a_replaced_session_leaves_the_others_in_order() {
        let sessions = Sessions::default();
        for device in [1, 2, 3, 1] {
            sessions.add(session(device)).unwrap();
        }
        let newest_first = sessions.from_address(HERE);
        let devices = newest_first.iter().map(|session| session.owner.device);
        assert_eq!(
            devices.collect::<Vec<_>>(),
            [1, 3, 2].map(|device| PublicKey([device; 32]))
        );
    }
}
