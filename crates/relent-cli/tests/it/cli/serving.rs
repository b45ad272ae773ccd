//! `relent serve`: what it says, and how it ends.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt as _;

use serde_json::json;

use super::{run, run_on};
use crate::rig::{Gate, Relent, SOON, Target, ok, quick_policy, task, wait_until, with};

#[tokio::test]
async fn it_says_where_its_data_lives() {
    let relent = Relent::start().await;
    let expected = format!("data in {}\n", relent.data().display());
    wait_until(SOON, "it says where its data lives", async || {
        relent.log().contains(&expected).then_some(())
    })
    .await;
    let memory = Relent::start_with(&["--store", "memory:"]).await;
    wait_until(SOON, "it says that nothing is kept", async || {
        memory.log().contains("data in memory only").then_some(())
    })
    .await;
}

#[tokio::test]
async fn it_cannot_listen_where_somebody_else_does() {
    let relent = Relent::start_with(&["--store", "memory:"]).await;
    let address = relent.address.to_string();
    let ran = run(&["serve", "--store", "memory:", "--listen", &address]).await.exit(2);
    assert_eq!(ran.stdout, "");
    ran.says(&format!("cannot listen on {address}")).says("because: Address already in use");
}

#[tokio::test]
async fn a_second_signal_ends_it_at_once() {
    let (mut relent, target) =
        (Relent::start_with(&["--store", "memory:"]).await, Target::start().await);
    let gate = Gate::closed();
    target.on("/slow", [ok().held_by(&gate)]);
    relent.client().create(&task(&target.url("/slow"), "k", "sync-api")).await;
    target.until_seen("/slow", 1).await;
    relent.sigterm();
    wait_until(SOON, "it says that it stops", async || {
        relent.log().contains("SIGTERM: finishing what is under way").then_some(())
    })
    .await;
    relent.sigterm();
    assert_eq!(relent.ended().await.code(), Some(130));
}

#[tokio::test]
async fn settings_reach_the_server() {
    let relent =
        Relent::start_with(&["--store", "memory:", "--set", "limits.body_bytes_max=4"]).await;
    let ran = run_on(&relent, &["task", "create", "http://127.0.0.1:9/", "--body", "12345"]).await;
    ran.exit(2).says("payload_too_large");
}

#[tokio::test]
async fn looking_at_a_store_changes_none_of_its_data() {
    let mut relent = Relent::start().await;
    let target = Target::start().await;
    let id = relent.client().create(&task(&target.url("/"), "k", "sync-api")).await;
    relent.client().until_status(&id, "SUCCEEDED").await;
    let data = relent.data().to_path_buf();
    let look = async || run(&["store", "check", "--data", data.to_str().unwrap()]).await.exit(0);
    // Beside the service, and when it has ended.
    look().await;
    relent.sigterm();
    assert_eq!(relent.ended().await.code(), Some(0));
    let file = || {
        let path = data.join("relent.db");
        (std::fs::metadata(&path).unwrap().modified().unwrap(), std::fs::read(path).unwrap())
    };
    let before = file();
    look().await;
    assert!(file() == before, "a look has written to {}", data.display());
    // SQLite's reader makes a log where there is none; nothing may be in it.
    let log = std::fs::metadata(data.join("relent.db-wal"));
    assert_eq!(log.map_or(0, |log| log.len()), 0);
    let relent = relent.start_again().await;
    assert_eq!(relent.client().task(&id).await["status"], "SUCCEEDED");
}

#[tokio::test]
async fn what_a_store_guarantees_is_said_before_it_is_used() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let data = data.to_str().unwrap();
    let ran =
        run(&["store", "check", "--data", data]).await.exit(0).says("file not there yet good:");
    ran.says("crash of relent yes").says("failover no: there is one copy");
    assert!(!std::path::Path::new(data).exists());
    let report = run(&["store", "check", "--data", data, "--json"]).await.exit(0).json();
    assert_eq!(report["place"], data);
    assert_eq!(report["survives"]["ourCrash"]["answer"], "yes");
    run(&["store", "check", "--store", "memory:"])
        .await
        .exit(0)
        .says("crash of relent no: nothing is kept");
}

#[tokio::test]
async fn a_damaged_file_is_found_when_all_of_it_is_read() {
    let mut relent = Relent::start().await;
    let target = Target::start().await;
    relent.client().register(&quick_policy("quick", 2)).await;
    for number in 0..50 {
        let document = task(&target.url("/any"), &format!("key-{number}"), "quick");
        relent.client().create(&with(document, json!({"body": "x".repeat(4_000)}))).await;
    }
    let data = relent.data().to_str().unwrap().to_owned();
    let check = ["store", "check", "--thorough", "--data", &data];
    run(&check).await.exit(0).says("quick_check ok good:");
    relent.sigterm();
    relent.ended().await;
    run(&check).await.exit(0).says("quick_check ok good:");
    // A page in the middle, as a failing disk would leave it.
    let file = OpenOptions::new().write(true).open(relent.data().join("relent.db")).unwrap();
    let middle = file.metadata().unwrap().len() / 2 / 8_192 * 8_192;
    file.write_all_at(&[0xa5; 8_192], middle).unwrap();
    run(&check).await.exit(1).says("the file is damaged");
    let report = run(&[&check[..], &["--json"]].concat()).await.exit(1).json();
    assert_eq!(report["severity"], "danger");
    run(&["store", "check", "--thorough", "--store", "memory:"])
        .await
        .exit(0)
        .says("this one has none");
}
