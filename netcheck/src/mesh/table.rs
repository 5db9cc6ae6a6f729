//! Findings for a reader at a terminal.

use super::{Findings, HostFindings};
use crate::codec::text::printable;
use std::{
    fmt::{Display, Write},
    time::Duration,
};

/// One paragraph a host, one line a finding; problems are said in words.
pub(crate) fn render(findings: &Findings) -> String {
    if findings.hosts.is_empty() {
        return "no hosts to check\n".to_owned();
    }
    findings.hosts.iter().map(render_host).collect::<Vec<_>>().join("\n")
}

fn render_host(host: &HostFindings) -> String {
    let mut text = format!("host {}\n", host.host_id);
    let mut line = |address: &dyn Display, what: &str, result: String| {
        // Writing to a String does not fail.
        let _ = writeln!(text, "  {:<39}  {what:<4}  {result}", address.to_string());
    };
    for responder in &host.responders {
        let verdict = if responder.expected { "" } else { "  NOT THIS HOST: another station holds its address" };
        let what = if responder.address.is_ipv4() { "ARP" } else { "NDP" };
        line(&responder.address, what, format!("{} on {}{verdict}", responder.mac, responder.interface));
    }
    for echo in &host.echoes {
        let statistics = &echo.statistics;
        let loss = statistics.loss_percent();
        line(
            &echo.address,
            "echo",
            match statistics.round_trip {
                None => format!("NO ANSWER to {} echoes", statistics.sent),
                Some(trip) => {
                    let [min, mean, max, jitter] = [trip.min, trip.mean, trip.max, trip.jitter].map(milliseconds);
                    let word = if loss > 0.0 { "LOSS" } else { "loss" };
                    format!("{word} {loss:.0} %, min/avg/max {min:.3}/{mean:.3}/{max:.3} ms, jitter {jitter:.3} ms")
                }
            },
        );
    }
    for mtu in &host.mtus {
        let verdict = match (mtu.passed, mtu.path) {
            (true, _) => "passes".to_owned(),
            (false, None) => "DOES NOT PASS".to_owned(),
            (false, Some(path)) => {
                let reported = path.reported.map(|hop| format!(" ({} says {})", hop.hop, hop.mtu)).unwrap_or_default();
                format!("DOES NOT PASS, {} does{reported}", path.largest)
            }
        };
        line(&mtu.address, "MTU", format!("{} from {} {verdict}", mtu.mtu, mtu.interface));
    }
    for unprobed in &host.unprobed {
        let text: String = printable(unprobed.text.as_bytes()).chars().take(39).collect();
        line(&text, "echo", "NOT SENT: not a unicast address".to_owned());
    }
    if host.unprobed.is_empty() && host.responders.is_empty() && host.echoes.is_empty() && host.mtus.is_empty() {
        text.push_str("  nothing to probe\n");
    }
    text
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mesh::{EchoFinding, EchoStatistics, MtuFinding, PathMtu, Responder, RoundTrip, TooBig, Unprobed};
    use api::{HostId, Mac};
    use std::net::IpAddr;

    #[test]
    fn problems_stand_out() {
        let address: IpAddr = "10.0.0.9".parse().unwrap();
        let ms = Duration::from_millis;
        let trip = RoundTrip { min: ms(1), mean: ms(2), max: ms(3), jitter: ms(1) };
        let responder = |last, expected| Responder {
            address,
            interface: "a".into(),
            source: None,
            mac: Mac([2, 0, 0, 0, 0, last]),
            expected,
        };
        let hop = "10.0.0.254".parse().unwrap();
        let mtu = |reported: Option<Option<TooBig>>| {
            let path = reported.map(|reported| PathMtu { largest: 1400, reported });
            MtuFinding { address, interface: "a".into(), mtu: 9000, passed: false, path }
        };
        let host = HostFindings {
            host_id: HostId::default(),
            responders: vec![responder(1, true), responder(2, false)],
            echoes: vec![
                EchoFinding { address, statistics: EchoStatistics { sent: 10, received: 9, round_trip: Some(trip) } },
                EchoFinding { address, statistics: EchoStatistics { sent: 10, received: 0, round_trip: None } },
            ],
            mtus: vec![mtu(None), mtu(Some(None)), mtu(Some(Some(TooBig { hop, mtu: 1500 })))],
            unprobed: vec![Unprobed { text: format!("\x1b[2J{}", "x".repeat(80)), failed_mtus: vec![] }],
        };
        let idle = HostFindings {
            host_id: HostId::default(),
            responders: vec![],
            echoes: vec![],
            mtus: vec![],
            unprobed: vec![],
        };
        let text = render(&Findings { hosts: vec![host, idle] });
        let (column, odd) = (format!("  {address:<39}  "), "x".repeat(35));
        let expected = format!(
            "host 00000000-0000-0000-0000-000000000000\n\
             {column}ARP   02:00:00:00:00:01 on a\n\
             {column}ARP   02:00:00:00:00:02 on a  NOT THIS HOST: another station holds its address\n\
             {column}echo  LOSS 10 %, min/avg/max 1.000/2.000/3.000 ms, jitter 1.000 ms\n\
             {column}echo  NO ANSWER to 10 echoes\n\
             {column}MTU   9000 from a DOES NOT PASS\n\
             {column}MTU   9000 from a DOES NOT PASS, 1400 does\n\
             {column}MTU   9000 from a DOES NOT PASS, 1400 does (10.0.0.254 says 1500)\n\
             \x20 \u{fffd}[2J{odd}  echo  NOT SENT: not a unicast address\n\
             \nhost 00000000-0000-0000-0000-000000000000\n  nothing to probe\n"
        );
        assert_eq!(text, expected);
    }
}
