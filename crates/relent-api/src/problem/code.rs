//! The codes of problems, as one table: name, status, title, what it means, what to do. REQ-S2.
//!
//! A code's name is stable: clients branch on it. The help page of a code is made of its row.

use http::StatusCode;

use crate::names::UnknownName;

macro_rules! codes {
    ($($variant:ident $name:literal $status:ident $title:literal $explanation:literal $advice:literal)*) => {
        /// What kind of problem it is.
        ///
        /// ```
        /// use relent_api::Code;
        ///
        /// assert_eq!(Code::KeyConflict.name(), "key_conflict");
        /// assert_eq!(Code::KeyConflict.status(), 422);
        /// assert_eq!("key_conflict".parse(), Ok(Code::KeyConflict));
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code {
            $(#[doc = $explanation] $variant,)*
        }

        impl Code {
            /// Every code there is.
            pub const ALL: &[Code] = &[$(Code::$variant),*];
            const NAMES: &[&str] = &[$($name),*];

            /// Its stable name.
            pub const fn name(self) -> &'static str {
                match self { $(Code::$variant => $name),* }
            }

            /// The HTTP status it is answered with.
            pub const fn status(self) -> StatusCode {
                match self { $(Code::$variant => StatusCode::$status),* }
            }

            /// What it says, in a few words that never change.
            pub const fn title(self) -> &'static str {
                match self { $(Code::$variant => $title),* }
            }

            /// What it means.
            pub const fn explanation(self) -> &'static str {
                match self { $(Code::$variant => $explanation),* }
            }

            /// What the caller should do.
            pub const fn advice(self) -> &'static str {
                match self { $(Code::$variant => $advice),* }
            }
        }
    };
}

codes! {
    MalformedJson "malformed_json" BAD_REQUEST "Malformed JSON"
        "The request's document is not JSON, or not UTF-8. The detail names the line and the column where reading stopped; nothing was stored."
        "Fix the document's syntax and send it again."
    InvalidRequest "invalid_request" UNPROCESSABLE_ENTITY "Invalid request"
        "The request could be read, and something in it is not allowed. Every such place is listed under `errors` with what was expected and what was there; nothing was stored."
        "Correct every place that is listed and send the request again; as it is, it will be refused again."
    MissingIdempotencyKey "missing_idempotency_key" BAD_REQUEST "Missing idempotency key"
        "POST and PATCH may change something each time they are sent, so a task with these methods needs a key by which its target can recognise a repeated request."
        "Set `idempotencyKey` in the document, or the `Idempotency-Key` header, to something unique to the operation, such as a UUID, and use the same key whenever you send this task again."
    PayloadTooLarge "payload_too_large" PAYLOAD_TOO_LARGE "Payload too large"
        "The request's document, or the body of a task in it, is larger than this server takes."
        "Send less: put the data elsewhere and send a reference to it, or split a batch."
    UnsupportedMediaType "unsupported_media_type" UNSUPPORTED_MEDIA_TYPE "Unsupported media type"
        "The request's `Content-Type` is not one that this resource reads."
        "Send `application/json`; batches may be `application/x-ndjson` as well."
    RequestTimeout "request_timeout" REQUEST_TIMEOUT "Request timeout"
        "The request did not arrive in full within the time that the server waits for one; nothing was stored."
        "Send it again with the same idempotency key."
    KeyConflict "key_conflict" UNPROCESSABLE_ENTITY "Idempotency key reused"
        "Another task with the same idempotency key and other content exists. A key stands for one request with one content, so neither the old task was changed nor a new one created."
        "Use a new key for a new request. If it was meant to be the same request, send exactly what was sent the first time; `taskId` names the task that has the key."
    KeyInProgress "key_in_progress" CONFLICT "Idempotency key in progress"
        "A request with the same idempotency key is being stored at this moment, and it is not known yet what becomes of it."
        "Send the same request again after a second; nothing needs to be corrected."
    TaskNotFound "task_not_found" NOT_FOUND "No such task"
        "There is no task with this id, or it ended so long ago that it is no longer kept."
        "Check the id. Tasks that succeeded are kept for a few days, dead letters for longer."
    PolicyNotFound "policy_not_found" NOT_FOUND "No such policy"
        "There is no policy with this id or version."
        "Check the id, list the policies, or register the policy first."
    PolicyRejected "policy_rejected" UNPROCESSABLE_ENTITY "Policy rejected"
        "The policy cannot work as it is written, or departs from the retry standard without a waiver. Every place is listed under `errors`, with its rule and how to put it right; nothing was stored."
        "Follow the fixes, or add a waiver with rule, approver, reason and expiry for a departure that was approved."
    PolicyBuiltIn "policy_built_in" CONFLICT "Built-in policy"
        "The policy comes with relent and cannot be changed or deleted."
        "Register a policy under another id; `GET` the built-in one and start from that."
    LaneNotFound "lane_not_found" NOT_FOUND "No such lane"
        "There is no lane with this id. A lane appears with the first task for its dependency."
        "Check the id, or list the lanes."
    DeadLetterNotFound "dead_letter_not_found" NOT_FOUND "No such dead letter"
        "There is no dead letter with this id: the task does not exist, has not given up, was redriven, or was purged."
        "Look the task up with `GET /retry-tasks/{taskId}`, or list the dead letters."
    AlreadyEnded "already_ended" CONFLICT "Task has ended"
        "The task has ended already, so it cannot be cancelled any more."
        "Nothing is left to do; `GET` the task to see how it ended."
    NotFound "not_found" NOT_FOUND "Not found"
        "There is nothing at this path, with any method."
        "Check the path against `/openapi.json`."
    MethodNotAllowed "method_not_allowed" METHOD_NOT_ALLOWED "Method not allowed"
        "The path exists, and does not take this method. The `Allow` header lists those it takes."
        "Check the method against `/openapi.json`."
    InvalidCursor "invalid_cursor" BAD_REQUEST "Invalid cursor"
        "The cursor was not made by this server, or for another list or filter."
        "Use `nextCursor` of the page before, unchanged and with the same filter, or begin without a cursor."
    TooManyLanes "too_many_lanes" TOO_MANY_REQUESTS "Too many lanes"
        "The task would open a lane for one more dependency, and there are as many as the server keeps."
        "Give tasks that belong together the same `dependency`, or wait until idle lanes are gone."
    Overloaded "overloaded" SERVICE_UNAVAILABLE "Overloaded"
        "The server has more requests in hand than it can finish in time and did not begin this one; nothing was stored."
        "Send it again after `Retry-After`, with the same idempotency key and with jitter."
    StorageFull "storage_full" SERVICE_UNAVAILABLE "No room for new tasks"
        "The store's disk, its file or its memory is nearly full, and what is left is kept for tasks that are stored already. They go on; nothing was stored of these."
        "Send it again after `Retry-After`, with the same idempotency key; the operator makes room, or keeps less (`[retention]`)."
    StoreUnavailable "store_unavailable" SERVICE_UNAVAILABLE "Store unavailable"
        "The store could not be reached or did not confirm in time. Whether the request was stored may be unknown; the idempotency key makes it safe to send it again."
        "Send it again after `Retry-After`, with the same idempotency key."
    Draining "draining" SERVICE_UNAVAILABLE "Shutting down"
        "The server is shutting down and takes no new work; nothing was stored."
        "Send it again after `Retry-After`: to another node, or to this one when it is back."
    Internal "internal" INTERNAL_SERVER_ERROR "Internal error"
        "Something went wrong inside the server. What exactly stands in its log and never in an answer."
        "Send it again with the same idempotency key; if it happens again, give the operator the time of the request."
}

impl Code {
    /// What `type` holds: the address of its help page.
    pub fn type_uri(self) -> String {
        ["https://relent.dev/problems/", self.name()].concat()
    }

    /// After how many seconds trying again makes sense, where it does.
    pub const fn retry_after_secs(self) -> Option<u32> {
        match self {
            Code::KeyInProgress | Code::Overloaded => Some(1),
            Code::StoreUnavailable => Some(2),
            Code::Draining => Some(5),
            Code::StorageFull => Some(30),
            Code::TooManyLanes => Some(60),
            _ => None,
        }
    }
}

impl std::fmt::Display for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for Code {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Code, UnknownName> {
        let found = Code::ALL.iter().copied().find(|code| code.name() == text);
        found.ok_or_else(|| UnknownName::new("the code of a problem", text, Code::NAMES))
    }
}

impl serde::Serialize for Code {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> serde::Deserialize<'de> for Code {
    fn deserialize<D: serde::Deserializer<'de>>(reader: D) -> Result<Code, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(reader)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_complete_and_its_name_its_own() {
        for (index, code) in Code::ALL.iter().enumerate() {
            assert_eq!(code.name().parse(), Ok(*code));
            assert!(Code::ALL[..index].iter().all(|other| other.title() != code.title()));
            assert!(code.name().bytes().all(|it| it == b'_' || it.is_ascii_lowercase()));
            for text in [code.explanation(), code.advice()] {
                assert!(text.ends_with('.') && text.len() > 30, "{code}: {text}");
            }
        }
    }

    #[test]
    fn what_is_worth_repeating_says_when() {
        for code in Code::ALL {
            if code.status() == StatusCode::SERVICE_UNAVAILABLE {
                assert!(code.retry_after_secs().is_some(), "{code}");
            }
        }
        assert_eq!(Code::KeyInProgress.retry_after_secs(), Some(1));
    }
}
