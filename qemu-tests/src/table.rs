//! Tables for a terminal, and the lines that replace them elsewhere.

use crate::view::HostView;
use service_stub::control::{
    culprit::Urgency,
    table::{Column, Table},
};
use std::{collections::BTreeMap, fmt::Write as _, io, time::Duration};

/// Columns of equal text width, two spaces between them.
pub fn columns(rows: &[Vec<String>]) -> Vec<String> {
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..rows.iter().map(Vec::len).max().unwrap_or(0)).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

/// The hosts, one row each under a heading: those that failed first.
pub fn hosts(views: &[HostView], width: Option<usize>) -> String {
    let mut table = Table::new(&[
        ("HOST", Column::Name),
        ("MAC", Column::Detail(4)),
        ("ADDRESS", Column::Detail(3)),
        ("STATE", Column::State),
        ("DONE", Column::Detail(1)),
        ("LINKS", Column::Detail(2)),
        ("REASON", Column::Reason),
    ]);
    let mut views: Vec<&HostView> = views.iter().collect();
    views.sort_by_key(|view| view.urgency);
    for view in views {
        table.row([
            view.name.clone(),
            view.mac.clone(),
            view.address.clone(),
            view.state.clone(),
            format!("{} %", view.percent),
            view.links_text(),
            view.reason.clone(),
        ]);
    }
    table.text(width)
}

/// As wide as a time and its gap.
const INDENT: &str = "       ";

/// Minutes and seconds.
pub fn clock(elapsed: Duration) -> String {
    format!("{}:{:02}", elapsed.as_secs() / 60, elapsed.as_secs() % 60)
}

/// Shows hosts as they change: redrawn in place on a terminal, else a line for each change.
#[derive(Debug)]
pub struct Live {
    terminal: bool,
    width: Option<usize>,
    /// Lines on the screen that the next picture replaces.
    drawn: usize,
    known: BTreeMap<String, String>,
}

impl Live {
    /// For a terminal of that width, or for a file.
    pub fn new(terminal: bool, width: Option<usize>) -> Self {
        Self { terminal, width, drawn: 0, known: BTreeMap::new() }
    }

    /// Shows `views` under `title`.
    pub fn show(
        &mut self,
        out: &mut impl io::Write,
        title: &str,
        elapsed: Duration,
        views: &[HostView],
    ) -> io::Result<()> {
        let text = if self.terminal { self.picture(title, elapsed, views) } else { self.changes(elapsed, views) };
        out.write_all(text.as_bytes())?;
        out.flush()
    }

    /// A separate line, above what is drawn next.
    pub fn say(&mut self, out: &mut impl io::Write, elapsed: Duration, line: &str) -> io::Result<()> {
        let back = self.back();
        self.drawn = 0;
        writeln!(out, "{back}{:>5}  {line}", clock(elapsed))?;
        out.flush()
    }

    /// Cursor to the first line of the last picture, and everything below it away.
    fn back(&self) -> String {
        if self.drawn == 0 { String::new() } else { format!("\x1b[{}A\r\x1b[J", self.drawn) }
    }

    fn picture(&mut self, title: &str, elapsed: Duration, views: &[HostView]) -> String {
        // Without line wrapping, so that one line here is one line there.
        let mut text = format!("{}\x1b[?7l", self.back());
        let lines = hosts(views, self.width.map(|width| width.saturating_sub(INDENT.len())));
        let _ = writeln!(text, "{:>5}  {title}", clock(elapsed));
        lines.lines().for_each(|line| {
            let _ = writeln!(text, "{INDENT}{line}");
        });
        text.push_str("\x1b[?7h");
        self.drawn = lines.lines().count() + 1;
        text
    }

    fn changes(&mut self, elapsed: Duration, views: &[HostView]) -> String {
        let mut text = String::new();
        for view in views {
            // Percentages in steps, to keep the log short.
            let stage = match (view.stage, view.written()) {
                _ if view.urgency != Urgency::Well => view.reason.clone(),
                (Some(stage), Some(percent)) => format!("{} {}%", stage.as_str(), percent / 25 * 25),
                _ => view.stage_text(),
            };
            let row = format!("{}  links {}  {stage}", view.state, view.links_text());
            let key = if view.mac.is_empty() { &view.name } else { &view.mac };
            if self.known.get(key) != Some(&row) {
                let _ = writeln!(text, "{:>5}  {}  {}  {}", clock(elapsed), view.name, view.address, row.trim_end());
                self.known.insert(key.clone(), row);
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::HostStage;

    fn views() -> Vec<HostView> {
        let writing = HostView {
            name: "node-0".into(),
            mac: "52:54:00:00:00:01".into(),
            address: "10.0.2.15".into(),
            state: "installing-in-progress".into(),
            stage: Some(HostStage::WritingImageToDisk),
            detail: "55%".into(),
            reason: "Writing image to disk: 55%".into(),
            percent: 40,
            reachable: 1,
            peers: 1,
            ..HostView::default()
        };
        vec![writing, HostView { name: "node-1".into(), state: "known".into(), peers: 1, ..HostView::default() }]
    }

    #[test]
    fn columns_line_up() {
        assert_eq!(
            hosts(&views(), None),
            "HOST    MAC                ADDRESS    STATE                   DONE  LINKS  REASON\n\
             node-0  52:54:00:00:00:01  10.0.2.15  installing-in-progress  40 %  1/1    Writing image to disk: 55%\n\
             node-1  -                  -          known                   0 %   0/1    -\n"
        );
    }

    #[test]
    fn what_failed_is_first_and_keeps_its_reason() {
        let mut views = views();
        views.push(HostView {
            name: "node-2".into(),
            mac: "52:54:00:00:00:03".into(),
            address: "10.0.2.17".into(),
            state: "error".into(),
            reason: "Failed - the image is for disks with sectors of 4096 bytes, this one has 512".into(),
            urgency: Urgency::Failed,
            ..HostView::default()
        });
        for width in [80, 60] {
            let text = hosts(&views, Some(width));
            assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
            let first = text.lines().nth(1).unwrap();
            assert!(
                first.starts_with("node-2") && first.contains("error  ") && first.contains("Failed - the"),
                "{text}"
            );
        }
    }

    #[test]
    fn a_terminal_is_redrawn_in_place() {
        let (mut live, mut out) = (Live::new(true, None), Vec::new());
        live.show(&mut out, "installing", Duration::from_secs(61), &views()).unwrap();
        assert!(out.starts_with(b"\x1b[?7l 1:01  installing\n"));
        out.clear();
        live.show(&mut out, "installing", Duration::from_secs(62), &views()).unwrap();
        assert!(out.starts_with(b"\x1b[4A\r\x1b[J\x1b[?7l 1:02"), "four lines were drawn");
        out.clear();
        live.say(&mut out, Duration::ZERO, "installed").unwrap();
        assert_eq!(out, b"\x1b[4A\r\x1b[J 0:00  installed\n");
    }

    #[test]
    fn a_file_gets_changes_only() {
        let (mut live, mut out) = (Live::new(false, None), Vec::new());
        let mut views = views();
        live.show(&mut out, "", Duration::from_secs(5), &views).unwrap();
        assert_eq!(
            String::from_utf8(std::mem::take(&mut out)).unwrap(),
            " 0:05  node-0  10.0.2.15  installing-in-progress  links 1/1  Writing image to disk 50%\n \
             0:05  node-1    known  links 0/1\n"
        );
        views[0].detail = "70%".into();
        live.show(&mut out, "", Duration::from_secs(6), &views).unwrap();
        assert!(out.is_empty());
        views[0].detail = "75%".into();
        live.show(&mut out, "", Duration::from_secs(7), &views).unwrap();
        assert!(out.starts_with(b" 0:07  node-0"));
    }
}
