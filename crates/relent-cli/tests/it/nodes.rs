//! Three nodes on one PostgreSQL, as their target sees them: what a lane allows, it allows once. REQ-G4.

mod breaker;
mod budget;
mod limits;
mod members;

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::rig::{Client, Postgres, Relent, SOON, Seen, Target, task, wait_until};

/// What one node has set or found out holds on all after this.
const HEARD_WITHIN: Duration = Duration::from_secs(1);

/// Nodes that share a store, and their target. Dropped, the nodes go before the store.
struct Nodes {
    nodes: Vec<Relent>,
    clients: Vec<Client>,
    target: Target,
    postgres: Postgres,
}

impl Nodes {
    /// So many that know each other; `None` if there is no server to test with.
    async fn start(count: usize) -> Option<Nodes> {
        let postgres = Postgres::schema()?;
        let target = Target::start().await;
        let mut nodes = Nodes { nodes: Vec::new(), clients: Vec::new(), target, postgres };
        for _ in 0..count {
            nodes.add(&[]).await;
        }
        nodes.until_counted(count).await;
        Some(nodes)
    }

    /// One more.
    async fn add(&mut self, more: &[&str]) {
        let mut arguments = self.postgres.arguments();
        arguments.extend(more.iter().map(ToString::to_string));
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let node = Relent::start_with(&arguments).await;
        self.clients.push(node.client());
        self.nodes.push(node);
    }

    /// Waits until the first so many nodes know that there are so many.
    async fn until_counted(&self, count: usize) {
        for client in &self.clients[..count] {
            wait_until(SOON, "nodes know each other", async || {
                let text = client.get("/metrics").await.text();
                text.contains(&format!("\nretry_nodes {count}\n")).then_some(())
            })
            .await;
        }
    }

    fn dependency(&self) -> String {
        format!("http://{}", self.target.address)
    }

    /// Creates so many tasks under this policy, in turn on each node; their path is the policy's name.
    async fn create(&self, policy_id: &str, from: usize, count: usize) {
        const BATCH: usize = 50;
        let numbers: Vec<usize> = (from..from + count).collect();
        for (index, numbers) in numbers.chunks(BATCH).enumerate() {
            let new = |number: &usize| {
                task(&self.target.url(&format!("/{policy_id}")), &number.to_string(), policy_id)
            };
            let tasks: Vec<Value> = numbers.iter().map(new).collect();
            let client = &self.clients[(from / count + index) % self.clients.len()];
            let reply = client.post("/retry-tasks:batch", &json!({ "tasks": tasks })).await;
            assert!(reply.status.is_success(), "{}", reply.text());
        }
    }

    /// A task of this policy, so that there is a lane; its id.
    async fn open_lane(&self, policy_id: &str) -> String {
        let opening = task(&self.target.url("/opening"), "opening", policy_id);
        let id = self.clients[0].create(&opening).await;
        self.clients[0].until_status(&id, "SUCCEEDED").await;
        let mut lane = Value::Null;
        for client in &self.clients {
            lane = wait_until(SOON, "the lane is known on every node", async || {
                let lanes = client.all("/lanes").await;
                lanes.into_iter().find(|lane| lane["dependency"] == self.dependency())
            })
            .await;
        }
        lane["laneId"].as_str().unwrap().to_owned()
    }

    /// Sets the lane's limits on one node, and waits until they are known on all.
    async fn limit(&self, lane: &str, limits: Value) {
        let path = format!("/lanes/{lane}/limits");
        self.clients[0].put(&path, &limits).await.expect(200);
        let set_at = Instant::now();
        for client in &self.clients {
            wait_until(HEARD_WITHIN, "limits are known on every node", async || {
                let lane = client.get(&format!("/lanes/{lane}")).await.expect(200);
                let known = limits.as_object().unwrap().iter();
                known.clone().all(|(name, limit)| lane["limits"][name] == *limit).then_some(())
            })
            .await;
        }
        println!("limits known on every node after {:?}", set_at.elapsed());
    }

    async fn until_arrived(&self, path: &str, count: usize, within: Duration) -> Vec<Seen> {
        wait_until(within, &format!("{count} requests to {path}"), async || {
            let seen = self.target.seen_at(path);
            (seen.len() >= count).then_some(seen)
        })
        .await
    }

    /// How many attempts each node has made.
    async fn attempts(&self) -> Vec<u64> {
        let mut counts = Vec::new();
        for client in &self.clients {
            counts.push(attempts_of(client).await);
        }
        counts
    }
}

async fn attempts_of(client: &Client) -> u64 {
    let text = client.get("/metrics").await.text();
    let lines = text.lines().filter(|line| line.starts_with("retry_attempts_total{"));
    lines.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
}

/// The most requests that the target had at once.
fn at_once_max(seen: &[Seen]) -> usize {
    let begun = |seen: &Seen| (seen.arrived, 1);
    let ended = |seen: &Seen| seen.ended.map(|ended| (ended, -1));
    let mut steps: Vec<(Instant, i32)> = seen.iter().map(begun).collect();
    steps.extend(seen.iter().filter_map(ended));
    steps.sort_unstable();
    let counts = steps.iter().scan(0, |count, (_, step)| {
        *count += step;
        Some(*count)
    });
    usize::try_from(counts.max().unwrap_or(0)).unwrap()
}

/// The most requests that came within a stretch of this length.
fn most_within(seen: &[Seen], length: Duration) -> usize {
    let mut times: Vec<Instant> = seen.iter().map(|seen| seen.arrived).collect();
    times.sort_unstable();
    let from = |(index, from): (usize, &Instant)| {
        times[index..].iter().take_while(|at| at.duration_since(*from) < length).count()
    };
    times.iter().enumerate().map(from).max().unwrap_or(0)
}
