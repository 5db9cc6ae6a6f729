//! Printed tables: aligned, cut to the terminal's width.

use crate::text;
use kernel::order;

/// Minimum width of a column, in characters.
const NARROWEST: usize = 8;
const GAP: &str = "  ";

/// Rows under headers.
#[derive(Debug)]
pub struct Table {
    headers: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty one.
    pub(crate) fn new(headers: &[&'static str]) -> Self {
        Self { headers: headers.to_vec(), rows: Vec::new() }
    }

    /// Adds a row; an empty cell is shown as a hyphen.
    pub(crate) fn row<const N: usize>(&mut self, cells: [String; N]) {
        let shown =
            |cell: String| Some(text::plain(&cell)).filter(|cell| !cell.is_empty()).unwrap_or_else(|| "-".into());
        self.rows.push(cells.into_iter().map(shown).collect());
    }

    /// Its lines, at most `width` characters wide if possible.
    pub(crate) fn text(&self, width: Option<usize>) -> String {
        let headers: Vec<String> = self.headers.iter().map(|header| (*header).to_owned()).collect();
        let rows: Vec<&Vec<String>> = std::iter::once(&headers).chain(&self.rows).collect();
        let mut widths: Vec<usize> = vec![0; headers.len()];
        for row in &rows {
            for (width, cell) in widths.iter_mut().zip(row.iter()) {
                *width = cell.chars().count().max(*width);
            }
        }
        if let Some(limit) = width {
            fit(&mut widths, limit);
        }
        let mut lines = String::new();
        for row in rows {
            let cells =
                widths.iter().zip(row.iter()).map(|(width, cell)| format!("{:<width$}", text::cut(cell, *width)));
            lines.push_str(cells.collect::<Vec<_>>().join(GAP).trim_end());
            lines.push('\n');
        }
        lines
    }
}

/// Narrows the widest column until all fit, or all are at their minimum.
fn fit(widths: &mut [usize], limit: usize) {
    let gaps = widths.len().saturating_sub(1) * GAP.len();
    while widths.iter().sum::<usize>() + gaps > limit {
        match widths.iter_mut().max() {
            Some(widest) if *widest > NARROWEST => *widest -= 1,
            _ => return,
        }
    }
}

/// The shortest unique prefixes of identifiers, at least 8 characters.
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

    #[test]
    fn columns_align_and_give_way() {
        let mut table = Table::new(&["NAME", "STATUS"]);
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
        assert!(narrow.contains("a-very-long-nam…"), "{narrow}");
        // What can't fit is not cut to nothing.
        assert!(table.text(Some(3)).contains("insuffi…"));
    }

    #[test]
    fn short_ids_stay_different() {
        assert_eq!(short_ids(&["aaaaaaaa-0001", "bbbbbbbb-0001"]), ["aaaaaaaa", "bbbbbbbb"]);
        assert_eq!(short_ids(&["aaaaaaaa-0001", "aaaaaaaa-0101"]), ["aaaaaaaa-00", "aaaaaaaa-01"]);
    }
}
