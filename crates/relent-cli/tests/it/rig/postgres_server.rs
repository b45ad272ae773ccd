//! A PostgreSQL of a test's own, that it may stop, kill and start again.
//!
//! With every setting that matters for durability as PostgreSQL has it by default. PostgreSQL does
//! not work as root: then it runs as the user `postgres`, or `nobody`.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions, kill_process, kill_process_group, waitpid};
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio::time::timeout;
use tokio_postgres::{Client, NoTls};

use super::{Authority, SOON, soon, wait_until};

/// How long it may take to start, with the log to replay after a crash.
const STARTS_WITHIN: Duration = Duration::from_secs(60);
/// Then its port is only the socket's name.
const UNUSED_PORT: u16 = 5432;

#[derive(Debug)]
pub(crate) struct PostgresServer {
    child: Child,
    folder: TempDir,
    /// Where it listens beside its socket.
    port: Option<u16>,
}

impl PostgresServer {
    pub(crate) async fn start() -> PostgresServer {
        PostgresServer::start_at(None).await
    }

    /// Also on a port of this machine, with a certificate for `localhost`.
    pub(crate) async fn start_with_tls(port: u16, authority: &Authority) -> PostgresServer {
        let server = PostgresServer::start_at(Some(port)).await;
        let files = authority.issue(server.folder.path(), &["localhost"]);
        if let Some((uid, gid)) = other_user() {
            chown(&files.key, Some(uid), Some(gid)).unwrap();
        }
        let set = async |name: &str, file: &Path| {
            server.set(&format!("{name} = '{}'", file.display())).await;
        };
        set("ssl_cert_file", &files.certificate).await;
        set("ssl_key_file", &files.key).await;
        server.set_tls(true).await;
        server
    }

    /// Switches TLS on or off for new connections.
    pub(crate) async fn set_tls(&self, on: bool) {
        let word = if on { "on" } else { "off" };
        self.set(&format!("ssl = {word}")).await;
        self.connect().await.batch_execute("SELECT pg_reload_conf()").await.unwrap();
        wait_until(SOON, "TLS is switched", async || {
            let row = self.connect().await.query_one("SHOW ssl", &[]).await.unwrap();
            (row.get::<_, &str>(0) == word).then_some(())
        })
        .await;
    }

    async fn set(&self, setting: &str) {
        let sql = format!("ALTER SYSTEM SET {setting}");
        self.connect().await.batch_execute(&sql).await.unwrap();
    }

    async fn start_at(port: Option<u16>) -> PostgresServer {
        // Not under TMPDIR: the path of a socket is short, and another user has to get there.
        let folder = tempfile::Builder::new().prefix("relent-pg-").tempdir_in("/tmp").unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        if let Some((uid, gid)) = other_user() {
            chown(folder.path(), Some(uid), Some(gid)).unwrap();
        }
        let mut initdb = program("initdb", folder.path());
        initdb.args(["--username=relent", "--auth=trust", "--no-sync", "--locale=C"]);
        initdb.args(["--encoding=UTF8", "--pgdata"]).arg(folder.path().join("data"));
        let made =
            timeout(STARTS_WITHIN, initdb.output()).await.expect("initdb has ended").unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let server = PostgresServer { child: run(folder.path(), port), folder, port };
        server.until_ready().await;
        server
    }

    /// Where its socket is.
    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join(format!(".s.PGSQL.{}", self.port.unwrap_or(UNUSED_PORT)))
    }

    /// A connection that no fault is between.
    pub(crate) async fn connect(&self) -> Client {
        self.try_connect().await.unwrap()
    }

    async fn try_connect(&self) -> Result<Client, tokio_postgres::Error> {
        let (folder, port) = (self.folder.path().display(), self.port.unwrap_or(UNUSED_PORT));
        let place = format!("host={folder} port={port} user=relent dbname=postgres");
        let (client, connection) = tokio_postgres::connect(&place, NoTls).await?;
        tokio::spawn(connection);
        Ok(client)
    }

    async fn until_ready(&self) {
        wait_until(STARTS_WITHIN, "PostgreSQL takes connections", async || {
            let client = self.try_connect().await.ok()?;
            client.batch_execute("SELECT 1").await.ok()
        })
        .await;
    }

    fn pid(&self) -> Pid {
        let id = self.child.id().expect("it has not been waited for");
        Pid::from_raw(id.cast_signed()).unwrap()
    }

    /// Stops it as an administrator does: connections are ended, everything is written.
    pub(crate) async fn stop(&mut self) {
        kill_process(self.pid(), Signal::INT).unwrap();
        soon("PostgreSQL has stopped", self.child.wait()).await.unwrap();
    }

    /// Kills it, all its processes at once, without warning.
    pub(crate) async fn kill9(&mut self) {
        kill_process_group(self.pid(), Signal::KILL).unwrap();
        soon("the killed PostgreSQL is gone", self.child.wait()).await.unwrap();
    }

    /// Starts it again, after it has ended.
    pub(crate) async fn start_again(&mut self) {
        self.child = run(self.folder.path(), self.port);
        self.until_ready().await;
    }
}

fn run(folder: &Path, port: Option<u16>) -> Child {
    let log = fs::File::options().create(true).append(true).open(folder.join("log")).unwrap();
    let mut postgres = program("postgres", folder);
    postgres.arg("-D").arg(folder.join("data")).arg("-k").arg(folder);
    let addresses = port.map_or("", |_| "127.0.0.1");
    let port = port.unwrap_or(UNUSED_PORT);
    postgres.args(["-c", &format!("listen_addresses={addresses}"), "-c", &format!("port={port}")]);
    postgres.args(["-c", "max_connections=100"]);
    postgres.stdout(log.try_clone().unwrap()).stderr(log).process_group(0);
    postgres.spawn().unwrap()
}

/// One of PostgreSQL's programs, as a user that it takes.
fn program(name: &str, folder: &Path) -> Command {
    let mut command = Command::new(programs().join(name));
    if let Some((uid, gid)) = other_user() {
        command.uid(uid).gid(gid);
    }
    command.current_dir(folder).stdin(Stdio::null()).kill_on_drop(true);
    command
}

/// The newest version's programs, which Debian keeps out of the PATH.
fn programs() -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let versions = versions.map(|version| version.path().join("bin"));
    let newest = versions.filter(|bin| bin.join("initdb").exists()).max_by_key(|bin| {
        let version = bin.parent().and_then(Path::file_name).map(|name| name.to_string_lossy());
        version.and_then(|version| version.parse::<u32>().ok())
    });
    newest.unwrap_or_else(|| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let found = std::env::split_paths(&path).find(|bin| bin.join("initdb").exists());
        found.expect("RELENT_TEST_POSTGRES is set, and there is no initdb")
    })
}

/// Whom to run as, if not as oneself.
pub(super) fn other_user() -> Option<(u32, u32)> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let users = fs::read_to_string("/etc/passwd").unwrap();
    let ids = |name: &str| {
        let user = users.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut fields = user.split(':').skip(2).map(|id| id.parse().unwrap());
        fields.next().zip(fields.next())
    };
    Some(ids("postgres").or_else(|| ids("nobody")).unwrap())
}

impl Drop for PostgresServer {
    /// Asks first: who is killed leaves a piece of shared memory behind.
    fn drop(&mut self) {
        let Some(pid) = self.child.id().and_then(|id| Pid::from_raw(id.cast_signed())) else {
            return;
        };
        // It may have ended in this moment. If not, it kills what does not end within five seconds.
        let _ = kill_process(pid, Signal::QUIT);
        let _ = waitpid(Some(pid), WaitOptions::empty());
    }
}
