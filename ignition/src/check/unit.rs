//! Unit files as go-systemd reads them, for whether they can be read and whether they can be enabled.

/// Why a unit file can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum UnitError {
    #[error("line too long (max 2048 bytes)")]
    LineTooLong,
    #[error("unable to find end of section")]
    Section,
    /// Ignition shows the text; but a unit may contain secrets.
    #[error("found garbage after section name")]
    Garbage,
    #[error("unexpected newline encountered while parsing option name")]
    OptionName,
    #[error("EOF")]
    End,
}

const LINE_BYTES: usize = 2048;

/// Reads a unit file; whether it has an `[Install]` section with an option in it.
pub(super) fn can_be_enabled(contents: &str) -> Result<bool, UnitError> {
    let mut rest = contents;
    let mut installs = false;
    let mut section = "";
    // Nothing counts before the first section.
    let Some(at) = rest.find('[') else { return check_lines(rest).map(|()| false) };
    let (before, after) = rest.split_at(at);
    check_lines(before)?;
    rest = after;
    loop {
        rest = rest.trim_start_matches(is_blank);
        match rest.as_bytes().first() {
            None => return Ok(installs),
            Some(b'[') => (section, rest) = section_at(rest)?,
            Some(b'#' | b';') => rest = value(rest)?,
            Some(_) => {
                let equals = rest.find(['=', '\n']).ok_or(UnitError::End)?;
                let (name, after) = rest.split_at(equals);
                if name.len() >= LINE_BYTES {
                    return Err(UnitError::LineTooLong);
                }
                rest = after.strip_prefix('=').ok_or(UnitError::OptionName)?;
                rest = value(rest)?;
                installs |= section == "Install";
            }
        }
    }
}

fn is_blank(char: char) -> bool {
    char.is_whitespace()
}

fn check_lines(text: &str) -> Result<(), UnitError> {
    if text.split(['\n', '\r']).any(|line| line.len() >= LINE_BYTES) { Err(UnitError::LineTooLong) } else { Ok(()) }
}

/// The name of a section, and what follows its line.
fn section_at(text: &str) -> Result<(&str, &str), UnitError> {
    let inner = text.get(1..).unwrap_or_default();
    let end = inner.find(']').ok_or(UnitError::Section)?;
    let (name, after) = inner.split_at(end);
    check_lines(name)?;
    let after = after.get(1..).unwrap_or_default();
    let (line, rest) = after.split_at(after.find('\n').map_or(after.len(), |at| at + 1));
    if line.trim().is_empty() { Ok((name, rest)) } else { Err(UnitError::Garbage) }
}

/// What follows a value or a comment, which continues after each backslash at a line's end.
fn value(mut text: &str) -> Result<&str, UnitError> {
    loop {
        let (line, rest) = text.split_at(text.find('\n').map_or(text.len(), |at| at + 1));
        if line.trim_end_matches(['\n', '\r']).len() >= LINE_BYTES {
            return Err(UnitError::LineTooLong);
        }
        let goes_on = line.trim_end().ends_with('\\');
        if !goes_on || rest.is_empty() {
            return Ok(rest);
        }
        text = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_read() {
        for (contents, expected) in [
            ("", Ok(false)),
            ("no section\n", Ok(false)),
            ("[Unit]\nA=b\n", Ok(false)),
            ("[Install]\n", Ok(false)),
            ("[Install]\nWantedBy=a\n", Ok(true)),
            ("[Install]\n# x \\\nWantedBy=a\n", Ok(false)),
            ("[Unit]\nA=b \\\n[Install]\n WantedBy=a", Ok(false)),
            ("[Unit]\n[Install]  \n\n WantedBy = a", Ok(true)),
            ("[Mount", Err(UnitError::Section)),
            ("[Mount] x\n", Err(UnitError::Garbage)),
            ("[Mount]\na\n", Err(UnitError::OptionName)),
            ("[Mount]\na", Err(UnitError::End)),
        ] {
            assert_eq!(can_be_enabled(contents), expected, "{contents:?}");
        }
        let long = format!("[Mount]\na={}\n", "x".repeat(3000));
        assert_eq!(can_be_enabled(&long), Err(UnitError::LineTooLong));
    }
}
