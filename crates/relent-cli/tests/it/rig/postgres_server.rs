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

use super::{soon, wait_until};

/// How long it may take to start, with the log to replay after a crash.
const STARTS_WITHIN: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct PostgresServer {
    child: Child,
    folder: TempDir,
}

impl PostgresServer {
    pub(crate) async fn start() -> PostgresServer {
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
        let server = PostgresServer { child: run(folder.path()), folder };
        server.until_ready().await;
        server
    }

    /// Where its socket is.
    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join(".s.PGSQL.5432")
    }

    /// A connection that no fault is between.
    pub(crate) async fn connect(&self) -> Client {
        self.try_connect().await.unwrap()
    }

    async fn try_connect(&self) -> Result<Client, tokio_postgres::Error> {
        let place = format!("host={} user=relent dbname=postgres", self.folder.path().display());
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
        self.child = run(self.folder.path());
        self.until_ready().await;
    }
}

fn run(folder: &Path) -> Child {
    let log = fs::File::options().create(true).append(true).open(folder.join("log")).unwrap();
    let mut postgres = program("postgres", folder);
    postgres.arg("-D").arg(folder.join("data")).arg("-k").arg(folder);
    // Its port is only the socket's name.
    postgres.args(["-c", "listen_addresses=", "-c", "port=5432", "-c", "max_connections=100"]);
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
fn other_user() -> Option<(u32, u32)> {
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
