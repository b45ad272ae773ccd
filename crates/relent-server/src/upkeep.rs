//! What a service does beside delivering: taking over lost work, saving what lanes remember, and
//! deleting what has been kept long enough. Each is a loop that ends with the service.

use std::sync::Arc;
use std::time::Duration;

use relent_policy::BudgetSnapshot;
use relent_store::{BreakerSwap, BreakerSwapped, Error, LaneId, Retention};
use tokio::sync::watch;

use crate::attempt;
use crate::service::Service;

const SWEEP_EVERY: Duration = Duration::from_secs(1);
const SWEEP_MAX: u32 = 500;
const SAVE_EVERY: Duration = Duration::from_secs(1);
const PRUNE_EVERY: Duration = Duration::from_secs(60);
const PRUNE_ROWS: u32 = 2_000;
/// Between two chunks of deleting: retention never keeps a delivery waiting for long.
const PRUNE_PAUSE: Duration = Duration::from_millis(20);

/// Becomes true when the service stops.
pub(crate) type Stopping = watch::Receiver<bool>;

/// Waits until the service stops.
pub(crate) async fn stopped(stopping: &mut Stopping) {
    // An error means that whoever could stop it is gone: that is a stop too.
    let _ = stopping.wait_for(|stopping| *stopping).await;
}

/// Waits for so long; `false` when the service stops meanwhile.
async fn wait(stopping: &mut Stopping, at_most: Duration) -> bool {
    tokio::select! {
        () = tokio::time::sleep(at_most) => true,
        () = stopped(stopping) => false,
    }
}

/// Takes over what nobody else will end.
pub(crate) async fn sweep(service: Arc<Service>, mut stopping: Stopping) {
    loop {
        match service.store.sweep(SWEEP_MAX).await {
            Ok(swept) if swept.is_empty() => {}
            Ok(swept) => {
                let full = swept.len() >= SWEEP_MAX as usize;
                let mut decided = tokio::task::JoinSet::new();
                for task in swept {
                    let service = Arc::clone(&service);
                    decided.spawn(async move { attempt::take_over(&service, task).await });
                }
                decided.join_all().await;
                if full {
                    continue;
                }
            }
            Err(error) => tracing::error!(%error, "could not look for lost work"),
        }
        if !wait(&mut stopping, SWEEP_EVERY).await {
            return;
        }
    }
}

/// Saves what lanes remember.
pub(crate) async fn save_lanes(service: Arc<Service>, mut stopping: Stopping) {
    loop {
        let goes_on = wait(&mut stopping, SAVE_EVERY).await;
        let (lanes, keeps) = (service.lanes.all(), service.cluster.keeps());
        let (mut budgets, mut breakers) = (Vec::new(), Vec::new());
        for changed in lanes.iter().filter_map(|lane| lane.changed()) {
            budgets.extend(changed.budget.filter(|_| keeps));
            breakers.extend(changed.breaker);
        }
        if let Err(error) = save(&service, budgets, breakers).await {
            tracing::error!(%error, "could not save budgets and breakers");
        }
        if !goes_on {
            return;
        }
    }
}

async fn save(
    service: &Service,
    budgets: Vec<(LaneId, BudgetSnapshot)>,
    breakers: Vec<BreakerSwap>,
) -> Result<(), Error> {
    if !budgets.is_empty() {
        service.store.save_budgets(budgets).await?;
    }
    if breakers.is_empty() {
        return Ok(());
    }
    let lanes: Vec<LaneId> = breakers.iter().map(|swap| swap.lane).collect();
    let swapped = service.store.swap_breakers(breakers).await?;
    for (lane, swapped) in lanes.into_iter().zip(swapped) {
        if let (
            Some(lane),
            BreakerSwapped::Done { revision } | BreakerSwapped::Lost { revision, .. },
        ) = (service.lanes.get(lane), swapped)
        {
            lane.breaker_seen(revision);
        }
    }
    Ok(())
}

/// Deletes what has been kept long enough, in chunks.
pub(crate) async fn prune(service: Arc<Service>, retention: Retention, mut stopping: Stopping) {
    loop {
        let pause = match service.store.prune(retention, PRUNE_ROWS).await {
            Ok(0) => PRUNE_EVERY,
            Ok(_) => PRUNE_PAUSE,
            Err(error) => {
                tracing::error!(%error, "could not delete what is old");
                PRUNE_EVERY
            }
        };
        if !wait(&mut stopping, pause).await {
            return;
        }
    }
}
