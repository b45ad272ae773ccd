//! `relent task create`: one request, or a file of them. REQ-S1, REQ-I1, REQ-I2.

use std::fs;
use std::io::{self, BufRead, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Method, StatusCode};
use relent_api::{BatchDocument, CreatedDocument, Place, Problem};
use relent_policy::Timestamp;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::watch;
use crate::Ended;
use crate::client::{Answer, Body, Client, Remote};
use crate::output::{self, Format};
use crate::patience::{Patience, Work};
use crate::{progress, times};

/// Have a request delivered
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where it goes
    #[arg(value_name = "URL", required_unless_present = "from")]
    target: Option<String>,
    /// With which method
    #[arg(long, short = 'X', default_value = "POST")]
    method: String,
    /// With this text as body
    #[arg(long, group = "content")]
    body: Option<String>,
    /// With this JSON as body, sent as application/json
    #[arg(long, value_name = "JSON", group = "content")]
    json_body: Option<String>,
    /// With this file as body; `-` is stdin
    #[arg(long, value_name = "FILE", group = "content")]
    body_file: Option<PathBuf>,
    /// With this header, as in 'a: b'
    #[arg(long, short = 'H', value_name = "HEADER")]
    header: Vec<String>,
    /// By what the target recognises a repeated attempt [default for POST and PATCH: a new UUID]
    #[arg(long)]
    key: Option<String>,
    /// How it is retried [default: webhook]
    #[arg(long, value_name = "ID")]
    policy: Option<String>,
    /// What it calls [default: the target's scheme, host and port]
    #[arg(long, value_name = "NAME")]
    dependency: Option<String>,
    /// What ties it to other work in logs
    #[arg(long, value_name = "ID")]
    correlation: Option<String>,
    /// The first attempt this much later, such as 5s
    #[arg(long, value_name = "DURATION", value_parser = times::parse_duration)]
    delay: Option<Duration>,
    /// The first attempt not before this time
    #[arg(long, value_name = "TIME", value_parser = times::parse_time, conflicts_with = "delay")]
    not_before: Option<Timestamp>,
    /// Follow it until it ends; exit 1 if it gave up
    #[arg(long)]
    wait: bool,
    /// Create a task for each line of a file, a JSON document each; `-` is stdin
    #[arg(long, value_name = "FILE.ndjson", conflicts_with_all = ["target", "content", "header", "key", "policy", "dependency", "correlation", "delay", "not_before", "wait"])]
    from: Option<PathBuf>,
    #[command(flatten)]
    format: Format,
    #[command(flatten)]
    remote: Remote,
}

pub(crate) async fn run(args: &Args) -> anyhow::Result<Ended> {
    let client = args.remote.client()?;
    match &args.from {
        Some(path) => create_all(&client, path, args.format).await,
        None => create_one(&client, args).await,
    }
}

async fn create_one(client: &Client, args: &Args) -> anyhow::Result<Ended> {
    let (document, new_key) = document(args)?;
    let answer =
        client.send(Method::POST, &["retry-tasks"], &[], Body::Json(document.into())).await;
    // The key makes it safe to send the same again, so it must not get lost with the answer.
    let answer = answer.inspect_err(|_| tell_key(new_key.as_deref()))?;
    let created: CreatedDocument = answer.read()?;
    if args.format.json {
        output::document(&answer.text)?;
    } else {
        output::line(&created.task_id)?;
        tell_key(new_key.as_deref());
        if answer.status == StatusCode::OK {
            output::note("it was there already: the same key with the same content");
        }
    }
    if args.wait {
        return watch::run(client, &created.task_id, args.format).await;
    }
    Ok(Ended::Fine)
}

fn tell_key(new_key: Option<&str>) {
    if let Some(key) = new_key {
        output::note(format_args!("idempotency key {key}"));
    }
}

/// The task's document, and its key if that is a new one.
fn document(args: &Args) -> anyhow::Result<(String, Option<String>)> {
    let method = args.method.to_ascii_uppercase();
    let needs_key = matches!(method.as_str(), "POST" | "PATCH");
    let new_key = (needs_key && args.key.is_none()).then(|| uuid::Uuid::new_v4().to_string());
    let mut task = Map::new();
    let mut set = |name: &str, value: Option<Value>| {
        task.extend(value.map(|value| (name.to_owned(), value)));
    };
    set("targetUrl", args.target.clone().map(Value::from));
    set("method", Some(method.into()));
    set("idempotencyKey", args.key.clone().or(new_key.clone()).map(Value::from));
    set("policyId", args.policy.clone().map(Value::from));
    set("dependency", args.dependency.clone().map(Value::from));
    set("correlationId", args.correlation.clone().map(Value::from));
    set(
        "delayMs",
        args.delay.map(|delay| u64::try_from(delay.as_millis()).unwrap_or(u64::MAX).into()),
    );
    set("notBefore", args.not_before.map(|at| at.as_millis_ceil().into()));
    let mut headers = headers(&args.header)?;
    if let Some(text) = &args.body {
        set("body", Some(text.as_str().into()));
    }
    if let Some(path) = &args.body_file {
        if path.extension().is_some_and(|extension| extension == "json") {
            headers.entry("content-type").or_insert_with(|| json!("application/json"));
        }
        match String::from_utf8(read(path)?) {
            Ok(text) => set("body", Some(text.into())),
            Err(binary) => set("bodyBase64", Some(STANDARD.encode(binary.as_bytes()).into())),
        }
    }
    set("headers", (!headers.is_empty()).then(|| headers.into()));
    let mut document = Value::Object(task).to_string();
    if let Some(text) = &args.json_body {
        // As it was written: a reader and a writer in between could change numbers.
        let body: &RawValue = serde_json::from_str(text).context("--json-body is not JSON")?;
        document.truncate(document.len() - 1);
        document.push_str(",\"body\":");
        document.push_str(body.get());
        document.push('}');
    }
    Ok((document, new_key))
}

/// `a: b`, names in lower case; a name that comes twice has two values.
fn headers(lines: &[String]) -> anyhow::Result<Map<String, Value>> {
    let mut headers = Map::new();
    for line in lines {
        // Not the value: it may be a secret.
        let parts = line.split_once(':').filter(|(name, _)| !name.trim().is_empty());
        let (name, value) = parts.context("--header must be 'name: value'")?;
        let (name, value) = (name.trim().to_ascii_lowercase(), json!(value.trim()));
        match headers.get_mut(&name) {
            None => drop(headers.insert(name, value)),
            Some(Value::Array(values)) => values.push(value),
            Some(first) => *first = json!([first.take(), value]),
        }
    }
    Ok(headers)
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    if path.as_os_str() != "-" {
        return fs::read(path).with_context(|| format!("cannot read {}", path.display()));
    }
    let mut bytes = Vec::new();
    io::stdin().read_to_end(&mut bytes).context("cannot read stdin")?;
    Ok(bytes)
}

/// Well below what a server takes by default.
const BATCH_LINES: usize = 500;
const BATCH_BYTES: usize = 4 << 20;

/// Sends a file in batches. Each is stored whole or not at all; what came before a refused one stays.
async fn create_all(client: &Client, path: &Path, format: Format) -> anyhow::Result<Ended> {
    let (mut lines, total): (Box<dyn BufRead>, _) = match path.as_os_str() == "-" {
        true => (Box::new(BufReader::new(io::stdin())), None),
        false => {
            let text = read(path)?;
            let lines =
                text.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
            let count = lines.count() as u64;
            (Box::new(io::Cursor::new(text)), Some(count))
        }
    };
    let bar = progress::bar(total, "creating");
    let (mut created, mut known, mut lines_read) = (0_u64, 0_u64, 0);
    loop {
        let batch = Batch::read(&mut lines, &mut lines_read)?;
        if batch.lines.is_empty() {
            break;
        }
        let answer = send_batch(client, batch.text.into()).await;
        let answer = answer.map_err(|error| {
            bar.abandon();
            let (first, last) = (batch.lines[0], batch.lines[batch.lines.len() - 1]);
            output::note(format_args!(
                "lines {first} to {last} and all after them were not stored"
            ));
            output::note(format_args!("before them: {created} created, {known} there already"));
            by_line(error, &batch.lines)
        })?;
        let stored: BatchDocument = answer.read()?;
        let count = stored.items.len() as u64;
        created += stored.created;
        known += count.saturating_sub(stored.created);
        bar.inc(count);
        if format.json {
            output::document(&answer.text)?;
        }
    }
    bar.finish_and_clear();
    ensure!(created + known > 0, "{} has no task", path.display());
    if !format.json {
        output::line(format_args!("{created} created, {known} there already"))?;
    }
    Ok(Ended::Fine)
}

/// Sends a batch, and again if the server had no room for it just then.
async fn send_batch(client: &Client, lines: Bytes) -> anyhow::Result<Answer> {
    let mut patience = Patience::new(Work::Creating);
    loop {
        let body = Body::Lines(lines.clone());
        match client.send(Method::POST, &["retry-tasks:batch"], &[], body).await {
            Ok(answer) => return Ok(answer),
            Err(error) => patience.wait(error).await?,
        }
    }
}

/// Some lines of a file, empty ones left out, and the number of each.
#[derive(Default)]
struct Batch {
    text: Vec<u8>,
    lines: Vec<usize>,
}

impl Batch {
    fn read(file: &mut dyn BufRead, lines_read: &mut usize) -> anyhow::Result<Batch> {
        let mut batch = Batch::default();
        while batch.lines.len() < BATCH_LINES && batch.text.len() < BATCH_BYTES {
            let before = batch.text.len();
            if file.read_until(b'\n', &mut batch.text).context("cannot read the file")? == 0 {
                break;
            }
            *lines_read += 1;
            match batch.text[before..].trim_ascii().is_empty() {
                true => batch.text.truncate(before),
                false => batch.lines.push(*lines_read),
            }
        }
        Ok(batch)
    }
}

/// The same error, with the lines of the file in place of a task's number in its batch.
fn by_line(error: anyhow::Error, lines: &[usize]) -> anyhow::Error {
    let mut problem = match error.downcast::<Problem>() {
        Ok(problem) => problem,
        Err(error) => return error,
    };
    for error in &mut problem.errors {
        let Place::Pointer(pointer) = &mut error.at else { continue };
        let Some(rest) = pointer.strip_prefix("/tasks/") else { continue };
        let (number, inside) = rest.split_once('/').unwrap_or((rest, ""));
        if let Some(line) = number.parse().ok().and_then(|number: usize| lines.get(number)) {
            *pointer = format!("line {line} /{inside}");
        }
    }
    problem.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_that_come_twice_have_two_values() {
        let lines = ["A: 1", "b:2", "a: 3", "a:4"].map(str::to_owned);
        assert_eq!(
            Value::Object(headers(&lines).unwrap()),
            json!({"a": ["1", "3", "4"], "b": "2"})
        );
        let error = headers(&["secret".to_owned()]).unwrap_err().to_string();
        assert!(!error.contains("secret"), "{error}");
    }

    #[test]
    fn empty_lines_are_left_out_of_a_batch_and_counted() {
        let mut file = io::Cursor::new("{}\n\n  \n{}\n{}");
        let mut lines_read = 0;
        let batch = Batch::read(&mut file, &mut lines_read).unwrap();
        assert_eq!(batch.lines, [1, 4, 5]);
        assert_eq!(batch.text, b"{}\n{}\n{}");
        assert!(Batch::read(&mut file, &mut lines_read).unwrap().lines.is_empty());
    }
}
