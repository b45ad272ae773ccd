//! What arrives: bytes, headers and method as they were given. REQ-S1, REQ-I2.

use serde_json::{Value, json};

use super::World;
use crate::rig::{Seen, hash, with};

impl World {
    /// The one request that a task with these fields makes.
    async fn arrives(&self, name: &str, fields: Value) -> Seen {
        let id = self.client.create(&with(self.task(name), fields)).await;
        self.client.until_status(&id, "SUCCEEDED").await;
        let mut seen = self.target.seen_at(&format!("/{name}"));
        assert_eq!(seen.len(), 1, "{name}");
        seen.remove(0)
    }
}

#[tokio::test]
async fn bodies_arrive_byte_for_byte() {
    let world = World::start().await;
    let seen = world.arrives("text", json!({"body": "\u{e9}\n\u{0}\u{1f980}"})).await;
    assert_eq!(seen.body_hash, hash("\u{e9}\n\u{0}\u{1f980}".as_bytes()));
    assert_eq!(seen.header("content-type"), None);

    let seen = world.arrives("bytes", json!({"body": null, "bodyBase64": "AP/+gA=="})).await;
    assert_eq!(seen.body_hash, hash(&[0, 255, 254, 128]));

    let seen = world.arrives("json", json!({"body": {"b": 1.10, "a": [null, true]}})).await;
    assert_eq!(seen.header("content-type"), Some("application/json"));

    let seen = world.arrives("none", json!({"body": null})).await;
    assert_eq!((seen.body_hash, seen.header("content-length")), (hash(b""), Some("0")));

    let large = "x".repeat(1 << 20);
    let seen = world.arrives("large", json!({"body": large})).await;
    assert_eq!(seen.body_hash, hash(large.as_bytes()));
}

#[tokio::test]
async fn json_keeps_its_own_spelling() {
    let world = World::start().await;
    // Numbers that a parser would change, and spaces that it would drop.
    let body = r#"{ "n": 1.10, "big": 12345678901234567890123, "a" : [1,2] }"#;
    let url = world.target.url("/spelled");
    let text = format!(
        r#"{{"targetUrl": "{url}", "policyId": "quick", "idempotencyKey": "s", "body": {body}}}"#
    );
    let mut send = crate::rig::request(http::Method::POST, "/retry-tasks", None);
    send.headers_mut().insert("content-type", "application/json".parse().unwrap());
    *send.body_mut() = text.into();
    let created = world.client.send(send).await.expect(202);
    world.client.until_status(created["taskId"].as_str().unwrap(), "SUCCEEDED").await;
    assert_eq!(world.target.seen()[0].body_hash, hash(body.as_bytes()));
}

#[tokio::test]
async fn headers_arrive_as_they_were_given_and_framing_is_ours() {
    let world = World::start().await;
    let headers = json!({
        "Authorization": "Bearer 1", "X-Many": ["a", "b"], "content-type": "text/plain",
        "user-agent": "mine/1",
    });
    let seen = world.arrives("headers", json!({"headers": headers, "body": "abc"})).await;
    assert_eq!(seen.header("authorization"), Some("Bearer 1"));
    assert_eq!(seen.header("content-type"), Some("text/plain"));
    assert_eq!(seen.header("user-agent"), Some("mine/1"));
    assert_eq!(seen.header("host"), Some(world.target.address.to_string().as_str()));
    assert_eq!(seen.header("content-length"), Some("3"));
    assert_eq!(seen.header("transfer-encoding"), None);
    assert_eq!(seen.headers("x-many"), ["a", "b"]);
    for once in ["host", "content-length", "idempotency-key", "retry-attempt", "content-type"] {
        assert_eq!(seen.headers(once).len(), 1, "{once}");
    }
}

#[tokio::test]
async fn the_target_is_called_as_it_was_written() {
    let world = World::start().await;
    for path in ["/a%20b?q=1&r=%2F", "/x/../y", "/?", "/ünï"] {
        let url = world.target.url(path);
        let document = json!({"targetUrl": url, "method": "PUT", "policyId": "quick"});
        let id = world.client.create(&document).await;
        world.client.until_status(&id, "SUCCEEDED").await;
    }
    let paths: Vec<String> = world.target.seen().into_iter().map(|seen| seen.path).collect();
    assert_eq!(paths, ["/a%20b?q=1&r=%2F", "/y", "/?", "/%C3%BCn%C3%AF"]);
}
