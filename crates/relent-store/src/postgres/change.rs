//! Calling off, trying dead letters again, and deleting. REQ-S2, REQ-S4, REQ-D3.

use std::collections::HashMap;

use tokio_postgres::types::Type;

use super::failure::Failure;
use super::insert::to_dues;
use super::node::Node;
use super::rows::{
    EXHAUSTED, HELD, IN_FLIGHT, PENDING, column, from_duration, from_id, to_id, to_state,
};
use crate::error::Error;
use crate::hints::Neighbour as _;
use crate::id::{TaskId, TenantId};
use crate::task::{Cancelled, Redrive, Redriven};

const CANCEL: &str = "
WITH found AS MATERIALIZED (
    SELECT t.id, t.state FROM relent.tasks t
    WHERE t.id = $1 AND t.line >> 1 IN (SELECT id FROM relent.lanes WHERE tenant = $2)
    FOR UPDATE OF t
),
changed AS (
    UPDATE relent.tasks t SET
        state = CASE WHEN f.state = 0 THEN 4 ELSE t.state END,
        ended_at = CASE WHEN f.state = 0 THEN coalesce($3, relent.now_nanos()) END,
        cancel_requested = f.state <> 0
    FROM found f WHERE t.id = f.id AND f.state IN (0, 1, 5)
)
SELECT state FROM found";

/// In the order of their ids, so that two of these never wait for each other.
const REDRIVE: &str = "
WITH clock AS MATERIALIZED (SELECT coalesce($1, relent.now_nanos()) AS now),
found AS MATERIALIZED (
    SELECT t.id, t.state, i.after, i.policy, i.lifetime
    FROM unnest($3, $4, $5, $6) AS i(id, after, policy, lifetime)
    JOIN relent.tasks t ON t.id = i.id
    WHERE t.line >> 1 IN (SELECT id FROM relent.lanes WHERE tenant = $2)
    ORDER BY t.id FOR UPDATE OF t
),
changed AS (
    UPDATE relent.tasks t SET state = 0, attempts = 0, generation = t.generation + 1,
        line = t.line & ~1::bigint,
        due_at = (SELECT now FROM clock) + f.after,
        started_at = (SELECT now FROM clock) + f.after,
        deadline_at = (SELECT now FROM clock) + f.after
            + coalesce(f.lifetime, t.deadline_at - t.started_at),
        policy = coalesce(f.policy, t.policy),
        waiting = 0, ended_at = NULL, because = NULL, last_status = NULL, history = NULL,
        cancel_requested = false
    FROM found f WHERE t.id = f.id AND f.state = 3
    RETURNING t.id, t.line, t.due_at
)
SELECT f.id, f.state, c.line, c.due_at FROM found f LEFT JOIN changed c ON c.id = f.id";

const PURGE: &str = "
WITH gone AS (
    DELETE FROM relent.tasks t USING (
        SELECT d.id FROM relent.tasks d
        WHERE d.id = ANY($1) AND d.ended_at IS NOT NULL
            AND d.line >> 1 IN (SELECT id FROM relent.lanes WHERE tenant = $2)
        ORDER BY d.id FOR UPDATE OF d) found
    WHERE t.id = found.id AND t.ended_at IS NOT NULL RETURNING t.id
),
payloads AS (DELETE FROM relent.payloads y USING gone WHERE y.id = gone.id),
attempts AS (DELETE FROM relent.attempts a USING gone WHERE a.task = gone.id)
SELECT count(*) FROM gone";

impl Node {
    pub(super) async fn cancel(
        &self,
        tenant: &TenantId,
        task: TaskId,
    ) -> Result<Cancelled, Failure> {
        let (id, owner, now) = (from_id(task), tenant.as_str(), self.clock.given());
        let values = [(&id as _, Type::INT8), (&owner as _, Type::TEXT), (&now as _, Type::INT8)];
        let rows = self.link().await.query(CANCEL, &values).await?;
        let Some(row) = rows.first() else { return Ok(Cancelled::NotFound) };
        Ok(match column(row, 0)? {
            PENDING => Cancelled::Now,
            IN_FLIGHT | HELD => Cancelled::AfterAttempt,
            ended => Cancelled::Ended(to_state(ended)?),
        })
    }

    pub(super) async fn redrive(
        &self,
        tenant: &TenantId,
        redrives: &[Redrive],
    ) -> Result<Vec<Redriven>, Failure> {
        let mut link = self.long_link().await;
        let policies = redrives.iter().filter_map(|redrive| Some(redrive.policy?.0));
        let unknown = policies.clone().filter(|policy| !self.knows_policy(*policy)).collect();
        self.look_up(&mut link, Vec::new(), unknown).await?;
        for policy in policies {
            if !self.knows_policy(policy) {
                return Err(Error::Damaged(format!("there is no {policy}")).into());
            }
        }
        let (owner, now) = (tenant.as_str(), self.clock.given());
        // The first wish for a task counts.
        let mut wishes: HashMap<TaskId, &Redrive> = HashMap::new();
        for wish in redrives {
            wishes.entry(wish.task).or_insert(wish);
        }
        let wishes: Vec<&Redrive> = wishes.into_values().collect();
        let ids: Vec<i64> = wishes.iter().map(|wish| from_id(wish.task)).collect();
        let after: Vec<i64> = wishes.iter().map(|wish| from_duration(wish.after)).collect();
        let policy = |wish: &&Redrive| wish.policy.map(|(key, _)| i64::from(key.as_u32()));
        let policies: Vec<Option<i64>> = wishes.iter().map(policy).collect();
        let lifetime = |wish: &&Redrive| wish.policy.map(|(_, lifetime)| from_duration(lifetime));
        let lifetimes: Vec<Option<i64>> = wishes.iter().map(lifetime).collect();
        let values = [
            (&now as _, Type::INT8),
            (&owner as _, Type::TEXT),
            (&ids as _, Type::INT8_ARRAY),
            (&after as _, Type::INT8_ARRAY),
            (&policies as _, Type::INT8_ARRAY),
            (&lifetimes as _, Type::INT8_ARRAY),
        ];
        let rows = link.query(REDRIVE, &values).await?;
        let (mut states, mut dues) = (HashMap::new(), HashMap::new());
        for row in &rows {
            let state: i16 = column(row, 1)?;
            states.insert(to_id(column(row, 0)?)?, state);
            if state == EXHAUSTED {
                let (line, at): (i64, i64) = (column(row, 2)?, column(row, 3)?);
                let earliest = dues.entry(line).or_insert(at);
                *earliest = at.min(*earliest);
            }
        }
        self.tell(&to_dues(dues)?);
        let mut answers = Vec::with_capacity(redrives.len());
        for redrive in redrives {
            answers.push(match states.get_mut(&redrive.task) {
                None => Redriven::NotFound,
                Some(state) if *state == EXHAUSTED => {
                    *state = PENDING;
                    Redriven::Pending
                }
                Some(state) => Redriven::NotDead(to_state(*state)?),
            });
        }
        Ok(answers)
    }

    pub(super) async fn purge(&self, tenant: &TenantId, tasks: &[TaskId]) -> Result<u64, Failure> {
        let ids: Vec<i64> = tasks.iter().map(|id| from_id(*id)).collect();
        let owner = tenant.as_str();
        let values = [(&ids as _, Type::INT8_ARRAY), (&owner as _, Type::TEXT)];
        let rows = self.long_link().await.query(PURGE, &values).await?;
        let purged: i64 = rows.first().map_or(Ok(0), |row| column(row, 0))?;
        Ok(purged.cast_unsigned())
    }
}
