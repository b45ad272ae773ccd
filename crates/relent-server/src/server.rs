//! Starting and stopping a service.
//!
//! The order of the start: other nodes, policies, lanes, the scheduler, lost work, then the door.
//! The order of the stop is the reverse, and generous: no new tasks and no new claims first; attempts
//! under way get their time; what is told is written down; then the store closes. REQ-S4.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use relent_api::Limits;
use relent_policy::Share;
use relent_store::{Error as StoreError, Retention, Store, TenantId};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::cluster::{self, Cluster};
use crate::egress::{Egress, EgressError, EgressRules};
use crate::events::Events;
use crate::http;
use crate::lanes::LaneBook;
use crate::lookup::Looks;
use crate::metrics::Metrics;
use crate::policies::PolicyBook;
use crate::scheduler::{self, Inbox, Places};
use crate::service::{BeingStored, Service};
use crate::under_way::UnderWay;
use crate::upkeep;

/// What a service is told at its start.
///
/// # Default
///
/// Listens on 127.0.0.1:8717; takes tasks and makes attempts; 4,096 connections, 4,096 attempts in flight; 30 s of grace.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Where it listens; port 0 picks a free one.
    pub listen: SocketAddr,
    /// What this node does.
    pub roles: Roles,
    /// Its name in metrics.
    pub service: String,
    /// Connections that are served at once.
    pub connections_max: usize,
    /// Attempts under way at once, over all lanes.
    pub attempts_in_flight_max: u32,
    /// How long attempts under way get when it stops.
    pub grace: Duration,
    /// How much of anything a request may have.
    pub limits: Limits,
    /// What may be called, and how.
    pub egress: EgressRules,
    /// How long what has ended is kept.
    pub retention: Retention,
}

impl Default for ServerOptions {
    fn default() -> ServerOptions {
        ServerOptions {
            listen: SocketAddr::from(([127, 0, 0, 1], 8717)),
            roles: Roles::default(),
            service: "relent".to_owned(),
            connections_max: 4_096,
            attempts_in_flight_max: 4_096,
            grace: Duration::from_secs(30),
            limits: Limits::default(),
            egress: EgressRules::default(),
            retention: Retention::default(),
        }
    }
}

/// What a node does. One that does not take tasks still tells whether it is well.
///
/// # Default
///
/// Both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Roles {
    /// Takes tasks, and answers.
    pub api: bool,
    /// Makes attempts, takes over lost work, and deletes what is old.
    pub worker: bool,
}

impl Default for Roles {
    fn default() -> Roles {
        Roles { api: true, worker: true }
    }
}

/// Why a service did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// It cannot listen where it should.
    #[error("cannot listen on {address}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// What the system says.
        source: std::io::Error,
    },
    /// The store failed.
    #[error("cannot use the store")]
    Store(#[from] StoreError),
    /// The outgoing client could not be set up.
    #[error("cannot set up outgoing connections")]
    Egress(#[from] EgressError),
    /// A thread could not be started.
    #[error("cannot start a thread")]
    Thread(std::io::Error),
}

/// A running service.
#[derive(Debug)]
pub struct Server {
    service: Arc<Service>,
    address: SocketAddr,
    grace: Duration,
    stop: watch::Sender<bool>,
    door: JoinHandle<()>,
    upkeep: Vec<JoinHandle<()>>,
    /// `None` on a node that makes no attempts.
    scheduler: Option<std::thread::JoinHandle<()>>,
}

/// How long each chore gets to save what is left when the service stops.
const UPKEEP_ENDS_WITHIN: Duration = Duration::from_secs(3);
/// How often a stopping service looks whether its attempts have ended.
const DRAIN_LOOK: Duration = Duration::from_millis(20);

impl Server {
    /// Starts a service on a store. It is ready when this returns.
    ///
    /// # Errors
    ///
    /// When it cannot listen, or the store cannot be used.
    pub async fn start(
        store: Arc<dyn Store>,
        options: ServerOptions,
    ) -> Result<Server, StartError> {
        let listen = |source| StartError::Listen { address: options.listen, source };
        let listener = TcpListener::bind(options.listen).await.map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        let Roles { api, worker } = options.roles;
        let (share, is_shared) = (worker.then_some(Share::WHOLE), store.is_shared());
        let service = Arc::new(Service {
            cluster: if is_shared { Cluster::shared(worker) } else { Cluster::default() },
            policies: PolicyBook::default(),
            lanes: LaneBook::new(share, is_shared.then(Arc::default)),
            looks: Looks::default(),
            egress: Egress::new(options.egress)?,
            inbox: Arc::new(Inbox::default()),
            places: Places::new(options.attempts_in_flight_max),
            under_way: UnderWay::default(),
            events: Events::default(),
            metrics: Metrics::new(options.service),
            limits: options.limits,
            being_stored: BeingStored::default(),
            draining: AtomicBool::new(false),
            store,
        });
        cluster::join(&service).await?;
        take_up(&service, worker).await?;
        cluster::settle(&service);

        let (stop, stopping) = watch::channel(false);
        let save_lanes = upkeep::save_lanes(Arc::clone(&service), stopping.clone());
        let mut upkeep = vec![tokio::spawn(save_lanes)];
        if is_shared {
            upkeep.push(tokio::spawn(cluster::run(Arc::clone(&service), stopping.clone())));
        }
        let mut scheduler = None;
        if worker {
            scheduler = Some(start_scheduler(&service).map_err(StartError::Thread)?);
            let sweep = upkeep::sweep(Arc::clone(&service), stopping.clone());
            let prune = upkeep::prune(Arc::clone(&service), options.retention, stopping.clone());
            upkeep.extend([tokio::spawn(sweep), tokio::spawn(prune)]);
        }
        let router = match api {
            true => http::router(Arc::clone(&service)),
            false => http::worker_router(Arc::clone(&service)),
        };
        let door = http::accept::serve(listener, router, options.connections_max, stopping);
        let door = tokio::spawn(door);
        Ok(Server { service, address, grace: options.grace, stop, door, upkeep, scheduler })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops: claims nothing more, gives attempts under way their grace, writes everything down.
    /// Returns how many attempts had to be left; they are taken over at the next start.
    ///
    /// # Errors
    ///
    /// When the store could not be closed in order.
    pub async fn stop(self) -> Result<u32, StoreError> {
        let Server { service, grace, stop, door, upkeep, scheduler, .. } = self;
        let asked_at = Instant::now();
        service.draining.store(true, Ordering::Relaxed);
        service.inbox.stop();
        if let Some(scheduler) = scheduler {
            // The round that is under way ends with a claim, which is not waited for in async code.
            let _ = tokio::task::spawn_blocking(move || scheduler.join()).await;
        }
        let grace_left = || grace.saturating_sub(asked_at.elapsed());
        let drained = tokio::time::timeout(grace_left(), async {
            while service.places.taken() > 0 {
                tokio::time::sleep(DRAIN_LOOK).await;
            }
        });
        let left = if drained.await.is_ok() { 0 } else { service.places.taken() };
        let _ = stop.send(true);
        for mut task in upkeep {
            // It may wait for a store that is not there.
            if tokio::time::timeout(UPKEEP_ENDS_WITHIN, &mut task).await.is_err() {
                task.abort();
            }
        }
        service.events.close();
        // Requests under way have had the whole grace.
        if tokio::time::timeout(Duration::from_secs(2), door).await.is_err() {
            tracing::warn!("some connections were cut");
        }
        service.store.close(grace_left().max(Duration::from_secs(5))).await?;
        Ok(left)
    }
}

/// Takes up what the store has: policies, lanes, and for a worker when what is due.
async fn take_up(service: &Arc<Service>, worker: bool) -> Result<(), StoreError> {
    if !worker {
        // Nobody would read what it is told.
        service.inbox.stop();
    }
    let tenants = [TenantId::default_tenant()];
    service.policies.load(service.store.as_ref(), &tenants).await?;
    for record in service.store.lanes().await? {
        service.take_lane(record).await?;
    }
    if worker {
        service.store.listen(Arc::clone(&service.inbox) as _);
        let dues = service.store.lines().await?;
        relent_store::DueListener::due(service.inbox.as_ref(), &dues);
    }
    Ok(())
}

fn start_scheduler(service: &Arc<Service>) -> std::io::Result<std::thread::JoinHandle<()>> {
    let (service, runtime) = (Arc::clone(service), tokio::runtime::Handle::current());
    let name = "relent-scheduler".to_owned();
    std::thread::Builder::new().name(name).spawn(move || scheduler::run(&service, &runtime))
}
