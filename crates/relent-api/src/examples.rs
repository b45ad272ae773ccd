//! One document of each kind with everything in it: what the tests write and read, and what the
//! description of the API is held to.

use relent_policy::{BreakerState, FailureKind, PolicySpec, Timestamp};

use crate::*;

pub(crate) fn task() -> TaskDocument {
    let headers = [
        ("authorization".to_owned(), "Bearer secret".to_owned()),
        ("content-type".to_owned(), "application/json".to_owned()),
    ];
    TaskDocument {
        task_id: "tsk_0fz3k9q7r2v5w".to_owned(),
        status: Status::Pending,
        waiting_reason: Some(WaitingReason::Backoff),
        idempotency_key: Some("order-17".to_owned()),
        correlation_id: Some("checkout-9c1f".to_owned()),
        target_url: "https://api.example.com/hooks".to_owned(),
        method: Method::Post,
        headers: redacted_headers(&headers),
        body_bytes: 12,
        body: Some(Payload(r#"{"order":17}"#.to_owned())),
        body_base64: None,
        body_ref: None,
        policy_id: "webhook".to_owned(),
        policy_version: 1,
        dependency: "https://api.example.com".to_owned(),
        lane_id: "7".to_owned(),
        attempt_number: 2,
        max_attempts: 6,
        generation: 1,
        created_at: 1_785_312_000_000,
        next_attempt_at: Some(1_785_312_006_250),
        deadline_at: Some(1_785_398_400_000),
        last_attempt_at: Some(1_785_312_001_100),
        last_status: Some(503),
        last_error: Some("http_503".to_owned()),
        cancel_requested: false,
        ended_at: None,
        ended_because: None,
    }
}

pub(crate) fn created() -> CreatedDocument {
    let TaskDocument { task_id, status, policy_id, policy_version, dependency, lane_id, .. } =
        task();
    CreatedDocument {
        task_id,
        status,
        policy_id,
        policy_version,
        dependency,
        lane_id,
        created_at: 1_785_312_000_000,
        next_attempt_at: Some(1_785_312_000_000),
    }
}

pub(crate) fn attempt() -> AttemptDocument {
    AttemptDocument {
        task_id: task().task_id,
        generation: 1,
        attempt_number: 2,
        started_at: 1_785_312_001_100,
        duration_ms: 184,
        duration_us: 184_210,
        response_status: Some(503),
        error: Some("http_503".to_owned()),
        error_message: Some(error_message(FailureKind::Http(503))),
        effect: EffectName::Answered,
        decision: Decided::Retry,
        because: Some("backoff".to_owned()),
        next_attempt_at: Some(1_785_312_006_250),
        backoff_ms: Some(4_966),
        roll: roll_text(0x9f3a_00c1_77de_0b42),
        phases: PhaseDocument {
            dns_us: Some(1_200),
            connect_us: Some(20_400),
            tls_us: Some(41_000),
            first_byte_us: Some(120_000),
        },
        response_preview: Some(Payload("unavailable".to_owned())),
    }
}

pub(crate) fn lane() -> LaneDocument {
    LaneDocument {
        lane_id: task().lane_id,
        dependency: task().dependency,
        paused: false,
        blocked_by: Some(WaitingReason::BreakerOpen),
        blocked_until: Some(1_785_312_030_000),
        in_flight: 3,
        retries_in_flight: 1,
        waiting_first: 1_200,
        waiting_retries: 340,
        dead_letters: 12,
        budget: Some(BudgetDocument { utilization_ratio: 0.75 }),
        breaker: Some(BreakerDocument::new(BreakerState::Open)),
        limits: LaneLimits {
            in_flight_max: Some(1_000),
            retries_in_flight_max: Some(200),
            rate_per_second: Some(50),
        },
        rules_from: Some(RulesFrom { policy_id: "webhook".to_owned(), version: 1 }),
    }
}

pub(crate) fn policy() -> PolicyDocument {
    PolicyDocument {
        version: 3,
        created_at: 1_785_312_000_000,
        built_in: false,
        waived: vec![WaivedDocument {
            pointer: "/maxAttempts".to_owned(),
            rule: "R-2".to_owned(),
            expected: "4 to 9 (3 to 8 retries) for webhook".to_owned(),
            got: "12".to_owned(),
            approver: "Integration Architecture Board".to_owned(),
            reason: "the partner is down every night".to_owned(),
            expires: "2027-01-31".to_owned(),
        }],
        policy: PolicySpec { policy_id: "orders".to_owned(), ..PolicySpec::webhook() },
    }
}

pub(crate) fn event() -> EventDocument {
    EventDocument {
        task_id: Some(task().task_id),
        lane_id: Some(task().lane_id),
        dependency: Some(task().dependency),
        status: Some(Status::Pending),
        generation: Some(1),
        attempt_number: Some(2),
        response_status: Some(503),
        error: Some("http_503".to_owned()),
        because: Some("backoff".to_owned()),
        next_attempt_at: Some(1_785_312_006_250),
        ..EventDocument::new(
            8_127,
            Timestamp::from_millis(1_785_312_001_284),
            EventKind::AttemptFinished,
        )
    }
}

pub(crate) fn redrive() -> RedriveReport {
    RedriveReport {
        dry_run: false,
        redriven: 1,
        task_ids: vec![task().task_id],
        refused: vec!["tsk_0fz3k9q7r2v5x".to_owned()],
        next_cursor: Some("tsk_0fz3k9q7r2v5v".to_owned()),
    }
}
