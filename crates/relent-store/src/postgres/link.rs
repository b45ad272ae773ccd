//! One connection, for one user at a time, that heals.
//!
//! A connection that is lost is made again when somebody next needs it: at once the first time, then
//! after a wait that doubles up to two seconds and of which chance takes a part, so that the nodes of
//! a cluster do not come back to a restarted server all at the same instant. Whoever asks in the
//! meantime waits for one try, and is told if that fails.
//!
//! Every statement has a limit on the server's side and a somewhat longer one on this: a server that
//! vanished without a word must not keep anybody waiting. A connection that missed the second limit
//! is given up. REQ-S4, REQ-S7.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{AsyncMessage, Client, Connection, NoTls, Row, Statement};

use super::failure::{Failure, describe};
use super::place::{Place, Role};
use crate::hints::jittered;
use crate::trust::with_way_out;

/// What a statement is given, and of which type.
pub(super) type Value<'a> = (&'a (dyn ToSql + Sync), Type);

const FIRST_WAIT: Duration = Duration::from_millis(50);
const WAIT_MAX: Duration = Duration::from_secs(2);
/// How much longer than the server may take, this side waits.
pub(super) const GRACE: Duration = Duration::from_secs(2);
const STATEMENTS_MAX: usize = 100;
/// An acknowledgement must outlive a crash, whatever the database's default is.
const DURABLE: &str = "SELECT set_config('synchronous_commit', 'on', false) \
     WHERE current_setting('synchronous_commit') = 'off'";

pub(super) struct Link {
    place: Arc<Place>,
    role: Role,
    open: Option<Open>,
    /// When the next try may be made, and how long to wait after that.
    next_try: Option<(Instant, Duration)>,
    in_transaction: bool,
    /// Whether what it is asked next may take long.
    pub(super) is_long: bool,
}

struct Open {
    client: Client,
    statements: HashMap<&'static str, Statement>,
}

impl Link {
    pub(super) fn new(place: Arc<Place>, role: Role) -> Link {
        Link { place, role, open: None, next_try: None, in_transaction: false, is_long: false }
    }

    /// Runs a statement to its end, which is its commit unless a transaction was begun.
    pub(super) async fn query(
        &mut self,
        sql: &'static str,
        values: &[Value<'_>],
    ) -> Result<Vec<Row>, Failure> {
        self.connect().await?;
        let limit = self.limit();
        let Some(open) = &mut self.open else { return Err(Failure::Down("no connection".into())) };
        let answer = timeout(limit, open.query(&self.place, sql, values)).await;
        self.outcome(answer)
    }

    /// Runs a statement that changes nothing; once more if the connection is lost over it.
    pub(super) async fn look(
        &mut self,
        sql: &'static str,
        values: &[Value<'_>],
    ) -> Result<Vec<Row>, Failure> {
        match self.query(sql, values).await {
            Err(Failure::Lost(_)) if !self.in_transaction => self.query(sql, values).await,
            answer => answer,
        }
    }

    /// Runs a statement without values, or several.
    pub(super) async fn run(&mut self, sql: &str) -> Result<(), Failure> {
        self.connect().await?;
        let limit = self.limit();
        let Some(open) = &self.open else { return Err(Failure::Down("no connection".into())) };
        let answer = timeout(limit, open.client.batch_execute(sql)).await;
        self.outcome(answer)
    }

    pub(super) async fn begin(&mut self) -> Result<(), Failure> {
        self.run("BEGIN").await?;
        self.in_transaction = true;
        Ok(())
    }

    pub(super) async fn commit(&mut self) -> Result<(), Failure> {
        self.run("COMMIT").await?;
        self.in_transaction = false;
        Ok(())
    }

    /// The transaction was ended by a statement of its own.
    pub(super) fn is_settled(&mut self) {
        self.in_transaction = false;
    }

    /// Leaves no transaction open, however the work ended.
    pub(super) async fn settle(&mut self) {
        if self.in_transaction && self.run("ROLLBACK").await.is_err() {
            self.open = None;
        }
        self.in_transaction = false;
    }

    pub(super) fn is_in_transaction(&self) -> bool {
        self.in_transaction
    }

    /// How long an answer is waited for.
    fn limit(&self) -> Duration {
        let of_role = if self.is_long { self.role } else { Role::Index };
        self.place.limit(of_role) + GRACE
    }

    fn outcome<T>(
        &mut self,
        answer: Result<Result<T, tokio_postgres::Error>, tokio::time::error::Elapsed>,
    ) -> Result<T, Failure> {
        let failed = match answer {
            Ok(Ok(found)) => return Ok(found),
            Ok(Err(failed)) => failed,
            Err(_) => {
                self.open = None;
                return Err(Failure::Lost("it did not answer in time".to_owned()));
            }
        };
        let is_closed = self.open.as_ref().is_none_or(|open| open.client.is_closed());
        let is_over = failed.is_closed() || is_closed || ends_the_connection(&failed);
        if !is_over {
            return Err(Failure::Refused(failed));
        }
        self.open = None;
        Err(Failure::Lost(describe(&failed)))
    }

    async fn connect(&mut self) -> Result<(), Failure> {
        if self.open.as_ref().is_some_and(|open| !open.client.is_closed()) {
            return Ok(());
        }
        if self.in_transaction {
            self.open = None;
            return Err(Failure::Lost("the connection was lost within a transaction".to_owned()));
        }
        if let Some((at, _)) = self.next_try {
            sleep_until(at).await;
        }
        match open(&self.place, self.role, None).await {
            Ok(client) => {
                self.open = Some(Open { client, statements: HashMap::new() });
                self.next_try = None;
                Ok(())
            }
            Err(failure) => {
                let wait = self.next_try.map_or(FIRST_WAIT, |(_, wait)| (wait * 2).min(WAIT_MAX));
                self.next_try = Some((Instant::now() + jittered(wait), wait));
                Err(failure)
            }
        }
    }
}

impl Open {
    async fn query(
        &mut self,
        place: &Place,
        sql: &'static str,
        values: &[Value<'_>],
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        if !place.prepare {
            return self.client.query_typed(&place.sql(sql), values).await;
        }
        let statement = match self.statements.get(sql) {
            Some(statement) => statement.clone(),
            None => {
                let types: Vec<Type> = values.iter().map(|(_, kind)| kind.clone()).collect();
                let statement = self.client.prepare_typed(&place.sql(sql), &types).await?;
                if self.statements.len() < STATEMENTS_MAX {
                    self.statements.insert(sql, statement.clone());
                }
                statement
            }
        };
        let values: Vec<&(dyn ToSql + Sync)> = values.iter().map(|(value, _)| *value).collect();
        // To the end of the answer, which comes after the commit.
        self.client.query(&statement, &values).await
    }
}

/// The server says with the error that it ends the connection.
fn ends_the_connection(failed: &tokio_postgres::Error) -> bool {
    failed.code().is_some_and(|code| code.code().starts_with("57P") || code.code() == "25P03")
}

/// Opens a connection. What it hears goes to `ears`.
pub(super) async fn open(
    place: &Place,
    role: Role,
    ears: Option<mpsc::UnboundedSender<String>>,
) -> Result<Client, Failure> {
    let config = place.config(role);
    let opened = async {
        let client = match &place.tls {
            Some(tls) => {
                let (client, connection) = config.connect(tls.clone()).await?;
                drop(tokio::spawn(keep(connection, ears)));
                client
            }
            None => {
                let (client, connection) = config.connect(NoTls).await?;
                drop(tokio::spawn(keep(connection, ears)));
                client
            }
        };
        if place.prepare {
            client.batch_execute(DURABLE).await?;
        }
        Ok(client)
    };
    // For all of it: what is reached may still say nothing.
    let limit = config.get_connect_timeout().copied().unwrap_or_default();
    match timeout(limit, opened).await {
        Ok(Ok(client)) => Ok(client),
        Ok(Err(failed)) => {
            const TRUST: &str = "store.postgres.root_certificates_file";
            Err(Failure::Down(with_way_out(describe(&failed), TRUST)))
        }
        Err(_) => Err(Failure::Down("it cannot be reached".to_owned())),
    }
}

/// Carries what a connection sends and receives, for as long as it lives.
async fn keep<S, T>(mut connection: Connection<S, T>, ears: Option<mpsc::UnboundedSender<String>>)
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
        if let (AsyncMessage::Notification(heard), Some(ears)) = (message, &ears)
            && ears.send(heard.payload().to_owned()).is_err()
        {
            return;
        }
    }
}
