//! Whether the data is still the data that a node knew.
//!
//! Redis can lose everything without an error: it is flushed, it is started again with an empty
//! directory, a part of a Cluster is replaced. Then every key is free again and every task is gone, and
//! a service that went on would deliver twice and not notice. So whoever opens a store first gives it a
//! random name, its epoch, in every shard; every script compares it with the one its node knows, and does
//! nothing when it is missing or another. Whoever finds that has to be told by a person that the loss is
//! accepted. An empty Redis is a new store.
//!
//! Beside it stands how many shards there are: a tenant's shard follows from its name and that number.
//! REQ-S4, REQ-S7.

use std::time::Duration;

use redis::{Value, cmd};

use super::RedisOptions;
use super::failure::Failure;
use super::link::Role;
use super::place::{Place, RedisConnectError};
use super::routes::Routes;
use super::values::{array, some_bytes};
use crate::error::Error;

/// How data is written. A later version is refused.
const VERSION: u32 = 1;
const SHARDS_OF_ONE: u16 = 1;
const SHARDS_OF_A_CLUSTER: u16 = 16;
pub(super) const SHARDS_MAX: u16 = 256;
/// Numbers of lanes and policies start here when the registry was lost: tasks in other shards may
/// still have old ones.
const YEAR_2026: u64 = 1_767_225_600;

const FOUND: &str = "
if redis.call('EXISTS', KEYS[1]) == 0 then
    redis.call('HSET', KEYS[1], 'version', ARGV[1], 'shards', ARGV[2], 'epoch', ARGV[3])
end
return redis.call('HMGET', KEYS[1], 'version', 'shards', 'epoch', 'ready')";

/// What was written down about a store when it was made.
struct Founded {
    version: u32,
    shards: u16,
    epoch: String,
    is_ready: bool,
}

impl Founded {
    fn read(value: Value) -> Result<Option<Founded>, Error> {
        let mut texts = Vec::new();
        for value in array(value)? {
            let text = some_bytes(value)?;
            texts.push(text.map(|text| String::from_utf8_lossy(&text).into_owned()));
        }
        let [Some(version), Some(shards), Some(epoch), ready] = &texts[..] else { return Ok(None) };
        let bad = || Error::Damaged("what is known about the store makes no sense".to_owned());
        Ok(Some(Founded {
            version: version.parse().map_err(|_| bad())?,
            shards: shards.parse().map_err(|_| bad())?,
            epoch: epoch.clone(),
            is_ready: ready.is_some(),
        }))
    }
}

/// How many shards there are or are to be.
pub(super) async fn shards(
    place: &Place,
    routes: &Routes,
    options: &RedisOptions,
) -> Result<u16, RedisConnectError> {
    let asked = options.shards;
    if let Some(shards) = asked.filter(|shards| !(1..=SHARDS_MAX).contains(shards)) {
        return Err(RedisConnectError::BadShards(shards));
    }
    let prefix = || place.prefix.clone();
    let Some(founded) = find(routes).await.map_err(unavailable)? else {
        let usual = if place.is_cluster { SHARDS_OF_A_CLUSTER } else { SHARDS_OF_ONE };
        return Ok(asked.unwrap_or(usual));
    };
    if founded.version > VERSION {
        let (found, known) = (founded.version, VERSION);
        return Err(RedisConnectError::Newer { prefix: prefix(), found, known });
    }
    match asked {
        Some(asked) if asked != founded.shards => {
            Err(RedisConnectError::Shards { prefix: prefix(), found: founded.shards, asked })
        }
        _ => Ok(founded.shards),
    }
}

async fn find(routes: &Routes) -> Result<Option<Founded>, Failure> {
    let mut command = cmd("HMGET");
    command.arg(meta(routes)).arg(&["version", "shards", "epoch", "ready"]);
    Ok(Founded::read(routes.send(0, Role::Plain, &command).await?)?)
}

fn meta(routes: &Routes) -> String {
    format!("{}meta", routes.place.base(0))
}

fn unavailable(failure: Failure) -> RedisConnectError {
    RedisConnectError::Unavailable(failure.into_text())
}

/// The epoch of the store, which is made if there is none.
pub(super) async fn open(
    routes: &Routes,
    options: &RedisOptions,
) -> Result<String, RedisConnectError> {
    // Another node may be making the store right now. It writes the list before the epochs, and says
    // that it is ready after them.
    let before = epochs(routes).await.map_err(unavailable)?;
    let founded = find(routes).await.map_err(unavailable)?;
    let reset = |what: &str| {
        let prefix = routes.place.prefix.clone();
        Err(RedisConnectError::Reset { prefix, what: what.to_owned() })
    };
    if founded.is_none() && before.iter().any(Option::is_some) {
        if !options.accept_data_loss {
            return reset("the list of lanes and policies is missing");
        }
        return accept(routes).await.map_err(unavailable);
    }
    let founded = match founded {
        Some(founded) => founded,
        None => found(routes).await.map_err(unavailable)?,
    };
    if !founded.is_ready {
        settle(routes, &founded.epoch, true).await.map_err(unavailable)?;
        return Ok(founded.epoch);
    }
    // Only now: another node may have made all of it since.
    let epochs = epochs(routes).await.map_err(unavailable)?;
    if epochs.iter().all(|epoch| epoch.as_ref() == Some(&founded.epoch)) {
        return Ok(founded.epoch);
    }
    if !options.accept_data_loss {
        let whole = |epoch: &&Option<String>| epoch.as_ref() == Some(&founded.epoch);
        let whole = epochs.iter().filter(whole).count();
        return reset(&format!("{whole} of {} shards are whole", epochs.len()));
    }
    accept(routes).await.map_err(unavailable)
}

/// Writes down that there is a store, unless another was faster.
async fn found(routes: &Routes) -> Result<Founded, Failure> {
    let mut command = cmd("EVAL");
    command.arg(FOUND).arg(1).arg(meta(routes));
    command.arg(VERSION).arg(routes.shards()).arg(new_epoch());
    let founded = Founded::read(routes.send(0, Role::Plain, &command).await?)?;
    Ok(founded.ok_or_else(|| Error::Damaged("nothing was written".to_owned()))?)
}

fn new_epoch() -> String {
    format!("{:016x}{:016x}", fastrand::u64(..), fastrand::u64(..))
}

/// The epoch of each shard.
async fn epochs(routes: &Routes) -> Result<Vec<Option<String>>, Failure> {
    let mut epochs = Vec::with_capacity(routes.shards());
    for shard in 0..routes.shards() {
        let found = routes.send(shard, Role::Plain, cmd("GET").arg(key(routes, shard))).await?;
        let found = some_bytes(found)?;
        epochs.push(found.map(|epoch| String::from_utf8_lossy(&epoch).into_owned()));
    }
    Ok(epochs)
}

fn key(routes: &Routes, shard: usize) -> String {
    format!("{}e", routes.place.base(shard))
}

/// Gives every shard its epoch; a new store's only to those that have none.
async fn settle(routes: &Routes, epoch: &str, is_new: bool) -> Result<(), Failure> {
    for shard in 0..routes.shards() {
        let mut command = cmd("SET");
        command.arg(key(routes, shard)).arg(epoch);
        if is_new {
            command.arg("NX");
        }
        routes.send(shard, Role::Plain, &command).await?;
    }
    routes.send(0, Role::Plain, cmd("HSET").arg(meta(routes)).arg("ready").arg(1)).await?;
    Ok(())
}

/// Goes on with what there is. If nobody has accepted the loss before, under a new epoch: other nodes
/// have to accept it too.
pub(super) async fn accept(routes: &Routes) -> Result<String, Failure> {
    let known = find(routes).await?;
    if let Some(known) = known.as_ref().filter(|known| known.is_ready)
        && epochs(routes).await?.iter().all(|epoch| epoch.as_ref() == Some(&known.epoch))
    {
        return Ok(known.epoch.clone());
    }
    if known.is_none() {
        let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let seconds = since_epoch.unwrap_or(Duration::ZERO).as_secs().saturating_sub(YEAR_2026);
        for counter in ["pn", "vn"] {
            let mut command = cmd("SET");
            command.arg(format!("{}{counter}", routes.place.base(0))).arg(seconds).arg("NX");
            routes.send(0, Role::Plain, &command).await?;
        }
        found(routes).await?;
    }
    let epoch = new_epoch();
    routes.send(0, Role::Plain, cmd("HSET").arg(meta(routes)).arg("epoch").arg(&epoch)).await?;
    settle(routes, &epoch, false).await?;
    Ok(epoch)
}
