//! What a PostgreSQL can guarantee as it is set up.
//!
//! Looked at through a connection like those of a node, so that what is found is what tasks get:
//! settings of the role, of the database and of a pooler on the way included. REQ-S4, REQ-S7.

mod clocks;

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Row};

use super::failure::{Failure, describe};
use super::place::{ConnectError, Place, Role};
use super::{link, schema};
use crate::assurance::{Assurance, Finding, Survival, Survives};

const PATIENCE: Duration = Duration::from_secs(30);
/// A hint that takes longer is none.
const HEARD_WITHIN: Duration = Duration::from_secs(1);
/// A statement that stores much may take longer than less than this.
const STATEMENT_MS_MIN: i64 = 5_000;
const WITH_A_POOLER: &str = "set store.postgres.prepare to false, or connect past the pooler";

const LOOK: &str = "SELECT current_setting('server_version_num')::int8,
    current_setting('server_version'), current_setting('fsync'),
    current_setting('full_page_writes'), current_setting('synchronous_commit'),
    (SELECT reset_val FROM pg_settings WHERE name = 'synchronous_commit'),
    current_setting('synchronous_standby_names'), pg_is_in_recovery(),
    current_setting('transaction_read_only'), (SELECT setting FROM pg_settings WHERE name = 'statement_timeout')::int8,
    current_setting('idle_in_transaction_session_timeout'),
    coalesce(current_setting('idle_session_timeout', true), '0'),
    (SELECT setting FROM pg_settings WHERE name = 'wal_writer_delay')::int8,
    (SELECT count(*) FROM pg_stat_replication),
    has_database_privilege(current_database(), 'CREATE'),
    coalesce((SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()), false)";

/// What was found, as PostgreSQL says it.
struct Found {
    version_number: i64,
    version: String,
    fsync: String,
    full_page_writes: String,
    synchronous_commit: String,
    /// What it would be if relent had said nothing.
    commit_by_default: String,
    standby_names: String,
    in_recovery: bool,
    read_only: String,
    statement_timeout_ms: i64,
    transaction_timeout: String,
    session_timeout: String,
    wal_delay_ms: i64,
    standbys: i64,
    may_create: bool,
    encrypted: bool,
}

/// Looks at a database.
pub(super) async fn examine(place: &Place, listen: bool) -> Result<Assurance, ConnectError> {
    let client = match link::open(place, Role::Plain, None).await {
        Ok(client) => client,
        Err(failure) => return unusable(failure),
    };
    let looked = timeout(PATIENCE, look(place, &client, listen)).await;
    looked.map_err(|_| ConnectError::Unavailable("it did not answer in time".to_owned()))?
}

/// A pooler may take no connection that brings settings of its own.
fn unusable(failure: Failure) -> Result<Assurance, ConnectError> {
    let text = failure.into_text();
    if !text.contains("startup parameter") {
        return Err(ConnectError::Unavailable(text));
    }
    let no = || Survives::No("it cannot be used".to_owned());
    let finding = Finding::danger(
        "connection",
        "refused",
        format!("a pooler takes no settings with a connection: {text}"),
        WITH_A_POOLER,
    );
    let survives =
        Survival { our_crash: no(), store_crash: no(), power_loss: no(), failover: no() };
    Ok(Assurance { store: "postgres", findings: vec![finding], survives })
}

async fn look(place: &Place, client: &Client, listen: bool) -> Result<Assurance, ConnectError> {
    let failed = |error| ConnectError::Unavailable(describe(&error));
    let rows = client.query_typed(LOOK, &[]).await.map_err(failed)?;
    let nothing = || ConnectError::Unavailable("it said nothing about itself".to_owned());
    let found = found(rows.first().ok_or_else(nothing)?).map_err(failed)?;
    let skew_ms = clocks::skew(client).await.map_err(failed)?;
    let version = schema::version(place, client).await.map_err(failed)?;
    let mut findings = vec![
        server(&found),
        writable(&found),
        on_off(
            "fsync",
            &found.fsync,
            "commits are flushed to the disk",
            "a power loss can destroy the whole database",
        ),
        on_off(
            "full_page_writes",
            &found.full_page_writes,
            "pages survive a power loss whole",
            "a power loss can leave pages torn, and the database damaged",
        ),
        commits(&found),
        standbys(&found),
        tables(version, found.may_create),
        hears(place, listen, client).await,
    ];
    findings.extend(pooler(place, &found));
    findings.extend(timeouts(&found));
    let way_out = "add sslmode=require to the URL";
    findings.push(Finding::tls(found.encrypted, place.is_local(), way_out));
    findings.push(clocks::finding(skew_ms));
    Ok(Assurance { store: "postgres", findings, survives: survival(&found) })
}

fn found(row: &Row) -> Result<Found, tokio_postgres::Error> {
    Ok(Found {
        version_number: row.try_get(0)?,
        version: row.try_get(1)?,
        fsync: row.try_get(2)?,
        full_page_writes: row.try_get(3)?,
        synchronous_commit: row.try_get(4)?,
        commit_by_default: row.try_get::<_, Option<String>>(5)?.unwrap_or_default(),
        standby_names: row.try_get(6)?,
        in_recovery: row.try_get(7)?,
        read_only: row.try_get(8)?,
        statement_timeout_ms: row.try_get::<_, Option<i64>>(9)?.unwrap_or_default(),
        transaction_timeout: row.try_get(10)?,
        session_timeout: row.try_get(11)?,
        wal_delay_ms: row.try_get::<_, Option<i64>>(12)?.unwrap_or(200),
        standbys: row.try_get(13)?,
        may_create: row.try_get(14)?,
        encrypted: row.try_get(15)?,
    })
}

fn server(found: &Found) -> Finding {
    match found.version_number >= schema::OLDEST_SERVER {
        true => Finding::good("version", &found.version, "13 or later is needed"),
        false => Finding::danger(
            "version",
            &found.version,
            "13 or later is needed",
            "upgrade PostgreSQL",
        ),
    }
}

fn writable(found: &Found) -> Finding {
    if found.in_recovery {
        return Finding::danger(
            "role",
            "standby",
            "it follows another server, and nothing can be stored in it",
            "connect to the primary; `target_session_attrs=read-write` in the URL finds it among \
             several hosts",
        );
    }
    match found.read_only == "on" {
        true => Finding::danger(
            "role",
            "read-only",
            "nothing can be stored in it",
            "set default_transaction_read_only = off for the role or the database",
        ),
        false => Finding::good("role", "primary", "it can be written to"),
    }
}

fn on_off(name: &'static str, found: &str, on: &str, off: &str) -> Finding {
    match found == "on" {
        true => Finding::good(name, found, on),
        false => Finding::danger(name, found, off, format!("set {name} = on in postgresql.conf")),
    }
}

fn commits(found: &Found) -> Finding {
    const NAME: &str = "synchronous_commit";
    let own = &found.synchronous_commit;
    if own == "off" {
        return Finding::danger(
            NAME,
            own,
            format!("tasks are acknowledged before they are stored: a crash loses {}", tail(found)),
            "ALTER ROLE … SET synchronous_commit = on",
        );
    }
    match found.commit_by_default == "off" {
        true => Finding::good(NAME, own, "off by default; relent's own connections set it to on"),
        false => Finding::good(NAME, own, "an acknowledged task is in the log on the disk"),
    }
}

/// What is not yet in the log, at most.
fn tail(found: &Found) -> String {
    format!("the last {} ms", found.wal_delay_ms.saturating_mul(3))
}

/// Whether a standby has a task before it is acknowledged.
fn is_replicated(found: &Found) -> bool {
    let waits = ["on", "remote_apply", "remote_write"];
    !found.standby_names.is_empty() && waits.contains(&found.synchronous_commit.as_str())
}

fn standbys(found: &Found) -> Finding {
    const NAME: &str = "synchronous_standby_names";
    if is_replicated(found) {
        let text = format!("{}, standbys connected: {}", found.standby_names, found.standbys);
        return Finding::good(NAME, text, "an acknowledged task is on a standby as well");
    }
    let text = match found.standby_names.as_str() {
        "" => format!("none, standbys connected: {}", found.standbys),
        names => format!("{names}, and synchronous_commit does not wait for them"),
    };
    match found.standbys {
        0 => Finding::good(NAME, text, "there is no standby that could take over"),
        _ => Finding::caution(
            NAME,
            text,
            "a standby that takes over may lack the last acknowledged tasks",
            "name synchronous standbys, if a failover must lose nothing",
        ),
    }
}

fn tables(version: Option<i64>, may_create: bool) -> Finding {
    const NAME: &str = "schema version";
    let known = schema::known();
    match version {
        Some(version) if version == known => {
            Finding::good(NAME, version.to_string(), "as this version needs it")
        }
        Some(version) if version > known => Finding::danger(
            NAME,
            format!("{version}, known: {known}"),
            "a later version of relent has made the tables, and this one cannot use them",
            "run that version",
        ),
        Some(version) => Finding::caution(
            NAME,
            format!("{version}, needed: {known}"),
            "an earlier version of relent has made the tables",
            "run `relent migrate`, or let `relent serve` do it",
        ),
        None if may_create => Finding::good(
            NAME,
            "not there yet",
            "the tables are made when the store is first opened",
        ),
        None => Finding::danger(
            NAME,
            "not there",
            "this role may not make a schema in this database",
            "GRANT CREATE ON DATABASE … TO …, or run `relent migrate` as a role that may",
        ),
    }
}

/// Settings that a connection asked for and has not got are kept from it by a pooler that was told to
/// overlook them. It would hand prepared statements to others as well.
fn pooler(place: &Place, found: &Found) -> Option<Finding> {
    let asked = i64::try_from(place.limit(Role::Plain).as_millis()).ok()?;
    let is_kept = place.prepare && found.statement_timeout_ms != asked;
    is_kept.then(|| {
        Finding::danger(
            "pooler",
            "there, and overlooks settings",
            "statements that were prepared on one connection would be sent to another",
            WITH_A_POOLER,
        )
    })
}

/// Whether nodes can tell each other, tried out.
async fn hears(place: &Place, listen: bool, client: &Client) -> Finding {
    const NAME: &str = "LISTEN";
    if !listen || !place.can_hear() {
        let meaning = "nodes look at least once a second for what others made due";
        return Finding::good(NAME, "not used", meaning);
    }
    let asked_at = Instant::now();
    match timeout(HEARD_WITHIN, hear(place, client)).await {
        Ok(Ok(())) => {
            let took = asked_at.elapsed().as_millis();
            Finding::good(NAME, format!("works, {took} ms"), "nodes tell each other what is due")
        }
        tried => {
            let found = match tried {
                Ok(Err(text)) => format!("refused: {text}"),
                _ => "not heard within a second".to_owned(),
            };
            Finding::caution(
                NAME,
                found,
                "nodes look for what is due instead, now and then",
                WITH_A_POOLER,
            )
        }
    }
}

async fn hear(place: &Place, client: &Client) -> Result<(), String> {
    let (ears, mut heard) = mpsc::unbounded_channel();
    let listener = link::open(place, Role::Listen, Some(ears)).await.map_err(Failure::into_text)?;
    let (channel, word) = ("relent_check", format!("{:016x}", fastrand::u64(..)));
    let listening = listener.batch_execute(&format!("LISTEN {channel}")).await;
    listening.map_err(|error| describe(&error))?;
    let values: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 2] =
        [(&channel, Type::TEXT), (&word, Type::TEXT)];
    let told = client.query_typed("SELECT pg_notify($1, $2)", &values).await;
    told.map_err(|error| describe(&error))?;
    while let Some(text) = heard.recv().await {
        if text == word {
            return Ok(());
        }
    }
    Err("the connection was lost".to_owned())
}

fn timeouts(found: &Found) -> Vec<Finding> {
    let statement = match found.statement_timeout_ms {
        0 => Finding::good("statement_timeout", "none", "no statement is cut short"),
        short @ 1..STATEMENT_MS_MIN => Finding::caution(
            "statement_timeout",
            format!("{short} ms"),
            "statements may be cut short while much is stored at once",
            "ALTER ROLE … SET statement_timeout = '15s'",
        ),
        enough => {
            let meaning = "long enough, and a server that hangs is noticed";
            Finding::good("statement_timeout", format!("{enough} ms"), meaning)
        }
    };
    let mut findings = vec![
        statement,
        Finding::good(
            "idle_in_transaction_session_timeout",
            &found.transaction_timeout,
            "relent leaves no transaction open",
        ),
    ];
    if found.session_timeout != "0" {
        findings.push(Finding::caution(
            "idle_session_timeout",
            &found.session_timeout,
            "idle connections are cut, and made again when they are needed",
            "ALTER ROLE … SET idle_session_timeout = 0",
        ));
    }
    findings
}

fn survival(found: &Found) -> Survival {
    let late = found.synchronous_commit == "off";
    let tail = || Survives::MayLose(tail(found));
    let power_loss = match (found.fsync.as_str(), found.full_page_writes.as_str()) {
        ("on", "on") if late => tail(),
        ("on", "on") => Survives::Yes,
        ("on", _) => Survives::No("pages may be torn (full_page_writes = off)".to_owned()),
        _ => Survives::No("nothing is flushed (fsync = off)".to_owned()),
    };
    let failover = match (is_replicated(found), found.standbys) {
        (true, _) => Survives::Yes,
        (false, 0) => Survives::No("there is no standby".to_owned()),
        (false, _) => Survives::MayLose("what the standby has not got yet".to_owned()),
    };
    let store_crash = if late { tail() } else { Survives::Yes };
    Survival { our_crash: Survives::Yes, store_crash, power_loss, failover }
}
