//! Consoles of kernel and boot loader, as `--console` names them.

use std::{fmt, str::FromStr};

/// How kernel arguments for consoles start.
const KARG: &str = "console=";

/// Why a console can't be configured.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConsoleError {
    /// A kernel argument or a path instead of a name.
    #[error("console '{spec}': spec should not start with \"{prefix}\"")]
    Prefix {
        spec: String,
        /// What is too much.
        prefix: &'static str,
    },
    #[error("console '{spec}': couldn't parse {field}")]
    Number {
        spec: String,
        /// `port` or `speed`.
        field: &'static str,
    },
    #[error(
        "invalid or unsupported console argument '{spec}': give tty0, hvc0, ttysclp0, or ttyS0 or ttyAMA0 with any \
         number, after it if need be speed, parity and bits as in ttyS0,115200n8"
    )]
    Unknown { spec: String },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parity {
    None,
    Odd,
    Even,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Console {
    Graphical { device: &'static str },
    Serial { prefix: &'static str, port: u8, speed: u32, parity: Parity, data_bits: u8 },
}

impl Console {
    /// For the kernel.
    pub fn karg(&self) -> String {
        format!("{KARG}{self}")
    }

    /// For the boot loader, where it needs to be told.
    fn grub_command(&self) -> Option<String> {
        let Self::Serial { port, speed, parity, data_bits, .. } = self else { return None };
        let parity = match parity {
            Parity::None => "no",
            Parity::Odd => "odd",
            Parity::Even => "even",
        };
        Some(format!("serial --unit={port} --speed={speed} --word={data_bits} --parity={parity}"))
    }

    fn grub_terminal(&self) -> &'static str {
        match self {
            Self::Graphical { .. } => "console",
            Self::Serial { .. } => "serial",
        }
    }
}

impl fmt::Display for Console {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Graphical { device } => f.write_str(device),
            Self::Serial { prefix, port, speed, parity, data_bits } => {
                let parity = match parity {
                    Parity::None => 'n',
                    Parity::Odd => 'o',
                    Parity::Even => 'e',
                };
                write!(f, "{prefix}{port},{speed}{parity}{data_bits}")
            }
        }
    }
}

impl FromStr for Console {
    type Err = ConsoleError;

    fn from_str(spec: &str) -> Result<Self, Self::Err> {
        for prefix in [KARG, "/dev/"] {
            if spec.starts_with(prefix) {
                return Err(ConsoleError::Prefix { spec: spec.to_owned(), prefix });
            }
        }
        if let Some(device) = ["tty0", "hvc0", "ttysclp0"].into_iter().find(|device| *device == spec) {
            return Ok(Self::Graphical { device });
        }
        let unknown = || ConsoleError::Unknown { spec: spec.to_owned() };
        let number = |field| move |_| ConsoleError::Number { spec: spec.to_owned(), field };
        let serial = ["ttyS", "ttyAMA"].into_iter().find_map(|prefix| Some((prefix, spec.strip_prefix(prefix)?)));
        let (prefix, rest) = serial.ok_or_else(unknown)?;
        let (port, settings) = match rest.split_once(',') {
            Some((port, settings)) => (port, Some(settings)),
            None => (rest, None),
        };
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if !digits(port) {
            return Err(unknown());
        }
        let settings = settings.unwrap_or("9600");
        let end = settings.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(settings.len());
        let (speed, line) = settings.split_at(end);
        if !digits(speed) {
            return Err(unknown());
        }
        let mut line = line.chars();
        let parity = match line.next() {
            None | Some('n') => Parity::None,
            Some('o') => Parity::Odd,
            Some('e') => Parity::Even,
            Some(_) => return Err(unknown()),
        };
        let data_bits = match line.next() {
            None => 8,
            Some('5') => 5,
            Some('6') => 6,
            Some('7') => 7,
            Some('8') => 8,
            Some(_) => return Err(unknown()),
        };
        if line.next().is_some() {
            return Err(unknown());
        }
        let port = port.parse().map_err(number("port"))?;
        let speed = speed.parse().map_err(number("speed"))?;
        Ok(Self::Serial { prefix, port, speed, parity, data_bits })
    }
}

/// What the boot loader must be told for these consoles.
pub(crate) fn grub_commands(consoles: &[Console]) -> Vec<String> {
    let mut commands: Vec<_> = consoles.iter().filter_map(Console::grub_command).collect();
    let mut terminals: Vec<_> = consoles.iter().map(Console::grub_terminal).collect();
    terminals.sort_unstable();
    terminals.dedup();
    let terminals = terminals.join(" ");
    commands.extend(["input", "output"].map(|direction| format!("terminal_{direction} {terminals}")));
    commands
}

/// Advice for whoever sets the kernel's consoles as kernel arguments: the boot loader learns nothing of them. None if no
/// argument is a console, or one is of a kind that only the kernel knows.
pub fn console_hint(append_kargs: &[String]) -> Option<String> {
    let specs: Vec<_> = append_kargs.iter().filter_map(|karg| karg.strip_prefix(KARG)).collect();
    if specs.is_empty() || specs.iter().any(|spec| spec.parse::<Console>().is_err()) {
        return None;
    }
    let options = |option: &str| specs.iter().map(|spec| format!("{option}{spec}")).collect::<Vec<_>>().join(" ");
    Some(format!(
        "Note: consider using \"{}\" instead of \"{}\" to configure both kernel and bootloader consoles.",
        options("--console "),
        options("--append-karg console=")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_every_form() {
        let table = [
            ("tty0", "console=tty0", None),
            ("hvc0", "console=hvc0", None),
            ("ttysclp0", "console=ttysclp0", None),
            ("ttyS1", "console=ttyS1,9600n8", Some("serial --unit=1 --speed=9600 --word=8 --parity=no")),
            ("ttyAMA255", "console=ttyAMA255,9600n8", Some("serial --unit=255 --speed=9600 --word=8 --parity=no")),
            ("ttyS007,0115200", "console=ttyS7,115200n8", Some("serial --unit=7 --speed=115200 --word=8 --parity=no")),
            ("ttyS2,5o", "console=ttyS2,5o8", Some("serial --unit=2 --speed=5 --word=8 --parity=odd")),
            ("ttyS3,19200e7", "console=ttyS3,19200e7", Some("serial --unit=3 --speed=19200 --word=7 --parity=even")),
        ];
        for (spec, karg, command) in table {
            let console: Console = spec.parse().unwrap();
            assert_eq!((console.karg().as_str(), console.grub_command().as_deref()), (karg, command));
        }
    }

    #[test]
    fn refuses_the_rest_by_name() {
        let error = |spec: &str| spec.parse::<Console>().unwrap_err().to_string();
        assert_eq!(error("console=tty0"), "console 'console=tty0': spec should not start with \"console=\"");
        assert_eq!(error("/dev/ttyS0"), "console '/dev/ttyS0': spec should not start with \"/dev/\"");
        assert_eq!(error("ttyS256"), "console 'ttyS256': couldn't parse port");
        assert_eq!(error("ttyS0,4294967296n8"), "console 'ttyS0,4294967296n8': couldn't parse speed");
        for spec in [
            "",
            "foo",
            "tty1",
            "tty0z",
            "ztty0",
            "ttyS",
            "ttyS,9600",
            "ttyS+1",
            "ttyS0z",
            "ttyS0,",
            "ttyS0,z",
            "ttyS0,n8",
            "ttyS0,9600p8",
            "ttyS0,9600n4",
            "ttyS0,9600n8r",
            "ttyS0,9600 n8",
            "ttyS0,9600,8",
            "ttyB0",
        ] {
            let error = error(spec);
            assert!(error.starts_with(&format!("invalid or unsupported console argument '{spec}'")), "{error}");
        }
    }

    #[test]
    fn terminals_are_told_once() {
        let consoles = ["ttyS1,115200", "tty0", "ttyS0"].map(|spec| spec.parse().unwrap());
        let expected = [
            "serial --unit=1 --speed=115200 --word=8 --parity=no",
            "serial --unit=0 --speed=9600 --word=8 --parity=no",
            "terminal_input console serial",
            "terminal_output console serial",
        ];
        assert_eq!(grub_commands(&consoles), expected);
    }

    #[test]
    fn hint_comes_for_consoles_it_can_name() {
        let hint = |kargs: &[&str]| console_hint(&kargs.iter().map(|karg| (*karg).to_owned()).collect::<Vec<_>>());
        assert_eq!(
            hint(&["quiet", "console=tty0", "console=ttyS0,115200n8"]).unwrap(),
            "Note: consider using \"--console tty0 --console ttyS0,115200n8\" instead of \"--append-karg console=tty0 \
             --append-karg console=ttyS0,115200n8\" to configure both kernel and bootloader consoles."
        );
        assert_eq!(hint(&["quiet"]), None);
        assert_eq!(hint(&["console=tty0", "console=ttyUSB0"]), None);
    }
}
