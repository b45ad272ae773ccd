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

use super::soon;

/// How long it may take to start, with the log to read.
const STARTS_WITHIN: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct RedisServer {
    child: Child,
    /// Held open: it writes there.
    _stdout: Lines<BufReader<ChildStdout>>,
    folder: TempDir,
}

impl RedisServer {
    pub(crate) async fn start() -> RedisServer {
        // Not under TMPDIR: the path of a socket is short.
        let folder = tempfile::Builder::new().prefix("relent-redis-").tempdir_in("/tmp").unwrap();
        let (child, stdout) = run(folder.path()).await;
        RedisServer { child, _stdout: stdout, folder }
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
        (self.child, self._stdout) = run(self.folder.path()).await;
    }
}

async fn run(folder: &Path) -> (Child, Lines<BufReader<ChildStdout>>) {
    let mut redis = Command::new("redis-server");
    redis.args(["--port", "0", "--save", "", "--appendonly", "yes", "--appendfsync", "everysec"]);
    redis.args(["--maxmemory-policy", "noeviction", "--unixsocket"]).arg(folder.join("socket"));
    redis.arg("--dir").arg(folder).stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
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
