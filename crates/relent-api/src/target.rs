//! Where a task goes: an http or https URL that says nothing it should not. REQ-S1, REQ-P4.
//!
//! The text is parsed once, and what is kept is the parser's own serialisation, so that nobody
//! later reads it differently. Which addresses may be called is not decided here: names resolve to
//! other addresses tomorrow, so the connector vets what it dials.

use std::fmt;

use url::{Position, Url};

use crate::limits::Limits;
use crate::problem::{Problem, shown};
use crate::report::{Report, Wrong};

/// Where a task goes.
///
/// ```
/// use relent_api::{Limits, Target};
///
/// let target = Target::parse("https://api.example.com:443/hooks?id=7", &Limits::default())?;
/// assert_eq!(target.as_str(), "https://api.example.com/hooks?id=7");
/// assert_eq!(target.dependency(), "https://api.example.com");
/// assert!(Target::parse("https://user:secret@example.com/", &Limits::default()).is_err());
/// # Ok::<(), relent_api::Problem>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Target(Url);

impl Target {
    /// Takes a URL.
    ///
    /// # Errors
    ///
    /// When it is too long, no URL, not http or https, or has a user name, password or fragment.
    pub fn parse(text: &str, limits: &Limits) -> Result<Target, Problem> {
        let mut report = Report::default();
        let target = report.keep("/targetUrl", Target::read(text, limits));
        report.finish(target)
    }

    pub(crate) fn read(text: &str, limits: &Limits) -> Result<Target, Wrong> {
        let max = limits.url_bytes_max;
        let too_long = |length: usize| {
            Wrong::new(format!("{length} bytes"), format!("a URL of at most {max} bytes"))
        };
        if text.len() > max {
            return Err(too_long(text.len()));
        }
        // The parser would quietly drop them.
        if text.bytes().any(|byte| byte <= b' ' || byte == b'\\' || byte == 0x7f) {
            return Err(Wrong::new(
                "a URL with a space, a control character or a backslash",
                "a URL without them",
            )
            .fix("percent-encode them"));
        }
        let scheme = text.split_once("://").map_or("", |(scheme, _)| scheme);
        if !scheme.eq_ignore_ascii_case("https") && !scheme.eq_ignore_ascii_case("http") {
            return Err(Wrong::new(telling(text), "a URL that begins with https:// or http://"));
        }
        let mut url = Url::parse(text)
            .map_err(|error| Wrong::new(telling(text), format!("a URL ({error})")))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Wrong::new("a URL with a user name or password", "a URL without them")
                .fix("send credentials in the authorization header"));
        }
        if url.fragment().is_some() {
            return Err(Wrong::new("a URL with a fragment", "a URL without `#`")
                .fix("leave the fragment out: it would never be sent"));
        }
        if url.port() == Some(0) {
            return Err(Wrong::new("port 0", "a URL with a port from 1 to 65535"));
        }
        // `example.com.` is `example.com`, and must not be a lane of its own.
        if let Some(host) = url.host_str().and_then(|host| host.strip_suffix('.')) {
            let host = host.to_owned();
            if url.set_host(Some(&host)).is_err() {
                return Err(Wrong::new(telling(text), "a URL with a host"));
            }
        }
        if url.as_str().len() > max {
            return Err(too_long(url.as_str().len()));
        }
        Ok(Target(url))
    }

    /// The URL as it is kept and called.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// The dependency it belongs to where the task names none: scheme, host and port.
    pub fn dependency(&self) -> &str {
        &self.0[..Position::AfterPort]
    }

    /// The parsed URL.
    pub fn url(&self) -> &Url {
        &self.0
    }
}

/// As much of a URL as a message may show: nothing where credentials could be.
fn telling(text: &str) -> String {
    match text.split(['?', '#']).next() {
        Some(shown_part) if !shown_part.contains('@') => shown(&format!("{shown_part:?}")),
        _ => crate::json::text_of(text.len()),
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Target {
    /// Paths and queries may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Target").field(&self.dependency()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Target, Problem> {
        Target::parse(text, &Limits::default())
    }

    #[test]
    fn targets_are_kept_as_the_parser_writes_them() {
        let cases = [
            ("https://Example.COM", "https://example.com/", "https://example.com"),
            ("HTTP://a.b:80/c", "http://a.b/c", "http://a.b"),
            ("http://a.b:8080?q=ä", "http://a.b:8080/?q=%C3%A4", "http://a.b:8080"),
            ("https://a.b./c", "https://a.b/c", "https://a.b"),
            ("http://127.1/x", "http://127.0.0.1/x", "http://127.0.0.1"),
            ("http://[::1]:9/x", "http://[::1]:9/x", "http://[::1]:9"),
            (
                "https://bücher.example/",
                "https://xn--bcher-kva.example/",
                "https://xn--bcher-kva.example",
            ),
        ];
        for (text, kept, dependency) in cases {
            let target = read(text).unwrap();
            assert_eq!((target.as_str(), target.dependency()), (kept, dependency), "{text}");
        }
    }

    #[test]
    fn what_is_no_target_is_refused() {
        let long = format!("https://a.b/{}", "x".repeat(2_048));
        let long_when_encoded = format!("https://a.b/{}", "ä".repeat(900));
        let cases = [
            ("", "https:// or http://"),
            ("example.com/hooks", "https:// or http://"),
            ("ftp://example.com", "https:// or http://"),
            ("file:///etc/passwd", "https:// or http://"),
            ("http:example.com", "https:// or http://"),
            ("https://", "a URL (empty host)"),
            ("https://a.b:70000/", "a URL (invalid port number)"),
            ("http://a.b:0/", "a port from 1 to 65535"),
            ("https://u:p@a.b/", "a URL without them"),
            ("https://u@a.b/", "a URL without them"),
            ("https://a.b/#top", "a URL without `#`"),
            ("https://a.b/a b", "a URL without them"),
            ("https://a.b\\c", "a URL without them"),
            ("https://a\n.b/", "a URL without them"),
            ("http://[fe80::1%25eth0]/", "a URL ("),
            ("https://./", "a URL"),
            (&long, "at most 2048 bytes"),
            (&long_when_encoded, "at most 2048 bytes"),
        ];
        for (text, expected) in cases {
            let error = read(text).unwrap_err().errors.remove(0);
            assert!(error.expected.contains(expected), "{text}: {error:?}");
        }
    }

    #[test]
    fn no_message_shows_credentials_or_queries() {
        for text in [
            "ftp://u:hunter2@a.b/",
            "x.y?token=hunter2",
            "https://u:hunter2@[/",
            "https://a.b:x/?hunter2",
        ] {
            let problem = serde_json::to_string(&read(text).unwrap_err()).unwrap();
            assert!(!problem.contains("hunter2"), "{problem}");
        }
        let target = read("https://a.b/hooks/hunter2?k=hunter2").unwrap();
        assert!(!format!("{target:?}").contains("hunter2"));
    }
}
