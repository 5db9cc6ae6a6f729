//! Parts that belong together, added up: all CPUs, all shares of a NUMA node. Pure.

use crate::result::{Part, State, Total};

/// The totals, in the order of the parts.
pub(crate) fn totals(parts: &[Part]) -> Vec<Total> {
    let mut found: Vec<Total> = Vec::new();
    for part in parts {
        let name = whole(part);
        let place = found.iter().position(|total| total.kind == part.kind && total.name == name);
        let total = match place.and_then(|place| found.get_mut(place)) {
            Some(total) => total,
            None => {
                found.push(Total { kind: part.kind.clone(), name, ..Total::default() });
                let Some(total) = found.last_mut() else { continue };
                total
            }
        };
        total.parts += 1;
        total.running += u32::from(part.state == State::Running);
        total.fault_count += part.fault_count;
        for (name, value) in &part.measurements {
            let known = total.measurements.entry(name.clone()).or_insert(f64::NAN);
            *known = if known.is_nan() { *value } else { joined(name, *known, *value, total.parts) };
        }
    }
    found
}

/// What a part is a part of.
fn whole(part: &Part) -> String {
    match part.kind.as_str() {
        "cpu" => "all".to_owned(),
        "memory" => part.name.split(" share ").next().unwrap_or_default().to_owned(),
        _ => part.name.clone(),
    }
}

fn joined(name: &str, known: f64, value: f64, parts: u32) -> f64 {
    if name.contains("_minimum_") || name == "patterns" {
        known.min(value)
    } else if name.contains("_maximum_") {
        known.max(value)
    } else if name.contains("_average_") || name.ends_with("_base_hertz") {
        known + (value - known) / f64::from(parts)
    } else {
        known + value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_add_up_and_extremes_stay() {
        let part = |kind: &str, name: &str, values: &[(&str, f64)]| {
            let mut part = Part::new(kind, name);
            values.iter().for_each(|(name, value)| part.set(name, *value));
            part.fault_count = 1;
            part
        };
        let read = "read_bytes_per_second";
        let parts = [
            part("memory", "node 0 share 1", &[(read, 5.0), ("patterns", 3.0)]),
            part("memory", "node 0 share 2", &[(read, 6.0), ("patterns", 2.0)]),
            part("memory", "node 1 share 1", &[(read, 7.0)]),
            part(
                "cpu",
                "cpu 0",
                &[("clock_minimum_hertz", 1.0), ("clock_average_hertz", 2.0), ("clock_maximum_hertz", 3.0)],
            ),
            part(
                "cpu",
                "cpu 1",
                &[("clock_minimum_hertz", 2.0), ("clock_average_hertz", 3.0), ("clock_maximum_hertz", 4.0)],
            ),
            part(
                "cpu",
                "cpu 2",
                &[("clock_minimum_hertz", 3.0), ("clock_average_hertz", 4.0), ("clock_maximum_hertz", 5.0)],
            ),
        ];
        let found = totals(&parts);
        let names: Vec<_> = found.iter().map(|total| (total.name.as_str(), total.parts, total.fault_count)).collect();
        assert_eq!(names, [("node 0", 2, 2), ("node 1", 1, 1), ("all", 3, 3)]);
        assert_eq!((found[0].measurements[read], found[0].measurements["patterns"]), (11.0, 2.0));
        let clock = |name: &str| found[2].measurements[&format!("clock_{name}_hertz")];
        assert_eq!((clock("minimum"), clock("average"), clock("maximum")), (1.0, 3.0, 5.0));
    }
}
