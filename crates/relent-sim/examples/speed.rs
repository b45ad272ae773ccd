//! How fast the simulator is, and how much room a client takes.
//!
//! ```console
//! $ cargo run --release -p relent-sim --example speed
//! $ cargo run --release -p relent-sim --example speed -- clients 1000000 give-up
//! $ cargo run --release -p relent-sim --example speed -- clients 10000000 hold
//! ```

use std::fs;
use std::time::Instant;

use relent_sim::{Scenario, shipped, simulate, thousands};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    match arguments.next().as_deref() {
        Some("clients") => {
            let count = arguments.next().unwrap_or("1000000".into());
            room(&count, &arguments.next().unwrap_or("hold".into()))
        }
        _ => speed(),
    }
}

/// Each policy of a scenario several times, the fastest counts: other work only ever slows it down.
fn speed() -> Result<(), Box<dyn std::error::Error>> {
    for name in ["metastable-80", "failover-8s", "webhook-endpoint-down-1h"] {
        let known = shipped().iter().find(|known| known.name == name).ok_or("no such scenario")?;
        let scenario = Scenario::parse(known.text, &|_| Err("no files".into()))?;
        println!("{name}");
        for policy in &scenario.policies {
            let rate = |_| {
                let started = Instant::now();
                let run = simulate(&scenario, policy, 1);
                run.events as f64 / started.elapsed().as_secs_f64()
            };
            let (events, best) =
                (simulate(&scenario, policy, 1).events, (0..5).map(rate).fold(0.0, f64::max));
            let events = thousands(events as f64);
            println!("  {:<28} {events:>10} events, {:>10}/s", policy.id(), thousands(best));
        }
    }
    Ok(())
}

/// So many clients that all call at once, and either wait for their turn (`hold`; a lane lets a
/// million through at once), or all wait, time out and wait to call again (`give-up`).
fn room(clients: &str, when_refused: &str) -> Result<(), Box<dyn std::error::Error>> {
    let text = format!(
        "name = 'crowd'
        horizon = '2500ms'
        [clients]
        load = 'closed'
        count = {clients}
        operations = 1
        when_refused = '{when_refused}'
        [[servers]]
        workers = 1000
        service = '10ms'"
    );
    let scenario = Scenario::parse(&text, &|_| Err("no files".into()))?;
    let document =
        "policyId = 'patient'\ncontext = 'sync-api'\nattemptTimeoutMs = 1000\nbudget = false
        breaker = false\nconcurrency = { inFlightMax = 1000000, retriesInFlightMax = 1000000 }";
    let policy = relent_sim::candidate(&toml::from_str(document)?)?;
    let before = resident();
    let started = Instant::now();
    let run = simulate(&scenario, &policy, 1);
    let used = resident().saturating_sub(before) * 1_024;
    println!(
        "{clients} clients: {} events in {:.1} s, {} MiB at most, {:.1} bytes each",
        thousands(run.events as f64),
        started.elapsed().as_secs_f64(),
        used >> 20,
        used as f64 / clients.parse::<f64>()?,
    );
    println!("calls {:?}, succeeded {}, failed {}", run.sent, run.succeeded, run.failed);
    Ok(())
}

/// The most memory this process has held, in KiB.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok()).unwrap_or(0)
}
