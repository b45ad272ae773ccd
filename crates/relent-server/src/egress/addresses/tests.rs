//! Addresses that have got past somebody's guard, and their neighbours that must get through.

use super::*;

fn rules(profile: Profile) -> AddressRules {
    AddressRules { profile, ..AddressRules::default() }
}

fn range(text: &str) -> Cidr {
    text.parse().unwrap()
}

/// Asserts what both profiles say, as (address, public, internal).
#[track_caller]
fn assert_allowed(rows: &[(&str, bool, bool)]) {
    for (address, public, internal) in rows {
        let parsed = address.parse().unwrap();
        assert_eq!(rules(Profile::Public).allows(parsed), *public, "{address} from outside");
        assert_eq!(rules(Profile::Internal).allows(parsed), *internal, "{address} from inside");
    }
}

#[test]
fn the_internet_is_open_to_all() {
    assert_allowed(&[
        ("1.1.1.1", true, true),
        ("8.8.8.8", true, true),
        ("100.63.255.255", true, true),
        ("100.128.0.0", true, true),
        ("172.15.255.255", true, true),
        ("172.32.0.0", true, true),
        ("192.0.1.0", true, true),
        ("198.17.255.255", true, true),
        ("223.255.255.255", true, true),
        ("2606:4700::1111", true, true),
        ("2001:4860:4860::8888", true, true),
        ("2001:200::1", true, true),
    ]);
}

#[test]
fn private_networks_and_this_machine_are_for_those_inside() {
    assert_allowed(&[
        ("127.0.0.1", false, true),
        ("127.255.255.254", false, true),
        ("10.0.0.1", false, true),
        ("172.16.0.1", false, true),
        ("172.31.255.255", false, true),
        ("192.168.1.1", false, true),
        ("100.64.0.1", false, true),
        ("192.0.0.1", false, true),
        ("192.0.2.1", false, true),
        ("192.88.99.1", false, true),
        ("198.18.0.1", false, true),
        ("198.51.100.1", false, true),
        ("203.0.113.1", false, true),
        ("240.0.0.1", false, true),
        ("::1", false, true),
        ("fd12::1", false, true),
        ("fc00::1", false, true),
        ("fec0::1", false, true),
        ("2001:db8::1", false, true),
        ("2001:20::1", false, true),
        ("3fff::1", false, true),
        ("5f00::1", false, true),
        ("4000::1", false, true),
    ]);
}

#[test]
fn metadata_and_what_is_no_host_is_for_nobody() {
    let never = [
        "0.0.0.0",
        "0.1.2.3",
        "169.254.169.254",
        "169.254.170.2",
        "100.100.100.200",
        "192.0.0.192",
        "168.63.129.16",
        "224.0.0.1",
        "239.255.255.255",
        "255.255.255.255",
        "::",
        "fe80::1",
        "febf::1",
        "ff02::1",
        "fd00:ec2::254",
        "fd20:ce::254",
        "64:ff9b:1::1",
    ];
    for address in never {
        assert_allowed(&[(address, false, false)]);
    }
}

#[test]
fn an_address_inside_an_address_is_judged_too() {
    assert_allowed(&[
        // Mapped, and translated: that is where the packets go.
        ("::ffff:127.0.0.1", false, true),
        ("::ffff:8.8.8.8", true, true),
        ("::ffff:169.254.169.254", false, false),
        ("64:ff9b::10.0.0.1", false, true),
        ("64:ff9b::8.8.8.8", true, true),
        ("64:ff9b::169.254.169.254", false, false),
        // Tunnels: nobody on the internet needs them.
        ("::8.8.8.8", false, true),
        ("::169.254.169.254", false, false),
        ("2002:0808:0808::1", false, true),
        ("2002:a9fe:a9fe::1", false, false),
        ("2001:0:1234::5601:5601", false, false),
        ("2001:0:1234::f7f7:f7f7", false, true),
        ("2606:4700::5efe:169.254.169.254", false, false),
        ("2606:4700::200:5efe:10.0.0.1", false, true),
    ]);
}

#[test]
fn lists_go_before_the_profile_and_denial_before_permission() {
    let rules = AddressRules {
        profile: Profile::Public,
        allow: vec![range("10.0.0.0/8"), range("169.254.0.0/16"), range("64:ff9b:1::/48")],
        deny: vec![range("10.9.0.0/16"), range("8.8.8.8")],
    };
    let rows = [
        ("10.1.1.1", true),
        ("::ffff:10.1.1.1", true),
        ("64:ff9b::10.1.1.1", true),
        ("64:ff9b:1::1", true),
        ("10.9.1.1", false),
        ("::ffff:10.9.1.1", false),
        ("8.8.8.8", false),
        ("8.8.4.4", true),
        ("169.254.169.254", false),
        ("127.0.0.1", false),
    ];
    for (address, allowed) in rows {
        assert_eq!(rules.allows(address.parse().unwrap()), allowed, "{address}");
    }
}

#[test]
fn ranges_are_read_and_written() {
    let rows = [
        ("10.1.2.3/8", "10.0.0.0/8"),
        ("10.1.2.3", "10.1.2.3/32"),
        ("0.0.0.0/0", "0.0.0.0/0"),
        ("::/0", "::/0"),
        ("fd12:3456::1/16", "fd12::/16"),
        ("::1", "::1/128"),
    ];
    for (text, written) in rows {
        assert_eq!(range(text).to_string(), written);
        assert_eq!(range(written), range(text));
    }
    for text in ["", "10.0.0.0/33", "::/129", "10.0.0/8", "10.0.0.0/", "10.0.0.0/-1", "host/8"] {
        assert_eq!(text.parse::<Cidr>(), Err(NotACidr(text.to_owned())), "{text}");
    }
}

#[test]
fn all_of_ipv4_is_not_all_of_ipv6() {
    let v4 = range("0.0.0.0/0");
    assert!(v4.contains("8.8.8.8".parse().unwrap()));
    assert!(!v4.contains("2606:4700::1111".parse().unwrap()));
    assert!(range("::/0").contains("2606:4700::1111".parse().unwrap()));
}
