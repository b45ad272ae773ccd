//! The same tasks under the ids of the two stores. A store may use the numbers between two tasks for
//! something else, so ids are alike in order and in time, and not in value.

use std::collections::BTreeMap;

use relent_store::{Claims, Enqueued, Swept, TaskId, TaskRecord};

/// The model's id of each of the other store's tasks.
#[derive(Default)]
pub(super) struct Names(BTreeMap<TaskId, TaskId>);

impl Names {
    pub(super) fn add(&mut self, model: TaskId, other: TaskId) {
        assert_eq!(model.created_at(), other.created_at(), "{model} and {other}");
        if let Some((last_other, last_model)) = self.0.last_key_value() {
            assert!(model > *last_model && other > *last_other, "ids do not grow");
        }
        self.0.insert(other, model);
    }

    /// The other store's answer with the model's ids.
    pub(super) fn translate<T: Named>(&self, mut answer: T) -> T {
        answer.rename(&|other| *self.0.get(&other).unwrap_or(&other));
        answer
    }
}

/// An answer with ids in it.
pub(super) trait Named {
    fn rename(&mut self, model_of: &impl Fn(TaskId) -> TaskId);
}

impl Named for TaskId {
    fn rename(&mut self, model_of: &impl Fn(TaskId) -> TaskId) {
        *self = model_of(*self);
    }
}

impl Named for TaskRecord {
    fn rename(&mut self, model_of: &impl Fn(TaskId) -> TaskId) {
        self.id.rename(model_of);
    }
}

impl Named for Enqueued {
    fn rename(&mut self, model_of: &impl Fn(TaskId) -> TaskId) {
        match self {
            Enqueued::Created(id) | Enqueued::Existing(id) => id.rename(model_of),
            Enqueued::Conflict(id) => id.rename(model_of),
            Enqueued::Withheld => {}
        }
    }
}

impl Named for Claims {
    fn rename(&mut self, model_of: &impl Fn(TaskId) -> TaskId) {
        for claimed in &mut self.claimed {
            claimed.lease.task.rename(model_of);
        }
    }
}

impl Named for Swept {
    fn rename(&mut self, model_of: &impl Fn(TaskId) -> TaskId) {
        self.lease.task.rename(model_of);
    }
}

impl<T: Named> Named for Option<T> {
    fn rename(&mut self, model_of: &impl Fn(TaskId) -> TaskId) {
        if let Some(named) = self {
            named.rename(model_of);
        }
    }
}

impl<T: Named> Named for Vec<T> {
    fn rename(&mut self, model_of: &impl Fn(TaskId) -> TaskId) {
        for named in self {
            named.rename(model_of);
        }
    }
}
