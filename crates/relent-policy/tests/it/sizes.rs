//! What is kept per task and per dependency stays small. `docs/benchmarks.md` has the figures.

use relent_policy::{Breaker, Budget, Decision, History, Lane};

#[test]
fn the_sizes_are_those_of_the_documentation() {
    assert_eq!(size_of::<History>(), 40);
    assert_eq!(size_of::<Decision>(), 32);
    assert_eq!(size_of::<Budget>(), 352);
    assert_eq!(size_of::<Breaker>(), 280);
    assert_eq!(size_of::<Lane>(), 688);
}
