//! Questions before what cannot be undone.

use anyhow::ensure;
use std::io::{self, BufRead, IsTerminal, Read, Write};

/// Asks a person. A script is not asked: it says what it means.
pub(crate) fn confirm(yes: bool, question: impl FnOnce() -> anyhow::Result<String>) -> anyhow::Result<()> {
    let (mut input, mut output) = (io::stdin().lock(), io::stderr());
    if yes || !io::stdin().is_terminal() || !output.is_terminal() {
        return Ok(());
    }
    write!(output, "{} Type yes to continue: ", question()?)?;
    output.flush()?;
    ensure!(is_yes(&mut input)?, "nothing was changed");
    Ok(())
}

fn is_yes(input: &mut impl BufRead) -> io::Result<bool> {
    let mut answer = String::new();
    input.take(100).read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "yes" | "y"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn only_a_yes_is_one() {
        for (answer, expected) in [("yes\n", true), ("y\n", true), ("\n", false), ("no\n", false), ("", false)] {
            assert_eq!(is_yes(&mut answer.as_bytes()).unwrap(), expected, "{answer:?}");
        }
    }
}
