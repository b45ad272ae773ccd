//! One of the two stores, with a service that listens to it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use relent_policy::{Timestamp, Turn};
use relent_store::{
    DueListener, LaneDue, LaneId, NewPolicy, PolicyKey, Retention, Store, TaskFilter, TaskRecord,
    TenantId,
};
use tokio::sync::mpsc;

use crate::backend::Backend;

const DEPENDENCIES: [&str; 2] = ["a.example.com", "b.example.com"];
const RETENTION: Retention = Retention {
    ended: Duration::from_secs(600),
    dead_letters: Duration::from_secs(7_200),
    attempts: Duration::from_secs(61),
};

pub(super) struct Side {
    backend: Backend,
    store: Option<Arc<dyn Store>>,
    pub(super) policies: [PolicyKey; 2],
    /// Two for each tenant.
    pub(super) lanes: Vec<[LaneId; 2]>,
    ears: mpsc::UnboundedReceiver<LaneDue>,
    /// When the service would look at each line again.
    known: BTreeMap<(LaneId, bool), Timestamp>,
}

struct Told(mpsc::UnboundedSender<LaneDue>);

impl DueListener for Told {
    fn due(&self, dues: &[LaneDue]) {
        for due in dues {
            let _ = self.0.send(*due);
        }
    }
}

impl Side {
    pub(super) async fn new(backend: Backend, tenants: &[TenantId]) -> Side {
        let store = backend.store();
        let mut keys = Vec::new();
        for (id, secs) in [("webhooks", 35), ("patient", 100)] {
            let lease = Duration::from_secs(secs);
            let (policy_id, document) = (id.to_owned(), "{}".to_owned());
            let policy = NewPolicy { policy_id, document, lease };
            keys.push(store.put_policy(&tenants[0], policy).await.unwrap().key);
        }
        let policies = [keys[0], keys[1]];
        let mut lanes = Vec::new();
        for tenant in tenants {
            let [a, b] = DEPENDENCIES;
            let a = store.open_lane(tenant, a, policies[0]).await.unwrap().id;
            let b = store.open_lane(tenant, b, policies[0]).await.unwrap().id;
            lanes.push([a, b]);
        }
        let ears = mpsc::unbounded_channel().1;
        let known = BTreeMap::new();
        let mut side = Side { backend, store: Some(store), policies, lanes, ears, known };
        side.listen();
        side
    }

    pub(super) fn store(&self) -> &Arc<dyn Store> {
        self.store.as_ref().unwrap()
    }

    fn listen(&mut self) {
        let (told, ears) = mpsc::unbounded_channel();
        self.ears = ears;
        self.store().listen(Arc::new(Told(told)));
    }

    pub(super) async fn reopen(&mut self) {
        self.store = None;
        self.backend.reopen().await;
        self.store = Some(self.backend.store());
        self.listen();
        let lines = self.store().lines().await.unwrap();
        self.known = lines.iter().map(|line| (place(line), line.at)).collect();
        // A store may learn of what is due later after it was opened. It has when it can count.
        self.store().counts().await.unwrap();
    }

    /// To be called before a claim: what is told from then on may be newer than its answer.
    pub(super) fn catch_up(&mut self) {
        while let Ok(told) = self.ears.try_recv() {
            self.hear(told);
        }
    }

    /// The service was told with a claim when a line is next due.
    pub(super) fn learn(&mut self, lane: LaneId, turn: Turn, next: Option<Timestamp>) {
        match next {
            Some(at) => self.known.insert((lane, turn == Turn::Retry), at),
            None => self.known.remove(&(lane, turn == Turn::Retry)),
        };
    }

    fn hear(&mut self, told: LaneDue) {
        let known = self.known.entry(place(&told)).or_insert(told.at);
        *known = told.at.min(*known);
    }

    /// Waits until the service would not oversleep any of these.
    pub(super) async fn expect_awake_for(&mut self, lines: &[LaneDue]) {
        for line in lines {
            let place = place(line);
            while self.known.get(&place).is_none_or(|known| *known > line.at) {
                let told = tokio::time::timeout(Duration::from_secs(10), self.ears.recv()).await;
                let told = told.unwrap_or_else(|_| panic!("nobody was told of {line:?}"));
                self.hear(told.unwrap());
            }
        }
    }

    pub(super) async fn prune(&self, chunk: u32) {
        loop {
            let rows = self.store().prune(RETENTION, chunk).await.unwrap();
            assert!(rows <= u64::from(chunk), "{rows} rows in a chunk of {chunk}");
            if rows == 0 {
                return;
            }
        }
    }

    /// Everything that fits, page by page.
    pub(super) async fn list(
        &self,
        tenant: &TenantId,
        filter: &TaskFilter,
        max: u32,
    ) -> Vec<TaskRecord> {
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let page = self.store().list(tenant, filter.clone(), after, max).await.unwrap();
            found.extend(page.items);
            match page.next {
                Some(next) => after = Some(next),
                None => return found,
            }
        }
    }
}

fn place(line: &LaneDue) -> (LaneId, bool) {
    (line.lane, line.turn == Turn::Retry)
}
