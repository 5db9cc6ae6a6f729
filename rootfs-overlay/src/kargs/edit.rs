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
            ("foo bar foobar", "foo", "", "", "bar foobar"),
            ("foo bar foobar", "bar", "", "", "foo foobar"),
            ("foo bar foobar", "foo bar", "", "", "foobar"),
            ("foo bar foobar", "bar,foo", "", "", "foobar"),
            ("foo=val bar baz=val", "   foo=val", "", "", "bar baz=val"),
            // Adjacent ones share a space, as in the real program.
            ("a a b", "a", "", "", "a b"),
            ("a b", "", " c ,d e", "", "a b c d e"),
            ("a b", "c", "c", "", "a b c"),
            ("a=1 b=1", "", "", "a=1=2", "a=2 b=1"),
            ("a=1", "", "a=2", "a=2=3", "a=1 a=3"),
            ("", "", "a", "", "a"),
        ] {
            let edit = Edit { delete: words(delete), append: words(append), replace: words(replace) };
            assert_eq!(edit.apply(arguments).as_deref(), Ok(expected), "{arguments:?} {edit:?}");
        }
        for bad in ["", "a", "a=b", "=b=c", "a==c", "a=b=", "a=b=c=d"] {
            let edit = Edit { replace: vec![bad.to_owned()], ..Edit::default() };
            assert_eq!(edit.apply("a"), Err(NoReplacement), "{bad:?}");
        }
    }
}
