//! A pooler of a test's own before the PostgreSQL that `./test` starts.
//!
//! It does not work as root either.

use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::Path;
use std::process::Stdio;
use std::{env, fs};

use tempfile::TempDir;
use tokio::process::{Child, Command};

use super::postgres::server_of;
use super::postgres_server::other_user;
use super::{Postgres, SOON, soon, wait_until};

/// Its port is only the socket's name.
const SOCKET: &str = ".s.PGSQL.6432";

#[derive(Debug)]
pub(crate) struct PgBouncer {
    child: Child,
    folder: TempDir,
    server: String,
}

impl PgBouncer {
    /// In transaction mode, with these settings; `None` where tests that need servers are not run.
    pub(crate) async fn start(settings: &[&str]) -> Option<PgBouncer> {
        let server = server_of("RELENT_TEST_POSTGRES")?;
        server_of("RELENT_TEST_PGBOUNCER")?;
        // Not under TMPDIR: the path of a socket is short, and another user has to get there.
        let folder = tempfile::Builder::new().prefix("relent-pool-").tempdir_in("/tmp").unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let own = [
            "pool_mode = transaction",
            "auth_type = any",
            "listen_addr =",
            "listen_port = 6432",
            &format!("unix_socket_dir = {}", folder.path().display()),
        ];
        let settings = [&own[..], settings].concat().join("\n");
        let text = format!("[databases]\npostgres = {server}\n[pgbouncer]\n{settings}\n");
        fs::write(folder.path().join("ini"), text).unwrap();
        if let Some((uid, gid)) = other_user() {
            chown(folder.path(), Some(uid), Some(gid)).unwrap();
        }
        let child = run(folder.path()).await;
        Some(PgBouncer { child, folder, server })
    }

    /// Kills it, and starts it again.
    pub(crate) async fn restart(&mut self) {
        self.child.start_kill().unwrap();
        soon("the killed PgBouncer is gone", self.child.wait()).await.unwrap();
        fs::remove_file(self.folder.path().join(SOCKET)).unwrap();
        self.child = run(self.folder.path()).await;
    }

    /// A schema whose nodes go through it.
    pub(crate) fn schema(&self) -> Postgres {
        let door = format!("host={} port=6432", self.folder.path().display());
        Postgres::behind(self.server.clone(), format!("{door} user=relent dbname=postgres"))
    }
}

async fn run(folder: &Path) -> Child {
    let path = env::var("PATH").unwrap_or_default();
    let mut pgbouncer = Command::new("pgbouncer");
    // Where Debian keeps it.
    pgbouncer.env("PATH", format!("{path}:/usr/sbin")).arg("ini").current_dir(folder);
    if let Some((uid, gid)) = other_user() {
        pgbouncer.uid(uid).gid(gid);
    }
    pgbouncer.stdin(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    let child = pgbouncer.spawn().unwrap();
    wait_until(SOON, "PgBouncer listens", async || folder.join(SOCKET).exists().then_some(()))
        .await;
    child
}
