//! Two runs of the same machines, side by side.

use super::super::{
    Console, Session,
    table::{Column, Table},
};
use crate::text::{self, at};
use api::endpoint::GET_CERTIFICATION_FILE;
use inventory::report::{Change, changes};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// More differences are only counted.
const MAX_FACTS: usize = 100;
/// The file with the facts.
const REPORT: &str = "report.json";

/// What is to be compared of a machine.
struct Pair<'a> {
    title: String,
    first: &'a Value,
    second: &'a Value,
}

fn hosts(run: &Value) -> Vec<&Value> {
    run.pointer("/result/hosts").and_then(Value::as_array).into_iter().flatten().collect()
}

/// Machines with the same serial number; a single one of each run in any case.
fn pairs<'a>(first: &'a Value, second: &'a Value) -> Vec<Pair<'a>> {
    let (a, b) = (hosts(first), hosts(second));
    if let ([one], [other]) = (a.as_slice(), b.as_slice()) {
        let (own, theirs) = (at(one, "/serial"), at(other, "/serial"));
        let title = if own == theirs { own.to_owned() } else { format!("{own} and {theirs}") };
        return vec![Pair { title, first: one, second: other }];
    }
    let same = a.into_iter().filter_map(|one| {
        let other = b.iter().find(|other| at(other, "/serial") == at(one, "/serial"))?;
        Some(Pair { title: at(one, "/serial").to_owned(), first: one, second: other })
    });
    same.collect()
}

/// Steps and measurements of a machine in both runs.
fn measurements(pair: &Pair) -> Table {
    let mut table = Table::new(&[
        ("STEP", Column::State),
        ("WHAT", Column::Reason),
        ("FIRST", Column::State),
        ("SECOND", Column::State),
        ("CHANGE", Column::Detail(1)),
    ]);
    let steps = |host: &'_ Value| host["steps"].as_array().cloned().unwrap_or_default();
    let (first, second) = (steps(pair.first), steps(pair.second));
    table.row([String::new(), "verdict".to_owned(), verdict(pair.first), verdict(pair.second), String::new()]);
    for index in 0..first.len().max(second.len()) {
        let (a, b) = (first.get(index).unwrap_or(&Value::Null), second.get(index).unwrap_or(&Value::Null));
        let name = |step: &Value| at(step, "/do").to_owned();
        let (own, theirs) = (name(a), name(b));
        let step = if own == theirs || theirs.is_empty() { own } else { format!("{own} {theirs}").trim().to_owned() };
        let state = |step: &Value| at(step, "/state").to_owned();
        table.row([step, "state".to_owned(), state(a), state(b), String::new()]);
        let keys = [a, b].into_iter().filter_map(|step| step["measurements"].as_object()).flat_map(|all| all.keys());
        for key in keys.collect::<BTreeSet<_>>() {
            let value = |step: &Value| step["measurements"][key].as_f64();
            let (x, y) = (value(a), value(b));
            let change = match (x, y) {
                (Some(x), Some(y)) if x != 0.0 => format!("{:+.1} %", (y - x) / x * 100.0),
                _ => String::new(),
            };
            table.row([String::new(), key.clone(), number(x), number(y), change]);
        }
    }
    table
}

fn verdict(host: &Value) -> String {
    super::show::verdict(at(host, "/verdict")).to_owned()
}

/// Short, and exact enough to compare.
fn number(value: Option<f64>) -> String {
    let Some(value) = value else { return String::new() };
    match value.abs() {
        1e15.. => format!("{value:.3e}"),
        1e12.. => format!("{:.2}T", value / 1e12),
        1e9.. => format!("{:.2}G", value / 1e9),
        1e6.. => format!("{:.2}M", value / 1e6),
        100.0.. => format!("{value:.0}"),
        _ => format!("{value:.2}").trim_end_matches('0').trim_end_matches('.').to_owned(),
    }
}

fn report(session: &Session, run: &Value, host: &Value) -> Option<Value> {
    let target = GET_CERTIFICATION_FILE.at(&[&at(run, "/id"), &at(host, "/serial"), &REPORT]);
    serde_json::from_slice(&session.client.file(&target).ok()?).ok()
}

/// Prints what two runs have of the same machines.
pub(super) fn compare(session: &Session, console: &mut Console, first: &Value, second: &Value) -> anyhow::Result<()> {
    let pairs = pairs(first, second);
    anyhow::ensure!(!pairs.is_empty(), "the runs have no machine in common: their serial numbers differ");
    let mut documents = Vec::new();
    for pair in &pairs {
        let reports = report(session, first, pair.first).zip(report(session, second, pair.second));
        let facts: Option<Vec<Change>> = reports.map(|(before, after)| changes(&before, &after, false));
        if session.json {
            documents.push(json!({"machine": pair.title, "first": pair.first, "second": pair.second, "facts": facts}));
            continue;
        }
        console.say(text::plain(&pair.title))?;
        console.table(&measurements(pair))?;
        match facts {
            None => console.say("Facts: one of the runs has no report of it")?,
            Some(facts) if facts.is_empty() => console.say("Facts: the same")?,
            Some(facts) => {
                console.say("Facts:")?;
                for fact in facts.iter().take(MAX_FACTS) {
                    console.say(format!("  {}", text::plain(&fact.to_string())))?;
                }
                if facts.len() > MAX_FACTS {
                    console.say(format!("  and {} more: --json has all", facts.len() - MAX_FACTS))?;
                }
            }
        }
        console.say("")?;
    }
    if session.json { console.json(&Value::Array(documents)) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn measurements_stand_side_by_side() {
        let run = |serials: &[&str], rate: f64| {
            let host = |serial: &&str| {
                json!({"serial": serial, "verdict": "pass", "steps": [
                    {"do": "report", "state": "passed"},
                    {"do": "burnin", "state": "passed", "measurements": {"cpu all rounds_per_second": rate}}]})
            };
            json!({"result": {"hosts": serials.iter().map(host).collect::<Vec<_>>()}})
        };
        let (first, second) = (run(&["A", "B"], 2e9), run(&["B", "C"], 1e9));
        let found = pairs(&first, &second);
        assert_eq!(found.iter().map(|pair| pair.title.as_str()).collect::<Vec<_>>(), ["B"]);
        let text = measurements(&found[0]).text(Some(80));
        let row: Vec<&str> = text.lines().last().unwrap().split_whitespace().collect();
        assert_eq!(row, ["-", "cpu", "all", "rounds_per_second", "2.00G", "1.00G", "-50.0", "%"]);
        let (one, other) = (run(&["A"], 1.0), run(&["B"], 1.0));
        assert_eq!(pairs(&one, &other)[0].title, "A and B");
        assert!(pairs(&first, &run(&["C", "D"], 1.0)).is_empty());
        assert_eq!(
            [number(Some(0.5)), number(Some(10.0)), number(None), number(Some(4321.7))],
            ["0.5", "10", "", "4322"]
        );
    }
}
