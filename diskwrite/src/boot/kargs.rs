//! Kernel arguments in a Boot Loader Specification entry.

/// How the line with the kernel arguments starts.
const OPTIONS: &str = "options ";
/// The kernel argument of images for bare metal.
const PLATFORM: &str = "ignition.platform.id=";
const METAL: &str = " ignition.platform.id=metal ";

/// What to do to an entry's kernel arguments: first all deletions, then the additions in order, then the platform.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KargEdits {
    pub delete: Vec<String>,
    pub append: Vec<String>,
    /// Appended after the others, unless an equal one is there by then.
    pub append_if_missing: Vec<String>,
    /// Takes the place of `metal`.
    pub platform: Option<String>,
}

/// Why an entry can't be edited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EntryError {
    /// No line holds the kernel arguments.
    #[error("Couldn't locate 'options' line")]
    NoOptions,
    /// It is unclear which of several lines is meant.
    #[error("Multiple 'options' lines found")]
    ManyOptions,
    /// Made for something other than bare metal, or in another way.
    #[error("couldn't locate platform ID: no kernel argument is ignition.platform.id=metal")]
    NoPlatform,
}

/// The entry with kernel arguments as `edit` makes them; blanks at the ends of lines go. None if `edit` leaves them as they are.
pub(crate) fn edit_entry(
    entry: &str,
    edit: impl FnOnce(&str) -> Result<Option<String>, EntryError>,
) -> Result<Option<String>, EntryError> {
    let mut found = entry.lines().filter_map(|line| line.strip_prefix(OPTIONS));
    let args = found.next().ok_or(EntryError::NoOptions)?.trim();
    if found.next().is_some() {
        return Err(EntryError::ManyOptions);
    }
    let Some(args) = edit(args)? else { return Ok(None) };
    let edited = |line: &str| match line.starts_with(OPTIONS) {
        true => format!("{OPTIONS}{args}\n"),
        false => format!("{}\n", line.trim_end()),
    };
    Ok(Some(entry.lines().map(edited).collect()))
}

impl KargEdits {
    /// The arguments after all edits. They are compared as text between blanks, so that one which itself holds a blank can be deleted.
    /// Repeated ones all go, neighbours too.
    ///
    /// # Errors
    ///
    /// A platform is to take the place of `metal`, which is not among them.
    pub fn apply(&self, args: &str) -> Result<String, EntryError> {
        let mut args = format!(" {} ", args.trim());
        for karg in &self.delete {
            let wanted = format!(" {} ", karg.trim());
            // Neighbours share a blank and take another round each; every round makes the text shorter.
            while !karg.trim().is_empty() && args.contains(&wanted) {
                args = args.replace(&wanted, " ");
            }
        }
        for karg in &self.append {
            args.push_str(karg.trim());
            args.push(' ');
        }
        for karg in &self.append_if_missing {
            let wanted = format!(" {} ", karg.trim());
            if !args.contains(&wanted) {
                args.push_str(wanted.trim_start());
            }
        }
        if let Some(platform) = &self.platform {
            if !args.contains(METAL) {
                return Err(EntryError::NoPlatform);
            }
            args = args.replace(METAL, &format!(" {PLATFORM}{platform} "));
        }
        Ok(args.trim().to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn edits(delete: &[&str], append: &[&str]) -> KargEdits {
        let owned = |list: &[&str]| list.iter().map(|karg| (*karg).to_owned()).collect();
        KargEdits { delete: owned(delete), append: owned(append), ..KargEdits::default() }
    }

    fn edit_entry(entry: &str, edits: &KargEdits) -> Result<String, EntryError> {
        let edited = super::edit_entry(entry, |args| edits.apply(args).map(Some));
        edited.map(|entry| entry.unwrap())
    }

    #[test]
    fn a_missing_argument_is_appended_once() {
        let missing = |list: &[&str]| KargEdits {
            append_if_missing: list.iter().map(|karg| (*karg).to_owned()).collect(),
            ..edits(&["gone"], &["new"])
        };
        assert_eq!(missing(&["a", "gone", "new", " c ", "c"]).apply("a gone b").unwrap(), "a b new gone c");
        assert_eq!(missing(&["a"]).apply("ab").unwrap(), "ab new a");
    }

    #[test]
    fn an_entry_that_is_left_as_it_is_is_not_rewritten() {
        let untouched = super::edit_entry("options  a b \n", |args| {
            assert_eq!(args, "a b");
            Ok(None)
        });
        assert_eq!(untouched, Ok(None));
    }

    #[test]
    fn edits_arguments() {
        let table = [
            ("foo bar baz", edits(&["bar"], &[]), "foo baz"),
            ("foo bar baz", edits(&["foo", "baz"], &["qux"]), "bar qux"),
            ("foo bar foo", edits(&["foo"], &["foo"]), "bar foo"),
            ("a a a b", edits(&["a"], &[]), "b"),
            ("foo=1 foo=12 xfoo=1", edits(&["foo=1"], &[]), "foo=12 xfoo=1"),
            ("a b c", edits(&["a b"], &[]), "c"),
            ("a", edits(&["nothing"], &[" padded "]), "a padded"),
            ("", edits(&["x"], &["ip=dhcp", "ip=dhcp"]), "ip=dhcp ip=dhcp"),
            ("only", edits(&["only"], &[]), ""),
            ("a  b", edits(&[""], &[]), "a  b"),
        ];
        for (args, edits, expected) in table {
            assert_eq!(edits.apply(args).unwrap(), expected, "{args} {edits:?}");
        }
    }

    #[test]
    fn changes_only_the_options_line() {
        let entry =
            "title  Some OS  \nversion 1\noptions rw $ignition_firstboot ro=options x \nlinux /vmlinuz\n#options no";
        let edited = edit_entry(entry, &edits(&["x"], &["ip=dhcp"])).unwrap();
        assert_eq!(
            edited,
            "title  Some OS\nversion 1\noptions rw $ignition_firstboot ro=options ip=dhcp\nlinux /vmlinuz\n#options no\n"
        );
    }

    #[test]
    fn platform_takes_the_place_of_metal() {
        let platform = |args: &str| KargEdits { platform: Some("qemu".into()), ..Default::default() }.apply(args);
        assert_eq!(platform("a ignition.platform.id=metal b").unwrap(), "a ignition.platform.id=qemu b");
        assert_eq!(platform("ignition.platform.id=metal").unwrap(), "ignition.platform.id=qemu");
        for args in ["", "ignition.platform.id=qemu", "ignition.platform.id=metal2", "x.ignition.platform.id=metal"] {
            assert_eq!(platform(args), Err(EntryError::NoPlatform), "{args}");
        }
    }

    #[test]
    fn line_without_arguments_can_be_edited_again() {
        let edited = edit_entry("options only\n", &edits(&["only"], &[])).unwrap();
        assert_eq!(edited, "options \n");
        assert_eq!(edit_entry(&edited, &edits(&[], &["a"])).unwrap(), "options a\n");
    }

    #[test]
    fn refuses_doubtful_entries() {
        let nothing = KargEdits::default();
        assert_eq!(edit_entry("title x\n", &nothing), Err(EntryError::NoOptions));
        assert_eq!(edit_entry("optionsa\noptions\n", &nothing), Err(EntryError::NoOptions));
        assert_eq!(edit_entry("options a\noptions b\n", &nothing), Err(EntryError::ManyOptions));
    }

    proptest! {
        #[test]
        fn deleted_words_are_gone_and_others_stay(words in prop::collection::vec("[abc=]{1,3}", 0..12), gone in "[abc=]{1,3}") {
            let edited = edits(&[&gone], &["end"]).apply(&words.join(" ")).unwrap();
            let mut expected: Vec<_> = words.iter().filter(|word| **word != gone).cloned().collect();
            expected.push("end".into());
            prop_assert_eq!(edited.split(' ').collect::<Vec<_>>(), expected);
        }
    }
}
