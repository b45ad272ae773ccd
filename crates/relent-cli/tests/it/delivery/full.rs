//! A store that is nearly full. REQ-S4.

use serde_json::json;

use super::World;
use crate::rig::{Reply, SOON, has_ended, ok, status, wait_until, with};

impl World {
    /// Creates tasks with bodies of so many bytes until one is refused; the refusal.
    async fn fill(&self, name: &str, body_bytes: usize, ids: &mut Vec<String>) -> Reply {
        let url = self.target.url("/full");
        for number in 0..10_000 {
            let key = format!("{name}-{number}");
            let body = "x".repeat(body_bytes);
            let fields = json!({"targetUrl": url, "idempotencyKey": key, "body": body});
            let reply = self.client.post("/retry-tasks", &with(self.task(name), fields)).await;
            if reply.status != 202 {
                return reply;
            }
            ids.push(reply.json()["taskId"].as_str().unwrap().to_owned());
        }
        panic!("there is always room");
    }
}

#[tokio::test]
async fn a_service_that_runs_out_of_room_refuses_new_tasks_and_ends_the_others() {
    let world = World::start_with(&["--set", "store.size_bytes_max=4194304"]).await;
    world.target.on("/full", [status(503), ok()]);
    let first = world.create("first").await;
    world.client.until_status(&first, "SUCCEEDED").await;
    let lane = world.client.lane(&world.dependency()).await["laneId"].as_str().unwrap().to_owned();
    world.client.post(&format!("/lanes/{lane}/pause"), &json!({})).await.expect(200);

    let mut ids = Vec::new();
    world.fill("large", 10_000, &mut ids).await;
    let refused = world.fill("small", 10, &mut ids).await;
    assert_eq!(refused.header("retry-after"), "30");
    assert_eq!(refused.problem(503), "storage_full");
    assert_eq!(world.client.get("/readyz").await.problem(503), "storage_full");
    assert_eq!(world.client.get("/livez").await.status, 200);
    assert!(world.relent.log().contains("no room for new tasks"), "{}", world.relent.log());

    // What is stored is none the worse for it, whoever keeps asking.
    let cancelled = ids.pop().unwrap();
    world.client.cancel(&cancelled).await.expect(200);
    world.client.post(&format!("/lanes/{lane}/resume"), &json!({})).await.expect(200);
    let tasks = wait_until(SOON, "every task has ended", async || {
        assert_eq!(world.fill("later", 10_000, &mut Vec::new()).await.problem(503), "storage_full");
        let tasks = world.client.all("/retry-tasks").await;
        tasks.iter().all(has_ended).then_some(tasks)
    });
    let is_delivered = |task: &&serde_json::Value| task["status"] == "SUCCEEDED";
    assert_eq!(tasks.await.iter().filter(is_delivered).count(), ids.len() + 1);
    assert_eq!(world.target.seen_at("/full").len(), ids.len() * 2);
    assert!(!world.relent.log().contains("the store failed"), "{}", world.relent.log());
}
