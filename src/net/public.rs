//! Which addresses belong to the public internet.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// IPv4 networks that are not public, from IANA's registry of special-purpose addresses.
const SPECIAL_V4: [(Ipv4Addr, u8); 17] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8),        // this network, unspecified
    (Ipv4Addr::new(10, 0, 0, 0), 8),       // private
    (Ipv4Addr::new(100, 64, 0, 0), 10),    // carrier-grade NAT; metadata of Alibaba Cloud
    (Ipv4Addr::new(127, 0, 0, 0), 8),      // loopback
    (Ipv4Addr::new(168, 63, 129, 16), 32), // host services of Azure
    (Ipv4Addr::new(169, 254, 0, 0), 16),   // link-local; metadata of most clouds
    (Ipv4Addr::new(172, 16, 0, 0), 12),    // private
    (Ipv4Addr::new(192, 0, 0, 0), 24),     // protocol assignments; metadata of Oracle Cloud
    (Ipv4Addr::new(192, 0, 2, 0), 24),     // documentation
    (Ipv4Addr::new(192, 31, 196, 0), 24),  // AS112
    (Ipv4Addr::new(192, 88, 99, 0), 24),   // 6to4 relays
    (Ipv4Addr::new(192, 168, 0, 0), 16),   // private
    (Ipv4Addr::new(198, 18, 0, 0), 15),    // benchmarks
    (Ipv4Addr::new(198, 51, 100, 0), 24),  // documentation
    (Ipv4Addr::new(203, 0, 113, 0), 24),   // documentation
    (Ipv4Addr::new(224, 0, 0, 0), 4),      // multicast
    (Ipv4Addr::new(240, 0, 0, 0), 4),      // reserved, broadcast
];

/// IPv6 networks inside the global unicast range that are not public, or that contain an IPv4 address.
const SPECIAL_V6: [(Ipv6Addr, u8); 4] = [
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23), // protocol assignments: Teredo, benchmarks, ORCHID
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32), // documentation
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16), // 6to4
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20), // documentation
];

/// The range of global unicast addresses. Loopback, unspecified, IPv4-mapped and IPv4-compatible addresses, NAT64,
/// unique local, link-local, site-local and multicast addresses are all outside.
const GLOBAL_UNICAST_V6: (Ipv6Addr, u8) = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);

/// Whether an address belongs to the public internet. Addresses that embed an IPv4 address do not, whatever they embed.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => !SPECIAL_V4.iter().any(|network| contains_v4(*network, address)),
        IpAddr::V6(address) => {
            contains_v6(GLOBAL_UNICAST_V6, address) && !SPECIAL_V6.iter().any(|network| contains_v6(*network, address))
        }
    }
}

fn contains_v4((network, prefix): (Ipv4Addr, u8), address: Ipv4Addr) -> bool {
    let shift = 32 - u32::from(prefix);
    network.to_bits() >> shift == address.to_bits() >> shift
}

fn contains_v6((network, prefix): (Ipv6Addr, u8), address: Ipv6Addr) -> bool {
    let shift = 128 - u32::from(prefix);
    network.to_bits() >> shift == address.to_bits() >> shift
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_addresses_are_not_public() {
        let special = "0.0.0.0 0.1.2.3 10.0.0.1 10.255.255.255 100.64.0.1 100.100.100.200 100.127.255.255 127.0.0.1 \
            127.255.255.254 168.63.129.16 169.254.0.1 169.254.169.254 172.16.0.1 172.31.255.255 192.0.0.1 192.0.0.192 \
            192.0.2.1 192.31.196.1 192.88.99.1 192.168.0.1 192.168.255.255 198.18.0.1 198.19.255.255 198.51.100.1 \
            203.0.113.1 224.0.0.1 239.255.255.255 240.0.0.1 255.255.255.255 :: ::1 ::127.0.0.1 ::8.8.8.8 \
            ::ffff:127.0.0.1 ::ffff:8.8.8.8 ::ffff:0:127.0.0.1 64:ff9b::7f00:1 64:ff9b:1::1 100::1 2001::1 \
            2001:0:7f00:1:: 2001:2::1 2001:10::1 2001:20::1 2001:db8::1 2002:7f00:1:: 3fff::1 5f00::1 fc00::1 \
            fd00:ec2::254 fd20:ce::254 fe80::1 fec0::1 ff02::1";
        for address in special.split_whitespace() {
            assert!(!is_public(address.parse().unwrap()), "{address} passed");
        }
    }

    #[test]
    fn addresses_next_to_special_networks_are_public() {
        let public = "1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.1 \
            168.63.129.15 169.253.255.255 169.255.0.0 172.15.255.255 172.32.0.0 192.0.1.0 192.0.3.0 192.167.255.255 \
            192.169.0.0 198.17.255.255 198.20.0.0 203.0.112.255 203.0.114.0 223.255.255.255 2001:200::1 \
            2001:4860:4860::8888 2003::1 2606:4700::1111 2a00:1450:4001::1 3ffe:ffff::1";
        for address in public.split_whitespace() {
            assert!(is_public(address.parse().unwrap()), "{address} was refused");
        }
    }
}
