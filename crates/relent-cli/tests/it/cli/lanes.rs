//! `relent lane` against a server.

use super::run_on;
use crate::rig::{Relent, Target, task};

#[tokio::test]
async fn a_lane_is_found_by_its_dependency_and_held() {
    let (relent, target) =
        (Relent::start_with(&["--store", "memory:"]).await, Target::start().await);
    let (client, dependency) = (relent.client(), format!("http://{}", target.address));
    let first = client.create(&task(&target.url("/1"), "k1", "sync-api")).await;
    client.until_status(&first, "SUCCEEDED").await;

    run_on(&relent, &["lane", "pause", &dependency]).await.exit(0).says("state paused");
    let second = client.create(&task(&target.url("/2"), "k2", "sync-api")).await;
    client.until(&second, "it waits", |task| task["waitingReason"] == "paused").await;
    let list = run_on(&relent, &["lane", "list"]).await.exit(0);
    let row = list.stdout.lines().nth(1).unwrap();
    assert!(row.contains(&dependency) && row.contains(" paused "), "{list:?}");

    let limits = ["lane", "limits", &dependency, "--rate-per-second", "50", "--in-flight-max", "7"];
    run_on(&relent, &limits).await.exit(0).says("in flight 0 of 7").says("rate per second 50");
    let lane_id = client.lane(&dependency).await["laneId"].as_str().unwrap().to_owned();
    let shown = run_on(&relent, &["lane", "show", &lane_id, "--json"]).await.exit(0).json();
    assert_eq!(shown["limits"]["ratePerSecond"], 50);

    run_on(&relent, &["lane", "resume", &lane_id]).await.exit(0).says("state running");
    client.until_status(&second, "SUCCEEDED").await;
    run_on(&relent, &["lane", "show", "nobody"]).await.exit(2).says("lane_not_found");
    run_on(&relent, &["lane", "limits", &lane_id, "--rate-per-second", "0"])
        .await
        .exit(2)
        .says("/ratePerSecond");
}
