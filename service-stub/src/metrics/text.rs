//! The text exposition format.

use std::fmt::{self, Write};

#[derive(Default)]
pub(crate) struct Text {
    pub(crate) text: String,
    name: &'static str,
}

impl Text {
    pub(crate) fn family(&mut self, name: &'static str, kind: &str, help: &str) {
        self.name = name;
        // Writing to a String can't fail.
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    pub(crate) fn line(&mut self, suffix: &str, labels: &str, value: impl fmt::Display) {
        let name = self.name;
        let labels = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
        let _ = writeln!(self.text, "{name}{suffix}{labels} {value}");
    }

    pub(crate) fn gauge(&mut self, name: &'static str, help: &str, value: impl fmt::Display) {
        self.family(name, "gauge", help);
        self.line("", "", value);
    }
}
