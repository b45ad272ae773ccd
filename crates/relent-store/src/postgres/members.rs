//! Who else works on this schema, and what they have changed. REQ-G4, REQ-S7.
//!
//! What has changed is asked for by the time of the change, and some time before the last look: a
//! change is seen when it is committed, which is after its time was taken.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use relent_policy::Share;
use tokio_postgres::types::Type;

use super::failure::Failure;
use super::node::Node;
use super::rows::{column, from_duration, to_u32};
use super::{lanes, policies};
use crate::error::Error;
use crate::id::TenantId;
use crate::member::{Beat, NODE_TTL};

/// How much longer than the time of its change something may take to be seen.
const OVERLAP: Duration = Duration::from_secs(5);

const BEAT: &str = "INSERT INTO relent.members AS m (node, works, seen_at)
VALUES ($2, $3, coalesce($1, relent.now_nanos()))
ON CONFLICT (node) DO UPDATE SET works = excluded.works, seen_at = excluded.seen_at
RETURNING m.seen_at";
const OTHERS: &str = "SELECT count(*) FILTER (WHERE node < $1), count(*) FROM relent.members
WHERE works AND seen_at > $2";
const LEAVE: &str = "DELETE FROM relent.members WHERE node = $1 OR seen_at < $2";
const LANES: &str = "SELECT id, tenant, dependency, policy, paused, in_flight_max,
    retries_in_flight_max, rate_per_second, budget, breaker, breaker_revision
FROM relent.lanes WHERE changed_at >= $1 ORDER BY id";
const POLICIES: &str =
    "SELECT key, policy_id, version, document, lease, created_at, deleted, tenant
FROM relent.policies WHERE changed_at >= $1 ORDER BY key";

/// The time of the last beat, as the database has it.
#[derive(Debug)]
pub(super) struct LastBeat(Mutex<i64>);

impl LastBeat {
    pub(super) fn new(at: i64) -> LastBeat {
        LastBeat(Mutex::new(at))
    }

    fn get(&self) -> i64 {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, at: i64) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = at;
    }
}

impl Node {
    pub(super) async fn beat(&self, works: bool) -> Result<Beat, Failure> {
        let mut link = self.link().await;
        let now = self.clock.given();
        let values =
            [(&now as _, Type::INT8), (&self.number as _, Type::INT4), (&works as _, Type::BOOL)];
        let rows = link.query(BEAT, &values).await?;
        let seen_at: i64 = rows.first().map_or(Ok(0), |row| column(row, 0))?;
        let alive = seen_at - from_duration(NODE_TTL);
        let values = [(&self.number as _, Type::INT4), (&alive as _, Type::INT8)];
        let rows = link.look(OTHERS, &values).await?;
        let count = |index| rows.first().map_or(Ok(0), |row| to_u32(column(row, index)?));
        let (rank, of): (Result<u32, Error>, Result<u32, Error>) = (count(0), count(1));
        let share = works.then_some(Share::new(rank?, of?));

        let since = self.last_beat.get() - from_duration(OVERLAP);
        let rows = link.look(LANES, &[(&since as _, Type::INT8)]).await?;
        let lanes = rows.iter().map(lanes::to_record).collect::<Result<Vec<_>, Error>>()?;
        lanes.iter().for_each(|lane| self.learn_lane(lane.id, &lane.tenant));
        let rows = link.look(POLICIES, &[(&since as _, Type::INT8)]).await?;
        let mut policies = Vec::with_capacity(rows.len());
        for row in &rows {
            let policy = policies::to_record(row)?;
            let tenant = TenantId::try_new(column(row, 7)?)
                .map_err(|_| Error::Damaged(format!("{} has no tenant", policy.key)))?;
            self.learn_policy(policy.key);
            policies.push((tenant, policy));
        }
        // Only now: what was not heard to the end is to be heard again.
        self.last_beat.set(seen_at);
        Ok(Beat { share, lanes, policies })
    }

    /// Is not counted any more, and neither are those that are long gone.
    pub(super) async fn leave(&self) -> Result<(), Failure> {
        let mut link = self.link().await;
        let long_ago =
            self.clock.given().unwrap_or_else(|| super::rows::from_time(self.clock.now()))
                - from_duration(60 * NODE_TTL);
        let values = [(&self.number as _, Type::INT4), (&long_ago as _, Type::INT8)];
        link.query(LEAVE, &values).await.map(drop)
    }
}
