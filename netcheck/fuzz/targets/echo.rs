#![no_main]

use netcheck::codec::echo::{Echo, Family, icmp_of_ipv4};

// As both families read it, with and without an IPv4 header in front. No fuzzer comes by the checksum, so it is made right.
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    check(Family::V4, bytes);
    check(Family::V6, bytes);
    let mut packet = bytes.to_vec();
    let Some(header_bytes) = icmp_of_ipv4(bytes).map(|message| bytes.len() - message.len()) else { return };
    assert!((20..=60).contains(&header_bytes));
    if let [_, _, high, low, ..] = &mut packet[header_bytes..] {
        [*high, *low] = [0, 0];
        [packet[header_bytes + 2], packet[header_bytes + 3]] = checksum(&packet[header_bytes..]).to_be_bytes();
    }
    check(Family::V4, &packet[header_bytes..]);
});

/// What is understood is written back as it came; the kernel makes ICMPv6 checksums.
fn check(family: Family, message: &[u8]) {
    if let Some(echo) = Echo::parse(family, message) {
        let written = echo.to_bytes(family);
        assert_eq!(Echo::parse(family, &written), Some(echo));
        let skipped = if family == Family::V4 { 0 } else { 4 };
        assert_eq!(written[skipped..], message[skipped..]);
        assert_eq!(written[..2], message[..2]);
    }
}

/// RFC 1071 by the letter.
fn checksum(bytes: &[u8]) -> u16 {
    let mut sum = 0u64;
    for pair in bytes.chunks(2) {
        sum += u64::from(pair[0]) << 8 | u64::from(pair.get(1).copied().unwrap_or(0));
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}
