//! The door: what is refused and how, and who may not keep others from it. REQ-P4, REQ-S2.

mod crowds;

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::Full;
use serde_json::{Value, json};

use crate::rig::{Client, Relent, Reply, request, with};

/// A task that would be taken.
fn good() -> Value {
    json!({"targetUrl": "http://127.0.0.1:9/", "idempotencyKey": "k", "delayMs": 60_000})
}

async fn nothing_is_stored(client: &Client) {
    let tasks = client.get("/retry-tasks").await.expect(200);
    assert_eq!(tasks["items"], json!([]), "something was stored");
    assert_eq!(client.all("/lanes").await.len(), 0, "a lane was opened");
}

fn post(path: &str, body: impl Into<Bytes>) -> Request<Full<Bytes>> {
    let mut send = request(Method::POST, path, None);
    send.headers_mut().insert("content-type", "application/json".parse().unwrap());
    *send.body_mut() = Full::new(body.into());
    send
}

/// Where a problem says something is wrong.
fn places(reply: &Reply) -> Vec<String> {
    let errors = reply.json()["errors"].as_array().cloned().unwrap_or_default();
    let place = |error: &Value| {
        ["pointer", "header", "parameter"]
            .iter()
            .find_map(|kind| error[kind].as_str())
            .map(Into::into)
    };
    errors.iter().filter_map(place).collect()
}

#[tokio::test]
async fn what_is_wrong_with_a_task_is_told_by_place() {
    let relent = Relent::start().await;
    let client = relent.client();
    let key = |length: usize| "k".repeat(length);
    for (fields, status, code, place) in [
        (json!({"targetUrl": null}), 422, "invalid_request", "/targetUrl"),
        (json!({"targetUrl": 5}), 422, "invalid_request", "/targetUrl"),
        (json!({"targetUrl": "nowhere"}), 422, "invalid_request", "/targetUrl"),
        (json!({"targetUrl": "ftp://h/"}), 422, "invalid_request", "/targetUrl"),
        (json!({"targetUrl": "file:///etc/passwd"}), 422, "invalid_request", "/targetUrl"),
        (json!({"targetUrl": "javascript:1"}), 422, "invalid_request", "/targetUrl"),
        (json!({"targetUrl": "http://u:p@h/"}), 422, "invalid_request", "/targetUrl"),
        (json!({"targetUrl": "http://h:99999/"}), 422, "invalid_request", "/targetUrl"),
        (
            json!({"targetUrl": format!("http://h/{}", key(3_000))}),
            422,
            "invalid_request",
            "/targetUrl",
        ),
        (json!({"method": "BREW"}), 422, "invalid_request", "/method"),
        (json!({"method": "CONNECT"}), 422, "invalid_request", "/method"),
        (json!({"idempotencyKey": null}), 400, "missing_idempotency_key", "/idempotencyKey"),
        (json!({"idempotencyKey": ""}), 422, "invalid_request", "/idempotencyKey"),
        (json!({"idempotencyKey": key(65)}), 422, "invalid_request", "/idempotencyKey"),
        (json!({"idempotencyKey": "a b"}), 422, "invalid_request", "/idempotencyKey"),
        (json!({"idempotencyKey": "a\r\nb"}), 422, "invalid_request", "/idempotencyKey"),
        (json!({"delayMs": -1}), 422, "invalid_request", "/delayMs"),
        (json!({"delayMs": 1.5}), 422, "invalid_request", "/delayMs"),
        (json!({"delayMs": 1e15}), 422, "invalid_request", "/delayMs"),
        (json!({"notBefore": "2026-01-01T00:00:00Z"}), 422, "invalid_request", "/notBefore"),
        (json!({"policyId": "no spaces"}), 422, "invalid_request", "/policyId"),
        (json!({"dependency": ""}), 422, "invalid_request", "/dependency"),
        (json!({"body": "a", "bodyBase64": "YQ=="}), 422, "invalid_request", "/bodyBase64"),
        (json!({"bodyBase64": "!"}), 422, "invalid_request", "/bodyBase64"),
        (json!({"method": "GET", "body": "a"}), 422, "invalid_request", "/body"),
        (
            json!({"headers": {"content-length": "5"}}),
            422,
            "invalid_request",
            "/headers/content-length",
        ),
        (
            json!({"headers": {"Transfer-Encoding": "chunked"}}),
            422,
            "invalid_request",
            "/headers/Transfer-Encoding",
        ),
        (
            json!({"headers": {"connection": "close"}}),
            422,
            "invalid_request",
            "/headers/connection",
        ),
        (json!({"headers": {"host": "evil"}}), 422, "invalid_request", "/headers/host"),
        (json!({"headers": {"upgrade": "h2c"}}), 422, "invalid_request", "/headers/upgrade"),
        (
            json!({"headers": {"retry-attempt": "9"}}),
            422,
            "invalid_request",
            "/headers/retry-attempt",
        ),
        (json!({"headers": {"x": "a\r\nevil: 1"}}), 422, "invalid_request", "/headers/x"),
        (json!({"headers": {"bad name": "1"}}), 422, "invalid_request", "/headers/bad name"),
        (json!({"headers": []}), 422, "invalid_request", "/headers"),
        (json!({"body": key((1 << 20) + 1)}), 413, "payload_too_large", "/body"),
    ] {
        let document = with(good(), fields.clone());
        let reply = client.post("/retry-tasks", &document).await;
        let shown: String = fields.to_string().chars().take(80).collect();
        assert_eq!(reply.json()["code"], code, "{shown}: {}", reply.text());
        reply.problem(status);
        assert!(places(&reply).iter().any(|it| it == place), "{shown}: {}", reply.text());
    }
    nothing_is_stored(&client).await;
}

#[tokio::test]
async fn everything_that_is_wrong_is_told_at_once_with_what_was_meant() {
    let relent = Relent::start().await;
    let client = relent.client();
    let document = json!({
        "targetURL": "http://h/", "methud": "PUT", "delayMs": "soon", "headers": {"te": "x"},
        "idempotencyKey": "k",
    });
    let reply = client.post("/retry-tasks", &document).await;
    reply.problem(422);
    let places = places(&reply);
    for place in ["/targetURL", "/methud", "/delayMs", "/headers/te", "/targetUrl"] {
        assert!(places.iter().any(|it| it == place), "{place}: {}", reply.text());
    }
    assert!(reply.text().contains("did you mean targetUrl?"), "{}", reply.text());
    assert!(reply.text().contains("did you mean method?"), "{}", reply.text());
    nothing_is_stored(&client).await;
}

#[tokio::test]
async fn what_is_no_document_at_all_is_refused() {
    let relent = Relent::start().await;
    let client = relent.client();
    let deep = format!(r#"{{"body":{}{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
    for (body, status) in [
        (&b""[..], 400),
        (b"{", 400),
        (b"{\"targetUrl\": \"http://h/\",}", 400),
        (b"\xff\xfe", 400),
        (b"null", 422),
        (b"[]", 422),
        (b"\"text\"", 422),
        (b"{} {}", 400),
    ] {
        let reply = client.send(post("/retry-tasks", body)).await;
        let code = reply.problem(status);
        assert!(["malformed_json", "invalid_request"].contains(&code.as_str()), "{body:?}: {code}");
    }
    let reply = client.send(post("/retry-tasks", deep)).await;
    assert!(reply.status.is_client_error(), "{}", reply.text());
    let twice = br#"{"targetUrl": "http://a/", "targetUrl": "http://b/", "method": "PUT"}"#;
    let reply = client.send(post("/retry-tasks", &twice[..])).await;
    reply.problem(422);
    let mut wrong = post("/retry-tasks", good().to_string());
    wrong.headers_mut().insert("content-type", "text/html".parse().unwrap());
    assert_eq!(client.send(wrong).await.problem(415), "unsupported_media_type");
    let huge = client.send(post("/retry-tasks", vec![b' '; (8 << 20) + 1])).await;
    assert_eq!(huge.problem(413), "payload_too_large");
    nothing_is_stored(&client).await;
    assert_eq!(client.get("/livez").await.status, 200);
}

#[tokio::test]
async fn a_task_under_an_unknown_policy_is_refused() {
    let relent = Relent::start().await;
    let client = relent.client();
    let reply = client.post("/retry-tasks", &with(good(), json!({"policyId": "webhok"}))).await;
    assert_eq!(reply.json()["code"], "policy_not_found", "{}", reply.text());
    nothing_is_stored(&client).await;
}

#[tokio::test]
async fn two_keys_that_disagree_are_refused() {
    let relent = Relent::start().await;
    let client = relent.client();
    let mut send = request(Method::POST, "/retry-tasks", Some(&good()));
    send.headers_mut().insert("idempotency-key", "another".parse().unwrap());
    client.send(send).await.problem(422);
    let mut send =
        request(Method::POST, "/retry-tasks", Some(&with(good(), json!({"idempotencyKey": null}))));
    send.headers_mut().insert("idempotency-key", "k".repeat(65).parse().unwrap());
    let reply = client.send(send).await;
    reply.problem(422);
    assert_eq!(places(&reply), ["Idempotency-Key"]);
    nothing_is_stored(&client).await;
}

#[tokio::test]
async fn what_is_not_there_is_a_problem_document_too() {
    let relent = Relent::start().await;
    let client = relent.client();
    for (path, code) in [
        ("/", "not_found"),
        ("/retry-task", "not_found"),
        ("/retry-tasks/nonsense", "task_not_found"),
        ("/retry-tasks/tsk_0000000000000", "task_not_found"),
        ("/retry-tasks/nonsense/attempts", "task_not_found"),
        ("/retry-policies/none", "policy_not_found"),
        ("/lanes/99", "lane_not_found"),
        ("/lanes/x", "lane_not_found"),
        ("/dead-letters/nonsense", "dead_letter_not_found"),
    ] {
        assert_eq!(client.get(path).await.problem(404), code, "{path}");
    }
    for (method, path) in [
        (Method::PUT, "/retry-tasks"),
        (Method::PATCH, "/retry-tasks/x"),
        (Method::POST, "/livez"),
        (Method::GET, "/dead-letters:redrive"),
        (Method::DELETE, "/lanes"),
    ] {
        let reply = client.send(request(method.clone(), path, None)).await;
        assert_eq!(reply.problem(405), "method_not_allowed", "{method} {path}");
        assert!(!reply.header("allow").is_empty(), "{method} {path} does not say what is allowed");
    }
    for (path, place) in [
        ("/retry-tasks?state=PENDING", "state"),
        ("/retry-tasks?status=DONE", "status"),
        ("/retry-tasks?limit=0", "limit"),
        ("/retry-tasks?limit=9999", "limit"),
        ("/dead-letters?createdAfter=yesterday", "createdAfter"),
    ] {
        let reply = client.get(path).await;
        assert_eq!(reply.problem(422), "invalid_request", "{path}");
        assert_eq!(places(&reply), [place], "{path}");
    }
    assert_eq!(client.get("/retry-tasks?cursor=x").await.problem(400), "invalid_cursor");
}
