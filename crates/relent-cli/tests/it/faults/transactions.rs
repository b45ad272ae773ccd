//! Tasks that come with a user's own transaction, while nodes work.

use crate::load::POLICY;
use crate::rig::{Kind, StoreServer};

use super::{World, rounds};

const ENQUEUE: &str = "SELECT relent.enqueue(target_url => $1, policy_id => $2, \
     body => '{\"by\": \"sql\"}', idempotency_key => $3, dependency => '/ok')";

/// Half of them are committed and half rolled back; a node is killed meanwhile.
pub(super) async fn committed_or_not(kind: Kind) {
    let Some(mut world) = World::start(kind).await else { return };
    let StoreServer::Postgres(server) = &world.cluster.store else { panic!("not {kind:?}") };
    let mut sql = server.connect().await;
    sql.batch_execute("CREATE TABLE orders (name text PRIMARY KEY)").await.unwrap();
    let url = world.load.target.url("/ok");
    let (count, mut dropped) = (100 * rounds(1), Vec::new());
    for n in 0..count {
        if n == count / 2 {
            world.cluster.nodes[2].relent.kill9().await;
        }
        let key = format!("sql-{n}");
        let transaction = sql.transaction().await.unwrap();
        transaction.execute("INSERT INTO orders VALUES ($1)", &[&key]).await.unwrap();
        let row = transaction.query_one(ENQUEUE, &[&url, &POLICY, &key]).await.unwrap();
        if n % 2 == 0 {
            transaction.commit().await.unwrap();
            world.load.note_acked(&key, row.get(0));
        } else {
            transaction.rollback().await.unwrap();
            dropped.push(key);
        }
    }
    world.cluster.restart(2).await;
    let figures = world.end("tasks of users' transactions").await;
    let orders = sql.query_one("SELECT count(*) FROM orders", &[]).await.unwrap();
    assert_eq!(usize::try_from(orders.get::<_, i64>(0)).unwrap(), count / 2);
    let seen = world.load.target.seen();
    let sent = seen.iter().filter(|seen| seen.key.starts_with("sql-")).count();
    assert!(sent >= count / 2, "{sent} of {figures}");
    let sent = seen.iter().find(|seen| dropped.contains(&seen.key));
    assert!(sent.is_none(), "rolled back and sent: {sent:?}");
}
