//! The portal's database: accounts, log-ins, the signing key, past sessions. The current sessions are not in the
//! database; only the engine knows them.
//!
//! The database is SQLite in a file, or PostgreSQL if several portals share it. All SQL statements are valid in SQLite
//! and in PostgreSQL.

mod attempts;
mod file;
mod history;
mod keys;
mod logins;
mod schema;
mod users;

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use sqlx::any::{AnyConnectOptions, AnyPoolOptions};
use sqlx::{AnyConnection, AnyPool, Connection as _, Executor as _};

use self::file::DatabaseFile;
pub(crate) use self::history::{LaunchOwner, PastSession};
pub(crate) use self::logins::Login;
pub(crate) use self::users::{Account, MAX_NAME, User};

/// Timeout for getting a connection to the database. It is longer than SQLite's wait for another writer, which is 5 s.
const TIMEOUT: Duration = Duration::from_secs(8);

/// Maximum number of connections; a guess: SQLite has only one writer at a time in any case.
const CONNECTIONS: u32 = 8;

/// Why a database operation failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError {
    /// The database cannot be opened.
    #[error("cannot open the database {at}: {why}")]
    Open { at: String, why: sqlx::Error },
    /// SQLite cannot write to the disk.
    #[error("cannot open the database {at}: {why}: check that its disk has space")]
    Full { at: String, why: String },
    /// The database is PostgreSQL, but this program was built without support for PostgreSQL.
    #[error(
        "cannot open the database {at}: this portal was built without PostgreSQL; build it with `--features postgres`"
    )]
    WithoutPostgres { at: String },
    /// The file or its folder is not usable.
    #[error("cannot open the database: {}: {why}", path.display())]
    Unusable { path: PathBuf, why: String },
    /// The file exists and is empty.
    #[error(
        "the database {} is empty: restore a backup, or remove the file to start without accounts",
        .0.display()
    )]
    Empty(PathBuf),
    /// The file is not a database, or is corrupt.
    #[error(
        "the database {at} is damaged ({why}): restore a backup, or move the file away to start without accounts"
    )]
    Damaged { at: String, why: String },
    /// The file was deleted or replaced.
    #[error(
        "the database {} was deleted or replaced: changes are lost. Restore the file and restart the portal",
        .0.display()
    )]
    Gone(PathBuf),
    /// A newer version of the program created the database.
    #[error("the database has version {have}, but this program supports versions up to {known}: {remedy}", known = schema::VERSION)]
    Newer { have: i64, remedy: String },
    /// The database could not be copied before an upgrade of its tables.
    #[error(
        "cannot copy the database to {} before its upgrade: {why}; the database is unchanged. Check that the disk \
         has space, then start the portal again",
        path.display()
    )]
    NotCopied { path: PathBuf, why: String },
    /// The account exists.
    #[error("the account {0:?} already exists")]
    Exists(String),
    /// The provider's user is already linked to another account.
    #[error("this user of the provider already has the account {0:?}")]
    Linked(String),
    /// Invalid account name.
    #[error(
        "{0:?} is not a valid account name: use at most {MAX_NAME} letters, digits, . _ @ and -, and begin with a \
         letter or digit"
    )]
    Name(String),
    /// The database does not execute a request, for example because it is locked, full, corrupt or unreachable.
    #[error("a database request failed: {0}")]
    Failed(sqlx::Error),
}

/// The original error is not the `source` of the new one, because the message already contains it.
impl From<sqlx::Error> for StoreError {
    fn from(why: sqlx::Error) -> StoreError {
        StoreError::Failed(why)
    }
}

impl StoreError {
    /// A short form of the message without details, which all clients may see.
    pub(crate) fn for_all(&self) -> &'static str {
        match self {
            StoreError::Gone(_) => "the database's file was deleted or replaced",
            _ => "the database does not respond",
        }
    }
}

/// The database. Clones share it.
#[derive(Clone)]
pub(crate) struct Store {
    pool: AnyPool,
    /// The database file; `None` for PostgreSQL.
    file: Option<DatabaseFile>,
    /// The path of the file, or the part of the URL without the password.
    at: String,
}

#[derive(Clone, Debug)]
pub(crate) enum DatabaseLocation<'a> {
    /// SQLite, in this file.
    File(&'a Path),
    /// PostgreSQL, at this URL.
    Url(&'a str),
}

impl Store {
    /// Opens the database, and upgrades its tables to this program's version. An SQLite database is copied before the
    /// upgrade.
    pub(crate) async fn open(place: DatabaseLocation<'_>) -> Result<Store, StoreError> {
        sqlx::any::install_default_drivers();
        let (url, at) = match place {
            DatabaseLocation::File(path) => (url_of(path)?, path.display().to_string()),
            // Messages contain only the part after the `@`, without the password.
            DatabaseLocation::Url(url) => (
                url.to_owned(),
                url.rsplit_once('@')
                    .map_or("given", |(_, at)| at)
                    .to_owned(),
            ),
        };
        if cfg!(not(feature = "postgres")) && matches!(place, DatabaseLocation::Url(_)) {
            return Err(StoreError::WithoutPostgres { at });
        }
        let failed = |error: sqlx::Error| {
            let at = at.clone();
            match sqlite_error(&error) {
                Some((code, why)) if DAMAGED.contains(&(code & 0xff)) => {
                    StoreError::Damaged { at, why }
                }
                Some((code, why)) if FULL.contains(&code) => StoreError::Full { at, why },
                _ => StoreError::Open { at, why: error },
            }
        };
        let options: AnyConnectOptions = url.parse().map_err(failed)?;
        let file = match place {
            DatabaseLocation::File(path) => Some(DatabaseFile::prepare(path)?),
            DatabaseLocation::Url(_) => None,
        };
        let sqlite = file.is_some();
        if let Some(file) = &file {
            // The first connection is opened without the pool: the pool would retry after permanent failures until its
            // timeout, and hide the reason.
            let first = async {
                let mut first = AnyConnection::connect_with(&options).await?;
                first.execute(PRAGMAS).await?;
                first.close().await
            };
            first.await.map_err(|why| {
                file.remove_if_empty();
                failed(why)
            })?;
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
        let migrated = schema::migrate(&pool, file.as_ref()).await;
        migrated.map_err(|why| match why {
            StoreError::Failed(why) => failed(why),
            why => why,
        })?;
        Ok(Store { pool, file, at })
    }

    /// The location of the database for messages, without a password.
    pub(crate) fn location(&self) -> &str {
        &self.at
    }

    /// Checks that the database accepts writes, and that its file has not been replaced since it was opened.
    pub(crate) async fn check(&self) -> Result<(), StoreError> {
        self.file.as_ref().map_or(Ok(()), DatabaseFile::check)?;
        // The check writes, because reads succeed even with a full disk, a lock or a read-only file system.
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

/// The bytes of a path that are percent-encoded in a URL: all except the slash and the unreserved characters of
/// RFC 3986, section 2.3.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'/')
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// The URL of a database file, whose folder must exist. Bytes that have a meaning in a URL are percent-encoded, and the
/// folder's path is canonical. Otherwise, SQLite would open a different file from the one that the portal has prepared.
fn url_of(path: &Path) -> Result<String, StoreError> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let canonical = folder.canonicalize().map_err(|why| StoreError::Unusable {
        path: folder.to_owned(),
        why: why.to_string(),
    })?;
    let file = canonical.join(path.file_name().unwrap_or_default());
    let encoded = percent_encode(file.as_os_str().as_encoded_bytes(), RESERVED);
    Ok(format!("sqlite://{encoded}?mode=rwc"))
}

/// Settings of each SQLite connection. With them, readers do not wait for a writer, and committed changes survive a
/// power loss.
const PRAGMAS: &str = "PRAGMA busy_timeout = 5000; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; \
                       PRAGMA foreign_keys = ON";

/// SQLite's errors for an unreadable file, without the upper bits of extended codes: SQLITE_CORRUPT and SQLITE_NOTADB.
const DAMAGED: [u32; 2] = [11, 26];

/// SQLite's errors on a full disk: SQLITE_FULL, SQLITE_IOERR_WRITE, SQLITE_IOERR_SHMOPEN and SQLITE_IOERR_SHMSIZE. The
/// last two occur when a program opens a database.
const FULL: [u32; 4] = [13, 10 | 3 << 8, 10 | 18 << 8, 10 | 19 << 8];

/// The extended result code and the message of an error of SQLite; `None` for other errors.
fn sqlite_error(error: &sqlx::Error) -> Option<(u32, String)> {
    let sqlx::Error::Database(database) = error else {
        return None;
    };
    let code = database.code()?.parse().ok()?;
    Some((code, database.message().to_owned()))
}

/// Seconds since 1970 by the system clock.
pub(crate) fn now() -> i64 {
    seconds(SystemTime::now())
}

pub(crate) fn seconds(at: SystemTime) -> i64 {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[tokio::test]
    async fn the_name_of_the_folder_may_have_any_characters() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("50%41? #1 d\u{e4}t");
        fs::create_dir(&data).unwrap();
        let file = data.join("portal.sqlite");
        let store = Store::open(DatabaseLocation::File(&file)).await.unwrap();
        store.pool.close().await;
        assert!(fs::metadata(&file).unwrap().len() > 0);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
