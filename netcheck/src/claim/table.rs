//! Who holds which address, for a reader at a terminal.

use super::{Claim, Duplicate, Holder};
use std::fmt::Write;

/// One line a holder.
pub(crate) fn render(claims: &[Claim]) -> String {
    let mut text = String::new();
    for claim in claims {
        let mut line = |what: String| {
            // Writing to a String does not fail.
            let _ = writeln!(text, "{:<39}  {what}", claim.address.to_string());
        };
        for holder in &claim.holders {
            line(match holder {
                Holder::Ourselves { interface } => format!("IN USE   by this host, on {interface}"),
                Holder::Neighbour { interface, mac } => format!("IN USE   by {mac}, on {interface}"),
                Holder::Remote => "IN USE   answers echoes; not on a network of this host".to_owned(),
            });
        }
        if claim.holders.is_empty() {
            line(match (&claim.obstacle, &*claim.links) {
                (Some(obstacle), _) => format!("UNKNOWN  could not be probed: {obstacle}"),
                (None, []) => {
                    "no answer to echoes; not on a network of this host, so it may still be in use".to_owned()
                }
                (None, links) => format!("free     no answer on {}", links.join(", ")),
            });
        }
    }
    if claims.is_empty() { "no addresses to check\n".to_owned() } else { text }
}

/// One line a station that has an address of ours.
pub(crate) fn render_duplicates(duplicates: &[Duplicate]) -> String {
    let mut text = String::new();
    for Duplicate { address, interface, mac } in duplicates {
        let _ = writeln!(text, "{:<39}  DUPLICATE: ours on {interface}, and {mac} has it too", address.to_string());
    }
    if duplicates.is_empty() { "no other station holds an address of this host\n".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::Mac;

    #[test]
    fn each_holder_has_a_line() {
        let claim = |last: u8, holders, links: &[&str]| Claim {
            address: [10, 0, 0, last].into(),
            holders,
            links: links.iter().map(|&link| link.to_owned()).collect(),
            obstacle: None,
        };
        let obstacle = Some("a has no link".to_owned());
        let interface = || "a".to_owned();
        let mac = Mac([2, 0, 0, 0, 0, 1]);
        let both =
            vec![Holder::Ourselves { interface: interface() }, Holder::Neighbour { interface: interface(), mac }];
        let text = render(&[
            claim(1, both, &["a"]),
            claim(2, vec![Holder::Remote], &[]),
            claim(3, vec![], &["a", "b"]),
            claim(4, vec![], &[]),
            Claim { obstacle, ..claim(5, vec![], &[]) },
        ]);
        let column = |last: u8| format!("{:<39}  ", format!("10.0.0.{last}"));
        let expected = format!(
            "{0}IN USE   by this host, on a\n\
             {0}IN USE   by 02:00:00:00:00:01, on a\n\
             {1}IN USE   answers echoes; not on a network of this host\n\
             {2}free     no answer on a, b\n\
             {3}no answer to echoes; not on a network of this host, so it may still be in use\n\
             {4}UNKNOWN  could not be probed: a has no link\n",
            column(1),
            column(2),
            column(3),
            column(4),
            column(5)
        );
        assert_eq!(text, expected);
        let duplicate = Duplicate { address: [10, 0, 0, 1].into(), interface: interface(), mac };
        let expected = format!("{}DUPLICATE: ours on a, and 02:00:00:00:00:01 has it too\n", column(1));
        assert_eq!(render_duplicates(&[duplicate]), expected);
    }
}
