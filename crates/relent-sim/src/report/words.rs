//! Numbers and scenarios in words.

use crate::chance::whole;
use crate::scenario::{Load, SECOND, Scenario};
use crate::study::Study;

/// 4000 as `4,000`.
///
/// ```
/// assert_eq!(relent_sim::thousands(1_234_567.4), "1,234,567");
/// ```
pub fn thousands(number: f64) -> String {
    fn grouped(number: u64) -> String {
        match number / 1_000 {
            0 => number.to_string(),
            more => format!("{},{:03}", grouped(more), number % 1_000),
        }
    }
    grouped(whole(number.round()))
}

/// A time in seconds, with the unit that fits it.
///
/// ```
/// assert_eq!(relent_sim::duration(0.0123), "12.3 ms");
/// assert_eq!(relent_sim::duration(95.0), "95 s");
/// ```
pub fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 0.0995 => format!("{:.1} ms", s * 1e3),
        s if s < 0.9995 => format!("{:.0} ms", s * 1e3),
        s if s < 9.95 => format!("{s:.1} s"),
        s if s < 600.0 => format!("{s:.0} s"),
        s if s < 7_200.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3_600.0),
    }
}

pub(super) fn percent(ratio: f64) -> String {
    let percent = ratio * 100.0;
    // Never "100 %" for what is not all, nor "0 %" for what is not none.
    match percent {
        p if p > 99.95 && ratio < 1.0 => ">99.9 %".to_owned(),
        p if p > 0.0 && p < 0.05 => "<0.1 %".to_owned(),
        p => format!("{p:.1} %"),
    }
}

fn span(nanos: u64) -> String {
    let seconds = nanos as f64 / 1e9;
    if nanos.is_multiple_of(60 * SECOND) && nanos >= 600 * SECOND {
        return format!("{} min", nanos / (60 * SECOND));
    }
    if nanos.is_multiple_of(SECOND) { format!("{seconds:.0} s") } else { format!("{seconds} s") }
}

pub(super) fn headline(study: &Study) -> String {
    let scenario = &study.scenario;
    let seeds = match study.plan.seeds {
        1 => format!("seed {}", study.plan.first_seed),
        count => {
            let last = study.plan.first_seed.saturating_add(count - 1);
            format!("{count} seeds, {} to {last}", study.plan.first_seed)
        }
    };
    let parts = [Some(load(scenario)), capacity(scenario), trouble(scenario), Some(seeds)];
    parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

fn load(scenario: &Scenario) -> String {
    let clients = match scenario.clients.count {
        1 => String::new(),
        count => format!(" from {} clients", thousands(count.into())),
    };
    match &scenario.clients.load {
        Load::Closed { .. } => {
            format!("{} clients in a closed loop", thousands(scenario.clients.count.into()))
        }
        Load::Trace { at } => {
            format!("{} recorded operations{clients}", thousands(at.len() as f64))
        }
        Load::Poisson { per_second } | Load::Constant { per_second } => {
            format!("{} operations/s{clients}", thousands(*per_second))
        }
    }
}

fn capacity(scenario: &Scenario) -> Option<String> {
    scenario.capacity().map(|capacity| format!("capacity {}/s", thousands(capacity)))
}

fn trouble(scenario: &Scenario) -> Option<String> {
    let faults: Vec<String> = scenario
        .faults
        .iter()
        .map(|fault| {
            let until = fault.to.min(scenario.horizon);
            format!("{} from {} to {}", fault.kind.name(), span(fault.from), span(until))
        })
        .collect();
    (!faults.is_empty()).then(|| faults.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_never_rounded_to_all_or_nothing() {
        let cases = [(1.0, "100.0 %"), (0.9999, ">99.9 %"), (0.0001, "<0.1 %"), (0.0, "0.0 %")];
        for (ratio, text) in cases {
            assert_eq!(percent(ratio), text);
        }
    }
}
