//! Text of files for systemd's `EnvironmentFile=` (systemd.exec(5)), which a POSIX shell reads the same way.

use crate::BuildError;

/// Lines `NAME=value`, in the order they were set.
#[derive(Default)]
pub struct Environment {
    text: String,
}

impl Environment {
    /// Adds `name`, with `value` quoted where it must be.
    pub fn set(&mut self, name: &'static str, value: &str) -> Result<&mut Self, BuildError> {
        if let Some((at, _)) = value.char_indices().find(|(_, c)| c.is_control()) {
            return Err(BuildError::ControlCharacter { name, at });
        }
        self.text.push_str(name);
        self.text.push('=');
        if value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._/:@%+,=".contains(&byte)) {
            self.text.push_str(value);
        } else {
            self.text.push('"');
            for c in value.chars() {
                // What is special between double quotes, for systemd and the shell alike.
                if matches!(c, '"' | '\\' | '$' | '`') {
                    self.text.push('\\');
                }
                self.text.push(c);
            }
            self.text.push('"');
        }
        self.text.push('\n');
        Ok(self)
    }

    /// The same for programs that a shell starts.
    pub fn export(&mut self, name: &'static str, value: &str) -> Result<&mut Self, BuildError> {
        self.text.push_str("export ");
        self.set(name, value)
    }

    /// Adds `name` when there is a value.
    pub fn set_some(&mut self, name: &'static str, value: Option<&str>) -> Result<&mut Self, BuildError> {
        match value.filter(|value| !value.is_empty()) {
            Some(value) => self.set(name, value),
            None => Ok(self),
        }
    }

    pub fn into_text(self) -> String {
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::process::Command;

    fn text(value: &str) -> String {
        let mut environment = Environment::default();
        environment.set("A", value).unwrap();
        environment.into_text()
    }

    #[test]
    fn plain_values_stay_bare_and_others_are_quoted() {
        assert_eq!(text("http://10.0.2.2:8090/a%20b"), "A=http://10.0.2.2:8090/a%20b\n");
        assert_eq!(text(""), "A=\n");
        assert_eq!(text("a b"), "A=\"a b\"\n");
        assert_eq!(text(r#"a"b\c$d`e"#), "A=\"a\\\"b\\\\c\\$d\\`e\"\n");
        assert_eq!(text("#;'~*"), "A=\"#;'~*\"\n");
    }

    #[test]
    fn a_line_break_is_refused_without_showing_the_value() {
        let error = Environment::default().set("PULL_SECRET_TOKEN", "hunter2\nB=1").map(|_| ()).unwrap_err();
        assert!(error.to_string().contains("PULL_SECRET_TOKEN has a control character at byte 7"), "{error}");
        assert!(!format!("{error:?}").contains("hunter2"));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn a_shell_reads_back_what_was_set(value in "[ -~äß]{0,40}") {
            let script = format!("{}printf %s \"$A\"", text(&value));
            let output = Command::new("sh").args(["-c", &script]).output().unwrap();
            prop_assert_eq!(String::from_utf8(output.stdout).unwrap(), value);
        }
    }
}
