//! Whether two requests are the same request: a digest of everything that matters. REQ-I5.
//!
//! Every part is written with its length before it, so that no two different tasks are written the
//! same way. Headers are sorted, as their order means nothing where their names differ. What does
//! not change the outcome (the key itself, the correlation id) is left out. Half of a SHA-256 is
//! plenty: a collision needs the same key as well.

use std::time::Duration;

use sha2::{Digest, Sha256};

use super::{First, NewTask};

/// Changes when the encoding does; digests of different versions never match.
const VERSION: &[u8] = b"relent task 1";

pub(super) fn of(task: &NewTask) -> [u8; 16] {
    let mut digest = Parts(Sha256::new());
    digest.part(VERSION);
    digest.part(task.method.name().as_bytes());
    digest.part(task.target.as_str().as_bytes());

    let mut lines: Vec<&(String, String)> = task.headers.iter().collect();
    // Stable: the values of one name stay in their order.
    lines.sort_by(|(left, _), (right, _)| left.cmp(right));
    digest.number(lines.len() as u64);
    for (name, value) in lines {
        digest.part(name.as_bytes());
        digest.part(value.as_bytes());
    }

    digest.part(&task.body);
    digest.part(task.policy_id.as_bytes());
    digest.part(task.dependency_name().as_bytes());
    match task.first {
        First::Now => digest.number(0),
        First::After(delay) => {
            digest.number(1);
            digest.number(millis(delay));
        }
        First::NotBefore(time) => {
            digest.number(2);
            digest.number(time.as_millis());
        }
    }
    let digest: [u8; 32] = digest.0.finalize().into();
    let mut half = [0; 16];
    half.copy_from_slice(&digest[..16]);
    half
}

struct Parts(Sha256);

impl Parts {
    fn part(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.update(bytes);
    }

    fn number(&mut self, number: u64) {
        self.0.update(number.to_le_bytes());
    }
}

fn millis(delay: Duration) -> u64 {
    u64::try_from(delay.as_millis()).unwrap_or(u64::MAX)
}
