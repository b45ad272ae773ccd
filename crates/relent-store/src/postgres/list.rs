//! Looking for tasks, latest first, a bounded number of rows at a time.
//!
//! A page is made of what fits among the next rows in the order of ids. If these are all looked
//! through before the page is full, the page is short and says where to go on: however rare what is
//! looked for may be, a page costs what a page costs. Dead letters have an index of their own, as
//! they are few among many, and are what people look for. REQ-S2, REQ-D3.

use relent_policy::GiveUpReason;
use tokio_postgres::types::Type;

use super::failure::Failure;
use super::node::Node;
use super::reads::to_task;
use super::rows::{column, from_id, from_state, to_id};
use crate::error::Error;
use crate::id::{TaskId, TenantId};
use crate::page::{Cursor, Page, TaskFilter};
use crate::task::{State, TaskRecord};

const LIST: &str = "
SELECT t.id, t.line, t.policy, t.state, t.generation, t.attempts, t.due_at, t.waiting,
    t.started_at, t.deadline_at, t.cancel_requested, t.ended_at, t.because, t.last_status,
    y.idempotency_key, y.fingerprint, y.method, y.url, y.headers, y.correlation_id,
    octet_length(y.body)::bigint
FROM (
    SELECT * FROM (
        SELECT * FROM relent.tasks WHERE id >= $2 AND id < $3 ORDER BY id DESC LIMIT 20000) look
    WHERE line >> 1 IN (SELECT id FROM relent.lanes WHERE tenant = $1)
        AND ($4 IS NULL OR state = ANY($4)) AND ($5 IS NULL OR line >> 1 = ANY($5))
        AND ($6 IS NULL OR policy = ANY($6)) AND ($7 IS NULL OR because = $7)
    ORDER BY id DESC LIMIT $8) t
JOIN relent.payloads y ON y.id = t.id ORDER BY t.id DESC";

const LIST_DEAD: &str = "
SELECT t.id, t.line, t.policy, t.state, t.generation, t.attempts, t.due_at, t.waiting,
    t.started_at, t.deadline_at, t.cancel_requested, t.ended_at, t.because, t.last_status,
    y.idempotency_key, y.fingerprint, y.method, y.url, y.headers, y.correlation_id,
    octet_length(y.body)::bigint
FROM (
    SELECT * FROM (
        SELECT * FROM relent.tasks WHERE state = 3 AND id >= $2 AND id < $3
        ORDER BY id DESC LIMIT 20000) look
    WHERE line >> 1 IN (SELECT id FROM relent.lanes WHERE tenant = $1)
        AND ($4 IS NULL OR state = ANY($4)) AND ($5 IS NULL OR line >> 1 = ANY($5))
        AND ($6 IS NULL OR policy = ANY($6)) AND ($7 IS NULL OR because = $7)
    ORDER BY id DESC LIMIT $8) t
JOIN relent.payloads y ON y.id = t.id ORDER BY t.id DESC";

/// The last row that a page looked at; none if it came to the end.
const LAST: &str = "SELECT id FROM relent.tasks WHERE id >= $1 AND id < $2
ORDER BY id DESC OFFSET 19999 LIMIT 1";
const LAST_DEAD: &str = "SELECT id FROM relent.tasks WHERE state = 3 AND id >= $1 AND id < $2
ORDER BY id DESC OFFSET 19999 LIMIT 1";

impl Node {
    pub(super) async fn list(
        &self,
        tenant: &TenantId,
        filter: &TaskFilter,
        after: Option<Cursor>,
        max: u32,
    ) -> Result<Page<TaskRecord>, Failure> {
        let owner = tenant.as_str();
        let id_at = |at| from_id(TaskId::first_at(at));
        let first = filter.created_after.map_or(0, id_at);
        let end = filter.created_before.map_or(i64::MAX, id_at);
        let end = after.map_or(i64::MAX, |Cursor(id)| from_id(id)).min(end);
        let states: Vec<i16> =
            filter.states.iter().flat_map(|state| from_state(*state)).copied().collect();
        let states = Some(states).filter(|states| !states.is_empty());
        let numbers = |ids: Vec<u32>| ids.into_iter().map(i64::from).collect::<Vec<i64>>();
        let lanes = filter.lanes.as_ref();
        let lanes = lanes.map(|all| numbers(all.iter().map(|lane| lane.as_u32()).collect()));
        let policies = filter.policies.as_ref();
        let policies = policies.map(|all| numbers(all.iter().map(|key| key.as_u32()).collect()));
        let because = filter.because.map(GiveUpReason::name);
        let max = max.max(1) as usize;
        let limit = i64::try_from(max + 1).unwrap_or(i64::MAX);
        let values = [
            (&owner as _, Type::TEXT),
            (&first as _, Type::INT8),
            (&end as _, Type::INT8),
            (&states as _, Type::INT2_ARRAY),
            (&lanes as _, Type::INT8_ARRAY),
            (&policies as _, Type::INT8_ARRAY),
            (&because as _, Type::TEXT),
            (&limit as _, Type::INT8),
        ];
        let only_dead = filter.because.is_some() || filter.states == [State::Exhausted];
        let (list, last) = if only_dead { (LIST_DEAD, LAST_DEAD) } else { (LIST, LAST) };
        let mut link = self.long_link().await;
        let rows = link.look(list, &values).await?;
        let mut items = rows.iter().map(to_task).collect::<Result<Vec<_>, Error>>()?;
        let is_full = items.len() > max;
        items.truncate(max);
        let next = if is_full {
            items.last().map(|task| Cursor(task.id))
        } else {
            let rows = link.look(last, &values[1..3]).await?;
            rows.first().map(|row| to_id(column(row, 0)?)).transpose()?.map(Cursor)
        };
        Ok(Page { items, next })
    }
}
