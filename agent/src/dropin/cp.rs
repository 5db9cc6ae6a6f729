//! `cp`, as far as an image without any other program needs it: the service's unit copies the agent out of its image with it
//! (docs/compatibility.md#agent-launch).
//!
//! As cp(1), in its words, with one thing better: a regular file is replaced by a new one in one step, so that a running
//! program can be, and nobody ever sees half of it. Its other links keep the old content.

mod copy;
mod options;

pub use copy::CopyError;
use options::{Options, Wrong};
use std::{
    ffi::OsString,
    fmt,
    io::{self, Write},
    process::ExitCode,
};

/// The name of this program.
pub const NAME: &str = "cp";

const USAGE: &str = "\
Usage: cp [OPTION]... [-T] SOURCE DEST
  or:  cp [OPTION]... SOURCE... DIRECTORY
  or:  cp [OPTION]... -t DIRECTORY SOURCE...
Copy SOURCE to DEST, or multiple SOURCE(s) to DIRECTORY.

  -a, --archive                same as -dR --preserve=all
  -d                           same as --no-dereference
  -f, --force                  nothing more: files are replaced anyway
  -H                           follow command-line symbolic links in SOURCE
  -L, --dereference            always follow symbolic links in SOURCE
  -P, --no-dereference         never follow symbolic links in SOURCE
  -p, --preserve               preserve mode, ownership and timestamps
  -R, -r, --recursive          copy directories recursively
  -t, --target-directory=DIRECTORY  copy all SOURCE arguments into DIRECTORY
  -T, --no-target-directory    treat DEST as a normal file
  -v, --verbose                explain what is being done
      --help        display this help and exit
      --version     output version information and exit

This is the cp of landfall. It keeps neither holes nor extended attributes.
";

/// The program; `words` are those behind its name.
pub fn main(words: &[OsString]) -> ExitCode {
    match options::parse(words) {
        Ok(options) => copy_all(&options),
        Err(Wrong::Help) => print(USAGE),
        Err(Wrong::Version) => print(concat!("cp (landfall) ", env!("CARGO_PKG_VERSION"), "\n")),
        Err(Wrong::Both) => {
            complain(format_args!("cp: {}", Wrong::Both));
            ExitCode::FAILURE
        }
        Err(wrong) => {
            complain(format_args!("cp: {wrong}\nTry 'cp --help' for more information."));
            ExitCode::FAILURE
        }
    }
}

fn copy_all(options: &Options) -> ExitCode {
    let mut failed = false;
    copy::copy_all(options, &mut |said| match said {
        Ok((from, to)) => {
            let _ = print(&format!("{} -> {}\n", quoted(&from), quoted(&to)));
        }
        Err(error) => {
            failed = true;
            complain(format_args!("cp: {error}"));
        }
    });
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn print(text: &str) -> ExitCode {
    match io::stdout().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(format_args!("cp: write error: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn complain(line: fmt::Arguments) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// In single quotes, as cp prints names.
fn quoted(path: &std::path::Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', "'\\''"))
}
