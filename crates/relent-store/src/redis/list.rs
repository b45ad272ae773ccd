//! Looking for tasks, latest first, a bounded number at a time.
//!
//! A page is made of what fits among the next tasks in the order of ids. If these are all looked through
//! before the page is full, the page is short and says where to go on: however rare what is looked for
//! may be, a page costs what a page costs. Dead letters have an index of their own, as they are few
//! among many, and are what people look for. REQ-S2, REQ-D3.

use redis::Value;

use super::claim::to_id;
use super::codes::{CANCELLED, EXHAUSTED, HELD, IN_FLIGHT, PENDING, SUCCEEDED, from_reason};
use super::failure::Failure;
use super::layout::Task;
use super::link::Role;
use super::node::Node;
use super::pack::damaged;
use super::script::LOOK;
use super::values::{array, bytes, int};
use crate::id::{TaskId, TenantId};
use crate::page::{Cursor, Page, TaskFilter};
use crate::task::{State, TaskRecord};

/// How many scripts, of a thousand tasks each, a page may take.
const LOOKS_MAX: usize = 20;

impl Node {
    pub(super) async fn list(
        &self,
        tenant: &TenantId,
        filter: &TaskFilter,
        after: Option<Cursor>,
        max: u32,
    ) -> Result<Page<TaskRecord>, Failure> {
        let id_at = |at| TaskId::first_at(at).as_u64();
        let from = filter.created_after.map_or(0, id_at).to_be_bytes();
        let end = filter.created_before.map_or(u64::MAX, id_at);
        let end = after.map_or(u64::MAX, |Cursor(id)| id.as_u64()).min(end);
        let states = states(&filter.states);
        let because = filter.because.map(from_reason).into_iter().collect::<Vec<u8>>();
        let lanes = filter.lanes.as_ref();
        let lanes = numbers(lanes.map(|lanes| lanes.iter().map(|lane| lane.as_u32()).collect()));
        let policies = filter.policies.as_ref();
        let policies = numbers(policies.map(|keys| keys.iter().map(|key| key.as_u32()).collect()));
        let only_dead = filter.because.is_some() || filter.states == [State::Exhausted];
        let index: &[u8] = if only_dead { b"d" } else { b"x" };
        let max = max.max(1) as usize;
        let (mut items, mut below) = (Vec::new(), end);
        for _ in 0..LOOKS_MAX {
            // One more than is wanted, to know whether there is a next page.
            let left = (max + 1 - items.len()).to_string();
            let end = below.to_be_bytes();
            let owner = tenant.as_str().as_bytes();
            let args: [&[u8]; 10] = [
                b"list",
                owner,
                index,
                &from,
                &end,
                left.as_bytes(),
                states.as_bytes(),
                &because,
                &lanes,
                &policies,
            ];
            let found = self.run(self.shard_of(tenant), Role::Plain, &LOOK, &args).await?;
            let mut found = array(found)?.into_iter();
            let last = bytes(found.next().unwrap_or_default())?;
            while let Some(id) = found.next() {
                items.push(read(id, found.next(), found.next())?);
            }
            if items.len() > max {
                items.truncate(max);
                let next = items.last().map(|task| Cursor(task.id));
                return Ok(Page { items, next });
            }
            if last.is_empty() {
                return Ok(Page { items, next: None });
            }
            below = to_id(Value::BulkString(last))?.as_u64();
        }
        let next = TaskId::from_u64(below).map(Cursor);
        Ok(Page { items, next })
    }
}

fn read(id: Value, task: Option<Value>, whole: Option<Value>) -> Result<TaskRecord, Failure> {
    let (Some(task), Some(whole)) = (task, whole) else { return Err(damaged("is no task").into()) };
    let whole = int(whole)?.unsigned_abs();
    Ok(Task::read(to_id(id)?, bytes(task)?, Some(whole))?.record)
}

/// Which states are looked for, as a row of zeros and ones.
fn states(wanted: &[State]) -> String {
    let all = [PENDING, IN_FLIGHT, SUCCEEDED, EXHAUSTED, CANCELLED, HELD];
    let is_wanted = |state: u8| {
        let state = super::codes::to_state(state);
        wanted.is_empty() || state.is_ok_and(|state| wanted.contains(&state))
    };
    all.into_iter().map(|state| if is_wanted(state) { '1' } else { '0' }).collect()
}

/// Numbers of lanes or policies; `*` for any.
fn numbers(wanted: Option<Vec<u32>>) -> Vec<u8> {
    match wanted {
        None => b"*".to_vec(),
        Some(wanted) => wanted.into_iter().flat_map(u32::to_be_bytes).collect(),
    }
}
