//! Packets of the real chronyc and chronyd 4.3, and hostile ones.

use super::*;
use proptest::prelude::*;

const SEQUENCE: u32 = 0x0102_0304;

/// Blanks are for the reader.
fn hex(text: &str) -> Vec<u8> {
    let text = text.replace(' ', "");
    (0..text.len() / 2).map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap()).collect()
}

/// Followed by zeros up to `length`.
fn padded(start: &str, length: usize) -> Vec<u8> {
    let mut bytes = hex(start);
    bytes.resize(length, 0);
    bytes
}

fn every_request() -> Vec<Request> {
    let address = IpAddr::from([127, 0, 0, 9]);
    vec![
        Request::SourceCount,
        Request::Source { index: 1 },
        Request::SourceName { address: SourceAddress::Ip(address) },
        Request::Measurement { address },
        Request::Tracking,
        Request::AddServer(ServerName::new("ntp.example.com").unwrap()),
    ]
}

#[test]
fn requests_are_chronycs() {
    let sent = |request: Request, sequence| request.encode(sequence, 0);
    assert_eq!(sent(Request::SourceCount, 0x99ae_5cf1), padded("06010000000e000099ae5cf1", 32));
    assert_eq!(sent(Request::Tracking, 0x1b9f_52c8), padded("06010000002100001b9f52c8", 104));
    let address = IpAddr::from([10, 0, 0, 1]);
    let data = "00000000000000000a00000100000000000000000000000000010000";
    let name = Request::SourceName { address: SourceAddress::Ip(address) };
    assert_eq!(sent(name, 0x3c62_80d3), padded(&format!("06010000004100003c6280d3{data}"), 284));
    // chronyc 4.3 sends 152 bytes, newer ones the 168 that their longer reply needs.
    let measurement = sent(Request::Measurement { address }, 0xeb71_629d);
    assert_eq!(measurement, padded(&format!("0601000000390000eb71629d{data}"), 168));
    let mut expected = padded("06010000004000006bea4dfa0000000000000000000000013139322e302e322e37", 280);
    expected.extend(hex(
        "0000007b000000060000000a0000006400000000000000080000000000000004ffffffffffffffff000000000000116c\
         06c00000000000000aa000000000000004800000000000000000000500000000000000000000000000000000",
    ));
    assert_eq!(expected.len(), 372);
    assert_eq!(sent(Request::AddServer(ServerName::new("192.0.2.7").unwrap()), 0x6bea_4dfa), expected);
}

#[test]
fn repetitions_are_counted() {
    assert_eq!(Request::SourceCount.encode(SEQUENCE, 3)[4..12], [0, 14, 0, 3, 1, 2, 3, 4]);
}

#[test]
fn replies_are_chronyds() {
    let read = |request: &Request, reply: &[u8]| request.decode_reply(SEQUENCE, reply).unwrap();
    let [count, source, name, measurement, tracking, add] = &every_request()[..] else { panic!() };
    let reply = hex("06020000000e0002000000000000000001020304000000000000000000000003");
    assert_eq!(read(count, &reply), Reply::SourceCount(3));
    let reply = "06020000000f0003000000000000000001020304000000000000000020010db811112222333344445555666600020000000600000001\
                 000000000000ffffffff000000000000000000000000";
    let never_heard = Source {
        address: SourceAddress::Ip("2001:db8:1111:2222:3333:4444:5555:6666".parse().unwrap()),
        stratum: 0,
        state: State::NonSelectable,
        mode: Mode::Client,
        since_sample_s: None,
        offset_s: 0.0,
    };
    assert_eq!(read(source, &hex(reply)), Reply::Source(never_heard));
    let reply = reply.replace("20010db811112222333344445555666600020000", "0000000100000000000000000000000000030000");
    let unresolved = Source { address: SourceAddress::Unresolved(1), ..never_heard };
    assert_eq!(read(source, &hex(&reply)), Reply::Source(unresolved));
    let reply =
        padded("06020000004100130000000000000000010203040000000000000000 6e6f74686572652e6578616d706c652e636f6d", 284);
    assert_eq!(read(name, &reply), Reply::SourceName("nothere.example.com".to_owned()));
    let tracked = hex(
        "060200000021000500000000000000000102030400000000000000007f7f0101000000000000000000000000000000000000000000080000\
         000000006b02209037f1c3b3000000000000000000000000000000000000000000000000000000000000000000000000",
    );
    let local = Tracking { address: None, stratum: 8, leap: 0, correction_s: 0.0 };
    assert_eq!(read(tracking, &tracked), Reply::Tracking(local));
    let reply = padded("060200000039001000000000000000000102030400000000000000007f000009", 152);
    assert_eq!(read(measurement, &reply), Reply::Measurement(Measurement { delay_s: 0.0 }));
    let refused = |request: &Request, reply| request.decode_reply(SEQUENCE, &hex(reply)).unwrap_err();
    let reply = "06020000004000010002000000000000010203040000000000000000";
    assert_eq!(refused(add, reply).to_string(), "NOT AUTHORISED (2)");
    let reply = "06020000000f00010004000000000000010203040000000000000000";
    assert_eq!(refused(source, reply), ReplyError::Refused(Status::NO_SUCH_SOURCE));
}

#[test]
fn other_replies_are_distinguished() {
    let good = hex("06020000000e0002000000000000000001020304000000000000000000000003");
    let with = |at: usize, byte| {
        let mut reply = good.clone();
        reply[at] = byte;
        Request::SourceCount.decode_reply(SEQUENCE, &reply).unwrap_err()
    };
    assert_eq!(with(0, 5), ReplyError::Version { found: 5 });
    assert_eq!(with(1, 1), ReplyError::NotAReply { length: 32 });
    assert_eq!(with(2, 1), ReplyError::NotAReply { length: 32 });
    assert_eq!(with(5, 15), ReplyError::OtherRequest { command: 15, sequence: SEQUENCE });
    assert_eq!(with(7, 3), ReplyError::OtherKind { found: 3, expected: 2 });
    assert_eq!(with(16, 9), ReplyError::OtherRequest { command: 14, sequence: 0x0902_0304 });
    for length in 0..good.len() {
        let error = Request::SourceCount.decode_reply(SEQUENCE, &good[..length]).unwrap_err();
        let expected = match length {
            ..28 => ReplyError::NotAReply { length },
            _ => ReplyError::Truncated { length, expected: 32 },
        };
        assert_eq!(error, expected);
    }
}

#[test]
fn floats_are_read_as_chrony_writes_them() {
    let float = |raw: u32| Reader(&raw.to_be_bytes()).float().unwrap();
    assert_eq!([0, 0x06c0_0000, 0x0aa0_0000, 0x0480_0000].map(float), [0.0, 3.0, 10.0, 1.0]);
    // -1.0 is the coefficient -2^24 with the exponent 1; the smallest exponent is -64.
    assert_eq!(float(0x0300_0000), -1.0);
    assert_eq!(float(0x8000_0001), 2f64.powi(-89));
}

#[test]
fn names_fit_or_are_none() {
    assert!(ServerName::new(&"a".repeat(255)).is_some());
    for bad in ["", "a\0b", &"a".repeat(256)] {
        assert_eq!(ServerName::new(bad), None);
    }
}

proptest! {
    #[test]
    fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..400), sequence: u32) {
        for request in every_request() {
            let _ = request.decode_reply(sequence, &bytes);
        }
    }

    #[test]
    fn any_data_of_a_reply_is_read(data in proptest::collection::vec(any::<u8>(), 256..300)) {
        for request in every_request() {
            let mut reply = hex("0602000000000000000000000000000001020304 0000000000000000");
            let shape = request.shape();
            reply[4..6].copy_from_slice(&shape.command.to_be_bytes());
            reply[6..8].copy_from_slice(&shape.replies[0].to_be_bytes());
            reply.extend(&data);
            prop_assert!(request.decode_reply(SEQUENCE, &reply).is_ok());
        }
    }

    #[test]
    fn requests_are_never_shorter_than_their_replies(sequence: u32, attempt: u16) {
        for request in every_request() {
            prop_assert!(request.encode(sequence, attempt).len() >= REPLY_HEADER_BYTES + request.shape().reply_bytes);
        }
    }
}
