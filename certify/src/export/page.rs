//! A page to read and to print: one section for each host, no scripts, nothing from elsewhere. Every text is escaped.

use super::{end, timestamp};
use crate::{
    result::{HostResult, Run, State, StepResult, Verdict},
    verify::{self, Check},
};
use inventory::report::printable;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde_json::Value;

const STYLE: &str = include_str!("page.css");

pub(super) fn page(run: &Run, hosts: &[(&HostResult, Option<&Value>)], checks: &[Check]) -> String {
    let document = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width";
                // A viewer that honours it loads and runs nothing, whatever the texts are.
                meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'";
                title { "Certification: " (printable(&run.plan.name)) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header { (front(run, hosts, checks)) }
                @for (host, report) in hosts { (section(host, *report)) }
            }
        }
    };
    document.into_string()
}

fn front(run: &Run, hosts: &[(&HostResult, Option<&Value>)], checks: &[Check]) -> Markup {
    html! {
        h1 { (printable(&run.plan.name)) " " (badge(run.verdict)) }
        dl {
            (fact("Run", &run.id))
            @if let Some(tester) = &run.plan.tester { (fact("Tester", tester)) }
            (fact("Begun", &timestamp(run.started_unix_seconds)))
            (fact("Ended", &timestamp(end(run))))
            (fact("Landfall", &run.tool_version))
            (fact("Plan SHA-256", &run.plan_sha256))
        }
        h2 { "Hosts" }
        table {
            tr { th { "Serial number" } th { "Product" } th { "SKU" } th { "Verdict" } th { "Differences" } }
            @for (host, _) in hosts {
                tr {
                    td { (printable(&host.serial)) }
                    td { (product(host)) }
                    td { (printable(host.sku.as_deref().unwrap_or("none"))) }
                    td { (badge(host.verdict)) }
                    td { (host.differences.len()) }
                }
            }
        }
        h2 { "Proof" }
        table {
            tr { th { "Checked" } th { "Result" } th { "Detail" } }
            @for check in checks {
                tr {
                    td { (check.name) }
                    td { (match check.state { verify::State::Good => "ok", verify::State::NotChecked => "not checked", verify::State::Bad => "BAD" }) }
                    td { (printable(&check.detail)) }
                }
            }
        }
    }
}

fn section(host: &HostResult, report: Option<&Value>) -> Markup {
    let at = |at: &str| report.and_then(|report| super::bom::text(report, at));
    html! {
        section {
            h2 { (printable(&host.serial)) " " (badge(host.verdict)) }
            dl {
                (fact("Product", &product(host)))
                (fact("SKU", host.sku.as_deref().unwrap_or("none")))
                (fact("Host id", &host.host_id))
                @for (name, place) in [("BIOS", "/firmware/bios/version"), ("BMC", "/management_controller/firmware_version"), ("Kernel", "/kernel/release")] {
                    @if let Some(value) = at(place) { (fact(name, &value)) }
                }
                @if let Some(bytes) = at("/memory/installed_bytes").and_then(|bytes| bytes.parse().ok()) {
                    (fact("Memory", &kernel::units::binary(bytes)))
                }
            }
            @if !host.differences.is_empty() {
                h3 { "Differences from the SKU" }
                ul { @for line in &host.differences { li { (printable(line)) } } }
            }
            h3 { "Steps" }
            table {
                tr { th { "Step" } th { "State" } th { "Took" } th { "Found and measured" } }
                @for step in &host.steps { (row(step)) }
            }
        }
    }
}

fn row(step: &StepResult) -> Markup {
    let class = match step.state {
        State::Passed => "pass",
        State::Failed => "fail",
        _ => "incomplete",
    };
    let took = step.started_unix_seconds.zip(step.ended_unix_seconds).map(|(start, end)| end.saturating_sub(start));
    html! {
        tr {
            td { (step.index + 1) ". " (printable(&step.action)) }
            td.(class) { (step.state.name()) @if step.attempts > 1 { ", attempt " (step.attempts) } }
            td { @if let Some(seconds) = took { (seconds) " s" } }
            td {
                @for finding in &step.findings { p { (printable(finding)) } }
                @if !step.measurements.is_empty() {
                    dl { @for (name, value) in &step.measurements { (fact(name, &number(*value))) } }
                }
                @if !step.files.is_empty() { p.files { (printable(&step.files.join(", "))) } }
            }
        }
    }
}

fn product(host: &HostResult) -> String {
    let words = [host.manufacturer.as_deref(), host.product.as_deref()];
    let words: Vec<_> = words.into_iter().flatten().collect();
    if words.is_empty() { "unknown".to_owned() } else { printable(&words.join(" ")) }
}

fn fact(name: &str, value: &str) -> Markup {
    html! { div { dt { (printable(name)) } dd { (printable(value)) } } }
}

fn badge(verdict: Verdict) -> Markup {
    let class = match verdict {
        Verdict::Pass => "pass",
        Verdict::Fail => "fail",
        Verdict::Incomplete => "incomplete",
    };
    html! { span.badge.(class) { (verdict.name()) } }
}

/// With the digits that a reader needs: the archive has them all.
fn number(value: f64) -> String {
    let text = if value.abs() >= 1000.0 { format!("{value:.0}") } else { format!("{value:.3}") };
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}
