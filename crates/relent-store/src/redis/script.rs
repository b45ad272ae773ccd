//! The scripts: one call for each operation and shard, atomic, on the server's own clock.
//!
//! Each begins with what all of them need (`lua/common.lua`). Redis keeps scripts by their digest; a
//! server that does not know one any more (it was started again, or told to forget them) is sent it
//! once more. Those that only finish what was begun may also run when Redis has reached its
//! `maxmemory`: results are written and claims are granted when no new task is taken. REQ-S3, REQ-S4.

use std::sync::OnceLock;

/// A script.
#[derive(Debug)]
pub(super) struct Script {
    flags: &'static str,
    text: &'static str,
    digest: OnceLock<String>,
}

const COMMON: &str = include_str!("lua/common.lua");
const ALLOW_OOM: &str = " flags=allow-oom";
const READ_ONLY: &str = " flags=no-writes,allow-oom";

pub(super) static ENQUEUE: Script = Script::new("", include_str!("lua/enqueue.lua"));
pub(super) static CLAIM: Script = Script::new(ALLOW_OOM, include_str!("lua/claim.lua"));
pub(super) static RECORD: Script = Script::new(ALLOW_OOM, include_str!("lua/record.lua"));
pub(super) static SWEEP: Script = Script::new(ALLOW_OOM, include_str!("lua/sweep.lua"));
pub(super) static RELEASE: Script = Script::new(ALLOW_OOM, include_str!("lua/release.lua"));
pub(super) static CHANGE: Script = Script::new(ALLOW_OOM, include_str!("lua/change.lua"));
pub(super) static PRUNE: Script = Script::new(ALLOW_OOM, include_str!("lua/prune.lua"));
pub(super) static IMPORT: Script = Script::new("", include_str!("lua/import.lua"));
pub(super) static WALK: Script = Script::new(READ_ONLY, include_str!("lua/walk.lua"));
pub(super) static LOOK: Script = Script::new(READ_ONLY, include_str!("lua/look.lua"));
pub(super) static REGISTRY: Script = Script::new(ALLOW_OOM, include_str!("lua/registry.lua"));

impl Script {
    const fn new(flags: &'static str, text: &'static str) -> Script {
        Script { flags, text, digest: OnceLock::new() }
    }

    /// As Redis is sent it.
    pub(super) fn source(&self) -> String {
        format!("#!lua{}\n{COMMON}\n{}", self.flags, self.text)
    }

    /// What Redis knows it by, once it was sent.
    pub(super) fn digest(&self) -> Option<&str> {
        self.digest.get().map(String::as_str)
    }

    /// The digest is the same on every server.
    pub(super) fn learn(&self, digest: String) {
        let _ = self.digest.set(digest);
    }
}
