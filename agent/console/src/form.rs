//! A form: fields to write or to choose in.

use crate::{
    frame::{Frame, Style},
    keys::Key,
};

const MAX_CHARS: usize = 400;
/// Where values begin.
const VALUE_COLUMN: usize = 24;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Text(String),
    Choice { options: Vec<String>, at: usize },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    label: &'static str,
    value: Value,
}

impl Field {
    pub(crate) fn text(label: &'static str, text: &str) -> Self {
        Self { label, value: Value::Text(text.to_owned()) }
    }

    pub(crate) fn choice(label: &'static str, options: Vec<String>) -> Self {
        Self { label, value: Value::Choice { options, at: 0 } }
    }

    /// What was written or chosen.
    fn get(&self) -> &str {
        match &self.value {
            Value::Text(text) => text.trim(),
            Value::Choice { options, at } => options.get(*at).map_or("", String::as_str),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Form {
    pub(crate) title: &'static str,
    /// Lines below the fields.
    pub(crate) help: &'static [&'static str],
    pub(crate) fields: Vec<Field>,
    pub(crate) focus: usize,
    pub(crate) error: Option<String>,
}

/// What a key did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Stays,
    Left,
    Submitted,
}

impl Form {
    pub(crate) fn new(title: &'static str, help: &'static [&'static str], fields: Vec<Field>) -> Self {
        Self { title, help, fields, focus: 0, error: None }
    }

    /// The value of field `index`.
    pub(crate) fn get(&self, index: usize) -> &str {
        self.fields.get(index).map_or("", Field::get)
    }

    pub(crate) fn key(&mut self, key: Key) -> Outcome {
        let count = self.fields.len().max(1);
        match key {
            Key::Escape => return Outcome::Left,
            Key::Enter => return Outcome::Submitted,
            Key::Down | Key::Tab => self.focus = (self.focus + 1) % count,
            Key::Up | Key::BackTab => self.focus = (self.focus + count - 1) % count,
            key => {
                if let Some(field) = self.fields.get_mut(self.focus) {
                    change(&mut field.value, key);
                }
            }
        }
        Outcome::Stays
    }

    pub(crate) fn draw(&self, frame: &mut Frame, width: usize) {
        frame.put(1, 1, self.title, Style::Bold);
        for (index, field) in self.fields.iter().enumerate() {
            let (row, is_focus) = (index + 3, index == self.focus);
            frame.put(row, 1, field.label, if is_focus { Style::Bold } else { Style::Plain });
            let room = width.saturating_sub(VALUE_COLUMN + 2);
            let shown = match &field.value {
                Value::Text(text) => {
                    // The end is where it is written; an underscore stands for the cursor.
                    let text = if is_focus { format!("{text}_") } else { text.clone() };
                    let count = text.chars().count();
                    text.chars().skip(count.saturating_sub(room)).collect()
                }
                Value::Choice { .. } => format!("< {} >", field.get()),
            };
            frame.put(row, VALUE_COLUMN, &shown, if is_focus { Style::Reverse } else { Style::Plain });
        }
        let below = self.fields.len() + 4;
        for (index, line) in self.help.iter().enumerate() {
            frame.put(below + index, 1, line, Style::Plain);
        }
        let error = self.error.as_deref().map(|error| crate::frame::wrapped(error, width.saturating_sub(2)));
        for (index, line) in error.into_iter().flatten().enumerate() {
            frame.put(below + self.help.len() + 1 + index, 1, &line, Style::Red);
        }
    }
}

fn change(value: &mut Value, key: Key) {
    match (value, key) {
        (Value::Text(text), Key::Char(c)) if text.chars().count() < MAX_CHARS => text.push(c),
        (Value::Text(text), Key::Backspace) => drop(text.pop()),
        (Value::Choice { options, at }, Key::Right | Key::Char(' ')) => *at = (*at + 1) % options.len().max(1),
        (Value::Choice { options, at }, Key::Left) => *at = (*at + options.len().max(1) - 1) % options.len().max(1),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_written_and_chosen_in() {
        let options = vec!["DHCP".to_owned(), "static".to_owned()];
        let mut form = Form::new("t", &[], vec![Field::text("a", "x"), Field::choice("b", options)]);
        for key in [Key::Char('y'), Key::Char('z'), Key::Backspace, Key::Left, Key::Down, Key::Right] {
            assert_eq!(form.key(key), Outcome::Stays);
        }
        assert_eq!((form.get(0), form.get(1), form.get(2)), ("xy", "static", ""));
        form.key(Key::Right);
        form.key(Key::Tab);
        assert_eq!((form.get(1), form.focus), ("DHCP", 0));
        form.key(Key::BackTab);
        assert_eq!((form.focus, form.key(Key::Escape), form.key(Key::Enter)), (1, Outcome::Left, Outcome::Submitted));
        let mut empty = Form::new("t", &[], Vec::new());
        assert_eq!(empty.key(Key::Down), Outcome::Stays);
        let mut none = Form::new("t", &[], vec![Field::choice("b", Vec::new())]);
        none.key(Key::Left);
        assert_eq!(none.get(0), "");
    }
}
