//! Settings from every source, and every problem at once.

use std::time::Duration;

use relent_store::{PostgresOptions, RedisOptions, SqliteOptions};

use super::*;
use crate::Roles;
use crate::egress::Profile;

fn load(file: &str, env: &[(&str, &str)], flags: &[&str]) -> Result<Config, String> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("relent.toml");
    fs::write(&path, file).unwrap();
    let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let flags: Vec<_> = flags.iter().map(|text| Override::from_set(text)).collect();
    Config::load(Some(&path), env, &flags).map_err(|problems| {
        let directory = format!("{}/", directory.path().display());
        problems.to_string().replace(&directory, "")
    })
}

#[test]
fn the_defaults_are_those_of_the_code() {
    let config = Config::load(None, std::iter::empty(), &[]).unwrap();
    assert_eq!(format!("{:?}", config.server), format!("{:?}", ServerOptions::default()));
    assert_eq!(config.store.place, StorePlace::Sqlite("./relent-data".into()));
    assert_eq!(format!("{:?}", config.store.sqlite), format!("{:?}", SqliteOptions::default()));
    let postgres = PostgresOptions::default();
    assert_eq!(format!("{:?}", config.store.postgres), format!("{postgres:?}"));
    assert_eq!(format!("{:?}", config.store.redis), format!("{:?}", RedisOptions::default()));
    assert_eq!(config.log, LogConfig { level: "info".into(), format: LogFormat::Text });
    assert_eq!(config.effective(), DEFAULT);
}

#[test]
fn every_key_has_one_line_that_says_what_it_is_for() {
    let lines: Vec<&str> = DEFAULT.lines().collect();
    for (index, line) in lines.iter().enumerate().filter(|(_, line)| line.contains(" = ")) {
        assert!(lines[index - 1].starts_with("# "), "{line}");
        assert!(!lines[index - 2].starts_with('#'), "{line}");
    }
}

#[test]
fn later_sources_go_over_earlier_ones() {
    let file = "[server]\nlisten = '127.0.0.1:1'\ngrace_ms = 1\nconnections_max = 1";
    let env = [("RELENT_SERVER__GRACE_MS", "2"), ("RELENT_SERVER__CONNECTIONS_MAX", "2")];
    let config = load(file, &env, &["server.connections_max=3"]).unwrap().server;
    assert_eq!(config.listen.port(), 1);
    assert_eq!(config.grace, Duration::from_millis(2));
    assert_eq!(config.connections_max, 3);
}

#[test]
fn texts_become_what_their_key_is() {
    let env = [
        ("RELENT_SERVER__SERVICE", "17"),
        ("RELENT_EGRESS__ALLOW", "10.1.0.0/16, 10.2.0.0/16"),
        ("RELENT_EGRESS__DENY", r#"["fd00::/8"]"#),
        ("RELENT_EGRESS__PROFILE", "public"),
        ("RELENT_RETENTION__DEAD_LETTERS_HOURS", "1_000"),
        ("RELENT_LOG", "warn,relent_server=debug"),
        ("RELENT_URL", "not a setting of the server"),
    ];
    let config = load("", &env, &["store.url=memory:"]).unwrap();
    let addresses = &config.server.egress.addresses;
    assert_eq!(config.server.service, "17");
    assert_eq!((addresses.allow.len(), addresses.deny.len()), (2, 1));
    assert_eq!(addresses.profile, Profile::Public);
    assert_eq!(config.server.retention.dead_letters, Duration::from_secs(3_600_000));
    assert_eq!(config.log.level, "warn,relent_server=debug");
    assert_eq!(config.store.place, StorePlace::Memory);
}

#[test]
fn what_holds_is_shown_with_where_it_comes_from() {
    let config = load("[egress]\ndeny = ['10.0.0.1/32']", &[], &["log.format=json"]).unwrap();
    let effective = config.effective();
    assert!(effective.contains("\ndeny = [\"10.0.0.1/32\"] # from "), "{effective}");
    assert!(effective.contains("/relent.toml line 2\n"), "{effective}");
    assert!(effective.contains("\nformat = \"json\" # from --set log.format\n"), "{effective}");
    let again = load(&effective, &[], &[]).unwrap();
    assert_eq!(format!("{:?}", again.server), format!("{:?}", config.server));
}

#[test]
fn a_store_on_postgresql_is_told_what_was_said_and_its_password_is_not() {
    let file = "[store]\nurl = 'postgres://me:secret@db/relent'\nmigrate = false\n\
                [store.postgres]\nschema = 'one'\nlisten = false";
    let env = [("RELENT_STORE__POSTGRES__CONNECTIONS_MAX", "9")];
    let config = load(file, &env, &["server.roles=worker"]).unwrap();
    let PostgresOptions { migrate, ref schema, listen, prepare, connections_max, .. } =
        config.store.postgres;
    assert_eq!((migrate, &**schema, listen, prepare), (false, "one", false, true));
    assert_eq!(connections_max, 9);
    assert_eq!(config.server.roles, Roles { api: false, worker: true });
    assert_eq!(config.store.to_string(), "postgres://me:***@db/relent, schema one");
    let effective = config.effective();
    assert!(effective.contains("\nurl = \"postgres://me:***@db/relent\" # from "), "{effective}");
    assert!(!effective.contains("secret") && !format!("{:?}", config.store).contains("secret"));
}

/// A file, an environment, flags; and what is wrong with them.
type Case =
    (&'static str, &'static [(&'static str, &'static str)], &'static [&'static str], &'static str);

#[test]
fn a_problem_says_where_which_what_and_what_else() {
    let cases: &[Case] = &[
        (
            "\n[server]\nlissten = '127.0.0.1:1'",
            &[],
            &[],
            "relent.toml line 3: there is no setting `server.lissten`; did you mean `server.listen`?",
        ),
        (
            "[server]\nurl = 'memory:'",
            &[],
            &[],
            "relent.toml line 2: there is no setting `server.url`; did you mean `store.url`?",
        ),
        (
            "[colours]",
            &[],
            &[],
            "relent.toml line 1: there is no setting `colours`; `relent config` prints every key there is",
        ),
        (
            "listen = '127.0.0.1:1'",
            &[],
            &[],
            "relent.toml line 1: there is no setting `listen`; did you mean `server.listen`?",
        ),
        (
            "server = 3",
            &[],
            &[],
            "relent.toml line 1: server must be a section, got a whole number",
        ),
        (
            "[server]\ngrace_ms = '30 s'",
            &[],
            &[],
            "relent.toml line 2: server.grace_ms must be a whole number, got a text",
        ),
        (
            "[server]\ngrace_ms = -1",
            &[],
            &[],
            "relent.toml line 2: server.grace_ms must be 0 to 3600000, got -1",
        ),
        (
            "[egress]\nallow = ['10.0.0.0/8', 'home', 'away']",
            &[],
            &[],
            "relent.toml line 2: egress.allow must be a list of address ranges such as \"10.1.0.0/16\", got \"home\"\n  \
             relent.toml line 2: egress.allow must be a list of address ranges such as \"10.1.0.0/16\", got \"away\"",
        ),
        (
            "",
            &[("RELENT_SERVER__LISTEN", "here")],
            &[],
            "RELENT_SERVER__LISTEN: server.listen must be an address and a port such as 127.0.0.1:8717, got \"here\"",
        ),
        (
            "",
            &[("RELENT_SERVER__GRACE_MS", "soon")],
            &[],
            "RELENT_SERVER__GRACE_MS: server.grace_ms must be a whole number, got \"soon\"",
        ),
        (
            "",
            &[("RELENT_SERVER_LISTEN", "127.0.0.1:1")],
            &[],
            "RELENT_SERVER_LISTEN: there is no setting `RELENT_SERVER_LISTEN`; did you mean `RELENT_SERVER__LISTEN`?",
        ),
        (
            "",
            &[("RELENT_LOG", "loud")],
            &[],
            "RELENT_LOG: log.level must be off, error, warn, info, debug, trace, got \"loud\"",
        ),
        (
            "",
            &[],
            &["store.url=mysql://me:secret@db/relent"],
            "--set store.url: store.url must be \"sqlite:\" (in the data directory), \"sqlite:DIRECTORY\", \"postgres://…\", \"redis://…\" (rediss, redis+cluster, rediss+cluster, redis+unix) or \"memory:\" (for trials), got \"mysql:…\"",
        ),
        (
            "[store]\npostgres = 3",
            &[],
            &[],
            "relent.toml line 2: store.postgres must be a section, got a whole number",
        ),
        (
            "[store.postgres]\nshema = 'x'",
            &[],
            &[],
            "relent.toml line 2: there is no setting `store.postgres.shema`; did you mean `store.postgres.schema`?",
        ),
        (
            "[store]\nmigrate = 1",
            &[],
            &[],
            "relent.toml line 2: store.migrate must be true or false, got a whole number",
        ),
        (
            "",
            &[("RELENT_STORE__POSTGRES__SCHEMA", "My Schema")],
            &[],
            "RELENT_STORE__POSTGRES__SCHEMA: store.postgres.schema must be 1 to 40 characters of a-z, 0-9 and _, got \"My Schema\"",
        ),
        (
            "",
            &[],
            &["server.roles=api,boss"],
            "--set server.roles: server.roles must be \"api\", \"worker\" or both, got [\"api\", \"boss\"]",
        ),
        (
            "",
            &[],
            &["egress.profile=open"],
            "--set egress.profile: egress.profile must be \"internal\" or \"public\", got \"open\"",
        ),
        (
            "",
            &[],
            &["limits.page_items_default=500"],
            "--set limits.page_items_default: limits.page_items_default must be at most limits.page_items_max, 200, got 500",
        ),
    ];
    for (file, env, flags, expected) in cases {
        let problems = load(file, env, flags).unwrap_err();
        let (_, told) = problems.split_once("\n  ").unwrap();
        assert_eq!(told, *expected);
    }
}

#[test]
fn all_problems_of_all_sources_are_told_at_once() {
    let file = "[server]\nlisten = 8717\nservice = ''\n[store\ndata = 'x'";
    let env = [("RELENT_LANES__MAX", "0")];
    let problems = load(file, &env, &["log.format=xml", "no.such"]).unwrap_err();
    let lines: Vec<&str> = problems.lines().collect();
    assert_eq!(lines[0], format!("the configuration has {} problems", lines.len() - 1));
    for place in [
        "  relent.toml line 2: server.listen",
        "  relent.toml line 3: server.service",
        "  relent.toml line 4: not TOML: ",
        "  RELENT_LANES__MAX: lanes.max must be 1 to 10000000, got 0",
        "  --set log.format: log.format must be \"text\" or \"json\", got \"xml\"",
        "  --set no.such: there is no setting `no.such`",
    ] {
        assert!(lines.iter().any(|line| line.starts_with(place)), "{place} is not in\n{problems}");
    }
}

#[test]
fn files_that_are_not_there_are_problems_too() {
    let missing = Path::new("no-such-directory/relent.toml");
    let problems = Config::load(Some(missing), std::iter::empty(), &[]).unwrap_err();
    assert!(problems.to_string().contains("no-such-directory/relent.toml: cannot be read"));
    let problems = load("", &[], &["egress.extra_roots_file=no-such.pem"]).unwrap_err();
    assert!(problems.contains("egress.extra_roots_file must be a PEM file"), "{problems}");
}

#[test]
fn extra_roots_are_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("roots.pem");
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = rcgen::CertificateParams::new(vec!["a.test".to_owned()]).unwrap();
    fs::write(&path, certificate.self_signed(&key).unwrap().pem()).unwrap();
    let setting = format!("egress.extra_roots_file={}", path.display());
    assert_eq!(load("", &[], &[&setting]).unwrap().server.egress.extra_roots.len(), 1);
}
