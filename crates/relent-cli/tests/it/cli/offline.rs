//! Commands that need no server.

use super::{assert_golden, file, run, run_with};

#[tokio::test]
async fn what_is_wrong_with_policies_is_told_with_rule_and_fix() {
    let policies = ["orders.toml", "bad.json", "waived.json"]
        .map(|name| format!("tests/it/cli/policies/{name}"));
    let mut arguments = vec!["policy", "check"];
    arguments.extend(policies.iter().map(String::as_str));
    let ran = run(&arguments).await.exit(1);
    assert_golden("policy-check.txt", &ran.stdout);
    assert_eq!(ran.stderr, "");

    arguments.push("--json");
    let checked = run(&arguments).await.exit(1).json();
    assert_eq!(checked[0]["ok"], true);
    assert_eq!(checked[1]["ok"], false);
    assert_eq!(checked[1]["problems"][1]["rule"], "R-1");
    assert_eq!(checked[2]["waived"][0]["rule"], "R-2");
    assert_eq!(checked[2]["idleWaivers"][0], "R-7");
}

#[tokio::test]
async fn a_file_that_cannot_be_read_does_not_keep_the_others_from_being_checked() {
    let good = "tests/it/cli/policies/orders.toml";
    let ran = run(&["policy", "check", "no-such.json", good]).await.exit(2);
    assert!(ran.stdout.contains("policy `orders` may be used"), "{ran:?}");
    assert!(ran.stderr.contains("cannot read no-such.json"), "{ran:?}");
    run(&["policy", "check"]).await.exit(2);
    let directory = tempfile::tempdir().unwrap();
    let odd = file(&directory, "odd.json", "{");
    run(&["policy", "check", &odd]).await.exit(2).says("is not JSON");
}

#[tokio::test]
async fn policies_come_from_stdin_too() {
    let ran = run_with(&["policy", "check", "-"], &[], r#"{"policyId": "piped"}"#).await;
    ran.exit(0).says("policy `piped` may be used");
    let ran =
        run_with(&["policy", "check", "-"], &[], "policyId = 'piped'\nmaxAttempts = 99").await;
    ran.exit(1).says("(R-2)");
}

#[tokio::test]
async fn a_preview_is_the_same_picture_for_the_same_seed() {
    let orders = "tests/it/cli/policies/orders.toml";
    assert_golden(
        "preview-orders.txt",
        &run(&["policy", "preview", orders, "--seed", "7"]).await.exit(0).stdout,
    );
    assert_golden(
        "preview-webhook.txt",
        &run(&["policy", "preview", "webhook"]).await.exit(0).stdout,
    );
    let json = run(&["policy", "preview", "webhook", "--json"]).await.exit(0).json();
    assert_eq!((&json["tasks"], &json["seed"]), (&10_000.into(), &1.into()));
    assert_eq!(json["attempts"].as_array().unwrap().len(), 5);
    assert!(json["attempts"][3]["waitMs"]["max"].as_f64().unwrap() <= 156_000.0);
}

#[tokio::test]
async fn a_refused_policy_has_no_preview() {
    let ran = run(&["policy", "preview", "tests/it/cli/policies/bad.json"]).await.exit(2);
    assert!(ran.stdout.is_empty() && ran.stderr.contains("(R-2)"), "{ran:?}");
    run(&["policy", "preview", "no-such.toml"]).await.exit(2).says("there is no file no-such.toml");
}

#[tokio::test]
async fn codes_rules_and_reasons_are_explained() {
    let mut pages = String::new();
    for code in ["key_conflict", "R-7", "attempts_exhausted", "retry_after"] {
        pages += &run(&["explain", code]).await.exit(0).stdout;
        pages += "\n";
    }
    assert_golden("explain.txt", &pages);
    assert_golden("explain-all.txt", &run(&["explain"]).await.exit(0).stdout);
    let json = run(&["explain", "r-7", "--json"]).await.exit(0).json();
    assert_eq!(json["kind"], "rule");
    run(&["explain", "key_conflic"]).await.exit(2).says("did you mean `key_conflict`?");
}

#[tokio::test]
async fn the_settings_are_printed_as_they_are_and_as_they_hold() {
    let defaults = run(&["config"]).await.exit(0).stdout;
    assert!(defaults.contains("[server]") && defaults.contains("listen = \"127.0.0.1:8717\""));
    let env = [("RELENT_SERVER__GRACE_MS", "5")];
    let ran = run_with(&["config", "--effective", "--set", "log.format=json"], &env, "").await;
    let ran = ran.exit(0).says("grace_ms = 5 # from RELENT_SERVER__GRACE_MS\n");
    let ran = ran.says("format = \"json\" # from --set log.format\n");
    assert_eq!(ran.stdout.lines().count(), defaults.lines().count());
}

#[tokio::test]
async fn every_problem_of_a_configuration_is_told_before_anything_starts() {
    let directory = tempfile::tempdir().unwrap();
    let config = file(&directory, "relent.toml", "[server]\nlissten = ''\n\n[log]\nlevel = 3\n");
    let env = [("RELENT_STORE__URL", "mysql://me:secret@host")];
    let arguments = ["serve", "--config", &config, "--listen", "here"];
    let ran = run_with(&arguments, &env, "").await.exit(2);
    assert_eq!(ran.stdout, "");
    assert!(!ran.stderr.contains("secret"), "{ran:?}");
    let told = ran.stderr.replace(directory.path().to_str().unwrap(), "");
    assert_golden("config-problems.txt", &told);
}

#[tokio::test]
async fn what_cannot_be_parsed_ends_with_2() {
    run(&["task", "lst"]).await.exit(2).says("tip: a similar subcommand exists: 'list'");
    run(&["task", "create", "http://a.b/", "--delay", "soon"]).await.exit(2).says("such as 5s");
    run(&["task", "list", "--url", "ftp://a.b"]).await.exit(2).says("expected http:// or https://");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_told_with_a_hint() {
    let ran = run(&["task", "list", "--url", "http://127.0.0.1:9"]).await.exit(2);
    let ran = ran.says("cannot reach http://127.0.0.1:9/");
    assert!(ran.stdout.is_empty() && ran.stderr.contains("hint: start a server"), "{ran:?}");
}
