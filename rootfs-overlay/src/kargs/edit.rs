//! Editing of kernel arguments as text, in the way and the order of coreos-installer (docs/compatibility.md#kernel-arguments).

/// Arguments to delete, to append and to replace, done in this order. Quotes mean nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edit {
    /// Each is deleted wherever it stands.
    pub delete: Vec<String>,
    /// Put behind the others.
    pub append: Vec<String>,
    /// `KEY=OLD=NEW`.
    pub replace: Vec<String>,
}

/// A replacement that is none.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("Wrong input, format should be: KEY=OLD=NEW")]
pub struct NoReplacement;

impl Edit {
    /// Whether nothing is asked for.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The arguments after it.
    pub fn apply(&self, arguments: &str) -> Result<String, NoReplacement> {
        let mut text = format!(" {arguments} ");
        for argument in &self.delete {
            text = text.replace(&format!(" {} ", argument.trim()), " ");
        }
        for argument in &self.append {
            text.push_str(argument.trim());
            text.push(' ');
        }
        for replacement in &self.replace {
            let parts: Vec<&str> = replacement.split('=').collect();
            let [key, old, new] = parts[..] else { return Err(NoReplacement) };
            if [key, old, new].contains(&"") {
                return Err(NoReplacement);
            }
            text = text.replace(&format!(" {key}={old} "), &format!(" {key}={new} "));
        }
        Ok(text.trim().to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_edit_in_its_order() {
        let words = |text: &str| text.split(',').filter(|word| !word.is_empty()).map(str::to_owned).collect();
        for (arguments, delete, append, replace, expected) in [
            // Whole words, at the start, in the middle and at the end.
            ("rd.break rd rw.rd", "rd", "", "", "rd.break rw.rd"),
            ("quiet rhgb ro", "quiet", "", "", "rhgb ro"),
            ("quiet rhgb ro", "ro", "", "", "quiet rhgb"),
            // A row of words is deleted where it stands as a row.
            ("ro quiet rhgb splash", "quiet rhgb", "", "", "ro splash"),
            ("ro quiet splash rhgb", "quiet rhgb", "", "", "ro quiet splash rhgb"),
            ("ro quiet rhgb splash", "splash,ro", "", "", "quiet rhgb"),
            // The space around an argument is not part of it, its value is.
            ("audit=0 nosmt audit=1", "\taudit=1 ", "", "", "audit=0 nosmt"),
            ("audit=0", "audit", "", "", "audit=0"),
            // Adjacent ones share a space, as in the real program.
            ("ro ro quiet", "ro", "", "", "ro quiet"),
            ("ro quiet ro", "ro", "", "", "quiet"),
            ("ro", "", " debug ,systemd.unit=rescue.target 3", "", "ro debug systemd.unit=rescue.target 3"),
            // Deleted, then appended, then replaced: at the end with its new value.
            ("audit=0 ro", "audit=0", "audit=0", "audit=0=1", "ro audit=1"),
            ("audit=0 sub.audit=0", "", "", "audit=0=1", "audit=1 sub.audit=0"),
            ("audit=2", "", "", "audit=0=1", "audit=2"),
            ("", "", "ro", "", "ro"),
            ("ro", "ro", "", "", ""),
        ] {
            let edit = Edit { delete: words(delete), append: words(append), replace: words(replace) };
            assert_eq!(edit.apply(arguments).as_deref(), Ok(expected), "{arguments:?} {edit:?}");
        }
        for bad in ["", "audit", "audit=0", "=0=1", "audit==1", "audit=0=", "audit=0=1=2"] {
            let edit = Edit { replace: vec![bad.to_owned()], ..Edit::default() };
            assert_eq!(edit.apply("audit=0"), Err(NoReplacement), "{bad:?}");
        }
    }
}
