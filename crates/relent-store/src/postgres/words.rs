//! What a URL says about TLS in libpq's words, for a client that does not know all of them.
//!
//! libpq's `require` takes any certificate, `verify-ca` any name; relent verifies both whenever there is
//! TLS, so that these and `verify-full` come to the same. `allow`, which would rather do without, is
//! taken as `prefer`. `sslrootcert` is a file, or `system`. REQ-S7.

use std::path::PathBuf;

/// A URL in words that the client knows, and what it does not know.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Words {
    pub(super) url: String,
    /// Whom to trust.
    pub(super) root_certificates: Option<PathBuf>,
}

/// Reads a connection string. A list of `key=value` pairs is left as it is.
pub(super) fn read(text: &str) -> Words {
    let unchanged = || Words { url: text.to_owned(), root_certificates: None };
    if !text.starts_with("postgres://") && !text.starts_with("postgresql://") {
        return unchanged();
    }
    // A password may have a question mark in it.
    let host = text.find('@').unwrap_or_default();
    let Some(query) = text[host..].find('?').map(|at| host + at) else { return unchanged() };
    let mut root_certificates = None;
    let mut known = Vec::new();
    for pair in text[query + 1..].split('&') {
        known.push(match pair.split_once('=') {
            Some(("sslmode", "verify-ca" | "verify-full")) => "sslmode=require",
            Some(("sslmode", "allow")) => "sslmode=prefer",
            Some(("sslrootcert", file)) => {
                root_certificates = (file != "system").then(|| decoded(file).into());
                continue;
            }
            _ => pair,
        });
    }
    let mark = if known.is_empty() { "" } else { "?" };
    Words { url: format!("{}{mark}{}", &text[..query], known.join("&")), root_certificates }
}

/// Without `%2F` and the like. What is no such thing stays as it is.
fn decoded(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((first, after)) = rest.split_first() {
        let code = after.get(..2).and_then(|code| std::str::from_utf8(code).ok());
        let is_hex = |code: &&str| code.bytes().all(|byte| byte.is_ascii_hexdigit());
        let code = code.filter(|_| *first == b'%').filter(is_hex);
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn is_read_as(text: &str, url: &str, file: Option<&str>) {
        let read = read(text);
        assert_eq!((read.url.as_str(), read.root_certificates), (url, file.map(PathBuf::from)));
    }

    #[test]
    fn words_of_libpq_are_those_of_the_client() {
        is_read_as("postgres://a/b", "postgres://a/b", None);
        is_read_as("postgres://a/b?sslmode=verify-full", "postgres://a/b?sslmode=require", None);
        is_read_as(
            "postgresql://u:p?@a/b?connect_timeout=3&sslmode=verify-ca",
            "postgresql://u:p?@a/b?connect_timeout=3&sslmode=require",
            None,
        );
        is_read_as("postgres://a/b?sslmode=allow", "postgres://a/b?sslmode=prefer", None);
        is_read_as("postgres://a/b?sslmode=disable", "postgres://a/b?sslmode=disable", None);
        is_read_as("postgres://a/b?sslmode=bogus", "postgres://a/b?sslmode=bogus", None);
        is_read_as("host=a sslmode=prefer", "host=a sslmode=prefer", None);
    }

    #[test]
    fn a_url_may_name_whom_to_trust() {
        is_read_as("postgres://a?sslrootcert=/c.pem", "postgres://a", Some("/c.pem"));
        is_read_as(
            "postgres://a?sslrootcert=%2Fa%20b%2fc%.pem&sslmode=require",
            "postgres://a?sslmode=require",
            Some("/a b/c%.pem"),
        );
        is_read_as("postgres://a?sslrootcert=system", "postgres://a", None);
    }
}
