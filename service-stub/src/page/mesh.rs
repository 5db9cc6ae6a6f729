//! Who reaches whom: the hosts' connectivity reports as a matrix.

use super::host;
use super::html::{Tone, e};
use crate::check::reach::Seen;
use crate::model::HostRecord;
use std::{fmt::Write, sync::Arc};

/// With more hosts than these a matrix is no longer read; then only what is wrong is listed.
const MATRIX: usize = 32;
/// So many links that are wrong are listed.
const LISTED: usize = 200;

/// What one host sees of another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// It answers to ARP or neighbour solicitations.
    pub l2: bool,
    /// It answers to echoes, at each of its addresses that were tried.
    pub l3: bool,
    /// The longest mean round trip, milliseconds.
    pub rtt_ms: f64,
    /// The highest share of lost echoes, percent.
    pub loss: f64,
}

impl Link {
    pub fn of(seen: &Seen) -> Self {
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
    pub fn text(&self) -> String {
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
}

fn link(from: &HostRecord, to: &HostRecord) -> Option<Link> {
    from.facts().reach.as_ref()?.of(to.host.id).map(Link::of)
}

/// The matrix, or for many hosts the links that are wrong.
pub fn matrix(hosts: &[Arc<HostRecord>]) -> String {
    if hosts.len() < 2 {
        return "<p class=\"none\">There is nobody to reach.</p>".to_owned();
    }
    if hosts.len() > MATRIX {
        return troubles(hosts);
    }
    let mut html =
        "<p class=\"key\">What each host on the left reaches: L2 (ARP, NDP), L3 (echoes), round trip, loss</p>\
        <div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"Links between hosts\">\
        <table class=\"mesh\">\
        <thead><tr><th scope=\"col\">from \\ to</th>"
            .to_owned();
    for host in hosts {
        let _ = write!(html, "<th scope=\"col\">{}</th>", e(&host::name(host)));
    }
    html.push_str("</tr></thead><tbody>");
    for from in hosts {
        let _ = write!(html, "<tr><th scope=\"row\">{}</th>", e(&host::name(from)));
        for to in hosts {
            html.push_str(&match link(from, to) {
                _ if from.host.id == to.host.id => {
                    "<td class=\"self\"><span aria-label=\"itself\">–</span></td>".to_owned()
                }
                None => "<td><span class=\"badge plain\">no report</span></td>".to_owned(),
                Some(link) => format!("<td>{}</td>", super::html::badge(link.tone(), &link.text())),
            });
        }
        html.push_str("</tr>");
    }
    html.push_str("</tbody></table></div>");
    html
}

fn troubles(hosts: &[Arc<HostRecord>]) -> String {
    let (mut items, mut wrong, mut silent) = (String::new(), 0_usize, 0_usize);
    for from in hosts {
        for to in hosts.iter().filter(|to| to.host.id != from.host.id) {
            match link(from, to) {
                None => silent += 1,
                Some(link) if link.tone() != Tone::Good => {
                    wrong += 1;
                    if wrong <= LISTED {
                        let shown = super::html::badge(link.tone(), &link.text());
                        let _ = write!(items, "<li>{} → {}: {shown}</li>", e(&host::name(from)), e(&host::name(to)));
                    }
                }
                Some(_) => {}
            }
        }
    }
    let links = hosts.len() * (hosts.len() - 1);
    let more = if wrong > LISTED { format!("<p>The first {LISTED} are shown.</p>") } else { String::new() };
    format!("<p>{links} links: {wrong} are not as they should be, {silent} have no report.</p><ul>{items}</ul>{more}")
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
        Link::of(reach.of(host).unwrap())
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
