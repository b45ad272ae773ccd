//! Connections that are open and idle, by target. REQ-S5, REQ-P4.
//!
//! # Why a pool of our own
//!
//! hyper-util's pooling client hides three things that must be seen here. It sends a request again
//! on its own account, or fails an attempt that it could have saved; here a connection hands the
//! request back when it was provably not written, and only then is it sent on another one. It keeps
//! a connection as long as it is used, so a name that has moved, or that never should have been
//! resolved to where it was, is not looked at again; here a connection has an age. And it drops a
//! connection to let it end by itself, which a peer that does not read can put off for ever; here
//! dropping a connection ends it.
//!
//! # How
//!
//! A target has a list of idle connections, the last used on top: under little traffic the ones
//! below grow old and go, instead of all being kept alive in turn. There are no timers: what is too
//! old is dropped when it is come across, and a sweep looks at everything now and then. The sweep is
//! one task, started by the first connection that comes back, and ends with the pool.
//!
//! A connection is a task of its own, which sees it when the peer hangs up. But it only sees what
//! the reactor has told it: a peer's FIN may have arrived and not been looked at. So a connection
//! that was idle for longer than a moment is used after the reactor has had its turn
//! ([`Idle::becomes_ready`]); what remains is the FIN that is still on its way. And it may be
//! slower than the request's task: the answer is there, read and told, and the connection not yet
//! ready for the next request. It is waited for, but not for long: one that is still busy sending a
//! body to a peer that has answered already may never be ready.
//!
//! # What breaks it
//!
//! More targets than `targets_max` at a time: those beyond go without a pool until the next sweep,
//! one connection for each request. More than `idle_per_target_max` requests at a time to one
//! target: the connections beyond are closed when their request is done. The key has no tenant in
//! it, as no connection carries anything of a tenant's; with client certificates it will have to.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use http::Uri;
use http::uri::Authority;
use http_body_util::Full;
use hyper::client::conn::http1::SendRequest;
use relent_policy::Fault;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::target::{Target, is_tls};

/// How long what is kept is kept, and how much of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) idle_per_target_max: usize,
    pub(super) idle_for: Duration,
    pub(super) connection_age_max: Duration,
    pub(super) targets_max: usize,
}

/// All idle connections.
#[derive(Debug)]
pub(super) struct Pool {
    limits: Limits,
    targets: Mutex<HashMap<Key, Arc<Pooled>>>,
    is_swept: AtomicBool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    tls: bool,
    authority: Authority,
}

/// A target and the idle connections to it.
#[derive(Debug)]
pub(super) struct Pooled {
    target: Target,
    idle: Mutex<Vec<Idle>>,
}

/// A connection that waits for its next request.
#[derive(Debug)]
pub(super) struct Idle {
    connection: Connection,
    since: Instant,
}

/// A connection that has been made. Dropping it closes it, whatever it is doing.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) sender: SendRequest<Full<Bytes>>,
    task: JoinHandle<hyper::Result<()>>,
    made_at: Instant,
}

impl Pool {
    pub(super) fn new(limits: Limits) -> Pool {
        Pool { limits, targets: Mutex::default(), is_swept: AtomicBool::new(false) }
    }

    /// The target that a URL names.
    pub(super) fn target(&self, uri: &Uri) -> Result<Arc<Pooled>, Fault> {
        let authority = uri.authority().ok_or(Fault::Configuration)?.clone();
        let key = Key { tls: is_tls(uri)?, authority };
        if let Some(target) = lock(&self.targets).get(&key) {
            return Ok(Arc::clone(target));
        }
        let target = Arc::new(Pooled { target: Target::read(uri)?, idle: Mutex::default() });
        let mut targets = lock(&self.targets);
        if targets.len() < self.limits.targets_max {
            return Ok(Arc::clone(targets.entry(key).or_insert(target)));
        }
        Ok(target)
    }

    /// The idle connection that was used last.
    pub(super) fn take(&self, target: &Pooled, now: Instant) -> Option<Idle> {
        let mut list = lock(&target.idle);
        while let Some(idle) = list.pop() {
            if !self.is_spent(&idle, now) {
                return Some(idle);
            }
        }
        None
    }

    /// Takes a connection back whose answer has been read to the end.
    pub(super) fn keep(self: &Arc<Pool>, target: &Pooled, connection: Connection, now: Instant) {
        let idle = Idle { connection, since: now };
        if self.is_spent(&idle, now) {
            return;
        }
        let mut list = lock(&target.idle);
        if list.len() < self.limits.idle_per_target_max {
            list.push(idle);
        }
        drop(list);
        if !self.is_swept.swap(true, Ordering::Relaxed) {
            tokio::spawn(sweep_for_ever(Arc::downgrade(self), self.limits.idle_for));
        }
    }

    fn is_spent(&self, idle: &Idle, now: Instant) -> bool {
        let Limits { idle_for, connection_age_max, .. } = self.limits;
        idle.connection.sender.is_closed()
            || now.duration_since(idle.since) >= idle_for
            || now.duration_since(idle.connection.made_at) >= connection_age_max
    }

    /// Drops what is too old, and the targets that nothing is left of.
    fn sweep(&self, now: Instant) {
        lock(&self.targets).retain(|_, target| {
            let mut idle = lock(&target.idle);
            idle.retain(|idle| !self.is_spent(idle, now));
            !idle.is_empty() || Arc::strong_count(target) > 1
        });
    }
}

async fn sweep_for_ever(pool: Weak<Pool>, idle_for: Duration) {
    let pause = (idle_for / 2).clamp(Duration::from_millis(100), Duration::from_secs(60));
    loop {
        tokio::time::sleep(pause).await;
        let Some(pool) = pool.upgrade() else { return };
        pool.sweep(Instant::now());
    }
}

impl Deref for Pooled {
    type Target = Target;

    fn deref(&self) -> &Target {
        &self.target
    }
}

impl Idle {
    /// The connection, if it is still open as far as this machine has heard.
    pub(super) async fn becomes_ready(self, now: Instant) -> Option<Connection> {
        /// Under load the reactor has its turn more often than that.
        const MOMENT: Duration = Duration::from_millis(1);
        /// More than a task needs to finish its turn.
        const TURN_MAX: Duration = Duration::from_millis(5);
        if now.duration_since(self.since) >= MOMENT {
            // Comes back after the reactor has been asked for what has arrived, and after those
            // whom that has woken.
            tokio::task::yield_now().await;
        }
        let mut connection = self.connection;
        if !connection.sender.is_ready() {
            let ready = tokio::time::timeout(TURN_MAX, connection.sender.ready());
            ready.await.ok()?.ok()?;
        }
        Some(connection)
    }
}

impl Connection {
    pub(super) fn new(
        sender: SendRequest<Full<Bytes>>,
        task: JoinHandle<hyper::Result<()>>,
    ) -> Connection {
        Connection { sender, task, made_at: Instant::now() }
    }

    /// What a connection came to that has ended, if it was an error.
    pub(super) async fn end(mut self) -> Option<hyper::Error> {
        (&mut self.task).await.ok().and_then(Result::err)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// No code here panics under a lock; if it did, the lists would still be lists.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
