//! The log of the machine-config server: who has fetched an Ignition config. Requests look like
//!
//! ```text
//! Pool master requested by address:"10.0.0.1:53442" User-Agent:"Ignition/2.14.0" …
//! Pool worker requested by address:"[fe80::5054:ff:fe00:1%ens3]:53442" User-Agent:"Ignition/2.14.0" …
//! ```

use std::net::{IpAddr, Ipv6Addr};

const AGENT: &[u8] = b" User-Agent:\"Ignition";

/// The addresses from which Ignition asked, by one line of the log. They are whole addresses, not texts that are somewhere in it.
pub fn requests(line: &[u8]) -> impl Iterator<Item = IpAddr> + '_ {
    let mut from = 0;
    std::iter::from_fn(move || {
        loop {
            let rest = line.get(from..)?;
            let at = rest.windows(AGENT.len()).position(|window| window == AGENT)?;
            let before = rest.get(..at)?;
            from += at + AGENT.len();
            if let Some(address) = address_at_end(before) {
                return Some(address);
            }
        }
    })
}

/// `…10.0.0.1:53442"`, `…[fd00::1%zone]:53442"`; the quote may be missing, and so may be the brackets.
fn address_at_end(text: &[u8]) -> Option<IpAddr> {
    let text = text.strip_suffix(b"\"").unwrap_or(text);
    let digits = text.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let text = text.get(..text.len().checked_sub(digits)?)?;
    let text = text.strip_suffix(b":").filter(|_| digits > 0)?;
    match text.strip_suffix(b"]") {
        Some(text) => {
            let open = text.iter().rposition(|byte| *byte == b'[')?;
            v6(without_zone(text.get(open + 1..)?))
        }
        None => {
            let text = without_zone(text);
            tail(text, |byte| byte.is_ascii_digit() || byte == b'.')
                .or_else(|| tail(text, |byte| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'.')))
        }
    }
}

/// Without `%zone`.
fn without_zone(text: &[u8]) -> &[u8] {
    let zone = text.iter().rev().take_while(|byte| byte.is_ascii_alphanumeric()).count();
    let before = text.len().checked_sub(zone).and_then(|end| text.get(..end)).unwrap_or_default();
    if zone > 0 { before.strip_suffix(b"%").unwrap_or(text) } else { text }
}

/// The longest end of such bytes, if it is an address and no end of a longer word.
fn tail(text: &[u8], is_part: impl Fn(u8) -> bool) -> Option<IpAddr> {
    let len = text.iter().rev().take_while(|byte| is_part(**byte)).count();
    let (before, end) = text.split_at(text.len().checked_sub(len)?);
    if before.last().is_some_and(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_')) {
        return None;
    }
    let address: IpAddr = std::str::from_utf8(end).ok()?.parse().ok()?;
    // What stands before a colon may be a name's end; what is left of it is none of an IPv6 address.
    Some(address.to_canonical())
}

fn v6(text: &[u8]) -> Option<IpAddr> {
    let address: Ipv6Addr = std::str::from_utf8(text).ok()?.parse().ok()?;
    Some(IpAddr::V6(address).to_canonical())
}

/// Reads a line, and lines that the server would have written for what was found in it: they must give the same.
///
/// # Panics
/// If they don't.
#[cfg(any(test, fuzzing))]
#[cfg_attr(test, allow(unreachable_pub, reason = "the fuzz target calls it"))]
pub fn fuzz_mcs_log(line: &[u8]) {
    for address in requests(line) {
        let host = if address.is_ipv6() { format!("[{address}]") } else { address.to_string() };
        let again = format!("by address:\"{host}:1\" User-Agent:\"Ignition/2\"");
        assert!(requests(again.as_bytes()).eq([address]), "{address}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn found(line: &str) -> Vec<String> {
        requests(line.as_bytes()).map(|address| address.to_string()).collect()
    }

    #[test]
    fn whole_addresses_are_found_in_all_their_forms() {
        for (text, address) in [
            (r#"by address:"10.0.0.1:53442" User-Agent:"Ignition/2.3.0""#, "10.0.0.1"),
            (r#"by address:10.0.0.1:53442 User-Agent:"Ignition/2.3.0""#, "10.0.0.1"),
            (r#"by 10.0.0.1:1 User-Agent:"Ignition"#, "10.0.0.1"),
            (r#"by address:"[fd00::1]:53442" User-Agent:"Ignition/2.3.0""#, "fd00::1"),
            (r#"by address:"[fe80::1%ens3]:53442" User-Agent:"Ignition/2.3.0""#, "fe80::1"),
            (r#"by address:"[fe80::1%2]:53442" User-Agent:"Ignition/2.3.0""#, "fe80::1"),
            (r#"by address:"fe80::1%ens3:53442" User-Agent:"Ignition/2.3.0""#, "fe80::1"),
            (r#"by address:"FD00:0:0::A:53442" User-Agent:"Ignition/2.3.0""#, "fd00::a"),
            (r#"by address:"[::ffff:10.0.0.1]:53442" User-Agent:"Ignition/2.3.0""#, "10.0.0.1"),
        ] {
            assert_eq!(found(text), [address], "{text}");
        }
        let two = r#"a "10.0.0.1:1" User-Agent:"Ignition/2" b "x" User-Agent:"Ignition/2" c "10.0.0.2:2" User-Agent:"Ignition/2""#;
        assert_eq!(found(two), ["10.0.0.1", "10.0.0.2"]);
    }

    #[test]
    fn what_only_looks_like_one_is_none() {
        for text in [
            "",
            r#" User-Agent:"Ignition/2.3.0""#,
            r#"by address:"10.0.0.1:53442" User-Agent:"curl/7""#,
            r#"by address:"10.0.0.1:53442"  User-Agent:"Ignition/2.3.0""#,
            r#"by address:"10.0.0.1" User-Agent:"Ignition/2.3.0""#,
            r#"by address:"10.0.0.1:" User-Agent:"Ignition/2.3.0""#,
            r#"by address:"10x0.0.1:53442" User-Agent:"Ignition/2.3.0""#,
            r#"by address:"1.10.0.0.1:53442" User-Agent:"Ignition/2.3.0""#,
            r#"by address:"a10.0.0.1:53442" User-Agent:"Ignition/2.3.0""#,
            r#"by address:"10.0.0.256:53442" User-Agent:"Ignition/2.3.0""#,
            r#"by address:"[10.0.0.1]:53442" User-Agent:"Ignition/2.3.0""#,
            r#"by address:"fd00::1]:53442" User-Agent:"Ignition/2.3.0""#,
        ] {
            assert_eq!(found(text), [""; 0], "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_address_is_found_and_no_line_makes_it_panic(
            noise in "[ \\[\\]:%\"a-f0-9.]{0,40}", port in 1u16.., v4: [u8; 4], v6: [u8; 16],
            bytes in proptest::collection::vec(any::<u8>(), 0..60),
        ) {
            let (v4, v6) = (IpAddr::from(v4), IpAddr::from(v6).to_canonical());
            let line = format!(r#"{noise} "{v4}:{port}" User-Agent:"Ignition/2" "[{v6}]:{port}" User-Agent:"Ignition/2""#);
            let all: Vec<_> = requests(line.as_bytes()).collect();
            let expected = if v6.is_ipv6() { vec![v4, v6] } else { vec![v4] };
            prop_assert_eq!(all, expected);
            let hostile = [noise.as_bytes(), AGENT, &bytes, AGENT].concat();
            prop_assert!(requests(&hostile).count() <= 2);
            fuzz_mcs_log(&hostile);
        }
    }
}
