//! What a target does with a request.

use std::time::Duration;

use tokio::sync::watch;

/// What a target does with one request.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Answers in full and keeps the connection.
    Answer { status: u16, headers: Vec<(String, String)>, body: Vec<u8> },
    /// Does the next thing after this long.
    After(Duration, Box<Step>),
    /// Does the next thing when the gate opens.
    Held(Gate, Box<Step>),
    /// Says nothing until the peer hangs up.
    Silence,
    /// Resets the connection.
    Reset,
    /// Closes the connection without a word.
    Close,
    /// 200, and then closes the connection without having said so.
    LastAnswer,
    /// 200 and a header line every few milliseconds, for ever.
    DripHead,
    /// 200 and a piece of body every few milliseconds, for ever.
    EndlessBody,
    /// 200 and so many bytes of body, as fast as they are taken.
    HugeBody(u64),
    /// 200 and half of the promised body.
    Truncated,
    /// Something that is not HTTP.
    Garbage,
    /// A head of two megabytes.
    HugeHead,
    /// 103 again and again.
    InterimFlood,
}

impl Step {
    /// The same, later.
    pub(crate) fn after(self, wait: Duration) -> Step {
        Step::After(wait, Box::new(self))
    }

    /// The same, when the gate opens.
    pub(crate) fn held_by(self, gate: &Gate) -> Step {
        Step::Held(gate.clone(), Box::new(self))
    }

    /// The same with one more header, if it is an answer.
    pub(crate) fn header(mut self, name: &str, value: impl Into<String>) -> Step {
        if let Step::Answer { headers, .. } = &mut self {
            headers.push((name.to_owned(), value.into()));
        }
        self
    }
}

/// 200.
pub(crate) fn ok() -> Step {
    status(200)
}

/// An answer without a body.
pub(crate) fn status(status: u16) -> Step {
    answer(status, b"")
}

/// An answer.
pub(crate) fn answer(status: u16, body: &[u8]) -> Step {
    Step::Answer { status, headers: Vec::new(), body: body.to_vec() }
}

/// Holds requests until it is opened.
#[derive(Clone, Debug)]
pub(crate) struct Gate(watch::Sender<bool>);

impl Gate {
    pub(crate) fn closed() -> Gate {
        Gate(watch::Sender::new(false))
    }

    pub(crate) fn open(&self) {
        self.0.send_replace(true);
    }

    pub(super) async fn passed(&self) {
        let mut open = self.0.subscribe();
        // The sender is here, so it cannot be gone.
        let _ = open.wait_for(|open| *open).await;
    }
}
