//! Requests that are formatted before the clock starts. Between two of them only digits change.

use std::io::Write as _;
use std::net::SocketAddr;

/// A task as it is posted: a body of 512 bytes and a key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Task {
    pub(super) target: SocketAddr,
    pub(super) due: Due,
    /// With the five headers that a webhook has, about 230 bytes of them.
    pub(super) headers: bool,
}

/// When a task is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    Now,
    AfterMillis(u64),
    /// At a time that is filled in.
    At,
}

pub(super) const BODY_BYTES: usize = 512;
/// So many digits a number has, in a path and in a key.
const NUMBER: &str = "0000000000";
/// Milliseconds since the epoch have 13 digits until the year 2286.
const TIME: &str = "1000000000000";

/// A request for one task or for many.
#[derive(Clone, Debug)]
pub(super) struct Request {
    bytes: Vec<u8>,
    tasks: Vec<Holes>,
}

/// Where a task's digits stand.
#[derive(Clone, Copy, Debug)]
struct Holes {
    path: usize,
    key: usize,
    time: Option<usize>,
}

impl Request {
    pub(super) fn one(task: Task) -> Request {
        Request::new("/retry-tasks", "application/json", task, 1)
    }

    pub(super) fn batch(task: Task, tasks: usize) -> Request {
        Request::new("/retry-tasks:batch", "application/x-ndjson", task, tasks)
    }

    fn new(path: &str, kind: &str, task: Task, count: usize) -> Request {
        let (document, holes) = document(task);
        let length = (document.len() + 1) * count - 1;
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: relent\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n"
        );
        let mut bytes = head.into_bytes();
        let mut tasks = Vec::with_capacity(count);
        for index in 0..count {
            if index > 0 {
                bytes.push(b'\n');
            }
            let start = bytes.len();
            let time = holes.time.map(|time| start + time);
            tasks.push(Holes { path: start + holes.path, key: start + holes.key, time });
            bytes.extend_from_slice(document.as_bytes());
        }
        Request { bytes, tasks }
    }

    /// How many tasks it has.
    pub(super) fn tasks(&self) -> usize {
        self.tasks.len()
    }

    /// The request for tasks from this number on, each due when `due_at` says, in milliseconds.
    pub(super) fn numbered(&mut self, first: u64, due_at: impl Fn(u64) -> u64) -> &[u8] {
        for (number, holes) in (first..).zip(&self.tasks) {
            digits(&mut self.bytes[holes.path..], NUMBER.len(), number);
            digits(&mut self.bytes[holes.key..], NUMBER.len(), number);
            if let Some(time) = holes.time {
                digits(&mut self.bytes[time..], TIME.len(), due_at(number));
            }
        }
        &self.bytes
    }
}

fn digits(mut at: &mut [u8], width: usize, number: u64) {
    let written = write!(at, "{number:0width$}");
    debug_assert!(written.is_ok(), "the digits have their place");
}

fn document(task: Task) -> (String, Holes) {
    let Task { target, due, headers } = task;
    let due = match due {
        Due::Now => String::new(),
        Due::AfterMillis(delay) => format!(r#","delayMs":{delay}"#),
        Due::At => format!(r#","notBefore":{TIME}"#),
    };
    let headers = if headers { HEADERS } else { "" };
    let (start, end) = (r#"{"type":"order.paid","data":""#, r#""}"#);
    let filling = "abcdefghijklmnopqrstuvwxyz012345".repeat(BODY_BYTES / 32);
    let filling = &filling[..BODY_BYTES - start.len() - end.len()];
    let document = format!(
        r#"{{"targetUrl":"http://{target}/{NUMBER}","idempotencyKey":"evt_5f8b1c_{NUMBER}"{due}{headers},"body":{start}{filling}{end}}}"#
    );
    let path = document.find(NUMBER).unwrap_or_default();
    let key = path + NUMBER.len();
    let key = key + document[key..].find(NUMBER).unwrap_or_default();
    let time = document.find(TIME);
    (document, Holes { path, key, time })
}

const HEADERS: &str = concat!(
    r#","headers":{"content-type":"application/json","webhook-id":"msg_2KWPBgLlAfxdpx2AI54pPJ85f4W","#,
    r#""webhook-timestamp":"1674087231","webhook-signature":"v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=","#,
    r#""x-event-type":"order.paid"}"#
);

#[cfg(test)]
mod tests {
    use super::*;

    fn task(due: Due, headers: bool) -> Task {
        Task { target: SocketAddr::from(([127, 0, 0, 1], 8080)), due, headers }
    }

    fn parts(request: &[u8]) -> (String, Vec<serde_json::Value>) {
        let text = String::from_utf8(request.to_vec()).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.ends_with(&format!("content-length: {}", body.len())));
        let documents = body.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        (head.to_owned(), documents)
    }

    #[test]
    fn a_request_has_its_number_and_its_time() {
        let mut request = Request::one(task(Due::At, true));
        let (head, documents) = parts(request.numbered(17, |_| 1_785_312_000_250));
        assert!(head.starts_with("POST /retry-tasks HTTP/1.1\r\n"));
        let [document] = documents.as_slice() else { unreachable!("one task, one document") };
        assert_eq!(document["targetUrl"], "http://127.0.0.1:8080/0000000017");
        assert_eq!(document["idempotencyKey"], "evt_5f8b1c_0000000017");
        assert_eq!(document["notBefore"], 1_785_312_000_250_u64);
        assert_eq!(document["body"].to_string().len(), BODY_BYTES);
        assert_eq!(document["headers"].as_object().unwrap().len(), 5);
    }

    #[test]
    fn a_batch_counts_on() {
        let mut request = Request::batch(task(Due::Now, false), 3);
        let (_, documents) = parts(request.numbered(8, |_| 0));
        let keys: Vec<_> = documents.iter().map(|document| &document["idempotencyKey"]).collect();
        assert_eq!(
            keys,
            ["evt_5f8b1c_0000000008", "evt_5f8b1c_0000000009", "evt_5f8b1c_0000000010"]
        );
    }
}
