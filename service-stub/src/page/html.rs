//! HTML as text: everything that is not ours goes through [`Escaped`].

use std::fmt::{self, Write};

/// Text as HTML shows it, in content and in quoted attributes. What would turn or break lines is gone.
pub struct Escaped<'a>(pub &'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in crate::text::plain(self.0).chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

/// Shorthand.
pub fn e(text: &str) -> Escaped<'_> {
    Escaped(text)
}

/// How good a state is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// Done, or fit.
    Good,
    /// Under way.
    Busy,
    /// Somebody must do something.
    Warn,
    /// Failed.
    Bad,
    /// Nothing of it.
    Plain,
}

impl Tone {
    /// Of a host's or a cluster's state.
    pub fn of_state(state: &str) -> Self {
        match state {
            "installed" | "ready" | "known" | "known-unbound" | "adding-hosts" | "added-to-existing-cluster" => {
                Self::Good
            }
            "error" => Self::Bad,
            "cancelled" => Self::Plain,
            _ if state.starts_with("insufficient") || state.starts_with("disconnected") => Self::Warn,
            _ if state.contains("user-action") || state == "pending-for-input" => Self::Warn,
            _ => Self::Busy,
        }
    }

    pub fn of_validation(status: &str) -> Self {
        match status {
            "success" => Self::Good,
            "failure" | "error" => Self::Bad,
            "pending" => Self::Busy,
            _ => Self::Plain,
        }
    }

    /// Of an event.
    pub fn of_severity(severity: &str) -> Self {
        match severity {
            "warning" => Self::Warn,
            "error" | "critical" => Self::Bad,
            _ => Self::Plain,
        }
    }

    /// A class, and a sign for whom colours say nothing.
    fn shown(self) -> (&'static str, &'static str) {
        match self {
            Self::Good => ("good", "✓"),
            Self::Busy => ("busy", "…"),
            Self::Warn => ("warn", "!"),
            Self::Bad => ("bad", "✗"),
            Self::Plain => ("plain", "·"),
        }
    }
}

/// A state with its sign.
pub fn badge(tone: Tone, text: &str) -> String {
    let (class, sign) = tone.shown();
    format!("<span class=\"badge {class}\"><span aria-hidden=\"true\">{sign}</span> {}</span>", e(text))
}

/// A bar with its number.
pub fn progress(what: &str, percent: u64) -> String {
    let percent = percent.min(100);
    format!(
        "<span class=\"progress\"><progress max=\"100\" value=\"{percent}\" aria-label=\"{}\"></progress> {percent} %</span>",
        e(what)
    )
}

/// A cell of a table that becomes a card on a narrow screen, where its header is shown beside it. `html` is HTML.
pub fn cell(header: &str, html: impl fmt::Display) -> String {
    let html = html.to_string();
    match html.is_empty() {
        true => format!("<td data-h=\"{}\"></td>", e(header)),
        false => format!("<td data-h=\"{}\"><div>{html}</div></td>", e(header)),
    }
}

/// A table in a section; `rows` are HTML. A table without rows says `none` instead.
pub fn table(caption: &str, headers: &[&str], rows: &[String], none: &str) -> String {
    if rows.is_empty() {
        return format!("<p class=\"none\">{}</p>", e(none));
    }
    let mut html = format!("<table class=\"cards\"><caption>{}</caption><thead><tr>", e(caption));
    for header in headers {
        let _ = write!(html, "<th scope=\"col\">{}</th>", e(header));
    }
    html.push_str("</tr></thead><tbody>");
    for row in rows {
        let _ = write!(html, "<tr>{row}</tr>");
    }
    html.push_str("</tbody></table>");
    html
}

/// Names and values; `pairs`' values are HTML, and those that are empty are left out.
pub fn list(pairs: &[(&str, String)]) -> String {
    let mut html = String::from("<dl>");
    for (name, value) in pairs.iter().filter(|(_, value)| !value.is_empty()) {
        let _ = write!(html, "<div><dt>{}</dt><dd>{value}</dd></div>", e(name));
    }
    html.push_str("</dl>");
    html
}

/// A section that the script replaces when it changed. Its `id` is ours.
pub fn section(id: &str, title: &str, html: &str) -> String {
    format!(
        "<section id=\"{id}\" data-live aria-labelledby=\"{id}-title\"><h2 id=\"{id}-title\">{}</h2>{html}</section>",
        e(title)
    )
}

/// A point in time, without its fractions.
pub fn moment(time: api::Timestamp) -> String {
    if time.is_zero() {
        return String::new();
    }
    let text = time.to_string();
    let short = text.split('.').next().unwrap_or_default().replace('T', " ");
    format!("<time datetime=\"{}\">{} UTC</time>", e(&text), e(&short))
}

/// A whole page. `title` is text; `trail` leads here, `main` is HTML; `stream` is what the script listens to.
pub fn page(title: &str, trail: &[(&str, &str)], main: &str, stream: Option<&str>) -> String {
    let mut links = String::new();
    for (text, href) in trail {
        let _ = write!(links, "<a href=\"{}\">{}</a><span aria-hidden=\"true\"> › </span>", e(href), e(text));
    }
    let live = stream.map(|stream| format!(" data-stream=\"{}\"", e(stream))).unwrap_or_default();
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\">\
         <title>{title} · Landfall</title>\
         <link rel=\"stylesheet\" href=\"/ui/page.css\"><link rel=\"icon\" href=\"/ui/icon.svg\" type=\"image/svg+xml\">\
         <script src=\"/ui/page.js\" defer></script></head>\
         <body{live}><a class=\"skip\" href=\"#main\">To the content</a>\
         <header><nav aria-label=\"Where you are\">{links}<span aria-current=\"page\">{title}</span></nav>\
         <span id=\"live\" role=\"status\"></span></header>\
         <main id=\"main\">{main}</main></body></html>\n",
        title = e(title),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_gets_out_of_its_place() {
        let hostile = "<script>alert('x')</script>\" onload=\"x & y\u{202e}";
        let shown = e(hostile).to_string();
        assert_eq!(shown, "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&quot; onload=&quot;x &amp; y ");
        for html in [
            badge(Tone::Bad, hostile),
            cell(hostile, e(hostile)),
            table(hostile, &[hostile], &[cell("x", e(hostile))], hostile),
            list(&[("x", e(hostile).to_string())]),
            section("x", hostile, ""),
            page(hostile, &[(hostile, hostile)], "", Some(hostile)),
        ] {
            assert!(!html.contains("<script>") && !html.contains("\" onload"), "{html}");
        }
    }

    #[test]
    fn states_have_a_sign_beside_their_colour() {
        assert!(badge(Tone::of_state("installed"), "installed").contains("✓"));
        assert!(badge(Tone::of_state("installing-pending-user-action"), "x").contains("!"));
        assert!(badge(Tone::of_state("insufficient-unbound"), "x").contains("!"));
        assert!(badge(Tone::of_state("installing"), "x").contains("…"));
    }
}
