//! What was set at the console: a file like the agent's own, which only `landfall console` writes.

use super::Key;
use std::{
    fs::{self, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

pub const CONSOLE_FILE: &str = "/etc/landfall/console.toml";

/// Replaces what was set at the console of the system below `root`.
pub fn set_at_console(root: &Path, values: &[(Key, String)]) -> io::Result<()> {
    let path = root.join(CONSOLE_FILE.trim_start_matches('/'));
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    let draft = path.with_extension("draft");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
    for (key, text) in values {
        writeln!(file, "{} = {}", key.name(), toml::Value::String(text.clone()))?;
    }
    fs::rename(draft, path)
}
