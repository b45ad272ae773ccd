//! What an attempt came to, and the body of the response that comes back. REQ-G2.

use std::pin::Pin;
use std::task::{Context, Poll};

use http::Response;
use http::header::CONTENT_LENGTH;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use relent_policy::{Hint, Outcome, Timestamp};

use super::strategy::ClassifyError;
use crate::judge::Judge;

pin_project! {
    /// The body of a response, as the service made it.
    ///
    /// It is gone in one case. A response that is going to be retried loses its body before the wait,
    /// because a body holds a connection. If the retry is then not let through, because the breaker
    /// has opened meanwhile or too many attempts are in flight, that response is what the caller
    /// gets: its status and headers, and a body that is empty.
    ///
    /// ```
    /// use http_body_util::{BodyExt, Full};
    /// use relent::tower::ResponseBody;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let body = ResponseBody::new(Full::<&[u8]>::from("twelve".as_bytes()));
    /// assert_eq!(body.collect().await.unwrap().to_bytes(), "twelve");
    /// # }
    /// ```
    #[derive(Clone, Debug)]
    pub struct ResponseBody<B> {
        #[pin]
        body: Option<B>,
    }
}

impl<B> ResponseBody<B> {
    /// A body that is there.
    pub fn new(body: B) -> ResponseBody<B> {
        ResponseBody { body: Some(body) }
    }

    /// The service's own body; `None` if it is gone.
    ///
    /// ```
    /// use relent::tower::ResponseBody;
    ///
    /// assert_eq!(ResponseBody::new("twelve").into_inner(), Some("twelve"));
    /// ```
    pub fn into_inner(self) -> Option<B> {
        self.body
    }
}

impl<B: Body> Body for ResponseBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        match self.project().body.as_pin_mut() {
            Some(body) => body.poll_frame(cx),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

/// What an attempt came to, with all that is needed to judge it.
pub(super) struct Answer<B, E, K> {
    pub(super) result: Result<Response<ResponseBody<B>>, E>,
    pub(super) classify: K,
    /// Whether there is no body left for another attempt.
    pub(super) is_last: bool,
}

impl<B, E, K> Answer<B, E, K> {
    /// The same without the response's body, and without the header that would promise one.
    pub(super) fn without_body(mut self) -> Self {
        self.result = self.result.map(|response| {
            let mut response = response.map(|_| ResponseBody { body: None });
            response.headers_mut().remove(CONTENT_LENGTH);
            response
        });
        self
    }
}

impl<B, E, K: ClassifyError<E>> Judge for Answer<B, E, K> {
    fn judge(&self, now: Timestamp) -> Outcome {
        let outcome = match &self.result {
            Ok(response) => response.judge(now),
            Err(error) => Outcome::Failure(self.classify.classify(error, now)),
        };
        match outcome {
            Outcome::Failure(mut failure) if self.is_last => {
                failure.hint = Hint::Stop;
                Outcome::Failure(failure)
            }
            outcome => outcome,
        }
    }
}
