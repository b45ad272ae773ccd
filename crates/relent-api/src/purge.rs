//! Dead letters that are to be gone: `DELETE /dead-letters`. REQ-D3.

use serde::{Deserialize, Serialize};

use crate::filter::TaskFilter;
use crate::limits::Limits;
use crate::parameters::{self, Parameters};
use crate::problem::Problem;
use crate::report::Wrong;

/// Which dead letters are to be deleted.
///
/// ```
/// use relent_api::{Limits, PurgeQuery};
///
/// assert!(PurgeQuery::parse("", &Limits::default()).is_err());
/// assert!(PurgeQuery::parse("all=true&dryRun=true", &Limits::default()).is_ok());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PurgeQuery {
    /// Which ones.
    pub filter: TaskFilter,
    /// Whether only to tell how many would be deleted.
    pub dry_run: bool,
}

/// What a purge came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PurgeReport {
    /// Whether nothing was changed.
    pub dry_run: bool,
    /// How many dead letters were deleted, or would be.
    pub deleted: u64,
}

impl PurgeQuery {
    /// Reads the query of `DELETE /dead-letters`. Without any filter it wants `all=true`: a filter
    /// that got lost on its way must not delete everything.
    ///
    /// # Errors
    ///
    /// Every parameter that is unknown, repeated or not allowed.
    pub fn parse(query: &str, limits: &Limits) -> Result<PurgeQuery, Problem> {
        let mut parameters = Parameters::of(query);
        let filter = TaskFilter::of(&mut parameters, limits);
        let dry_run = parameters.read("dryRun", parameters::flag).unwrap_or_default();
        let all = parameters.read("all", parameters::flag).unwrap_or_default();
        if all != filter.is_empty() && parameters.is_right() {
            let (got, expected) = match all {
                true => ("true with a filter", "left out with a filter"),
                false => ("nothing", "true where there is no filter"),
            };
            parameters.wrong("all", Wrong::new(got, expected));
        }
        parameters.finish(PurgeQuery { filter, dry_run })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_goes_only_when_everything_was_said() {
        let cases = [
            ("all=true", true),
            ("policyId=a", true),
            ("policyId=a&dryRun=true", true),
            ("", false),
            ("all=false", false),
            ("dryRun=true", false),
            ("all=true&policyId=a", false),
            ("all=yes", false),
            ("polcyId=a", false),
        ];
        for (query, fine) in cases {
            let result = PurgeQuery::parse(query, &Limits::default());
            assert_eq!(result.is_ok(), fine, "{query}: {result:?}");
        }
    }
}
