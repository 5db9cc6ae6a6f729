//! What links and their modules say that is not as it should be. Pure.

use super::{finding::Finding, links::Ethernet, network::Network, words::with_unit};
use crate::optics::{Module, ModuleLimits};

/// Errors of a link: those that lose frames, and those that also occur while a link comes up.
const ERRORS: [(&str, &str, bool); 2] = [
    ("fec_uncorrectable_blocks", "blocks that error correction could not mend", true),
    ("symbol_errors", "symbol errors", false),
];

pub(super) fn findings(network: &Network) -> Vec<Finding> {
    let mut found = Vec::new();
    for port in &network.interfaces {
        let has_link = port.has_carrier == Some(true);
        found.extend(port.module.iter().flat_map(|module| module_findings(&port.name, module, has_link)));
        let Some(ethernet) = &port.ethernet else { continue };
        for (name, text, is_warning) in ERRORS {
            if let Some(count @ 1..) = ethernet.errors.get(name) {
                let text = format!("{count} {text} since its driver was loaded");
                found.push(Finding { is_warning, of: port.name.clone(), text });
            }
        }
        if let Some(reason) = ethernet.down_reason.as_ref().filter(|_| port.has_carrier == Some(false)) {
            found.push(Finding::note(&port.name, format!("no link: {reason}")));
        }
        if let (true, Some(speed), Some(most)) = (has_link, port.speed_mbps, fastest(ethernet))
            && speed < most
        {
            found
                .push(Finding::note(&port.name, format!("the link runs at {speed} Mb/s, the port offers {most} Mb/s")));
        }
    }
    for device in &network.rdma_devices {
        for port in &device.ports {
            let errors: Vec<String> = port.errors.iter().map(|(name, count)| format!("{name} {count}")).collect();
            if !errors.is_empty() {
                found.push(Finding::note(
                    &format!("{} port {}", device.name, port.name),
                    format!("errors since boot: {}", errors.join(", ")),
                ));
            }
        }
    }
    found
}

/// The fastest speed that is offered: the number that the name of a mode begins with.
fn fastest(ethernet: &Ethernet) -> Option<u32> {
    let speed = |mode: &String| mode.split_once("base").and_then(|(speed, _)| speed.parse().ok());
    ethernet.advertised_modes.iter().filter_map(speed).max()
}

fn module_findings(interface: &str, module: &Module, has_link: bool) -> Vec<Finding> {
    let of = format!("{interface} {}", module.form);
    let mut found = Vec::new();
    if module.state.as_deref() == Some("fault") {
        found.push(Finding::warning(&of, "the module reports a fault"));
    }
    let mut compare = |name: &str, lane: Option<u32>, value: Option<f64>| {
        let limits = module.limits.iter().find(|limits| limits.name == name);
        found.extend(limits.zip(value).and_then(|(limits, value)| outside(&of, limits, lane, value)));
    };
    compare("temperature_celsius", None, module.temperature_celsius);
    compare("voltage_millivolts", None, module.voltage_millivolts);
    // Without a link, lanes may be dark.
    for signal in module.signals.iter().filter(|_| has_link) {
        for (name, value) in [
            ("rx_power_dbm", signal.rx_power_dbm),
            ("tx_power_dbm", signal.tx_power_dbm),
            ("bias_milliamperes", signal.bias_milliamperes),
        ] {
            compare(name, Some(signal.number), value);
        }
    }
    found
}

fn outside(of: &str, limits: &ModuleLimits, lane: Option<u32>, value: f64) -> Option<Finding> {
    // Some modules set none of one side, and say so by zeros.
    let is_set = |low: f64, high: f64| low < high;
    let side = |low: f64, high: f64| match value {
        _ if !is_set(low, high) => None,
        value if value < low => Some(("below", low)),
        value if value > high => Some(("above", high)),
        _ => None,
    };
    let alarm = side(limits.low_alarm, limits.high_alarm);
    let (side, limit) = alarm.or_else(|| side(limits.low_warning, limits.high_warning))?;
    let (name, _) = limits.name.rsplit_once('_')?;
    let lane = lane.map(|lane| format!(" of lane {lane}")).unwrap_or_default();
    let [value, limit] = [value, limit].map(|number| with_unit(&limits.name, &number.into()));
    let text = format!("{}{lane} is {value}, {side} the module's limit of {limit}", name.replace('_', " "));
    Some(if alarm.is_some() { Finding::warning(of, text) } else { Finding::note(of, text) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        optics::Signal,
        report::network::{NetworkPort, RdmaDevice, RdmaPort},
    };

    fn port(has_carrier: bool) -> NetworkPort {
        let limits = |name: &str, [low_alarm, low_warning, high_warning, high_alarm]: [f64; 4]| ModuleLimits {
            name: name.to_owned(),
            low_alarm,
            low_warning,
            high_warning,
            high_alarm,
        };
        let signal =
            |number, rx| Signal { number, rx_power_dbm: Some(rx), tx_power_dbm: Some(-1.0), ..Signal::default() };
        NetworkPort {
            name: "eno1".to_owned(),
            has_carrier: Some(has_carrier),
            speed_mbps: has_carrier.then_some(10_000),
            module: Some(Module {
                form: "QSFP28".to_owned(),
                temperature_celsius: Some(72.5),
                signals: vec![signal(1, -21.5), signal(2, -2.0)],
                limits: vec![
                    limits("temperature_celsius", [-5.0, 0.0, 70.0, 75.0]),
                    limits("rx_power_dbm", [-14.0, -12.0, 2.0, 3.0]),
                    limits("tx_power_dbm", [0.0; 4]),
                ],
                ..Module::default()
            }),
            ethernet: Some(Ethernet {
                advertised_modes: vec!["25000baseCR/Full".to_owned(), "10000baseCR/Full".to_owned()],
                down_reason: (!has_carrier).then(|| "no cable".to_owned()),
                errors: ["symbol_errors", "jabbers", "fec_uncorrectable_blocks"]
                    .map(|name| (name.to_owned(), 7))
                    .into(),
                ..Ethernet::default()
            }),
            ..NetworkPort::default()
        }
    }

    #[test]
    fn what_is_outside_of_its_limits() {
        let network = Network { interfaces: vec![port(true)], ..Network::default() };
        let expected = [
            Finding::note("eno1 QSFP28", "temperature is 72.5 °C, above the module's limit of 70 °C"),
            Finding::warning("eno1 QSFP28", "rx power of lane 1 is -21.5 dBm, below the module's limit of -14 dBm"),
            Finding::warning("eno1", "7 blocks that error correction could not mend since its driver was loaded"),
            Finding::note("eno1", "7 symbol errors since its driver was loaded"),
            Finding::note("eno1", "the link runs at 10000 Mb/s, the port offers 25000 Mb/s"),
        ];
        assert_eq!(findings(&network), expected);
    }

    #[test]
    fn a_lane_without_a_link_may_be_dark() {
        let network = Network { interfaces: vec![port(false)], ..Network::default() };
        let texts: Vec<_> = findings(&network).into_iter().map(|finding| finding.text).collect();
        assert_eq!(texts.len(), 4);
        assert_eq!(texts[3], "no link: no cable");
    }

    #[test]
    fn errors_of_rdma_ports() {
        let port =
            RdmaPort { name: "1".to_owned(), errors: [("link_downed".to_owned(), 3)].into(), ..RdmaPort::default() };
        let device = RdmaDevice { name: "mlx5_0".to_owned(), ports: vec![port], ..RdmaDevice::default() };
        let network = Network { rdma_devices: vec![device], ..Network::default() };
        assert_eq!(findings(&network), [Finding::note("mlx5_0 port 1", "errors since boot: link_downed 3")]);
    }
}
