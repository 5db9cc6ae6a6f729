//! Consoles in the kernel's `console=` notation that GRUB supports as well (docs/compatibility.md#kernel-arguments).

use std::fmt::{self, Write as _};
use std::str::FromStr;

/// What an argument for a console starts with.
const PREFIX: &str = "console=";
/// The width at which notes are wrapped.
const COLUMNS: usize = 80;

/// A console, written out in full.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Console(String);

/// Why it is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ConsoleError {
    #[error("spec should not start with \"{0}\"")]
    Prefix(&'static str),
    /// Not one that both support.
    #[error("invalid or unsupported console argument")]
    Unsupported,
    /// A number that is too large.
    #[error("couldn't parse {0}")]
    Number(&'static str),
}

impl fmt::Display for Console {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Console {
    type Err = ConsoleError;

    fn from_str(text: &str) -> Result<Self, ConsoleError> {
        if let Some(prefix) = [PREFIX, "/dev/"].into_iter().find(|prefix| text.starts_with(prefix)) {
            return Err(ConsoleError::Prefix(prefix));
        }
        if matches!(text, "tty0" | "hvc0" | "ttysclp0") {
            return Ok(Self(text.to_owned()));
        }
        let (device, settings) = match text.split_once(',') {
            Some((device, settings)) => (device, Some(settings)),
            None => (text, None),
        };
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let serial = ["ttyS", "ttyAMA"].into_iter().find_map(|kind| Some((kind, device.strip_prefix(kind)?)));
        let (kind, port) = serial.filter(|(_, port)| digits(port)).ok_or(ConsoleError::Unsupported)?;
        let (speed, parity, bits) =
            settings.map_or(Some(("9600", "n", "8")), settings_of).ok_or(ConsoleError::Unsupported)?;
        let port: u8 = port.parse().map_err(|_| ConsoleError::Number("port"))?;
        let speed: u32 = speed.parse().map_err(|_| ConsoleError::Number("speed"))?;
        Ok(Self(format!("{kind}{port},{speed}{parity}{bits}")))
    }
}

/// Speed, parity and bits of `115200n8`, of which the last two, or the last, may be missing.
fn settings_of(text: &str) -> Option<(&str, &str, &str)> {
    let (speed, rest) = text.split_at(text.bytes().take_while(u8::is_ascii_digit).count());
    if speed.is_empty() {
        return None;
    }
    let parity = ["n", "o", "e"].into_iter().find(|parity| rest.starts_with(parity));
    let bits = rest.get(1..).unwrap_or_default();
    match parity {
        None if rest.is_empty() => Some((speed, "n", "8")),
        Some(parity) if bits.is_empty() => Some((speed, parity, "8")),
        Some(parity) if matches!(bits, "5" | "6" | "7" | "8") => Some((speed, parity, bits)),
        _ => None,
    }
}

/// The note that consoles are better set by option than by kernel argument; `None` unless all of them can be.
pub(crate) fn note(kargs: &[String], karg_option: &str, console_option: &str) -> Option<String> {
    let consoles: Vec<&str> = kargs.iter().filter_map(|karg| karg.strip_prefix(PREFIX)).collect();
    if consoles.is_empty() || consoles.iter().any(|console| console.parse::<Console>().is_err()) {
        return None;
    }
    let all = |option: &str, prefix: &str| {
        let each: Vec<String> = consoles.iter().map(|console| format!("{option} {prefix}{console}")).collect();
        each.join(" ")
    };
    // Quoted text is not wrapped.
    let better = format!("\"{}\"", all(console_option, ""));
    let given = format!("\"{}\"", all(karg_option, PREFIX));
    let words =
        ["Note:", "consider", "using", &better, "instead", "of", &given, "to", "configure", "both", "kernel", "and"];
    let mut text = String::from("\n");
    let mut column = 0;
    for word in words.into_iter().chain(["bootloader", "consoles."]) {
        if column > 0 && column + 1 + word.chars().count() > COLUMNS {
            text.push('\n');
            column = 0;
        }
        let space = if column > 0 { " " } else { "" };
        // Writing to a string can't fail.
        let _ = write!(text, "{space}{word}");
        column += space.len() + word.chars().count();
    }
    text.push('\n');
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consoles_are_written_out_in_full() {
        for (text, expected) in [
            ("hvc0", Ok("hvc0")),
            ("tty0", Ok("tty0")),
            ("ttysclp0", Ok("ttysclp0")),
            ("ttyS0", Ok("ttyS0,9600n8")),
            ("ttyAMA7,57600", Ok("ttyAMA7,57600n8")),
            ("ttyS12,2400e", Ok("ttyS12,2400e8")),
            ("ttyAMA0,300o7", Ok("ttyAMA0,300o7")),
            ("ttyS3,4294967295n6", Ok("ttyS3,4294967295n6")),
            ("/dev/hvc0", Err("spec should not start with \"/dev/\"")),
            ("console=ttysclp0", Err("spec should not start with \"console=\"")),
            ("ttyAMA256", Err("couldn't parse port")),
            ("ttyS1,4294967296n8", Err("couldn't parse speed")),
        ] {
            let found = text.parse::<Console>().map(|console| console.to_string()).map_err(|error| error.to_string());
            assert_eq!(found.as_deref().map_err(String::as_str), expected, "{text}");
        }
        for bad in [
            "",
            "com1",
            "hvc2",
            "tty12",
            "tty0,57600",
            "ttyAMA",
            "ttyS6x",
            "ttyS6,",
            "ttyS6,even",
            "ttyS6,57600k",
            "ttyS6,57600o3",
            "ttyS6,57600o77",
        ] {
            assert_eq!(bad.parse::<Console>(), Err(ConsoleError::Unsupported), "{bad}");
        }
    }

    #[test]
    fn the_note_is_wrapped_around_what_is_quoted() {
        let note = |kargs: &[&str]| {
            let kargs: Vec<String> = kargs.iter().map(|karg| (*karg).to_owned()).collect();
            note(&kargs, "--dest-karg-append", "--dest-console")
        };
        assert_eq!(
            note(&["console=hvc0", "rhgb"]).unwrap(),
            "\nNote: consider using \"--dest-console hvc0\" instead of\n\
             \"--dest-karg-append console=hvc0\" to configure both kernel and bootloader\nconsoles.\n"
        );
        assert_eq!(note(&[]), None);
        assert_eq!(note(&["rhgb"]), None);
        assert_eq!(note(&["console=hvc0", "console=ttyUSB1"]), None);
    }
}
