//! Leases and offers for a reader at a terminal.

use super::{Allocation, Lease, Offer, Offers, Vip};
use std::{fmt::Write, net::Ipv4Addr, time::Duration};

/// One line an address.
pub(crate) fn leases(allocation: &Allocation) -> String {
    let line = |vip: Vip, lease: &Lease| {
        let (address, server) = (lease.address.to_string(), lease.server);
        let duration = lease.duration.map_or_else(|| "forever".to_owned(), |d| format!("for {}", human(d)));
        format!("{:<7}  {address:<15}  from {server} {duration}\n", vip.to_string())
    };
    line(Vip::Api, &allocation.api) + &line(Vip::Ingress, &allocation.ingress)
}

/// One paragraph an offer.
pub(crate) fn offers(found: &Offers) -> String {
    let Offers { interface, mac, offers, .. } = found;
    if offers.is_empty() {
        return format!(
            "NO OFFER on {interface} for {mac} within {}\n\
             Is there a DHCP server or relay on this network (and VLAN), does its pool have addresses left,\n\
             and does it serve unknown MAC addresses?\n",
            human(Duration::from_millis(found.listened_ms))
        );
    }
    let mut text = format!("offers on {interface} for {mac}; none was accepted\n");
    for offer in offers {
        text.push_str(&paragraph(offer));
    }
    let servers = found.servers();
    if servers.len() > 1 {
        // Writing to a String does not fail.
        let _ = writeln!(
            text,
            "{} SERVERS ANSWER: {}; unless they are a failover pair, one of them does not belong here",
            servers.len(),
            list(&servers.into_iter().collect::<Vec<_>>())
        );
    }
    text
}

fn paragraph(offer: &Offer) -> String {
    let server = offer.server.map_or_else(|| "a server without identifier".to_owned(), |server| server.to_string());
    let mut text = format!("  {} from {server}\n", offer.address);
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "    {name:<12}  {value}");
    };
    line("frame from", format!("{} ({})", offer.from_mac, offer.from_address));
    if let Some(relay) = offer.relay {
        line("relay", relay.to_string());
    }
    if let Some(mask) = offer.subnet_mask {
        line("subnet mask", mask.to_string());
    }
    for (name, addresses) in [("routers", &offer.routers), ("name servers", &offer.name_servers)] {
        if !addresses.is_empty() {
            line(name, list(addresses));
        }
    }
    if let Some(domain) = &offer.domain {
        line("domain", domain.clone());
    }
    match offer.lease_s {
        Some(u32::MAX) => line("lease time", "forever".to_owned()),
        Some(seconds) => line("lease time", human(Duration::from_secs(seconds.into()))),
        None => {}
    }
    text
}

fn list(addresses: &[Ipv4Addr]) -> String {
    addresses.iter().map(Ipv4Addr::to_string).collect::<Vec<_>>().join(", ")
}

/// In the largest unit that says it exactly.
fn human(duration: Duration) -> String {
    let seconds = duration.as_secs();
    if duration.subsec_nanos() > 0 {
        return format!("{} s", duration.as_secs_f64());
    }
    match seconds {
        s if s > 0 && s % 86400 == 0 => format!("{} d", s / 86400),
        s if s > 0 && s % 3600 == 0 => format!("{} h", s / 3600),
        s if s > 0 && s % 60 == 0 => format!("{} min", s / 60),
        s => format!("{s} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::Mac;

    fn offer(server: u8) -> Offer {
        Offer {
            server: Some(Ipv4Addr::new(10, 0, 0, server)),
            address: Ipv4Addr::new(10, 0, 0, 100 + server),
            from_mac: Mac([2, 0, 0, 0, 0, server]),
            from_address: Ipv4Addr::new(10, 0, 0, server),
            relay: None,
            subnet_mask: None,
            routers: vec![],
            name_servers: vec![],
            domain: None,
            lease_s: None,
        }
    }

    fn found(offers: Vec<Offer>) -> Offers {
        let mac = Mac([0x52, 0x54, 0, 0xaa, 0xbb, 1]);
        Offers { schema_version: 1, interface: "ens3".to_owned(), mac, listened_ms: 5000, offers }
    }

    #[test]
    fn two_servers_stand_out() {
        let mut full = offer(1);
        full.relay = Some(Ipv4Addr::new(10, 0, 0, 254));
        full.subnet_mask = Some(Ipv4Addr::new(255, 255, 255, 0));
        full.routers = vec![Ipv4Addr::new(10, 0, 0, 254)];
        full.name_servers = vec![Ipv4Addr::new(10, 0, 0, 2), Ipv4Addr::new(10, 0, 0, 3)];
        full.domain = Some("example.com".to_owned());
        full.lease_s = Some(5400);
        let expected = "offers on ens3 for 52:54:00:aa:bb:01; none was accepted
  10.0.0.101 from 10.0.0.1
    frame from    02:00:00:00:00:01 (10.0.0.1)
    relay         10.0.0.254
    subnet mask   255.255.255.0
    routers       10.0.0.254
    name servers  10.0.0.2, 10.0.0.3
    domain        example.com
    lease time    90 min
  10.0.0.102 from 10.0.0.2
    frame from    02:00:00:00:00:02 (10.0.0.2)
2 SERVERS ANSWER: 10.0.0.1, 10.0.0.2; unless they are a failover pair, one of them does not belong here
";
        assert_eq!(offers(&found(vec![full, offer(2)])), expected);
    }

    #[test]
    fn silence_says_what_to_look_for() {
        let text = offers(&found(vec![]));
        assert!(
            text.starts_with("NO OFFER on ens3 for 52:54:00:aa:bb:01 within 5 s\nIs there a DHCP server"),
            "{text}"
        );
    }

    #[test]
    fn leases_are_a_line_each() {
        let lease = |last, duration| Lease {
            address: Ipv4Addr::new(10, 0, 0, last),
            server: Ipv4Addr::new(10, 0, 0, 1),
            duration,
            text: String::new(),
        };
        let allocation = Allocation { api: lease(5, Some(Duration::from_secs(7200))), ingress: lease(123, None) };
        let expected =
            "API      10.0.0.5         from 10.0.0.1 for 2 h\ningress  10.0.0.123       from 10.0.0.1 forever\n";
        assert_eq!(leases(&allocation), expected);
    }
}
