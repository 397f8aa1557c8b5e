//! Authentication: passwords with their rate limits, and the secrets of browsers.

mod devices;
mod limiter;
mod login_attempts;
mod password;
mod secret;

pub(crate) use self::devices::{Devices, LIFE as DEVICE_LIFE};
pub(crate) use self::limiter::AttemptSource;
pub(crate) use self::login_attempts::{AttemptRefused, LoginAttempts};
pub(crate) use self::password::{PasswordError, Passwords, hash, random_password};
pub(crate) use self::secret::Secret;
