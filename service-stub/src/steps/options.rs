//! Options of `landfall serve` that select optional steps of hosts.

use api::StepType;

/// Optional steps, and disabled steps.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Checks")]
pub struct StepOptions {
    /// Have each host measure its installation disk before it is installed, which takes minutes. A host whose disk can't be
    /// measured is not installed
    #[arg(long)]
    pub disk_speed_check: bool,

    /// Image reference that each host must be able to pull before it is installed. May be repeated
    #[arg(long = "check-image", value_name = "IMAGE", value_parser = image)]
    pub check_images: Vec<String>,

    /// Have hosts with another agent upgrade to --agent-image first; until then they get no other steps
    #[arg(long)]
    pub upgrade_agents: bool,

    /// Steps to disable, by name (inventory, domain-resolution, …), separated by commas
    #[arg(long = "disable-steps", value_name = "STEP,…", value_delimiter = ',', value_parser = step)]
    pub disabled: Vec<StepType>,
}

/// The agents' pattern for image references: they must not refuse the request (docs/compatibility.md#registration).
fn image(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || ".-_:/@".contains(c);
    let starts_well = text.starts_with(|c: char| c.is_ascii_alphanumeric());
    match starts_well && text.len() > 1 && text.chars().all(fits) {
        true => Ok(text.to_owned()),
        false => Err("it is not an image reference, like quay.io/organization/image:tag".to_owned()),
    }
}

fn step(text: &str) -> Result<StepType, String> {
    let known = StepType::NAMES.contains(&text).then(|| api::json::from_value(text.into()).ok()).flatten();
    known.ok_or_else(|| format!("unknown step; known: {}", StepType::NAMES.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(clap::Parser)]
    struct Program {
        #[command(flatten)]
        options: StepOptions,
    }

    #[test]
    fn names_that_mean_nothing_are_refused() {
        let parse = |args: &[&str]| {
            let args = ["serve"].iter().chain(args);
            <Program as clap::Parser>::try_parse_from(args).map(|program| program.options)
        };
        let options = parse(&[
            "--check-image",
            "r.io/a:1",
            "--check-image",
            "r.io/b@sha256:0f",
            "--disable-steps",
            "inventory,install",
        ])
        .unwrap();
        assert_eq!(options.check_images, ["r.io/a:1", "r.io/b@sha256:0f"]);
        assert_eq!(options.disabled, [StepType::Inventory, StepType::Install]);
        assert!(!options.disk_speed_check && !options.upgrade_agents);
        for bad in [["--check-image", "a b"], ["--check-image", "-x"], ["--disable-steps", "inventory,brew"]] {
            assert!(parse(&bad).is_err(), "{bad:?}");
        }
    }
}
