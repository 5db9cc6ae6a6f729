//! Listens on every port at once.

use super::{Error, Link, LldpOptions, Neighbour, Neighbourhood, Port, Silence};
use crate::{
    codec::lldp::{Advertisement, Identifier},
    event_loop,
    interfaces::{self, Interface, Selection},
    privileges,
    probe::{PacketProtocol, PacketSocket},
};
use api::Mac;
use kernel::order;
use nix::net::if_::InterfaceFlags;
use std::{
    cell::RefCell,
    collections::BTreeMap,
    fs,
    path::Path,
    rc::Rc,
    time::{Duration, Instant},
};
use tokio::{sync::Notify, task::JoinSet, time::timeout};

/// Neighbours of one port that are remembered.
const NEIGHBOURS: usize = 16;

/// Drivers of cards whose firmware has an LLDP agent that is switched on as delivered.
const FIRMWARE_AGENTS: [&str; 2] = ["i40e", "ice"];

/// Listens until every port with carrier has been heard or the time is up.
///
/// Runs its own event loop on this thread and in this thread's network namespace. Needs `CAP_NET_RAW`, and leaves the
/// thread without any capability.
pub fn listen(options: &LldpOptions) -> Result<Neighbourhood, Error> {
    let all = interfaces::read()?;
    let cards = match &options.interfaces {
        Selection::Automatic => interfaces::cards(&all, &options.sysfs),
        named @ Selection::Named(_) => interfaces::chosen(&all, named, &options.sysfs)?,
    };
    let flags = interfaces::flags()?;
    let mut ears: Vec<_> = cards
        .into_iter()
        .map(|card| {
            let link = flags.get(&card.name).map_or(Link::Down, |flags| link(*flags));
            Ear { link, interface: card.clone(), heard: Heard::default() }
        })
        .collect();
    order::sort_by(&mut ears, |a, b| a.interface.name.cmp(&b.interface.name));
    let start = Instant::now();
    let ears = event_loop::run(hear(ears, options.timeout)).map_err(|source| Error::Runtime { source })??;
    let listened_ms = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
    let ports = ears.into_iter().map(|ear| ear.into_port(&options.sysfs)).collect();
    Ok(Neighbourhood { schema_version: 1, listened_ms, ports })
}

fn link(flags: InterfaceFlags) -> Link {
    if !flags.contains(InterfaceFlags::IFF_UP) {
        Link::Down
    } else if flags.contains(InterfaceFlags::IFF_LOWER_UP) {
        Link::Up
    } else {
        Link::NoCarrier
    }
}

/// A port that is listened to.
struct Ear {
    interface: Interface,
    link: Link,
    heard: Heard,
}

/// What was heard on a port, by who said it.
#[derive(Default)]
struct Heard(BTreeMap<(Identifier, Identifier), Neighbour>);

impl Heard {
    /// The last frame of a neighbour counts; a time to live of zero removes it.
    fn book(&mut self, from_mac: Mac, advertisement: Advertisement) {
        let who = (advertisement.chassis.clone(), advertisement.port.clone());
        if advertisement.valid_s == 0 {
            self.0.remove(&who);
        } else if self.0.len() < NEIGHBOURS || self.0.contains_key(&who) {
            self.0.insert(who, Neighbour { from_mac, advertisement });
        }
    }
}

impl Ear {
    /// Whether more is awaited.
    fn waits(&self) -> bool {
        self.link == Link::Up && self.heard.0.is_empty()
    }

    fn into_port(self, sysfs: &Path) -> Port {
        let driver = driver(sysfs, &self.interface.name);
        let neighbours: Vec<_> = self.heard.0.into_values().collect();
        let silence = neighbours.is_empty().then(|| match driver.as_deref() {
            _ if self.link != Link::Up => Silence::NoLink,
            Some(driver) if FIRMWARE_AGENTS.contains(&driver) => Silence::FirmwareAgent,
            _ => Silence::NobodySpoke,
        });
        let Interface { name, mac, mtu, .. } = self.interface;
        Port { interface: name, mac, mtu, driver, link: self.link, neighbours, silence }
    }
}

fn driver(sysfs: &Path, name: &str) -> Option<String> {
    let link = fs::read_link(sysfs.join("class/net").join(name).join("device/driver")).ok()?;
    Some(link.file_name()?.to_string_lossy().into_owned())
}

async fn hear(ears: Vec<Ear>, limit: Duration) -> Result<Vec<Ear>, Error> {
    let sockets: Result<Vec<_>, _> =
        ears.iter().map(|ear| PacketSocket::open(PacketProtocol::Lldp, &ear.interface)).collect();
    let sockets = sockets?;
    privileges::drop_all()?;
    let shared = Rc::new((RefCell::new(ears), Notify::new()));
    let mut readers = JoinSet::new();
    for (position, socket) in sockets.into_iter().enumerate() {
        let shared = Rc::clone(&shared);
        readers.spawn_local(async move {
            socket
                .read_frames(|frame| {
                    let Some(advertisement) = Advertisement::parse(frame.payload) else { return };
                    if let Some(ear) = shared.0.borrow_mut().get_mut(position) {
                        ear.heard.book(frame.source, advertisement);
                    }
                    shared.1.notify_one();
                })
                .await;
        });
    }
    let all_heard = async {
        while shared.0.borrow().iter().any(Ear::waits) {
            shared.1.notified().await;
        }
    };
    if timeout(limit, all_heard).await.is_err() {
        tracing::debug!("not every port was heard");
    }
    readers.shutdown().await;
    let (ears, _) = Rc::into_inner(shared).expect("every task that shared it has ended");
    Ok(ears.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn advertisement(chassis: &str, valid_s: u16) -> Advertisement {
        let id = |value: &str| Identifier { kind: "local".to_owned(), value: value.to_owned() };
        Advertisement { chassis: id(chassis), port: id("7"), valid_s, ..Advertisement::default() }
    }

    fn ear(name: &str, link: Link) -> Ear {
        let (name, addresses) = (name.to_owned(), vec![]);
        let interface = Interface { name, index: 2, mac: None, mtu: Some(1500), has_link: true, addresses };
        Ear { interface, link, heard: Heard::default() }
    }

    #[test]
    fn the_last_word_counts_and_a_farewell_is_no_neighbour() {
        let mut ear = ear("ens3", Link::Up);
        assert!(ear.waits());
        ear.heard.book(Mac([2; 6]), advertisement("a", 120));
        ear.heard.book(Mac([4; 6]), advertisement("a", 60));
        assert!(!ear.waits());
        let known: Vec<_> =
            ear.heard.0.values().map(|neighbour| (neighbour.from_mac, neighbour.advertisement.valid_s)).collect();
        assert_eq!(known, [(Mac([4; 6]), 60)]);
        ear.heard.book(Mac([4; 6]), advertisement("a", 0));
        assert!(ear.waits());
    }

    #[test]
    fn a_crowd_of_neighbours_is_bounded() {
        let mut heard = Heard::default();
        for number in 0..1000 {
            heard.book(Mac([2; 6]), advertisement(&format!("{number:04}"), 120));
        }
        assert_eq!(heard.0.len(), NEIGHBOURS);
        heard.book(Mac([4; 6]), advertisement("0000", 60));
        assert_eq!(heard.0.values().next().unwrap().from_mac, Mac([4; 6]), "those known may go on");
    }

    #[test]
    fn silence_is_explained_by_link_and_driver() {
        let sysfs = tempfile::tempdir().unwrap();
        for (name, driver) in [("ens1", "ice"), ("ens2", "i40e"), ("ens3", "mlx5_core")] {
            let device = sysfs.path().join("class/net").join(name).join("device");
            fs::create_dir_all(&device).unwrap();
            symlink(format!("../../../bus/pci/drivers/{driver}"), device.join("driver")).unwrap();
        }
        let port = |name, link| {
            let port = ear(name, link).into_port(sysfs.path());
            (port.driver.unwrap_or_default(), port.silence)
        };
        assert_eq!(port("ens1", Link::Up), ("ice".to_owned(), Some(Silence::FirmwareAgent)));
        assert_eq!(port("ens2", Link::Up), ("i40e".to_owned(), Some(Silence::FirmwareAgent)));
        assert_eq!(port("ens2", Link::NoCarrier), ("i40e".to_owned(), Some(Silence::NoLink)));
        assert_eq!(port("ens3", Link::Up), ("mlx5_core".to_owned(), Some(Silence::NobodySpoke)));
        assert_eq!(port("ens3", Link::Down), ("mlx5_core".to_owned(), Some(Silence::NoLink)));
        assert_eq!(port("ens4", Link::Up), (String::new(), Some(Silence::NobodySpoke)));
    }
}
