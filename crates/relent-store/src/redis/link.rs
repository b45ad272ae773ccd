//! One connection that heals.
//!
//! A connection that is lost is made again when somebody next needs it: at once the first time, then
//! after a wait that doubles up to two seconds of which chance takes a part, so that the
//! nodes of a cluster do not come back to a restarted server all at the same instant. Whoever asks in
//! the meantime waits for one try, and is told if that fails. Each new connection looks at the server
//! first ([`examine`](super::examine)): one that has become a replica, or was started again without its
//! log, is refused. Every command has a limit; a connection that misses it is given up. REQ-S4, REQ-S7.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, Value};
use tokio::sync::Mutex;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until, timeout};

use super::examine;
use super::failure::{Failure, describe};
use super::place::{Address, Place};
use crate::assurance::Severity;
use crate::hints::jittered;
use crate::trust::with_way_out;

const FIRST_WAIT: Duration = Duration::from_millis(50);
const WAIT_MAX: Duration = Duration::from_secs(2);

/// What a connection is for. One that waits for replicas keeps nobody else waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Role {
    Enqueue,
    Record,
    Claim,
    Plain,
}

pub(super) struct Link {
    place: Arc<Place>,
    pub(super) address: Address,
    limit: Duration,
    allow_danger: bool,
    /// How many connections were made, here and by others that count along.
    made: Arc<AtomicU64>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    open: Option<Open>,
    /// When the next try may be made, and how long to wait after that.
    next_try: Option<(Instant, Duration)>,
}

/// A connection and what carries it, which ends with it.
#[derive(Clone)]
pub(super) struct Open {
    connection: MultiplexedConnection,
    number: u64,
    _driver: Arc<Driver>,
}

struct Driver(AbortHandle);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Link {
    pub(super) fn new(
        place: Arc<Place>,
        address: Address,
        limit: Duration,
        allow_danger: bool,
        made: Arc<AtomicU64>,
    ) -> Link {
        Link { place, address, limit, allow_danger, made, state: Mutex::default() }
    }

    /// Sends a command to its end.
    pub(super) async fn send(&self, command: &Cmd) -> Result<Value, Failure> {
        let open = self.open().await?;
        self.send_on(&open, command, Duration::ZERO).await
    }

    /// Sends commands one after the other on the same connection. The last may take longer.
    pub(super) async fn send_together(
        &self,
        first: &Cmd,
        last: &Cmd,
        longer: Duration,
    ) -> Result<(Value, Value), Failure> {
        let open = self.open().await?;
        let answer = self.send_on(&open, first, Duration::ZERO).await?;
        Ok((answer, self.send_on(&open, last, longer).await?))
    }

    async fn send_on(
        &self,
        open: &Open,
        command: &Cmd,
        longer: Duration,
    ) -> Result<Value, Failure> {
        let mut connection = open.connection.clone();
        let sent = timeout(self.limit + longer, connection.send_packed_command(command)).await;
        let failed = match sent {
            Ok(Ok(Value::ServerError(error))) => error.into(),
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(error)) => error,
            Err(_) => {
                self.give_up(open).await;
                return Err(Failure::Lost(format!("{} did not answer in time", self.address)));
            }
        };
        if failed.is_io_error() || failed.is_unrecoverable_error() {
            self.give_up(open).await;
            return Err(Failure::Lost(describe(&failed)));
        }
        let failure = Failure::Refused(failed);
        if failure.is_about_the_server() {
            self.give_up(open).await;
        }
        Err(failure)
    }

    async fn give_up(&self, lost: &Open) {
        let mut state = self.state.lock().await;
        if state.open.as_ref().is_some_and(|open| open.number == lost.number) {
            state.open = None;
        }
    }

    async fn open(&self) -> Result<Open, Failure> {
        let mut state = self.state.lock().await;
        if let Some(open) = &state.open {
            return Ok(open.clone());
        }
        if let Some((at, _)) = state.next_try {
            sleep_until(at).await;
        }
        match self.connect().await {
            Ok(open) => {
                state.open = Some(open.clone());
                state.next_try = None;
                Ok(open)
            }
            Err(failure) => {
                let wait = state.next_try.map_or(FIRST_WAIT, |(_, wait)| (wait * 2).min(WAIT_MAX));
                state.next_try = Some((Instant::now() + jittered(wait), wait));
                Err(failure)
            }
        }
    }

    async fn connect(&self) -> Result<Open, Failure> {
        let config = AsyncConnectionConfig::new().set_response_timeout(None);
        let mut open = open(&self.place, &self.address, config).await?;
        // Before anything is sent: whoever asks after that knows that it may be another server.
        self.made.fetch_add(1, Ordering::SeqCst);
        if !self.allow_danger {
            let limit = self.place.connect_timeout;
            let found = timeout(limit, examine::look(&mut open.connection)).await;
            let found = found.map_err(|_| Failure::Down(format!("{} is silent", self.address)))?;
            let dangers = found?.into_iter().filter(|found| found.severity == Severity::Danger);
            let dangers: Vec<String> = dangers.map(|danger| danger.to_string()).collect();
            if !dangers.is_empty() {
                return Err(Failure::Down(format!("{}: {}", self.address, dangers.join("; "))));
            }
        }
        Ok(open)
    }
}

impl Open {
    pub(super) fn connection(&mut self) -> &mut MultiplexedConnection {
        &mut self.connection
    }
}

/// A connection on which an answer may take as long as connecting may. The default of the client is half a
/// second, which a busy server can take.
pub(super) fn patient(place: &Place) -> AsyncConnectionConfig {
    AsyncConnectionConfig::new().set_response_timeout(Some(place.connect_timeout))
}

/// Opens a connection.
pub(super) async fn open(
    place: &Place,
    address: &Address,
    config: AsyncConnectionConfig,
) -> Result<Open, Failure> {
    let down = |what: String| Failure::Down(format!("cannot reach {address}: {what}"));
    let opened = async {
        let stream = place.connect(address).await.map_err(|error| {
            down(with_way_out(error.to_string(), "store.redis.root_certificates_file"))
        })?;
        let made = MultiplexedConnection::new_with_config(&place.settings, stream, config).await;
        let (connection, driver) = made.map_err(|error| down(describe(&error)))?;
        let driver = tokio::spawn(driver).abort_handle();
        let _driver = Arc::new(Driver(driver));
        Ok(Open { connection, number: fastrand::u64(..), _driver })
    };
    let opened = timeout(place.connect_timeout, opened).await;
    opened.unwrap_or_else(|_| Err(down("it does not answer".to_owned())))
}
