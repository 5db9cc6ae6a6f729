//! Answers for a reader at a terminal.

use super::request::WILDCARD_PREFIX;
use crate::codec::text::printable;
use resolve::{Answer, Outcome, Source};
use std::fmt::Write;

/// One paragraph a name; problems are said in words.
pub(crate) fn render(answers: &[Answer]) -> String {
    if answers.is_empty() {
        return "no names to look up\n".to_owned();
    }
    answers.iter().map(render_answer).collect::<Vec<_>>().join("\n")
}

fn render_answer(answer: &Answer) -> String {
    // Names come from the network in part.
    let mut text = printable(answer.name.as_bytes()) + "\n";
    // Writing to a String does not fail.
    let mut line = |what: &str, value: &str| {
        let _ = writeln!(text, "  {what:<9}  {}", printable(value.as_bytes()));
    };
    if let Some(problem) = problem(answer.outcome) {
        line("result", problem);
    }
    let addresses = answer.v4.iter().map(ToString::to_string).chain(answer.v6.iter().map(ToString::to_string));
    let addresses: Vec<String> = addresses.collect();
    if !addresses.is_empty() {
        line("addresses", &addresses.join(" "));
    }
    // Only what is not in the name already.
    let is_news = |name: &&String| !name.trim_end_matches('.').eq_ignore_ascii_case(answer.name.trim_end_matches('.'));
    if let Some(found) = answer.found_as.as_ref().filter(is_news) {
        line("found as", found);
    }
    if let Some(canonical) =
        answer.canonical.as_ref().filter(is_news).filter(|name| Some(*name) != answer.found_as.as_ref())
    {
        line("alias of", canonical);
    }
    match answer.source {
        Some(Source::HostsFile) => line("from", "the hosts file"),
        Some(Source::Localhost) => line("from", "this host itself (RFC 6761)"),
        Some(Source::Server(server)) => line("from", &server.to_string()),
        None => {}
    }
    if let Some(warning) = wildcard(answer) {
        line("WARNING", &warning);
    }
    for failure in &answer.failures {
        line("trouble", &failure.to_string());
    }
    text
}

fn problem(outcome: Outcome) -> Option<&'static str> {
    match outcome {
        Outcome::Found => None,
        Outcome::NoSuchName => Some("NO SUCH NAME"),
        Outcome::NoAddress => Some("NO ADDRESS: the name exists, without A and AAAA records"),
        Outcome::DanglingAlias => Some("NO ADDRESS: the name is an alias of one without addresses"),
        Outcome::Failed => Some("FAILED: no server said whether it exists"),
    }
}

/// What it means that a name resolves only by a wildcard.
fn wildcard(answer: &Answer) -> Option<String> {
    let domain = answer.name.strip_prefix(WILDCARD_PREFIX).filter(|_| answer.outcome == Outcome::Found)?;
    let found = answer.found_as.as_deref().unwrap_or_default();
    let itself = answer.name.trim_end_matches('.');
    let search = found.trim_end_matches('.').get(itself.len()..).unwrap_or_default().trim_start_matches('.');
    Some(if search.is_empty() {
        format!("a wildcard answers for every name in {domain}: an installation can't start")
    } else {
        format!(
            "the search domain {search} has a wildcard, which answers for every name of this host: an installation can't start"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use resolve::{Cause, Failure, Record};

    #[test]
    fn problems_stand_out() {
        let server = "192.0.2.1:53".parse().unwrap();
        let failure =
            Failure { server: Some(server), name: "a.d.".into(), record: Record::A, cause: Cause::Refused(2) };
        let plain = |name: &str, outcome| Answer::new(name, outcome);
        let found = |name: &str, found_as: &str, canonical: &str| Answer {
            v4: vec!["10.0.0.1".parse().unwrap()],
            v6: vec!["fd00::1".parse().unwrap()],
            found_as: Some(found_as.into()),
            canonical: Some(canonical.into()),
            source: Some(Source::Server(server)),
            ..plain(name, Outcome::Found)
        };
        let answers = [
            found("api.c.d", "api.c.d.", "Api.c.d."),
            Answer { failures: vec![failure], ..found("web", "web.lab.", "real.lab.") },
            found("validateNoWildcardDNS.c.d.", "validateNoWildcardDNS.c.d.", "validateNoWildcardDNS.c.d."),
            found("validateNoWildcardDNS.c.d", "validateNoWildcardDNS.c.d.lab.", "validateNoWildcardDNS.c.d.lab."),
            plain("gone\u{1b}", Outcome::NoSuchName),
            plain("mail", Outcome::NoAddress),
            Answer { canonical: Some("x.".into()), ..plain("dangling", Outcome::DanglingAlias) },
            plain("dead", Outcome::Failed),
        ];
        let expected = "\
api.c.d
  addresses  10.0.0.1 fd00::1
  from       192.0.2.1:53

web
  addresses  10.0.0.1 fd00::1
  found as   web.lab.
  alias of   real.lab.
  from       192.0.2.1:53
  trouble    192.0.2.1:53 asked for A of a.d.: server failure (SERVFAIL)

validateNoWildcardDNS.c.d.
  addresses  10.0.0.1 fd00::1
  from       192.0.2.1:53
  WARNING    a wildcard answers for every name in c.d.: an installation can't start

validateNoWildcardDNS.c.d
  addresses  10.0.0.1 fd00::1
  found as   validateNoWildcardDNS.c.d.lab.
  from       192.0.2.1:53
  WARNING    the search domain lab has a wildcard, which answers for every name of this host: an installation can't start

gone\u{fffd}
  result     NO SUCH NAME

mail
  result     NO ADDRESS: the name exists, without A and AAAA records

dangling
  result     NO ADDRESS: the name is an alias of one without addresses
  alias of   x.

dead
  result     FAILED: no server said whether it exists
";
        assert_eq!(render(&answers), expected);
    }
}
