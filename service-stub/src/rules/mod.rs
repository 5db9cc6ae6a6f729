//! What users may set: rules that need nothing but the text, in the words clients know.
//!
//! Each is pure. An `Err` holds the reason that the refusal gives.

pub(crate) mod encryption;
pub(crate) mod fencing;
pub(crate) mod networks;
pub(crate) mod platform;
pub(crate) mod proxy;
pub(crate) mod ssh_key;
pub(crate) mod text;
pub(crate) mod vips;

/// Several reasons as one text.
pub(crate) fn several(reasons: &[String]) -> Result<(), String> {
    let count = match reasons.len() {
        0 => return Ok(()),
        1 => "1 error occurred".to_owned(),
        count => format!("{count} errors occurred"),
    };
    let lines: String = reasons.iter().map(|reason| format!("\t* {reason}\n")).collect();
    Err(format!("{count}:\n{lines}\n"))
}
