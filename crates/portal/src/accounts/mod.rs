//! Who may log in: passwords and how often they may be wrong, and the secrets of browsers.

mod limiter;
mod password;
mod secret;

pub(crate) use self::limiter::Limiter;
pub(crate) use self::password::{Passwords, hash, random_password};
pub(crate) use self::secret::Secret;
