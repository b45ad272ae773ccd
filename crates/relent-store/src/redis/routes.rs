//! Which server answers for a shard, and asking it.
//!
//! A shard is a hash tag: everything under it is on one server, and one script can change all of it.
//! With one server there is nothing to choose. In a Cluster the slot of the tag decides; where it is now
//! is asked at the start, learnt from redirections (`MOVED`), and asked again when a server fails. A slot
//! on its way to another server (`ASK`) is not followed there: slots move key by key, and a script would
//! miss what has not arrived. Until it has, its tasks wait. Nothing is sent twice, except what was not
//! run: redirected, or by a server that did not know the script. REQ-S7.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redis::{Cmd, ServerErrorKind, Value, cmd};

use super::failure::Failure;
use super::link::{Link, Role};
use super::place::{Address, Place};
use super::script::Script;
use super::values::{array, int, text};
use crate::error::Error;

/// How often a command is sent to another server.
const REDIRECTIONS_MAX: usize = 5;
const SLOTS: u16 = 16_384;

pub(super) struct Routes {
    pub(super) place: Arc<Place>,
    limit: Duration,
    allow_danger: bool,
    shards: Vec<Route>,
    links: Mutex<HashMap<(Address, Role), Arc<Link>>>,
    /// How many plain connections were made.
    made: Arc<AtomicU64>,
}

struct Route {
    slot: u16,
    at: Mutex<Address>,
}

/// Waiting for other copies of what was written.
#[derive(Clone, Debug)]
pub(super) struct Copies {
    pub(super) command: Cmd,
    pub(super) limit: Duration,
}

impl Routes {
    pub(super) fn new(
        place: Arc<Place>,
        shards: usize,
        limit: Duration,
        allow_danger: bool,
    ) -> Routes {
        let route = |shard| {
            let (slot, seed) = (slot(&place.base(shard)), place.seeds[0].clone());
            Route { slot, at: Mutex::new(seed) }
        };
        let shards = (0..shards).map(route).collect();
        let (links, made) = (Mutex::default(), Arc::default());
        Routes { place, limit, allow_danger, shards, links, made }
    }

    /// How many plain connections were made. If it has grown, another server may have taken over, which has
    /// not received everything that the one before it had said.
    pub(super) fn connections_made(&self) -> u64 {
        self.made.load(Ordering::SeqCst)
    }

    pub(super) fn shards(&self) -> usize {
        self.shards.len()
    }

    /// Every server that answers for a shard.
    pub(super) fn servers(&self) -> Vec<Address> {
        let mut servers = Vec::new();
        for shard in 0..self.shards.len() {
            let address = self.address(shard);
            if !servers.contains(&address) {
                servers.push(address);
            }
        }
        servers
    }

    fn address(&self, shard: usize) -> Address {
        self.shards[shard].at.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn move_to(&self, shard: usize, address: Address) {
        *self.shards[shard].at.lock().unwrap_or_else(PoisonError::into_inner) = address;
    }

    pub(super) fn link(&self, address: Address, role: Role) -> Arc<Link> {
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        let link = links.entry((address.clone(), role)).or_insert_with(|| {
            let (place, made) = match role {
                Role::Plain => (Arc::clone(&self.place), Arc::clone(&self.made)),
                _ => (Arc::clone(&self.place), Arc::default()),
            };
            Arc::new(Link::new(place, address, self.limit, self.allow_danger, made))
        });
        Arc::clone(link)
    }

    /// Asks the Cluster where its slots are.
    pub(super) async fn refresh(&self) -> Result<(), Failure> {
        if !self.place.is_cluster {
            return Ok(());
        }
        let mut asked = self.servers();
        asked.extend(self.place.seeds.iter().cloned());
        let mut last = Failure::Down("no server of the Cluster is known".to_owned());
        for address in asked {
            let link = self.link(address.clone(), Role::Plain);
            let slots = link.send(cmd("CLUSTER").arg("SLOTS")).await;
            match slots.and_then(|slots| Ok(ranges(slots, &address)?)) {
                Ok(ranges) => {
                    for (shard, route) in self.shards.iter().enumerate() {
                        let holds = |(from, to, _): &&(u16, u16, Address)| {
                            (*from..=*to).contains(&route.slot)
                        };
                        if let Some((_, _, address)) = ranges.iter().find(holds) {
                            self.move_to(shard, address.clone());
                        }
                    }
                    return Ok(());
                }
                Err(failure) => last = failure,
            }
        }
        Err(last)
    }

    /// Sends a command about one shard.
    pub(super) async fn send(
        &self,
        shard: usize,
        role: Role,
        command: &Cmd,
    ) -> Result<Value, Failure> {
        let request = Request { command, script: None, copies: None };
        Ok(self.follow(shard, role, &request).await?.0)
    }

    /// Runs a script on one shard, and waits for copies of what it has written.
    pub(super) async fn run(
        &self,
        shard: usize,
        role: Role,
        script: &'static Script,
        args: &[&[u8]],
        copies: Option<&Copies>,
    ) -> Result<(Value, Option<Value>), Failure> {
        let digest = match script.digest() {
            Some(digest) => digest.to_owned(),
            None => {
                self.load(&self.link(self.address(shard), role), script).await?;
                script.digest().unwrap_or_default().to_owned()
            }
        };
        let key = format!("{}e", self.place.base(shard));
        let mut command = cmd("EVALSHA");
        command.arg(digest).arg(1).arg(key);
        for arg in args {
            command.arg(*arg);
        }
        let request = Request { command: &command, script: Some(script), copies };
        self.follow(shard, role, &request).await
    }

    async fn load(&self, link: &Link, script: &'static Script) -> Result<(), Failure> {
        let source = script.source();
        let digest = link.send(cmd("SCRIPT").arg("LOAD").arg(source)).await?;
        script.learn(text(digest)?);
        Ok(())
    }

    /// Sends where it is to be sent.
    async fn follow(
        &self,
        shard: usize,
        role: Role,
        request: &Request<'_>,
    ) -> Result<(Value, Option<Value>), Failure> {
        for _ in 0..REDIRECTIONS_MAX {
            let link = self.link(self.address(shard), role);
            let failure = match request.send(&link).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            match (failure.server(), request.script) {
                (Some(ServerErrorKind::NoScript), Some(script)) => self.load(&link, script).await?,
                (Some(ServerErrorKind::Moved), _) => match redirected(&failure, &link.address) {
                    Some(address) => self.move_to(shard, address),
                    None => self.refresh().await?,
                },
                _ => {
                    if failure.is_about_the_server()
                        && let Err(failure) = self.refresh().await
                    {
                        tracing::debug!(?failure, "cannot ask the Cluster where its slots are");
                    }
                    return Err(failure);
                }
            }
        }
        Err(Failure::Down("the Cluster sends from one server to the next".to_owned()))
    }
}

/// What is sent, and what for.
struct Request<'a> {
    command: &'a Cmd,
    script: Option<&'static Script>,
    copies: Option<&'a Copies>,
}

impl Request<'_> {
    async fn send(&self, link: &Link) -> Result<(Value, Option<Value>), Failure> {
        let Some(copies) = self.copies else { return Ok((link.send(self.command).await?, None)) };
        let sent = link.send_together(self.command, &copies.command, copies.limit).await?;
        Ok((sent.0, Some(sent.1)))
    }
}

fn redirected(failure: &Failure, asked: &Address) -> Option<Address> {
    match failure {
        Failure::Refused(error) => Address::read(error.redirect_node()?.0, asked),
        _ => None,
    }
}

/// Which servers have which slots.
fn ranges(slots: Value, asked: &Address) -> Result<Vec<(u16, u16, Address)>, Error> {
    let mut ranges = Vec::new();
    for range in array(slots)? {
        let mut parts = array(range)?.into_iter();
        let mut next = || parts.next().unwrap_or(Value::Nil);
        let (from, to) = (int(next())?, int(next())?);
        let mut master = array(next())?.into_iter();
        let host = master.next().map_or(Ok(String::new()), text).unwrap_or_default();
        let port = int(master.next().unwrap_or(Value::Nil))?;
        let to_slot = |slot: i64| u16::try_from(slot).unwrap_or(SLOTS);
        if let Some(address) = Address::read(&format!("{host}:{port}"), asked) {
            ranges.push((to_slot(from), to_slot(to), address));
        }
    }
    Ok(ranges)
}

/// The slot of a key: CRC-16 (XMODEM) of what is between its braces.
fn slot(key: &str) -> u16 {
    let tag = key.split_once('{').and_then(|(_, rest)| rest.split_once('}'));
    let tag = tag.map_or(key, |(tag, _)| tag);
    let crc = tag.bytes().fold(0_u16, |mut crc, byte| {
        crc ^= u16::from(byte) << 8;
        for _ in 0..8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 };
        }
        crc
    });
    crc % SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_redis() {
        // As `CLUSTER KEYSLOT` says.
        assert_eq!(slot("123456789"), 0x31C3);
        assert_eq!(slot("foo"), 12182);
        assert_eq!(slot("{foo}:bar"), slot("foo"));
        assert_eq!(slot("{relent:0}:e"), slot("relent:0"));
    }
}
