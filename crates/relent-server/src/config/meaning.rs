//! From settings to what they mean: addresses, durations, ranges, certificates.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use relent_api::Limits;
use relent_store::{PostgresOptions, RedisOptions, Retention, SqliteOptions, WaitFor};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::problems::{ConfigProblem, ConfigProblems};
use super::settings::{Setting, Settings, Value};
use super::stores::EXPECTED;
use super::{Config, LogConfig, LogFormat, StoreConfig, StorePlace};
use crate::egress::{AddressRules, Cidr, EgressRules, Profile};
use crate::{Roles, ServerOptions};

/// The whole configuration, if nothing was wrong before or is now.
pub(super) fn config(
    settings: Settings,
    problems: Vec<ConfigProblem>,
) -> Result<Config, ConfigProblems> {
    let mut read = Read { settings: &settings, problems };
    let server = ServerOptions {
        listen: listen(&mut read),
        roles: roles(&mut read),
        service: read.name("server.service"),
        connections_max: read.size("server.connections_max", 1, 1 << 20),
        attempts_in_flight_max: read.count("scheduler.attempts_in_flight_max", 1, 1 << 20),
        grace: read.millis("server.grace_ms", 0, HOUR_MS),
        limits: limits(&mut read),
        egress: egress(&mut read),
        retention: retention(&mut read),
    };
    let store = store(&mut read);
    let log = LogConfig { level: level(&mut read), format: format(&mut read) };
    let problems = read.problems;
    if problems.is_empty() {
        Ok(Config { server, store, log, settings })
    } else {
        Err(ConfigProblems::new(problems))
    }
}

const HOUR_MS: i64 = 3_600_000;
const TEN_YEARS_HOURS: i64 = 87_600;

struct Read<'s> {
    settings: &'s Settings,
    problems: Vec<ConfigProblem>,
}

impl<'s> Read<'s> {
    fn text(&self, key: &str) -> &'s str {
        match &self.settings.get(key).value {
            Value::Text(text) => text,
            _ => "",
        }
    }

    fn wrong(&mut self, key: &str, expected: &str) {
        let Setting { value, origin } = self.settings.get(key);
        self.problems.push(ConfigProblem::wrong(origin, key, expected, &value.to_string()));
    }

    fn whole(&mut self, key: &str, min: i64, max: i64) -> i64 {
        match self.settings.get(key).value {
            Value::Whole(whole) if (min..=max).contains(&whole) => whole,
            _ => {
                self.wrong(key, &format!("{min} to {max}"));
                min
            }
        }
    }

    fn flag(&self, key: &str) -> bool {
        self.settings.get(key).value == Value::Flag(true)
    }

    fn size(&mut self, key: &str, min: i64, max: i64) -> usize {
        usize::try_from(self.whole(key, min, max)).unwrap_or(usize::MAX)
    }

    fn count(&mut self, key: &str, min: i64, max: i64) -> u32 {
        u32::try_from(self.whole(key, min, max)).unwrap_or(u32::MAX)
    }

    fn millis(&mut self, key: &str, min: i64, max: i64) -> Duration {
        Duration::from_millis(self.whole(key, min, max).unsigned_abs())
    }

    fn hours(&mut self, key: &str, min: i64) -> Duration {
        Duration::from_secs(self.whole(key, min, TEN_YEARS_HOURS).unsigned_abs() * 3_600)
    }

    /// What metrics carry as a label.
    fn name(&mut self, key: &str) -> String {
        let name = self.text(key);
        let is_good = !name.is_empty() && name.len() <= 64 && !name.contains(char::is_control);
        if !is_good {
            self.wrong(key, "a name of 1 to 64 characters");
        }
        name.to_owned()
    }

    /// Of these words the one that is there.
    fn one_of<T: Copy>(&mut self, key: &str, words: &[(&str, T)], stands_in: T) -> T {
        let text = self.text(key);
        if let Some((_, value)) = words.iter().find(|(word, _)| *word == text) {
            return *value;
        }
        let words: Vec<String> = words.iter().map(|(word, _)| format!("\"{word}\"")).collect();
        self.wrong(key, &words.join(" or "));
        stands_in
    }

    fn ranges(&mut self, key: &str) -> Vec<Cidr> {
        let Setting { value: Value::Texts(texts), origin } = self.settings.get(key) else {
            return Vec::new();
        };
        let mut ranges = Vec::with_capacity(texts.len());
        for text in texts {
            match text.parse() {
                Ok(range) => ranges.push(range),
                Err(_) => {
                    let expected = "a list of address ranges such as \"10.1.0.0/16\"";
                    let got = format!("{text:?}");
                    self.problems.push(ConfigProblem::wrong(origin, key, expected, &got));
                }
            }
        }
        ranges
    }
}

fn listen(read: &mut Read<'_>) -> SocketAddr {
    const KEY: &str = "server.listen";
    read.text(KEY).parse().unwrap_or_else(|_| {
        read.wrong(KEY, "an address and a port such as 127.0.0.1:8717");
        ServerOptions::default().listen
    })
}

fn limits(read: &mut Read<'_>) -> Limits {
    const MIB: i64 = 1 << 20;
    let limits = Limits {
        body_bytes_max: read.size("limits.body_bytes_max", 0, 256 * MIB),
        headers_max: read.size("limits.headers_max", 0, 1_000),
        header_name_bytes_max: read.size("limits.header_name_bytes_max", 1, 1_024),
        header_value_bytes_max: read.size("limits.header_value_bytes_max", 1, MIB),
        headers_bytes_max: read.size("limits.headers_bytes_max", 1, MIB),
        url_bytes_max: read.size("limits.url_bytes_max", 16, 65_534),
        dependency_chars_max: read.size("limits.dependency_chars_max", 1, 1_024),
        batch_tasks_max: read.size("limits.batch_tasks_max", 1, 100_000),
        request_bytes_max: read.size("limits.request_bytes_max", 1_024, 1_024 * MIB),
        schedule_ahead_max: read.hours("limits.schedule_ahead_hours_max", 0),
        page_items_default: read.count("limits.page_items_default", 1, 10_000),
        page_items_max: read.count("limits.page_items_max", 1, 10_000),
        // The reader of JSON has a limit of its own at 128.
        json_depth_max: read.size("limits.json_depth_max", 1, 100),
    };
    if limits.page_items_default > limits.page_items_max {
        let expected = format!("at most limits.page_items_max, {}", limits.page_items_max);
        read.wrong("limits.page_items_default", &expected);
    }
    if limits.body_bytes_max > limits.request_bytes_max {
        let expected = format!("at most limits.request_bytes_max, {}", limits.request_bytes_max);
        read.wrong("limits.body_bytes_max", &expected);
    }
    limits
}

fn egress(read: &mut Read<'_>) -> EgressRules {
    let profiles = [("internal", Profile::Internal), ("public", Profile::Public)];
    EgressRules {
        addresses: AddressRules {
            profile: read.one_of("egress.profile", &profiles, Profile::Public),
            allow: read.ranges("egress.allow"),
            deny: read.ranges("egress.deny"),
        },
        idle_per_target_max: read.size("egress.idle_per_target_max", 0, 65_536),
        idle_for: read.millis("egress.idle_ms", 0, HOUR_MS),
        connection_age_max: read.millis("egress.connection_age_max_ms", 0, 24 * HOUR_MS),
        targets_max: read.size("egress.targets_max", 1, 1_000_000),
        response_read_max: read.size("egress.response_read_bytes_max", 0, 16 << 20),
        response_head_max: read.size("egress.response_head_bytes_max", 1_024, 1 << 20),
        dns_timeout: read.millis("egress.dns_timeout_ms", 1, 60_000),
        extra_roots: extra_roots(read),
    }
}

fn extra_roots(read: &mut Read<'_>) -> Vec<CertificateDer<'static>> {
    const KEY: &str = "egress.extra_roots_file";
    let path = read.text(KEY);
    if path.is_empty() {
        return Vec::new();
    }
    let roots =
        CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match roots {
        Ok(roots) if !roots.is_empty() => return roots,
        Ok(_) => read.wrong(KEY, "a PEM file with certificates"),
        Err(error) => read.wrong(KEY, &format!("a PEM file that can be read ({error})")),
    }
    Vec::new()
}

fn retention(read: &mut Read<'_>) -> Retention {
    Retention {
        ended: read.hours("retention.ended_hours", 0),
        dead_letters: read.hours("retention.dead_letters_hours", 1),
        attempts: read.hours("retention.attempts_hours", 0),
    }
}

fn store(read: &mut Read<'_>) -> StoreConfig {
    let (migrate, lanes_max) = (read.flag("store.migrate"), read.count("lanes.max", 1, 10_000_000));
    let size_bytes_max = read.whole("store.size_bytes_max", 0, i64::MAX).unsigned_abs();
    StoreConfig {
        place: store_place(read),
        allow_unsafe: read.flag("store.allow_unsafe"),
        sqlite: SqliteOptions {
            migrate,
            lanes_max,
            cache_bytes: read.whole("store.cache_bytes", 1 << 20, 1 << 40).unsigned_abs(),
            size_bytes_max: (size_bytes_max > 0).then_some(size_bytes_max),
            free_bytes_min: read.whole("store.free_bytes_min", 0, i64::MAX).unsigned_abs(),
            ..SqliteOptions::default()
        },
        postgres: PostgresOptions {
            migrate,
            lanes_max,
            schema: schema(read),
            connections_max: read.size("store.postgres.connections_max", 1, 1_000),
            queue_max: read.size("store.postgres.queue_max", 1, 1 << 20),
            queue_bytes_max: read.size("store.postgres.queue_bytes_max", 1 << 20, 1 << 34),
            listen: read.flag("store.postgres.listen"),
            prepare: read.flag("store.postgres.prepare"),
            statement_timeout: read.millis("store.postgres.statement_timeout_ms", 100, HOUR_MS),
            root_certificates: match read.text("store.postgres.root_certificates_file") {
                "" => None,
                file => Some(PathBuf::from(file)),
            },
            ..PostgresOptions::default()
        },
        redis: redis(read, lanes_max),
    }
}

fn redis(read: &mut Read<'_>, lanes_max: u32) -> RedisOptions {
    let shards = read.size("store.redis.shards", 0, 256);
    let replicas = read.size("store.redis.wait_replicas", 0, 100);
    let logged = read.flag("store.redis.wait_for_logs");
    let timeout = read.millis("store.redis.wait_timeout_ms", 1, HOUR_MS);
    let waits = replicas > 0 || logged;
    RedisOptions {
        prefix: prefix(read),
        shards: u16::try_from(shards).ok().filter(|shards| *shards > 0),
        lanes_max,
        queue_max: read.size("store.redis.queue_max", 1, 1 << 20),
        queue_bytes_max: read.size("store.redis.queue_bytes_max", 1 << 20, 1 << 34),
        listen: read.flag("store.redis.listen"),
        command_timeout: read.millis("store.redis.command_timeout_ms", 100, HOUR_MS),
        wait_for: waits.then_some(WaitFor {
            replicas: u32::try_from(replicas).unwrap_or(u32::MAX),
            logged,
            timeout,
        }),
        accept_data_loss: read.flag("store.redis.accept_data_loss"),
        root_certificates: match read.text("store.redis.root_certificates_file") {
            "" => None,
            file => Some(PathBuf::from(file)),
        },
        ..RedisOptions::default()
    }
}

fn prefix(read: &mut Read<'_>) -> String {
    const KEY: &str = "store.redis.prefix";
    let text = read.text(KEY);
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-';
    if text.is_empty() || text.len() > 40 || !text.chars().all(allowed) {
        read.wrong(KEY, "1 to 40 characters of a-z, 0-9, _ and -");
    }
    text.to_owned()
}

fn store_place(read: &mut Read<'_>) -> StorePlace {
    const KEY: &str = "store.url";
    let (url, data) = (read.text(KEY), read.text("store.data"));
    if url == "sqlite:" && data.is_empty() {
        read.wrong("store.data", "a directory");
    }
    StorePlace::from_url(url, Path::new(data)).unwrap_or_else(|| {
        // What follows the scheme may hold a password.
        let got = match url.split_once(':') {
            Some((scheme, _)) => format!("\"{scheme}:…\""),
            None => format!("{url:?}"),
        };
        let origin = &read.settings.get(KEY).origin;
        read.problems.push(ConfigProblem::wrong(origin, KEY, EXPECTED, &got));
        StorePlace::Memory
    })
}

fn schema(read: &mut Read<'_>) -> String {
    const KEY: &str = "store.postgres.schema";
    let name = read.text(KEY);
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let starts_well = name.starts_with(|c: char| !c.is_ascii_digit());
    if !starts_well || name.len() > 40 || !name.chars().all(allowed) {
        read.wrong(KEY, "1 to 40 characters of a-z, 0-9 and _");
    }
    name.to_owned()
}

fn roles(read: &mut Read<'_>) -> Roles {
    const KEY: &str = "server.roles";
    let Value::Texts(texts) = &read.settings.get(KEY).value else { return Roles::default() };
    let has = |role: &str| texts.iter().any(|text| text == role);
    let roles = Roles { api: has("api"), worker: has("worker") };
    let is_known = |text: &String| text == "api" || text == "worker";
    if texts.is_empty() || !texts.iter().all(is_known) {
        read.wrong(KEY, "\"api\", \"worker\" or both");
    }
    roles
}

fn format(read: &mut Read<'_>) -> LogFormat {
    let formats = [("text", LogFormat::Text), ("json", LogFormat::Json)];
    read.one_of("log.format", &formats, LogFormat::Text)
}

const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// A level, or several with the parts they are for, separated by commas.
fn level(read: &mut Read<'_>) -> String {
    let text = read.text("log.level");
    let is_level = |level: &str| LEVELS.iter().any(|known| known.eq_ignore_ascii_case(level));
    let is_good = |directive: &str| match directive.split_once('=') {
        Some((target, level)) => !target.is_empty() && is_level(level),
        None => is_level(directive),
    };
    if !text.split(',').map(str::trim).all(is_good) {
        read.wrong("log.level", &LEVELS.join(", "));
    }
    text.to_owned()
}
