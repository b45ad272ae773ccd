//! Killed again and again under load, and what must hold all the same: G1 to G10.
//!
//! A producer posts tasks and keeps in its own memory what was acknowledged. The service is killed
//! without warning at a random moment and started again on the same data, twenty times; after every
//! fifth time it is asked to stop instead, under the same load. Then it may finish, and the target's
//! own record is held against the producer's journal and the service's log. What was not acknowledged
//! may exist or not; if it does, the same must hold for it.
//!
//! What a killed process wrote is still in the kernel's memory. With `RELENT_TEST_POWER=cut` its disk
//! loses its power first, and forgets what was not flushed. That needs root; `./test power` does it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fastrand::Rng;
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::load::{self, Journal, check};
use crate::rig::{Client, Disk, Relent, Target, alone, seed, setting, wait_until};

const PRODUCERS: usize = 8;
/// How long what is left may take after the last kill.
const DRAINS_WITHIN: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_under_load_it_keeps_every_guarantee() {
    let _alone = alone().await;
    let disk = Disk::if_wanted();
    let mut rng = Rng::with_seed(seed());
    let rounds = setting("RELENT_TEST_CRASH_ROUNDS", 20);
    let target = Arc::new(load::target().await);
    let folder = disk.as_ref().map_or_else(std::env::temp_dir, Disk::path);
    let mut relent = Relent::start_in(&folder, &["--set", "log.level=warn"]).await;
    relent.client().register(&load::policy(Duration::from_secs(3))).await;

    let journal = Arc::new(Mutex::new(Journal::default()));
    let keys = Arc::new(AtomicUsize::new(0));
    let began = Instant::now();
    for round in 1..=rounds + rounds / 5 {
        let is_asked = round % 6 == 0;
        let mut producing = JoinSet::new();
        for _ in 0..PRODUCERS {
            let producer = Producer {
                client: relent.client(),
                target: Arc::clone(&target),
                journal: Arc::clone(&journal),
                keys: Arc::clone(&keys),
                rng: rng.fork(),
            };
            producing.spawn(producer.run());
        }
        sleep(Duration::from_millis(rng.u64(200..900))).await;
        let how = match &disk {
            _ if is_asked => {
                relent.sigterm();
                assert_eq!(relent.ended().await.code(), Some(0), "asked to stop");
                "asked to stop"
            }
            Some(disk) => {
                // When the power goes, nobody goes on without it.
                relent.freeze().await;
                disk.cut();
                relent.kill9().await;
                disk.restore();
                "cut off"
            }
            None => {
                relent.kill9().await;
                "killed"
            }
        };
        // Each notices by itself that nobody answers any more.
        producing.join_all().await;
        let killed = Instant::now();
        relent = relent.start_again().await;
        let acked = journal.lock().unwrap().acked.len();
        let (started, requests) = (killed.elapsed().as_millis(), target.count());
        println!("{round:2} {how}: {acked} acked, {requests} requests, back in {started} ms");
    }
    let client = relent.client();
    wait_until(DRAINS_WITHIN, "every task ends", async || {
        let open = client.get("/retry-tasks?status=PENDING,IN_FLIGHT&limit=1").await.expect(200);
        open["items"].as_array().unwrap().is_empty().then_some(())
    })
    .await;
    println!("drained after {:.1} s", began.elapsed().as_secs_f64());
    let tasks = check::tasks(&[relent.address]).await;
    let journal = journal.lock().unwrap();
    let figures = check::check(&journal, &tasks, &target.seen());
    println!(
        "{figures}, {} posts unanswered, {:.1} s",
        journal.unanswered,
        began.elapsed().as_secs_f64()
    );
    assert!(!figures.abandoned.is_empty(), "no attempt was under way when it was killed");
    assert!(journal.acked.len() > 20 * rounds, "too little was going on");
}

/// One of those who post, until nobody answers.
struct Producer {
    client: Client,
    target: Arc<Target>,
    journal: Arc<Mutex<Journal>>,
    keys: Arc<AtomicUsize>,
    rng: Rng,
}

impl Producer {
    async fn run(mut self) {
        loop {
            let key = format!("k-{}", self.keys.fetch_add(1, Ordering::Relaxed));
            let (document, cancels) = load::document(&self.target, &key, &mut self.rng);
            let Some(id) = self.post(&key, &document).await else { return };
            if cancels && !self.cancel(&key, &id).await {
                return;
            }
            sleep(Duration::from_millis(self.rng.u64(0..15))).await;
        }
    }

    async fn post(&self, key: &str, document: &Value) -> Option<String> {
        let post = crate::rig::request(http::Method::POST, "/retry-tasks", Some(document));
        let Ok(reply) = self.client.try_send(post).await else {
            self.journal.lock().unwrap().unanswered += 1;
            return None;
        };
        if reply.status == 503 {
            assert_eq!(reply.problem(503), "draining");
            self.journal.lock().unwrap().refused.push(key.to_owned());
            return None;
        }
        let id = reply.expect(202)["taskId"].as_str().unwrap().to_owned();
        self.journal.lock().unwrap().acked.insert(key.to_owned(), id.clone());
        Some(id)
    }

    /// Whether there was an answer.
    async fn cancel(&mut self, key: &str, id: &str) -> bool {
        sleep(Duration::from_millis(self.rng.u64(0..25))).await;
        let path = format!("/retry-tasks/{id}");
        let cancel = crate::rig::request(http::Method::DELETE, &path, None);
        let Ok(reply) = self.client.try_send(cancel).await else { return false };
        self.journal.lock().unwrap().note_cancel(key, &reply);
        true
    }
}
