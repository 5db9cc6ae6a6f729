//! Printed tables: aligned, and cut to the terminal's width so that states and reasons survive.

use crate::text;
use kernel::order;

/// What a name is cut to, in characters.
const NAME_WIDTH: usize = 16;
/// So much of a reason is worth more than a detail.
const REASON_WIDTH: usize = 36;
/// Names and reasons are not cut further.
const NARROWEST: usize = 8;
const GAP: &str = "  ";
/// A longer cell is cut, also without a terminal: a message may be kilobytes.
const MAX_CELL_CHARS: usize = 300;
/// An empty cell.
const NOTHING: &str = "-";

/// What a column may lose on a narrow terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// A state: complete at any width.
    State,
    /// Cut first.
    Name,
    /// Gets what the others leave.
    Reason,
    /// Complete, or left out: the highest rank goes first.
    Detail(u8),
}

/// Rows under headers.
#[derive(Debug)]
pub struct Table {
    columns: Vec<(&'static str, Column)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty one.
    pub fn new(columns: &[(&'static str, Column)]) -> Self {
        Self { columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Adds a row; an empty cell is shown as a hyphen.
    pub fn row<const N: usize>(&mut self, cells: [String; N]) {
        let shown = |cell: String| match text::cut(&text::plain(&cell), MAX_CELL_CHARS) {
            cell if cell.is_empty() => NOTHING.to_owned(),
            cell => cell,
        };
        self.rows.push(cells.into_iter().map(shown).collect());
    }

    /// Its lines, at most `width` characters wide if possible.
    pub fn text(&self, width: Option<usize>) -> String {
        let headers: Vec<String> = self.columns.iter().map(|(header, _)| (*header).to_owned()).collect();
        let rows: Vec<&Vec<String>> = std::iter::once(&headers).chain(&self.rows).collect();
        let mut widths: Vec<usize> = vec![0; headers.len()];
        for row in &rows {
            for (width, cell) in widths.iter_mut().zip(row.iter()) {
                *width = cell.chars().count().max(*width);
            }
        }
        if let Some(limit) = width {
            fit(&self.losses(), &mut widths, limit);
        }
        let mut lines = String::new();
        for row in rows {
            let cells = widths
                .iter()
                .zip(row.iter())
                .filter(|(width, _)| **width > 0)
                .map(|(width, cell)| format!("{:<width$}", text::cut(cell, *width)));
            lines.push_str(cells.collect::<Vec<_>>().join(GAP).trim_end());
            lines.push('\n');
        }
        lines
    }

    /// Details that say nothing in any row go before all others.
    fn losses(&self) -> Vec<Column> {
        let is_empty = |index: usize| self.rows.iter().all(|row| row.get(index).is_none_or(|cell| cell == NOTHING));
        let loss = |(index, (_, column)): (usize, &(&str, Column))| match column {
            Column::Detail(_) if is_empty(index) => Column::Detail(u8::MAX),
            column => *column,
        };
        self.columns.iter().enumerate().map(loss).collect()
    }
}

/// Narrows columns to a limit. A width of 0 leaves a column out.
fn fit(columns: &[Column], widths: &mut [usize], limit: usize) {
    let total = |widths: &mut dyn Iterator<Item = usize>| {
        let (sum, count) = widths.filter(|width| *width > 0).fold((0, 0_usize), |(sum, n), width| (sum + width, n + 1));
        sum + count.saturating_sub(1) * GAP.len()
    };
    let least = |(column, width): (&Column, &usize)| match column {
        Column::Name => NAME_WIDTH.min(*width),
        Column::Reason => REASON_WIDTH.min(*width),
        Column::State | Column::Detail(_) => *width,
    };
    while total(&mut columns.iter().zip(widths.iter()).map(least)) > limit {
        let details = columns.iter().zip(widths.iter_mut()).filter_map(|(column, width)| match column {
            Column::Detail(rank) if *width > 0 => Some((rank, width)),
            _ => None,
        });
        let Some((_, last)) = details.max_by_key(|(rank, _)| **rank) else { break };
        *last = 0;
    }
    for (kind, least) in [
        (Column::Name, NAME_WIDTH),
        (Column::Reason, NAME_WIDTH),
        (Column::Name, NARROWEST),
        (Column::Reason, NARROWEST),
    ] {
        while total(&mut widths.iter().copied()) > limit {
            let cut =
                columns.iter().zip(widths.iter_mut()).filter(|(column, width)| **column == kind && **width > least);
            let Some((_, widest)) = cut.max_by_key(|(_, width)| **width) else { break };
            *widest -= 1;
        }
    }
}

/// The shortest unique starts of identifiers, at least 8 characters.
pub(crate) fn short_ids(ids: &[&str]) -> Vec<String> {
    let start = |id: &str, len: usize| id.chars().take(len).collect::<String>();
    let mut len = 8;
    loop {
        let mut starts: Vec<String> = ids.iter().map(|id| start(id, len)).collect();
        let all = starts.clone();
        order::sort(&mut starts);
        starts.dedup();
        if starts.len() == ids.len() || len >= 36 {
            return all;
        }
        len += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "a-very-long-name-of-a-host.rack.example.com";
    const REASON: &str = "No eligible disks were found, please check specific disks to see why they are not eligible";

    /// As of `landfall host list`.
    fn hosts() -> Table {
        let mut table = Table::new(&[
            ("NAME", Column::Name),
            ("ID", Column::Detail(1)),
            ("STATUS", Column::State),
            ("DONE", Column::Detail(2)),
            ("HARDWARE", Column::Detail(3)),
            ("REASON", Column::Reason),
        ]);
        let row = [NAME, "5a1e0001", "insufficient", "", "8 CPU, 16 GiB, 480 GB", REASON];
        table.row(row.map(str::to_owned));
        table.row(["b", "5a1e0002", "known", "", "8 CPU, 16 GiB, 480 GB", ""].map(str::to_owned));
        table
    }

    #[test]
    fn columns_align() {
        let mut table = Table::new(&[("NAME", Column::Name), ("STATUS", Column::State)]);
        table.row(["rack".into(), "insufficient".into()]);
        table.row(["a-very-long-name-of-a-cluster".into(), String::new()]);
        assert_eq!(
            table.text(None),
            "NAME                           STATUS\n\
             rack                           insufficient\n\
             a-very-long-name-of-a-cluster  -\n"
        );
        let narrow = table.text(Some(30));
        assert!(narrow.lines().all(|line| line.chars().count() <= 30), "{narrow}");
        assert!(narrow.contains("a-very-long-nam…  -\n") && narrow.contains("insufficient\n"), "{narrow}");
        // What can't fit is not cut to nothing.
        assert!(table.text(Some(3)).contains("a-very-…  -\n"), "{}", table.text(Some(3)));
    }

    #[test]
    fn states_and_reasons_survive_a_narrow_terminal() {
        let all = hosts().text(None);
        assert!(all.contains(NAME) && all.contains(REASON) && all.contains("480 GB"), "{all}");
        assert_eq!(hosts().text(Some(1000)), all);
        let mut long = Table::new(&[("REASON", Column::Reason)]);
        long.row(["x".repeat(5000)]);
        assert!(long.text(None).len() < 400);
        assert_eq!(
            hosts().text(Some(80)),
            "NAME              ID        STATUS        REASON\n\
             a-very-long-nam…  5a1e0001  insufficient  No eligible disks were found, please …\n\
             b                 5a1e0002  known         -\n"
        );
        assert_eq!(
            hosts().text(Some(60)),
            "NAME              STATUS        REASON\n\
             a-very-long-nam…  insufficient  No eligible disks were foun…\n\
             b                 known         -\n"
        );
    }

    #[test]
    fn the_longest_state_is_complete() {
        let mut table = Table::new(&[("NAME", Column::Name), ("STATUS", Column::State), ("REASON", Column::Reason)]);
        table.row([NAME, "installing-pending-user-action", REASON].map(str::to_owned));
        for width in [80, 60] {
            let text = table.text(Some(width));
            assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
            assert!(text.contains("  installing-pending-user-action  No eligible "), "{text}");
        }
    }

    #[test]
    fn details_that_say_nothing_go_first() {
        let mut table = Table::new(&[("NAME", Column::Name), ("DONE", Column::Detail(1)), ("ROLE", Column::Detail(2))]);
        table.row(["node-1", "", "master"].map(str::to_owned));
        assert_eq!(table.text(Some(16)), "NAME    ROLE\nnode-1  master\n");
        assert_eq!(table.text(Some(10)), "NAME\nnode-1\n");
    }

    #[test]
    fn short_ids_stay_different() {
        assert_eq!(short_ids(&["aaaaaaaa-0001", "bbbbbbbb-0001"]), ["aaaaaaaa", "bbbbbbbb"]);
        assert_eq!(short_ids(&["aaaaaaaa-0001", "aaaaaaaa-0101"]), ["aaaaaaaa-00", "aaaaaaaa-01"]);
    }
}
