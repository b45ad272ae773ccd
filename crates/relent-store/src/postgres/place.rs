//! Where the database is, and how each kind of connection is set up.
//!
//! Settings go with the connection's start, so that no connection is ever without them. Which plans
//! PostgreSQL makes is not left to its statistics: a table that is empty in the morning and has a
//! million rows at noon is planned for as if it were one or the other, and a claim that scans it is a
//! claim too late. [`Role::Index`] therefore has nothing to choose but its index, and
//! [`Role::Insert`], which only joins what it was given, hashes.
//!
//! Behind a transaction-mode pooler a connection's settings would be somebody else's: then
//! ([`prepare`](super::PostgresOptions::prepare) off) none are made, statements are not kept, nobody
//! listens, and PostgreSQL plans by itself.
//!
//! TLS is verified wherever there is any, whichever word of libpq's asks for it ([`words`]). REQ-S7.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::{PostgresOptions, words};
use crate::trust::{BadTrust, client_config};

const APPLICATION: &str = "relent";
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const KEEPALIVE: Duration = Duration::from_secs(10);
const UNANSWERED_MAX: Duration = Duration::from_secs(15);
/// For what tasks and callers wait for. A result must be written before its lease ends, with time to
/// try again.
const HOT_TIMEOUT: Duration = Duration::from_secs(5);

/// Why a PostgreSQL database cannot be used as a store.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The text is no connection string.
    #[error("this is no connection string of PostgreSQL")]
    BadUrl(#[source] tokio_postgres::Error),
    /// The schema's name cannot be one.
    #[error("a schema is named by 1 to 40 characters of a-z, 0-9 and _, got `{0}`")]
    BadSchema(String),
    /// The file with certificates cannot be used.
    #[error("cannot use the certificates in `{}`", file.display())]
    Certificates {
        /// Which file.
        file: PathBuf,
        /// What is wrong with it.
        source: rustls::pki_types::pem::Error,
    },
    /// TLS cannot be set up.
    #[error("cannot set up TLS")]
    Tls(#[source] rustls::Error),
    /// The server cannot be reached, refuses, or lacks what is needed.
    #[error("PostgreSQL is not available: {0}")]
    Unavailable(String),
    /// A later version of relent has made the tables.
    #[error("schema `{schema}` has version {found}, expected {known} or earlier")]
    Newer {
        /// Which schema.
        schema: String,
        /// The version it has.
        found: i64,
        /// The latest version that is understood.
        known: i64,
    },
    /// The tables are those of an earlier version, or not there, and are not to be touched.
    #[error("schema `{schema}` has version {found}, expected {known}")]
    Behind {
        /// Which schema.
        schema: String,
        /// The version it has; 0 if there is nothing.
        found: i64,
        /// The version that is needed.
        known: i64,
    },
    /// The tables cannot be made or brought up to date.
    #[error("cannot bring schema `{schema}` up to date")]
    Migrate {
        /// Which schema.
        schema: String,
        /// What PostgreSQL said.
        source: tokio_postgres::Error,
    },
    /// The system has no thread to give.
    #[error("cannot start a thread")]
    Thread(#[source] std::io::Error),
}

impl From<BadTrust> for ConnectError {
    fn from(bad: BadTrust) -> ConnectError {
        match bad {
            BadTrust::Certificates { file, source } => ConnectError::Certificates { file, source },
            BadTrust::Tls(error) => ConnectError::Tls(error),
        }
    }
}

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Writes what it was given, and finds keys by their index: joins are between the rows of its own
    /// statement.
    Insert,
    /// Finds rows of large tables by an index, always.
    Index,
    /// Looks at whatever it is asked to. Plans are made anew each time: one that was made while a table
    /// was small would be kept until somebody analyzes it.
    Plain,
    /// Hears.
    Listen,
}

impl Role {
    fn settings(self) -> &'static str {
        match self {
            Role::Insert => {
                " -c plan_cache_mode=force_generic_plan -c enable_nestloop=off -c enable_seqscan=off \
                 -c work_mem=32MB"
            }
            Role::Index => {
                " -c plan_cache_mode=force_generic_plan -c enable_seqscan=off \
                 -c enable_bitmapscan=off -c enable_hashjoin=off -c enable_mergejoin=off \
                 -c enable_sort=off"
            }
            Role::Plain => " -c plan_cache_mode=force_custom_plan",
            Role::Listen => "",
        }
    }
}

/// A database and a schema in it.
pub(super) struct Place {
    config: Config,
    pub(super) tls: Option<MakeRustlsConnect>,
    pub(super) schema: String,
    pub(super) prepare: bool,
    pub(super) statement_timeout: Duration,
}

impl Place {
    pub(super) fn new(url: &str, options: &PostgresOptions) -> Result<Place, ConnectError> {
        let schema = options.schema.clone();
        let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        let starts_well = schema.starts_with(|c: char| !c.is_ascii_digit());
        if !starts_well || schema.len() > 40 || !schema.chars().all(allowed) {
            return Err(ConnectError::BadSchema(schema));
        }
        let words = words::read(url);
        let mut config: Config = words.url.parse().map_err(ConnectError::BadUrl)?;
        let roots = options.root_certificates.as_ref().or(words.root_certificates.as_ref());
        if config.get_application_name().is_none() {
            config.application_name(APPLICATION);
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_TIMEOUT);
        }
        config.keepalives_idle(KEEPALIVE).keepalives_interval(KEEPALIVE / 2).keepalives_retries(2);
        config.tcp_user_timeout(UNANSWERED_MAX);
        if config.get_ssl_mode() == SslMode::Prefer && is_on_this_machine(&config) {
            config.ssl_mode(SslMode::Disable);
        }
        let tls = match config.get_ssl_mode() {
            SslMode::Disable => None,
            _ => Some(MakeRustlsConnect::new(client_config(roots.map(PathBuf::as_path))?)),
        };
        let (prepare, statement_timeout) = (options.prepare, options.statement_timeout);
        Ok(Place { config, tls, schema, prepare, statement_timeout })
    }

    /// How long a statement of a connection may take.
    pub(super) fn limit(&self, role: Role) -> Duration {
        match role {
            Role::Insert | Role::Index | Role::Listen => self.statement_timeout.min(HOT_TIMEOUT),
            Role::Plain => self.statement_timeout,
        }
    }

    /// Whether a connection is the same one tomorrow, and can listen.
    pub(super) fn can_hear(&self) -> bool {
        self.prepare
    }

    /// How to connect for a purpose.
    pub(super) fn config(&self, role: Role) -> Config {
        let mut config = self.config.clone();
        if self.prepare {
            let before = config.get_options().unwrap_or_default();
            let millis = self.limit(role).as_millis();
            let ours = format!(
                "{before} -c statement_timeout={millis} -c lock_timeout={millis} \
                 -c idle_in_transaction_session_timeout=10000 -c jit=off \
                 -c default_transaction_isolation=read\\ committed{}",
                role.settings()
            );
            config.options(ours);
        }
        config
    }

    /// Whether nothing leaves the machine.
    pub(super) fn is_local(&self) -> bool {
        is_on_this_machine(&self.config)
    }

    /// A statement as this schema's.
    pub(super) fn sql(&self, text: &str) -> String {
        text.replace("relent.", &format!("{}.", self.schema))
    }

    /// Where nodes tell each other what became due.
    pub(super) fn channel(&self) -> String {
        format!("{}_due", self.schema)
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Place").field("schema", &self.schema).finish_non_exhaustive()
    }
}

/// Whether nothing leaves the machine. TLS that nobody asked for is not tried then: a certificate
/// made at installation would be refused.
fn is_on_this_machine(config: &Config) -> bool {
    let is_local = |host: &Host| match host {
        Host::Tcp(name) => {
            name == "localhost" || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
        }
        Host::Unix(_) => true,
    };
    config.get_hosts().iter().all(is_local)
        && config.get_hostaddrs().iter().all(IpAddr::is_loopback)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_is_a_plain_name() {
        let place = |schema: &str| {
            let options =
                PostgresOptions { schema: schema.to_owned(), ..PostgresOptions::default() };
            Place::new("host=/tmp user=relent", &options)
        };
        assert!(place("relent").is_ok() && place("_1").is_ok());
        for bad in ["", "1a", "a b", "a\"; DROP", "A", &"a".repeat(41)] {
            assert!(matches!(place(bad), Err(ConnectError::BadSchema(_))), "{bad}");
        }
    }

    #[test]
    fn tls_is_tried_where_something_leaves_the_machine() {
        let tls = |url: &str| Place::new(url, &PostgresOptions::default()).unwrap().tls.is_some();
        assert!(!tls("host=/tmp user=relent"));
        assert!(!tls("postgres://relent@127.0.0.1/relent"));
        assert!(tls("postgres://relent@db.example.com/relent"));
        for mode in ["require", "verify-ca", "verify-full"] {
            assert!(tls(&format!("postgres://relent@127.0.0.1/relent?sslmode={mode}")), "{mode}");
        }
        assert!(!tls("postgres://relent@db.example.com/relent?sslmode=disable"));
    }
}
