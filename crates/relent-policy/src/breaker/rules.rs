//! When a breaker opens and how it closes again, as a policy says it. REQ-K1, REQ-K3, REQ-G3.

use core::time::Duration;

use crate::ratio::Ratio;

/// When a breaker opens and how it closes again.
///
/// # Default
///
/// - opens at a failure ratio of 0.5 over 10 s, from 20 calls on
/// - opens when the budget was exhausted for 10 s at a failure ratio of 0.4
/// - cools down for 5 s, twice as long each further time, 30 s at most
/// - waits 30 s for a probe's result
/// - ramps up over 10 s
///
/// ```
/// use core::time::Duration;
/// use relent_policy::BreakerRules;
///
/// assert_eq!(BreakerRules::default().cool_down, Duration::from_secs(5));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerRules {
    /// The share of failures that opens it.
    pub failure_ratio: Ratio,
    /// Fewer calls than this in the window prove nothing.
    pub calls_min: u32,
    /// How far it looks back.
    pub window: Duration,
    /// How long it stays open the first time.
    pub cool_down: Duration,
    /// How long it stays open at most.
    pub cool_down_max: Duration,
    /// How long a probe may take before another is sent.
    pub probe_timeout: Duration,
    /// Over how long traffic returns after a successful probe.
    pub ramp: Duration,
    /// How long the budget must stay exhausted to open it.
    pub exhausted_for: Duration,
    /// The share of failures that must go with an exhausted budget.
    pub exhausted_failure_ratio: Ratio,
}

impl Default for BreakerRules {
    fn default() -> BreakerRules {
        BreakerRules {
            failure_ratio: Ratio::from_thousandths(500),
            calls_min: 20,
            window: Duration::from_secs(10),
            cool_down: Duration::from_secs(5),
            cool_down_max: Duration::from_secs(30),
            probe_timeout: Duration::from_secs(30),
            ramp: Duration::from_secs(10),
            exhausted_for: Duration::from_secs(10),
            exhausted_failure_ratio: Ratio::from_thousandths(400),
        }
    }
}
