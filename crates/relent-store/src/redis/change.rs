//! Calling off, trying dead letters again, and deleting. REQ-S2, REQ-S4, REQ-D3.

use std::collections::HashMap;

use relent_policy::Timestamp;

use super::claim::to_line;
use super::codes::{EXHAUSTED, HELD, IN_FLIGHT, PENDING, to_state};
use super::enqueue::first_attempts;
use super::failure::Failure;
use super::link::Role;
use super::node::Node;
use super::pack::{Reader, damaged, nanos};
use super::script::CHANGE;
use super::values::bytes;
use crate::error::Error;
use crate::hints::Neighbour as _;
use crate::id::{LaneId, TaskId, TenantId};
use crate::task::{Cancelled, Redrive, Redriven};

/// What stands for a task that is not there, or not the tenant's.
const MISSING: u8 = 255;
/// In one script.
const CHUNK: usize = 500;

impl Node {
    pub(super) async fn cancel(
        &self,
        tenant: &TenantId,
        task: TaskId,
    ) -> Result<Cancelled, Failure> {
        let changed = self.change(tenant, b"cancel", &[id(task)]).await?;
        Ok(match changed.first() {
            Some(&PENDING) => Cancelled::Now,
            Some(&IN_FLIGHT | &HELD) => Cancelled::AfterAttempt,
            Some(&MISSING) => Cancelled::NotFound,
            Some(ended) => Cancelled::Ended(to_state(*ended)?),
            None => return Err(damaged("is no answer").into()),
        })
    }

    pub(super) async fn redrive(
        &self,
        tenant: &TenantId,
        redrives: &[Redrive],
    ) -> Result<Vec<Redriven>, Failure> {
        let policies = redrives.iter().filter_map(|redrive| Some(redrive.policy?.0));
        let unknown = policies.filter(|policy| self.lease_of(*policy).is_none()).collect();
        self.look_up(Vec::new(), unknown).await?;
        let wishes = redrives.iter().map(|redrive| self.wish(redrive));
        let wishes = wishes.collect::<Result<Vec<_>, Error>>()?;
        let (mut answers, mut dues) = (Vec::with_capacity(wishes.len()), HashMap::new());
        for wishes in wishes.chunks(CHUNK) {
            let changed = self.change(tenant, b"redrive", wishes).await?;
            let mut changed = Reader::new(&changed);
            for _ in wishes {
                let (state, due_at, lane) = (changed.u8()?, changed.time()?, changed.u64()?);
                answers.push(match state {
                    MISSING => Redriven::NotFound,
                    EXHAUSTED => {
                        note(&mut dues, to_line(lane * 2)?.0, due_at);
                        Redriven::Pending
                    }
                    other => Redriven::NotDead(to_state(other)?),
                });
            }
        }
        self.tell(&first_attempts(dues));
        Ok(answers)
    }

    /// A wish, as the script reads it.
    fn wish(&self, redrive: &Redrive) -> Result<Vec<u8>, Error> {
        let mut out = id(redrive.task);
        out.extend(nanos(redrive.after).to_be_bytes());
        if let Some((policy, lifetime)) = redrive.policy {
            let lease = self.lease_of(policy);
            let lease = lease.ok_or_else(|| Error::Damaged(format!("there is no {policy}")))?;
            out.extend(policy.as_u32().to_be_bytes());
            out.extend(lease.to_be_bytes());
            out.extend(nanos(lifetime).to_be_bytes());
        }
        Ok(out)
    }

    pub(super) async fn purge(&self, tenant: &TenantId, tasks: &[TaskId]) -> Result<u64, Failure> {
        let ids: Vec<Vec<u8>> = tasks.iter().map(|task| id(*task)).collect();
        let mut purged = 0;
        for ids in ids.chunks(CHUNK) {
            let changed = self.change(tenant, b"purge", ids).await?;
            purged += changed.iter().map(|gone| u64::from(*gone)).sum::<u64>();
        }
        Ok(purged)
    }

    async fn change(
        &self,
        tenant: &TenantId,
        what: &[u8],
        wishes: &[Vec<u8>],
    ) -> Result<Vec<u8>, Failure> {
        let mut args: Vec<&[u8]> = vec![what, tenant.as_str().as_bytes()];
        args.extend(wishes.iter().map(Vec::as_slice));
        let shard = self.shard_of(tenant);
        Ok(bytes(self.run(shard, Role::Plain, &CHANGE, &args).await?)?)
    }
}

fn id(task: TaskId) -> Vec<u8> {
    task.as_u64().to_be_bytes().to_vec()
}

fn note(dues: &mut HashMap<LaneId, Timestamp>, lane: LaneId, due_at: Timestamp) {
    let earliest = dues.entry(lane).or_insert(due_at);
    *earliest = due_at.min(*earliest);
}
