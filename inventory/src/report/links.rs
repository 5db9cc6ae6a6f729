//! Links of network cards: their speeds, error correction and errors, and the modules in their cages.

use crate::{
    Root,
    ask::Question,
    ethnl,
    optics::{self, Module},
};
use kernel::ethnl::Get;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The link of a port, as its driver reports it. Counters are of the time since the driver was loaded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Ethernet {
    /// Speeds that the port supports with what is plugged in, by the kernel's names: 25000baseCR/Full.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub supported_modes: Vec<String>,
    /// Speeds that it offers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub advertised_modes: Vec<String>,
    /// Speeds that the other end offers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub peer_modes: Vec<String>,
    /// Lanes in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lanes: Option<u32>,
    /// Forward error correction that may be used: None, RS, BASER, LLRS.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fec_configured: Vec<String>,
    /// Whether the driver chooses the error correction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fec_is_automatic: Option<bool>,
    /// Error correction in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fec_active: Option<String>,
    /// Why there is no link, such as `no cable`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub down_reason: Option<String>,
    /// Quality of the signal, from 0 to the best.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal_quality: Option<u32>,
    /// The best quality that the port can report.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_signal_quality: Option<u32>,
    /// Times the link went down by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link_downs: Option<u32>,
    /// Times the carrier was lost, also by configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub carrier_losses: Option<u32>,
    /// Errors of the physical layer, the MAC and the error correction, as far as the driver counts them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub errors: BTreeMap<String, u64>,
}

/// What the link of an interface is asked for.
pub(super) fn questions(name: &str) -> [Question; 5] {
    let message = |what| Question::Ethtool { interface: name.to_owned(), what };
    let module = Question::ModulePage { interface: name.to_owned(), page: optics::FIRST };
    // The module comes last: its bus is slow, and may hang.
    [message(Get::LinkModes), message(Get::LinkState), message(Get::Fec), message(Get::Statistics), module]
}

/// The link from the answers to the first four; `None` if the driver says nothing of it.
pub(super) fn ethernet(root: &Root, dir: &str, answers: [Option<Vec<u8>>; 4]) -> Option<Ethernet> {
    let [modes, state, fec, statistics] = answers.map(Option::unwrap_or_default);
    let (modes, state) = (ethnl::parse_link_modes(&modes), ethnl::parse_link_state(&state));
    let fec = ethnl::parse_fec(&fec);
    let mut errors = ethnl::parse_errors(&statistics);
    errors.extend(fec.counts);
    let found = Ethernet {
        supported_modes: modes.supported,
        advertised_modes: modes.advertised,
        peer_modes: modes.peer,
        lanes: modes.lanes,
        fec_configured: fec.configured,
        fec_is_automatic: fec.is_automatic,
        fec_active: fec.active.map(str::to_owned),
        down_reason: state.down_reason.map(str::to_owned),
        signal_quality: state.signal_quality,
        max_signal_quality: state.max_signal_quality,
        link_downs: state.downs,
        carrier_losses: root.number(format!("{dir}/carrier_down_count")),
        errors,
    };
    (found != Ethernet::default()).then_some(found)
}

/// Times that a module's answers lead to more questions: to its pages, and to its banks.
const ROUNDS: usize = 2;

/// The modules of interfaces, of each of which the first half page is given.
pub(super) fn modules(root: &Root, first: Vec<(String, Option<Vec<u8>>)>) -> Vec<Option<Module>> {
    let begin = |page: Option<Vec<u8>>| page.map(|page| (optics::FIRST, page)).into_iter().collect();
    let mut modules: Vec<(String, optics::Image)> = first.into_iter().map(|(name, page)| (name, begin(page))).collect();
    let mut asked = BTreeSet::new();
    for _ in 0..ROUNDS {
        let mut questions = Vec::new();
        for (at, (name, image)) in modules.iter().enumerate() {
            for page in optics::further(image) {
                let is_new = asked.insert((at, page));
                questions.extend(is_new.then(|| (at, page, Question::ModulePage { interface: name.clone(), page })));
            }
        }
        let all: Vec<Question> = questions.iter().map(|(.., question)| question.clone()).collect();
        for ((at, page, _), answer) in questions.iter().zip(root.ask_all(&all)) {
            if let (Some((_, image)), Ok(bytes)) = (modules.get_mut(*at), answer) {
                image.insert(*page, bytes);
            }
        }
    }
    modules.iter().map(|(_, image)| optics::parse(image)).collect()
}

#[cfg(test)]
mod tests {
    use crate::{
        report::network::network,
        testing::{Tree, attribute},
    };

    /// Adds a network card with these answers.
    fn card(tree: &Tree, name: &str, answers: &[(&str, Vec<u8>)]) {
        let dir = format!("sys/devices/pci0000:00/0000:00:03.0/net/{name}");
        tree.add(&format!("{dir}/carrier_down_count"), "3\n").link(&format!("{dir}/device"), "../..");
        tree.link(&format!("sys/class/net/{name}"), &format!("../../../{dir}"));
        for (file, answer) in answers {
            tree.add(&format!("landfall/interfaces/{name}/{file}"), answer);
        }
    }

    #[test]
    fn each_port_has_its_own_link_and_module() {
        let tree = Tree::new(&[]);
        let active = attribute(4, &50u32.to_ne_bytes());
        let mut module = vec![0; 128];
        module[..3].copy_from_slice(&[0x11, 8, 0]);
        module[34..36].copy_from_slice(&5012u16.to_be_bytes());
        let mut identification = vec![0; 128];
        identification[0] = 0x11;
        identification[20..24].copy_from_slice(b"ACME");
        card(&tree, "eno1", &[("fec", active)]);
        card(&tree, "eno2", &[("module-50-00-00-lower", module), ("module-50-00-00-upper", identification)]);
        let found = network(&tree.root()).interfaces;
        let [first, second] = &found[..] else { panic!("{found:?}") };
        let ethernet = first.ethernet.as_ref().unwrap();
        assert_eq!((ethernet.fec_active.as_deref(), ethernet.carrier_losses), (Some("RS"), Some(3)));
        assert!(first.module.is_none() && second.ethernet.as_ref().is_some_and(|it| it.fec_active.is_none()));
        let module = second.module.as_ref().unwrap();
        assert_eq!((module.form.as_str(), module.vendor.as_deref()), ("QSFP28", Some("ACME")));
        assert_eq!(module.signals[0].rx_power_dbm, Some(-3.0));
    }
}
