//! The attempts under way, so that one that has not been sent yet can still be called off.
//!
//! A task that is claimed and cancelled in the same moment is the hard case of "nothing starts after
//! an acknowledged cancel". The attempt and the cancellation meet here: whoever is first wins.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use relent_store::TaskId;

/// See the module's head.
#[derive(Debug, Default)]
pub(crate) struct UnderWay {
    tasks: Mutex<HashMap<TaskId, Step>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Claimed,
    Sent,
    CalledOff,
}

impl UnderWay {
    /// A task was claimed.
    pub(crate) fn claimed(&self, task: TaskId) {
        self.lock().insert(task, Step::Claimed);
    }

    /// Asks to send; `false` if it was called off.
    pub(crate) fn may_send(&self, task: TaskId) -> bool {
        let mut tasks = self.lock();
        let step = tasks.entry(task).or_insert(Step::Sent);
        if *step == Step::Claimed {
            *step = Step::Sent;
        }
        *step == Step::Sent
    }

    /// Calls an attempt off, if it is not sent yet.
    pub(crate) fn call_off(&self, task: TaskId) {
        if let Some(step @ Step::Claimed) = self.lock().get_mut(&task) {
            *step = Step::CalledOff;
        }
    }

    /// The attempt is over.
    pub(crate) fn ended(&self, task: TaskId) {
        self.lock().remove(&task);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<TaskId, Step>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_is_first_wins() {
        let (under_way, task) = (UnderWay::default(), TaskId::from_u64(7).unwrap());
        under_way.claimed(task);
        under_way.call_off(task);
        assert!(!under_way.may_send(task));
        under_way.ended(task);

        under_way.claimed(task);
        assert!(under_way.may_send(task));
        under_way.call_off(task);
        assert!(under_way.may_send(task));
    }
}
