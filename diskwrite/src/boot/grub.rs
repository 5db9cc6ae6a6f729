//! The boot loader's consoles: lines between two markers in their own file, or in `grub.cfg`.

const START: &str = "\n# CONSOLE-SETTINGS-START\n";
const END: &str = "# CONSOLE-SETTINGS-END\n";

/// The file with `commands` between its markers; None if it has none.
pub(super) fn with_commands(config: &str, commands: &[String]) -> Option<String> {
    let (before, inside) = config.split_once(START)?;
    // The last end counts, so that a block which was written twice is replaced whole.
    let after = match inside.rfind(&format!("\n{END}")) {
        Some(at) => inside.get(at.saturating_add(1)..)?,
        None if inside.starts_with(END) => inside,
        None => return None,
    };
    let commands: String = commands.iter().map(|command| format!("{command}\n")).collect();
    Some([before, START, &commands, after].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(config: &str, commands: &[&str]) -> Option<String> {
        with_commands(config, &commands.iter().map(|command| (*command).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn replaces_what_is_between_the_markers() {
        let config = |inside: &str| format!("a\n# CONSOLE-SETTINGS-START\n{inside}# CONSOLE-SETTINGS-END\nb\n");
        for inside in ["", "old\n", "old\n\nolder\n", "# CONSOLE-SETTINGS-END\nx\n", "\n# CONSOLE-SETTINGS-START\n"] {
            assert_eq!(with(&config(inside), &["x", "y"]).unwrap(), config("x\ny\n"), "{inside:?}");
            assert_eq!(with(&config(inside), &[]).unwrap(), config(""), "{inside:?}");
        }
    }

    #[test]
    fn markers_are_whole_lines_in_order() {
        for config in [
            "",
            "# CONSOLE-SETTINGS-START\n# CONSOLE-SETTINGS-END\n",
            "\n# CONSOLE-SETTINGS-START\nx # CONSOLE-SETTINGS-END\n",
            "\n# CONSOLE-SETTINGS-START\nx\n# CONSOLE-SETTINGS-END",
            "\n # CONSOLE-SETTINGS-START\n# CONSOLE-SETTINGS-END\n",
            "\n# CONSOLE-SETTINGS-END\n\n# CONSOLE-SETTINGS-START\n",
        ] {
            assert_eq!(with(config, &["x"]), None, "{config:?}");
        }
    }
}
