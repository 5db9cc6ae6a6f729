//! When an installation is interrupted, and how.

use serde_json::Value;
use std::{fmt, time::Duration};

/// How.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// SIGTERM to the program, and SIGKILL if it still runs after five seconds.
    Term,
    /// SIGKILL to the program.
    Kill,
    /// The machine is switched off; what it had sent to the disk is there.
    Cut,
    /// The same, and a random part of the unflushed data is lost.
    CutCache,
}

impl Kind {
    pub(crate) const ALL: [Self; 4] = [Self::Term, Self::Kill, Self::Cut, Self::CutCache];

    pub(crate) fn is_power_cut(self) -> bool {
        matches!(self, Self::Cut | Self::CutCache)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Term => "TERM, then KILL",
            Self::Kill => "KILL",
            Self::Cut => "power cut",
            Self::CutCache => "power cut, cache lost",
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum At {
    /// As soon as the program says this of itself; see [`is_reached`].
    Event(&'static str),
    /// As soon as the service is asked for this, before it answers.
    Request(&'static str),
    /// After a part of the time that an installation takes.
    Part(f64),
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Event(event) => f.pad(event),
            Self::Request(what) => f.pad(&format!("asks for: {what}")),
            Self::Part(part) => f.pad(&format!("random, at {:.0} %", part * 100.0)),
        }
    }
}

/// Every boundary between two stages, as reported to the service, and within them between phases of the work.
pub(crate) const BOUNDARIES: [At; 24] = [
    At::Part(0.0),
    At::Event("stage Starting installation"),
    At::Event("stage Installing"),
    At::Request("config"),
    At::Event("stage Writing image to disk"),
    At::Event("phase checking"),
    At::Request("image"),
    At::Event("started"),
    At::Event("phase writing"),
    At::Event("5 %"),
    At::Event("25 %"),
    At::Event("50 %"),
    At::Event("75 %"),
    At::Event("95 %"),
    At::Event("100 %"),
    At::Event("phase verifying"),
    At::Event("read_back"),
    At::Event("phase configuring_boot"),
    At::Event("phase finishing"),
    At::Event("phase rereading_table"),
    At::Event("finished"),
    At::Request("logs"),
    At::Event("stage Rebooting"),
    At::Request("report Rebooting"),
];

/// Whether a line of the program's progress is this event: `stage NAME`, `phase NAME`, `N %` of the image, or any other's name.
pub(crate) fn is_reached(wanted: &str, line: &Value) -> bool {
    let text = |key: &str| line[key].as_str().unwrap_or_default();
    match text("event") {
        "stage" => wanted.strip_prefix("stage ") == Some(text("stage")),
        "phase" => wanted.strip_prefix("phase ") == Some(text("phase")),
        "progress" => {
            let wanted = wanted.strip_suffix(" %").and_then(|percent| percent.parse().ok());
            wanted.is_some_and(|wanted: u64| line["percent"].as_u64().is_some_and(|percent| percent >= wanted))
        }
        other => wanted == other,
    }
}

/// The same as a condition of the shell, about `$line`.
pub(crate) fn condition(wanted: &str) -> String {
    let starts = |start: String| format!("case \"$line\" in '{start}'*) :;; *) false;; esac");
    match (wanted.split_once(' '), wanted.strip_suffix(" %")) {
        (_, Some(percent)) => format!(
            r#"case "$line" in *'"percent":'*) percent=${{line##*'"percent":'}}; [ "${{percent%%[!0-9]*}}" -ge {percent} ];; *) false;; esac"#
        ),
        (Some((kind @ ("stage" | "phase"), name)), _) => starts(format!(r#"{{"event":"{kind}","{kind}":"{name}""#)),
        _ => starts(format!(r#"{{"event":"{wanted}""#)),
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub kind: Kind,
    pub at: At,
    /// On the disk with a partition to keep.
    pub keeps: bool,
}

/// A handful, where it hurts.
pub(crate) fn some() -> Vec<Moment> {
    let moment = |kind, at, keeps| Moment { kind, at, keeps };
    vec![
        moment(Kind::Term, At::Event("50 %"), true),
        moment(Kind::Kill, At::Event("phase configuring_boot"), false),
        moment(Kind::CutCache, At::Event("phase finishing"), true),
    ]
}

/// Every boundary in one of the kinds, then the random ones, then every boundary in the other kinds.
pub(crate) fn all(random_moments: usize, random: &mut fastrand::Rng) -> Vec<Moment> {
    let boundaries = |turn: usize| {
        BOUNDARIES.into_iter().enumerate().map(move |(index, at)| {
            let kind = Kind::ALL[(index + turn) % 4];
            Moment { kind, at, keeps: (index + turn / 2) % 2 == 1 }
        })
    };
    let mut moments: Vec<Moment> = boundaries(0).collect();
    for _ in 0..random_moments {
        let (kind, keeps) = (random.choice(Kind::ALL).unwrap(), random.bool());
        moments.push(Moment { kind, at: At::Part(random.f64() * 1.03), keeps });
    }
    moments.extend((1..4).flat_map(boundaries));
    moments
}

/// Of the time that an installation takes.
pub(crate) fn part(of: Duration, part: f64) -> Duration {
    of.mul_f64(part)
}
