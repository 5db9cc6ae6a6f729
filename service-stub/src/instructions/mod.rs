//! What a host is told when it polls: a function of its record and its peers (docs/compatibility.md#instructions).

pub(crate) mod outstanding;
mod pace;
#[cfg(test)]
mod tests;

pub use crate::steps::{Situation, options};

use crate::state::HostState;
use crate::steps;
use api::{PostStepAction, Step, StepType, Steps};

/// The answer to a poll. Steps that can't be built are left out.
pub fn next(situation: &Situation) -> Steps {
    let (record, settings) = (situation.record, situation.settings);
    if steps::upgrades(settings, record) {
        return Steps {
            instructions: step(situation, &StepType::UpgradeAgent).map(|step| vec![step]),
            next_instruction_seconds: settings.poll_interval,
            post_step_action: PostStepAction::Continue,
        };
    }
    let wanted = steps::ALL.iter().filter(|kind| (kind.asked_in)(record.state, record.day2()));
    let wanted = wanted.filter(|kind| !settings.steps.disabled.contains(&kind.step_type));
    let steps: Vec<Step> = wanted.filter_map(|kind| kind.step(situation)).collect();
    Steps {
        instructions: (!steps.is_empty()).then_some(steps),
        next_instruction_seconds: pace::pause(
            record.state,
            record.host.status_updated_at,
            situation.now,
            settings.poll_interval,
            situation.hurries,
        ),
        post_step_action: if registers_again(record.state) { PostStepAction::Exit } else { PostStepAction::Continue },
    }
}

/// A host that moves into or out of a cluster starts over.
fn registers_again(state: HostState) -> bool {
    use HostState as S;
    matches!(state, S::Binding | S::Unbinding | S::UnbindingPendingUserAction | S::ReclaimingRebooting)
}

/// One step with its arguments; `None` if there is nothing to ask.
fn step(situation: &Situation, step_type: &StepType) -> Option<Step> {
    steps::find(step_type)?.step(situation)
}
