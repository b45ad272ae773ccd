//! What may happen on a lane without looking at it, and catching up on it afterwards.
//!
//! A lane sits behind a lock, and nearly all that happens there is first attempts that start and
//! succeed. While the breaker is closed and nothing limits the pace, these only count: in whatever
//! order they come, the lane is the same afterwards. So they may be counted outside the lock, as
//! long as there are places and the windows' running slots last, and added up when somebody next
//! has a question. It is the same state to the last bit; a property checks it. REQ-L6.

use super::{Admission, Budget, Lane, Pass, Timestamp, Turn};

/// How many first attempts may start before the lane must be asked again, and until when.
///
/// ```
/// use relent_policy::{Lane, Outcome, Policy, Timestamp, Turn};
///
/// let (mut asked, now) = (Lane::new(&Policy::sync_api()), Timestamp::from_millis(500));
/// let mut told = asked;
/// let leeway = told.leeway().expect("its breaker is closed and it has no rate limit");
/// assert!(leeway.places == 1_000 && now < leeway.until);
/// for _ in 0..3 {
///     let pass = asked.admit(Turn::First, now)?;
///     asked.finish(pass, &Outcome::Success, now, 0);
/// }
/// told.catch_up(3, 3);
/// assert_eq!(told, asked);
/// # Ok::<(), relent_policy::Refusal>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leeway {
    /// How many more may be in flight.
    pub places: u32,
    /// From when on the lane must be asked.
    pub until: Timestamp,
}

impl Lane {
    /// What may happen unasked; `None` if nothing may, because the breaker is not closed or attempts
    /// are limited in their pace.
    #[inline]
    pub fn leeway(&self) -> Option<Leeway> {
        let mut until = self.budget.as_ref().map_or(u64::MAX, Budget::counts_until);
        if let Some(breaker) = &self.breaker {
            until = until.min(breaker.counts_until()?);
        }
        Some(Leeway { places: self.flow.unpaced_places()?, until: Timestamp::from_nanos(until) })
    }

    /// Counts first attempts that have started under the [leeway](Lane::leeway) since the lane was last
    /// changed, and successes that took no time, of these or of such that started under a leeway
    /// before.
    pub fn catch_up(&mut self, started: u32, succeeded: u32) {
        self.flow.catch_up(started, succeeded);
        self.call_time.note_none(succeeded);
        if let Some(budget) = &mut self.budget {
            budget.catch_up(started, succeeded);
        }
        if let Some(breaker) = &mut self.breaker {
            breaker.count_successes(succeeded);
        }
    }
}

impl Pass {
    /// The pass of an attempt that has started under the [leeway](Lane::leeway). If it succeeds and
    /// took no time, [`Lane::catch_up`] may take its place; otherwise hand it back as any other.
    ///
    /// ```
    /// use relent_policy::{Lane, Pass, Policy, Timestamp};
    ///
    /// let mut lane = Lane::new(&Policy::sync_api());
    /// let pass = Pass::under_leeway(Timestamp::ZERO);
    /// lane.catch_up(1, 0);
    /// assert_eq!(lane.in_flight(), 1);
    /// lane.abandon(pass, Timestamp::ZERO);
    /// assert_eq!(lane.in_flight(), 0);
    /// ```
    #[inline]
    pub fn under_leeway(started_at: Timestamp) -> Pass {
        Pass { turn: Turn::First, admission: Admission::Normal, started_at }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::failure::Outcome;
    use crate::policy::{Policy, PolicySpec};

    /// What happens next in a life of a lane: attempts that start and end at the same moment or a
    /// moment later, well or not, and retries.
    #[derive(Clone, Copy, Debug)]
    enum Step {
        Wait(u64),
        Succeed,
        Start,
        EndWell,
        EndBadly,
        Retry,
    }

    fn steps() -> impl Strategy<Value = std::vec::Vec<Step>> {
        let step = prop_oneof![
            2 => (0..4_000_000_000_u64).prop_map(Step::Wait),
            6 => Just(Step::Succeed),
            8 => Just(Step::Start),
            3 => Just(Step::EndWell),
            7 => Just(Step::EndBadly),
            2 => Just(Step::Retry),
        ];
        prop::collection::vec(step, 0..150)
    }

    /// A lane whose owner counts outside as long as it may.
    struct Told {
        lane: Lane,
        started: u32,
        succeeded: u32,
    }

    impl Told {
        fn looked_at(&mut self) -> &mut Lane {
            let (started, succeeded) = (self.started, self.succeeded);
            (self.started, self.succeeded) = (0, 0);
            self.lane.catch_up(started, succeeded);
            &mut self.lane
        }

        fn leeway(&self, now: Timestamp) -> Option<Leeway> {
            self.lane.leeway().filter(|leeway| now < leeway.until)
        }

        fn start(&mut self, now: Timestamp) -> Option<Pass> {
            if let Some(leeway) = self.leeway(now)
                && i64::from(self.started) - i64::from(self.succeeded) < i64::from(leeway.places)
            {
                self.started += 1;
                return Some(Pass::under_leeway(now));
            }
            self.looked_at().admit(Turn::First, now).ok()
        }

        fn succeed(&mut self, pass: Pass, now: Timestamp) {
            let ordinary = pass == Pass::under_leeway(now);
            if ordinary && self.leeway(now).is_some() {
                self.succeeded += 1;
            } else {
                self.looked_at().finish(pass, &Outcome::Success, now, 0);
            }
        }
    }

    fn same_life(lane: Lane, steps: &[Step]) {
        let mut asked = lane;
        let mut told = Told { lane, started: 0, succeeded: 0 };
        let mut now = Timestamp::from_secs(1_000);
        let mut under_way = std::vec::Vec::new();
        for step in steps {
            match step {
                Step::Wait(nanos) => now = now.plus_nanos(*nanos),
                Step::Succeed => {
                    let (pass, other) = (asked.admit(Turn::First, now).ok(), told.start(now));
                    assert_eq!(pass, other);
                    if let (Some(pass), Some(other)) = (pass, other) {
                        asked.finish(pass, &Outcome::Success, now, 0);
                        told.succeed(other, now);
                    }
                }
                Step::Start => {
                    let (pass, other) = (asked.admit(Turn::First, now).ok(), told.start(now));
                    assert_eq!(pass, other);
                    under_way.extend(pass.zip(other));
                }
                Step::EndWell => {
                    if let Some((pass, other)) = under_way.pop() {
                        asked.finish(pass, &Outcome::Success, now, 0);
                        told.succeed(other, now);
                    }
                }
                Step::EndBadly => {
                    if let Some((pass, other)) = under_way.pop() {
                        asked.finish(pass, &Outcome::http(503), now, 9);
                        told.looked_at().finish(other, &Outcome::http(503), now, 9);
                    }
                }
                Step::Retry => {
                    let retry = asked.reserve_retry(now, 3);
                    assert_eq!(retry, told.looked_at().reserve_retry(now, 3));
                    let (pass, other) =
                        (asked.admit(Turn::Retry, now), told.looked_at().admit(Turn::Retry, now));
                    assert_eq!(pass, other);
                    under_way.extend(pass.ok().zip(other.ok()));
                }
            }
        }
        assert_eq!(&asked, told.looked_at());
    }

    proptest! {
        #[test]
        fn a_lane_that_is_told_later_is_the_same(
            steps in steps(), narrow in any::<bool>(), budget in any::<bool>(), breaker in any::<bool>(),
        ) {
            let mut spec = PolicySpec::sync_api();
            if narrow {
                spec.concurrency.in_flight_max = 3;
                spec.concurrency.retries_in_flight_max = 1;
            }
            let lane = Lane::new(&spec.build(Timestamp::ZERO).unwrap());
            let state = (lane.budget.filter(|_| budget), lane.breaker.filter(|_| breaker));
            same_life(lane.with_state(state.0, state.1), &steps);
        }
    }

    #[test]
    fn an_open_breaker_or_a_pace_gives_no_leeway() {
        let mut lane = Lane::new(&Policy::sync_api());
        assert!(lane.leeway().is_some());
        for _ in 0..20 {
            let pass = lane.admit(Turn::First, Timestamp::ZERO).unwrap();
            lane.finish(pass, &Outcome::http(503), Timestamp::ZERO, 0);
        }
        assert_eq!(lane.leeway(), None);

        let mut spec = PolicySpec::sync_api();
        spec.concurrency.rate_per_second = Some(10);
        assert_eq!(Lane::new(&spec.build(Timestamp::ZERO).unwrap()).leeway(), None);
    }
}
