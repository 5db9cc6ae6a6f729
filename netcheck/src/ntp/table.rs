//! Findings for a reader at a terminal.

use super::{ChronySource, ChronydFindings, Findings, Measured, ip};
use crate::codec::{
    chrony::{Mode, SourceAddress, State},
    text::printable,
};
use std::fmt::Write;

/// One line a source; columns as wide as they need be, so that no address is cut.
pub(crate) fn render(findings: &Findings) -> String {
    match findings {
        Findings::Chronyd(findings) => of_chronyd(findings),
        Findings::Measured(measured) => of_servers(measured),
    }
}

fn of_chronyd(findings: &ChronydFindings) -> String {
    let mut text = format!("chronyd at {}", findings.place);
    if let Some(tracking) = &findings.tracking {
        let follows = match (tracking.leap, tracking.address) {
            (3, _) => "the clock follows nothing".to_owned(),
            (_, Some(address)) => format!("the clock follows {address}"),
            (_, None) => "the clock follows a local reference".to_owned(),
        };
        // Writing to a String does not fail.
        let _ = write!(text, ": {follows}, stratum {}, {}", tracking.stratum, clock(-tracking.correction_s));
    }
    text.push('\n');
    if findings.sources.is_empty() {
        text.push_str("it has no sources; name a server to give it one\n");
        return text;
    }
    let rows = findings.sources.iter().map(chrony_row);
    text + &columns(["SOURCE", "STATE", "STRATUM", "OFFSET", "DELAY", "LAST HEARD"], rows)
}

fn chrony_row(source: &ChronySource) -> [String; 6] {
    let (name, data) = (source.name.as_ref().or(source.listed.configured.as_ref()), &source.listed.source);
    let address = match (data.mode, data.address) {
        (Mode::ReferenceClock, _) => "reference clock".to_owned(),
        (_, SourceAddress::Ip(address)) => address.to_string(),
        (_, SourceAddress::Unresolved(_) | SourceAddress::None) => "not resolved".to_owned(),
    };
    let label = match name {
        Some(name) if *name != address => format!("{name} ({address})"),
        _ => address,
    };
    let state = match data.state {
        State::Selected => "synced",
        State::Unselected => "combined",
        State::Selectable => "not combined",
        State::NonSelectable if ip(data.address).is_none() => "no address",
        State::NonSelectable => "unreachable",
        State::Falseticker => "FALSE TIME",
        State::Jittery => "variable",
        State::Other(_) => "unknown",
    };
    let kind = if data.mode == Mode::Peer { " (peer)" } else { "" };
    let heard = data.since_sample_s.map(|seconds| format!("{seconds} s ago"));
    let known = |value: String| if heard.is_some() { value } else { "-".to_owned() };
    [
        label,
        format!("{state}{kind}"),
        known(data.stratum.to_string()),
        known(clock(data.offset_s)),
        source.listed.delay_s.map_or("-".to_owned(), span),
        heard.clone().unwrap_or_else(|| "never".to_owned()),
    ]
}

fn of_servers(measured: &Measured) -> String {
    let mut text = match &measured.no_chronyd {
        Some(attempts) => format!("chronyd does not answer ({attempts}): nothing synchronises this host's clock\n"),
        None => String::new(),
    };
    let mut problems = String::new();
    let rows: Vec<_> = measured
        .servers
        .iter()
        .map(|(server, offset)| {
            let cells = match offset {
                Ok(offset) => [
                    "answers".to_owned(),
                    offset.stratum.to_string(),
                    clock(-offset.offset_s),
                    span(offset.delay_s),
                    format!("{}", offset.address.ip()),
                ],
                Err(error) => {
                    let _ = writeln!(problems, "{}", printable(error.to_string().as_bytes()));
                    ["NO TIME", "-", "-", "-", "-"].map(str::to_owned)
                }
            };
            let [state, stratum, offset, delay, address] = cells;
            [server.clone(), state, stratum, offset, delay, address]
        })
        .collect();
    text += &columns(["SERVER", "STATE", "STRATUM", "OFFSET", "DELAY", "ADDRESS"], rows.into_iter());
    text + &problems
}

/// How far this host's clock is ahead, in words: signs are read differently by different programs.
fn clock(ahead_s: f64) -> String {
    format!("{} {}", span(ahead_s.abs()), if ahead_s < 0.0 { "slow" } else { "fast" })
}

fn span(seconds: f64) -> String {
    match seconds {
        ..1e-3 => format!("{:.1} us", seconds * 1e6),
        ..1.0 => format!("{:.1} ms", seconds * 1e3),
        ..172_800.0 => format!("{seconds:.1} s"),
        _ => format!("{:.1} days", seconds / 86400.0),
    }
}

fn columns<const N: usize>(heading: [&str; N], rows: impl Iterator<Item = [String; N]>) -> String {
    // Names come from the network and from the process that answers as chronyd.
    let rows = std::iter::once(heading.map(str::to_owned)).chain(rows);
    let rows: Vec<_> = rows.map(|row| row.map(|cell| printable(cell.as_bytes()))).collect();
    kernel::columns(&rows, &[], "  ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        codec::chrony::{Source, Tracking},
        ntp::{Listed, Offset, SntpError},
    };

    #[test]
    fn a_table_of_chronyds_sources() {
        let address = "2001:db8:1111:2222:3333:4444:5555:6666".parse().unwrap();
        let source = Source {
            address: SourceAddress::Ip(address),
            stratum: 2,
            state: State::Selected,
            mode: Mode::Client,
            since_sample_s: Some(12),
            offset_s: -0.000_012,
        };
        let unresolved = Source {
            address: SourceAddress::Unresolved(1),
            state: State::NonSelectable,
            since_sample_s: None,
            ..source
        };
        let listed =
            |source, delay_s, configured: &str| Listed { source, configured: Some(configured.into()), delay_s };
        let findings = Findings::Chronyd(ChronydFindings {
            place: "/run/chrony/chronyd.sock".into(),
            tracking: Some(Tracking { address: Some(address), stratum: 3, leap: 0, correction_s: 0.25 }),
            sources: vec![
                ChronySource { listed: listed(source, Some(0.0021), "ntp"), name: Some("ntp.example.com".into()) },
                ChronySource { listed: listed(unresolved, None, "nothere.example.com"), name: None },
            ],
        });
        let expected = "\
chronyd at /run/chrony/chronyd.sock: the clock follows 2001:db8:1111:2222:3333:4444:5555:6666, stratum 3, 250.0 ms slow
SOURCE                                                    STATE       STRATUM  OFFSET        DELAY   LAST HEARD
ntp.example.com (2001:db8:1111:2222:3333:4444:5555:6666)  synced      2        12.0 us slow  2.1 ms  12 s ago
nothere.example.com (not resolved)                        no address  -        -             -       never
";
        assert_eq!(render(&findings), expected);
    }

    #[test]
    fn no_name_steers_the_terminal() {
        let source = Source {
            address: SourceAddress::Ip([10, 0, 0, 1].into()),
            stratum: 2,
            state: State::Selected,
            mode: Mode::Client,
            since_sample_s: Some(1),
            offset_s: 0.0,
        };
        let row = |configured: &str, name: Option<&str>| ChronySource {
            listed: Listed { source, configured: Some(configured.into()), delay_s: None },
            name: name.map(str::to_owned),
        };
        let sources = vec![row("\u{1b}[2Jntp\nb", None), row("ntp", Some("\u{202e}moc.a\u{7}"))];
        let findings = ChronydFindings { place: "UDP".into(), tracking: None, sources };
        let expected = "\
chronyd at UDP
SOURCE                STATE   STRATUM  OFFSET       DELAY  LAST HEARD
\u{fffd}[2Jntp b (10.0.0.1)  synced  2        0.0 us fast  -      1 s ago
\u{fffd}moc.a\u{fffd} (10.0.0.1)    synced  2        0.0 us fast  -      1 s ago
";
        assert_eq!(render(&Findings::Chronyd(findings)), expected);

        let servers = vec![("\u{1b}[2J".to_owned(), Err(SntpError::Unresolved { server: "\u{1b}[2J".into() }))];
        let text = render(&Findings::Measured(Measured { no_chronyd: None, servers }));
        assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
    }

    #[test]
    fn a_table_of_servers_asked_directly() {
        let offset = Offset {
            address: ([10, 0, 0, 1], 123).into(),
            offset_s: 63_072_000.0,
            delay_s: 0.0005,
            stratum: 1,
            root_distance_s: 0.0,
            samples: 3,
        };
        let servers = vec![
            ("ntp.example.com".to_owned(), Ok(offset)),
            ("b".to_owned(), Err(SntpError::Unresolved { server: "b".into() })),
        ];
        let expected = "\
SERVER           STATE    STRATUM  OFFSET           DELAY     ADDRESS
ntp.example.com  answers  1        730.0 days slow  500.0 us  10.0.0.1
b                NO TIME  -        -                -         -
the name b could not be resolved
";
        assert_eq!(render(&Findings::Measured(Measured { no_chronyd: None, servers })), expected);
    }
}
