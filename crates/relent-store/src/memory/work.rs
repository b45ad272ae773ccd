//! Claiming, recording, taking over. REQ-S3, REQ-S4.

use relent_policy::Timestamp;

use super::state::{Hold, Row, State};
use crate::attempt::{Record, Recorded, Then};
use crate::id::TaskId;
use crate::lease::{Claimed, Claims, Lease, SWEEP_LEASE, Swept, SweptBecause, Want};
use crate::task::State as TaskState;

impl State {
    pub(super) fn claim(&mut self, wants: &[Want], now: Timestamp) -> Claims {
        let mut claims = Claims::default();
        for want in wants {
            let waiting = self.line_of(*want, now);
            let due = waiting.iter().take_while(|(due_at, _)| *due_at <= now + want.ahead);
            let taken: Vec<TaskId> = due.take(want.max as usize).map(|(_, id)| *id).collect();
            claims.next.push(waiting.get(taken.len()).map(|(due_at, _)| *due_at));
            claims.claimed.extend(taken.into_iter().map(|id| self.claim_one(id, now)));
        }
        claims
    }

    /// Everything in a line, in its order.
    fn line_of(&self, want: Want, now: Timestamp) -> Vec<(Timestamp, TaskId)> {
        let in_line = |row: &&Row| {
            row.waits_in(now).is_some_and(|line| line.lane == want.lane && line.turn == want.turn)
        };
        let rows = self.tasks.values().filter(in_line);
        let mut line: Vec<_> = rows.map(|row| (row.task.due_at, row.task.id)).collect();
        line.sort_unstable();
        line
    }

    fn claim_one(&mut self, id: TaskId, now: Timestamp) -> Claimed {
        let token = self.next_token();
        let row = self.tasks.get_mut(&id).expect("the task was just found in its line");
        let until = now + self.policies[&row.task.policy].1.lease;
        row.hold = Some(Hold { token, until, claimed_at: Some(now) });
        row.task.state = TaskState::InFlight;
        row.task.attempts += 1;
        Claimed {
            lease: Lease { task: id, token, until },
            lane: row.task.lane,
            policy: row.task.policy,
            generation: row.task.generation,
            history: row.past().begin_attempt(),
            due_at: row.task.due_at,
            previous_status: row.task.last_status,
            key: row.task.key.clone(),
            request: row.task.request.clone(),
        }
    }

    pub(super) fn record(&mut self, record: Record, now: Timestamp) -> Recorded {
        let Some(row) = self.tasks.get_mut(&record.lease.task) else { return Recorded::Stale };
        if row.hold.as_ref().is_none_or(|hold| hold.token != record.lease.token) {
            return Recorded::Stale;
        }
        if let Some(attempt) = record.attempt {
            row.task.last_status = attempt.status.or(row.task.last_status);
            row.attempts.push(attempt);
        }
        match record.then {
            Then::Succeed => row.end(TaskState::Succeeded, now),
            Then::Exhaust { because } => {
                row.end(TaskState::Exhausted, now);
                row.task.because = Some(because);
            }
            Then::RetryAt { .. } if row.task.cancel_requested => {
                row.end(TaskState::Cancelled, now);
                return Recorded::Cancelled;
            }
            Then::RetryAt { at, waiting, history } => {
                row.hold = None;
                row.history = Some(history);
                row.task.state = TaskState::Pending;
                row.task.due_at = at;
                row.task.waiting = waiting;
                let line = row.line();
                self.note_due(line);
            }
        }
        Recorded::Applied
    }

    pub(super) fn sweep(&mut self, max: u32, now: Timestamp) -> Vec<Swept> {
        let mut expired = Vec::new();
        let mut overdue = Vec::new();
        for (id, row) in &self.tasks {
            match &row.hold {
                Some(hold) if hold.until <= now => expired.push((hold.until, *id)),
                None if row.task.state == TaskState::Pending && row.task.deadline_at <= now => {
                    overdue.push((row.task.deadline_at, *id));
                }
                _ => {}
            }
        }
        expired.sort_unstable();
        overdue.sort_unstable();
        let all = expired.into_iter().chain(overdue);
        all.take(max as usize).map(|(_, id)| self.take_over(id, now)).collect()
    }

    fn take_over(&mut self, id: TaskId, now: Timestamp) -> Swept {
        let token = self.next_token();
        let row = self.tasks.get_mut(&id).expect("the task was just found");
        let until = now + SWEEP_LEASE;
        let claimed_at = row.hold.as_ref().and_then(|hold| hold.claimed_at);
        row.hold = Some(Hold { token, until, claimed_at });
        row.task.state = TaskState::InFlight;
        let (history, because) = match claimed_at {
            Some(claimed_at) => {
                let began_at = claimed_at.max(row.task.due_at);
                (row.past().begin_attempt(), SweptBecause::LeaseExpired { began_at })
            }
            None => (row.past(), SweptBecause::DeadlinePassed),
        };
        Swept {
            lease: Lease { task: id, token, until },
            lane: row.task.lane,
            policy: row.task.policy,
            generation: row.task.generation,
            history,
            because,
            key: row.task.key.clone(),
        }
    }
}
