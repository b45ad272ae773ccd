//! Where a request goes: a target's address parsed once, and the head of the request. REQ-P4.
//!
//! What frames a message is ours alone: whoever decides where a request ends can hide a second one
//! inside it. The API refuses such headers with an explanation; here they are taken out, whoever let
//! them through.

use std::net::IpAddr;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, Uri};
use http_body_util::Full;
use relent_policy::Fault;
use rustls::pki_types::ServerName;

/// The server behind a URL: everything of it that connections have in common.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) host: Host,
    pub(super) port: u16,
    /// For TLS, who the peer has to prove to be.
    pub(super) server_name: Option<ServerName<'static>>,
    /// The `Host` header: without the port when the scheme implies it.
    pub(super) authority: HeaderValue,
}

#[derive(Debug)]
pub(super) enum Host {
    Name(Box<str>),
    Address(IpAddr),
}

impl Target {
    /// Reads a URL. What is not to be called that way is a fault of the configuration.
    pub(super) fn read(uri: &Uri) -> Result<Target, Fault> {
        let tls = is_tls(uri)?;
        let authority = uri.authority().ok_or(Fault::Configuration)?.as_str();
        let host = uri.host().unwrap_or_default();
        // Credentials do not belong into a URL, which is logged and compared.
        let port = authority.strip_prefix(host).ok_or(Fault::Configuration)?;
        let default_port = if tls { 443 } else { 80 };
        let port = match port.strip_prefix(':').unwrap_or(port) {
            "" => default_port,
            digits => digits.parse().map_err(|_| Fault::Configuration)?,
        };
        let literal = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let bare = literal.unwrap_or(host);
        let host_parsed = match bare.parse() {
            Ok(address) => Host::Address(address),
            Err(_) if literal.is_some() || bare.is_empty() => return Err(Fault::Configuration),
            Err(_) => Host::Name(bare.into()),
        };
        let server_name = tls.then(|| server_name(&host_parsed)).transpose()?;
        let authority = if port == default_port {
            HeaderValue::from_str(host)
        } else {
            HeaderValue::from_str(&format!("{host}:{port}"))
        };
        let authority = authority.map_err(|_| Fault::Configuration)?;
        Ok(Target { host: host_parsed, port, server_name, authority })
    }
}

/// Whether a URL is to be called over TLS.
pub(super) fn is_tls(uri: &Uri) -> Result<bool, Fault> {
    match uri.scheme_str() {
        Some("https") => Ok(true),
        Some("http") => Ok(false),
        _ => Err(Fault::Configuration),
    }
}

fn server_name(host: &Host) -> Result<ServerName<'static>, Fault> {
    match host {
        Host::Address(address) => Ok(ServerName::IpAddress((*address).into())),
        Host::Name(name) => {
            let name = name.strip_suffix('.').unwrap_or(name);
            ServerName::try_from(name.to_owned()).map_err(|_| Fault::Configuration)
        }
    }
}

/// The request as it goes out. The path keeps its bytes; hyper counts the body's.
pub(super) fn request(
    target: &Target,
    method: Method,
    uri: Uri,
    mut headers: HeaderMap,
    body: Bytes,
) -> Result<Request<Full<Bytes>>, Fault> {
    const USER_AGENT: HeaderValue =
        HeaderValue::from_static(concat!("relent/", env!("CARGO_PKG_VERSION")));
    if method == Method::CONNECT {
        return Err(Fault::Configuration);
    }
    if headers.keys().any(|name| OURS.contains(name)) {
        for name in OURS {
            headers.remove(name);
        }
    }
    headers.insert(header::HOST, target.authority.clone());
    headers.entry(header::USER_AGENT).or_insert(USER_AGENT);
    // Servers may answer 411 to such a request without it, and hyper leaves it out.
    if body.is_empty() && matches!(method, Method::POST | Method::PUT | Method::PATCH) {
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from_static("0"));
    }
    let path = uri.into_parts().path_and_query;
    let mut request = Request::new(Full::new(body));
    *request.method_mut() = method;
    *request.uri_mut() = path.map_or_else(Uri::default, Uri::from);
    *request.headers_mut() = headers;
    Ok(request)
}

/// Headers about the connection and the framing.
const OURS: [HeaderName; 11] = [
    header::HOST,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::CONNECTION,
    header::TE,
    header::TRAILER,
    header::UPGRADE,
    header::EXPECT,
    header::PROXY_AUTHORIZATION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn read(uri: &str) -> Result<(String, u16, String), Fault> {
        let target = Target::read(&uri.parse().unwrap())?;
        let host = match target.host {
            Host::Name(name) => name.into(),
            Host::Address(address) => address.to_string(),
        };
        Ok((host, target.port, target.authority.to_str().unwrap().to_owned()))
    }

    #[test]
    fn a_url_says_where_to_go() {
        let rows = [
            ("http://example.com", "example.com", 80, "example.com"),
            ("https://example.com:443/", "example.com", 443, "example.com"),
            ("https://example.com:80/", "example.com", 80, "example.com:80"),
            ("http://example.com:/", "example.com", 80, "example.com"),
            ("http://[::1]:8080/", "::1", 8080, "[::1]:8080"),
            ("https://127.0.0.1/", "127.0.0.1", 443, "127.0.0.1"),
            ("https://example.com./", "example.com.", 443, "example.com."),
        ];
        for (uri, host, port, authority) in rows {
            assert_eq!(read(uri), Ok((host.to_owned(), port, authority.to_owned())), "{uri}");
        }
    }

    #[test]
    fn what_cannot_be_called_is_configuration() {
        let rows = [
            "/path",
            "example.com:80",
            "ftp://example.com/",
            "http://user:secret@example.com/",
            "http://user@example.com/",
            "http://example.com:99999/",
            "http://[::1%25eth0]/",
            "https://-/",
        ];
        for uri in rows {
            let Ok(parsed) = uri.parse::<Uri>() else { continue };
            assert!(Target::read(&parsed).is_err(), "{uri}");
        }
    }

    fn built(method: Method, headers: &[(&str, &str)], body: &'static str) -> HeaderMap {
        let uri: Uri = "http://example.com:8080?q=1".parse().unwrap();
        let target = Target::read(&uri).unwrap();
        let given = headers
            .iter()
            .map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_str(value).unwrap()))
            .collect();
        let request = request(&target, method, uri, given, body.into()).unwrap();
        assert_eq!(request.uri().to_string(), "/?q=1");
        request.into_parts().0.headers
    }

    #[test]
    fn framing_is_ours_and_the_rest_is_the_callers() {
        let given = [
            ("host", "elsewhere"),
            ("content-length", "7"),
            ("transfer-encoding", "chunked"),
            ("connection", "x-hop"),
            ("expect", "100-continue"),
            ("idempotency-key", "k"),
        ];
        let headers = built(Method::POST, &given, "body");
        assert_eq!(headers["host"], "example.com:8080");
        assert_eq!(headers["idempotency-key"], "k");
        assert_eq!(headers["user-agent"], concat!("relent/", env!("CARGO_PKG_VERSION")));
        assert_eq!(headers.len(), 3);
    }

    #[test]
    fn a_post_of_nothing_says_so() {
        assert_eq!(built(Method::POST, &[], "")["content-length"], "0");
        let get = built(Method::GET, &[("user-agent", "mine")], "");
        assert_eq!(get["user-agent"], "mine");
        assert_eq!(get.len(), 2);
    }
}
