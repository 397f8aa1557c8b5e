//! The portal's database: accounts, log-ins, the key of tickets, what sessions there were. Not what sessions there
//! are: that is known to the engine alone.
//!
//! SQLite in a file, or PostgreSQL by its URL where several portals share one. All statements are understood by
//! both.

mod attempts;
mod file;
mod history;
mod keys;
mod logins;
mod schema;
mod users;

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sqlx::any::{AnyConnectOptions, AnyPoolOptions};
use sqlx::{AnyConnection, AnyPool, Connection as _, Executor as _};

use self::file::DatabaseFile;
pub(crate) use self::history::{LaunchOwner, PastSession};
pub(crate) use self::logins::Login;
pub(crate) use self::users::{Account, MAX_NAME, User};

/// How long a request waits for the database before it says so. Longer than SQLite lets one writer wait for
/// another, which is 5 s.
const TIMEOUT: Duration = Duration::from_secs(8);

/// Connections at a time; a guess: SQLite writes one at a time in any case.
const CONNECTIONS: u32 = 8;

/// Why the database did not do it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError {
    /// It can't be opened.
    #[error("the database {at} can't be opened: {why}")]
    Open { at: String, why: sqlx::Error },
    /// The file or its folder is not to be used.
    #[error("the database can't be opened: {}: {why}", path.display())]
    Unusable { path: PathBuf, why: String },
    /// The file is there, and has nothing in it.
    #[error(
        "the database {} is empty: restore a copy of it, or remove it to begin without accounts",
        .0.display()
    )]
    Empty(PathBuf),
    /// The file holds something else, or is broken.
    #[error(
        "the database {at} is damaged ({why}): restore a copy of it, or move it away to begin without accounts"
    )]
    Damaged { at: String, why: String },
    /// The file was deleted, or another took its place.
    #[error(
        "the database {} was deleted or replaced: what is written now is lost. Put it back, and start the portal anew",
        .0.display()
    )]
    Gone(PathBuf),
    /// It was made by a newer program.
    #[error("the database has version {0}, and this program knows {known}: install the newer one", known = schema::VERSION)]
    Newer(i64),
    /// There is an account of this name.
    #[error("there is an account {0:?} already")]
    Exists(String),
    /// The person of the provider has another account.
    #[error("that person of the provider has the account {0:?} already")]
    Linked(String),
    /// Such a name is none.
    #[error("{0:?} is no name of an account: letters, digits, . _ @ and -, {MAX_NAME} at most")]
    Name(String),
    /// It is locked, full, damaged or gone.
    #[error("the database does not answer: {0}")]
    Failed(sqlx::Error),
}

/// Not as its source: its text has all that it says.
impl From<sqlx::Error> for StoreError {
    fn from(why: sqlx::Error) -> StoreError {
        StoreError::Failed(why)
    }
}

impl StoreError {
    /// What everybody may know of it.
    pub(crate) fn for_all(&self) -> &'static str {
        match self {
            StoreError::Gone(_) => "the database's file was deleted or replaced",
            _ => "the database does not answer",
        }
    }
}

/// The database. Clones are the same.
#[derive(Clone)]
pub(crate) struct Store {
    pool: AnyPool,
    /// Where it is a file.
    file: Option<DatabaseFile>,
}

/// Where it is.
#[derive(Clone, Debug)]
pub(crate) enum DatabaseLocation<'a> {
    /// SQLite, in this file.
    File(&'a Path),
    /// PostgreSQL, at this URL.
    Url(&'a str),
}

impl Store {
    /// Opens it, and brings its tables to this program's version.
    pub(crate) async fn open(place: DatabaseLocation<'_>) -> Result<Store, StoreError> {
        sqlx::any::install_default_drivers();
        let (url, at) = match place {
            DatabaseLocation::File(path) => (
                format!("sqlite://{}?mode=rwc", path.display()),
                path.display().to_string(),
            ),
            // Without what may be a password.
            DatabaseLocation::Url(url) => (
                url.to_owned(),
                url.rsplit_once('@')
                    .map_or("given", |(_, at)| at)
                    .to_owned(),
            ),
        };
        let failed = |why: sqlx::Error| match is_damage(&why) {
            Some(why) => StoreError::Damaged {
                at: at.clone(),
                why,
            },
            None => StoreError::Open {
                at: at.clone(),
                why,
            },
        };
        let options: AnyConnectOptions = url.parse().map_err(failed)?;
        let file = match place {
            DatabaseLocation::File(path) => Some(DatabaseFile::prepare(path)?),
            DatabaseLocation::Url(_) => None,
        };
        let sqlite = file.is_some();
        if sqlite {
            // A pool tries again what can't succeed, until its patience is over, and does not say what failed.
            let mut first = AnyConnection::connect_with(&options)
                .await
                .map_err(failed)?;
            first.execute(PRAGMAS).await.map_err(failed)?;
            first.close().await.map_err(failed)?;
        }
        let pool = AnyPoolOptions::new()
            .max_connections(CONNECTIONS)
            .acquire_timeout(TIMEOUT)
            .after_connect(move |connection, _| {
                Box::pin(async move {
                    if sqlite {
                        connection.execute(PRAGMAS).await?;
                    }
                    Ok(())
                })
            })
            .connect_with(options)
            .await
            .map_err(failed)?;
        let migrated = schema::migrate(&pool, sqlite).await;
        migrated.map_err(|why| match why {
            StoreError::Failed(why) => failed(why),
            why => why,
        })?;
        Ok(Store { pool, file })
    }

    /// Whether it takes what is written, and is still the one that was opened.
    pub(crate) async fn check(&self) -> Result<(), StoreError> {
        self.file.as_ref().map_or(Ok(()), DatabaseFile::check)?;
        // A full disk, a lock and a file system that has become read-only let reads pass.
        sqlx::query(
            "INSERT INTO keys (name, value) VALUES ('checked', $1)
             ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        )
        .bind(now().to_string())
        .execute(&self.pool)
        .await?;
        Ok(())
    }
}

/// What each connection to SQLite is told: readers don't wait for a writer, and what was answered stays after a loss
/// of power.
const PRAGMAS: &str = "PRAGMA busy_timeout = 5000; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; \
                       PRAGMA foreign_keys = ON";

/// What SQLite says of a file that it can't read: SQLITE_CORRUPT (11) with its kinds, and SQLITE_NOTADB (26).
fn is_damage(why: &sqlx::Error) -> Option<String> {
    let sqlx::Error::Database(database) = why else {
        return None;
    };
    let code: u32 = database.code()?.parse().ok()?;
    matches!(code & 0xff, 11 | 26).then(|| database.message().to_owned())
}

/// Seconds since 1970 by the clock of the world.
pub(crate) fn now() -> i64 {
    seconds(SystemTime::now())
}

pub(crate) fn seconds(at: SystemTime) -> i64 {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}
