//! Long lines for a terminal. Pure.

/// `text` behind `head`, in lines of at most `columns` characters, of which all but the first begin with `hang` spaces. Words, and so
/// URLs, stay whole: one that no line has room for is longer than the line.
pub fn wrapped(head: &str, text: &str, hang: usize, columns: usize) -> String {
    let mut lines = String::new();
    let mut line = head.to_owned();
    let mut used = head.chars().count();
    let mut is_first = true;
    for word in text.split(' ') {
        let len = word.chars().count();
        if !is_first && used + 1 + len > columns {
            lines.push_str(line.trim_end());
            lines.push('\n');
            line = " ".repeat(hang);
            used = hang;
            is_first = true;
        }
        if !is_first {
            line.push(' ');
            used += 1;
        }
        line.push_str(word);
        used += len;
        is_first = false;
    }
    lines.push_str(line.trim_end());
    lines.push('\n');
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_between_words() {
        let text = "ask https://a-long-name.example.com:8443/config/worker again, or not";
        let expected = "  -> ask\n     https://a-long-name.example.com:8443/config/worker\n     again, or\n     not\n";
        assert_eq!(wrapped("  -> ", text, 5, 14), expected);
        assert_eq!(wrapped("  -> ", text, 5, usize::MAX), format!("  -> {text}\n"));
        assert_eq!(wrapped("a  ", "", 3, 10), "a\n");
        assert_eq!(wrapped("", "äöü äöü", 0, 7), "äöü äöü\n");
    }
}
