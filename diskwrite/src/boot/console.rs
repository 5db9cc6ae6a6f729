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
        /// What must be removed.
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

/// Devices that are a screen to the boot loader; they have no settings.
const SCREENS: [&str; 3] = ["hvc0", "tty0", "ttysclp0"];
/// Drivers whose devices are serial lines.
const SERIAL_DRIVERS: [&str; 2] = ["ttyAMA", "ttyS"];
/// Speed of a line without settings, in bits per second.
const DEFAULT_SPEED: &str = "9600";
/// The kernel's letter for a parity, and the boot loader's word.
const PARITIES: [(char, &str); 3] = [('e', "even"), ('n', "no"), ('o', "odd")];

/// Where the kernel writes its messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Console {
    /// Name of the device below `/dev`.
    device: String,
    /// None for a screen.
    line: Option<Line>,
}

/// How a serial line is set.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Line {
    unit: u8,
    speed: u32,
    /// One of [`PARITIES`].
    parity: (char, &'static str),
    data_bits: u8,
}

impl Console {
    /// For the kernel.
    pub(crate) fn karg(&self) -> String {
        format!("{KARG}{self}")
    }
}

impl fmt::Display for Console {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.device)?;
        let Some(Line { speed, parity: (parity, _), data_bits, .. }) = self.line else { return Ok(()) };
        write!(f, ",{speed}{parity}{data_bits}")
    }
}

impl FromStr for Console {
    type Err = ConsoleError;

    fn from_str(spec: &str) -> Result<Self, Self::Err> {
        if let Some(prefix) = [KARG, "/dev/"].into_iter().find(|prefix| spec.starts_with(prefix)) {
            return Err(ConsoleError::Prefix { spec: spec.to_owned(), prefix });
        }
        if SCREENS.contains(&spec) {
            return Ok(Self { device: spec.to_owned(), line: None });
        }
        let (name, settings) = spec.split_once(',').unwrap_or((spec, DEFAULT_SPEED));
        let numbered = SERIAL_DRIVERS.into_iter().find_map(|driver| Some((driver, name.strip_prefix(driver)?)));
        let unknown = || ConsoleError::Unknown { spec: spec.to_owned() };
        let (driver, unit) = numbered.filter(|(_, unit)| is_number(unit)).ok_or_else(unknown)?;
        let (speed, [parity, data_bits]) = match settings.as_bytes() {
            [.., parity @ b'a'..=b'z', bits @ b'5'..=b'8'] => (&settings[..settings.len() - 2], [*parity, *bits]),
            [.., parity @ b'a'..=b'z'] => (&settings[..settings.len() - 1], [*parity, b'8']),
            _ => (settings, *b"n8"),
        };
        let parity = PARITIES.into_iter().find(|(letter, _)| *letter == char::from(parity)).ok_or_else(unknown)?;
        if !is_number(speed) {
            return Err(unknown());
        }
        let number = |field| move |_| ConsoleError::Number { spec: spec.to_owned(), field };
        let unit: u8 = unit.parse().map_err(number("port"))?;
        let speed = speed.parse().map_err(number("speed"))?;
        let line = Line { unit, speed, parity, data_bits: data_bits - b'0' };
        Ok(Self { device: format!("{driver}{unit}"), line: Some(line) })
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The boot loader's commands for these consoles: each serial line, then where it reads and writes.
pub(crate) fn grub_commands(consoles: &[Console]) -> Vec<String> {
    let mut commands = Vec::new();
    for Line { unit, speed, parity: (_, parity), data_bits } in
        consoles.iter().filter_map(|console| console.line.as_ref())
    {
        commands.push(format!("serial --unit={unit} --speed={speed} --word={data_bits} --parity={parity}"));
    }
    let terminals = match commands.len() {
        0 => "console",
        lines if lines == consoles.len() => "serial",
        _ => "console serial",
    };
    commands.extend([format!("terminal_input {terminals}"), format!("terminal_output {terminals}")]);
    commands
}

/// Advice if the kernel's consoles are set as kernel arguments, which the boot loader does not see. None if no
/// argument is a console, or one is of a kind that only the kernel knows.
pub fn console_hint(append_kargs: &[String]) -> Option<String> {
    let (mut better, mut given) = (Vec::new(), Vec::new());
    for spec in append_kargs.iter().filter_map(|karg| karg.strip_prefix(KARG)) {
        spec.parse::<Console>().ok()?;
        better.push(format!("--console {spec}"));
        given.push(format!("--append-karg {KARG}{spec}"));
    }
    let (better, given) = (better.join(" "), given.join(" "));
    let hint = || {
        format!(
            "Note: consider using \"{better}\" instead of \"{given}\" to configure both kernel and bootloader consoles."
        )
    };
    (!better.is_empty()).then(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel_argument(spec: &str) -> String {
        spec.parse::<Console>().unwrap().karg()
    }

    /// The boot loader's commands for one console.
    fn commands(spec: &str) -> Vec<String> {
        grub_commands(&[spec.parse().unwrap()])
    }

    #[test]
    fn screens_have_no_settings() {
        for spec in ["hvc0", "tty0", "ttysclp0"] {
            assert_eq!(kernel_argument(spec), format!("console={spec}"));
            assert_eq!(commands(spec), ["terminal_input console", "terminal_output console"], "{spec}");
        }
    }

    #[test]
    fn settings_that_are_not_given_are_9600n8() {
        for (spec, full) in [
            ("ttyS0", "ttyS0,9600n8"),
            ("ttyAMA10", "ttyAMA10,9600n8"),
            ("ttyS255,57600", "ttyS255,57600n8"),
            ("ttyAMA0,38400o", "ttyAMA0,38400o8"),
            ("ttyS4,4294967295n5", "ttyS4,4294967295n5"),
            ("ttyS5,110e6", "ttyS5,110e6"),
            ("ttyS6,1o7", "ttyS6,1o7"),
            ("ttyS042,0057600e8", "ttyS42,57600e8"),
        ] {
            assert_eq!(kernel_argument(spec), format!("console={full}"));
            assert_eq!(commands(spec), commands(full), "{spec}");
        }
    }

    #[test]
    fn boot_loader_commands_have_each_lines_settings() {
        for (spec, settings) in [
            ("ttyS0", "--unit=0 --speed=9600 --word=8 --parity=no"),
            ("ttyAMA10", "--unit=10 --speed=9600 --word=8 --parity=no"),
            ("ttyS255,57600", "--unit=255 --speed=57600 --word=8 --parity=no"),
            ("ttyAMA0,38400o", "--unit=0 --speed=38400 --word=8 --parity=odd"),
            ("ttyS4,4294967295n5", "--unit=4 --speed=4294967295 --word=5 --parity=no"),
            ("ttyS5,110e6", "--unit=5 --speed=110 --word=6 --parity=even"),
            ("ttyS6,1o7", "--unit=6 --speed=1 --word=7 --parity=odd"),
            ("ttyS042,0057600e8", "--unit=42 --speed=57600 --word=8 --parity=even"),
        ] {
            let expected =
                [format!("serial {settings}"), "terminal_input serial".into(), "terminal_output serial".into()];
            assert_eq!(commands(spec), expected, "{spec}");
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
    fn each_terminal_is_listed_once() {
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
