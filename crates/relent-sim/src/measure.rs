//! What is counted while a simulation runs: series, windows, histograms, endings. REQ-X1.

use relent_policy::GiveUpReason;

use crate::scenario::SECOND;

/// Attempts beyond this share a row of the heat map.
pub const ATTEMPT_ROWS: usize = 8;

/// What happened in one stretch of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bucket {
    /// Operations that began.
    pub operations: u32,
    /// Operations that succeeded.
    pub succeeded: u32,
    /// Operations that failed.
    pub failed: u32,
    /// Attempts sent, by their number from 1; the last row has the rest.
    pub attempts: [u32; ATTEMPT_ROWS],
    /// The longest queue at the end.
    pub queue: u32,
}

impl Bucket {
    /// All attempts.
    pub fn sent(&self) -> u32 {
        self.attempts.iter().sum()
    }

    /// The attempts after the first of their operation.
    pub fn retries(&self) -> u32 {
        self.attempts[1..].iter().sum()
    }
}

/// A series that grows longer is made half as fine.
const BUCKETS_MAX: usize = 800;

/// The same series in buckets twice as long.
pub(crate) fn halved(buckets: &[Bucket]) -> Vec<Bucket> {
    let merge = |pair: &[Bucket]| {
        let mut sum = Bucket::default();
        for bucket in pair {
            sum.operations += bucket.operations;
            sum.succeeded += bucket.succeeded;
            sum.failed += bucket.failed;
            sum.queue = sum.queue.max(bucket.queue);
            sum.attempts.iter_mut().zip(bucket.attempts).for_each(|(sum, more)| *sum += more);
        }
        sum
    };
    buckets.chunks(2).map(merge).collect()
}

/// Calls in stretches of one width: how many at most, and how crowded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Crowd {
    width: u64,
    ends_at: u64,
    count: u64,
    /// From when on a maximum counts as "after the trouble".
    after: u64,
    pub(crate) most: u64,
    pub(crate) most_after: u64,
    calls: u64,
    squares: u128,
}

impl Crowd {
    fn new(width: u64, after: u64) -> Crowd {
        Crowd { width, ends_at: 0, count: 0, after, most: 0, most_after: 0, calls: 0, squares: 0 }
    }

    #[inline]
    fn count(&mut self, now: u64) {
        if now >= self.ends_at {
            self.close();
            self.ends_at = now - now % self.width + self.width;
        }
        self.count += 1;
    }

    pub(crate) fn close(&mut self) {
        self.most = self.most.max(self.count);
        if self.ends_at > self.after.saturating_add(self.width) {
            self.most_after = self.most_after.max(self.count);
        }
        self.calls += self.count;
        self.squares += u128::from(self.count) * u128::from(self.count);
        self.count = 0;
    }

    /// How many other calls come in the same stretch as a call, on average.
    pub(crate) fn company(&self) -> f64 {
        if self.calls == 0 { 0.0 } else { self.squares as f64 / self.calls as f64 - 1.0 }
    }
}

/// How often something took how long: 64 steps to each doubling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
}

const STEPS: u64 = 64;
const STEPS_LOG2: u64 = 6;

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { counts: vec![0; 59 * 64], total: 0 }
    }
}

impl Histogram {
    #[inline]
    pub(crate) fn count(&mut self, nanos: u64) {
        self.total += 1;
        if let Some(count) = self.counts.get_mut(Histogram::place(nanos)) {
            *count += 1;
        }
    }

    fn place(nanos: u64) -> usize {
        let value = nanos.max(STEPS);
        let doublings = u64::from(value.ilog2()) - STEPS_LOG2;
        let step = (value >> doublings) - STEPS;
        usize::try_from(doublings * STEPS + step).unwrap_or(0)
    }

    /// The lower end of a place.
    fn start(place: usize) -> f64 {
        let (doublings, step) = (place as u64 / STEPS, place as u64 % STEPS);
        (STEPS + step) as f64 * 2.0_f64.powi(i32::try_from(doublings).unwrap_or(0))
    }

    /// How many were counted.
    pub fn total(&self) -> u64 {
        self.total
    }

    pub(crate) fn add(&mut self, other: &Histogram) {
        self.total += other.total;
        self.counts.iter_mut().zip(&other.counts).for_each(|(mine, theirs)| *mine += theirs);
    }

    /// The time within which this share ended, in nanoseconds.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        if self.total == 0 {
            return None;
        }
        let wanted = share * self.total as f64;
        let mut below = 0.0;
        for (place, count) in self.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let count = *count as f64;
            if below + count >= wanted {
                let (from, to) = (Histogram::start(place), Histogram::start(place + 1));
                return Some(from + (to - from) * ((wanted - below) / count).clamp(0.0, 1.0));
            }
            below += count;
        }
        self.counts.iter().rposition(|count| *count > 0).map(|last| Histogram::start(last + 1))
    }

    /// Points of the distribution: time in nanoseconds, and the share that took no longer.
    pub fn distribution(&self) -> Vec<(f64, f64)> {
        let mut below = 0;
        let mut points = Vec::new();
        for (place, count) in self.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            if points.is_empty() {
                points.push((Histogram::start(place), 0.0));
            }
            below += count;
            points.push((Histogram::start(place + 1), below as f64 / self.total as f64));
        }
        points
    }
}

/// Everything that is counted.
#[derive(Debug)]
pub(crate) struct Measure {
    pub(crate) bucket_nanos: u64,
    pub(crate) buckets: Vec<Bucket>,
    bucket_ends_at: u64,
    warm_up: u64,
    pub(crate) tenths: Crowd,
    pub(crate) hundredths: Crowd,
    pub(crate) seconds: Crowd,
    pub(crate) operations: u64,
    pub(crate) succeeded: u64,
    pub(crate) failed: u64,
    pub(crate) given_up: Vec<u64>,
    /// Attempts sent on each hop.
    pub(crate) sent: Vec<u64>,
    /// The same since the warm-up, with the operations.
    pub(crate) warm_operations: u64,
    pub(crate) warm_sent: Vec<u64>,
    pub(crate) completions: Histogram,
    pub(crate) last_end_at: u64,
    pub(crate) events: u64,
}

impl Measure {
    pub(crate) fn new(bucket_nanos: u64, warm_up: u64, trouble_over: u64, hops: usize) -> Measure {
        Measure {
            bucket_nanos,
            buckets: vec![Bucket::default()],
            bucket_ends_at: bucket_nanos,
            warm_up,
            tenths: Crowd::new(SECOND / 10, trouble_over),
            hundredths: Crowd::new(SECOND / 100, trouble_over),
            seconds: Crowd::new(SECOND, trouble_over),
            operations: 0,
            succeeded: 0,
            failed: 0,
            given_up: vec![0; GiveUpReason::ALL.len()],
            sent: vec![0; hops],
            warm_operations: 0,
            warm_sent: vec![0; hops],
            completions: Histogram::default(),
            last_end_at: 0,
            events: 0,
        }
    }

    #[inline]
    fn bucket(&mut self, now: u64) -> &mut Bucket {
        while now >= self.bucket_ends_at {
            self.buckets.push(Bucket::default());
            self.bucket_ends_at += self.bucket_nanos;
            if self.buckets.len() > BUCKETS_MAX {
                self.buckets = halved(&self.buckets);
                self.bucket_nanos *= 2;
                self.bucket_ends_at = self.buckets.len() as u64 * self.bucket_nanos;
            }
        }
        let last = self.buckets.len() - 1;
        &mut self.buckets[last]
    }

    /// Notes the longest queue; asked now and then.
    pub(crate) fn queue(&mut self, now: u64, calls: usize) {
        let bucket = self.bucket(now);
        bucket.queue = bucket.queue.max(u32::try_from(calls).unwrap_or(u32::MAX));
    }

    #[inline]
    pub(crate) fn began(&mut self, now: u64) {
        self.operations += 1;
        self.warm_operations += u64::from(now >= self.warm_up);
        self.bucket(now).operations += 1;
    }

    #[inline]
    pub(crate) fn sent(&mut self, hop: usize, attempt: u32, now: u64) {
        self.sent[hop] += 1;
        self.warm_sent[hop] += u64::from(now >= self.warm_up);
        if hop == 0 {
            let row = (attempt.max(1) as usize - 1).min(ATTEMPT_ROWS - 1);
            self.bucket(now).attempts[row] += 1;
        }
    }

    /// A call reaches the first server.
    #[inline]
    pub(crate) fn reached(&mut self, now: u64) {
        self.hundredths.count(now);
        self.tenths.count(now);
        self.seconds.count(now);
    }

    #[inline]
    pub(crate) fn ended(&mut self, why: Result<(), GiveUpReason>, since: u64, now: u64) {
        self.last_end_at = now;
        match why {
            Ok(()) => {
                self.succeeded += 1;
                self.bucket(now).succeeded += 1;
                self.completions.count(now - since);
            }
            Err(because) => {
                self.failed += 1;
                self.bucket(now).failed += 1;
                let place = GiveUpReason::ALL.iter().position(|reason| *reason == because);
                if let Some(count) = place.and_then(|place| self.given_up.get_mut(place)) {
                    *count += 1;
                }
            }
        }
    }

    pub(crate) fn close(&mut self, now: u64) {
        self.bucket(now.saturating_sub(1));
        for crowd in [&mut self.tenths, &mut self.hundredths, &mut self.seconds] {
            crowd.close();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_within_a_64th() {
        let mut histogram = Histogram::default();
        (1..=10_000_u64).for_each(|millis| histogram.count(millis * 1_000_000));
        for share in [0.01, 0.5, 0.9, 0.99] {
            let found = histogram.quantile(share).unwrap();
            let exact = share * 1e10;
            assert!((found - exact).abs() <= exact / 64.0, "{share}: {found}");
        }
        assert_eq!(Histogram::default().quantile(0.5), None);
        let points = histogram.distribution();
        assert!(points.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1));
    }

    #[test]
    fn crowds_are_counted_by_their_stretch() {
        let mut crowd = Crowd::new(10, 100);
        [1, 2, 3, 15, 205, 206].into_iter().for_each(|now| crowd.count(now));
        crowd.close();
        assert_eq!((crowd.most, crowd.most_after), (3, 2));
        // Three calls have two others, one has none, two have one.
        assert!((crowd.company() - 8.0 / 6.0).abs() < 1e-9);
    }
}
