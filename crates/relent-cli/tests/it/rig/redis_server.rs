//! A Redis of a test's own, that it may stop, kill and start again.
//!
//! With a log that is flushed every second: what Redis has acknowledged survives its process.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

use super::authority::{Authority, Files};
use super::{free_port, soon, wait_until};

/// How long it may take to start, with the log to read.
const STARTS_WITHIN: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct RedisServer {
    child: Child,
    /// Held open: it writes there.
    _stdout: Lines<BufReader<ChildStdout>>,
    folder: TempDir,
    settings: Vec<String>,
}

impl RedisServer {
    pub(crate) async fn start() -> RedisServer {
        RedisServer::start_with(&[]).await
    }

    /// With settings that come after its own.
    pub(crate) async fn start_with(settings: &[&str]) -> RedisServer {
        // Not under TMPDIR: the path of a socket is short.
        let folder = tempfile::Builder::new().prefix("relent-redis-").tempdir_in("/tmp").unwrap();
        let settings: Vec<String> = settings.iter().map(ToString::to_string).collect();
        let (child, stdout) = run(folder.path(), &settings).await;
        RedisServer { child, _stdout: stdout, folder, settings }
    }

    /// On a port with TLS as well.
    pub(crate) async fn start_with_tls(
        port: u16,
        authority: &Authority,
        files: &Files,
        settings: &[&str],
    ) -> RedisServer {
        let path = |path: &Path| path.display().to_string();
        let (own, key) = (path(&files.certificate), path(&files.key));
        let (port, trusted) = (port.to_string(), authority.file());
        let tls = ["--bind", "127.0.0.1", "--tls-port", &port, "--tls-cert-file", &own];
        let more =
            ["--tls-key-file", &key, "--tls-ca-cert-file", &trusted, "--tls-auth-clients", "no"];
        RedisServer::start_with(&[&tls[..], &more, settings].concat()).await
    }

    /// Three masters of a Cluster, all through TLS and by name; and their ports.
    pub(crate) async fn start_cluster(
        authority: &Authority,
        files: &Files,
    ) -> (Vec<RedisServer>, Vec<u16>) {
        let (mut servers, mut ports) = (Vec::new(), Vec::new());
        for _ in 0..3 {
            let (port, bus) = (free_port(), free_port().to_string());
            let cluster =
                ["--cluster-enabled", "yes", "--tls-cluster", "yes", "--cluster-port", &bus];
            let named = ["--cluster-announce-hostname", "localhost"];
            let by_name = ["--cluster-preferred-endpoint-type", "hostname"];
            let settings = [&cluster[..], &named, &by_name].concat();
            servers.push(RedisServer::start_with_tls(port, authority, files, &settings).await);
            ports.push(port);
        }
        let mut create = Command::new("redis-cli");
        create.args(["--tls", "--cacert", &authority.file(), "--cluster", "create"]);
        create.args(ports.iter().map(|port| format!("127.0.0.1:{port}"))).arg("--cluster-yes");
        let made = timeout(STARTS_WITHIN, create.stdin(Stdio::null()).output()).await;
        let made = made.expect("the Cluster is made").unwrap();
        assert!(
            made.status.success(),
            "{}",
            String::from_utf8_lossy(&[made.stdout, made.stderr].concat())
        );
        for port in &ports {
            wait_until(STARTS_WITHIN, "the Cluster has come up", async || {
                let mut ask = Command::new("redis-cli");
                ask.args(["--tls", "--cacert", &authority.file(), "-p", &port.to_string()]);
                let told = ask.args(["cluster", "info"]).output().await.unwrap();
                String::from_utf8_lossy(&told.stdout).contains("cluster_state:ok").then_some(())
            })
            .await;
        }
        (servers, ports)
    }

    /// Where its socket is.
    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    /// Stops it as an administrator does.
    pub(crate) async fn stop(&mut self) {
        let id = self.child.id().expect("it has not been waited for");
        kill_process(Pid::from_raw(id.cast_signed()).unwrap(), Signal::TERM).unwrap();
        soon("Redis has stopped", self.child.wait()).await.unwrap();
    }

    /// Kills it without warning.
    pub(crate) async fn kill9(&mut self) {
        self.child.start_kill().unwrap();
        soon("the killed Redis is gone", self.child.wait()).await.unwrap();
    }

    /// Starts it again, after it has ended.
    pub(crate) async fn start_again(&mut self) {
        (self.child, self._stdout) = run(self.folder.path(), &self.settings).await;
    }
}

async fn run(folder: &Path, settings: &[String]) -> (Child, Lines<BufReader<ChildStdout>>) {
    let mut redis = Command::new("redis-server");
    redis.args(["--port", "0", "--save", "", "--appendonly", "yes", "--appendfsync", "everysec"]);
    redis.args(["--maxmemory-policy", "noeviction", "--unixsocket"]).arg(folder.join("socket"));
    redis
        .arg("--dir")
        .arg(folder)
        .args(settings)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true);
    let mut child = redis.spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap()).lines();
    let ready = timeout(STARTS_WITHIN, async {
        while let Some(line) = stdout.next_line().await.unwrap() {
            if line.contains("now ready to accept connections at") {
                return true;
            }
        }
        false
    });
    assert!(ready.await.is_ok_and(|ready| ready), "redis-server did not start");
    (child, stdout)
}
