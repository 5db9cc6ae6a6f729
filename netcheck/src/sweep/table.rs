//! Who is on a network, for a reader at a terminal.

use super::Findings;
use std::fmt::Write;

/// One paragraph a network, one line an occupied address.
pub(crate) fn render(findings: &[Findings]) -> String {
    findings.iter().map(render_network).collect::<Vec<_>>().join("\n")
}

fn render_network(findings: &Findings) -> String {
    let Findings { network, interface, occupied } = findings;
    let free = network.addresses().size_hint().0.saturating_sub(occupied.len());
    let duplicates = occupied.iter().filter(|occupied| occupied.is_duplicate()).count();
    let mut text = format!("network {network} on {interface}: {} occupied, {free} free", occupied.len());
    // Writing to a String does not fail.
    let _ = if duplicates > 0 { writeln!(text, ", {duplicates} DUPLICATE") } else { writeln!(text) };
    for occupied in occupied {
        let ours = occupied.ours.iter().map(|interface| format!("this host ({interface})"));
        let holders: Vec<_> = ours.chain(occupied.stations.iter().map(ToString::to_string)).collect();
        let verdict = if occupied.is_duplicate() { "  DUPLICATE: several stations hold this address" } else { "" };
        let _ = writeln!(text, "  {:<15}  {}{verdict}", occupied.address.to_string(), holders.join(", "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::Occupied;
    use api::Mac;

    #[test]
    fn duplicates_stand_out() {
        let occupied = |last, ours: Option<&str>, macs: &[u8]| Occupied {
            address: [10, 0, 0, last].into(),
            ours: ours.map(str::to_owned),
            stations: macs.iter().map(|&last| Mac([2, 0, 0, 0, 0, last])).collect(),
        };
        let network =
            |network: &str, occupied| Findings { network: network.parse().unwrap(), interface: "a".into(), occupied };
        let first = vec![
            occupied(1, Some("a"), &[]),
            occupied(2, None, &[1]),
            occupied(3, None, &[1, 2]),
            occupied(4, Some("b"), &[1]),
        ];
        let text = render(&[network("10.0.0.0/24", first), network("10.0.1.0/30", vec![])]);
        let expected = "network 10.0.0.0/24 on a: 4 occupied, 252 free, 2 DUPLICATE\n\
            \x20 10.0.0.1         this host (a)\n\
            \x20 10.0.0.2         02:00:00:00:00:01\n\
            \x20 10.0.0.3         02:00:00:00:00:01, 02:00:00:00:00:02  DUPLICATE: several stations hold this address\n\
            \x20 10.0.0.4         this host (b), 02:00:00:00:00:01  DUPLICATE: several stations hold this address\n\
            \nnetwork 10.0.1.0/30 on a: 0 occupied, 4 free\n";
        assert_eq!(text, expected);
    }
}
