//! Who else works under this prefix, and what they have changed. REQ-G4, REQ-S7.
//!
//! Changes are numbered as they are made, so a node hears of each, whatever the clocks do. A replica
//! that takes over may not have received the last ones, and gives their numbers again: after every
//! new connection a node hears everything again.

use std::sync::PoisonError;

use redis::cmd;
use relent_policy::Share;

use super::failure::Failure;
use super::link::Role;
use super::node::Node;
use super::script::REGISTRY;
use super::values::{array, int, some_bytes, text};
use crate::error::Error;
use crate::member::{Beat, NODE_TTL};

/// The last change of lanes and policies that was heard of.
#[derive(Clone, Debug)]
pub(super) struct Heard {
    last: String,
    /// How many connections there had been by then.
    connections_made: u64,
}

impl Node {
    pub(super) async fn beat(&self, works: bool) -> Result<Beat, Failure> {
        let made = self.routes.connections_made();
        let heard = self.heard().filter(|heard| heard.connections_made == made);
        let heard = heard.map_or_else(|| "0".to_owned(), |heard| heard.last);
        let ttl = NODE_TTL.as_micros().to_string();
        let works_text: &[u8] = if works { b"1" } else { b"0" };
        let args: [&[u8]; 4] = [b"beat", works_text, ttl.as_bytes(), heard.as_bytes()];
        let beat = self.run(0, Role::Plain, &REGISTRY, &args).await?;
        let mut beat = array(beat)?.into_iter();
        let mut next = || beat.next().unwrap_or_default();
        let last = text(next())?;
        let number = |value| Ok::<u32, Error>(u32::try_from(int(value)?).unwrap_or_default());
        let (rank, of) = (number(next())?, number(next())?);
        let lanes = array(next())?.into_iter().map(|lane| self.read_lane(lane));
        let lanes = lanes.collect::<Result<Vec<_>, Error>>()?;
        let policies = array(next())?.into_iter().map(|policy| self.read_policy(policy));
        let policies = policies.collect::<Result<Vec<_>, Error>>()?;
        self.hear(Some(Heard { last, connections_made: made }));
        Ok(Beat { share: works.then_some(Share::new(rank, of)), lanes, policies })
    }

    /// Hears from now on.
    pub(super) async fn listen_from_now(&self) -> Result<(), Failure> {
        let connections_made = self.routes.connections_made();
        let last = format!("{}wn", self.routes.place.base(0));
        let last = some_bytes(self.look(0, cmd("GET").arg(last)).await?)?;
        if let Some(last) = last.and_then(|last| String::from_utf8(last).ok()) {
            self.hear(Some(Heard { last, connections_made }));
        }
        Ok(())
    }

    fn heard(&self) -> Option<Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn hear(&self, heard: Option<Heard>) {
        *self.heard.lock().unwrap_or_else(PoisonError::into_inner) = heard;
    }

    /// Is not counted any more.
    pub(super) async fn leave(&self) -> Result<(), Failure> {
        let members = format!("{}m", self.routes.place.base(0));
        let command = cmd("HDEL").arg(members).arg(self.number).clone();
        self.routes.send(0, Role::Plain, &command).await.map(drop)
    }
}
