//! A Redis of a test's own, to be flushed, killed and starved.

use std::env;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;

use relent_store::{RedisConnectError, RedisOptions, RedisStore};
use tempfile::TempDir;

use super::ask;

/// A server on a socket in a directory of its own. It ends with the value.
pub(crate) struct Server {
    /// Where else it listens.
    pub(crate) port: Option<u16>,
    directory: TempDir,
    settings: Vec<String>,
    process: Child,
}

impl Server {
    /// A server with a log, as relent wants one; further settings come after that.
    pub(crate) fn start(settings: &[&str]) -> Server {
        // In memory where the system has such a place: a flush of the disk takes no time there.
        let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        Server::start_in(directory, settings)
    }

    pub(crate) fn start_in(directory: TempDir, settings: &[&str]) -> Server {
        let settings: Vec<String> = settings.iter().map(|setting| (*setting).to_owned()).collect();
        let process = spawn(directory.path(), &settings);
        Server { port: None, directory, settings, process }
    }

    /// The same, also on a port. The last setting may be the one that takes it.
    pub(crate) fn start_on_a_port(settings: &[&str]) -> Server {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let (text, takes_it) =
            (port.to_string(), settings.last().is_some_and(|l| l.ends_with("-port")));
        let own: &[&str] =
            if takes_it { &[&text] } else { &["--bind", "127.0.0.1", "--port", &text] };
        let mut server = Server::start(&[settings, own].concat());
        server.port = Some(port);
        server
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    pub(crate) fn url(&self) -> String {
        format!("redis+unix://{}", self.socket().display())
    }

    pub(crate) fn connect(&self, options: RedisOptions) -> RedisStore {
        self.try_connect(options).unwrap()
    }

    pub(crate) fn try_connect(
        &self,
        options: RedisOptions,
    ) -> Result<RedisStore, RedisConnectError> {
        RedisStore::connect(&self.url(), options)
    }

    pub(crate) fn ask<T: redis::FromRedisValue + Send>(&self, command: &[&str]) -> T {
        ask(&self.url(), command)
    }

    /// Kills it as `kill -9` does.
    pub(crate) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Starts it again on what it left behind.
    pub(crate) fn restart(&mut self) {
        self.process = spawn(self.directory.path(), &self.settings);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Starts a server, and waits until it says that it is ready.
fn spawn(directory: &Path, settings: &[String]) -> Child {
    let program = env::var("RELENT_TEST_REDIS_SERVER");
    let program = program.unwrap_or_else(|_| "redis-server".to_owned());
    let mut command = Command::new(program);
    command.args(["--port", "0", "--save", "", "--appendonly", "yes", "--unixsocket"]);
    command.arg(directory.join("socket")).arg("--dir").arg(directory).args(settings);
    let mut process = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(process.stdout.take().unwrap()).lines().map_while(Result::ok);
    let is_ready = said.any(|line| line.contains("now ready to accept connections at"));
    assert!(is_ready, "redis-server did not start with {settings:?}");
    // What it says later has to go somewhere.
    thread::spawn(move || said.for_each(drop));
    process
}
