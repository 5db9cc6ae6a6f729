//! A screen's characters, and what a terminal must be sent where they change.

use agent::status::plain;
use std::fmt::Write;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Style {
    #[default]
    Plain,
    Bold,
    Reverse,
    Red,
    Green,
}

impl Style {
    /// Parameters of SGR (console_codes(4)).
    fn code(self) -> &'static str {
        match self {
            Self::Plain => "0",
            Self::Bold => "0;1",
            Self::Reverse => "0;7",
            Self::Red => "0;31",
            Self::Green => "0;32",
        }
    }
}

/// Printable ASCII in rows of one width.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    width: usize,
    rows: Vec<Vec<(char, Style)>>,
}

impl Frame {
    pub(crate) fn new(width: usize, height: usize) -> Self {
        Self { width, rows: vec![vec![(' ', Style::Plain); width]; height] }
    }

    /// Puts a text at a place, as far as it fits. Characters that could do more than be shown are replaced.
    pub(crate) fn put(&mut self, row: usize, column: usize, text: &str, style: Style) {
        let cells = self.rows.get_mut(row).into_iter().flat_map(|row| row.iter_mut().skip(column));
        for (cell, c) in cells.zip(plain(text)) {
            *cell = (c, style);
        }
    }

    /// A row in reverse, with a text at its start and one at its end.
    pub(crate) fn bar(&mut self, row: usize, start: &str, end: &str) {
        let start_width = self.width.saturating_sub(end.chars().count() + 1);
        self.put(row, 0, &" ".repeat(self.width), Style::Reverse);
        self.put(row, start_width, end, Style::Reverse);
        self.put(row, 1, &start.chars().take(start_width.saturating_sub(2)).collect::<String>(), Style::Reverse);
    }

    /// What turns `before` into this; without it, all of this.
    pub(crate) fn changes(&self, before: Option<&Self>) -> String {
        let before = before.filter(|before| before.width == self.width && before.rows.len() == self.rows.len());
        let mut out = String::new();
        for (number, row) in self.rows.iter().enumerate() {
            let old = before.and_then(|before| before.rows.get(number));
            let mut style = None;
            let mut is_behind = false;
            for (column, cell) in row.iter().enumerate() {
                if old.and_then(|old| old.get(column)) == Some(cell) {
                    is_behind = false;
                    continue;
                }
                if !std::mem::replace(&mut is_behind, true) {
                    let _ = write!(out, "\x1b[{};{}H", number + 1, column + 1);
                }
                if style != Some(cell.1) {
                    let _ = write!(out, "\x1b[{}m", cell.1.code());
                    style = Some(cell.1);
                }
                out.push(cell.0);
            }
        }
        out
    }

    #[cfg(test)]
    pub(crate) fn text(&self) -> String {
        let row = |row: &Vec<(char, Style)>| row.iter().map(|(c, _)| *c).collect::<String>().trim_end().to_owned();
        self.rows.iter().map(|cells| row(cells) + "\n").collect()
    }
}

/// The text in lines of at most `width` characters, broken between words where there are any.
pub(crate) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let mut lines = vec![String::new()];
    for word in plain(text).collect::<String>().split(' ').filter(|word| !word.is_empty()) {
        let mut word = word;
        while let Some(line) = lines.last_mut() {
            let gap = usize::from(!line.is_empty());
            if line.len() + gap + word.len() <= width {
                line.push_str(if gap == 1 { " " } else { "" });
                line.push_str(word);
                break;
            }
            if line.is_empty() {
                // It is ASCII, so every place is between two characters.
                let (start, rest) = word.split_at(width.min(word.len()));
                line.push_str(start);
                word = rest;
            }
            lines.push(String::new());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_differs_is_sent() {
        let mut old = Frame::new(10, 2);
        old.put(0, 0, "abc", Style::Plain);
        assert_eq!(old.changes(Some(&old)), "");
        let mut new = old.clone();
        new.put(0, 1, "x", Style::Bold);
        new.put(1, 8, "too long", Style::Red);
        assert_eq!(new.changes(Some(&old)), "\x1b[1;2H\x1b[0;1mx\x1b[2;9H\x1b[0;31mto");
        assert_eq!(Frame::new(3, 1).changes(Some(&old)), "\x1b[1;1H\x1b[0m   ", "another size is drawn anew");
    }

    #[test]
    fn no_text_moves_the_cursor() {
        let mut frame = Frame::new(12, 1);
        frame.put(0, 0, "a\x1b[2J\u{202e}\u{9b}é\n", Style::Plain);
        frame.put(7, 70, "outside", Style::Plain);
        assert_eq!(frame.text(), "a?[2J????\n");
    }

    #[test]
    fn long_texts_are_broken_between_words() {
        assert_eq!(wrapped("the quick brown fox", 9), ["the quick", "brown fox"]);
        assert_eq!(wrapped("a 0123456789abc d", 5), ["a", "01234", "56789", "abc d"]);
        assert_eq!(wrapped("", 5), [""]);
        assert_eq!(wrapped("ab", 0), ["a", "b"]);
    }
}
