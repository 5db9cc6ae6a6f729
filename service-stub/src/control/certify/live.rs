//! A run on a terminal, redrawn in place; elsewhere a line for each change.

use super::show;
use crate::text::{self, at};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    io::{Write, stderr},
};

pub(super) struct Live {
    is_terminal: bool,
    width: Option<usize>,
    /// Lines on the terminal that the next picture replaces.
    drawn: usize,
    /// What was last said, of each host and of the service.
    said: BTreeMap<String, String>,
}

impl Live {
    pub(super) fn new(is_terminal: bool, width: Option<usize>) -> Self {
        Self { is_terminal, width, drawn: 0, said: BTreeMap::new() }
    }

    fn back(&self) -> String {
        if self.drawn == 0 { String::new() } else { format!("\x1b[{}A\r\x1b[J", self.drawn) }
    }

    /// A line that stays, unless it was the last one.
    pub(super) fn say(&mut self, line: &str) {
        if self.said.insert(String::new(), line.to_owned()).as_deref() == Some(line) {
            return;
        }
        put(&format!("{}{line}\n", self.back()));
        self.drawn = 0;
    }

    /// Removes the picture: the result follows.
    pub(super) fn clear(&mut self) {
        put(&self.back());
        self.drawn = 0;
    }

    /// The run as it is now.
    pub(super) fn show(&mut self, document: &Value) {
        let text = match self.is_terminal {
            true => self.picture(document),
            false => self.changes(document),
        };
        put(&text);
    }

    fn picture(&mut self, document: &Value) -> String {
        let mut lines = format!("{}\n", show::title(document));
        if at(document, "/state") != "waiting" {
            lines.push_str(&show::hosts(document).text(self.width));
        }
        // Without line wrapping, so that one line here is one line there.
        let text = format!("{}\x1b[?7l{lines}\x1b[?7h", self.back());
        self.drawn = lines.lines().count();
        text
    }

    fn changes(&mut self, document: &Value) -> String {
        let mut lines = String::new();
        let mut note = |key: &str, line: String| {
            if self.said.get(key) != Some(&line) {
                lines.push_str(&line);
                lines.push('\n');
                self.said.insert(key.to_owned(), line);
            }
        };
        note("title", show::title(document));
        for place in show::places(document) {
            let words = [&place.name, &place.step, &place.state, &place.detail];
            let line = words
                .iter()
                .filter(|word| !word.is_empty())
                .map(|word| text::plain(word))
                .collect::<Vec<_>>()
                .join("  ");
            note(&place.serial, format!("  {line}"));
        }
        lines
    }
}

pub(super) fn put(text: &str) {
    // A terminal that went away does not end a run.
    let _ = stderr().write_all(text.as_bytes()).and_then(|()| stderr().flush());
}
