//! A lane at the moment of a decision.

use core::time::Duration;

use super::{Lane, Refusal, Reservation};
use crate::decide::Gates;
use crate::time::Timestamp;

/// A lane as [`decide`](crate::decide) sees it.
#[derive(Debug)]
pub struct LaneGates<'lane> {
    lane: &'lane mut Lane,
    reservation: Option<Reservation>,
}

impl<'lane> LaneGates<'lane> {
    pub(super) fn new(lane: &'lane mut Lane) -> LaneGates<'lane> {
        LaneGates { lane, reservation: None }
    }

    /// The retry that was counted, if the decision was to retry.
    pub fn into_reservation(self) -> Option<Reservation> {
        self.reservation
    }
}

impl Gates for LaneGates<'_> {
    #[inline]
    fn estimated_call(&self) -> Duration {
        self.lane.estimated_call()
    }

    #[inline]
    fn reserve_retry(&mut self, now: Timestamp, roll: u64) -> Result<(), Refusal> {
        self.reservation = Some(self.lane.reserve_retry(now, roll)?);
        Ok(())
    }
}
