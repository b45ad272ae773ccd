//! Those who post tasks to several nodes, as a careful producer does: with a key, and again with the
//! same key, at another node, until somebody has acknowledged it.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fastrand::Rng;
use http::Method;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::load::{self, Journal};
use crate::rig::{Client, Cluster, Places, Reply, Target, request, task};

/// Between the posts of one producer, in milliseconds.
const BETWEEN_MS: std::ops::Range<u64> = 10..40;

/// Producers at work. What they know is in the journal.
#[derive(Debug)]
pub(super) struct Load {
    pub(super) target: Arc<Target>,
    shared: Arc<Shared>,
    stop: watch::Sender<bool>,
    producing: JoinSet<()>,
}

#[derive(Debug, Default)]
struct Shared {
    journal: Mutex<Journal>,
    posts: Mutex<Vec<Post>>,
    keys: AtomicUsize,
}

/// One post and what came of it.
#[derive(Clone, Debug)]
pub(super) struct Post {
    pub(super) node: usize,
    pub(super) at: Instant,
    pub(super) took: Duration,
    pub(super) answer: Answer,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// 202, or 200 for a key that was sent before.
    Stored,
    /// A problem's code.
    Refused(String),
    /// No answer, and why.
    Nothing(String),
}

impl Load {
    /// So many producers at each node.
    pub(super) async fn start(cluster: &Cluster, at_each: usize, mut rng: Rng) -> Load {
        let target = Arc::new(load::target().await);
        let (stop, stopped) = watch::channel(false);
        let mut load = Load { target, shared: Arc::default(), stop, producing: JoinSet::new() };
        for producer in 0..cluster.nodes.len() * at_each {
            let producer = Producer {
                home: producer % cluster.nodes.len(),
                nodes: cluster.nodes.len(),
                places: cluster.places(),
                clients: vec![None; cluster.nodes.len()],
                target: Arc::clone(&load.target),
                shared: Arc::clone(&load.shared),
                stopped: stopped.clone(),
                rng: rng.fork(),
            };
            load.producing.spawn(producer.run());
        }
        load
    }

    /// Posts tasks in one batch, which must be taken; their ids.
    pub(super) async fn post_all(&self, client: &Client, path: &str, count: usize) -> Vec<String> {
        let key = |_| format!("k-{}", self.shared.keys.fetch_add(1, Ordering::Relaxed));
        let keys: Vec<String> = (0..count).map(key).collect();
        let url = self.target.url(path);
        let tasks: Vec<Value> = keys.iter().map(|key| task(&url, key, load::POLICY)).collect();
        let stored = client.post("/retry-tasks:batch", &json!({"tasks": tasks})).await.expect(202);
        let ids = stored["items"].as_array().unwrap().iter();
        let ids: Vec<String> =
            ids.map(|item| item["taskId"].as_str().unwrap().to_owned()).collect();
        keys.iter().zip(&ids).for_each(|(key, id)| self.note_acked(key, id));
        ids
    }

    pub(super) fn note_acked(&self, key: &str, id: &str) {
        self.shared.journal.lock().unwrap().acked.insert(key.to_owned(), id.to_owned());
    }

    /// No more posts; those under way are waited for.
    pub(super) async fn stop(&mut self) {
        self.stop.send_replace(true);
        while let Some(ended) = self.producing.join_next().await {
            ended.unwrap();
        }
    }

    pub(super) fn acked(&self) -> usize {
        self.shared.journal.lock().unwrap().acked.len()
    }

    /// Posts that began in this time.
    pub(super) fn posts(&self, from: Instant, until: Instant) -> Vec<Post> {
        let posts = self.shared.posts.lock().unwrap();
        posts.iter().filter(|post| (from..until).contains(&post.at)).cloned().collect()
    }

    pub(super) fn with_journal<T>(&self, look: impl FnOnce(&Journal) -> T) -> T {
        look(&self.shared.journal.lock().unwrap())
    }
}

struct Producer {
    home: usize,
    nodes: usize,
    places: Places,
    clients: Vec<Option<Arc<(SocketAddr, Client)>>>,
    target: Arc<Target>,
    shared: Arc<Shared>,
    stopped: watch::Receiver<bool>,
    rng: Rng,
}

impl Producer {
    async fn run(mut self) {
        while !*self.stopped.borrow() {
            let key = format!("k-{}", self.shared.keys.fetch_add(1, Ordering::Relaxed));
            let (document, cancels) = load::document(&self.target, &key, &mut self.rng);
            let mut node = self.home;
            let stored = loop {
                if let Some(id) = self.post(node, &key, &document).await {
                    break Some(id);
                }
                if *self.stopped.borrow() {
                    break None;
                }
                self.pause().await;
                node = (node + 1) % self.nodes;
            };
            if let Some(id) = stored.filter(|_| cancels) {
                self.pause().await;
                let path = format!("/retry-tasks/{id}");
                if let Ok(reply) = self.send(node, Method::DELETE, &path, None).await {
                    self.shared.journal.lock().unwrap().note_cancel(&key, &reply);
                }
            }
            self.pause().await;
        }
    }

    async fn pause(&mut self) {
        sleep(Duration::from_millis(self.rng.u64(BETWEEN_MS))).await;
    }

    /// Posts a task; its id if it was acknowledged.
    async fn post(&mut self, node: usize, key: &str, document: &Value) -> Option<String> {
        let at = Instant::now();
        let reply = self.send(node, Method::POST, "/retry-tasks", Some(document)).await;
        let mut id = None;
        let answer = match &reply {
            Err(why) => Answer::Nothing(why.clone()),
            Ok(reply) if reply.status == 202 || reply.status == 200 => {
                id = Some(reply.json()["taskId"].as_str().unwrap().to_owned());
                Answer::Stored
            }
            Ok(reply) => {
                let code = reply.problem(reply.status.as_u16());
                assert!(
                    ["store_unavailable", "draining", "overloaded", "key_in_progress"]
                        .contains(&code.as_str()),
                    "{}",
                    reply.text()
                );
                Answer::Refused(code)
            }
        };
        let mut journal = self.shared.journal.lock().unwrap();
        journal.unanswered += usize::from(reply.is_err());
        journal.acked.extend(id.clone().map(|id| (key.to_owned(), id)));
        drop(journal);
        let post = Post { node, at, took: at.elapsed(), answer };
        self.shared.posts.lock().unwrap().push(post);
        id
    }

    /// To where the node is now.
    async fn send(
        &mut self,
        node: usize,
        method: Method,
        path: &str,
        document: Option<&Value>,
    ) -> Result<Reply, String> {
        let place = self.places.of(node);
        let known = self.clients[node].take().filter(|known| known.0 == place);
        let client = known.unwrap_or_else(|| Arc::new((place, Client::new(place))));
        self.clients[node] = Some(Arc::clone(&client));
        client.1.try_send(request(method, path, document)).await
    }
}
