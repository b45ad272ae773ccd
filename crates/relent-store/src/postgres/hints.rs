//! How nodes tell each other through PostgreSQL: by NOTIFY, on another connection than the commit's,
//! because PostgreSQL lets only one transaction that notifies commit at a time, in the whole server.
//! Through a pooler a node tells and does not hear: it would listen on a connection that is somebody
//! else's a moment later. REQ-S4, REQ-S5, REQ-S7.

use std::time::Duration;

use relent_policy::Timestamp;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_postgres::types::Type;

use super::failure::Failure;
use super::link::{self, GRACE};
use super::node::Node;
use super::place::Role;
use crate::hints::{Hints, Neighbour, begin_to_hear, hear};
use crate::lane::LaneDue;

const NOTIFY: &str = "SELECT pg_notify($1, text) FROM unnest($2) AS text";
/// Who only listens would not notice that nobody is there any more.
const ASK_EVERY: Duration = Duration::from_secs(5);

impl Neighbour for Node {
    type Failure = Failure;

    fn number(&self) -> u32 {
        self.number.cast_unsigned()
    }

    fn hints(&self) -> &Hints {
        &self.hints
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn tell_here(&self, dues: &[LaneDue]) {
        self.floors.told(dues);
        self.hints.tell_here(dues);
    }

    async fn say(&self, texts: Vec<String>) -> Result<(), Failure> {
        let channel = self.place.channel();
        let values = [(&channel as _, Type::TEXT), (&texts as _, Type::TEXT_ARRAY)];
        self.link().await.query(NOTIFY, &values).await.map(drop)
    }

    async fn listen(&self) -> Result<(), Failure> {
        let (ears, mut heard) = mpsc::unbounded_channel();
        let client = link::open(&self.place, Role::Listen, Some(ears)).await?;
        let ask = async |sql: &str| {
            let answer = timeout(self.place.limit(Role::Listen) + GRACE, client.batch_execute(sql));
            let answer = answer.await.map_err(|_| Failure::Lost("it did not answer".to_owned()))?;
            answer.map_err(Failure::Refused)
        };
        ask(&format!("LISTEN {}", self.place.channel())).await?;
        begin_to_hear(self).await?;
        loop {
            match timeout(ASK_EVERY, heard.recv()).await {
                Ok(None) => return Ok(()),
                Err(_) => ask("").await?,
                Ok(Some(text)) => hear(self, &text),
            }
        }
    }

    async fn due_until(&self, soon: Timestamp) -> Result<Vec<LaneDue>, Failure> {
        let mut lines = self.lines().await?;
        lines.retain(|line| line.at <= soon);
        Ok(lines)
    }

    async fn look_at_clock(&self) -> Result<(), Failure> {
        self.clock.measure(&mut *self.link().await).await
    }
}
