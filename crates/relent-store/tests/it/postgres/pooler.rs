//! What nodes behind a transaction-mode pooler do beside what all nodes do. It gives each statement or
//! transaction another connection. REQ-S4, REQ-S7.

use std::sync::Arc;
use std::time::Duration;

use relent_store::{PostgresOptions, PostgresStore, Severity, Store as _, Tasks as _};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::{Schema, is_pooled};
use crate::nodes::{Cluster, Told};

/// A second between two looks, and another for a machine that does something else.
const LOOKS_WITHIN: Duration = Duration::from_secs(2);

#[tokio::test]
async fn a_node_behind_a_pooler_looks_at_least_once_a_second() {
    if !is_pooled() {
        return;
    }
    let cluster = Cluster::new(Schema::pooled(), 2, |options| options).await;
    let (told, mut heard) = mpsc::unbounded_channel();
    cluster.nodes[1].listen(Arc::new(Told(told)));
    for _ in 0..3 {
        let asked = Instant::now();
        cluster.nodes[0].enqueue(&cluster.tenant, vec![cluster.task()]).await.unwrap();
        let due = tokio::time::timeout(5 * LOOKS_WITHIN, heard.recv()).await.unwrap().unwrap();
        assert_eq!(due.lane, cluster.lane);
        assert!(asked.elapsed() < LOOKS_WITHIN, "{:?}", asked.elapsed());
        let wants = cluster.wants(due.turn, 5);
        assert_eq!(cluster.nodes[1].claim(wants).await.unwrap().claimed.len(), 1);
        while heard.try_recv().is_ok() {}
    }
}

#[test]
fn a_pooler_that_takes_no_settings_is_found() {
    if !is_pooled() {
        return;
    }
    let schema = Schema::pooled();
    let examine = |prepare| {
        let options = PostgresOptions { prepare, ..schema.options() };
        PostgresStore::examine(&schema.door, &options).unwrap()
    };
    let refused = examine(true);
    let way_out = refused.dangers().next().and_then(|danger| danger.way_out.clone());
    let way_out = way_out.unwrap_or_else(|| panic!("{refused:?}"));
    assert!(way_out.contains("store.postgres.prepare"), "{way_out}");
    let taken = examine(false);
    let heard = taken.findings.iter().find(|finding| finding.name == "LISTEN").unwrap();
    assert_eq!((heard.severity, heard.found.as_str()), (Severity::Good, "not used"));
}
