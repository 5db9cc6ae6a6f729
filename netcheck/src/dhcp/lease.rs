//! Leases in the dialect of dhclient's lease file (dhclient.leases(5)): the service stores the text, hands it to the
//! cluster's own DHCP clients, and back to us to ask for the same address again.

use super::client::{Grant, is_host};
use crate::codec::dhcp::DhcpOptions;
use dhcproto::v4::OptionCode;
use std::{net::Ipv4Addr, time::Duration};
use time::OffsetDateTime;

/// Lease time of an address that is given for good (RFC 2131 section 3.3).
const FOR_EVER: u32 = u32::MAX;

/// An address that a server gave us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    pub address: Ipv4Addr,
    pub server: Ipv4Addr,
    /// For how long; `None` means forever.
    pub duration: Option<Duration>,
    /// All of it, in dhclient's dialect.
    pub text: String,
}

impl Lease {
    /// What was granted with these options, on an interface called `interface`, from `now` on.
    pub(super) fn new(grant: Grant, options: &DhcpOptions, interface: &str, now: OffsetDateTime) -> Self {
        let Grant { address, server, seconds } = grant;
        let mut lines = vec![
            "lease {".to_owned(),
            format!("  interface {};", quoted(interface.as_bytes())),
            format!("  fixed-address {address};"),
        ];
        lines.extend(option_values(options).map(|(name, value)| format!("  option {name} {value};")));
        // Later than the next is never: a server's times may be in any order.
        let rebind =
            options.seconds(OptionCode::Rebinding).unwrap_or(seconds / 8 * 7 + seconds % 8 * 7 / 8).min(seconds);
        let renew = options.seconds(OptionCode::Renewal).unwrap_or(seconds / 2).min(rebind);
        for (name, after) in [("renew", renew), ("rebind", rebind), ("expire", seconds)] {
            lines.push(format!("  {name} {};", date(now, after)));
        }
        lines.push("}".to_owned());
        let duration = (seconds != FOR_EVER).then(|| Duration::from_secs(seconds.into()));
        Self { address, server, duration, text: lines.join("\n") }
    }
}

/// The options that dhclient asks for and those that make the lease, as it writes them and in its order.
fn option_values(options: &DhcpOptions) -> impl Iterator<Item = (&'static str, String)> {
    let address = |code| options.address(code).map(|address| address.to_string());
    let addresses = |code| {
        let addresses = options.addresses(code);
        (!addresses.is_empty()).then(|| addresses.iter().map(Ipv4Addr::to_string).collect::<Vec<_>>().join(","))
    };
    let seconds = |code| options.seconds(code).map(|seconds| seconds.to_string());
    // Some servers count the zero that ends a text in C.
    let text = |code| options.bytes(code).map(|bytes| quoted(bytes.strip_suffix(&[0]).unwrap_or(bytes)));
    let values = [
        ("subnet-mask", address(OptionCode::SubnetMask)),
        // It is signed, but who writes it so was not asked for it.
        ("time-offset", seconds(OptionCode::TimeOffset)),
        ("routers", addresses(OptionCode::Router)),
        ("dhcp-lease-time", seconds(OptionCode::AddressLeaseTime)),
        ("dhcp-message-type", Some("5".to_owned())),
        ("domain-name-servers", addresses(OptionCode::DomainNameServer)),
        ("dhcp-server-identifier", address(OptionCode::ServerIdentifier)),
        ("dhcp-renewal-time", seconds(OptionCode::Renewal)),
        ("broadcast-address", address(OptionCode::BroadcastAddr)),
        ("dhcp-rebinding-time", seconds(OptionCode::Rebinding)),
        ("host-name", text(OptionCode::Hostname)),
        ("domain-name", text(OptionCode::DomainName)),
    ];
    values.into_iter().filter_map(|(name, value)| Some((name, value?)))
}

/// A string of the dialect. All but plain characters go in octal, which dhclient reads back: a quote, semicolon, brace or
/// line end that a server sends must not end the string, the statement or the lease.
fn quoted(bytes: &[u8]) -> String {
    let mut text = String::from("\"");
    for byte in bytes {
        if byte.is_ascii_alphanumeric() || b" -._".contains(byte) {
            text.push(char::from(*byte));
        } else {
            text.push_str(&format!("\\{byte:03o}"));
        }
    }
    text.push('"');
    text
}

/// Day of the week (Sunday is 0) and time, in UTC.
fn date(now: OffsetDateTime, seconds: u32) -> String {
    let after = now.checked_add(time::Duration::seconds(seconds.into())).filter(|_| seconds != FOR_EVER);
    after.map_or_else(
        || "never".to_owned(),
        |t| {
            let (year, month, day) = t.to_calendar_date();
            let (weekday, month) = (t.weekday().number_days_from_sunday(), u8::from(month));
            let (hour, minute, second) = t.to_hms();
            format!("{weekday} {year}/{month:02}/{day:02} {hour:02}:{minute:02}:{second:02}")
        },
    )
}

/// The address of the last lease in a lease file's text; `None` when no host can have it.
///
/// Whether it has expired does not matter: the server knows better, and the service writes `never` anyway.
pub(super) fn last_address(text: &str) -> Option<Ipv4Addr> {
    let statements = text.split([';', '{', '}']).rev();
    let mut values = statements.filter_map(|statement| statement.trim().strip_prefix("fixed-address"));
    values.next()?.trim().parse().ok().filter(|address| is_host(*address))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::dhcp::Answer;
    use proptest::prelude::*;
    use time::macros::datetime;

    /// The lease of an acknowledgement with these options besides those that must be there.
    fn lease(seconds: u32, options: &[u8], now: OffsetDateTime) -> Lease {
        lease_if_taken(seconds, options, now).unwrap()
    }

    /// As [`lease`]; `None` when the options make it no acknowledgement.
    fn lease_if_taken(seconds: u32, options: &[u8], now: OffsetDateTime) -> Option<Lease> {
        let mut bytes = vec![0; 236];
        bytes[..8].copy_from_slice(&[2, 1, 6, 0, 0, 0, 0, 7]);
        bytes.extend_from_slice(&[99, 130, 83, 99, 53, 1, 5, 54, 4, 192, 168, 127, 1, 51, 4]);
        bytes.extend_from_slice(&seconds.to_be_bytes());
        bytes.extend_from_slice(options);
        let answer = Answer::parse(&bytes)?;
        let grant =
            Grant { address: Ipv4Addr::new(192, 168, 127, 104), server: Ipv4Addr::new(192, 168, 127, 1), seconds };
        Some(Lease::new(grant, &answer.options, "api", now))
    }

    fn option(code: u8, value: &[u8]) -> Vec<u8> {
        [&[code, u8::try_from(value.len()).unwrap()], value].concat()
    }

    /// The service's pattern, `^(?:|\s*lease\s*[{](?:\s+[a-z-]+ [^;}]*;)*\s+[}]\s*)$`, by hand.
    fn the_service_takes(text: &str) -> bool {
        fn statements(mut rest: &str) -> bool {
            loop {
                let trimmed = rest.trim_start();
                if trimmed.len() == rest.len() {
                    return false;
                }
                if let Some(end) = trimmed.strip_prefix('}') {
                    return end.trim().is_empty();
                }
                let word = trimmed.trim_start_matches(|c: char| c.is_ascii_lowercase() || c == '-');
                let Some(value) = word.strip_prefix(' ').filter(|_| word.len() < trimmed.len()) else { return false };
                match value.find([';', '}']).map(|at| value.split_at(at)) {
                    Some((_, end)) if end.starts_with(';') => rest = &end[1..],
                    _ => return false,
                }
            }
        }
        let body = text.trim_start().strip_prefix("lease").and_then(|rest| rest.trim_start().strip_prefix('{'));
        text.is_empty() || body.is_some_and(statements)
    }

    #[test]
    fn the_pattern_is_as_strict_as_the_services() {
        for good in ["", "lease {\n}", " lease{\n  a-b c\nd;\n option x \"\";\n\n}\n", "lease {\n  renew never;\n}"] {
            assert!(the_service_takes(good), "{good:?}");
        }
        for bad in [
            "lease {}",
            "lease {\n  a b}\n",
            "lease {\n  a;\n}",
            "lease {\n  a b;c d;\n}",
            "x",
            "lease {\n}\nlease {\n}",
        ] {
            assert!(!the_service_takes(bad), "{bad:?}");
        }
    }

    /// The same answer of dnsmasq 2.90 that dhclient 4.4.3-P1 wrote this for, its randomness of the renewal taken out.
    #[test]
    fn the_text_is_what_dhclient_writes() {
        let options = [
            option(58, &[0, 0, 7, 8]),
            option(59, &[0, 0, 12, 78]),
            option(1, &[255, 255, 255, 0]),
            option(28, &[192, 168, 127, 255]),
            option(3, &[192, 168, 127, 1]),
            option(15, b"prod.example.com"),
            option(12, b"00-1a-4a-10-20-30-api"),
            option(6, &[192, 168, 127, 2, 192, 168, 127, 3]),
        ];
        let expected = r#"lease {
  interface "api";
  fixed-address 192.168.127.104;
  option subnet-mask 255.255.255.0;
  option routers 192.168.127.1;
  option dhcp-lease-time 3600;
  option dhcp-message-type 5;
  option domain-name-servers 192.168.127.2,192.168.127.3;
  option dhcp-server-identifier 192.168.127.1;
  option dhcp-renewal-time 1800;
  option broadcast-address 192.168.127.255;
  option dhcp-rebinding-time 3150;
  option host-name "00-1a-4a-10-20-30-api";
  option domain-name "prod.example.com";
  renew 6 2026/11/21 23:22:02;
  rebind 6 2026/11/21 23:44:32;
  expire 6 2026/11/21 23:52:02;
}"#;
        let lease = lease(3600, &options.concat(), datetime!(2026-11-21 22:52:02 UTC));
        assert_eq!(lease.text, expected);
        assert_eq!(lease.address, Ipv4Addr::new(192, 168, 127, 104));
        assert_eq!(lease.server, Ipv4Addr::new(192, 168, 127, 1));
        assert_eq!(lease.duration, Some(Duration::from_secs(3600)));
    }

    fn times(seconds: u32, options: &[u8]) -> Vec<String> {
        let lease = lease(seconds, options, datetime!(2026-12-31 23:00 UTC));
        lease.text.lines().rev().skip(1).take(3).map(|line| line.trim().to_owned()).collect()
    }

    #[test]
    fn times_not_given_are_those_of_the_standard_and_times_too_late_are_cut() {
        let expected =
            ["expire 5 2027/01/01 00:00:00;", "rebind 4 2026/12/31 23:52:30;", "renew 4 2026/12/31 23:30:00;"];
        assert_eq!(times(3600, &[]), expected);
        let late = times(3600, &[58, 4, 255, 255, 255, 255, 59, 4, 255, 255, 255, 255]);
        assert_eq!(late, ["expire", "rebind", "renew"].map(|name| format!("{name} 5 2027/01/01 00:00:00;")));
        let for_ever = times(u32::MAX, &[58, 4, 0, 0, 0, 60]);
        assert_eq!(for_ever[0], "expire never;");
        assert_eq!(for_ever[2], "renew 4 2026/12/31 23:01:00;");
    }

    #[test]
    fn the_last_address_of_a_file_is_asked_for() {
        let file = "lease {\n  interface \"api\";\n  fixed-address 10.0.0.1;\n}\nlease {\n  fixed-address  10.0.0.2 ;\n  expire never;\n}";
        assert_eq!(last_address(file), Some(Ipv4Addr::new(10, 0, 0, 2)));
        for bad in [
            "",
            "lease {",
            "fixed-address x;",
            "fixed-address 0.0.0.0;",
            "fixed-address 255.255.255.255;",
            "fixed-address 224.0.0.1;",
        ] {
            assert_eq!(last_address(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn no_server_can_break_out_of_the_text(
            host in prop::collection::vec(prop_oneof![any::<u8>(), prop::sample::select(&b";}{\"\\\n\r "[..])], 0..60),
            domain in prop::collection::vec(prop_oneof![any::<u8>(), prop::sample::select(&b";}{\"\\\n\r "[..])], 0..60),
            rest in prop::collection::vec(any::<u8>(), 0..60),
        ) {
            let options = [option(12, &host), option(15, &domain), rest].concat();
            let Some(lease) = lease_if_taken(3600, &options, OffsetDateTime::UNIX_EPOCH) else { return Ok(()) };
            prop_assert!(the_service_takes(&lease.text), "{}", lease.text);
            prop_assert_eq!(lease.text.matches('{').count(), 1);
            prop_assert_eq!(last_address(&lease.text), Some(lease.address));
            let fine = |line: &str| line == "}" || line.starts_with("  ") && line.ends_with(';');
            prop_assert!(lease.text.lines().skip(1).all(fine));
        }

        #[test]
        fn any_text_is_survived(text: String) {
            let _ = last_address(&text);
        }
    }
}
