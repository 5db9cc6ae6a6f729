//! The report as a page for people: warnings and notes, then a section for each part of it, in lines that fit.
//!
//! What the sections say is laid out from the report's JSON, so that a new fact has its line at once; only the order of the
//! parts and the columns of the longer tables are chosen here.

use super::{
    Report, by_name, fields,
    summary::summary,
    tables::{TABLES, Table},
    warnings::findings,
    words::{MANY, capitalized, chars, cut, label, printable, shortened, with_unit},
};
use kernel::order;
use serde_json::{Map, Value};
use std::{
    fmt::Write,
    io::{IsTerminal, stdout},
};

/// Lines are never narrower than this.
const MIN_COLUMNS: usize = 40;
const INDENT: usize = 2;
/// Columns of texts shrink down to this; where that is not enough, there are no columns.
const MIN_TEXT: usize = 12;
/// Widest column of names.
const MAX_LABEL: usize = 28;

/// Parts that come first, in this order; the others follow by name.
const FIRST: [&str; 13] = [
    "system",
    "firmware",
    "processors",
    "memory",
    "attached_memory",
    "storage",
    "network",
    "accelerators",
    "slots",
    "onboard_devices",
    "power_supply_units",
    "management_controller",
    "security",
];
/// Parts that come last: the longest.
const LAST: [&str; 1] = ["pci"];
/// Titles of parts whose names do not say it.
const TITLES: [(&str, &str); 3] =
    [("pci", "PCI functions"), ("attached_memory", "CXL and persistent memory"), ("usb_devices", "USB devices")];
/// Parts that are shown at the top, or only in JSON.
const ELSEWHERE: [&str; 6] = ["schema_version", "host_id", "host_id_source", "date", "hostname", "tool_version"];
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
        let colour = stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Self { columns: kernel::terminal::line_columns(), colour }
    }
}

/// The page of a report, of which `value` is the JSON.
pub(super) fn page(report: &Report, value: &Value, look: Look) -> String {
    let mut page = Page { text: String::new(), columns: look.columns.max(MIN_COLUMNS), colour: look.colour };
    page.heading(&format!("Host {} (from {})", report.host_id, report.host_id_source), BOLD);
    for (name, text) in summary(report) {
        page.wrapped(&format!("{name:12}"), &text);
    }
    let found = findings(report);
    page.findings("Warnings", RED, "! ", &found.warnings.lines());
    page.findings("Notes", BOLD, "- ", &found.notes.lines());
    let Value::Object(parts) = &by_name(value) else { return page.text };
    let placed = |name: &&str| FIRST.contains(name) || LAST.contains(name) || ELSEWHERE.contains(name);
    let rest = parts.keys().map(String::as_str).filter(|name| !placed(name));
    for name in FIRST.into_iter().chain(rest).chain(LAST) {
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

    fn findings(&mut self, title: &str, colour: &str, mark: &str, lines: &[String]) {
        if !lines.is_empty() {
            self.text.push('\n');
            self.heading(&format!("{title} ({})", lines.len()), colour);
            lines.iter().for_each(|line| self.wrapped(mark, line));
        }
    }

    fn part(&mut self, name: &str, part: &Value) {
        self.text.push('\n');
        let title = TITLES.iter().find(|(part, _)| *part == name).map(|(_, title)| (*title).to_owned());
        self.heading(&title.unwrap_or_else(|| capitalized(&label(name))), BOLD);
        match part {
            Value::Object(fields) => self.fields(fields),
            Value::Array(list) => self.list(name, list),
            plain => self.wrapped("", &with_unit(name, plain)),
        }
    }

    /// Plain values as names and values, then lists of tables.
    fn fields(&mut self, fields: &Map<String, Value>) {
        let mut lines = Vec::new();
        let mut lists = Vec::new();
        flatten("", fields, &mut lines, &mut lists);
        let width = lines.iter().map(|(label, _)| chars(label)).filter(|len| *len <= MAX_LABEL).max().unwrap_or(0);
        for (label, value) in lines {
            self.wrapped(&format!("{label:width$}  "), &value);
        }
        let place = |name: &str| TABLES.iter().position(|table| table.list == name).unwrap_or(TABLES.len());
        order::sort_by_key(&mut lists, |(name, ..)| place(name));
        let mut follows = width > 0;
        for (name, label, list) in lists {
            if std::mem::replace(&mut follows, true) {
                self.text.push('\n');
            }
            if TABLES.iter().all(|table| table.list != name) {
                let _ = writeln!(self.text, "{:INDENT$}{}", "", label.to_uppercase());
            }
            self.list(name, list);
        }
    }

    fn list(&mut self, name: &str, list: &[Value]) {
        let rows: Vec<&Map<String, Value>> = list.iter().filter_map(Value::as_object).collect();
        let tables: Vec<&Table> = TABLES.iter().filter(|table| table.list == name).collect();
        if tables.is_empty() {
            return rows.iter().for_each(|row| self.row(row));
        }
        for (at, table) in tables.into_iter().enumerate() {
            self.table(table, &rows, at > 0);
        }
    }

    /// A line for each element, a column for all that any has. One that `continues` another says more of the same elements.
    fn table(&mut self, table: &Table, rows: &[&Map<String, Value>], continues: bool) {
        let visible: Vec<_> = rows.iter().filter(|row| !table.but.is_some_and(|(hides, _)| hides(row))).collect();
        let mut columns: Vec<Vec<String>> = Vec::new();
        for (head, text) in table.columns {
            let cells: Vec<String> = visible.iter().map(|row| shortened(&filled(text, row)).into_owned()).collect();
            if cells.iter().any(|cell| !cell.is_empty()) {
                columns.push([head.to_uppercase()].into_iter().chain(cells).collect());
            }
        }
        let widest = |column: &Vec<String>| column.iter().map(|cell| chars(cell)).max().unwrap_or(0);
        if continues && columns.len() < 2 {
            return;
        }
        if continues {
            self.text.push('\n');
        }
        // Texts must shrink, not numbers and addresses, of which a part is useless.
        let is_text = |column: &Vec<String>| column.iter().skip(1).any(|cell| cell.contains(' '));
        let mut widths: Vec<(bool, usize)> = columns.iter().map(|column| (is_text(column), widest(column))).collect();
        let room = self.columns.saturating_add(2).saturating_sub(INDENT + 2 * columns.len());
        while widths.iter().map(|(_, width)| width).sum::<usize>() > room {
            let may_give = widths.iter_mut().filter(|(is_text, width)| *is_text && *width > MIN_TEXT);
            let Some((_, width)) = may_give.max_by_key(|(_, width)| *width) else {
                return self.rows(&columns, visible.len());
            };
            *width -= 1;
        }
        for line in 0..=visible.len() {
            let mut text = " ".repeat(INDENT);
            for (column, (_, width)) in columns.iter().zip(&widths) {
                let _ = write!(text, "{:width$}  ", cut(&column[line], *width));
            }
            let _ = writeln!(self.text, "{}", text.trim_end());
        }
        if let Some((_, hidden)) = table.but.filter(|_| visible.len() < rows.len()) {
            self.wrapped("", &format!("and {}: {hidden}", rows.len() - visible.len()));
        }
    }

    /// A table that is too narrow: an element after the other.
    fn rows(&mut self, columns: &[Vec<String>], rows: usize) {
        let Some((first, others)) = columns.split_first() else { return };
        for row in 1..=rows {
            let cells_of_row = others.iter().filter(|column| !column[row].is_empty());
            let cells_of_row: Vec<String> =
                cells_of_row.map(|column| format!("{} {}", column[0].to_lowercase(), column[row])).collect();
            self.wrapped(&format!("{}  ", first[row]), &cells_of_row.join(", "));
        }
    }

    /// An element of a list that is not a table.
    fn row(&mut self, row: &Map<String, Value>) {
        let (mut lines, mut lists) = (Vec::new(), Vec::new());
        flatten("", row, &mut lines, &mut lists);
        let name = fields::name_of(row);
        let known = |label: &str| name.as_ref().is_some_and(|(names, _)| names.contains(&label));
        let parts = lines.iter().filter(|(label, _)| !known(label)).map(|(label, value)| format!("{label} {value}"));
        let parts: Vec<String> = parts.chain(lists.iter().map(|(_, label, list)| measured(label, list))).collect();
        let name = name.as_ref().map_or("-", |(_, name)| name);
        self.wrapped(&format!("{name}  "), &parts.join(", "));
    }

    /// A text behind its name, over as many lines as it takes.
    fn wrapped(&mut self, name: &str, text: &str) {
        let (name, text) = (printable(&shortened(name)), printable(&shortened(text)));
        let is_long = chars(&name) > MAX_LABEL + INDENT;
        let lines = if is_long {
            let name = name.strip_suffix(' ').unwrap_or(&name);
            kernel::wrapped(&" ".repeat(INDENT), &format!("{name} {text}"), 2 * INDENT, self.columns)
        } else {
            kernel::wrapped(&format!("{:INDENT$}{name}", ""), &text, INDENT + chars(&name), self.columns)
        };
        self.text.push_str(&lines);
    }
}

type Lists<'a> = Vec<(&'a str, String, &'a [Value])>;

/// The plain values of a table and of the tables in it, by label; and the lists of tables, by name and label.
fn flatten<'a>(prefix: &str, fields: &'a Map<String, Value>, lines: &mut Vec<(String, String)>, lists: &mut Lists<'a>) {
    for (name, value) in fields.iter().filter(|(name, value)| !is_empty(value) && !fields::is_handle(name)) {
        let label = joined(prefix, &label(name));
        match value {
            Value::Object(flaws) if name == "vulnerabilities" => vulnerabilities(flaws, lines),
            Value::Object(fields) => flatten(&format!("{label} "), fields, lines, lists),
            Value::Array(list) if list.iter().any(Value::is_object) => lists.push((name, label, list)),
            plain => lines.push((label, with_unit(name, plain))),
        }
    }
}

/// A label behind that of the table it is in, without repeated words.
fn joined(prefix: &str, label: &str) -> String {
    if label.starts_with(prefix) {
        label.to_owned()
    } else if prefix.ends_with(&format!("{label} ")) {
        prefix.trim_end().to_owned()
    } else {
        format!("{prefix}{label}")
    }
}

/// What a list in an element says: what was measured, else how many there are.
fn measured(label: &str, list: &[Value]) -> String {
    let measurement = |element: &Value| {
        let element = element.as_object()?;
        let mut numbers = element.iter().filter(|(name, value)| fields::is_measured(name) && value.is_number());
        let (field, value) = numbers.next()?;
        Some(format!("{} {}", fields::name_of(element)?.1, with_unit(field, value)))
    };
    let values: Vec<String> = list.iter().filter_map(measurement).take(MANY).collect();
    if values.is_empty() { format!("{} {label}", list.len()) } else { format!("{label}: {}", values.join(", ")) }
}

/// Those the machine is not affected by are only counted.
fn vulnerabilities(flaws: &Map<String, Value>, lines: &mut Vec<(String, String)>) {
    let (unaffected, affected): (Vec<_>, Vec<_>) = flaws.iter().partition(|(_, state)| *state == "Not affected");
    lines.extend(affected.into_iter().map(|(name, state)| (label(name), with_unit(name, state))));
    if !unaffected.is_empty() {
        lines.push(("not affected".to_owned(), format!("by {} vulnerabilities", unaffected.len())));
    }
}

/// A column's text of an element: each `{field}` is replaced by its value, `{one|other}` by the first there is.
/// Empty if one is missing.
fn filled(text: &str, row: &Map<String, Value>) -> String {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, (path, after))) =
        rest.split_once('{').and_then(|(b, rest)| Some((b, rest.split_once('}')?)))
    {
        let found = |path: &str| {
            let mut names = path.split('.');
            let first = names.next().and_then(|name| row.get(name));
            names.try_fold(first, |value, name| Some(value?.get(name))).flatten().map(|value| with_unit(path, value))
        };
        let Some(value) = path.split('|').find_map(found) else { return String::new() };
        filled.push_str(before);
        filled.push_str(&value);
        rest = after;
    }
    filled + rest
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(values) => values.is_empty(),
        Value::Object(fields) => fields.values().all(is_empty),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::toy::{server, toy};
    use proptest::prelude::*;
    use serde_json::json;

    fn lines(value: &Value, columns: usize) -> Vec<String> {
        let page = page(&Report::default(), value, Look { columns, colour: false });
        page.lines().skip(1).map(str::to_owned).collect()
    }

    #[test]
    fn parts_have_headings_names_and_units() {
        let wanted = [
            "",
            "Memory",
            "  ecc        yes",
            "  installed  64 GiB",
            "",
            "  SLOT  SIZE",
            "  A1    32 GiB",
            "  A2    32 GiB",
            "  B1",
            "",
            "Flaws",
            "  l1tf  Vulnerable",
            "",
            "Maker",
            "  A*",
            "",
            "Serial number",
            "  1",
        ];
        assert_eq!(lines(&server(), 100), wanted);
    }

    #[test]
    fn lists_without_a_table_have_what_was_measured() {
        let temperatures = json!([{"name": "Core 0", "temperature_celsius": 45.0, "max_celsius": 100.0}]);
        let sensors = json!({"sensors": [{"name": "coretemp", "temperatures": temperatures, "fans": [{"name": "x"}]}]});
        let wanted = ["", "Health", "  SENSORS", "  coretemp  1 fans, temperatures: Core 0 45 °C"];
        assert_eq!(lines(&json!({"health": sensors}), 80), wanted);
    }

    #[test]
    fn labels_say_no_word_twice() {
        let joined = [("", "a"), ("product ", "product name"), ("boot status ", "status"), ("a ", "b")]
            .map(|(p, l)| joined(p, l));
        assert_eq!(joined, ["a", "product name", "boot status", "a b"]);
    }

    #[test]
    fn tables_fit() {
        let function = |address: &str, device: &str, driver: Option<&str>| {
            let link = json!({"speed_gts": 16.0, "width_lanes": 4});
            json!({"address": address, "class": "NVMe", "device": device, "driver": driver, "link": link})
        };
        let long = "A very long name that somebody gave to a device of theirs, and more";
        let list = [
            function("0000:00:01.0", "Short", Some("nvme")),
            function("0000:00:02.0", long, None),
            json!({"physical_function": "x"}),
        ];
        let wanted = [
            "",
            "PCI functions",
            "  ADDRESS       CLASS  DEVICE                       DRIVER  LINK",
            "  0000:00:01.0  NVMe   Short                        nvme    16 GT/s x4",
            "  0000:00:02.0  NVMe   A very long name that some…          16 GT/s x4",
            "  and 1: bridges, parts of the processor and virtual functions",
        ];
        assert_eq!(lines(&json!({"pci": list}), 70), wanted);
    }

    #[test]
    fn addresses_stay_whole_where_texts_can_give() {
        let port = json!({
            "name": "enp65s0f0np0", "pci_address": "0000:41:00.0", "driver": "mlx5_core", "firmware_version": "22.36.1010 (MT_0000000359)",
            "speed_mbps": 25000, "has_carrier": true, "permanent_mac_address": "52:54:00:aa:bb:01", "numa_node": 1,
            "virtual_functions": 8, "max_virtual_functions": 127, "has_firmware_lldp": true,
        });
        let interfaces = json!({"network": {"interfaces": [port]}});
        let wanted = [
            "",
            "Network",
            "  INTERFACE     ADDRESS       DRIVER     FIRMWARE      SPEED       MAC",
            "  enp65s0f0np0  0000:41:00.0  mlx5_core  22.36.1010 …  25000 Mb/s  52:54:00:aa:bb:01",
            "",
            "  INTERFACE     CARRIER  NODE  VFS       OWN LLDP",
            "  enp65s0f0np0  yes      1     8 of 127  yes",
        ];
        assert_eq!(lines(&interfaces, 84), wanted);
        let wanted = [
            "  enp65s0f0np0  address 0000:41:00.0,",
            "                driver mlx5_core,",
            "                firmware 22.36.1010",
            "                (MT_0000000359), speed",
            "                25000 Mb/s, mac",
            "                52:54:00:aa:bb:01",
        ];
        assert_eq!(lines(&interfaces, 40)[2..8], wanted);
    }

    #[test]
    fn what_firmware_wrote_cannot_move_the_cursor() {
        let text = lines(&json!({"a": {"b": "x\u{1b}[2Jy\nz"}}), 80).join("\n");
        assert!(text.ends_with("b  x\u{fffd}[2Jy\u{fffd}z"), "{text:?}");
    }

    #[test]
    fn words_stay_whole_and_texts_without_end_are_cut() {
        let long = "x".repeat(60);
        assert_eq!(lines(&json!({"a": {"serial": long}}), 40)[2..], [format!("  serial  {long}")]);
        let found = lines(&json!({"a": {"other": [{"name": "y".repeat(70_000), "state": "z".repeat(70_000)}]}}), 40);
        assert!(found.len() < 12 && found.iter().all(|line| chars(line) < 2100), "{}", found.len());
        assert!(found.last().is_some_and(|line| line.ends_with("see --json")), "{found:?}");
    }

    #[test]
    fn flaws_that_do_not_affect_it_are_counted() {
        let flaws = json!({"mds": "Not affected", "l1tf": "Not affected", "spectre_v1": "Mitigation: x"});
        let wanted = ["", "Processors", "  spectre v1    Mitigation: x", "  not affected  by 2 vulnerabilities"];
        assert_eq!(lines(&json!({"processors": {"vulnerabilities": flaws}}), 80), wanted);
    }

    proptest! {
        #[test]
        fn no_line_is_longer_than_the_terminal_but_by_a_word(toy in toy(), columns in MIN_COLUMNS..100) {
            for line in lines(&serde_json::to_value(toy).unwrap(), columns) {
                let but_a_word = line.rsplit_once(' ').map_or("", |(start, _)| start);
                prop_assert!(chars(&line) <= columns || chars(but_a_word) <= columns, "{line}");
            }
        }
    }
}
