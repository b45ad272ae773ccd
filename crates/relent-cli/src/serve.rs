//! `relent serve`: from flags to a running server, and from a signal to a quiet end. REQ-S4.

use std::io::{self, Write as _};
use std::time::Duration;

use anyhow::Context as _;
use relent_server::Server;
use relent_server::config::{Config, LogConfig, LogFormat, StoreConfig, StorePlace};
use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::prelude::*;

use crate::Ended;
use crate::settings::SettingArgs;

/// Run the service
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    settings: SettingArgs,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Ended> {
    let config = args.settings.load()?;
    start_log(&config.log)?;
    let options = &config.server;
    raise_open_files(options.connections_max as u64 + u64::from(options.attempts_in_flight_max));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start threads")?;
    let served = runtime.block_on(serve(config));
    // A look-up of a name that hangs in the system's resolver must not keep the process.
    runtime.shutdown_timeout(Duration::from_secs(1));
    served?;
    Ok(Ended::Fine)
}

async fn serve(config: Config) -> anyhow::Result<()> {
    let mut signals = Signals::listen().context("cannot listen for signals")?;
    let data = place(&config.store);
    let store = config.store.open().context("cannot open the store")?;
    let server = Server::start(store, config.server).await?;
    let mut stdout = io::stdout();
    writeln!(stdout, "listening on http://{}", server.address())?;
    stdout.flush()?;
    eprintln!("{data}");
    if !server.address().ip().is_loopback() {
        tracing::warn!("whoever can reach this address can use the service: it asks for no key");
    }

    let name = signals.next().await;
    tracing::info!("{name}: finishing what is under way; once more ends at once");
    tokio::select! {
        stopped = server.stop() => match stopped.context("cannot close the store")? {
            0 => tracing::info!("stopped"),
            left => tracing::warn!(left, "stopped; attempts under way are made again at the next start"),
        },
        name = signals.next() => {
            tracing::warn!("{name} again: ending at once");
            std::process::exit(130);
        }
    }
    Ok(())
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn listen() -> io::Result<Signals> {
        let (terminate, interrupt) = (SignalKind::terminate(), SignalKind::interrupt());
        Ok(Signals { terminate: signal(terminate)?, interrupt: signal(interrupt)? })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

fn start_log(log: &LogConfig) -> anyhow::Result<()> {
    let filter: Targets = log.level.parse().context("log.level")?;
    let registry = tracing_subscriber::registry().with(filter);
    let lines = tracing_subscriber::fmt::layer().with_writer(io::stderr);
    match log.format {
        LogFormat::Text => registry.with(lines).init(),
        LogFormat::Json => registry.with(lines.json().flatten_event(true)).init(),
    }
    Ok(())
}

/// Where the data lives, for people.
fn place(store: &StoreConfig) -> String {
    match store.place {
        StorePlace::Memory => "data in memory only: it is gone when the server stops".to_owned(),
        _ => format!("data in {store}"),
    }
}

/// Every connection is an open file, and the usual soft limit is 1,024.
fn raise_open_files(connections: u64) {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    let limit = if raised.is_ok() { maximum } else { current };
    if let Some(limit) = limit.filter(|limit| *limit < connections) {
        tracing::warn!(
            limit,
            connections,
            "fewer files may be open than there may be connections: raise the limit (ulimit -n), \
             or lower server.connections_max and scheduler.attempts_in_flight_max"
        );
    }
    make_room_for_files(limit.unwrap_or(u64::MAX).min(connections));
}

/// Has the kernel make the table of open files as large as it may have to become, before there are
/// threads. Making it larger later keeps every thread that opens a file waiting until all
/// processors have passed a quiet moment, for tens of milliseconds and more on a busy machine.
fn make_room_for_files(files: u64) {
    const MAX: u64 = 1 << 16;
    let highest = i32::try_from(files.min(MAX)).unwrap_or(i32::MAX).saturating_sub(1);
    if let Err(error) = fcntl_dupfd_cloexec(io::stderr(), highest) {
        tracing::debug!(%error, "the table of open files grows as it is needed");
    }
}
