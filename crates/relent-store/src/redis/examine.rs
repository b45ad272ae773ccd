//! What a Redis guarantees as it is set up.
//!
//! Looked at when a connection is made, whenever that is: a server that was started again may have
//! other settings, and after a failover it is another server. Nothing is changed by looking. Where
//! `CONFIG` is forbidden, as with hosted ones, what `INFO` does not say is a caution. REQ-S4, REQ-S7.

use std::collections::HashMap;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, Value, cmd};

use super::failure::{Failure, describe};
use super::link;
use super::place::{Address, Place, RedisConnectError};
use super::routes::Routes;
use super::values::{array, text};
use crate::assurance::{Assurance, Finding, Survival, Survives};

/// The earliest version whose scripts have flags: results must be written when memory is full.
const NEEDED: (u32, u32) = (7, 0);
/// The earliest version that can wait for its log.
pub(super) const WAITAOF: (u32, u32) = (7, 2);

/// What a server says about itself.
#[derive(Default)]
struct Told {
    info: HashMap<String, String>,
    config: HashMap<String, String>,
}

impl Told {
    fn info(&self, name: &str) -> &str {
        self.info.get(name).map_or("", String::as_str)
    }

    fn config(&self, name: &str) -> Option<&str> {
        self.config.get(name).map(String::as_str)
    }

    fn version(&self) -> (u32, u32) {
        let mut parts = self.info("redis_version").split('.').map(|part| part.parse().unwrap_or(0));
        (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
    }
}

/// Looks at one server.
pub(super) async fn look(connection: &mut MultiplexedConnection) -> Result<Vec<Finding>, Failure> {
    Ok(findings(&ask(connection).await?))
}

/// The server's version.
pub(super) async fn version(place: &Place, address: &Address) -> Result<(u32, u32), Failure> {
    let mut open = link::open(place, address, link::patient(place)).await?;
    Ok(ask(open.connection()).await?.version())
}

/// Looks at every server that answers for a shard.
pub(super) async fn examine(routes: &Routes) -> Result<Assurance, RedisConnectError> {
    let failed = |failure: Failure| RedisConnectError::Unavailable(failure.into_text());
    let (mut found, mut survives) = (Vec::<Finding>::new(), None);
    for address in routes.servers() {
        let config = link::patient(&routes.place);
        let mut open = link::open(&routes.place, &address, config).await.map_err(failed)?;
        let told = ask(open.connection()).await.map_err(failed)?;
        if told.info("cluster_enabled") == "1" && !routes.place.is_cluster {
            let text = format!("{address} is part of a Cluster; its address is redis+cluster://…");
            return Err(RedisConnectError::Unavailable(text));
        }
        if told.info("cluster_enabled") != "1" && routes.place.is_cluster {
            let text = format!("{address} is not part of a Cluster; its address is redis://…");
            return Err(RedisConnectError::Unavailable(text));
        }
        let way_out = "use rediss://, or rediss+cluster:// for a Cluster";
        let tls = Finding::tls(routes.place.is_encrypted(), address.is_local(), way_out);
        for finding in findings(&told).into_iter().chain([tls]) {
            if !found.contains(&finding) {
                found.push(finding);
            }
        }
        survives.get_or_insert_with(|| survival(&told));
    }
    let survives = survives.unwrap_or_else(|| survival(&Told::default()));
    Ok(Assurance { store: "redis", findings: found, survives })
}

async fn ask(connection: &mut MultiplexedConnection) -> Result<Told, Failure> {
    let info = text(send(connection, &cmd("INFO")).await?)?;
    let pairs = info.lines().filter_map(|line| line.split_once(':'));
    let info = pairs.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect();
    let mut config = HashMap::new();
    for name in ["appendfsync", "cluster-require-full-coverage"] {
        // Not allowed everywhere; then it is not known.
        if let Ok(found) = send(connection, cmd("CONFIG").arg("GET").arg(name)).await {
            for value in array(found)?.into_iter().skip(1).take(1) {
                config.insert(name.to_owned(), text(value)?);
            }
        }
    }
    Ok(Told { info, config })
}

async fn send(connection: &mut MultiplexedConnection, command: &Cmd) -> Result<Value, Failure> {
    match connection.send_packed_command(command).await {
        Ok(Value::ServerError(error)) => Err(Failure::Refused(error.into())),
        Ok(answer) => Ok(answer),
        Err(error) => Err(Failure::Down(describe(&error))),
    }
}

fn findings(told: &Told) -> Vec<Finding> {
    let mut found = vec![version_of(told), role(told), policy(told), memory(told)];
    found.extend(log(told));
    found.push(replicas(told));
    if told.info("cluster_enabled") == "1" {
        found.push(coverage(told));
    }
    found
}

fn version_of(told: &Told) -> Finding {
    let (name, found) = ("redis_version", told.info("redis_version"));
    if told.version() >= NEEDED {
        return Finding::good(name, found, "scripts have what they need");
    }
    let meaning = "results could not be written when memory is full";
    Finding::danger(name, found, meaning, "use Redis 7.0 or later")
}

fn role(told: &Told) -> Finding {
    match told.info("role") {
        "master" => Finding::good("role", "master", "it takes writes"),
        other => {
            let way_out = "connect to the master";
            Finding::danger("role", other, "a replica takes no writes, and lags behind", way_out)
        }
    }
}

fn policy(told: &Told) -> Finding {
    let (name, found) = ("maxmemory-policy", told.info("maxmemory_policy"));
    match found {
        "noeviction" => Finding::good(name, found, "nothing is deleted when memory is full"),
        "" => {
            let way_out = "make sure that it is noeviction";
            Finding::caution(name, "unknown", "tasks may be deleted when memory is full", way_out)
        }
        _ => {
            let way_out = "CONFIG SET maxmemory-policy noeviction";
            Finding::danger(name, found, "tasks are deleted when memory is full", way_out)
        }
    }
}

fn memory(told: &Told) -> Finding {
    match told.info("maxmemory") {
        "0" => Finding::caution(
            "maxmemory",
            "0",
            "Redis takes memory until the kernel kills it",
            "set maxmemory below the machine's memory",
        ),
        limit => Finding::good("maxmemory", limit, "new tasks are refused when it is reached"),
    }
}

fn log(told: &Told) -> Vec<Finding> {
    if told.info("aof_enabled") != "1" {
        let meaning = "a crash loses every task since the last snapshot";
        let way_out = "CONFIG SET appendonly yes, also in its configuration file";
        return vec![Finding::danger("appendonly", "no", meaning, way_out)];
    }
    let mut found = vec![Finding::good("appendonly", "yes", "every change is logged")];
    if told.info("aof_last_write_status") == "err" {
        let meaning = "its log cannot be written, and it takes no writes";
        let way_out = "look at the disk of Redis";
        found.push(Finding::danger("aof_last_write_status", "err", meaning, way_out));
    }
    found.push(match told.config("appendfsync") {
        Some("always") => Finding::good("appendfsync", "always", "flushed before it is told"),
        Some("everysec") => Finding::caution(
            "appendfsync",
            "everysec",
            "a power loss takes the last second or two along",
            "appendfsync always, if that is too much",
        ),
        Some(other) => Finding::danger(
            "appendfsync",
            other,
            "a power loss takes along what the kernel had not written, up to half a minute",
            "appendfsync everysec, or always",
        ),
        None => Finding::caution(
            "appendfsync",
            "unknown",
            "how much a power loss takes along is not known: CONFIG is not allowed",
            "make sure that it is everysec or always",
        ),
    });
    found
}

fn replicas(told: &Told) -> Finding {
    match told.info("connected_slaves") {
        "0" | "" => Finding::caution(
            "replicas",
            "0",
            "whoever loses the disk of Redis loses the tasks",
            "add a replica",
        ),
        some => Finding::good("replicas", some, "there is another copy, which lags a little"),
    }
}

fn coverage(told: &Told) -> Finding {
    let name = "cluster-require-full-coverage";
    match told.config(name) {
        Some("no") => {
            let meaning = "a part of the tasks can be out of reach while the rest goes on";
            Finding::danger(name, "no", meaning, "set cluster-require-full-coverage yes")
        }
        Some(other) => Finding::good(name, other, "either all tasks are in reach, or none"),
        None => {
            let meaning = "CONFIG is not allowed, so it is not known";
            Finding::caution(name, "unknown", meaning, "make sure that it is yes")
        }
    }
}

fn survival(told: &Told) -> Survival {
    let lost = |what: &str| Survives::MayLose(what.to_owned());
    let (store_crash, power_loss) = match (told.info("aof_enabled"), told.config("appendfsync")) {
        ("1", Some("always")) => (Survives::Yes, Survives::Yes),
        ("1", Some("no")) => (Survives::Yes, lost("what the kernel had not written")),
        ("1", _) => (
            lost("what was told while a slow flush was under way, 2 seconds at most"),
            lost("the last second or two"),
        ),
        _ => {
            let no = || Survives::No("nothing is logged".to_owned());
            (no(), no())
        }
    };
    let failover = match told.info("connected_slaves") {
        "0" | "" => Survives::No("there is no other copy".to_owned()),
        _ => lost("what the replica had not received"),
    };
    Survival { our_crash: Survives::Yes, store_crash, power_loss, failover }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assurance::Severity;

    fn told(info: &[(&str, &str)], fsync: &str) -> Told {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let usual = [
            ("redis_version", "7.0.15"),
            ("role", "master"),
            ("maxmemory_policy", "noeviction"),
            ("maxmemory", "1000000"),
            ("aof_enabled", "1"),
            ("connected_slaves", "1"),
        ];
        let info = usual.iter().chain(info).map(own).collect();
        Told { info, config: HashMap::from([("appendfsync".to_owned(), fsync.to_owned())]) }
    }

    fn worst(info: &[(&str, &str)], fsync: &str) -> Severity {
        findings(&told(info, fsync)).iter().map(|finding| finding.severity).max().unwrap()
    }

    #[test]
    fn what_loses_tasks_is_a_danger() {
        assert_eq!(worst(&[], "always"), Severity::Good);
        assert_eq!(worst(&[], "everysec"), Severity::Caution);
        assert_eq!(worst(&[], "no"), Severity::Danger);
        for danger in [
            ("redis_version", "6.2.14"),
            ("role", "slave"),
            ("maxmemory_policy", "allkeys-lru"),
            ("aof_enabled", "0"),
            ("aof_last_write_status", "err"),
        ] {
            assert_eq!(worst(&[danger], "always"), Severity::Danger, "{danger:?}");
        }
        assert_eq!(worst(&[("maxmemory", "0")], "always"), Severity::Caution);
        assert_eq!(worst(&[("cluster_enabled", "1")], "always"), Severity::Caution);
    }

    #[test]
    fn what_survives_follows_from_the_log() {
        assert_eq!(survival(&told(&[], "always")).power_loss, Survives::Yes);
        assert!(matches!(survival(&told(&[], "everysec")).power_loss, Survives::MayLose(_)));
        let unlogged = survival(&told(&[("aof_enabled", "0")], "always"));
        assert!(matches!(unlogged.store_crash, Survives::No(_)));
        let alone = survival(&told(&[("connected_slaves", "0")], "always"));
        assert!(matches!(alone.failover, Survives::No(_)));
    }
}
