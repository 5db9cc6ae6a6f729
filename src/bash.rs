//! The name `bash` in the controller's image: assisted-service starts scripts of operators in that image, which has no shell.

use std::{ffi::OsString, fmt::Write};

pub(crate) const NAME: &str = "bash";
/// Of the words it was called with, as many characters are shown: a script may be long.
const MAX_CHARS: usize = 200;

/// What it cannot do, and what to do.
pub(crate) fn refusal(words: &[OsString]) -> String {
    let asked = words.iter().fold(NAME.to_owned(), |asked, word| asked + " " + &word.to_string_lossy());
    let mut shown: String = asked.chars().take(MAX_CHARS).flat_map(char::escape_debug).collect();
    if asked.chars().nth(MAX_CHARS).is_some() {
        shown.push('…');
    }
    let _ = write!(
        shown,
        ": this image has Landfall's controller only, neither a shell nor oc. The service runs scripts in the controller's image to set \
         up the operators kmm and openshift-ai. For clusters with these operators set the service's CONTROLLER_IMAGE to the image of \
         the real assisted-installer-controller, or run the script by hand on a machine with oc."
    );
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_named_in_one_short_line() {
        let said = |words: &[&str]| refusal(&words.iter().map(OsString::from).collect::<Vec<_>>());
        let text = said(&["-ex", "-c", "oc get csv\n\x1b[2J"]);
        assert!(text.starts_with("bash -ex -c oc get csv\\n\\u{1b}[2J: this image has"), "{text}");
        assert!(text.contains("CONTROLLER_IMAGE") && !text.contains(char::is_control), "{text}");
        let long = said(&["-c", &"x".repeat(100_000)]);
        assert!(long.contains("x…: this image") && long.len() < 1000, "{long}");
    }
}
