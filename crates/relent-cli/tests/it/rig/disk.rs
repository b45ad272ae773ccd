//! A disk of a test's own that can lose its power: a file system in a file, which is told to forget
//! whatever has not been flushed. Needs root.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

const BYTES: u64 = 512 << 20;
/// The ioctl of ext4 that stops everything at once, and leaves its journal unflushed too.
const CUT: &str = "import fcntl, os, struct, sys
fcntl.ioctl(os.open(sys.argv[1], os.O_RDONLY), 0x8004587D, struct.pack('I', 2))";

/// See the module's head.
#[derive(Debug)]
pub(crate) struct Disk {
    folder: TempDir,
}

impl Disk {
    /// One, if `RELENT_TEST_POWER` is `cut`.
    pub(crate) fn if_wanted() -> Option<Disk> {
        std::env::var_os("RELENT_TEST_POWER").map(|wanted| {
            assert_eq!(wanted, "cut", "RELENT_TEST_POWER");
            Disk::new()
        })
    }

    fn new() -> Disk {
        let disk = Disk { folder: tempfile::tempdir().unwrap() };
        File::create(disk.image()).unwrap().set_len(BYTES).unwrap();
        std::fs::create_dir(disk.path()).unwrap();
        run(Command::new("mkfs.ext4").arg("-q").arg(disk.image()));
        disk.mount();
        disk
    }

    fn image(&self) -> PathBuf {
        self.folder.path().join("image")
    }

    /// Where it is mounted.
    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("disk")
    }

    fn mount(&self) {
        run(Command::new("mount").args(["-o", "loop"]).arg(self.image()).arg(self.path()));
    }

    /// From now on nothing is written and nothing can be.
    pub(crate) fn cut(&self) {
        run(Command::new("python3").args(["-c", CUT]).arg(self.path()));
    }

    /// Comes back with what it had. Nobody may be using it.
    pub(crate) fn restore(&self) {
        unmount(&self.path(), &[]);
        self.mount();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Also if a service that failed its test is still there.
        unmount(&self.path(), &["--lazy"]);
    }
}

fn unmount(path: &Path, flags: &[&str]) {
    run(Command::new("umount").args(flags).arg(path));
}

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {output:?}");
}
