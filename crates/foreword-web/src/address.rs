//! Which addresses are on the public internet. Everything else (this machine, the local network, a cloud's metadata service) must not be
//! reachable through an address that somebody put into a note or a redirect.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether `address` is a public one.
pub(super) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    !matches!(
        (a, b, c),
        (0 | 10 | 127 | 224.., ..)                                      // this network, private, loopback, multicast, reserved
            | (100, 64..=127, _)                                        // carrier-grade NAT
            | (169, 254, _)                                             // link-local, metadata services
            | (172, 16..=31, _) | (192, 168, _)                         // private
            | (192, 0, 0 | 2) | (198, 51, 100) | (203, 0, 113)          // protocol assignments, documentation
            | (192, 31, 196) | (192, 52, 193) | (192, 88, 99) | (192, 175, 48) // AS112, AMT, 6to4 relays
            | (198, 18..=19, _) // benchmarking
    )
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let parts = address.segments();
    let v4 = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        is_public_v4(Ipv4Addr::new(a, b, c, d))
    };
    match parts {
        // NAT64 with the well-known prefix and 6to4 carry an IPv4 address and are routed to it.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => v4(high, low),
        // Teredo, protocol assignments, ORCHID, documentation.
        [0x2001, 0..=0x1ff | 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => false,
        // Global unicast is 2000::/3. Outside of it lie loopback, mapped and compatible IPv4, local NAT64, unique-local, link-local,
        // multicast and what is not assigned.
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(expect: bool, addresses: &[&str]) {
        for address in addresses {
            assert_eq!(is_public(address.parse().unwrap()), expect, "{address}");
        }
    }

    #[test]
    fn public() {
        check(
            true,
            &[
                "1.1.1.1",
                "8.8.8.8",
                "93.184.216.34",
                "100.63.255.255",
                "100.128.0.0",
                "172.15.0.1",
                "172.32.0.1",
                "192.0.1.1",
                "198.17.0.1",
                "198.20.0.1",
                "223.255.255.255",
            ],
        );
        check(
            true,
            &[
                "2606:4700::1111",
                "2a00:1450:4001::1",
                "2001:4860:4860::8888",
                "64:ff9b::8.8.8.8",
                "2002:0808:0808::1",
                "2001:200::1",
            ],
        );
    }

    #[test]
    fn not_public() {
        check(
            false,
            &[
                "0.0.0.0",
                "0.1.2.3",
                "10.0.0.1",
                "100.64.0.1",
                "100.127.255.255",
                "127.0.0.1",
                "127.255.255.254",
                "169.254.169.254",
                "172.16.0.1",
                "172.31.255.255",
            ],
        );
        check(
            false,
            &[
                "192.0.0.1",
                "192.0.2.1",
                "192.88.99.1",
                "192.168.0.1",
                "198.18.0.1",
                "198.19.255.255",
                "198.51.100.7",
                "203.0.113.9",
                "224.0.0.1",
                "239.255.255.250",
                "240.0.0.1",
                "255.255.255.255",
            ],
        );
        check(
            false,
            &[
                "::",
                "::1",
                "::ffff:127.0.0.1",
                "::ffff:8.8.8.8",
                "::127.0.0.1",
                "fe80::1",
                "fec0::1",
                "fc00::1",
                "fd00:ec2::254",
                "ff02::1",
                "100::1",
            ],
        );
        check(
            false,
            &[
                "64:ff9b::10.0.0.1",
                "64:ff9b::169.254.169.254",
                "64:ff9b:1::8.8.8.8",
                "2002:7f00:1::",
                "2002:c0a8:1::1",
                "2001::1",
                "2001:0:4136:e378::1",
                "2001:20::1",
                "2001:db8::1",
                "3fff::1",
                "4000::1",
            ],
        );
    }
}
