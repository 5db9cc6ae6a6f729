//! The program `ignition-apply`: its command line, output and exit codes.

use super::read;
use crate::apply::{Now, Root, apply_live, newest, plan};
use crate::fetch::{FetchOptions, Fetcher};
use crate::{ParseError, parse, report::Severity};
use anyhow::Context;
use std::{
    ffi::OsString,
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

const NAME: &str = "ignition-apply";
/// As Go's `pflag` prints them.
const OPTIONS: &str = "FetchOptions:
      --ignore-unsupported   ignore unsupported config sections
      --offline              error out if config references remote resources
      --root string          root of the filesystem (default \"/\")
      --version              print the version of ignition-apply
";
/// Left by container tools where they start something.
const CONTAINER_MARKS: [&str; 2] = ["/run/.containerenv", "/.dockerenv"];
/// Labels are set when the container's image is built.
const NOT_UNSUPPORTED: &str = "/etc/selinux/config";

#[derive(Debug, Default, PartialEq, Eq)]
struct Flags {
    version: bool,
    help: bool,
    root: Option<PathBuf>,
    ignore_unsupported: bool,
    offline: bool,
    files: Vec<PathBuf>,
}

impl Flags {
    /// The error is what `pflag` says.
    fn parse(args: impl Iterator<Item = OsString>) -> Result<Self, String> {
        let mut flags = Self::default();
        let mut args = args;
        while let Some(arg) = args.next() {
            let Some(flag) = arg.to_str().filter(|text| text.len() > 1 && text.starts_with('-')) else {
                flags.files.push(arg.into());
                continue;
            };
            let Some(flag) = flag.strip_prefix("--") else {
                match flag {
                    "-h" => flags.help = true,
                    _ => {
                        return Err(format!(
                            "unknown shorthand flag: {:?} in {flag}",
                            flag.chars().nth(1).unwrap_or('-')
                        ));
                    }
                }
                continue;
            };
            let (name, value) = flag.split_once('=').map_or((flag, None), |(name, value)| (name, Some(value)));
            let switch = || match value {
                None | Some("1" | "t" | "T" | "TRUE" | "true" | "True") => Ok(true),
                Some("0" | "f" | "F" | "FALSE" | "false" | "False") => Ok(false),
                Some(value) => Err(format!(
                    "invalid argument {value:?} for \"--{name}\" flag: strconv.ParseBool: parsing {value:?}: invalid syntax"
                )),
            };
            match name {
                "" => {
                    flags.files.extend(args.by_ref().map(PathBuf::from));
                }
                "help" => flags.help = true,
                "version" => flags.version = switch()?,
                "ignore-unsupported" => flags.ignore_unsupported = switch()?,
                "offline" => flags.offline = switch()?,
                "root" => {
                    let next = || args.next().ok_or_else(|| "flag needs an argument: --root".to_owned());
                    flags.root = Some(value.map_or_else(next, |value| Ok(value.into()))?.into());
                }
                name => return Err(format!("unknown flag: --{name}")),
            }
        }
        Ok(flags)
    }
}

/// Applies a config to the root of a container's image, as often as it is called.
pub fn ignition_apply(args: impl IntoIterator<Item = OsString>) -> io::Result<ExitCode> {
    let mut args = args.into_iter();
    let program = args.next().unwrap_or_else(|| NAME.into());
    let usage = format!("Usage: {} [options] config.ign\n{OPTIONS}", program.display());
    let mut err = io::stderr();
    let flags = match Flags::parse(args) {
        Ok(flags) => flags,
        Err(error) => {
            write!(err, "{error}\n{usage}")?;
            return Ok(ExitCode::from(2));
        }
    };
    if flags.help {
        write!(err, "{usage}")?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut out = io::stdout();
    if flags.version {
        writeln!(out, "Ignition (landfall {})", env!("CARGO_PKG_VERSION"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let [file] = &flags.files[..] else {
        write!(err, "{usage}")?;
        return Ok(ExitCode::FAILURE);
    };
    writeln!(out, "INFO     : Ignition (landfall {})", env!("CARGO_PKG_VERSION"))?;
    match carry_out(&flags, file, &mut out) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) => {
            writeln!(out, "CRITICAL : {error:#}")?;
            Ok(ExitCode::FAILURE)
        }
    }
}

fn carry_out(flags: &Flags, file: &Path, out: &mut impl Write) -> anyhow::Result<()> {
    let text = read(file).context("couldn't read config")?;
    let report = match parse(&text) {
        Ok((_, _, report)) | Err(ParseError::Invalid(report)) => report,
        Err(error) => return Err(error).context("couldn't parse config"),
    };
    for entry in &report.entries {
        let level = if entry.severity == Severity::Error { "CRITICAL" } else { "WARNING " };
        writeln!(out, "{level} : {entry}")?;
    }
    anyhow::ensure!(!report.is_fatal(), "couldn't parse config: config is not valid");
    anyhow::ensure!(
        is_in_container(std::env::var_os("container")),
        "failed to apply: this tool is not designed to run on a host system; reprovision the machine instead"
    );
    apply(flags, &text).context("failed to apply")
}

fn is_in_container(variable: Option<OsString>) -> bool {
    variable.is_some_and(|name| !name.is_empty()) || CONTAINER_MARKS.iter().any(|path| Path::new(path).exists())
}

fn apply(flags: &Flags, text: &[u8]) -> anyhow::Result<()> {
    let mut fetcher = Fetcher::new(FetchOptions { offline: flags.offline, ..FetchOptions::default() });
    let text = crate::render(text, &mut fetcher)?;
    let (config, version, _) = parse(&text)?;
    let config = newest(config, version);
    let path = flags.root.as_deref().unwrap_or(Path::new("/"));
    let root = Root::open(path).with_context(|| format!("{} can't be opened as the root", path.display()))?;
    let (_, unsupported) = plan(&root, &config)?;
    let left_out = unsupported.iter().find(|left| left.at != NOT_UNSUPPORTED && !flags.ignore_unsupported);
    if let Some(left) = left_out {
        anyhow::bail!("cannot apply {} live: {}", left.at, left.why);
    }
    Ok(apply_live(&root, &config, &Now::read(), &fetcher)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(words: &[&str]) -> Result<Flags, String> {
        Flags::parse(words.iter().map(OsString::from))
    }

    #[test]
    fn the_command_line_is_gos() {
        let files = |files: &[&str]| files.iter().map(PathBuf::from).collect::<Vec<_>>();
        assert_eq!(flags(&["-"]), Ok(Flags { files: files(&["-"]), ..Flags::default() }));
        let all = Flags { root: Some("/r".into()), offline: true, files: files(&["a", "--b"]), ..Flags::default() };
        for words in
            [&["a", "--root", "/r", "--offline", "--", "--b"][..], &["--offline=true", "--root=/r", "a", "--", "--b"]]
        {
            assert_eq!(flags(words).as_ref(), Ok(&all), "{words:?}");
        }
        for (word, error) in [
            ("-x", "unknown shorthand flag: 'x' in -x"),
            ("--x", "unknown flag: --x"),
            ("--root", "flag needs an argument: --root"),
            (
                "--offline=y",
                r#"invalid argument "y" for "--offline" flag: strconv.ParseBool: parsing "y": invalid syntax"#,
            ),
        ] {
            assert_eq!(flags(&[word]), Err(error.to_owned()), "{word}");
        }
    }

    #[test]
    fn a_container_is_distinguished_from_a_host() {
        assert!(is_in_container(Some("podman".into())));
        let marks = CONTAINER_MARKS.iter().any(|path| Path::new(path).exists());
        assert_eq!(is_in_container(None), marks);
        assert_eq!(is_in_container(Some("".into())), marks);
    }
}
