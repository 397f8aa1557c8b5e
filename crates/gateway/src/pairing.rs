//! Pairing of a client that shows a PIN, such as Moonlight's: a player enters it on the page. The service that such a
//! client contacted implements [`PinEntry`]; the gateway only carries its questions and answers.

use std::net::IpAddr;

/// A service for other clients, as the page shows it to players.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Service {
    /// Its name.
    pub name: &'static str,
    /// The address that users enter in their client; `None`: the page's.
    pub address: Option<IpAddr>,
    /// Its TCP port.
    pub port: u16,
}

/// Clients that wait for their PIN. Called by any thread.
pub trait PinEntry: Send + Sync {
    /// The service for these clients.
    fn service(&self) -> Service;

    /// The client that waits, for the user; `None`: none does. Does not block.
    fn waiting(&self) -> Option<String>;

    /// Pairs the waiting client by the PIN that it shows. Blocks until the client has proved it, at most a minute.
    ///
    /// # Errors
    /// The reason, one line for the user.
    fn pair(&self, pin: &str, name: Option<&str>) -> Result<String, String>;
}
