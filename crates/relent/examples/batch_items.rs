//! A hundred items of a batch, eight at a time, some of them failing, with a progress bar.
//!
//! `cargo run -p relent --example batch_items`

use std::error::Error;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use relent::observe::{AttemptEvent, Observer};
use relent::{CallError, Policy, Retrier};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

const ITEMS: u32 = 100;
const AT_ONCE: usize = 8;

/// Shows on the bar what is being repeated.
struct Watch(ProgressBar);

impl Observer for Watch {
    fn attempt(&self, event: &AttemptEvent<'_>) {
        if let (Some(failure), Some(wait)) = (event.failure, event.wait) {
            self.0.set_message(format!("{failure}, again in {wait:.1?}"));
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let bar = ProgressBar::new(ITEMS.into());
    bar.set_style(ProgressStyle::with_template("{bar:40} {pos}/{len} {msg}")?);
    let importer = Retrier::builder("importer")
        .policy(Policy::batch_item())
        .repeatable()
        .observer(Watch(bar.clone()))
        .build();

    let places = Arc::new(Semaphore::new(AT_ONCE));
    let mut items = JoinSet::new();
    for item in 0..ITEMS {
        let place = Arc::clone(&places).acquire_owned().await?;
        let (importer, bar) = (importer.clone(), bar.clone());
        items.spawn(async move {
            let imported =
                importer.call(async |attempt| import(item, attempt.number()).await).await;
            bar.inc(1);
            drop(place);
            (item, imported)
        });
    }

    let (mut imported, mut failed) = (0, Vec::new());
    while let Some(finished) = items.join_next().await {
        match finished? {
            (_, Ok(())) => imported += 1,
            (item, Err(error)) => failed.push((item, error)),
        }
    }
    bar.finish_with_message("done");

    println!("{imported} of {ITEMS} items imported");
    failed.sort_by_key(|(item, _)| *item);
    for (item, error) in &failed {
        // A batch reports what it could not do, and goes on: these would be its dead letters.
        let why = error.original().map_or_else(String::new, |original| format!(" ({original})"));
        println!("item {item}: {error}{why}");
    }
    if failed.iter().any(|(_, error)| matches!(error, CallError::Refused(_))) {
        println!("some were never tried: the importer was down");
    }
    Ok(())
}

/// Every eighth item meets a hiccup, and two are beyond help.
async fn import(item: u32, attempt: u32) -> io::Result<()> {
    tokio::time::sleep(Duration::from_millis(20)).await;
    match item {
        33 | 66 => Err(io::Error::new(ErrorKind::InvalidData, "no such currency: XXQ")),
        _ if item % 8 == 5 && attempt == 1 => Err(ErrorKind::ConnectionReset.into()),
        _ => Ok(()),
    }
}
