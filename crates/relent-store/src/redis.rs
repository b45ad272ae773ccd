//! The store on Redis: many nodes, one Redis or one Cluster, nobody special.
//!
//! A node keeps nothing that another would need. What is due is a sorted set, who may attempt a task is
//! decided by a script and a token, what was done is one script, and the time is the server's. What
//! Redis does not promise is said in [`examine`] and by [`RedisStore::assurance`]: with its usual
//! settings a power loss takes the last second or two along, and a failover what the replica had not
//! received.
//!
//! **Shards.** Everything of a tenant is in one shard, which is a hash tag: its tasks, its keys, its
//! lines. So whatever must happen together is one script on one server, and nothing has to be undone.
//! Lanes, policies and nodes are few, and in the first shard.
//!
//! **Keys** of a shard, after its tag: `t`*id* a task, `a`*id* its attempts, `k`*xx* the idempotency
//! keys that begin with this byte, `q`*line* what waits, `h` the head of each line, `l` leases by their
//! end, `z` deadlines, `x`*tenant* and `d`*tenant* all tasks and dead letters by id, `o`, `b` and `g` what
//! ended, was given up and was attempted, in order of time, `os`, `bs` and `gs` the same of what came from
//! another store, `c` counts, `i` and `n` the last id and the last token, `e` the epoch. In the first also `meta`, `p…` policies, `v…` lanes, `m…` nodes, `w…` changes.
//! None of them expires; what retention deletes is all that goes.
//!
//! **One thread** carries a node's connections and everything that waits for them, on a runtime of its
//! own. Operations are handed over to it and run to their end there, whatever becomes of whoever asked.
//!
//! The hard parts have essays at the top of their files: [`enqueue`] (keys, batches, ids), [`claim`],
//! [`layout`] (one key for a task), [`epoch`] (lost data), [`routes`] (Cluster), [`link`] (healing),
//! [`hints`] (who is told), [`prune`], [`copying`]. REQ-S3, REQ-S4, REQ-S7, REQ-D1.

mod change;
mod claim;
mod clock;
mod codes;
mod copying;
mod enqueue;
mod epoch;
mod examine;
mod failure;
mod hints;
mod history;
mod lanes;
mod layout;
mod link;
mod list;
mod members;
mod node;
mod options;
mod pack;
mod place;
mod policies;
mod prune;
mod reads;
mod record;
mod roles;
mod routes;
mod script;
mod values;

use std::fmt;
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use ::redis::cmd;
use relent_policy::Timestamp;
use tokio::runtime::{Builder, Handle};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use self::clock::Clock;
use self::failure::Failure;
use self::link::Role;
use self::node::Node;
pub use self::options::{RedisOptions, WaitFor};
use self::place::Place;
pub use self::place::RedisConnectError;
use self::routes::Routes;
use crate::assurance::Assurance;
use crate::contract::{Answer, DueListener, Store};
use crate::error::Error;
use crate::id::TaskId;

const DROP_PATIENCE: Duration = Duration::from_secs(10);

/// The store on Redis. See the module's head.
///
/// Closed or dropped, it finishes what was handed over and lets go of what it holds, so that other
/// nodes go on at once; dropping blocks for that.
pub struct RedisStore {
    node: Arc<Node>,
    assurance: Assurance,
    runtime: Handle,
    end: watch::Sender<Option<Instant>>,
    ended: watch::Receiver<Option<Result<(), Error>>>,
    thread: Option<JoinHandle<()>>,
}

impl RedisStore {
    /// Opens the store in a Redis, and makes it if there is none. Blocks until that is done.
    ///
    /// `url` is `redis://`, `rediss://` for TLS, `redis+unix://` for a socket, or `redis+cluster://` and
    /// `rediss+cluster://` with some servers of a Cluster, separated by commas.
    ///
    /// # Errors
    ///
    /// When Redis cannot be reached or refuses, is set up so that tasks may be lost, has lost a part of
    /// the data, or holds data of a later version.
    pub fn connect(url: &str, options: RedisOptions) -> Result<RedisStore, RedisConnectError> {
        let place = Arc::new(Place::new(url, &options)?);
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(RedisConnectError::Thread)?;
        let handle = runtime.handle().clone();
        let (opened, opening) = mpsc::sync_channel(1);
        let (end, told_to_end) = watch::channel(None);
        let (tell_ended, ended) = watch::channel(None);
        let carry = move || {
            runtime.block_on(async move {
                let (node, assurance) = match open(place, &options).await {
                    Ok((node, assurance)) => (Arc::new(node), assurance),
                    Err(error) => return drop(opened.send(Err(error))),
                };
                if opened.send(Ok((Arc::clone(&node), assurance))).is_ok() {
                    let how = run(node, told_to_end).await;
                    tell_ended.send_replace(Some(how));
                }
            });
            // What is left by now is not waited for.
            runtime.shutdown_background();
        };
        let thread = thread::Builder::new().name("relent-redis".to_owned()).spawn(carry);
        let thread = thread.map_err(RedisConnectError::Thread)?;
        let gone = || RedisConnectError::Unavailable("its thread has ended".to_owned());
        let (node, assurance) = opening.recv().map_err(|_| gone())??;
        Ok(RedisStore { node, assurance, runtime: handle, end, ended, thread: Some(thread) })
    }

    /// What the Redis guaranteed when it was opened.
    pub fn assurance(&self) -> &Assurance {
        &self.assurance
    }

    /// Looks at a Redis from outside, without opening the store in it. Blocks until that is done.
    ///
    /// # Errors
    ///
    /// When it cannot be reached.
    pub fn examine(url: &str, options: &RedisOptions) -> Result<Assurance, RedisConnectError> {
        let place = Arc::new(Place::new(url, options)?);
        let limit = options.command_timeout;
        let looked = move || {
            let runtime = Builder::new_current_thread().enable_all().build();
            let runtime = runtime.map_err(RedisConnectError::Thread)?;
            runtime.block_on(async move {
                let routes = Routes::new(place, 1, limit, true);
                routes.refresh().await.map_err(unavailable)?;
                examine::examine(&routes).await
            })
        };
        // On a thread of its own, as it may be asked for where a runtime must not block.
        let gone = || RedisConnectError::Unavailable("its thread has ended".to_owned());
        thread::spawn(looked).join().unwrap_or_else(|_| Err(gone()))
    }

    /// Goes on although data was lost or replaced: an operator says so. Tasks and keys that were there
    /// may be gone; every other node has to be told too, or started again.
    ///
    /// # Errors
    ///
    /// When Redis cannot be reached.
    pub fn accept_data_loss(&self) -> Answer<'_, ()> {
        self.ask(async |node| {
            let epoch = epoch::accept(&node.routes).await?;
            tracing::warn!(epoch, "the loss of data in Redis was accepted");
            node.begin_epoch(epoch);
            Ok(())
        })
    }

    fn ask<T, F>(&self, operation: impl FnOnce(Arc<Node>) -> F) -> Answer<'_, T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Failure>> + Send + 'static,
    {
        self.node.operations.start(&self.runtime, || operation(Arc::clone(&self.node)))
    }

    /// Tells the thread to end, if nobody has before.
    fn end_within(&self, within: Duration) {
        self.node.close();
        let by = Instant::now() + within;
        self.end.send_if_modified(|end| end.is_none() && end.replace(by).is_none());
    }
}

fn unavailable(failure: Failure) -> RedisConnectError {
    RedisConnectError::Unavailable(failure.into_text())
}

/// Looks at Redis, and brings the node into being.
async fn open(
    place: Arc<Place>,
    options: &RedisOptions,
) -> Result<(Node, Assurance), RedisConnectError> {
    let allow_danger = options.allow_danger;
    let routes = |shards, allow_danger| {
        Routes::new(Arc::clone(&place), shards, options.command_timeout, allow_danger)
    };
    // Dangers are found and told all at once, and not by the first connection.
    let looking = routes(1, true);
    looking.refresh().await.map_err(unavailable)?;
    let shards = epoch::shards(&place, &looking, options).await?;
    let looking = routes(usize::from(shards), true);
    looking.refresh().await.map_err(unavailable)?;
    let assurance = examine::examine(&looking).await?;
    let dangers: Vec<_> = assurance.dangers().cloned().collect();
    if !dangers.is_empty() && !allow_danger {
        return Err(RedisConnectError::Dangerous(dangers));
    }
    if options.waits_for_logs() {
        for address in looking.servers() {
            let version = examine::version(&place, &address).await.map_err(unavailable)?;
            if version < examine::WAITAOF {
                let text = format!("{address} cannot wait for its log, which needs Redis 7.2");
                return Err(RedisConnectError::Unavailable(text));
            }
        }
    }
    let routes = routes(usize::from(shards), allow_danger);
    routes.refresh().await.map_err(unavailable)?;
    let epoch = epoch::open(&routes, options).await?;
    let clock = Clock::new(options.clock.clone());
    clock.measure(&routes).await.map_err(unavailable)?;
    let number = cmd("INCR").arg(format!("{}mn", place.base(0))).clone();
    let number = routes.send(0, Role::Plain, &number).await.map_err(unavailable)?;
    let number = values::int(number).map_err(|error| unavailable(error.into()))?;
    let number = u32::try_from(number).unwrap_or(u32::MAX);
    let node = Node::new(routes, number, clock, epoch, options);
    prepare(&node).await.map_err(unavailable)?;
    Ok((node, assurance))
}

/// Learns what a node that starts has to know.
async fn prepare(node: &Node) -> Result<(), Failure> {
    for shard in 0..node.shards.len() {
        let last = cmd("GET").arg(format!("{}i", node.routes.place.base(shard))).clone();
        if let Some(last) = values::some_bytes(node.look(shard, &last).await?)? {
            let last = pack::Reader::new(&last).u64()?;
            node.learn_task(TaskId::from_u64(last).ok_or_else(|| pack::damaged("is no id"))?);
        }
    }
    node.listen_from_now().await
}

/// Works until it is told to end, and ends in good order.
async fn run(
    node: Arc<Node>,
    mut told_to_end: watch::Receiver<Option<Instant>>,
) -> Result<(), Error> {
    let mut workers = JoinSet::new();
    for shard in 0..node.shards.len() {
        workers.spawn(enqueue::work(Arc::clone(&node), shard));
        workers.spawn(record::work(Arc::clone(&node), shard));
        workers.spawn(claim::work(Arc::clone(&node), shard));
    }
    let mut chores = JoinSet::new();
    chores.spawn(crate::hints::keep_looking(Arc::clone(&node)));
    if node.hints.tells_others {
        chores.spawn(crate::hints::tell_others(Arc::clone(&node)));
        chores.spawn(crate::hints::hear_others(Arc::clone(&node)));
    }
    let by = match told_to_end.wait_for(Option::is_some).await {
        Ok(by) => by.unwrap_or_else(Instant::now),
        Err(_) => Instant::now() + DROP_PATIENCE,
    };
    node.close();
    let last = async {
        while workers.join_next().await.is_some() {}
        node.operations.all_ended().await;
        claim::release(&node).await?;
        node.leave().await
    };
    let ended = timeout_at(by, last).await;
    node.abandon();
    match ended {
        Ok(released) => Ok(released?),
        Err(_) => Err(Error::Unavailable("it did not end in time".to_owned())),
    }
}

impl Store for RedisStore {
    fn now(&self) -> Timestamp {
        self.node.clock.now()
    }

    fn listen(&self, listener: Arc<dyn DueListener>) {
        self.node.hints.set_listener(listener);
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore")
            .field("prefix", &self.node.routes.place.prefix)
            .finish_non_exhaustive()
    }
}

impl Drop for RedisStore {
    fn drop(&mut self) {
        self.end_within(DROP_PATIENCE);
        // A listener may be the last to hold the store; it runs on that very thread.
        let thread =
            self.thread.take().filter(|other| other.thread().id() != thread::current().id());
        if let Some(thread) = thread
            && thread.join().is_err()
        {
            tracing::error!("the store's thread has panicked");
        }
    }
}
