//! Runs as tables: pure.

use super::super::table::{Column, Table};
use crate::text::{self, at, number_at};
use serde_json::Value;

/// Where a host is in its run.
pub(super) struct Place {
    pub name: String,
    pub serial: String,
    pub sku: String,
    pub step: String,
    pub state: String,
    pub detail: String,
}

fn list_at<'a>(document: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    document.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}

fn texts(document: &Value, pointer: &str) -> Vec<String> {
    list_at(document, pointer).filter_map(Value::as_str).map(str::to_owned).collect()
}

/// A moment without its fraction; empty if it has not come.
fn moment(document: &Value, pointer: &str) -> String {
    let text = at(document, pointer);
    if text.starts_with("0001-") { String::new() } else { text.chars().take(19).collect::<String>().replace('T', " ") }
}

/// The verdict for people.
pub(super) fn verdict(text: &str) -> &'static str {
    match text {
        "pass" => "PASS",
        "fail" => "FAIL",
        _ => "INCOMPLETE",
    }
}

/// A run in a line.
pub(super) fn title(document: &Value) -> String {
    let plan = text::plain(at(document, "/plan"));
    let hosts = list_at(document, "/hosts").count();
    let machines = if hosts == 1 { "1 machine".to_owned() } else { format!("{hosts} machines") };
    match at(document, "/state") {
        "waiting" => {
            let wanted = number_at(document, "/result/plan/policy/hosts").max(1);
            let machines = if wanted == 1 { "1 machine".to_owned() } else { format!("{wanted} machines") };
            format!("{plan}: waiting for {machines} to boot the live system")
        }
        "running" => format!("{plan}: {machines}"),
        "cancelled" => format!("{plan}: {machines}, cancelled"),
        _ => format!("{plan}: {machines}, {}", verdict(at(document, "/result/verdict"))),
    }
}

/// The step that a host is at, or what became of it.
pub(super) fn places(document: &Value) -> Vec<Place> {
    let hosts = list_at(document, "/hosts").zip(list_at(document, "/result/hosts"));
    let place = |(live, result): (&Value, &Value)| {
        let steps: Vec<&Value> = list_at(result, "/steps").collect();
        let is_open = |step: &&Value| matches!(at(step, "/state"), "waiting" | "running");
        let current = steps.iter().position(is_open);
        let troubled = steps.iter().find(|step| matches!(at(step, "/state"), "failed" | "error"));
        let blocked = at(live, "/blocked");
        let (step, state, detail) = match current {
            Some(index) => {
                let step = format!("{} {}/{}", at(steps[index], "/do"), index + 1, steps.len());
                let attempts = number_at(steps[index], "/attempts");
                let again = if attempts > 1 && at(steps[index], "/do") != "report" {
                    format!("attempt {attempts}")
                } else {
                    String::new()
                };
                let waits = at(live, "/waits_for");
                (step, at(steps[index], "/state").to_owned(), if waits.is_empty() { again } else { waits.to_owned() })
            }
            None => {
                let reason = match troubled {
                    _ if !blocked.is_empty() => blocked.to_owned(),
                    Some(step) => format!("{}: {}", at(step, "/do"), at(step, "/findings/0")),
                    None => texts(result, "/differences").into_iter().next().unwrap_or_default(),
                };
                (String::new(), verdict(at(result, "/verdict")).to_owned(), reason)
            }
        };
        Place {
            name: at(live, "/name").to_owned(),
            serial: at(live, "/serial").to_owned(),
            sku: at(result, "/sku").to_owned(),
            step,
            state,
            detail,
        }
    };
    hosts.map(place).collect()
}

/// The hosts of a run.
pub(super) fn hosts(document: &Value) -> Table {
    let mut table = Table::new(&[
        ("MACHINE", Column::Name),
        ("SERIAL", Column::Detail(3)),
        ("SKU", Column::Detail(2)),
        ("STEP", Column::Detail(1)),
        ("STATE", Column::State),
        ("DETAIL", Column::Reason),
    ]);
    for Place { name, serial, sku, step, state, detail } in places(document) {
        table.row([name, serial, sku, step, state, detail]);
    }
    table
}

/// The steps of each host, under a line that names it.
pub(super) fn steps(document: &Value) -> Vec<(String, Table)> {
    let hosts = list_at(document, "/hosts").zip(list_at(document, "/result/hosts"));
    let one = |(live, result): (&Value, &Value)| {
        let mut table = Table::new(&[
            ("STEP", Column::State),
            ("STATE", Column::State),
            ("TIME", Column::Detail(1)),
            ("TRIES", Column::Detail(2)),
            ("FOUND", Column::Reason),
        ]);
        for difference in texts(result, "/differences") {
            table.row([String::new(), "differs".to_owned(), String::new(), String::new(), difference]);
        }
        for step in list_at(result, "/steps") {
            let (started, ended) = (number_at(step, "/started_unix_seconds"), number_at(step, "/ended_unix_seconds"));
            let took = match (started, ended) {
                (1.., 1..) => text::duration(i64::try_from(ended.saturating_sub(started)).unwrap_or(i64::MAX)),
                _ => String::new(),
            };
            let tries = Some(number_at(step, "/attempts")).filter(|tries| *tries > 0).map(|tries| tries.to_string());
            table.row([
                at(step, "/do").to_owned(),
                at(step, "/state").to_owned(),
                took,
                tries.unwrap_or_default(),
                texts(step, "/findings").join("; "),
            ]);
        }
        let machine = [at(result, "/manufacturer"), at(result, "/product")].map(text::plain).join(" ");
        (text::plain(&format!("{} ({} {})", at(live, "/name"), machine.trim(), at(live, "/serial"))), table)
    };
    hosts.map(one).collect()
}

/// Runs, the latest last.
pub(super) fn list(runs: &[Value]) -> Table {
    let mut table = Table::new(&[
        ("ID", Column::State),
        ("PLAN", Column::Name),
        ("STATE", Column::State),
        ("VERDICT", Column::State),
        ("CREATED", Column::Detail(1)),
        ("MACHINES", Column::Reason),
    ]);
    for run in runs {
        table.row([
            at(run, "/id").chars().take(8).collect(),
            at(run, "/plan").to_owned(),
            at(run, "/state").to_owned(),
            judged(run, "/verdict").to_owned(),
            moment(run, "/created_at"),
            texts(run, "/serials").join(" "),
        ]);
    }
    table
}

/// What follows from a run that has ended.
fn judged<'a>(run: &'a Value, pointer: &str) -> &'a str {
    match at(run, "/state") {
        "waiting" | "running" => "",
        _ => verdict(at(run, pointer)),
    }
}

/// The runs of one machine, the latest first.
pub(super) fn history(runs: &[Value]) -> Table {
    let mut table = Table::new(&[
        ("ID", Column::State),
        ("PLAN", Column::Name),
        ("SKU", Column::Detail(1)),
        ("STATE", Column::State),
        ("VERDICT", Column::State),
        ("CREATED", Column::Detail(2)),
        ("FOUND", Column::Reason),
    ]);
    for run in runs {
        let found = list_at(run, "/host/steps").flat_map(|step| texts(step, "/findings"));
        table.row([
            at(run, "/id").chars().take(8).collect(),
            at(run, "/plan").to_owned(),
            at(run, "/host/sku").to_owned(),
            at(run, "/state").to_owned(),
            judged(run, "/host/verdict").to_owned(),
            moment(run, "/created_at"),
            texts(run, "/host/differences").into_iter().chain(found).collect::<Vec<_>>().join("; "),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    #[test]
    fn a_run_fits_into_80_columns() {
        let host = |state: &str, findings: Value| {
            json!({"sku": "X-100", "verdict": "fail", "differences": [], "steps": [
                {"do": "report", "state": "passed", "attempts": 2, "started_unix_seconds": 10, "ended_unix_seconds": 70},
                {"do": "burnin", "state": state, "attempts": 2, "findings": findings}]})
        };
        let live = |name: &str, waits: &str| json!({"name": name, "serial": format!("S-{name}"), "waits_for": waits, "blocked": ""});
        let long =
            "waits for the live system to start again: attach its medium, start it from the network, or by its BMC";
        let run = json!({"id": "1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed", "state": "running", "plan": "Model X", "verdict": "incomplete",
            "created_at": "2026-11-26T21:00:00.000Z", "serials": ["S-node-0"],
            "hosts": [live("node-0", long), live("node-1", ""), live("node-2\u{1b}[1m", "")],
            "result": {"verdict": "incomplete", "hosts": [host("waiting", json!([])), host("running", json!([])), host("failed", json!(["vda: cannot be read"]))]}});
        let text = hosts(&run).text(Some(80));
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(!text.contains('\u{1b}') && text.contains("burnin 2/2"), "{text}");
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert!(rows[2].ends_with(&["running", "attempt", "2"]), "{text}");
        assert!(rows[3].contains(&"FAIL") && text.contains("burnin: vda: cannot be read"), "{text}");
        assert_eq!(title(&run), "Model X: 3 machines");
        let (name, table) = steps(&run).remove(2);
        assert!(name.starts_with("node-2") && table.text(Some(80)).contains("vda: cannot be read"));
        assert!(table.text(None).contains("report  passed  1m"), "{}", table.text(None));
        assert!(list(&[run]).text(Some(80)).contains("1b9d6bcd  Model X  running  -"));
    }
}
