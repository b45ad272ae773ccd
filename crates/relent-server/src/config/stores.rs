//! Where tasks wait: which store a URL names, what it is told, and opening it.
//!
//! A URL may hold a password. It is kept in a type that never shows it. REQ-S7.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use relent_store::{
    Assurance, ConnectError, Copying, Finding, MemoryStore, Migrated, OpenError, PostgresOptions,
    PostgresStore, RedisConnectError, RedisOptions, RedisStore, Severity, SqliteOptions,
    SqliteStore, Store,
};

/// Where tasks wait, and what the store is told.
#[derive(Clone, Debug)]
pub struct StoreConfig {
    /// Which store.
    pub place: StorePlace,
    /// Whether a store is used that is set up so that it may lose acknowledged tasks.
    pub allow_unsafe: bool,
    /// What the embedded store is told.
    pub sqlite: SqliteOptions,
    /// What a store on PostgreSQL is told.
    pub postgres: PostgresOptions,
    /// What a store on Redis is told.
    pub redis: RedisOptions,
}

/// Which store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StorePlace {
    /// The embedded one, in this directory.
    Sqlite(PathBuf),
    /// In a database of PostgreSQL, for many nodes.
    Postgres(StoreUrl),
    /// In a Redis or a Redis Cluster, for many nodes.
    Redis(StoreUrl),
    /// In memory, for trials: nothing is kept.
    Memory,
}

/// A URL that may hold a password, which is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct StoreUrl(String);

/// What a store's URL may be.
pub(super) const EXPECTED: &str = "\"sqlite:\" (in the data directory), \"sqlite:DIRECTORY\", \
     \"postgres://…\", \"redis://…\" (rediss, redis+cluster, rediss+cluster, redis+unix) or \
     \"memory:\" (for trials)";

/// Why a store cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenStoreError {
    /// The embedded store cannot be opened.
    #[error(transparent)]
    Sqlite(#[from] OpenError),
    /// PostgreSQL cannot be used.
    #[error(transparent)]
    Postgres(#[from] ConnectError),
    /// Redis cannot be used.
    #[error(transparent)]
    Redis(#[from] RedisConnectError),
    /// Its tables are those of an earlier version, and it was told not to touch them.
    #[error("`relent migrate` brings its tables up to date, and so does store.migrate = true")]
    Behind(#[source] Box<OpenStoreError>),
    /// It is set up so that it may lose acknowledged tasks, or cannot be used at all.
    #[error("{}", dangers(.0))]
    Unsafe(Vec<Finding>),
}

fn dangers(findings: &[Finding]) -> String {
    let lines: Vec<String> = findings.iter().map(|finding| format!("\n  {finding}")).collect();
    format!(
        "it is not safe{}\n  --allow-unsafe-store (store.allow_unsafe = true) uses it all the same",
        lines.concat()
    )
}

impl StorePlace {
    /// What a URL names; `None` if it is no URL of a store. `sqlite:` is in this directory.
    pub fn from_url(url: &str, data: &Path) -> Option<StorePlace> {
        let (scheme, rest) = url.split_once(':')?;
        match scheme {
            "memory" if rest.is_empty() => Some(StorePlace::Memory),
            "sqlite" if rest.is_empty() => Some(StorePlace::Sqlite(data.to_owned())),
            "sqlite" => Some(StorePlace::Sqlite(rest.strip_prefix("//").unwrap_or(rest).into())),
            "postgres" | "postgresql" if rest.starts_with("//") => {
                Some(StorePlace::Postgres(StoreUrl(url.to_owned())))
            }
            "redis" | "rediss" | "redis+cluster" | "rediss+cluster" | "redis+unix"
                if rest.starts_with("//") =>
            {
                Some(StorePlace::Redis(StoreUrl(url.to_owned())))
            }
            _ => None,
        }
    }
}

impl StoreConfig {
    /// Another store, told the same.
    #[must_use]
    pub fn at(&self, place: StorePlace) -> StoreConfig {
        StoreConfig { place, ..self.clone() }
    }

    /// What the store guarantees as it is set up.
    ///
    /// # Errors
    ///
    /// When it cannot be reached.
    pub fn examine(&self) -> Result<Assurance, OpenStoreError> {
        Ok(match &self.place {
            StorePlace::Memory => MemoryStore::examine(),
            StorePlace::Sqlite(data) => SqliteStore::examine(data, &self.sqlite)?,
            StorePlace::Postgres(url) => PostgresStore::examine(url.secret(), &self.postgres)?,
            StorePlace::Redis(url) => RedisStore::examine(url.secret(), &self.redis)?,
        })
    }

    /// Whether the store's file is damaged, which takes a look at all of it; `None` where there is no
    /// file of relent's own.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub fn verify(&self) -> Result<Option<Finding>, OpenStoreError> {
        Ok(match &self.place {
            StorePlace::Sqlite(data) => Some(SqliteStore::verify(data, &self.sqlite)?),
            StorePlace::Memory | StorePlace::Postgres(_) | StorePlace::Redis(_) => None,
        })
    }

    /// Opens the store, if it is safe or need not be.
    ///
    /// # Errors
    ///
    /// When it cannot be reached or opened, when it is not safe, or when somebody else has it open.
    pub fn open(&self) -> Result<Arc<dyn Store>, OpenStoreError> {
        Ok(self.open_copying()?)
    }

    /// Opens the store to copy from it or to it, if it is safe or need not be.
    ///
    /// # Errors
    ///
    /// As [`open`](StoreConfig::open).
    pub fn open_copying(&self) -> Result<Arc<dyn Copying>, OpenStoreError> {
        self.expect_safe()?;
        Ok(match &self.place {
            StorePlace::Memory => Arc::new(MemoryStore::new()),
            StorePlace::Sqlite(data) => match SqliteStore::open(data, self.sqlite.clone()) {
                Ok(store) => Arc::new(store),
                Err(error @ OpenError::Behind { .. }) => return Err(behind(error)),
                Err(error) => return Err(error.into()),
            },
            StorePlace::Postgres(url) => {
                match PostgresStore::connect(url.secret(), self.postgres.clone()) {
                    Ok(store) => Arc::new(store),
                    Err(error @ ConnectError::Behind { .. }) => return Err(behind(error)),
                    Err(error) => return Err(error.into()),
                }
            }
            StorePlace::Redis(url) => {
                let allow_danger = self.allow_unsafe;
                let options = RedisOptions { allow_danger, ..self.redis.clone() };
                Arc::new(RedisStore::connect(url.secret(), options)?)
            }
        })
    }

    fn expect_safe(&self) -> Result<(), OpenStoreError> {
        let assurance = self.examine()?;
        let dangers: Vec<Finding> = assurance.dangers().cloned().collect();
        if !dangers.is_empty() && !self.allow_unsafe {
            return Err(OpenStoreError::Unsafe(dangers));
        }
        for finding in assurance.findings.iter().filter(|found| found.severity > Severity::Good) {
            tracing::warn!(severity = %finding.severity, "the store: {finding}");
        }
        Ok(())
    }

    /// Makes the store's tables or brings them up to date; `None` if it has none.
    ///
    /// # Errors
    ///
    /// When it cannot be reached or opened, or somebody else has it open.
    pub fn migrate(&self) -> Result<Option<Migrated>, OpenStoreError> {
        Ok(match &self.place {
            StorePlace::Memory | StorePlace::Redis(_) => None,
            StorePlace::Sqlite(data) => Some(SqliteStore::migrate(data, &self.sqlite)?),
            StorePlace::Postgres(url) => {
                Some(PostgresStore::migrate(url.secret(), &self.postgres)?)
            }
        })
    }
}

fn behind(error: impl Into<OpenStoreError>) -> OpenStoreError {
    OpenStoreError::Behind(Box::new(error.into()))
}

impl fmt::Display for StoreConfig {
    /// Where the data is, for people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            StorePlace::Memory => f.write_str("memory"),
            StorePlace::Sqlite(data) => {
                let data = std::path::absolute(data).unwrap_or_else(|_| data.clone());
                fmt::Display::fmt(&data.display(), f)
            }
            StorePlace::Postgres(url) => write!(f, "{url}, schema {}", self.postgres.schema),
            StorePlace::Redis(url) => write!(f, "{url}, prefix {}", self.redis.prefix),
        }
    }
}

impl StoreUrl {
    /// The URL with everything that is in it.
    fn secret(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&without_password(&self.0))
    }
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

const HIDDEN: &str = "***";

/// A URL as it may be shown. Where it is not clear what belongs to the password, too much is hidden
/// and not too little: a `/` or `@` that should have been written `%2F` or `%40` is part of it.
pub(super) fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let (user, rest) = match rest.rsplit_once('@') {
        Some((user, rest)) => (Some(user), rest),
        None => (None, rest),
    };
    let (place, query) = match rest.split_once('?') {
        Some((place, query)) => (place, Some(query)),
        None => (rest, None),
    };
    let mut shown = format!("{scheme}://");
    match user.map(|user| user.split_once(':')) {
        Some(Some((name, _))) => shown.push_str(&format!("{name}:{HIDDEN}@")),
        Some(None) => shown.push_str(&format!("{}@", user.unwrap_or_default())),
        None => {}
    }
    shown.push_str(place);
    let pairs = query.into_iter().flat_map(|query| query.split('&'));
    for (index, pair) in pairs.enumerate() {
        shown.push(if index == 0 { '?' } else { '&' });
        match pair.split_once('=') {
            Some((name, _)) if name.contains("pass") => {
                shown.push_str(&format!("{name}={HIDDEN}"));
            }
            _ => shown.push_str(pair),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_shown() {
        for (url, shown) in [
            ("postgres://me:secret@db:5432/relent", "postgres://me:***@db:5432/relent"),
            ("postgres://me:se/cr@et@db/relent", "postgres://me:***@db/relent"),
            ("postgres://:secret@db", "postgres://:***@db"),
            ("postgres://me@db/relent", "postgres://me@db/relent"),
            (
                "postgres:///relent?host=/run&password=secret",
                "postgres:///relent?host=/run&password=***",
            ),
            ("postgres://me:secret@db/r?a=b@c", "postgres://me:***@c"),
            ("postgres://db/relent?user=me", "postgres://db/relent?user=me"),
            ("rediss://:secret@cache:6379/0", "rediss://:***@cache:6379/0"),
            ("redis+cluster://me:secret@a:1,b:2", "redis+cluster://me:***@a:1,b:2"),
            ("sqlite:/var/lib/relent", "sqlite:/var/lib/relent"),
        ] {
            assert_eq!(without_password(url), shown);
            if let Some(place) = StorePlace::from_url(url, Path::new("data")) {
                assert!(!format!("{place:?}").contains("secret"), "{place:?}");
            }
        }
    }

    #[test]
    fn a_url_names_a_store() {
        let place = |url: &str| StorePlace::from_url(url, Path::new("data"));
        assert_eq!(place("sqlite:"), Some(StorePlace::Sqlite("data".into())));
        assert_eq!(place("sqlite:/a/b"), Some(StorePlace::Sqlite("/a/b".into())));
        assert_eq!(place("sqlite:///a/b"), Some(StorePlace::Sqlite("/a/b".into())));
        assert_eq!(place("sqlite:a/b"), Some(StorePlace::Sqlite("a/b".into())));
        assert_eq!(place("memory:"), Some(StorePlace::Memory));
        for url in ["postgres://db/relent", "postgresql://db/relent"] {
            assert_eq!(place(url), Some(StorePlace::Postgres(StoreUrl(url.to_owned()))));
        }
        for url in ["redis://db", "rediss://db", "redis+cluster://a,b", "redis+unix:///run/redis"] {
            assert_eq!(place(url), Some(StorePlace::Redis(StoreUrl(url.to_owned()))));
        }
        for bad in ["", "relent", "memory:x", "postgres:db", "redis:db", "mysql://db/relent"] {
            assert_eq!(place(bad), None, "{bad}");
        }
    }
}
