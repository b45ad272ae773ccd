//! Three nodes on one store, as their target sees them: what a lane allows, it allows once. REQ-G4.
//!
//! Each fact is listed once, at the end, and runs on every store that nodes can share.

mod breaker;
mod budget;
mod limits;
mod members;

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::rig::{
    Client, Cluster, Gate, Kind, SOON, Seen, Target, ok, quick_policy, task, wait_until, with,
};

/// What one node has set or found out holds on all after this.
const HEARD_WITHIN: Duration = Duration::from_secs(1);

/// Nodes that share a store, and their target.
struct Nodes {
    cluster: Cluster,
    clients: Vec<Client>,
    target: Target,
}

impl Nodes {
    /// So many that know each other; `None` where tests that need servers are not run.
    async fn start(kind: Kind, count: usize) -> Option<Nodes> {
        let cluster = Cluster::start(kind, count, &[]).await?;
        let clients = (0..count).map(|node| cluster.client(node)).collect();
        let nodes = Nodes { cluster, clients, target: Target::start().await };
        nodes.until_counted(count).await;
        Some(nodes)
    }

    /// One more.
    async fn add(&mut self, more: &[&str]) {
        let node = self.cluster.add(more).await;
        self.clients.push(self.cluster.client(node));
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
        self.count("retry_attempts_total").await
    }

    /// How many attempts each node has under way.
    async fn in_flight(&self) -> Vec<u64> {
        self.count("retry_attempts_in_flight").await
    }

    async fn count(&self, name: &str) -> Vec<u64> {
        let mut counts = Vec::new();
        for client in &self.clients {
            counts.push(count_of(client, name).await);
        }
        counts
    }

    /// What comes to this path from now on is held.
    fn hold(&self, path: &str, gate: &Gate) -> Instant {
        self.target.on(path, [ok().held_by(gate)]);
        Instant::now()
    }

    /// Waits until as many attempts are under way as may be, and all of them are held; how many each
    /// node has.
    async fn until_full(&self, in_flight_max: usize, held_from: Instant) -> Vec<u64> {
        let held = || {
            let is_held = |seen: &Seen| seen.ended.is_none() && seen.arrived > held_from;
            self.target.seen().iter().filter(|seen| is_held(seen)).count()
        };
        wait_until(SOON, &format!("{in_flight_max} attempts are under way"), async || {
            // The nodes are asked one after another: what they say belongs together only if they
            // are full before. An attempt that is being written down counts, too.
            let is_full = held() >= in_flight_max;
            let counts = self.in_flight().await;
            (is_full && counts.iter().sum::<u64>() == in_flight_max as u64).then_some(counts)
        })
        .await
    }

    /// The one node that has an attempt under way.
    async fn until_one_sends(&self) -> usize {
        wait_until(SOON, "one node has an attempt under way", async || {
            let counts = self.in_flight().await;
            (counts.iter().sum::<u64>() == 1)
                .then(|| counts.iter().position(|count| *count == 1))?
        })
        .await
    }
}

async fn attempts_of(client: &Client) -> u64 {
    count_of(client, "retry_attempts_total").await
}

/// The sum over all labels.
async fn count_of(client: &Client, name: &str) -> u64 {
    let text = client.get("/metrics").await.text();
    let of_name =
        |line: &&str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with([' ', '{']));
    let lines = text.lines().filter(of_name);
    lines.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
}

/// Attempts that may be held for as long as a test may need.
fn patient_policy() -> Value {
    with(quick_policy("quick", 4), json!({"attemptTimeoutMs": 50_000}))
}

/// The most requests that the target had at once.
fn at_once_max(seen: &[Seen]) -> usize {
    let begun = |seen: &Seen| (seen.arrived, 1);
    let ended = |seen: &Seen| seen.turned.map(|turned| (turned, -1));
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

macro_rules! on_every_store {
    ($($module:ident { $($fact:ident)+ })+) => {
        on_every_store! { @on postgres Postgres $($module { $($fact)+ })+ }
        on_every_store! { @on redis Redis $($module { $($fact)+ })+ }
    };
    (@on $store:ident $kind:ident $($module:ident { $($fact:ident)+ })+) => {
        mod $store {$(
            mod $module {$(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $fact() {
                    crate::nodes::$module::$fact(crate::rig::Kind::$kind).await;
                }
            )+}
        )+}
    };
}

on_every_store! {
    budget {
        retries_of_three_nodes_are_a_fifth_of_their_first_attempts
        three_nodes_together_save_up_one_burst
    }
    breaker {
        an_open_breaker_is_open_on_all_nodes_and_one_probe_goes_out
        a_node_that_dies_over_its_probe_is_followed_by_another
    }
    limits {
        three_nodes_together_have_as_many_in_flight_as_the_lane_allows
        three_nodes_together_are_as_fast_as_the_lane_allows
        a_pause_on_one_node_stops_all_within_a_second
    }
    members {
        a_node_that_joins_gets_its_part_of_the_work_within_a_second
        the_part_of_a_node_that_is_killed_is_taken_over
        a_node_that_was_stopped_sends_nothing_until_it_is_counted_again
    }
}
