//! Logs of SCSI disks, of those that the kernel shows and of those behind RAID controllers.

use crate::{
    Root,
    ask::Question,
    scsi::{self, ScsiLog},
};

/// What each of them counts, in their order. They are asked for the pages that they say they have.
pub(super) fn logs(root: &Root, disks: &[String]) -> Vec<Option<ScsiLog>> {
    let lists = disks.iter().map(|disk| Question::ScsiLog { disk: disk.clone(), page: scsi::SUPPORTED });
    let lists = answers(root, &lists.collect::<Vec<_>>());
    let (mut questions, mut places) = (Vec::new(), Vec::new());
    for (place, (disk, list)) in disks.iter().zip(&lists).enumerate() {
        let Some(list) = list else { continue };
        let pages = scsi::PAGES.into_iter().filter(|page| scsi::supported(list).contains(page));
        questions.extend(pages.map(|page| Question::ScsiLog { disk: disk.clone(), page }));
        questions.push(Question::ScsiDefects { disk: disk.clone() });
        places.resize(questions.len(), place);
    }
    let mut logs: Vec<ScsiLog> = vec![ScsiLog::default(); disks.len()];
    for ((question, place), answer) in questions.iter().zip(places).zip(answers(root, &questions)) {
        let (Some(log), Some(answer)) = (logs.get_mut(place), answer) else { continue };
        match question {
            Question::ScsiDefects { .. } => log.read_defects(&answer),
            _ => log.read(&answer),
        }
    }
    logs.into_iter().map(|log| (!log.is_empty()).then_some(log)).collect()
}

/// The answers there are, in the order of the questions.
pub(super) fn answers(root: &Root, questions: &[Question]) -> Vec<Option<Vec<u8>>> {
    let known = |(answer, question): (std::io::Result<Vec<u8>>, &Question)| {
        answer.inspect_err(|error| tracing::debug!(?question, %error, "no answer")).ok()
    };
    root.ask_all(questions).into_iter().zip(questions).map(known).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{scsi::tests::page, testing::Tree};

    #[test]
    fn disks_are_asked_for_the_pages_they_have() {
        let tree = Tree::new(&[]);
        tree.add("landfall/disks/sda/scsi-log-00", vec![0, 0, 0, 3, 0, 0x02, 0x2f]);
        tree.add("landfall/disks/sda/scsi-log-02", page(0x02, &[(6, &[4])]));
        tree.add("landfall/disks/sda/scsi-log-03", page(0x03, &[(6, &[9])]));
        tree.add("landfall/disks/sda/scsi-log-2f", page(0x2f, &[(0, &[0, 0, 30])]));
        tree.add("landfall/disks/sda/scsi-defects", vec![0, 8, 0, 0, 0, 0, 0, 16]);
        tree.add("landfall/disks/sdc/scsi-log-00", vec![0, 0, 0, 1, 0]);
        let found = logs(&tree.root(), &["sda", "sdb", "sdc"].map(str::to_owned));
        let expected = ScsiLog {
            is_failing: Some(false),
            temperature_celsius: Some(30),
            write_uncorrected_errors: Some(4),
            grown_defects: Some(4),
            ..ScsiLog::default()
        };
        assert_eq!(found, [Some(expected), None, None]);
    }
}
