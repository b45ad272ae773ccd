//! Everybody at once: creating, cancelling, redriving, pausing and changing policies while tasks are
//! delivered. What the log says must stay true for every task. G3, G7, G9, G10.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fastrand::Rng;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::World;
use crate::rig::{Client, SOON, has_ended, ok, quick_policy, seed, status, wait_until, with};

const PEOPLE: usize = 4;
const ACTS: usize = 150;

#[tokio::test]
async fn what_people_do_at_the_same_time_leaves_every_log_true() {
    let world = World::start_with(&["--set", "log.level=error"]).await;
    let mut rng = Rng::with_seed(seed());
    let slowly = Duration::from_millis(3);
    let script = [status(503), status(400), status(503), ok()].map(|step| step.after(slowly));
    world.target.on("/raced", script);
    let first = world.create("raced").await;
    let lane = world.client.lane(&world.dependency()).await["laneId"].as_str().unwrap().to_owned();
    let ids = Arc::new(Mutex::new(vec![first]));
    let mut people = JoinSet::new();
    for _ in 0..PEOPLE {
        let person = Person {
            client: world.relent.client(),
            task: world.task("raced"),
            ids: Arc::clone(&ids),
            lane: lane.clone(),
            rng: rng.fork(),
        };
        people.spawn(person.act());
    }
    people.join_all().await;
    world.client.post(&format!("/lanes/{lane}/resume"), &json!({})).await.expect(200);
    let ids = ids.lock().unwrap().clone();
    let tasks = wait_until(SOON, "every task has ended", async || {
        let tasks = world.client.all("/retry-tasks").await;
        tasks.iter().all(has_ended).then_some(tasks)
    });
    let tasks = tasks.await;
    assert_eq!(tasks.len(), ids.len());

    let mut counts: HashMap<String, usize> = HashMap::new();
    let all = world.target.seen();
    for task in &tasks {
        let rows = world.client.attempts(task["taskId"].as_str().unwrap()).await;
        let mut expected = (1, 1);
        for row in &rows {
            let at = (row["generation"].as_u64().unwrap(), row["attemptNumber"].as_u64().unwrap());
            assert!(at == expected || (at.0 > expected.0 && at.1 == 1), "{at:?}: {rows:#?}");
            assert!(at.1 <= MAX_ATTEMPTS, "{rows:#?}");
            expected = (at.0, at.1 + 1);
        }
        let seen = all.iter().filter(|seen| seen.key == *task["idempotencyKey"].as_str().unwrap());
        let sent = rows.iter().filter(|row| row["error"] != "called_off").count();
        assert_eq!(seen.count(), sent, "{task:#} {rows:#?}");
        let generation = format!("{} {}", task["status"].as_str().unwrap(), task["generation"]);
        *counts.entry(generation).or_default() += 1;
    }
    println!("by status and generation: {counts:?}, {} requests", all.len());
    assert!(counts.keys().any(|key| key.starts_with("CANCELLED")), "nothing was cancelled in time");
    assert!(counts.keys().any(|key| !key.ends_with('1')), "nothing was redriven in time");
}

/// The most that a version of the policy allows.
const MAX_ATTEMPTS: u64 = 5;

/// Somebody who does things to tasks.
struct Person {
    client: Client,
    task: Value,
    ids: Arc<Mutex<Vec<String>>>,
    lane: String,
    rng: Rng,
}

impl Person {
    async fn act(mut self) {
        for _ in 0..ACTS {
            let id = self.rng.choice(self.ids.lock().unwrap().iter()).cloned().unwrap();
            let (path, document) = match self.rng.u32(0..10) {
                0..3 => {
                    let key = format!("raced-{:x}", self.rng.u64(..));
                    let document = with(self.task.clone(), json!({"idempotencyKey": key}));
                    let id = self.client.create(&document).await;
                    self.ids.lock().unwrap().push(id);
                    continue;
                }
                3..5 => {
                    let reply = self.client.cancel(&id).await;
                    assert!([200, 202, 409].contains(&reply.status.as_u16()), "{}", reply.text());
                    continue;
                }
                5..7 => ("/dead-letters:redrive".to_owned(), self.redrive(&id)),
                7 => (format!("/lanes/{}/pause", self.lane), json!({})),
                8 => (format!("/lanes/{}/resume", self.lane), json!({})),
                _ => ("/retry-policies".to_owned(), quick_policy("quick", self.rng.u32(2..6))),
            };
            let reply = self.client.post(&path, &document).await;
            assert!(reply.status.is_success(), "{path}: {}", reply.text());
        }
    }

    fn redrive(&mut self, id: &str) -> Value {
        match self.rng.bool() {
            true => json!({"ids": [id]}),
            false => json!({"filter": {"endedBecause": "permanent"}, "policyId": "quick"}),
        }
    }
}
