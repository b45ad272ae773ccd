//! Plans are made while tables are empty, and kept: none may read a table from end to end once they
//! are not. REQ-S4.

use std::time::Duration;

use relent_policy::Turn;
use relent_store::{Tasks as _, Upkeep as _};
use tokio_postgres::{Client, NoTls};

use super::{Schema, is_there, server};
use crate::nodes::Cluster;
use crate::world::success;

const ROUNDS: i64 = 20;
const ROUND_TASKS: i64 = 100;

/// How many rows of the two large tables were read by going through all of them, and how many went in.
async fn reads(client: &Client, schema: &str) -> (i64, i64) {
    let sql = "SELECT sum(seq_tup_read)::int8, sum(n_tup_ins)::int8 FROM pg_stat_user_tables
        WHERE schemaname = $1 AND relname IN ('tasks', 'payloads')";
    let row = client.query_one(sql, &[&schema]).await.unwrap();
    (row.get(0), row.get(1))
}

#[tokio::test]
async fn no_table_is_read_from_end_to_end_while_tasks_come_and_go() {
    if !is_there() {
        return;
    }
    let (cluster, clock) = Cluster::clocked(Schema::new(), 1).await;
    let (client, connection) = tokio_postgres::connect(&server(), NoTls).await.unwrap();
    tokio::spawn(connection);
    let schema = cluster.place.name.clone();
    let (node, tenant) = (&cluster.nodes[0], &cluster.tenant);
    for round in 0..ROUNDS {
        let task = |n| cluster.keyed(&format!("{round}-{n}"));
        node.enqueue(tenant, (0..ROUND_TASKS).map(task).collect()).await.unwrap();
        clock.advance(Duration::from_secs(5));
        let claims = node.claim(cluster.wants(Turn::First, 1_000)).await.unwrap();
        let records = claims.claimed.iter().map(|claimed| success(claimed, clock.now()));
        node.record(records.collect()).await.unwrap();
    }
    // A connection that ends says what it has counted.
    node.close(Duration::from_secs(10)).await.unwrap();
    let mut counted = (0, 0);
    for _ in 0..200 {
        counted = reads(&client, &schema).await;
        if counted.1 >= 2 * ROUNDS * ROUND_TASKS {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let (reads, rows) = counted;
    assert_eq!(rows, 2 * ROUNDS * ROUND_TASKS);
    // Who closes looks for leases of its own, and in a table as small as this by reading it all, once.
    let all = ROUNDS * ROUND_TASKS;
    assert!(reads <= all, "{reads} of {all} rows were read by going through a whole table");
}
