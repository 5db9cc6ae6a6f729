//! Tables for people. Pure.

/// Each column is as wide as its widest cell; `between` separates columns, and those listed in `right` are aligned right. No line
/// ends with blanks.
pub fn columns<const N: usize>(rows: &[[String; N]], right: &[usize], between: &str) -> String {
    let mut widths = [0; N];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(widths).enumerate().map(|(column, (cell, width))| match right.contains(&column) {
            true => format!("{cell:>width$}"),
            false => format!("{cell:<width$}"),
        });
        text += cells.collect::<Vec<_>>().join(between).trim_end();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_stand_below_each_other() {
        let rows = [["a", "size"], ["nvme0n1", "9"], ["ä", ""]].map(|row| row.map(str::to_owned));
        assert_eq!(columns(&rows, &[1], "  "), "a        size\nnvme0n1     9\nä\n");
        assert_eq!(columns::<0>(&[], &[], " "), "");
    }
}
