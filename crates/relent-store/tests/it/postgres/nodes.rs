//! What nodes on PostgreSQL do beside what all nodes do. REQ-S3, REQ-S4, REQ-S7.

use relent_store::{ConnectError, Error, Tasks as _};

use super::{Schema, is_there, run, value};
use crate::nodes::{Cluster, Place as _, survive_cuts};

#[tokio::test]
async fn a_task_that_cannot_be_stored_spoils_nothing_for_others() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::new(Schema::new(), 1, Schema::alone).await;
    let mut bad = cluster.task();
    bad.request.url = "https://a.example.com/\0".to_owned();
    let tasks = [cluster.task(), bad, cluster.task(), cluster.keyed("a")];
    let node = &cluster.nodes[0];
    let asked: Vec<_> =
        tasks.into_iter().map(|task| node.enqueue(&cluster.tenant, vec![task])).collect();
    let mut answers = Vec::new();
    for asked in asked {
        answers.push(asked.await);
    }
    assert!(matches!(answers[1], Err(Error::Damaged(_))), "{:?}", answers[1]);
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 3);
    assert_eq!(cluster.stored().await.len(), 3);
}

#[test]
fn tables_of_a_later_version_are_refused() {
    if !is_there() {
        return;
    }
    let schema = Schema::new();
    drop(schema.connect(Schema::alone(schema.options())));
    run(&format!("UPDATE {}.meta SET value = 999 WHERE name = 'version'", schema.name));
    let refused = schema.try_connect(Schema::alone(schema.options()));
    assert!(matches!(refused, Err(ConnectError::Newer { found: 999, .. })), "{refused:?}");
}

#[test]
fn days_of_the_log_are_made_ahead() {
    if !is_there() {
        return;
    }
    let schema = Schema::new();
    drop(schema.connect(Schema::alone(schema.options())));
    let count = format!(
        "SELECT count(*) FROM pg_inherits WHERE inhparent = '{}.attempts'::regclass",
        schema.name
    );
    assert_eq!(value(&count), 4, "today, two more, and what belongs to none");
}

#[tokio::test]
async fn connections_that_are_cut_heal_and_nothing_acknowledged_is_lost() {
    if is_there() {
        survive_cuts(Schema::new(), Schema::cut_connections).await;
    }
}
