//! What is logged and counted, and what is in none of it. REQ-O1, REQ-O2, REQ-P2.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::io::Write;
use std::sync::{Arc, Mutex, Once, OnceLock};

use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use relent::observe::{GiveUpEvent, Observer};
use relent::{
    Attempt, CallError, Classify, Failure, FailureKind, GiveUpReason, IdempotencyKey, Policy,
    Retrier, Timestamp,
};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

/// An answer with this status.
#[derive(Debug, PartialEq)]
struct Status(u16);

impl Classify for Status {
    fn failure(&self, _now: Timestamp) -> Failure {
        FailureKind::Http(self.0).into()
    }
}

fn retrier() -> Retrier {
    let builder = Retrier::builder("stock").service("shop").policy(Policy::sync_api());
    builder.seed(7).build()
}

/// Makes a call that is answered with these statuses, one after the other, and the last for ever.
async fn answered(retrier: &Retrier, statuses: &[u16]) -> Result<u16, CallError<Status>> {
    let key = IdempotencyKey::try_new("order-17").unwrap();
    let call = retrier.with_key(key).correlation_id("checkout-3").call(async |attempt| {
        let turn = (attempt.number() as usize).min(statuses.len());
        let status = statuses[turn - 1];
        if status == 200 { Ok(status) } else { Err(Status(status)) }
    });
    call.await
}

/// Runs the future on a paused clock on this thread, where subscribers and recorders are looked for.
fn block_on<F: Future>(future: F) -> F::Output {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_time().start_paused(true).build().unwrap().block_on(future)
}

#[derive(Debug)]
struct Logged {
    target: String,
    level: Level,
    fields: BTreeMap<&'static str, String>,
}

impl Logged {
    fn names(&self) -> Vec<&'static str> {
        self.fields.keys().copied().collect()
    }
}

impl Visit for Logged {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.fields.insert(field.name(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.fields.insert(field.name(), value.to_owned());
    }
}

thread_local! {
    static LOGGED: RefCell<Vec<Logged>> = const { RefCell::new(Vec::new()) };
}

/// Collects what is logged, for each thread. One for all tests, because `tracing` remembers for the
/// whole process whether anybody listens: a test that listens alone is deaf to what another thread
/// has logged first.
struct Collect;

impl Collect {
    fn install() {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            let subscriber = tracing_subscriber::registry().with(Collect);
            tracing::subscriber::set_global_default(subscriber).unwrap();
        });
    }
}

impl<S: Subscriber> Layer<S> for Collect {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        let metadata = event.metadata();
        let mut logged = Logged {
            target: metadata.target().to_owned(),
            level: *metadata.level(),
            fields: BTreeMap::new(),
        };
        event.record(&mut logged);
        LOGGED.with_borrow_mut(|all| all.push(logged));
    }
}

/// What the future logs.
fn logged<F: Future>(future: F) -> (F::Output, Vec<Logged>) {
    Collect::install();
    LOGGED.take();
    (block_on(future), LOGGED.take())
}

/// What the future counts and measures: `name{label=value,…}`, labels in order, with its values.
fn measured<F: Future>(future: F) -> (F::Output, BTreeMap<String, Vec<f64>>) {
    let recorder = DebuggingRecorder::new();
    let output = metrics::with_local_recorder(&recorder, || block_on(future));
    let series = recorder.snapshotter().snapshot().into_vec().into_iter();
    let series = series.map(|(key, _, _, value)| {
        let (_, key) = key.into_parts();
        let mut labels: Vec<String> =
            key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        labels.sort();
        let values = match value {
            DebugValue::Counter(count) => vec![f64::from(u32::try_from(count).unwrap())],
            DebugValue::Gauge(value) => vec![value.into_inner()],
            DebugValue::Histogram(values) => values.into_iter().map(Into::into).collect(),
        };
        (format!("{}{{{}}}", key.name(), labels.join(",")), values)
    });
    (output, series.collect())
}

fn attempts_series(attempt: &str, outcome: &str) -> String {
    format!(
        "retry_attempts_total{{attempt_number={attempt},dependency=stock,outcome={outcome},\
         policy=sync-api,service=shop}}"
    )
}

fn series(name: &str) -> String {
    format!("{name}{{dependency=stock,service=shop}}")
}

/// The fields of the standard, in order, and the message.
const FIELDS: [&str; 9] = [
    "attempt",
    "backoff_ms",
    "correlation_id",
    "dependency",
    "elapsed",
    "error_type",
    "idempotency_key",
    "max_attempts",
    "message",
];

#[test]
fn every_attempt_is_one_event_with_exactly_the_fields_of_the_standard() {
    let (result, events) = logged(answered(&retrier(), &[503, 503, 200]));
    assert_eq!(result.unwrap(), 200);
    let column = |name| events.iter().map(|event| event.fields[name].as_str()).collect::<Vec<_>>();
    assert!(events.iter().all(|event| event.target == "relent" && event.names() == FIELDS));
    let levels: Vec<Level> = events.iter().map(|event| event.level).collect();
    assert_eq!(levels, [Level::WARN, Level::WARN, Level::DEBUG]);
    assert_eq!(column("attempt"), ["1", "2", "3"]);
    assert_eq!(column("max_attempts"), ["4"; 3]);
    assert_eq!(column("dependency"), ["stock"; 3]);
    assert_eq!(column("correlation_id"), ["checkout-3"; 3]);
    assert_eq!(column("idempotency_key"), ["order-17"; 3]);
    assert_eq!(column("error_type"), ["http_503", "http_503", ""]);

    // Nothing but the waits takes time here.
    let number = |text: &str| text.parse::<i64>().unwrap();
    let waits: Vec<i64> = column("backoff_ms").into_iter().map(number).collect();
    let elapsed: Vec<i64> = column("elapsed").into_iter().map(number).collect();
    assert_eq!((elapsed[0], waits[2]), (0, 0));
    for (index, waited) in [waits[0], waits[0] + waits[1]].into_iter().enumerate() {
        assert!((elapsed[index + 1] - waited).abs() <= 2, "{elapsed:?} after {waits:?}");
    }
}

#[test]
fn a_call_that_is_given_up_ends_with_one_error_and_its_reason() {
    let (failed, events) = logged(answered(&retrier(), &[503]));
    assert_eq!(failed.unwrap_err().because(), Some(GiveUpReason::AttemptsExhausted));
    let (last, attempts) = events.split_last().unwrap();
    assert_eq!(attempts.len(), 4);
    assert!(attempts.iter().all(|event| event.level == Level::WARN && event.names() == FIELDS));
    assert_eq!(last.level, Level::ERROR);
    let mut names = FIELDS.to_vec();
    names.push("reason");
    assert_eq!(last.names(), names);
    let field = |name| last.fields[name].as_str();
    assert_eq!((field("message"), field("reason")), ("gave up", "attempts_exhausted"));
    assert_eq!((field("attempt"), field("error_type")), ("4", "http_503"));
    assert_eq!((field("idempotency_key"), field("correlation_id")), ("order-17", "checkout-3"));
}

#[test]
fn retries_that_help_are_counted_by_number_and_outcome() {
    let (result, series_of) = measured(answered(&retrier(), &[503, 503, 200]));
    assert!(result.is_ok());
    assert_eq!(series_of[&attempts_series("1", "retry")], [1.0]);
    assert_eq!(series_of[&attempts_series("2", "retry")], [1.0]);
    assert_eq!(series_of[&attempts_series("3", "success")], [1.0]);
    assert_eq!(series_of[&series("retry_backoff_duration_seconds")].len(), 2);
    assert_eq!(series_of[&series("retry_attempt_duration_seconds")].len(), 3);
    assert_eq!(series_of[&series("retry_breaker_state")], [0.0]);
    let spent = series_of[&series("retry_budget_utilization_ratio")][0];
    assert!(spent > 0.0 && spent <= 1.0, "{spent}");
    assert_eq!(series_of.len(), 7, "and nothing else: {series_of:?}");
}

#[test]
fn exhausted_calls_are_counted_and_permanent_failures_are_not_among_them() {
    let (failed, series_of) = measured(answered(&retrier(), &[503]));
    assert_eq!(failed.unwrap_err().report().attempts, 4);
    assert_eq!(series_of[&attempts_series("4", "give_up")], [1.0]);
    assert_eq!(series_of[&series("retry_exhausted_total")], [1.0]);
    assert_eq!(series_of[&series("retry_backoff_duration_seconds")].len(), 3);

    let (failed, series_of) = measured(answered(&retrier(), &[404]));
    assert_eq!(failed.unwrap_err().because(), Some(GiveUpReason::Permanent));
    assert_eq!(series_of[&attempts_series("1", "give_up")], [1.0]);
    assert!(!series_of.contains_key(&series("retry_exhausted_total")));
}

#[test]
fn an_open_breaker_is_seen_and_so_are_the_calls_that_it_refuses() {
    let outage = async |retrier: &Retrier| {
        while !matches!(answered(retrier, &[503]).await, Err(CallError::Refused(_))) {}
    };
    let ((), series_of) = measured(outage(&retrier()));
    assert_eq!(series_of[&series("retry_breaker_state")], [2.0]);

    // The last call made no attempt, and is told all the same.
    let ((), events) = logged(outage(&retrier()));
    let last = events.last().unwrap();
    assert_eq!((last.level, last.fields["reason"].as_str()), (Level::ERROR, "breaker_open"));
    assert_eq!((last.fields["attempt"].as_str(), last.fields["error_type"].as_str()), ("0", ""));
}

/// An observer that looks at the retrier it observes.
#[derive(Default)]
struct Looking(OnceLock<Retrier>);

impl Observer for Looking {
    fn gave_up(&self, _event: &GiveUpEvent<'_>) {
        assert!(self.0.get().unwrap().lane().is_some());
    }
}

#[test]
fn an_observer_may_look_at_the_lane_whenever_it_is_told_something() {
    let looking = Arc::new(Looking::default());
    let retrier = Retrier::builder("stock").observer(looking.clone()).build();
    assert!(looking.0.set(retrier.clone()).is_ok());
    block_on(async {
        while !matches!(answered(&retrier, &[503]).await, Err(CallError::Refused(_))) {}
    });
}

const CANARY: &str = "canary-5f1c";

/// An error as careless as errors get: its texts repeat the whole request.
struct Careless {
    url: String,
    body: String,
}

impl fmt::Display for Careless {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "POST {} with {:?} failed", self.url, self.body)
    }
}

impl fmt::Debug for Careless {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Careless {}

impl Classify for Careless {
    fn failure(&self, _now: Timestamp) -> Failure {
        FailureKind::Http(503).into()
    }
}

#[test]
fn no_secret_of_a_request_reaches_an_event_a_label_or_our_own_error() {
    let call = async || {
        let (url, body) =
            (format!("https://shop.example/?token={CANARY}"), format!("pin={CANARY}"));
        let retrier = retrier();
        let careless =
            async |_: Attempt<'_>| Err::<(), _>(Careless { url: url.clone(), body: body.clone() });
        retrier.repeatable().call(careless).await.unwrap_err()
    };
    let ((failed, events), series_of) = {
        let recorder = DebuggingRecorder::new();
        let logged = metrics::with_local_recorder(&recorder, || logged(call()));
        (logged, recorder.snapshotter().snapshot().into_vec())
    };
    assert_eq!((events.len(), failed.report().attempts), (5, 4));
    assert!(!format!("{events:?}").contains(CANARY));
    assert!(series_of.len() >= 7 && !format!("{series_of:?}").contains(CANARY));
    assert!(!failed.to_string().contains(CANARY), "{failed}");
    assert!(failed.original().unwrap().to_string().contains(CANARY), "the original is untouched");
}

/// A place to write to that can be read.
#[derive(Clone, Default)]
struct Page(Arc<Mutex<Vec<u8>>>);

impl Write for Page {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn the_guide_shows_what_is_really_written() {
    Collect::install();
    let page = Page::default();
    let writer = page.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(Level::DEBUG)
        .with_ansi(false)
        .without_time()
        .with_writer(move || writer.clone())
        .finish();
    tracing::subscriber::with_default(subscriber, || {
        block_on(async {
            let retrier = retrier();
            assert!(answered(&retrier, &[503, 200]).await.is_ok());
            assert!(answered(&retrier, &[503]).await.is_err());
        });
    });
    let written = String::from_utf8(page.0.lock().unwrap().clone()).unwrap();
    let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guides/observability.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    assert_eq!(written.lines().count(), 7);
    for line in written.lines() {
        assert!(guide.contains(line.trim_start()), "not in the guide:\n{written}");
    }
}
