//! NetworkManager's keyfiles (nm-settings-keyfile(5)), as far as text goes: sections of lines `key=value`.

/// A connection profile.
#[derive(Clone, PartialEq, Eq)]
pub struct Keyfile {
    /// `eth0.nmconnection`
    pub name: String,
    pub text: String,
}

/// Keys in a profile stay out.
impl std::fmt::Debug for Keyfile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keyfile").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Whether a directory can have a file of that name, and NetworkManager reads it: it ignores names with a leading dot.
pub(super) fn is_file_name(name: &str) -> bool {
    let len = name.len();
    (1..=255).contains(&len) && !name.starts_with('.') && !name.contains(|c: char| c == '/' || c.is_control())
}

/// The profile with `autoconnect=true` and `autoconnect-priority=1` in its `[connection]`; one that says `autoconnect=false`, as that of an
/// interface that is down, as it is.
pub(super) fn activated(text: &str) -> String {
    const ADDED: [&str; 2] = ["autoconnect=true", "autoconnect-priority=1"];
    let section = text.lines().skip_while(|line| *line != "[connection]").skip(1);
    if section.take_while(|line| !line.starts_with('[')).any(|line| line == "autoconnect=false") {
        return text.to_owned();
    }
    let mut lines: Vec<String> = Vec::new();
    let mut inside = false;
    // Where the section's last line is, once it has begun.
    let mut end = None;
    for line in text.lines() {
        if line.starts_with('[') {
            inside = line == "[connection]";
        }
        let key = line.split_once('=').map(|(key, _)| key);
        if inside && ADDED.iter().any(|added| added.split_once('=').map(|(name, _)| name) == key) {
            continue;
        }
        lines.push(line.to_owned());
        if inside && !line.is_empty() {
            end = Some(lines.len());
        }
    }
    if let Some(end) = end {
        lines.splice(end..end, ADDED.map(str::to_owned));
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_is_activated_by_itself_and_first() {
        let text = "[connection]\nautoconnect=x\nid=a\n\n[ipv4]\nautoconnect=x\nmethod=auto\n";
        assert_eq!(
            activated(text),
            "[connection]\nid=a\nautoconnect=true\nautoconnect-priority=1\n\n[ipv4]\nautoconnect=x\nmethod=auto\n"
        );
        for unchanged in ["[ipv4]\n", "[connection]\nid=a\nautoconnect=false\n\n[ipv4]\n"] {
            assert_eq!(activated(unchanged), unchanged);
        }
        assert!(activated("[connection]\nid=a\n[x]\nautoconnect=false\n").contains("id=a\nautoconnect=true\n"));
    }

    #[test]
    fn names_that_leave_the_directory() {
        assert!(is_file_name("bond0.140.nmconnection") && is_file_name("System eth0.nmconnection"));
        for bad in ["", "../x", "a/b", ".hidden", "a\nb", "..", &"x".repeat(256)] {
            assert!(!is_file_name(bad), "{bad}");
        }
    }
}
