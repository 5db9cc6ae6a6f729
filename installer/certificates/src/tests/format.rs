//! What is not a request, or not quite one.

use super::*;
use proptest::prelude::*;

#[test]
fn only_one_pem_block_is_read() {
    let block = String::from_utf8(RSA.to_vec()).unwrap();
    let relabelled = block.replace("CERTIFICATE REQUEST", "NEW CERTIFICATE REQUEST");
    let headers = block.replacen("-----\n", "-----\na: b\n\n", 1);
    let none = "it does not begin with a PEM block";
    let base64 = "it is not one PEM block: PEM Base64 error: invalid Base64 encoding";
    refused([
        (client(vec![]), none),
        (client(b"garbage".to_vec()), none),
        (client(format!("x\n{block}").into_bytes()), none),
        (client(format!("\n{block}").into_bytes()), none),
        (client(format!("{block}{block}").into_bytes()), base64),
        (client(format!("{block}x").into_bytes()), "it is not one PEM block: PEM error in pre-encapsulation boundary"),
        (client(headers.into_bytes()), "it is not one PEM block: PEM headers disallowed by RFC7468"),
        (client(relabelled.into_bytes()), "its PEM label is 'NEW CERTIFICATE REQUEST', expected 'CERTIFICATE REQUEST'"),
        (client([RSA, &[b'\n'; 16 << 10]].concat()), "it has 17320 bytes, expected at most 16384"),
    ]);
}

#[test]
fn at_most_64_names_are_read() {
    let many = |count: u8| second((0..count).map(|last| SanType::IpAddress([10, 0, 9, last].into())).collect());
    refused([
        (many(64), "it requests the address 10.0.9.0, which is not one of node 'node-2'"),
        (many(65), "it requests 65 names, expected at most 64"),
    ]);
}

fn tlv(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).unwrap().to_be_bytes();
    let length = match length {
        [0, low @ ..=0x7f] => vec![low],
        [0, low] => vec![0x81, low],
        [high, low] => vec![0x82, high, low],
    };
    [&[tag], length.as_slice(), content].concat()
}

/// As many attributes as fit, in the order that takes longest to sort.
#[test]
fn a_set_in_reverse_is_refused() {
    let request = CertReq::from_der(&der(&params("system:node:node-1", vec![]))).unwrap();
    let attribute = |number: u16| {
        let [high, low] = (number * 2).to_be_bytes();
        tlv(0x30, &[tlv(6, &[0x2a, 3, high, low / 2]), tlv(0x31, &[])].concat())
    };
    let attributes: Vec<u8> = (0..1160).rev().flat_map(attribute).collect();
    let info = [
        vec![2, 1, 0],
        request.info.subject.to_der().unwrap(),
        request.info.public_key.to_der().unwrap(),
        tlv(0xa0, &attributes),
    ];
    let parts = [tlv(0x30, &info.concat()), request.algorithm.to_der().unwrap(), request.signature.to_der().unwrap()];
    refused([(client(pem(&tlv(0x30, &parts.concat()))), "it is not in the canonical form of DER")]);
}

#[test]
fn a_damaged_request_is_refused() {
    let whole = der(&params("system:node:node-1", vec![]));
    for length in 0..whole.len() {
        let request = client(pem(&whole[..length]));
        assert!(matches!(verdict(&request), Verdict::Refuse(_)), "cut at {length}");
    }
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        assert!(matches!(verdict(&client(pem(&damaged))), Verdict::Refuse(_)), "changed at {at}");
    }
    let text = pem(&whole);
    // The last line need not end.
    for length in 0..text.len() - 1 {
        assert!(matches!(verdict(&client(text[..length].to_vec())), Verdict::Refuse(_)), "text cut at {length}");
    }
    let longer = client(pem(&[whole.as_slice(), &[0]].concat()));
    assert!(matches!(verdict(&longer), Verdict::Refuse(Reason::Malformed(Malformed::Der(_)))), "followed by a byte");
}

#[test]
fn a_signature_by_another_key_is_refused() {
    let [ours, theirs] = [(); 2].map(|()| CertReq::from_der(&der(&params("system:node:node-1", vec![]))).unwrap());
    let mixed = CertReq { signature: theirs.signature, ..ours };
    refused([(client(pem(&mixed.to_der().unwrap())), "its signature was not made with its key")]);
}

proptest! {
    #[test]
    fn any_bytes_are_survived(
        bytes in prop::collection::vec(any::<u8>(), 0..300), at in any::<prop::sample::Index>(), cut in 0..20_usize,
    ) {
        fuzz_certificate_request(&bytes);
        fuzz_certificate_request(&pem(&bytes));
        // Splices into a request that is read whole.
        let mut spliced = der(&params("system:node:node-2", vec![dns("node-2"), ip("10.0.0.2")]));
        let at = at.index(spliced.len());
        let end = spliced.len().min(at + cut);
        spliced.splice(at..end, bytes.iter().copied().take(cut));
        fuzz_certificate_request(&spliced);
        fuzz_certificate_request(&pem(&spliced));
    }
}
