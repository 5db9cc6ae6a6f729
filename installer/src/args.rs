//! The installer arguments a service sends: a fixed allow-list, parsed into what they mean.
//!
//! The words are coreos-installer's; the list and the characters allowed in a value are those of docs/compatibility.md#install-step.

use crate::{cli::config::InstallConfig, plan::Image};
use api::{INSTALLER_FLAGS, is_installer_value_char};
use clap::{Arg, Args, Command, FromArgMatches};
use diskwrite::Changes;

/// What the arguments ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct InstallerArgs {
    pub changes: Changes,
    /// Where the image comes from, when said.
    pub image: Option<Image>,
}

/// Why arguments are refused.
#[derive(Debug, thiserror::Error)]
pub enum ArgsError {
    /// Not JSON, or not a list of strings.
    #[error("installer_args must be a JSON list of strings, got '{start}'")]
    NotAList { start: String, source: serde_json::Error },
    /// A flag outside the allow-list.
    #[error("installer argument '{flag}' is not allowed; allowed are {}", INSTALLER_FLAGS.join(" "))]
    Flag { flag: String },
    /// A value with characters outside the allow-list.
    // The value is not shown: it may be a URL with credentials.
    #[error("the value of installer argument number {position} contains {bad:?}, which is not allowed")]
    Value {
        /// Its place in the list, from 1.
        position: usize,
        /// First character at fault.
        bad: char,
    },
    #[error("installer_args contain an empty argument")]
    Empty,
    /// A flag at the end without its value.
    #[error("installer argument {flag} needs a value after it")]
    NoValue { flag: String },
    /// A value that no flag asked for.
    #[error("installer argument '{value}' does not belong to a flag")]
    Stray { value: String },
    /// Both an URL and a file, or one of them twice.
    #[error("installer_args name more than one image; give one --image-url or one --image-file")]
    TwoImages,
    /// A value that the command line would not take either.
    #[error(transparent)]
    Line(#[from] clap::Error),
}

/// Reads `text`, the JSON list inside `installer_args`; absent and empty mean no arguments.
pub(crate) fn parse(text: Option<&str>) -> Result<InstallerArgs, ArgsError> {
    let Some(text) = text.filter(|text| !text.trim().is_empty()) else { return Ok(InstallerArgs::default()) };
    let words: Option<Vec<String>> = serde_json::from_slice(text.as_bytes())
        .map_err(|source| ArgsError::NotAList { start: text.chars().take(80).collect(), source })?;
    let words = words.unwrap_or_default();
    for (index, word) in words.iter().enumerate() {
        check(index + 1, word)?;
    }
    // What a flag means, and whether a value follows, is the command line's to say.
    let mut command =
        InstallConfig::augment_args(Command::new("install").no_binary_name(true).args_override_self(true));
    command.build();
    let takes_value = |flag: &str| {
        let names = |arg: &&Arg| {
            arg.get_long().is_some_and(|long| flag == format!("--{long}"))
                || arg.get_short().is_some_and(|short| flag == format!("-{short}"))
        };
        command.get_arguments().find(names).is_none_or(|arg| arg.get_action().takes_values())
    };
    let mut image = None;
    let mut others = Vec::new();
    let mut words = words.into_iter();
    while let Some(flag) = words.next() {
        if !flag.starts_with('-') {
            return Err(ArgsError::Stray { value: flag });
        }
        if !takes_value(&flag) {
            others.push(flag);
            continue;
        }
        let value = words.next().filter(|value| !value.starts_with('-'));
        let Some(value) = value else { return Err(ArgsError::NoValue { flag }) };
        match flag.as_str() {
            "--image-url" | "--image-file" if image.is_some() => return Err(ArgsError::TwoImages),
            "--image-url" => image = Some(Image::Url(value)),
            "--image-file" => image = Some(Image::File(value.into())),
            _ => others.extend([flag, value]),
        }
    }
    let matches = command.try_get_matches_from(others)?;
    Ok(InstallerArgs { changes: InstallConfig::from_arg_matches(&matches)?.changes(), image })
}

fn check(position: usize, word: &str) -> Result<(), ArgsError> {
    if word.is_empty() {
        return Err(ArgsError::Empty);
    }
    if word.starts_with('-') {
        return if INSTALLER_FLAGS.contains(&word) { Ok(()) } else { Err(ArgsError::Flag { flag: word.to_owned() }) };
    }
    match word.chars().find(|&c| !is_installer_value_char(c)) {
        Some(bad) => Err(ArgsError::Value { position, bad }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::NETWORK_DIR;

    #[test]
    fn what_the_service_sends_is_understood() {
        let args = parse(Some(r#"["--append-karg","ip=52-54-00-aa-bb-00:dhcp","--append-karg","rw"]"#)).unwrap();
        assert_eq!(args.changes.append_kargs, ["ip=52-54-00-aa-bb-00:dhcp", "rw"]);
        assert_eq!(args.changes.network_dir, None);
        let args =
            parse(Some(r#"["-n","--delete-karg","quiet","--image-url","http://10.0.0.1:8080/i.raw.gz"]"#)).unwrap();
        assert_eq!(args.changes.network_dir.as_deref(), Some(NETWORK_DIR.as_ref()));
        assert_eq!(args.changes.delete_kargs, ["quiet"]);
        assert_eq!(args.image, Some(Image::Url("http://10.0.0.1:8080/i.raw.gz".into())));
        let args = parse(Some(r#"["--network-dir","/etc/nm","--copy-network","--image-file","/run/i.raw"]"#)).unwrap();
        assert_eq!(args.changes.network_dir, Some("/etc/nm".into()));
        assert_eq!(args.image, Some(Image::File("/run/i.raw".into())));
        for none in [None, Some(""), Some("null"), Some("[]")] {
            assert_eq!(parse(none).unwrap(), InstallerArgs::default(), "{none:?}");
        }
    }

    #[test]
    fn partitions_to_keep_are_lists_with_commas() {
        let args =
            parse(Some(r#"["--save-partlabel","data*,var","--save-partindex","5-,2","--save-partlabel","home"]"#))
                .unwrap();
        assert_eq!(args.changes.save_partlabels, ["data*", "var", "home"]);
        assert_eq!(args.changes.save_partindexes, ["5-", "2"]);
    }

    #[test]
    fn a_network_dir_without_copy_network_copies_nothing() {
        assert_eq!(parse(Some(r#"["--network-dir","/etc/nm"]"#)).unwrap().changes.network_dir, None);
    }

    #[test]
    fn everything_else_is_refused() {
        type Expected = fn(&ArgsError) -> bool;
        let table: [(&str, Expected); 15] = [
            ("--append-karg x", |e| matches!(e, ArgsError::NotAList { .. })),
            (r#"["--append-karg",1]"#, |e| matches!(e, ArgsError::NotAList { .. })),
            (r#"["--append-karg"]"#, |e| matches!(e, ArgsError::NoValue { .. })),
            (r#"["--append-karg","--copy-network"]"#, |e| matches!(e, ArgsError::NoValue { .. })),
            (r#"["--append-karg=x"]"#, |e| matches!(e, ArgsError::Flag { .. })),
            (r#"["--ignition-file","/x"]"#, |e| matches!(e, ArgsError::Flag { .. })),
            (r#"["--insecure"]"#, |e| matches!(e, ArgsError::Flag { .. })),
            (r#"["-f","/x"]"#, |e| matches!(e, ArgsError::Flag { .. })),
            (r#"["/dev/vdb"]"#, |e| matches!(e, ArgsError::Stray { .. })),
            (r#"[""]"#, |e| matches!(e, ArgsError::Empty)),
            (r#"["--append-karg","a b"]"#, |e| matches!(e, ArgsError::Value { bad: ' ', .. })),
            (r#"["--append-karg","a&b"]"#, |e| matches!(e, ArgsError::Value { bad: '&', .. })),
            (r#"["--append-karg","a\nb"]"#, |e| matches!(e, ArgsError::Value { bad: '\n', .. })),
            (r#"["--save-partlabel"]"#, |e| matches!(e, ArgsError::NoValue { .. })),
            (r#"["--image-url","http://a","--image-file","/b"]"#, |e| matches!(e, ArgsError::TwoImages)),
        ];
        for (text, expected) in table {
            let error = parse(Some(text)).expect_err(text);
            assert!(expected(&error), "{text}: {error:?}");
        }
    }

    #[test]
    fn values_hold_exactly_the_published_characters() {
        let accepted: String = (' '..='~').filter(|&c| is_installer_value_char(c)).collect();
        assert_eq!(
            accepted,
            r##"!"#$%'()*+,-./0123456789:;<=@ABCDEFGHIJKLMNOPQRSTUVWXYZ[]_abcdefghijklmnopqrstuvwxyz{}"##
        );
    }
}
