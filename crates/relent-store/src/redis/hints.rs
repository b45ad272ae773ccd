//! How nodes tell each other through Redis: on a channel, which in a Cluster is everywhere.
//! REQ-S4, REQ-S5, REQ-S7.

use std::time::Duration;

use redis::{PushInfo, PushKind, cmd};
use relent_policy::Timestamp;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::failure::{Failure, describe};
use super::link::{self, Role};
use super::node::Node;
use super::place::Place;
use super::values::text;
use crate::hints::{Hints, Neighbour, begin_to_hear, hear};
use crate::lane::LaneDue;

/// Hints that wait to be heard; what is more is lost, and found by looking.
const HEARD_MAX: usize = 1_024;
/// How long nothing need be heard before the connection is tried.
const SILENCE_MAX: Duration = Duration::from_secs(10);

impl Neighbour for Node {
    type Failure = Failure;

    fn number(&self) -> u32 {
        self.number
    }

    fn hints(&self) -> &Hints {
        &self.hints
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    async fn say(&self, texts: Vec<String>) -> Result<(), Failure> {
        for text in texts {
            let mut command = cmd("PUBLISH");
            command.arg(self.routes.place.channel()).arg(text);
            self.routes.send(0, Role::Plain, &command).await?;
        }
        Ok(())
    }

    async fn listen(&self) -> Result<(), Failure> {
        let (ears, mut heard) = mpsc::channel::<Option<String>>(HEARD_MAX);
        let config = link::patient(&self.routes.place).set_push_sender(move |push: PushInfo| {
            let said = match push.kind {
                PushKind::Message => push.data.into_iter().nth(1).and_then(|said| text(said).ok()),
                PushKind::Disconnection => None,
                _ => return Ok(()),
            };
            match ears.try_send(said) {
                Err(mpsc::error::TrySendError::Closed(_)) => Err(()),
                _ => Ok(()),
            }
        });
        let place = Place::listening(&self.routes.place);
        let address = self.routes.servers().remove(0);
        let mut open = link::open(&place, &address, config).await?;
        let subscribed =
            timeout(place.connect_timeout, open.connection().subscribe(place.channel()));
        match subscribed.await {
            Ok(subscribed) => subscribed.map_err(|error| Failure::Down(describe(&error)))?,
            Err(_) => return Err(Failure::Down("it does not answer".to_owned())),
        }
        begin_to_hear(self).await?;
        loop {
            // A connection that is silent for long may be gone without a word.
            match timeout(SILENCE_MAX, heard.recv()).await {
                Ok(Some(Some(said))) => hear(self, &said),
                Ok(_) => return Ok(()),
                Err(_) => {
                    let mut ping = open.connection().clone();
                    let ponged = timeout(place.connect_timeout, async {
                        ping.send_packed_command(&cmd("PING")).await
                    });
                    if !matches!(ponged.await, Ok(Ok(_))) {
                        return Err(Failure::Lost("it does not answer".to_owned()));
                    }
                }
            }
        }
    }

    async fn due_until(&self, soon: Timestamp) -> Result<Vec<LaneDue>, Failure> {
        self.lines_until(&(soon.as_nanos() / 1_000).to_string()).await
    }

    async fn look_at_clock(&self) -> Result<(), Failure> {
        self.clock.measure(&self.routes).await
    }
}
