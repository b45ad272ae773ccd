//! Tasks that users store in transactions of their own, by SQL. REQ-S4, REQ-S7.

use relent_policy::{IdempotencyKey, Turn};
use relent_store::{
    Enqueued, Lanes, NewTask, Policies, PostgresStore, State, TaskFilter, TaskId, Tasks, TenantId,
    Want,
};
use tokio_postgres::{Client, NoTls};

use super::{Schema, is_there, server};
use crate::world::policy;

struct Outbox {
    store: PostgresStore,
    client: Client,
    tenant: TenantId,
    schema: Schema,
}

impl Outbox {
    async fn new() -> Outbox {
        let schema = Schema::new();
        let store = schema.connect(schema.options());
        let tenant = TenantId::default_tenant();
        let document = r#"{"totalBudgetMs": 60000}"#;
        store.put_policy(&tenant, policy("webhooks", document)).await.unwrap();
        let (client, connection) = tokio_postgres::connect(&server(), NoTls).await.unwrap();
        tokio::spawn(connection);
        Outbox { store, client, tenant, schema }
    }

    /// Calls the function with these arguments.
    async fn enqueue(&self, arguments: &str) -> Result<TaskId, tokio_postgres::Error> {
        let sql = format!("SELECT {}.enqueue({arguments})", self.schema.name);
        let row = self.client.query_one(&sql, &[]).await?;
        Ok(row.get::<_, &str>(0).parse().unwrap())
    }

    async fn run(&self, sql: &str) {
        self.client.batch_execute(sql).await.unwrap();
    }

    async fn stored(&self) -> usize {
        let list = self.store.list(&self.tenant, TaskFilter::default(), None, 100);
        list.await.unwrap().items.len()
    }
}

#[tokio::test]
async fn a_transaction_that_is_rolled_back_sends_nothing() {
    if !is_there() {
        return;
    }
    let outbox = Outbox::new().await;
    outbox.run("BEGIN").await;
    outbox.enqueue("'https://a.example.com/', 'webhooks'").await.unwrap();
    assert_eq!(outbox.stored().await, 0, "before the commit");
    outbox.run("ROLLBACK").await;
    assert_eq!(outbox.stored().await, 0);
    assert_eq!(outbox.store.lines().await, Ok(Vec::new()));
}

#[tokio::test]
async fn a_transaction_that_is_committed_is_claimed_as_any_other() {
    if !is_there() {
        return;
    }
    let outbox = Outbox::new().await;
    outbox.run("BEGIN").await;
    let arguments = r#"target_url => 'https://A.example.com:443/orders?q=1', policy_id => 'webhooks',
        body => '{"a": 1}', headers => '{"X-A": "1"}', idempotency_key => 'order-17'"#;
    let id = outbox.enqueue(arguments).await.unwrap();
    assert_eq!(outbox.enqueue(arguments).await.unwrap(), id, "the same key is the same task");
    outbox.run("COMMIT").await;
    let lanes = outbox.store.lanes().await.unwrap();
    assert_eq!(lanes[0].dependency, "https://a.example.com");
    let want = Want::due(lanes[0].id, Turn::First, 10);
    let claimed = outbox.store.claim(vec![want]).await.unwrap().claimed.remove(0);
    let key = IdempotencyKey::try_new("order-17").unwrap();
    assert_eq!((claimed.lease.task, claimed.key.as_ref()), (id, Some(&key)));
    let request = claimed.request;
    assert_eq!((&*request.method, &request.body[..]), ("POST", &b"{\"a\": 1}"[..]));
    let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let expected = [header("content-type", "application/json"), header("x-a", "1")];
    assert_eq!(request.headers, expected);
    let task = outbox.store.task(&outbox.tenant, id).await.unwrap().unwrap();
    assert_eq!(task.deadline_at, task.due_at + std::time::Duration::from_secs(60));
    assert_eq!(task.state, State::InFlight);
    assert_eq!(outbox.store.task_by_key(&outbox.tenant, &key).await, Ok(Some(id)));
    let status =
        format!("SELECT status FROM {}.task_status WHERE task_id = $1", outbox.schema.name);
    let row = outbox.client.query_one(&status, &[&id.to_string()]).await.unwrap();
    assert_eq!(row.get::<_, &str>(0), "IN_FLIGHT");
}

#[tokio::test]
async fn what_makes_no_sense_is_refused() {
    if !is_there() {
        return;
    }
    let outbox = Outbox::new().await;
    for arguments in [
        "'ftp://a.example.com/', 'webhooks'",
        "'https://user:secret@a.example.com/', 'webhooks'",
        "'https://a.example.com/', 'unknown'",
        "'https://a.example.com/', 'webhooks', idempotency_key => 'a b'",
        "'https://a.example.com/', 'webhooks', method => 'post'",
    ] {
        assert!(outbox.enqueue(arguments).await.is_err(), "{arguments}");
    }
    outbox.enqueue("'https://a.example.com/', 'webhooks', idempotency_key => 'a'").await.unwrap();
    let other = "'https://a.example.com/other', 'webhooks', idempotency_key => 'a'";
    assert!(outbox.enqueue(other).await.is_err(), "other content under the same key");
    assert_eq!(outbox.stored().await, 1);
}

#[tokio::test]
async fn a_key_stored_by_sql_is_taken_for_the_api_too() {
    if !is_there() {
        return;
    }
    let outbox = Outbox::new().await;
    let arguments = "'https://a.example.com/', 'webhooks', idempotency_key => 'a'";
    let id = outbox.enqueue(arguments).await.unwrap();
    let lane = &outbox.store.lanes().await.unwrap()[0];
    let stored = outbox.store.task(&outbox.tenant, id).await.unwrap().unwrap();
    let task = NewTask {
        lane: lane.id,
        policy: lane.policy,
        key: stored.key,
        fingerprint: [0; 16],
        first: relent_store::FirstAttempt::Now,
        lifetime: crate::world::HOUR,
        repeatable: relent_policy::Repeatable::ByKey,
        request: stored.request,
    };
    let answers = outbox.store.enqueue(&outbox.tenant, vec![task]).await;
    assert_eq!(answers, Ok(vec![Enqueued::Conflict(Some(id))]));
}
