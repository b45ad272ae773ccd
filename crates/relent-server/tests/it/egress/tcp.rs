//! Before the request: names, addresses and connections. REQ-C3, REQ-P4.

use std::time::Duration;

use relent_policy::Fault;
use relent_server::egress::{AddressRules, EgressRules, Outgoing, Profile};

use super::servers::{FullQueue, OK, Peer, Server, answering, closed_port};
use super::{SHORT, egress, egress_with, fault, get, send};

#[tokio::test]
async fn a_name_that_does_not_resolve_is_dns() {
    let dns_timeout = Duration::from_secs(2);
    let egress = egress_with(EgressRules { dns_timeout, ..EgressRules::default() });
    // No label may be that long, so nobody has to be asked.
    let too_long = format!("http://{}.invalid/", "n".repeat(64));
    for url in ["http://nx.invalid/", "https://nx.invalid/", &too_long] {
        let answer = send(&egress, get(url)).await;
        assert_eq!(fault(&answer), Fault::Dns, "{url}");
        assert!(answer.phases.dns.is_some() && answer.phases.connect.is_none(), "{answer:?}");
    }
}

#[tokio::test]
async fn a_name_has_no_more_time_than_it_is_given() {
    let dns_timeout = Duration::ZERO;
    let egress = egress_with(EgressRules { dns_timeout, ..EgressRules::default() });
    assert_eq!(fault(&send(&egress, get("http://nx.invalid/")).await), Fault::Dns);
}

#[tokio::test]
async fn a_name_is_resolved_and_called() {
    let server = answering(OK).await;
    let url = format!("http://localhost:{}/", server.address.port());
    let answer = send(&egress(), get(&url)).await;
    assert_eq!(answer.status, Some(200));
    assert!(answer.phases.dns.is_some() && answer.phases.connect.is_some(), "{answer:?}");
}

#[tokio::test]
async fn metadata_is_blocked_however_it_is_written() {
    let urls = [
        "http://169.254.169.254/latest/meta-data/",
        "https://169.254.169.254/",
        "http://[fe80::1]/",
        "http://[fd00:ec2::254]/",
        "http://[::ffff:169.254.169.254]/",
        "http://[::ffff:a9fe:a9fe]/",
        "http://[64:ff9b::a9fe:a9fe]/",
        "http://0.0.0.0/",
        "http://2852039166/",
        "http://0xa9fea9fe/",
        "http://0xa9.254.43518/",
        "http://0251.0376.0251.0376/",
    ];
    for url in urls {
        let answer = send(&egress(), get(url)).await;
        assert_eq!(fault(&answer), Fault::Blocked, "{url}");
        assert_eq!(answer.phases.connect, None, "{url} was dialled");
    }
}

#[tokio::test]
async fn the_public_profile_does_not_call_this_machine() {
    let server = answering(OK).await;
    let addresses = AddressRules { profile: Profile::Public, ..AddressRules::default() };
    let egress = egress_with(EgressRules { addresses, ..EgressRules::default() });
    let port = server.address.port();
    for host in ["127.0.0.1", "127.1", "2130706433", "localhost", "[::1]", "[::ffff:7f00:1]"] {
        let answer = send(&egress, get(&format!("http://{host}:{port}/"))).await;
        assert_eq!(fault(&answer), Fault::Blocked, "{host}");
    }
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn what_is_allowed_by_name_of_its_range_is_called() {
    let server = answering(OK).await;
    let profile = Profile::Public;
    let allow = vec!["127.0.0.0/8".parse().unwrap()];
    let addresses = AddressRules { profile, allow, deny: Vec::new() };
    let egress = egress_with(EgressRules { addresses, ..EgressRules::default() });
    assert_eq!(send(&egress, get(&server.http())).await.status, Some(200));
}

#[tokio::test]
async fn a_closed_port_is_connect_refused() {
    for scheme in ["http", "https"] {
        let address = closed_port().await;
        let answer = send(&egress(), get(&format!("{scheme}://{address}/"))).await;
        assert_eq!(fault(&answer), Fault::ConnectRefused);
        let answer = send(&egress(), get(&format!("http://localhost:{}/", address.port()))).await;
        assert_eq!(fault(&answer), Fault::ConnectRefused, "at every address of the name");
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn tcp_that_does_not_connect_in_time_is_connect_timeout() {
    let peer = FullQueue::start().await;
    for scheme in ["http", "https"] {
        let request = get(&format!("{scheme}://{}/", peer.address));
        let impatient = Outgoing { connect_timeout: SHORT, ..request.clone() };
        assert_eq!(fault(&send(&egress(), impatient).await), Fault::ConnectTimeout);
        let hasty = Outgoing { attempt_timeout: SHORT, ..request };
        assert_eq!(fault(&send(&egress(), hasty).await), Fault::ConnectTimeout);
    }
}

#[tokio::test]
async fn a_reset_on_accept_is_a_reset() {
    let server = Server::start(async |peer: Peer| peer.reset()).await;
    for _ in 0..20 {
        let fault = fault(&send(&egress(), get(&server.http())).await);
        // Whether the request had been written by then is a race that the client sees either end of.
        assert!(matches!(fault, Fault::ConnectReset | Fault::Reset), "{fault:?}");
    }
    assert_eq!(server.connections(), 20, "one for each attempt");
}

#[tokio::test]
async fn what_cannot_be_called_is_configuration() {
    let rows = ["/path", "ftp://localhost/", "http://user:secret@localhost/", "http://h:99999/"];
    for url in rows {
        assert_eq!(fault(&send(&egress(), get(url)).await), Fault::Configuration, "{url}");
    }
    let connect = Outgoing { method: ::http::Method::CONNECT, ..get("http://localhost/") };
    assert_eq!(fault(&send(&egress(), connect).await), Fault::Configuration);
}
