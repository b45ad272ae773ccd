//! Being told that something became due earlier than was known: a service that sleeps until the
//! next due time must be woken by everything that can change it. REQ-S4, REQ-D1.

use std::sync::{Arc, Weak};
use std::time::Duration;

use relent_policy::Turn::{First, Retry};
use relent_policy::{Timestamp, Turn};
use relent_store::{DueListener, LaneDue, LaneId, Redrive, Store};
use tokio::sync::mpsc;

use crate::world::{HOUR, LEASE, MINUTE, SECOND, World, retry};

struct Told(mpsc::UnboundedSender<LaneDue>);

impl DueListener for Told {
    fn due(&self, dues: &[LaneDue]) {
        for due in dues {
            let _ = self.0.send(*due);
        }
    }
}

/// The ears of a service.
struct Ears {
    lane: LaneId,
    heard: mpsc::UnboundedReceiver<LaneDue>,
}

impl Ears {
    fn of(world: &World) -> Ears {
        let (told, heard) = mpsc::unbounded_channel();
        world.store().listen(Arc::new(Told(told)));
        Ears { lane: world.lane, heard }
    }

    /// Waits to be told of this due time; hints for other times are no harm.
    async fn hear(&mut self, turn: Turn, at: Timestamp) {
        let due = LaneDue { lane: self.lane, turn, at };
        let told = async { while self.heard.recv().await.unwrap() != due {} };
        let told = tokio::time::timeout(Duration::from_secs(10), told).await;
        assert!(told.is_ok(), "nobody was told of {due:?}");
    }
}

pub(crate) async fn a_new_task_is_told(world: World) {
    let mut ears = Ears::of(&world);
    world.add(world.task()).await;
    ears.hear(First, world.now()).await;
}

pub(crate) async fn a_scheduled_task_is_told(world: World) {
    let mut ears = Ears::of(&world);
    world.add(world.task_after(HOUR)).await;
    ears.hear(First, world.now() + HOUR).await;
}

pub(crate) async fn an_earlier_task_than_the_next_is_told(world: World) {
    let mut ears = Ears::of(&world);
    world.enqueue(vec![world.task(), world.task_after(HOUR)]).await;
    world.claim_one(First).await;
    world.add(world.task_after(MINUTE)).await;
    ears.hear(First, world.now() + MINUTE).await;
    world.add(world.task_after(SECOND)).await;
    ears.hear(First, world.now() + SECOND).await;
}

pub(crate) async fn a_task_after_an_empty_claim_is_told(world: World) {
    let mut ears = Ears::of(&world);
    for _ in 0..3 {
        assert!(world.claim(First, 10).await.is_empty());
        world.advance(SECOND);
        world.add(world.task()).await;
        ears.hear(First, world.now()).await;
        world.claim_one(First).await;
    }
}

pub(crate) async fn a_retry_is_told(world: World) {
    let mut ears = Ears::of(&world);
    world.add(world.task()).await;
    let claimed = world.claim_one(First).await;
    world.retry_at(&claimed, world.now() + SECOND).await;
    ears.hear(Retry, world.now() + SECOND).await;
}

pub(crate) async fn a_redrive_is_told(world: World) {
    let id = world.dead_letter(world.task()).await;
    let mut ears = Ears::of(&world);
    let redrive = Redrive { task: id, after: MINUTE, policy: None };
    world.store().redrive(&world.tenant, vec![redrive]).await.unwrap();
    ears.hear(First, world.now() + MINUTE).await;
}

pub(crate) async fn a_lost_attempt_that_is_to_be_repeated_is_told(world: World) {
    world.add(world.task()).await;
    world.claim_one(First).await;
    world.advance(LEASE);
    let mut ears = Ears::of(&world);
    let swept = world.sweep().await.remove(0);
    world.record(retry(swept.lease, &swept.history, 0, world.now(), world.now())).await;
    ears.hear(Retry, world.now()).await;
}

pub(crate) async fn a_restarted_service_is_told_too(mut world: World) {
    world.add(world.task_after(HOUR)).await;
    world.reopen().await;
    let mut ears = Ears::of(&world);
    world.add(world.task_after(MINUTE)).await;
    ears.hear(First, world.now() + MINUTE).await;
}

pub(crate) async fn what_is_told_can_be_claimed(world: World) {
    let mut ears = Ears::of(&world);
    let (store, tenant, task) = (world.store().clone(), world.tenant.clone(), world.task());
    let enqueue = tokio::spawn(async move { store.enqueue(&tenant, vec![task]).await });
    ears.hear(First, world.now()).await;
    assert_eq!(world.claim(First, 10).await.len(), 1, "told before it was there");
    enqueue.await.unwrap().unwrap();
}

/// Uses the store whenever it is told something, as far as it can without waiting.
struct Busy(Weak<dyn Store>, mpsc::UnboundedSender<Timestamp>);

impl DueListener for Busy {
    fn due(&self, _: &[LaneDue]) {
        let Some(store) = self.0.upgrade() else { return };
        drop(store.lines());
        store.listen(Arc::new(Busy(self.0.clone(), self.1.clone())));
        let now = store.now();
        drop(store);
        let _ = self.1.send(now);
    }
}

pub(crate) async fn whoever_is_told_may_use_the_store(world: World) {
    let (sender, mut heard) = mpsc::unbounded_channel();
    world.store().listen(Arc::new(Busy(Arc::downgrade(world.store()), sender)));
    world.add(world.task()).await;
    let told = tokio::time::timeout(Duration::from_secs(10), heard.recv()).await;
    assert_eq!(told.unwrap(), Some(world.now()));
}
