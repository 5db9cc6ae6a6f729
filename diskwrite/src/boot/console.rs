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
            ("hvc0", "hvc0", None),
            ("tty0", "tty0", None),
            ("ttysclp0", "ttysclp0", None),
            // Without settings: 9600 bits a second, no parity, 8 bits.
            ("ttyS0", "ttyS0,9600n8", Some((0, 9600, 8, "no"))),
            ("ttyAMA10", "ttyAMA10,9600n8", Some((10, 9600, 8, "no"))),
            ("ttyS255,57600", "ttyS255,57600n8", Some((255, 57_600, 8, "no"))),
            ("ttyAMA0,38400o", "ttyAMA0,38400o8", Some((0, 38_400, 8, "odd"))),
            ("ttyS4,4294967295n5", "ttyS4,4294967295n5", Some((4, u32::MAX, 5, "no"))),
            ("ttyS5,110e6", "ttyS5,110e6", Some((5, 110, 6, "even"))),
            ("ttyS6,1o7", "ttyS6,1o7", Some((6, 1, 7, "odd"))),
            ("ttyS042,0057600e8", "ttyS42,57600e8", Some((42, 57_600, 8, "even"))),
        ];
        for (spec, karg, command) in table {
            let console: Console = spec.parse().unwrap();
            let command = command.map(|(unit, speed, word, parity): (u8, u32, u8, &str)| {
                format!("serial --unit={unit} --speed={speed} --word={word} --parity={parity}")
            });
            assert_eq!((console.karg(), console.grub_command()), (format!("console={karg}"), command), "{spec}");
        }
    }

    #[test]
    fn refuses_the_rest_by_name() {
        let error = |spec: &str| spec.parse::<Console>().unwrap_err().to_string();
        for (spec, expected) in [
            ("console=hvc0", "spec should not start with \"console=\""),
            ("/dev/ttyAMA3", "spec should not start with \"/dev/\""),
            ("ttyAMA1000", "couldn't parse port"),
            ("ttyS256", "couldn't parse port"),
            ("ttyS9,4294967296", "couldn't parse speed"),
        ] {
            assert_eq!(error(spec), format!("console '{spec}': {expected}"));
        }
        for spec in [
            "",
            "com1",
            "hvc",
            "tty00",
            "ttysclp",
            "TTYS0",
            " ttyS0",
            "ttyS",
            "ttyS,57600",
            "ttyS-1",
            "ttyAMAx",
            "ttyUSB0",
            "ttyS7,",
            "ttyS7,e7",
            "ttyS7,fast",
            "ttyS7,57600m8",
            "ttyS7,57600n9",
            "ttyS7,57600n8n",
            "ttyS7,57600 n8",
            "ttyS7,57600,n8",
        ] {
            let error = error(spec);
            assert!(error.starts_with(&format!("invalid or unsupported console argument '{spec}'")), "{error}");
        }
    }

    #[test]
    fn terminals_are_told_once() {
        let consoles = ["ttyAMA2,57600", "hvc0", "ttyS3,4800e7"].map(|spec| spec.parse().unwrap());
        let expected = [
            "serial --unit=2 --speed=57600 --word=8 --parity=no",
            "serial --unit=3 --speed=4800 --word=7 --parity=even",
            "terminal_input console serial",
            "terminal_output console serial",
        ];
        assert_eq!(grub_commands(&consoles), expected);
    }

    #[test]
    fn hint_comes_for_consoles_it_can_name() {
        let hint = |kargs: &[&str]| console_hint(&kargs.iter().map(|karg| (*karg).to_owned()).collect::<Vec<_>>());
        assert_eq!(
            hint(&["console=hvc0", "rhgb", "console=ttyAMA0,57600"]).unwrap(),
            "Note: consider using \"--console hvc0 --console ttyAMA0,57600\" instead of \"--append-karg console=hvc0 \
             --append-karg console=ttyAMA0,57600\" to configure both kernel and bootloader consoles."
        );
        assert_eq!(hint(&[]), None);
        assert_eq!(hint(&["rhgb", "netconsole=@/,@192.0.2.7/"]), None);
        assert_eq!(hint(&["console=hvc0", "console=ttyUSB1"]), None);
    }
}
