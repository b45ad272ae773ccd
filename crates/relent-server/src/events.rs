//! What happens, for those who listen. Nothing is made when nobody does.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use relent_api::{EventDocument, EventKind};
use relent_policy::{GiveUpReason, Timestamp};
use relent_store::{AttemptRecord, TaskId};
use tokio::sync::broadcast;

use crate::lanes::Lane;

/// Who lags more than this many events behind misses some, and is told.
const KEPT: usize = 4_096;

/// See the module's head.
#[derive(Debug)]
pub(crate) struct Events {
    /// `None` once the service stops.
    sender: Mutex<Option<broadcast::Sender<Arc<str>>>>,
    heard: AtomicU64,
    count: AtomicU64,
}

/// What happened to a task.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TaskEvent {
    Created,
    Succeeded,
    Exhausted { because: GiveUpReason },
    Cancelled,
    Redriven,
}

impl Default for Events {
    fn default() -> Events {
        let sender = Mutex::new(Some(broadcast::Sender::new(KEPT)));
        Events { sender, heard: AtomicU64::new(0), count: AtomicU64::new(0) }
    }
}

impl Events {
    /// From now on; `None` when the service stops.
    pub(crate) fn subscribe(&self) -> Option<broadcast::Receiver<Arc<str>>> {
        let sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner);
        let receiver = sender.as_ref()?.subscribe();
        self.heard.fetch_add(1, Ordering::Relaxed);
        Some(receiver)
    }

    /// Ends every stream.
    pub(crate) fn close(&self) {
        self.sender.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// Whether somebody has ever listened; a cheap way to do nothing.
    pub(crate) fn is_heard(&self) -> bool {
        self.heard.load(Ordering::Relaxed) > 0
    }

    pub(crate) fn task(
        &self,
        event: TaskEvent,
        task: TaskId,
        generation: u32,
        lane: &Lane,
        now: Timestamp,
    ) {
        let kind = match event {
            TaskEvent::Created => EventKind::TaskCreated,
            TaskEvent::Succeeded => EventKind::TaskSucceeded,
            TaskEvent::Exhausted { .. } => EventKind::TaskExhausted,
            TaskEvent::Cancelled => EventKind::TaskCancelled,
            TaskEvent::Redriven => EventKind::TaskRedriven,
        };
        self.emit(kind, lane, now, |document| {
            document.task_id = Some(task.to_string());
            document.generation = Some(generation + 1);
            if let TaskEvent::Exhausted { because } = event {
                document.because = Some(because.name().to_owned());
            }
        });
    }

    pub(crate) fn attempt(&self, task: TaskId, row: &AttemptRecord, lane: &Lane, now: Timestamp) {
        self.emit(EventKind::AttemptFinished, lane, now, |document| {
            document.task_id = Some(task.to_string());
            document.generation = Some(row.generation + 1);
            document.attempt_number = Some(row.number);
            document.response_status = row.status;
            document.error = row.failure.map(|failure| failure.to_string());
        });
    }

    pub(crate) fn breaker(&self, lane: &Lane, opened: bool, now: Timestamp) {
        let kind = if opened { EventKind::BreakerOpened } else { EventKind::BreakerClosed };
        self.emit(kind, lane, now, |_| ());
    }

    pub(crate) fn paused(&self, lane: &Lane, paused: bool, now: Timestamp) {
        let kind = if paused { EventKind::LanePaused } else { EventKind::LaneResumed };
        self.emit(kind, lane, now, |_| ());
    }

    fn emit(
        &self,
        kind: EventKind,
        lane: &Lane,
        now: Timestamp,
        fill: impl FnOnce(&mut EventDocument),
    ) {
        if !self.is_heard() {
            return;
        }
        let sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(sender) = sender.as_ref().filter(|sender| sender.receiver_count() > 0) else {
            return;
        };
        let id = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        let mut document = EventDocument::new(id, now, kind);
        document.lane_id = Some(lane.id.to_string());
        document.dependency = Some(lane.dependency.to_string());
        fill(&mut document);
        let Ok(data) = serde_json::to_string(&document) else { return };
        let text = format!("id: {id}\nevent: {}\ndata: {data}\n\n", kind.name());
        // An error means that the last listener has just left.
        let _ = sender.send(text.into());
    }
}
