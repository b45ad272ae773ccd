//! How a store on Redis is opened.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use redis::cmd;

use super::clock::OwnClock;
use super::routes::Copies;

/// How a store on Redis is opened.
///
/// # Default
///
/// - keys begin with `relent`
/// - one shard on a server, 16 in a Cluster, or as many as there are
/// - Redis's time
/// - 100,000 lanes
/// - 16,384 operations and 128 MiB waiting, of each kind and shard
/// - nodes listen to each other
/// - 5 seconds for a command
/// - nobody waits for replicas
/// - settings that may lose tasks are refused, and so is data that was lost
/// - the certificates that the system trusts
#[derive(Clone)]
pub struct RedisOptions {
    /// What every key begins with: 1 to 40 characters of `a-z`, `0-9`, `_` and `-`.
    pub prefix: String,
    /// How many parts the data is divided into, 1 to 256. It cannot be changed later.
    pub shards: Option<u16>,
    /// Another clock, for tests and simulations.
    pub clock: Option<OwnClock>,
    /// How many lanes there may be.
    pub lanes_max: u32,
    /// How many operations of a kind may wait.
    pub queue_max: usize,
    /// How many bytes of a kind may wait.
    pub queue_bytes_max: usize,
    /// Whether nodes tell each other what became due. Without it they look at least once a second.
    pub listen: bool,
    /// How long a command may take.
    pub command_timeout: Duration,
    /// What a new task waits for before it is acknowledged.
    pub wait_for: Option<WaitFor>,
    /// Whether to go on with settings that may lose acknowledged tasks: eviction, no log, a replica.
    pub allow_danger: bool,
    /// Whether to go on although data was lost: what is left is taken as it is.
    pub accept_data_loss: bool,
    /// A PEM file with the certificates that the server's is to be signed by.
    pub root_certificates: Option<PathBuf>,
}

/// What a new task waits for before it is acknowledged. If it does not come in time, the answer is that
/// the store is not available, and the task may be there all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitFor {
    /// How many replicas are to have it.
    pub replicas: u32,
    /// Whether it is to be flushed to the log, here and there (`WAITAOF`, from Redis 7.2 on).
    pub logged: bool,
    /// For how long.
    pub timeout: Duration,
}

impl Default for RedisOptions {
    fn default() -> RedisOptions {
        RedisOptions {
            prefix: "relent".to_owned(),
            shards: None,
            clock: None,
            lanes_max: 100_000,
            queue_max: 16_384,
            queue_bytes_max: 128 << 20,
            listen: true,
            command_timeout: Duration::from_secs(5),
            wait_for: None,
            allow_danger: false,
            accept_data_loss: false,
            root_certificates: None,
        }
    }
}

impl RedisOptions {
    pub(super) fn waits_for_logs(&self) -> bool {
        self.wait_for.is_some_and(|wait| wait.logged)
    }

    /// The command that waits for copies, and how many replicas it is to find.
    pub(super) fn copies(&self) -> Option<(Copies, i64)> {
        let wait = self.wait_for?;
        let millis = u64::try_from(wait.timeout.as_millis()).unwrap_or(u64::MAX).max(1);
        let mut command = if wait.logged { cmd("WAITAOF") } else { cmd("WAIT") };
        if wait.logged {
            command.arg(1);
        }
        command.arg(wait.replicas).arg(millis);
        Some((Copies { command, limit: wait.timeout }, i64::from(wait.replicas)))
    }
}

impl fmt::Debug for RedisOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisOptions")
            .field("prefix", &self.prefix)
            .field("shards", &self.shards)
            .field("clock", &self.clock.as_ref().map(|_| ".."))
            .field("lanes_max", &self.lanes_max)
            .field("queue_max", &self.queue_max)
            .field("queue_bytes_max", &self.queue_bytes_max)
            .field("listen", &self.listen)
            .field("command_timeout", &self.command_timeout)
            .field("wait_for", &self.wait_for)
            .field("allow_danger", &self.allow_danger)
            .field("accept_data_loss", &self.accept_data_loss)
            .field("root_certificates", &self.root_certificates)
            .finish()
    }
}
