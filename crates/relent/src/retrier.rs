//! A dependency, as its callers see it: one policy and one shared state for all calls to it.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use relent_policy::{Hop, IdempotencyKey, Lane, Policy, Repeatable, Timestamp, roll};

use crate::call::{Deadline, Options};
use crate::clock::{Clock, DefaultClock};
use crate::key::Keys;
use crate::lane::SharedLane;
use crate::observe::Observer;
use crate::operation::Operation;

/// Retries calls to one dependency. Make one for each dependency, once; clones share its budget,
/// breaker and limits and cost a reference count.
///
/// ```
/// use relent::{Policy, Retrier};
/// use std::sync::LazyLock;
///
/// static PAYMENTS: LazyLock<Retrier> =
///     LazyLock::new(|| Retrier::new("payments", Policy::sync_api()));
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), relent::CallError<std::io::Error>> {
/// # async fn charge(_key: &str) -> std::io::Result<u32> { Ok(100) }
/// let charged = PAYMENTS.call(async |attempt| charge(&attempt.key()).await).await?;
/// # assert_eq!(charged, 100);
/// # Ok(())
/// # }
/// ```
pub struct Retrier<C: Clock = DefaultClock> {
    pub(crate) inner: Arc<Inner<C>>,
}

pub(crate) struct Inner<C> {
    pub(crate) service: String,
    pub(crate) dependency: String,
    pub(crate) terms: Terms,
    pub(crate) lane: Option<SharedLane>,
    pub(crate) clock: C,
    pub(crate) observers: Vec<Box<dyn Observer>>,
    pub(crate) declared: Repeatable,
    seed: Option<Seed>,
}

/// What an attempt may ask for, whatever the clock.
pub(crate) struct Terms {
    pub(crate) policy: Policy,
    pub(crate) keys: Keys,
}

/// Where reproducible rolls come from.
struct Seed {
    seed: u64,
    draws: AtomicU64,
}

impl<C> Inner<C> {
    /// 64 random bits. Without a seed they come from a generator of the calling thread.
    pub(crate) fn roll(&self, attempt: u32) -> u64 {
        match &self.seed {
            None => fastrand::u64(..),
            Some(Seed { seed, draws }) => {
                roll::for_attempt(*seed, draws.fetch_add(1, Ordering::Relaxed), attempt)
            }
        }
    }

    #[inline]
    pub(crate) fn is_observed(&self) -> bool {
        !self.observers.is_empty()
    }
}

impl Retrier {
    /// A retrier with this policy, and defaults for the rest.
    pub fn new(dependency: impl Into<String>, policy: Policy) -> Retrier {
        Retrier::builder(dependency).policy(policy).build()
    }

    /// A retrier, piece by piece.
    ///
    /// ```
    /// use relent::{Policy, Retrier};
    ///
    /// let search = Retrier::builder("search").policy(Policy::sync_api()).repeatable().build();
    /// assert_eq!(search.dependency(), "search");
    /// ```
    pub fn builder(dependency: impl Into<String>) -> Builder {
        Builder {
            service: String::new(),
            dependency: dependency.into(),
            policy: None,
            gated: true,
            clock: Source::Default(DefaultClock::default),
            observers: Vec::new(),
            declared: Repeatable::No,
            seed: None,
        }
    }

    /// The retrier that was [registered](Retrier::register) under this dependency's name.
    pub fn named(dependency: &str) -> Option<Retrier> {
        registry().get(dependency).cloned()
    }

    /// Makes the retrier findable by its dependency's name, and returns it. The first one stays: a
    /// second would have a budget and a breaker of its own.
    ///
    /// ```
    /// use relent::{Policy, Retrier};
    ///
    /// Retrier::new("stock", Policy::sync_api()).register();
    /// let stock = Retrier::named("stock").expect("it was registered");
    /// assert_eq!(stock.policy().id(), "sync-api");
    /// ```
    pub fn register(self) -> Retrier {
        registry().entry(self.inner.dependency.clone()).or_insert(self).clone()
    }
}

fn registry() -> MutexGuard<'static, HashMap<String, Retrier>> {
    static REGISTRY: LazyLock<Mutex<HashMap<String, Retrier>>> = LazyLock::new(Mutex::default);
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<C: Clock> Retrier<C> {
    /// What is being called.
    pub fn dependency(&self) -> &str {
        &self.inner.dependency
    }

    /// The policy.
    pub fn policy(&self) -> &Policy {
        &self.inner.terms.policy
    }

    /// A copy of the shared state, for gauges: budget, breaker, attempts in flight. `None` without
    /// any.
    ///
    /// ```
    /// use relent::{Policy, Retrier};
    ///
    /// let retrier = Retrier::new("stock", Policy::sync_api());
    /// assert_eq!(retrier.lane().unwrap().in_flight(), 0);
    /// ```
    pub fn lane(&self) -> Option<Lane> {
        self.inner.lane.as_ref().map(|lane| *lane.lock())
    }

    /// The share of the retry budget that is spent: 0 untouched, 1 all of it.
    ///
    /// ```
    /// use relent::{Policy, Retrier};
    ///
    /// assert_eq!(Retrier::new("stock", Policy::sync_api()).budget_utilization_ratio(), 0.0);
    /// ```
    pub fn budget_utilization_ratio(&self) -> f64 {
        let now = self.inner.clock.now();
        let budget = self.lane().and_then(|lane| lane.budget().copied());
        budget.map_or(0.0, |mut budget| budget.utilization_ratio(now))
    }

    /// A call to be described further.
    pub fn operation(&self) -> Operation<'_, C> {
        let declared = self.inner.declared;
        Operation { inner: &self.inner, options: Options { declared, ..Options::default() } }
    }

    /// A call that may be repeated as it is: reading, replacing, deleting.
    pub fn repeatable(&self) -> Operation<'_, C> {
        self.operation().repeatable()
    }

    /// A call that carries this idempotency key.
    pub fn with_key(&self, key: IdempotencyKey) -> Operation<'_, C> {
        self.operation().with_key(key)
    }

    /// A call that must have ended in this time.
    pub fn deadline_in(&self, duration: Duration) -> Operation<'_, C> {
        self.operation().deadline_in(duration)
    }
}

impl<C: Clock> Operation<'_, C> {
    /// The call may be repeated as it is: reading, replacing, deleting.
    pub fn repeatable(mut self) -> Self {
        self.options.declared = Repeatable::Declared;
        self
    }

    /// The call may be repeated as far as its HTTP method says so.
    ///
    /// ```
    /// use relent::{Policy, Retrier};
    ///
    /// let retrier = Retrier::new("stock", Policy::sync_api());
    /// let _reading = retrier.operation().method("GET");
    /// ```
    pub fn method(mut self, method: &str) -> Self {
        self.options.declared = Repeatable::by_method(method, None);
        self
    }

    /// The call carries this idempotency key, instead of one made for it.
    pub fn with_key(mut self, key: IdempotencyKey) -> Self {
        self.options.key = Some(key);
        self
    }

    /// The call must have ended in this time; the policy's total time holds too.
    pub fn deadline_in(mut self, duration: Duration) -> Self {
        self.options.deadline = Deadline::In(duration);
        self
    }

    /// The call must have ended by then; the policy's total time holds too.
    pub fn deadline_at(mut self, at: Timestamp) -> Self {
        self.options.deadline = Deadline::At(at);
        self
    }

    /// Whether a layer above retries this call, if not as [`hop::within`](crate::hop::within) says.
    pub fn hop(mut self, hop: Hop) -> Self {
        self.options.hop = Some(hop);
        self
    }

    /// What to tell related calls by in logs.
    pub fn correlation_id(mut self, id: impl Into<Cow<'static, str>>) -> Self {
        self.options.correlation_id = Some(id.into());
        self
    }
}

impl<C: Clock> Clone for Retrier<C> {
    fn clone(&self) -> Self {
        Retrier { inner: Arc::clone(&self.inner) }
    }
}

impl<C: Clock> std::fmt::Debug for Retrier<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Retrier")
            .field("dependency", &self.inner.dependency)
            .field("policy", &self.inner.terms.policy.id())
            .finish_non_exhaustive()
    }
}

/// Where a retrier's clock comes from. The default one is made last: on a target without an operating
/// system there is none, and it is enough that somebody gives another.
enum Source<C> {
    Default(fn() -> C),
    Given(C),
}

impl<C> Source<C> {
    fn into_clock(self) -> C {
        match self {
            Source::Default(make) => make(),
            Source::Given(clock) => clock,
        }
    }
}

/// A retrier in the making.
///
/// # Default
///
/// - the policy `sync-api`
/// - operations are not repeatable unless they say so or ask for their key
/// - tokio's clock with the feature `tokio`, else the system's
/// - no observers beyond those that features switch on
pub struct Builder<C: Clock = DefaultClock> {
    service: String,
    dependency: String,
    policy: Option<Policy>,
    gated: bool,
    clock: Source<C>,
    observers: Vec<Box<dyn Observer>>,
    declared: Repeatable,
    seed: Option<u64>,
}

impl<C: Clock> Builder<C> {
    /// The policy of all calls.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = Some(policy);
        self
    }

    /// Who is calling, for logs and metrics.
    #[must_use]
    pub fn service(mut self, service: impl Into<String>) -> Self {
        self.service = service.into();
        self
    }

    /// All calls may be repeated as they are: a dependency that is only read.
    #[must_use]
    pub fn repeatable(mut self) -> Self {
        self.declared = Repeatable::Declared;
        self
    }

    /// Tells this observer too.
    #[must_use]
    pub fn observer(mut self, observer: impl Observer) -> Self {
        self.observers.push(Box::new(observer));
        self
    }

    /// No budget, breaker or limits, whatever the policy says: for operations that share nothing
    /// with others, such as work on a local file.
    #[must_use]
    pub fn ungated(mut self) -> Self {
        self.gated = false;
        self
    }

    /// Draws the same delays every time, for tests.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Another source of time.
    ///
    /// ```
    /// use relent::Retrier;
    /// use relent::clock::SystemClock;
    ///
    /// let retrier: Retrier<SystemClock> =
    ///     Retrier::builder("disk").clock(SystemClock::default()).build();
    /// # let _ = retrier;
    /// ```
    pub fn clock<D: Clock>(self, clock: D) -> Builder<D> {
        Builder {
            service: self.service,
            dependency: self.dependency,
            policy: self.policy,
            gated: self.gated,
            clock: Source::Given(clock),
            observers: self.observers,
            declared: self.declared,
            seed: self.seed,
        }
    }

    /// The retrier.
    pub fn build(mut self) -> Retrier<C> {
        let policy = self.policy.unwrap_or_else(Policy::sync_api);
        self.observers.extend(crate::observe::default_observers());
        let lane = self.gated.then(|| SharedLane::new(Lane::new(&policy)));
        let inner = Inner {
            service: self.service,
            dependency: self.dependency,
            terms: Terms { policy, keys: Keys::default() },
            lane,
            clock: self.clock.into_clock(),
            observers: self.observers,
            declared: self.declared,
            seed: self.seed.map(|seed| Seed { seed, draws: AtomicU64::new(0) }),
        };
        Retrier { inner: Arc::new(inner) }
    }
}

impl<C: Clock> std::fmt::Debug for Builder<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder").field("dependency", &self.dependency).finish_non_exhaustive()
    }
}
