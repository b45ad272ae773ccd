//! Which addresses may be called: the guard against requests that a task's author aims at what only
//! this service can reach. Pure. REQ-P4.
//!
//! Names are not looked at here, nor how an address was written: `127.1`, `0x7f.1` and
//! `[::ffff:127.0.0.1]` are all the same address by the time they come here, and it is the address
//! that is dialled, so that there is nothing to get past by spelling. An IPv6 address that carries
//! an IPv4 address inside is judged by the one inside as well.
//!
//! Some addresses are never called, whatever is allowed: those where clouds hand out credentials,
//! and those that name no single host.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// Which addresses may be called.
///
/// ```
/// use relent_server::egress::{AddressRules, Profile};
///
/// let internal = AddressRules::default();
/// assert!(internal.allows("10.1.2.3".parse()?));
/// assert!(!internal.allows("169.254.169.254".parse()?), "a cloud's credentials");
///
/// let public = AddressRules {
///     profile: Profile::Public,
///     allow: vec!["10.1.0.0/16".parse()?],
///     deny: vec!["198.41.0.4/32".parse()?],
/// };
/// assert!(public.allows("10.1.2.3".parse()?) && !public.allows("10.2.2.3".parse()?));
/// assert!(!public.allows("198.41.0.4".parse()?));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressRules {
    /// What holds for an address that is in neither list.
    pub profile: Profile,
    /// Called although the profile says no.
    pub allow: Vec<Cidr>,
    /// Not called, whatever else says yes.
    pub deny: Vec<Cidr>,
}

/// What holds for an address that is in no list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    /// Only what anybody could call over the internet: for services whose tenants are strangers.
    Public,
    /// Private networks and this machine too: for services whose users own what they call.
    #[default]
    Internal,
}

impl AddressRules {
    /// Whether this address may be called.
    pub fn allows(&self, address: IpAddr) -> bool {
        let address = canonical(address);
        self.allows_as_it_is(address) && embedded(address).is_none_or(|v4| self.allows(v4.into()))
    }

    fn allows_as_it_is(&self, address: IpAddr) -> bool {
        let is_in = |list: &[Cidr]| list.iter().any(|cidr| cidr.contains(address));
        if is_never_called(address) || is_in(&self.deny) {
            return false;
        }
        is_in(&self.allow)
            || match self.profile {
                Profile::Public => is_public(address),
                Profile::Internal => !LOCAL_TRANSLATION.contains(address),
            }
    }
}

/// The address that packets to this one end up at: the IPv4 address of a mapped one, and of one
/// behind the well-known NAT64 prefix, which is how networks without IPv4 see all of IPv4.
fn canonical(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address else { return address };
    if NAT64.contains(address) {
        return last_32_bits(v6).into();
    }
    v6.to_ipv4_mapped().map_or(address, IpAddr::V4)
}

/// The IPv4 address inside a tunnel's address: compatible, 6to4, Teredo, ISATAP.
fn embedded(address: IpAddr) -> Option<Ipv4Addr> {
    let IpAddr::V6(v6) = address else { return None };
    let [first, second, third, _, fourth_last, third_last, ..] = v6.segments();
    match (first, second) {
        (0x2002, _) => Some(ipv4(second, third)),
        (0x2001, 0) => Some(!last_32_bits(v6)),
        _ if (fourth_last & !0x0200, third_last) == (0, 0x5efe) => Some(last_32_bits(v6)),
        _ if COMPATIBLE.contains(address) && v6 != Ipv6Addr::LOCALHOST => Some(last_32_bits(v6)),
        _ => None,
    }
}

fn last_32_bits(address: Ipv6Addr) -> Ipv4Addr {
    let [.., high, low] = address.segments();
    ipv4(high, low)
}

fn ipv4(high: u16, low: u16) -> Ipv4Addr {
    Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low))
}

/// What no rule can allow: it names no single host, or hands out credentials.
fn is_never_called(address: IpAddr) -> bool {
    NEVER.iter().any(|cidr| cidr.contains(address))
}

fn is_public(address: IpAddr) -> bool {
    let is_in = |list: &[Cidr]| list.iter().any(|cidr| cidr.contains(address));
    match address {
        IpAddr::V4(_) => !is_in(&NOT_PUBLIC_V4),
        IpAddr::V6(_) => GLOBAL_V6.contains(address) && !is_in(&NOT_PUBLIC_V6),
    }
}

const NEVER: [Cidr; 12] = [
    v4([0, 0, 0, 0], 8),
    v4([169, 254, 0, 0], 16),
    v4([224, 0, 0, 0], 4),
    v4([255, 255, 255, 255], 32),
    // The metadata services of Alibaba, Oracle and Azure; Amazon's and Google's are link-local.
    v4([100, 100, 100, 200], 32),
    v4([192, 0, 0, 192], 32),
    v4([168, 63, 129, 16], 32),
    v6([0, 0, 0, 0, 0, 0, 0, 0], 128),
    v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10),
    v6([0xff00, 0, 0, 0, 0, 0, 0, 0], 8),
    // Amazon's and Google's again, over IPv6.
    v6([0xfd00, 0x0ec2, 0, 0, 0, 0, 0, 0], 32),
    v6([0xfd20, 0x00ce, 0, 0, 0, 0, 0, 0], 32),
];

const NOT_PUBLIC_V4: [Cidr; 15] = [
    v4([0, 0, 0, 0], 8),
    v4([10, 0, 0, 0], 8),
    v4([100, 64, 0, 0], 10),
    v4([127, 0, 0, 0], 8),
    v4([169, 254, 0, 0], 16),
    v4([172, 16, 0, 0], 12),
    v4([192, 0, 0, 0], 24),
    v4([192, 0, 2, 0], 24),
    v4([192, 88, 99, 0], 24),
    v4([192, 168, 0, 0], 16),
    v4([198, 18, 0, 0], 15),
    v4([198, 51, 100, 0], 24),
    v4([203, 0, 113, 0], 24),
    v4([224, 0, 0, 0], 4),
    v4([240, 0, 0, 0], 4),
];

const GLOBAL_V6: Cidr = v6([0x2000, 0, 0, 0, 0, 0, 0, 0], 3);

/// Teredo, ORCHID and the like; documentation twice; 6to4.
const NOT_PUBLIC_V6: [Cidr; 4] = [
    v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 23),
    v6([0x2001, 0x0db8, 0, 0, 0, 0, 0, 0], 32),
    v6([0x2002, 0, 0, 0, 0, 0, 0, 0], 16),
    v6([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20),
];

const NAT64: Cidr = v6([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 96);
/// NAT64 as a network's owner likes it: where the IPv4 address sits in it cannot be known.
const LOCAL_TRANSLATION: Cidr = v6([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48);
const COMPATIBLE: Cidr = v6([0, 0, 0, 0, 0, 0, 0, 0], 96);

/// A range of addresses, as in `10.0.0.0/8`. An address alone is a range of one.
///
/// ```
/// use relent_server::egress::Cidr;
///
/// let range: Cidr = "fd12::/16".parse()?;
/// assert!(range.contains("fd12::1".parse()?));
/// assert_eq!("10.1.2.3/8".parse::<Cidr>()?.to_string(), "10.0.0.0/8");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cidr {
    /// As IPv6 bits; IPv4 is where mapped addresses are.
    bits: u128,
    /// How many leading bits count, of the 128.
    prefix: u8,
}

const MAPPED: u128 = 0xffff_0000_0000;

const fn v4(octets: [u8; 4], prefix: u8) -> Cidr {
    Cidr { bits: MAPPED | u32::from_be_bytes(octets) as u128, prefix: prefix + 96 }
}

const fn v6([a, b, c, d, e, f, g, h]: [u16; 8], prefix: u8) -> Cidr {
    Cidr { bits: Ipv6Addr::new(a, b, c, d, e, f, g, h).to_bits(), prefix }
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => MAPPED | u128::from(v4.to_bits()),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

impl Cidr {
    /// Whether the address is in the range.
    pub fn contains(&self, address: IpAddr) -> bool {
        (self.bits ^ bits(address)) & self.mask() == 0
    }

    fn mask(self) -> u128 {
        u128::MAX.checked_shl(128 - u32::from(self.prefix)).unwrap_or(0)
    }
}

/// The text is no range of addresses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a range of addresses such as `10.0.0.0/8`, got `{0}`")]
pub struct NotACidr(String);

impl FromStr for Cidr {
    type Err = NotACidr;

    fn from_str(text: &str) -> Result<Cidr, NotACidr> {
        let bad = || NotACidr(text.to_owned());
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| bad())?;
        let longest: u8 = if address.is_ipv4() { 32 } else { 128 };
        let prefix = match prefix {
            Some(prefix) => prefix.parse().ok().filter(|n| *n <= longest).ok_or_else(bad)?,
            None => longest,
        };
        let range = Cidr { bits: bits(address), prefix: 128 - longest + prefix };
        Ok(Cidr { bits: range.bits & range.mask(), ..range })
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = Ipv6Addr::from_bits(self.bits);
        match address.to_ipv4_mapped() {
            Some(v4) if self.prefix >= 96 => write!(f, "{v4}/{}", self.prefix - 96),
            _ => write!(f, "{address}/{}", self.prefix),
        }
    }
}

impl fmt::Debug for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests;
