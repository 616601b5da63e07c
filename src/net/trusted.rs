//! The proxies whose forwarded client addresses are trusted.

use std::net::IpAddr;

use ipnet::IpNet;

/// The networks of trusted proxies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustedProxies {
    networks: Vec<IpNet>,
}

impl TrustedProxies {
    /// Parses networks such as `10.0.0.0/8`, or single addresses.
    ///
    /// # Errors
    /// A message that quotes the first text that is neither.
    pub fn parse<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Self, String> {
        let network = |text: &str| {
            parse_network(text).ok_or_else(|| {
                format!("expected networks such as 10.0.0.0/8 or fd00::/8, or single addresses, not {text:?}")
            })
        };
        texts.into_iter().map(network).collect::<Result<_, _>>().map(|networks| Self { networks })
    }

    /// Whether no proxy is trusted.
    pub fn is_empty(&self) -> bool {
        self.networks.is_empty()
    }

    /// Whether a network contains every address, so that every client can forge its own address.
    pub fn trusts_everyone(&self) -> bool {
        self.networks.iter().any(|network| network.prefix_len() == 0)
    }

    /// Whether an address belongs to a trusted proxy.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.networks.iter().any(|network| network.contains(&address))
    }

    /// Whether limits by address do not apply to the address: to this machine, and to trusted proxies, which many
    /// clients share.
    pub fn is_exempt(&self, address: IpAddr) -> bool {
        address.to_canonical().is_loopback() || self.contains(address)
    }
}

/// A network such as `10.0.0.0/8`, or a single address. An IPv4 network that is written as a part of `::ffff:0:0/96` is
/// the IPv4 network: addresses are compared as IPv4 addresses, which a network of IPv6 does not contain.
pub fn parse_network(text: &str) -> Option<IpNet> {
    const MAPPED_BITS: u8 = 96;
    let single = text.parse::<IpAddr>().map(|address| IpNet::from(address.to_canonical()));
    let network = single.or_else(|_| text.parse::<IpNet>()).ok()?;
    let v4 = match network.addr() {
        IpAddr::V6(address) => address.to_ipv4_mapped(),
        IpAddr::V4(_) => None,
    };
    match (v4, network.prefix_len().checked_sub(MAPPED_BITS)) {
        (Some(v4), Some(prefix)) => IpNet::new(v4.into(), prefix).ok(),
        _ => Some(network),
    }
}

/// The address that limits count by: an IPv4 address, or the /64 network of an IPv6 address, because one subscriber
/// usually has all addresses of a /64.
pub fn subscriber_network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::from([a, b, c, d, 0, 0, 0, 0])
        }
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn networks_and_addresses_are_trusted() {
        let trusted = TrustedProxies::parse(["10.0.0.0/8", "192.0.2.7", "fd00::/8", "2001:db8::1"]).unwrap();
        let mapped = TrustedProxies::parse(["::ffff:10.0.0.0/104", "::ffff:192.0.2.7"]).unwrap();
        assert!(
            mapped.contains(ip("10.255.0.1")) && mapped.contains(ip("192.0.2.7")) && !mapped.contains(ip("11.0.0.1"))
        );
        for inside in ["10.255.0.1", "192.0.2.7", "fd12::1", "2001:db8::1", "::ffff:10.1.2.3"] {
            assert!(trusted.contains(ip(inside)) && trusted.is_exempt(ip(inside)), "{inside}");
        }
        for outside in ["11.0.0.1", "192.0.2.8", "2001:db8::2", "127.0.0.1", "::1"] {
            assert!(!trusted.contains(ip(outside)), "{outside}");
        }
        assert!(["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"].iter().all(|text| trusted.is_exempt(ip(text))));
        assert!(!trusted.is_exempt(ip("192.0.2.8")) && !trusted.trusts_everyone());
        assert!(TrustedProxies::parse(["10.0.0.0/8", "0.0.0.0/0"]).unwrap().trusts_everyone());
    }

    #[test]
    fn invalid_networks_are_named() {
        for wrong in ["10.0.0.0/33", "localhost", "", "10.0.0", "10.0.0.1:80", "any"] {
            let error = TrustedProxies::parse(["10.0.0.0/8", wrong]).unwrap_err();
            assert!(error.contains(&format!("{wrong:?}")), "{error}");
        }
    }

    #[test]
    fn ipv6_addresses_are_grouped_by_network() {
        let network = |text: &str| subscriber_network(ip(text));
        assert_eq!(network("2001:db8:1:2::7"), network("2001:db8:1:2:ffff::1"));
        assert_ne!(network("2001:db8:1:2::7"), network("2001:db8:1:3::7"));
        assert_eq!(network("::ffff:10.0.0.1"), network("10.0.0.1"));
        assert_ne!(network("10.0.0.2"), network("10.0.0.1"));
    }
}
