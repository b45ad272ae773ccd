//! The store on PostgreSQL: many nodes, one database, nobody special.
//!
//! A node keeps nothing that another would need. What is due is found by an index, who may attempt a
//! task is decided by a row lock and a token, what was done is one commit, and the time is the
//! database's. Nodes come and go; what one held when it died is taken over by any other when the
//! lease ends, and by anybody at once when it was closed in good order.
//!
//! **One thread** carries a node's connections and everything that waits for them, on a runtime of
//! its own. Operations are handed over to it and run to their end there, whatever becomes of whoever
//! asked: no transaction is left open by a future that was dropped. Three connections have a queue
//! each, for new tasks ([`enqueue`]), results ([`record`]) and claims ([`claim`]); a few more serve
//! everything else, and one listens ([`hints`]).
//!
//! The hard parts have essays at the top of their files: [`queue`] (joining what many callers ask
//! for), [`enqueue`] (keys, batches), [`claim`] (claims), [`floors`] (long transactions), [`prune`]
//! (days), [`hints`] (who is told), [`place`] (plans, poolers), [`failure`] (what an error means).
//!
//! REQ-S3, REQ-S4, REQ-S7, REQ-D1.

mod change;
mod claim;
mod clock;
mod copying;
mod enqueue;
mod examine;
mod failure;
mod floors;
mod hints;
mod insert;
mod lanes;
mod link;
mod list;
mod members;
mod node;
mod place;
mod policies;
mod prune;
mod reads;
mod record;
mod roles;
mod rows;
mod schema;
mod words;

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use relent_policy::Timestamp;
use tokio::runtime::{Builder, Handle};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use self::clock::Clock;
use self::failure::Failure;
use self::link::Link;
use self::node::Node;
pub use self::place::ConnectError;
use self::place::{Place, Role};
use crate::assurance::Assurance;
use crate::contract::{Answer, DueListener, Store};
use crate::error::Error;
use crate::queue;
use crate::version::Migrated;

const NUMBER: &str = "SELECT nextval('relent.nodes')::int";
const DROP_PATIENCE: Duration = Duration::from_secs(10);

/// How a store on PostgreSQL is opened.
///
/// # Default
///
/// - the schema `relent`, which is made if it is not there, and brought up to date
/// - the database's time
/// - 4 connections beside the four that every node has
/// - 100,000 lanes
/// - 16,384 operations and 128 MiB waiting, of each kind
/// - nodes listen to each other, and statements are prepared
/// - 15 seconds for a statement
/// - the certificates that the system trusts
#[derive(Clone)]
pub struct PostgresOptions {
    /// Whose tables: 1 to 40 characters of `a-z`, `0-9` and `_`.
    pub schema: String,
    /// Whether the tables are made and brought up to date; if not, they must be so already.
    pub migrate: bool,
    /// Another clock, for tests and simulations.
    pub clock: Option<Arc<dyn Fn() -> Timestamp + Send + Sync>>,
    /// How many connections look and change a little.
    pub connections_max: usize,
    /// How many lanes there may be.
    pub lanes_max: u32,
    /// How many operations of a kind may wait.
    pub queue_max: usize,
    /// How many bytes of a kind may wait.
    pub queue_bytes_max: usize,
    /// Whether nodes tell each other what became due. Without it they look at least once a second.
    pub listen: bool,
    /// Whether connections have settings and prepared statements of their own, and hear. Not through
    /// a transaction-mode pooler; limits on statements are then the role's (`ALTER ROLE … SET`).
    pub prepare: bool,
    /// How long a statement may take.
    pub statement_timeout: Duration,
    /// A PEM file with the certificates that the server's is to be signed by.
    pub root_certificates: Option<PathBuf>,
}

impl Default for PostgresOptions {
    fn default() -> PostgresOptions {
        PostgresOptions {
            schema: "relent".to_owned(),
            migrate: true,
            clock: None,
            connections_max: 4,
            lanes_max: 100_000,
            queue_max: 16_384,
            queue_bytes_max: 128 << 20,
            listen: true,
            prepare: true,
            statement_timeout: Duration::from_secs(15),
            root_certificates: None,
        }
    }
}

impl fmt::Debug for PostgresOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresOptions")
            .field("schema", &self.schema)
            .field("migrate", &self.migrate)
            .field("clock", &self.clock.as_ref().map(|_| ".."))
            .field("connections_max", &self.connections_max)
            .field("lanes_max", &self.lanes_max)
            .field("queue_max", &self.queue_max)
            .field("queue_bytes_max", &self.queue_bytes_max)
            .field("listen", &self.listen)
            .field("prepare", &self.prepare)
            .field("statement_timeout", &self.statement_timeout)
            .field("root_certificates", &self.root_certificates)
            .finish()
    }
}

/// The store on PostgreSQL. See the module's head.
///
/// Closed or dropped, it finishes what was handed over and lets go of what it holds, so that other
/// nodes go on at once; dropping blocks for that.
pub struct PostgresStore {
    node: Arc<Node>,
    runtime: Handle,
    end: watch::Sender<Option<Instant>>,
    ended: watch::Receiver<Option<Result<(), Error>>>,
    thread: Option<JoinHandle<()>>,
}

impl PostgresStore {
    /// Opens the store in a database, and makes its tables or brings them up to date. Blocks until
    /// that is done.
    ///
    /// `url` is a `postgres://` URL or a list of `key=value` pairs, as libpq takes them. With
    /// `sslmode=require`, `verify-ca` or `verify-full` there is TLS, and the server's certificate and
    /// name are verified; without a word about it TLS is tried, and verified if the server has it,
    /// unless the server is on this machine. `sslrootcert` in a URL names whom to trust, if the options
    /// do not.
    ///
    /// # Errors
    ///
    /// When the server cannot be reached or refuses, when a later version of relent has made the
    /// tables, or when they are of an earlier one and are not to be touched.
    pub fn connect(url: &str, options: PostgresOptions) -> Result<PostgresStore, ConnectError> {
        let place = Arc::new(Place::new(url, &options)?);
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(ConnectError::Thread)?;
        let handle = runtime.handle().clone();
        let (opened, opening) = mpsc::sync_channel(1);
        let (end, told_to_end) = watch::channel(None);
        let (tell_ended, ended) = watch::channel(None);
        let carry = move || {
            runtime.block_on(async move {
                let node = match open(place, &options).await {
                    Ok(node) => Arc::new(node),
                    Err(error) => return drop(opened.send(Err(error))),
                };
                if opened.send(Ok(Arc::clone(&node))).is_ok() {
                    let how = run(node, told_to_end).await;
                    tell_ended.send_replace(Some(how));
                }
            });
            // What is left by now is not waited for.
            runtime.shutdown_background();
        };
        let thread = thread::Builder::new().name("relent-postgres".to_owned()).spawn(carry);
        let thread = thread.map_err(ConnectError::Thread)?;
        let gone = || ConnectError::Unavailable("its thread has ended".to_owned());
        let node = opening.recv().map_err(|_| gone())??;
        Ok(PostgresStore { node, runtime: handle, end, ended, thread: Some(thread) })
    }

    /// Makes the tables, or brings them up to date, and does nothing else. Blocks until that is done.
    ///
    /// # Errors
    ///
    /// When the server cannot be reached or refuses, or when a later version of relent has made the
    /// tables.
    pub fn migrate(url: &str, options: &PostgresOptions) -> Result<Migrated, ConnectError> {
        let place = Place::new(url, options)?;
        alone(async move { schema::migrate(&place).await })
    }

    /// Looks at what a store in this database can guarantee, without opening it. Blocks until that is
    /// done.
    ///
    /// # Errors
    ///
    /// When the server cannot be reached or refuses.
    pub fn examine(url: &str, options: &PostgresOptions) -> Result<Assurance, ConnectError> {
        let (place, listen) = (Place::new(url, options)?, options.listen);
        alone(async move { examine::examine(&place, listen).await })
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

/// Runs something short to its end, on a thread of its own: whoever asks may be on a runtime.
fn alone<T: Send>(
    what: impl Future<Output = Result<T, ConnectError>> + Send,
) -> Result<T, ConnectError> {
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(ConnectError::Thread)?;
    let gone = || ConnectError::Unavailable("its thread has ended".to_owned());
    thread::scope(|scope| scope.spawn(move || runtime.block_on(what)).join().map_err(|_| gone())?)
}

/// Sees to the tables, and brings the node into being.
async fn open(place: Arc<Place>, options: &PostgresOptions) -> Result<Node, ConnectError> {
    match options.migrate {
        true => drop(schema::migrate(&place).await?),
        false => schema::check(&place).await?,
    }
    let failed = |failure: Failure| ConnectError::Unavailable(failure.into_text());
    let clock = Clock::new(options.clock.clone());
    let mut link = Link::new(Arc::clone(&place), Role::Plain);
    clock.measure(&mut link).await.map_err(failed)?;
    let rows = link.query(NUMBER, &[]).await.map_err(failed)?;
    let number = rows.first().map_or(Ok(0), |row| rows::column(row, 0));
    let node = Node::new(place, number.map_err(|error| failed(error.into()))?, clock, options);
    node.lend(link);
    node.make_days(node.clock.now()).await.map_err(failed)?;
    Ok(node)
}

/// Works until it is told to end, and ends in good order.
async fn run(
    node: Arc<Node>,
    mut told_to_end: watch::Receiver<Option<Instant>>,
) -> Result<(), Error> {
    let mut workers = JoinSet::new();
    workers.spawn(enqueue::work(Arc::clone(&node)));
    workers.spawn(record::work(Arc::clone(&node)));
    workers.spawn(claim::work(Arc::clone(&node)));
    let mut chores = JoinSet::new();
    chores.spawn(crate::hints::keep_looking(Arc::clone(&node)));
    chores.spawn(prune::keep_making_days(Arc::clone(&node)));
    if node.hints.tells_others {
        chores.spawn(crate::hints::tell_others(Arc::clone(&node)));
    }
    if node.hints.tells_others && node.place.can_hear() {
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
        node.leave().await?;
        claim::release(&node).await
    };
    let ended = timeout_at(by, last).await;
    node.abandon();
    match ended {
        Ok(released) => Ok(released?),
        Err(_) => Err(Error::Unavailable("it did not end in time".to_owned())),
    }
}

impl Store for PostgresStore {
    fn now(&self) -> Timestamp {
        self.node.clock.now()
    }

    fn listen(&self, listener: Arc<dyn DueListener>) {
        self.node.hints.set_listener(listener);
    }
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore")
            .field("schema", &self.node.place.schema)
            .finish_non_exhaustive()
    }
}

impl Drop for PostgresStore {
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
