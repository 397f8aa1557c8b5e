//! Who may log in: passwords and how often they may be wrong, and the secrets of browsers.

mod devices;
mod limiter;
mod password;
mod secret;
mod tries;

pub(crate) use self::devices::{Devices, LIFE as DEVICE_LIFE};
pub(crate) use self::limiter::Who;
pub(crate) use self::password::{PasswordError, Passwords, hash, random_password};
pub(crate) use self::secret::Secret;
pub(crate) use self::tries::{NotNow, Tries};
