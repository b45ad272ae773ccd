//! The request of a call: whether it may be sent twice, and what each attempt sends.
//! REQ-I1, REQ-I2, REQ-S10.

use http::header::{CONTENT_TYPE, HeaderValue};
use http::{HeaderName, Request, request::Parts};
use relent_policy::{Hop, IdempotencyKey, Repeatable};
use uuid::Uuid;

use super::Keys;
use super::strategy::Replay;
use crate::attempt::Attempt;
use crate::call::Options;
use crate::hop::{GRPC_PREVIOUS_ATTEMPTS, IDEMPOTENCY_KEY, RETRY_ATTEMPT, RETRY_MAX_ATTEMPTS};

/// A request that is sent as often as its call has attempts.
pub(super) struct Outgoing<B> {
    parts: Parts,
    /// The body it came with, until the first attempt sends it.
    body: Option<B>,
    /// A copy for the next attempt.
    spare: Option<B>,
    may_repeat: bool,
}

impl<B> Outgoing<B> {
    /// Makes a request ready, and says what the call is to know about it.
    pub(super) fn new(
        request: Request<B>,
        declared: Repeatable,
        keys: Keys,
        replay: &impl Replay<B>,
    ) -> (Outgoing<B>, Options) {
        let (mut parts, body) = request.into_parts();
        let by_method = Repeatable::by_method(parts.method.as_str(), None);
        let key = key_of(&mut parts, by_method, keys);
        let declared = if declared == Repeatable::No { by_method } else { declared };
        let hop = parts.extensions.get().copied().unwrap_or_else(crate::hop::current);

        let is_safe = declared != Repeatable::No || key.is_some();
        let spare = if is_safe && hop == Hop::Retries { replay.replay(&body) } else { None };
        let may_repeat = spare.is_some();
        let mut options = Options { hop: Some(hop), ..Options::default() };
        // What cannot be sent twice has neither: without them the engine makes one attempt.
        if may_repeat || hop == Hop::RetriedAbove {
            options.declared = declared;
            options.key = key;
        }
        (Outgoing { parts, body: Some(body), spare, may_repeat }, options)
    }

    /// What this attempt sends; and whether it must be the last although others are allowed, because
    /// the body cannot be copied once more.
    pub(super) fn request(
        &mut self,
        attempt: &Attempt<'_>,
        replay: &impl Replay<B>,
    ) -> (Request<B>, bool) {
        let body = self.body.take().or_else(|| self.spare.take());
        let body = body.expect("an attempt without a spare body is the last");
        let mut is_last = false;
        if self.may_repeat && self.spare.is_none() && attempt.number() < attempt.max() {
            self.spare = replay.replay(&body);
            is_last = self.spare.is_none();
        }
        let mut request = Request::from_parts(self.parts.clone(), body);
        let number = attempt.number();
        let max = if self.may_repeat { attempt.max() } else { 1 };
        let is_grpc = is_grpc(&request);
        let headers = request.headers_mut();
        headers.insert(HeaderName::from_static(RETRY_ATTEMPT), HeaderValue::from(number));
        headers.insert(HeaderName::from_static(RETRY_MAX_ATTEMPTS), HeaderValue::from(max));
        if is_grpc && number > 1 {
            let name = HeaderName::from_static(GRPC_PREVIOUS_ATTEMPTS);
            headers.insert(name, HeaderValue::from(number - 1));
        }
        (request, is_last)
    }
}

/// The key that the request carries, or gets now. One that no receiver could be sure to tell from
/// others (too long, or with odd characters) is sent as it is and does not count.
fn key_of(parts: &mut Parts, by_method: Repeatable, keys: Keys) -> Option<IdempotencyKey> {
    if let Some(value) = parts.headers.get(IDEMPOTENCY_KEY) {
        return value.to_str().ok().and_then(|text| IdempotencyKey::try_new(text).ok());
    }
    if keys == Keys::FromCaller || by_method != Repeatable::No {
        return None;
    }
    let mut text = [0; 36];
    let text: &str = Uuid::new_v4().hyphenated().encode_lower(&mut text);
    let value = HeaderValue::from_str(text).expect("a UUID is ASCII");
    parts.headers.insert(HeaderName::from_static(IDEMPOTENCY_KEY), value);
    IdempotencyKey::try_new(text).ok()
}

fn is_grpc<B>(request: &Request<B>) -> bool {
    let kind = request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    kind.is_some_and(|kind| kind.starts_with("application/grpc"))
}
