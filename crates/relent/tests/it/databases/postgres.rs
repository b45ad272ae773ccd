//! PostgreSQL through tokio-postgres. Most of it needs a server, in `RELENT_TEST_POSTGRES` as a
//! connection string of a superuser; `./test` starts one.

use std::cell::RefCell;
use std::future::Future;
use std::net::TcpListener;
use std::time::Duration;

use relent::GiveUpReason;
use tokio::sync::Barrier;
use tokio::task::JoinHandle;
use tokio_postgres::{Client, Config, Error, IsolationLevel, NoTls, SimpleQueryMessage};

use super::{kind, retrier};

/// The server to test with. Without one the test is not run, unless servers are required.
fn server() -> Option<Config> {
    if let Ok(text) = std::env::var("RELENT_TEST_POSTGRES") {
        return Some(text.parse().unwrap());
    }
    let required = std::env::var("RELENT_TEST_SERVERS").is_ok_and(|value| value == "required");
    assert!(!required, "servers are required, and RELENT_TEST_POSTGRES is not set");
    eprintln!("not run: RELENT_TEST_POSTGRES is not set");
    None
}

async fn within<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(30), future).await.expect("it ends in time")
}

async fn connect(config: &Config) -> Result<(Client, JoinHandle<Result<(), Error>>), Error> {
    let (client, connection) = config.connect(NoTls).await?;
    Ok((client, tokio::spawn(connection)))
}

async fn client(config: &Config) -> Result<Client, Error> {
    Ok(connect(config).await?.0)
}

/// A table with the rows 1 and 2, both at level 0.
async fn table(config: &Config, name: &str) -> Client {
    let client = client(config).await.unwrap();
    let create = format!(
        "DROP TABLE IF EXISTS {name}; CREATE TABLE {name} (id int PRIMARY KEY, level int);
         INSERT INTO {name} VALUES (1, 0), (2, 0)"
    );
    client.batch_execute(&create).await.unwrap();
    client
}

async fn levels(client: &Client, name: &str) -> Vec<i32> {
    let rows = client.query(&format!("SELECT level FROM {name} ORDER BY id"), &[]).await.unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

/// Ends a backend, and waits until it is gone.
async fn terminate(admin: &Client, pid: i32) {
    let gone = admin.query_one("SELECT pg_terminate_backend($1, 10000)", &[&pid]).await.unwrap();
    assert!(gone.get::<_, bool>(0));
}

/// A client's backend. A simple query leaves nothing on its way to the server that would be met by
/// a reset if the backend ended now.
async fn pid(client: &Client) -> i32 {
    let messages = client.simple_query("SELECT pg_backend_pid()").await.unwrap();
    let row = messages.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    });
    row.unwrap().parse().unwrap()
}

#[tokio::test]
async fn the_victim_of_a_deadlock_is_tried_again_and_both_transactions_succeed() {
    let Some(config) = server() else { return };
    let admin = table(&config, "deadlock").await;
    let retrier = retrier();
    let both_hold_one = Barrier::new(2);
    let add_one = async |first: i32, second: i32| {
        let seen = RefCell::new(Vec::new());
        let result = retrier.repeatable().call(async |attempt| {
            seen.borrow_mut().extend(attempt.previous().map(|kind| kind.to_string()));
            let mut client = client(&config).await?;
            let transaction = client.transaction().await?;
            transaction.batch_execute("SET LOCAL deadlock_timeout = '20ms'").await?;
            let add = "UPDATE deadlock SET level = level + 1 WHERE id = $1";
            transaction.execute(add, &[&first]).await?;
            if attempt.number() == 1 {
                both_hold_one.wait().await;
            }
            transaction.execute(add, &[&second]).await?;
            transaction.commit().await
        });
        result.await.unwrap();
        seen.into_inner()
    };
    let (one, other) = within(async { tokio::join!(add_one(1, 2), add_one(2, 1)) }).await;
    assert_eq!([one, other].concat(), ["db_deadlock"], "exactly one was the victim");
    assert_eq!(levels(&admin, "deadlock").await, [2, 2]);
}

#[tokio::test]
async fn a_lost_serializable_race_is_run_again() {
    let Some(config) = server() else { return };
    let admin = table(&config, "race").await;
    let seen = RefCell::new(Vec::new());
    let retrier = retrier();
    let call = retrier.repeatable().call(async |attempt| {
        seen.borrow_mut().extend(attempt.previous().map(|kind| kind.to_string()));
        let mut client = client(&config).await?;
        let transaction = client.build_transaction().isolation_level(IsolationLevel::Serializable);
        let transaction = transaction.start().await?;
        let level: i32 =
            transaction.query_one("SELECT level FROM race WHERE id = 1", &[]).await?.get(0);
        if attempt.number() == 1 {
            admin.batch_execute("UPDATE race SET level = 10 WHERE id = 1").await?;
        }
        let add = "UPDATE race SET level = $1 WHERE id = 1";
        transaction.execute(add, &[&(level + 1)]).await?;
        transaction.commit().await
    });
    within(call).await.unwrap();
    assert_eq!(seen.into_inner(), ["db_serialization"]);
    assert_eq!(levels(&admin, "race").await, [11, 0], "no update was lost");
}

#[tokio::test]
async fn a_violated_constraint_and_a_wrong_statement_are_permanent() {
    let Some(config) = server() else { return };
    let client = table(&config, "violated").await;
    let retrier = retrier();
    for (sql, name) in [
        ("INSERT INTO violated VALUES (1, 5)", "db_constraint"),
        ("SELECT no_such_column FROM violated", "db_query"),
    ] {
        let call = retrier.repeatable().call(async |_| client.execute(sql, &[]).await);
        let failed = within(call).await.unwrap_err();
        assert_eq!(failed.because(), Some(GiveUpReason::Permanent));
        assert_eq!(failed.report().attempts, 1);
        assert_eq!(kind(failed.original().unwrap()), name);
    }
    let none = client.query_one("SELECT 1 WHERE false", &[]).await.unwrap_err();
    assert_eq!(kind(&none), "db_query");
    let row = client.query_one("SELECT 'text'", &[]).await.unwrap();
    assert_eq!(kind(&row.try_get::<_, i32>(0).unwrap_err()), "serialization");
}

#[tokio::test]
async fn a_server_that_is_full_is_tried_again_until_there_is_room() {
    let Some(config) = server() else { return };
    let admin = client(&config).await.unwrap();
    // A limit for one role, so that tests beside this one are not shut out.
    let create =
        "DROP ROLE IF EXISTS relent_crowd; CREATE ROLE relent_crowd LOGIN CONNECTION LIMIT 1";
    admin.batch_execute(create).await.unwrap();
    let mut crowd = config.clone();
    crowd.user("relent_crowd");
    let guest = client(&crowd).await.unwrap();
    let guest = pid(&guest).await;
    let seen = RefCell::new(Vec::new());
    let retrier = retrier();
    let call = retrier.repeatable().call(async |attempt| {
        seen.borrow_mut().extend(attempt.previous().map(|kind| kind.to_string()));
        if attempt.number() == 2 {
            terminate(&admin, guest).await;
        }
        client(&crowd).await.map(drop)
    });
    within(call).await.unwrap();
    assert_eq!(seen.into_inner(), ["db_too_many_connections"]);
}

#[tokio::test]
async fn a_lost_connection_is_replaced_by_a_new_one() {
    let Some(config) = server() else { return };
    let admin = client(&config).await.unwrap();
    let (lost, connection) = connect(&config).await.unwrap();
    terminate(&admin, pid(&lost).await).await;
    let ended = within(connection).await.unwrap().unwrap_err();
    assert_eq!(kind(&ended), "db_unavailable", "57P01, the administrator's command");

    let seen = RefCell::new(Vec::new());
    let client = RefCell::new(Some(lost));
    let retrier = retrier();
    let call = retrier.repeatable().call(async |attempt| {
        seen.borrow_mut().extend(attempt.previous().map(|kind| kind.to_string()));
        let lost = client.borrow_mut().take();
        let client = match lost {
            Some(client) => client,
            None => self::client(&config).await?,
        };
        client.query_one("SELECT 1", &[]).await.map(|row| row.get::<_, i32>(0))
    });
    assert_eq!(within(call).await.unwrap(), 1);
    assert_eq!(seen.into_inner(), ["db_connection_lost"]);
}

#[tokio::test]
async fn a_query_whose_connection_is_ended_under_it_is_run_again() {
    let Some(config) = server() else { return };
    let retrier = retrier();
    let call = retrier.repeatable().call(async |attempt| {
        let client = client(&config).await?;
        if attempt.number() == 1 {
            client.execute("SELECT pg_terminate_backend(pg_backend_pid())", &[]).await?;
        }
        client.execute("SELECT 1", &[]).await.map(|_| attempt.number())
    });
    assert_eq!(within(call).await.unwrap(), 2);
}

#[tokio::test]
async fn without_a_server_it_is_told_why() {
    // Bound and dropped: a port on which nobody listens.
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let cases = [
        (format!("host=127.0.0.1 port={closed} user=relent"), "connect_refused"),
        ("host=/no/such/folder user=relent".to_owned(), "db_unavailable"),
        // Two dots in a row are no name: the resolver does not even ask.
        ("host=a..b user=relent".to_owned(), "dns"),
    ];
    for (config, name) in cases {
        let config: Config = config.parse().unwrap();
        assert_eq!(kind(&within(client(&config)).await.unwrap_err()), name, "{config:?}");
    }
}

#[tokio::test]
async fn a_server_that_hangs_up_is_tried_again() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let config: Config = format!("host=127.0.0.1 port={port} user=relent").parse().unwrap();
    let hangs_up = tokio::spawn(async move {
        let mut accepted = 0;
        while accepted < 4 {
            drop(listener.accept().await.unwrap());
            accepted += 1;
        }
        accepted
    });
    let retrier = retrier();
    let call = retrier.repeatable().call(async |_| client(&config).await.map(drop));
    let failed = within(call).await.unwrap_err();
    assert_eq!(failed.because(), Some(GiveUpReason::AttemptsExhausted), "{failed:?}");
    assert_eq!(within(hangs_up).await.unwrap(), 4);
}
