//! What only a store on Redis can get wrong. It needs servers: in `RELENT_TEST_REDIS` the address of one,
//! in `RELENT_TEST_REDIS_CLUSTER` that of a Cluster; `./test` starts both.

mod copying;
mod failover;
mod reaching;
mod server;
mod trouble;

use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, process, thread};

use relent_store::{RedisConnectError, RedisOptions, RedisStore};

use crate::nodes::{Place, Reading};

/// Whether there are servers to test with. Without them the test is not run, unless they are required.
pub(crate) fn is_there() -> bool {
    let is_there = |name| env::var(name).is_ok();
    let all = is_there("RELENT_TEST_REDIS") && is_there("RELENT_TEST_REDIS_CLUSTER");
    let required = env::var("RELENT_TEST_SERVERS").is_ok_and(|value| value == "required");
    assert!(all || !required, "servers are required, and RELENT_TEST_REDIS… are not set");
    all
}

/// A prefix of its own. On the servers that tests share its keys are gone when it is dropped.
pub(crate) struct Prefix {
    pub(crate) name: String,
    url: String,
    is_shared: bool,
}

impl Prefix {
    /// On the one server.
    pub(crate) fn new() -> Prefix {
        Prefix::named(env::var("RELENT_TEST_REDIS").unwrap(), true)
    }

    /// In the Cluster.
    pub(crate) fn in_cluster() -> Prefix {
        Prefix::named(env::var("RELENT_TEST_REDIS_CLUSTER").unwrap(), true)
    }

    /// On a server of a test's own.
    pub(crate) fn at(url: String) -> Prefix {
        Prefix::named(url, false)
    }

    /// A fresh one in the same place.
    pub(crate) fn another(&self) -> Prefix {
        Prefix::named(self.url.clone(), self.is_shared)
    }

    fn named(url: String, is_shared: bool) -> Prefix {
        static LAST: AtomicU32 = AtomicU32::new(0);
        let number = LAST.fetch_add(1, Ordering::SeqCst);
        Prefix { name: format!("test-{}-{number}", process::id()), url, is_shared }
    }

    pub(crate) fn options(&self) -> RedisOptions {
        RedisOptions { prefix: self.name.clone(), ..RedisOptions::default() }
    }

    pub(crate) fn connect(&self, options: RedisOptions) -> RedisStore {
        self.try_connect(options).unwrap()
    }

    fn try_connect(&self, options: RedisOptions) -> Result<RedisStore, RedisConnectError> {
        RedisStore::connect(&self.url, options)
    }
}

impl Prefix {
    /// Sends a command to the server that has this key.
    fn ask<T: redis::FromRedisValue + Send>(&self, command: &[&str], key: &str) -> T {
        let servers = servers(&self.url);
        let holds = |server: &&String| {
            servers.len() == 1 || {
                let slot: i64 = ask(server, &["CLUSTER", "KEYSLOT", key]);
                let count = ["CLUSTER", "COUNTKEYSINSLOT", &slot.to_string()];
                ask::<i64>(server, &count) > 0
            }
        };
        ask(servers.iter().find(holds).unwrap(), command)
    }
}

impl Drop for Prefix {
    fn drop(&mut self) {
        let pattern = format!("{{{}:*", self.name);
        let servers = if self.is_shared { servers(&self.url) } else { Vec::new() };
        for server in servers {
            let mut cursor = "0".to_owned();
            loop {
                let scan = ["SCAN", &cursor, "MATCH", &pattern, "COUNT", "1000"];
                let found: (String, Vec<Vec<u8>>) = ask(&server, &scan);
                for key in found.1 {
                    let unlink = [b"UNLINK".to_vec(), key];
                    ask::<i64>(&server, &unlink);
                }
                cursor = found.0;
                if cursor == "0" {
                    break;
                }
            }
        }
    }
}

impl Place for Prefix {
    type Options = RedisOptions;
    type Node = RedisStore;

    fn options(&self) -> RedisOptions {
        self.options()
    }

    fn connect(&self, options: RedisOptions) -> RedisStore {
        self.connect(options)
    }

    fn alone(options: RedisOptions) -> RedisOptions {
        RedisOptions { listen: false, ..options }
    }

    fn on_clock(options: RedisOptions, clock: Reading) -> RedisOptions {
        RedisOptions { clock: Some(clock), ..options }
    }
}

/// The addresses of all servers.
fn servers(url: &str) -> Vec<String> {
    let Some(seeds) = url.strip_prefix("redis+cluster://") else { return vec![url.to_owned()] };
    let seed = format!("redis://{}", seeds.split(',').next().unwrap());
    let nodes: String = ask(&seed, &["CLUSTER", "NODES"]);
    let address = |line: &str| {
        let address = line.split(' ').nth(1)?.split('@').next()?;
        Some(format!("redis://{address}"))
    };
    nodes.lines().filter_map(address).collect()
}

/// Sends a command to a server. On a thread of its own, as it may be asked for where a runtime must not
/// block.
pub(crate) fn ask<T: redis::FromRedisValue + Send>(
    url: &str,
    parts: &[impl redis::ToRedisArgs + Sync],
) -> T {
    let asked = || {
        let client = redis::Client::open(url).unwrap();
        let mut connection = client.get_connection().unwrap();
        let mut command = redis::Cmd::new();
        for part in parts {
            command.arg(part);
        }
        command.query::<T>(&mut connection).unwrap()
    };
    thread::scope(|scope| scope.spawn(asked).join().unwrap())
}
