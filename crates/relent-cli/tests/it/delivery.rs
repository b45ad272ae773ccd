//! Delivery, as those see it who create tasks and those who are called.

mod answers;
mod cancelling;
mod certificates;
mod connections;
mod dead_letters;
mod full;
mod keys;
mod lanes;
mod policies;
mod races;
mod requests;
mod restarts;
mod timing;
mod watching;

use serde_json::{Value, json};

use crate::rig::{Client, Relent, Seen, Target, millis, quick_policy, task};

/// A service, a target and a client, and a policy `quick` with four attempts.
struct World {
    relent: Relent,
    target: Target,
    client: Client,
}

impl World {
    async fn start() -> World {
        World::start_with(&[]).await
    }

    async fn start_with(arguments: &[&str]) -> World {
        let (relent, target) = (Relent::start_with(arguments).await, Target::start().await);
        let client = relent.client();
        client.register(&quick_policy("quick", 4)).await;
        World { relent, target, client }
    }

    /// Creates a task under `quick`; its path is its key.
    async fn create(&self, name: &str) -> String {
        self.client.create(&self.task(name)).await
    }

    fn task(&self, name: &str) -> Value {
        task(&self.target.url(&format!("/{name}")), name, "quick")
    }

    /// The name of the lane that tasks to the target wait in.
    fn dependency(&self) -> String {
        format!("http://{}", self.target.address)
    }
}

/// One column of the attempt log.
fn column(attempts: &[Value], name: &str) -> Vec<Value> {
    attempts.iter().map(|attempt| attempt[name].clone()).collect()
}

/// No request came before the log says it was due, by more than the clocks can disagree.
fn assert_never_early(attempts: &[Value], seen: &[Seen]) {
    for attempt in attempts {
        let Some(due) = attempt["nextAttemptAt"].as_f64() else { continue };
        let number = attempt["attemptNumber"].as_u64().unwrap() + 1;
        let next = seen.iter().find(|seen| seen.attempt.map(u64::from) == Some(number));
        let Some(next) = next else { continue };
        let early = due - millis(next.arrived_at);
        assert!(early <= 2.0, "attempt {number} came {early} ms early");
    }
}

/// The log has one row for each attempt and no gaps.
fn assert_contiguous(attempts: &[Value]) {
    let numbers = column(attempts, "attemptNumber");
    let expected: Vec<Value> = (1..=attempts.len()).map(|number| json!(number)).collect();
    assert_eq!(numbers, expected);
}
