//! Deleting what is older than it need be.
//!
//! What ends is added to the end of a list, with the time; so is each attempt. Both lists are therefore
//! in the order of time, and pruning looks at their beginnings only. What was tried again or deleted in
//! the meantime is in them too, and is passed over. What was copied from another store comes in no such
//! order: it is in a sorted set beside each list, which is pruned from its beginning as well. REQ-S2, REQ-D3.

use super::failure::Failure;
use super::link::Role;
use super::node::Node;
use super::pack::nanos;
use super::script::PRUNE;
use super::values::{array, int};
use crate::task::Retention;

/// In one script.
const ROWS_MAX: u64 = 500;

impl Node {
    pub(super) async fn prune(&self, retention: Retention, max: u32) -> Result<u64, Failure> {
        let now = self.clock.now().as_nanos();
        let kept = [retention.ended, retention.dead_letters, retention.attempts];
        let before = kept.map(|kept| now.saturating_sub(nanos(kept)).to_be_bytes());
        let (max, mut done) = (u64::from(max), 0);
        for shard in 0..self.shards.len() {
            let mut more = true;
            while more && done < max {
                let left = (max - done).min(ROWS_MAX).to_string();
                let args: [&[u8]; 4] = [left.as_bytes(), &before[0], &before[1], &before[2]];
                let pruned = self.run(shard, Role::Plain, &PRUNE, &args).await?;
                let mut pruned = array(pruned)?.into_iter();
                let rows = int(pruned.next().unwrap_or_default())?.unsigned_abs();
                let looked_in_vain = int(pruned.next().unwrap_or_default())? == 1;
                done += rows;
                more = looked_in_vain || rows == ROWS_MAX;
            }
        }
        Ok(done)
    }
}
