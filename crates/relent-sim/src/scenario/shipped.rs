//! The scenarios that come with the crate, compiled in.

/// A scenario that comes with the crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shipped {
    /// Its name.
    pub name: &'static str,
    /// The file's text: an example to start from.
    pub text: &'static str,
}

macro_rules! scenarios {
    ($($name:literal)*) => {
        const ALL: &[Shipped] = &[$(Shipped {
            name: $name,
            text: include_str!(concat!("../../scenarios/", $name, ".toml")),
        }),*];
    };
}

scenarios! {
    "aws-occ" "standard-1000rps" "standard-100-clients" "failover-8s" "herd" "metastable-80"
    "brown-out" "nested-3x3" "rate-limit-429" "webhook-endpoint-down-1h"
}

/// All scenarios that come with the crate.
///
/// ```
/// use relent_sim::{Scenario, shipped};
///
/// for scenario in shipped() {
///     let read = Scenario::parse(scenario.text, &|_| Err("none names a file".into())).unwrap();
///     assert_eq!(read.name, scenario.name);
/// }
/// ```
pub fn shipped() -> &'static [Shipped] {
    ALL
}
