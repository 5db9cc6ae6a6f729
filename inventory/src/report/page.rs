//! The report as a page for people: warnings, then a section for each part of it, in lines that fit.
//!
//! What the sections say is laid out from the report's JSON, so that a new fact has its line at once; only the order of the
//! parts and the columns of the longer tables are chosen here.

use super::{Report, warnings::warnings};
use serde_json::{Map, Value};
use std::{
    fmt::Write,
    io::{IsTerminal, stdout},
};

/// Lines are no longer than this, however wide the terminal.
const MAX_COLUMNS: usize = 100;
/// Nor is anything squeezed into less.
const MIN_COLUMNS: usize = 40;
const INDENT: usize = 2;
/// Widest column of names.
const MAX_LABEL: usize = 28;

/// Parts that come first, in this order; the others follow by name.
const FIRST: [&str; 1] = ["kernel"];
/// Parts that are told at the top, or only to machines.
const TOLD: [&str; 3] = ["schema_version", "host_id", "host_id_source"];
/// Tables: the path of the list, and its columns.
const TABLES: [(&str, &[&str]); 0] = [];
/// Units at the end of names, and how they follow the value.
const UNITS: [(&str, &str); 10] = [
    ("_celsius", " °C"),
    ("_percent", " %"),
    ("_khz", " kHz"),
    ("_mhz", " MHz"),
    ("_mts", " MT/s"),
    ("_gts", " GT/s"),
    ("_mbps", " Mb/s"),
    ("_millivolts", " mV"),
    ("_hours", " h"),
    ("_seconds", " s"),
];

/// How the page is to look.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    /// Columns of the lines.
    pub columns: usize,
    /// Whether escape codes are understood.
    pub colour: bool,
}

impl Look {
    /// For standard output as it is.
    pub(super) fn of_stdout() -> Self {
        let columns = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
        let colour = stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Self { columns: columns.unwrap_or(MAX_COLUMNS), colour }
    }
}

/// The page of a report, of which `value` is the JSON.
pub(super) fn page(report: &Report, value: &Value, look: Look) -> String {
    let mut page =
        Page { text: String::new(), columns: look.columns.clamp(MIN_COLUMNS, MAX_COLUMNS), colour: look.colour };
    page.heading(&format!("Host {} (from {})", report.host_id, report.host_id_source), BOLD);
    let warnings = warnings(report);
    if !warnings.is_empty() {
        page.text.push('\n');
        page.heading(&format!("Warnings ({})", warnings.len()), RED);
        for warning in warnings {
            page.wrapped("! ", &warning);
        }
    }
    let Value::Object(parts) = value else { return page.text };
    let rest = parts.keys().map(String::as_str).filter(|name| !FIRST.contains(name) && !TOLD.contains(name));
    for name in FIRST.into_iter().chain(rest) {
        if let Some(part) = parts.get(name).filter(|part| !is_empty(part)) {
            page.part(name, part);
        }
    }
    page.text
}

const BOLD: &str = "\x1b[1m";
const RED: &str = "\x1b[1;31m";
const PLAIN: &str = "\x1b[0m";

struct Page {
    text: String,
    columns: usize,
    colour: bool,
}

impl Page {
    fn heading(&mut self, heading: &str, colour: &str) {
        let (on, off) = if self.colour { (colour, PLAIN) } else { ("", "") };
        let _ = writeln!(self.text, "{on}{}{off}", printable(heading));
    }

    fn part(&mut self, name: &str, part: &Value) {
        self.text.push('\n');
        self.heading(&capitalized(&label(name)), BOLD);
        match part {
            Value::Object(fields) => self.fields(name, fields),
            Value::Array(list) => self.list(name, list),
            plain => self.wrapped("", &told(name, plain)),
        }
    }

    /// Plain values as names and values, then lists of tables.
    fn fields(&mut self, path: &str, fields: &Map<String, Value>) {
        let mut lines = Vec::new();
        let mut lists = Vec::new();
        flatten(path, "", fields, &mut lines, &mut lists);
        let width = lines.iter().map(|(label, _)| chars(label)).filter(|len| *len <= MAX_LABEL).max().unwrap_or(0);
        for (label, value) in lines {
            self.wrapped(&format!("{label:width$}  "), &value);
        }
        for (path, label, list) in lists {
            let _ = writeln!(self.text, "{:INDENT$}{label} ({})", "", list.len());
            self.list(&path, list);
        }
    }

    fn list(&mut self, path: &str, list: &[Value]) {
        let columns = TABLES.iter().find(|(table, _)| *table == path).map(|(_, columns)| *columns);
        let rows: Vec<&Map<String, Value>> = list.iter().filter_map(Value::as_object).collect();
        match columns {
            Some(columns) => self.table(path, columns, &rows),
            None => rows.iter().for_each(|row| self.row(path, row)),
        }
    }

    /// A line for each element, a column for each field that any has.
    fn table(&mut self, path: &str, columns: &[&str], rows: &[&Map<String, Value>]) {
        let cell = |row: &Map<String, Value>, column: &str| {
            let found = column.split('.').try_fold(None, |at: Option<&Value>, name| match at {
                None => row.get(name).map(Some),
                Some(at) => at.get(name).map(Some),
            });
            found.flatten().map(|value| told(column, value)).unwrap_or_default()
        };
        let mut cells: Vec<Vec<String>> = columns
            .iter()
            .map(|column| {
                let name = column.rsplit('.').next().unwrap_or(column);
                [label(name)].into_iter().chain(rows.iter().map(|row| cell(row, column))).collect()
            })
            .collect();
        cells.retain(|column: &Vec<String>| column[1..].iter().any(|cell| !cell.is_empty()));
        let widths: Vec<usize> =
            cells.iter().map(|column| column.iter().map(|cell| chars(cell)).max().unwrap_or(0)).collect();
        let total: usize = INDENT + widths.iter().map(|width| width + 2).sum::<usize>();
        if total > self.columns + 2 {
            return rows.iter().for_each(|row| self.row(path, row));
        }
        for line in 0..=rows.len() {
            let mut text = " ".repeat(INDENT);
            for (column, width) in cells.iter().zip(&widths) {
                let _ = write!(text, "{:width$}  ", column[line]);
            }
            let _ = writeln!(self.text, "{}", text.trim_end());
        }
    }

    /// An element of a list that makes no table.
    fn row(&mut self, path: &str, row: &Map<String, Value>) {
        let (mut lines, mut lists) = (Vec::new(), Vec::new());
        flatten(path, "", row, &mut lines, &mut lists);
        let name = super::fields::name_of(row);
        let known = |label: &str| name.as_ref().is_some_and(|(names, _)| names.contains(&label));
        let told = lines.iter().filter(|(label, _)| !known(label)).map(|(label, value)| format!("{label} {value}"));
        let told: Vec<String> =
            told.chain(lists.iter().map(|(_, label, list)| format!("{} {label}", list.len()))).collect();
        let name = name.as_ref().map_or("-", |(_, name)| name);
        self.wrapped(&format!("{name}  "), &told.join(", "));
    }

    /// A text behind its name, over as many lines as it takes.
    fn wrapped(&mut self, name: &str, text: &str) {
        let name = printable(name);
        let hang = INDENT + chars(&name).min(MAX_LABEL + 2);
        let mut line = format!("{:INDENT$}{name}", "");
        let mut fresh = true;
        for word in printable(text).split(' ') {
            if !fresh && chars(&line) + 1 + chars(word) > self.columns {
                let _ = writeln!(self.text, "{}", line.trim_end());
                line = " ".repeat(hang);
                fresh = true;
            }
            if !fresh {
                line.push(' ');
            }
            line.push_str(word);
            fresh = false;
        }
        let _ = writeln!(self.text, "{}", line.trim_end());
    }
}

type Lists<'a> = Vec<(String, String, &'a [Value])>;

/// The plain values of a table and of the tables in it, by name; and the lists of tables, by path and name.
fn flatten<'a>(
    path: &str,
    prefix: &str,
    fields: &'a Map<String, Value>,
    lines: &mut Vec<(String, String)>,
    lists: &mut Lists<'a>,
) {
    for (name, value) in fields.iter().filter(|(_, value)| !is_empty(value)) {
        let (path, label) = (format!("{path}.{name}"), format!("{prefix}{}", label(name)));
        match value {
            Value::Object(fields) => flatten(&path, &format!("{label} "), fields, lines, lists),
            Value::Array(list) if list.iter().any(Value::is_object) => lists.push((path, label, list)),
            plain => lines.push((label, told(name, plain))),
        }
    }
}

/// A value with the unit that its name ends with.
fn told(name: &str, value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::Number(number) => match number.as_u64() {
            Some(bytes) if name.ends_with("_bytes") => size(bytes),
            _ => format!("{number}{}", UNITS.iter().find(|(end, _)| name.ends_with(end)).map_or("", |(_, unit)| unit)),
        },
        Value::String(text) => printable(text),
        Value::Array(values) => values.iter().map(|value| told(name, value)).collect::<Vec<_>>().join(", "),
        Value::Object(_) => "some".to_owned(),
    }
}

/// A name for people: without the unit, which follows the value.
fn label(name: &str) -> String {
    let ends = UNITS.iter().map(|(end, _)| *end).chain(["_bytes"]);
    ends.filter_map(|end| name.strip_suffix(end)).next().unwrap_or(name).replace('_', " ")
}

/// Bytes in the largest unit that leaves a whole number, else with a decimal.
fn size(bytes: u64) -> String {
    let mut unit = 0;
    let (mut whole, mut tenths) = (bytes, 0);
    while whole >= 1024 && unit < 4 {
        tenths = whole % 1024 * 10 / 1024;
        whole /= 1024;
        unit += 1;
    }
    let name = ["B", "KiB", "MiB", "GiB", "TiB"][unit];
    if tenths == 0 { format!("{whole} {name}") } else { format!("{whole}.{tenths} {name}") }
}

/// Firmware's texts may hold anything; a terminal gets only what can be seen.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

fn capitalized(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(values) => values.is_empty(),
        Value::Object(fields) => fields.values().all(is_empty),
        _ => false,
    }
}

fn chars(text: &str) -> usize {
    text.chars().count()
}
