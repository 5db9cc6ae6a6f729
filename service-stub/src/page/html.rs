//! HTML, escaped by construction: maud escapes every text except values of type [`Markup`].

use maud::{DOCTYPE, Markup, html};

/// Text from machines and clients, without characters that break or reverse a line.
pub(super) fn line(text: &str) -> Markup {
    html! { (crate::text::plain(text)) }
}

/// How good a state is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    /// Done, or fit.
    Good,
    /// Under way.
    Busy,
    /// A person must act.
    Warn,
    /// Failed.
    Bad,
    /// Neutral.
    Plain,
}

impl Tone {
    /// Of a host's or a cluster's state.
    pub(super) fn of_state(state: &str) -> Self {
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

    pub(super) fn of_validation(status: &str) -> Self {
        match status {
            "success" => Self::Good,
            "failure" | "error" => Self::Bad,
            "pending" => Self::Busy,
            _ => Self::Plain,
        }
    }

    /// Of an event.
    pub(super) fn of_severity(severity: &str) -> Self {
        match severity {
            "warning" => Self::Warn,
            "error" | "critical" => Self::Bad,
            _ => Self::Plain,
        }
    }

    /// A class, and a sign for users who cannot see its colour.
    fn class_and_sign(self) -> (&'static str, &'static str) {
        match self {
            Self::Good => ("good", "✓"),
            Self::Busy => ("busy", "…"),
            Self::Warn => ("warn", "!"),
            Self::Bad => ("bad", "✗"),
            Self::Plain => ("plain", "·"),
        }
    }
}

/// A word with the sign of its tone.
pub(super) fn badge(tone: Tone, text: &str) -> Markup {
    let (class, sign) = tone.class_and_sign();
    html! { span.badge.(class) { span aria-hidden="true" { (sign) } " " (line(text)) } }
}

/// The state of a host or a cluster.
pub(super) fn state_badge(state: &str) -> Markup {
    badge(Tone::of_state(state), state)
}

/// A bar with its percentage.
pub(super) fn progress(what: &str, percent: u64) -> Markup {
    let percent = percent.min(100);
    html! {
        span.progress { progress max="100" value=(percent) aria-label=(line(what)) {} " " (percent) " %" }
    }
}

/// A placeholder for missing content.
pub(super) fn none(text: &str) -> Markup {
    html! { p.none { (text) } }
}

/// A table that becomes cards on a narrow screen, where each cell has its header beside it. Without rows it is the text
/// `nothing`.
pub(super) fn table<const N: usize>(caption: &str, headers: [&str; N], rows: &[[Markup; N]], nothing: &str) -> Markup {
    if rows.is_empty() {
        return none(nothing);
    }
    html! {
        table.cards {
            caption { (caption) }
            thead { tr { @for header in headers { th scope="col" { (header) } } } }
            tbody {
                @for row in rows {
                    tr {
                        @for (header, content) in headers.iter().zip(row) {
                            td data-h=(header) { @if !content.0.is_empty() { div { (content) } } }
                        }
                    }
                }
            }
        }
    }
}

/// Names and values; those without a value are left out.
pub(super) fn list(pairs: &[(&str, Markup)]) -> Markup {
    html! {
        dl {
            @for (name, value) in pairs.iter().filter(|(_, value)| !value.0.is_empty()) {
                div { dt { (name) } dd { (value) } }
            }
        }
    }
}

/// A section that the script replaces when it changes.
pub(super) fn section(id: &str, title: &str, content: Markup) -> Markup {
    html! {
        section #(id) data-live aria-labelledby={ (id) "-title" } { h2 id={ (id) "-title" } { (title) } (content) }
    }
}

/// A point in time, to the second; empty if not reached.
pub(super) fn moment(time: api::Timestamp) -> Markup {
    let text = time.to_string();
    let short = text.split('.').next().unwrap_or_default().replace('T', " ");
    html! { @if !time.is_zero() { time datetime=(text) { (short) " UTC" } } }
}

/// A page. `trail` are the pages above it; the script listens to `stream`.
pub(super) fn page(title: &str, trail: &[(&str, &str)], main: Markup, stream: Option<&str>) -> Markup {
    let title = line(title);
    html! {
        (DOCTYPE) "\n"
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · Landfall" }
                link rel="stylesheet" href="/ui/page.css";
                link rel="icon" href="/ui/icon.svg" type="image/svg+xml";
                script src="/ui/page.js" defer {}
            }
            body data-stream=[stream] {
                a.skip href="#main" { "Skip to content" }
                header {
                    nav aria-label="Breadcrumb" {
                        @for (text, href) in trail {
                            a href=(href) { (line(text)) } span aria-hidden="true" { " › " }
                        }
                        span aria-current="page" { (title) }
                    }
                    span #live role="status" {}
                }
                main #main { (main) }
            }
        }
        "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_gets_out_of_its_place() {
        let hostile = "<script>alert('x')</script>\" onload=\"x & y\u{202e}";
        let text = line(hostile);
        assert_eq!(text.0, "&lt;script&gt;alert('x')&lt;/script&gt;&quot; onload=&quot;x &amp; y ");
        for maud::PreEscaped(html) in [
            badge(Tone::Bad, hostile),
            progress(hostile, 7),
            none(hostile),
            table(hostile, [hostile], &[[text.clone()]], hostile),
            list(&[(hostile, text)]),
            section("x", hostile, Markup::default()),
            page(hostile, &[(hostile, hostile)], Markup::default(), Some(hostile)),
        ] {
            assert!(!html.contains("<script>") && !html.contains("\" onload"), "{html}");
        }
    }

    #[test]
    fn states_have_a_sign_beside_their_colour() {
        assert!(state_badge("installed").0.contains("✓"));
        assert!(state_badge("installing-pending-user-action").0.contains("!"));
        assert!(state_badge("insufficient-unbound").0.contains("!"));
        assert!(state_badge("installing").0.contains("…"));
    }
}
