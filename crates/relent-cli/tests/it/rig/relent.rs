//! The service: the real binary, on a data directory of its own.

use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

use super::{Client, SOON, soon, wait_until};

/// How long a start may take, on a machine that does six other things.
const STARTS_WITHIN: Duration = Duration::from_secs(30);
/// What a failing test shows of the log.
const SHOWN: usize = 6_000;

/// A running service. Dropped, it is killed.
#[derive(Debug)]
pub(crate) struct Relent {
    child: Child,
    pub(crate) address: SocketAddr,
    log: Log,
    arguments: Vec<String>,
    data: Arc<TempDir>,
    /// Held open: a service that cannot write there would end.
    _stdout: Lines<BufReader<ChildStdout>>,
}

/// How one ended that was asked to stop while it started.
#[derive(Debug)]
pub(crate) struct Stopped {
    pub(crate) code: Option<i32>,
    pub(crate) signal: Option<i32>,
    /// Whether it had come so far as to say where it listens.
    pub(crate) was_ready: bool,
    #[expect(dead_code, reason = "what a failing test shows")]
    said: String,
}

/// What the service wrote to stderr, over all its starts.
#[derive(Clone, Debug, Default)]
struct Log(Arc<Mutex<String>>);

impl Relent {
    pub(crate) async fn start() -> Relent {
        Relent::start_with(&[]).await
    }

    /// With more arguments to `serve`.
    pub(crate) async fn start_with(arguments: &[&str]) -> Relent {
        Relent::start_in(&std::env::temp_dir(), arguments).await
    }

    /// On a disk that is memory, where there is one: for tests that measure, beside which somebody
    /// may be compiling.
    pub(crate) async fn start_measured(arguments: &[&str]) -> Relent {
        let memory = Path::new("/dev/shm");
        let temporary = std::env::temp_dir();
        Relent::start_in(if memory.is_dir() { memory } else { &temporary }, arguments).await
    }

    pub(crate) async fn start_in(folder: &Path, arguments: &[&str]) -> Relent {
        let data = tempfile::Builder::new().prefix("relent-test-").tempdir_in(folder).unwrap();
        let arguments = arguments.iter().map(ToString::to_string).collect();
        Relent::on(Arc::new(data), arguments, Log::default()).await
    }

    async fn on(data: Arc<TempDir>, arguments: Vec<String>, log: Log) -> Relent {
        let mut child = command(data.path()).args(&arguments).spawn().unwrap();
        log.follow(child.stderr.take().unwrap());
        let mut stdout = BufReader::new(child.stdout.take().unwrap()).lines();
        let ready = timeout(STARTS_WITHIN, async {
            while let Some(line) = stdout.next_line().await.unwrap() {
                if let Some(address) = line.strip_prefix("listening on http://") {
                    return address.parse().ok();
                }
            }
            None
        });
        let Ok(Some(address)) = ready.await else {
            panic!("the service did not say where it listens; its log:\n{}", log.tail());
        };
        Relent { child, address, log, arguments, data, _stdout: stdout }
    }

    /// A client with a connection of its own.
    pub(crate) fn client(&self) -> Client {
        Client::new(self.address)
    }

    pub(crate) fn data(&self) -> &Path {
        self.data.path()
    }

    /// Everything it has written to stderr so far.
    pub(crate) fn log(&self) -> String {
        self.log.0.lock().unwrap().clone()
    }

    fn pid(&self) -> Pid {
        let id = self.child.id().expect("it has not been waited for");
        Pid::from_raw(id.cast_signed()).unwrap()
    }

    /// What the system tells about it.
    fn proc(&self) -> PathBuf {
        format!("/proc/{}", self.pid().as_raw_pid()).into()
    }

    /// How much memory it uses, in bytes.
    pub(crate) fn resident_bytes(&self) -> u64 {
        let text = std::fs::read_to_string(self.proc().join("status")).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse().unwrap();
        kilobytes * 1_024
    }

    /// How much processor time it has used, to a hundredth of a second.
    pub(crate) fn cpu_time(&self) -> Duration {
        let fields = stat(&self.proc()).unwrap();
        let ticks: u64 = fields[11..13].iter().map(|ticks| ticks.parse::<u64>().unwrap()).sum();
        Duration::from_millis(10 * ticks)
    }

    /// Kills it without warning.
    pub(crate) async fn kill9(&mut self) {
        self.child.start_kill().unwrap();
        soon("the killed service is gone", self.child.wait()).await.unwrap();
    }

    /// Asks it to stop.
    pub(crate) fn sigterm(&self) {
        kill_process(self.pid(), Signal::TERM).unwrap();
    }

    /// Stops it where it is; [`sigcont`](Relent::sigcont) lets it go on as if nothing had been.
    pub(crate) fn sigstop(&self) {
        kill_process(self.pid(), Signal::STOP).unwrap();
    }

    /// Stops it, and waits until none of its threads does anything but what the system is already
    /// doing for it.
    pub(crate) async fn freeze(&self) {
        self.sigstop();
        let is_stopped = |thread: &Path| {
            // One that has just ended does nothing any more.
            stat(thread).is_none_or(|fields| ["T", "D"].contains(&fields[0].as_str()))
        };
        wait_until(SOON, "all threads have stopped", async || {
            let mut threads = std::fs::read_dir(self.proc().join("task")).unwrap();
            threads.all(|thread| is_stopped(&thread.unwrap().path())).then_some(())
        })
        .await;
    }

    pub(crate) fn sigcont(&self) {
        kill_process(self.pid(), Signal::CONT).unwrap();
    }

    /// Waits until it has ended by itself.
    pub(crate) async fn ended(&mut self) -> ExitStatus {
        self.ended_within(SOON).await
    }

    pub(crate) async fn ended_within(&mut self, within: Duration) -> ExitStatus {
        let ended = timeout(within, self.child.wait()).await;
        ended.unwrap_or_else(|_| panic!("it did not end within {within:?}")).unwrap()
    }

    /// Starts again on the same data, after it has ended.
    pub(crate) async fn start_again(self) -> Relent {
        let (data, arguments) = (Arc::clone(&self.data), self.arguments.clone());
        Relent::on(data, arguments, self.log.clone()).await
    }

    /// The same, in its own place.
    pub(crate) async fn restart(&mut self) {
        let (data, arguments) = (Arc::clone(&self.data), self.arguments.clone());
        *self = Relent::on(data, arguments, self.log.clone()).await;
    }

    /// Starts on the same data, after it has ended, and asks it to stop after this long.
    pub(crate) async fn stopped_while_starting(&self, wait: Duration) -> Stopped {
        let child = command(self.data.path()).args(&self.arguments).spawn().unwrap();
        let pid = Pid::from_raw(child.id().unwrap().cast_signed()).unwrap();
        tokio::time::sleep(wait).await;
        kill_process(pid, Signal::TERM).unwrap();
        let output = soon("it has ended", child.wait_with_output()).await.unwrap();
        Stopped {
            code: output.status.code(),
            signal: output.status.signal(),
            was_ready: output.stdout.starts_with(b"listening on "),
            said: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Tries to start a second one on the same data: how it ends, and what it says.
    pub(crate) async fn start_second(&self) -> (ExitStatus, String) {
        let second = command(self.data.path()).output();
        let output = soon("the second process has ended", second).await.unwrap();
        (output.status, String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

fn command(data: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_relent"));
    command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(data);
    command.env_remove("RELENT_LOG").env("NO_COLOR", "1");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.kill_on_drop(true);
    command
}

/// What `stat` says of a process or thread, after the program's name, which may hold anything and is in
/// brackets; `None` if it has ended.
fn stat(of: &Path) -> Option<Vec<String>> {
    let text = std::fs::read_to_string(of.join("stat")).ok()?;
    let (_, fields) = text.rsplit_once(')')?;
    Some(fields.split_whitespace().map(str::to_owned).collect())
}

impl Log {
    fn follow(&self, from: impl AsyncRead + Send + Unpin + 'static) {
        let log = self.clone();
        tokio::spawn(async move {
            let mut lines = BufReader::new(from).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                let mut text = log.0.lock().unwrap();
                text.push_str(&line);
                text.push('\n');
            }
        });
    }

    fn tail(&self) -> String {
        let text = self.0.lock().unwrap();
        let mut from = text.len().saturating_sub(SHOWN);
        while !text.is_char_boundary(from) {
            from += 1;
        }
        text[from..].to_owned()
    }
}

impl Drop for Relent {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.start_kill();
        if std::thread::panicking() {
            eprintln!("--- the end of the service's log ---\n{}--- end ---", self.log.tail());
            return;
        }
        let log = self.log();
        let panicked = log.find("panicked at").map(|at| &log[at..]);
        assert!(panicked.is_none(), "the service panicked: {}", panicked.unwrap_or_default());
    }
}
