//! Links between hosts: their connectivity reports as a matrix.

use super::host;
use super::html::{Tone, badge, line, none};
use crate::check::reach::Seen;
use crate::model::HostRecord;
use maud::{Markup, html};
use std::{fmt::Write, sync::Arc};

/// With more hosts a matrix is unreadable, so only the bad links are listed.
const MATRIX: usize = 32;
/// Maximum number of bad links listed.
const LISTED: usize = 200;

/// What one host sees of another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Link {
    /// It answers ARP or neighbour solicitations.
    pub l2: bool,
    /// It answers echo requests at every address that was tried.
    pub l3: bool,
    /// The longest mean round trip, milliseconds.
    pub rtt_ms: f64,
    /// The highest share of lost echoes, percent.
    pub loss: f64,
}

impl Link {
    pub(super) fn new(seen: &Seen) -> Self {
        let highest = |value: &dyn Fn(&crate::check::reach::Echo) -> f64| seen.l3.iter().map(value).fold(0.0, f64::max);
        Self {
            l2: seen.l2.iter().any(|neighbour| neighbour.successful),
            l3: !seen.l3.is_empty() && seen.l3.iter().all(|echo| echo.successful),
            rtt_ms: highest(&|echo| if echo.successful { echo.average_rtt_ms } else { 0.0 }),
            loss: highest(&|echo| echo.packet_loss_percentage),
        }
    }

    fn tone(&self) -> Tone {
        match (self.l2, self.l3) {
            (true, true) if self.loss == 0.0 => Tone::Good,
            (false, false) => Tone::Bad,
            _ => Tone::Warn,
        }
    }

    /// For people: `L2 L3, 0.3 ms`.
    pub(super) fn text(&self) -> String {
        let mut text = match (self.l2, self.l3) {
            (true, true) => "L2 L3".to_owned(),
            (true, false) => "L2, not L3".to_owned(),
            (false, true) => "L3, not L2".to_owned(),
            (false, false) => "not reached".to_owned(),
        };
        if self.l3 && self.rtt_ms > 0.0 {
            let _ = write!(text, ", {:.1} ms", self.rtt_ms);
        }
        if self.loss > 0.0 {
            let _ = write!(text, ", {:.0} % lost", self.loss);
        }
        text
    }

    fn badge(&self) -> Markup {
        badge(self.tone(), &self.text())
    }
}

fn link(from: &HostRecord, to: &HostRecord) -> Option<Link> {
    from.facts().reach.as_ref()?.seen(to.host.id).map(Link::new)
}

/// The matrix, or for many hosts the bad links.
pub(super) fn matrix(hosts: &[Arc<HostRecord>]) -> Markup {
    if hosts.len() < 2 {
        return none("There are no other hosts.");
    }
    if hosts.len() > MATRIX {
        return troubles(hosts);
    }
    html! {
        p.key { "Each row shows what that host reaches: L2 (ARP, NDP), L3 (ping), round trip, packet loss" }
        div.wide tabindex="0" role="region" aria-label="Links between hosts" {
            table.mesh {
                thead {
                    tr {
                        th scope="col" { "from \\ to" }
                        @for host in hosts { th scope="col" { (line(&host::name(host))) } }
                    }
                }
                tbody {
                    @for from in hosts {
                        tr {
                            th scope="row" { (line(&host::name(from))) }
                            @for to in hosts { (cell(from, to)) }
                        }
                    }
                }
            }
        }
    }
}

fn cell(from: &HostRecord, to: &HostRecord) -> Markup {
    match link(from, to) {
        _ if from.host.id == to.host.id => html! { td.self { span aria-label="itself" { "–" } } },
        None => html! { td { span.badge.plain { "no report" } } },
        Some(link) => html! { td { (link.badge()) } },
    }
}

fn troubles(hosts: &[Arc<HostRecord>]) -> Markup {
    let (mut wrong, mut silent) = (Vec::new(), 0_usize);
    for from in hosts {
        for to in hosts.iter().filter(|to| to.host.id != from.host.id) {
            match link(from, to) {
                None => silent += 1,
                Some(link) if link.tone() != Tone::Good => wrong.push((from, to, link)),
                Some(_) => {}
            }
        }
    }
    html! {
        p {
            (hosts.len() * (hosts.len() - 1)) " links: " (wrong.len()) " are bad, "
            (silent) " have no report."
        }
        ul {
            @for (from, to, link) in wrong.iter().take(LISTED) {
                li { (line(&host::name(from))) " → " (line(&host::name(to))) ": " (link.badge()) }
            }
        }
        @if wrong.len() > LISTED { p { "Only the first " (LISTED) " are shown." } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::reach::Reach;

    fn seen(l2: bool, echoes: &[(bool, f64, f64)]) -> Link {
        let host = api::HostId::random();
        let report = serde_json::json!({"remote_hosts": [{
            "host_id": host,
            "l2_connectivity": [{"remote_ip_address": "10.0.0.1", "successful": l2}],
            "l3_connectivity": echoes.iter().map(|(successful, rtt, loss)| serde_json::json!({
                "remote_ip_address": "10.0.0.1", "successful": successful, "average_rtt_ms": rtt, "packet_loss_percentage": loss,
            })).collect::<Vec<_>>(),
        }]});
        let reach = Reach::from(serde_json::from_value::<api::ConnectivityReport>(report).unwrap());
        Link::new(reach.seen(host).unwrap())
    }

    #[test]
    fn links_in_words() {
        for (link, tone, text) in [
            (seen(true, &[(true, 0.31, 0.0)]), Tone::Good, "L2 L3, 0.3 ms"),
            (seen(true, &[(true, 0.31, 0.0), (true, 12.0, 10.0)]), Tone::Warn, "L2 L3, 12.0 ms, 10 % lost"),
            (seen(false, &[(true, 3.0, 0.0)]), Tone::Warn, "L3, not L2, 3.0 ms"),
            (seen(true, &[(true, 1.0, 0.0), (false, 0.0, 100.0)]), Tone::Warn, "L2, not L3, 100 % lost"),
            (seen(false, &[]), Tone::Bad, "not reached"),
        ] {
            assert_eq!((link.tone(), link.text().as_str()), (tone, text));
        }
    }
}
