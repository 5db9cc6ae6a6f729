#![no_main]

use netcheck::codec::chrony::{Reply, Request, SourceAddress};
use std::net::{IpAddr, Ipv4Addr};

const SEQUENCE: u32 = 0x1234_5678;
const ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

// As the reply to each request: as it came, and with the header that would make it one.
libfuzzer_sys::fuzz_target!(|packet: &[u8]| {
    for (request, command, replies) in [
        (Request::SourceCount, 14, &[2][..]),
        (Request::Source { index: 0 }, 15, &[3]),
        (Request::Tracking, 33, &[5]),
        (Request::Measurement { address: ADDRESS }, 57, &[16, 26]),
        (Request::SourceName { address: SourceAddress::Ip(ADDRESS) }, 65, &[19]),
    ] {
        assert!(request.encode(SEQUENCE, 0).len() >= 28);
        check(&request, packet);
        for reply in replies {
            let mut header = vec![6, 2, 0, 0, 0, command, 0, *reply, 0, 0, 0, 0, 0, 0, 0, 0];
            header.extend(SEQUENCE.to_be_bytes());
            header.extend([0; 8]);
            check(&request, &[&header, packet].concat());
        }
    }
});

fn check(request: &Request, packet: &[u8]) {
    if let Ok(Reply::SourceName(name)) = request.decode_reply(SEQUENCE, packet) {
        // Each byte that is no UTF-8 became a character of three.
        assert!(name.chars().count() <= 256);
    }
}
