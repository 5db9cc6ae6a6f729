//! Which DHCP servers there are and what they would give, without taking it.

use super::{DhcpTiming, Error, check_station, find, station::Station};
use crate::{
    codec::dhcp::{AnswerKind, Question, QuestionKind},
    event_loop, privileges,
    probe::Sent,
};
use api::Mac;
use dhcproto::v4::OptionCode;
use kernel::order::Gather;
use serde::Serialize;
use std::{collections::BTreeSet, net::Ipv4Addr, time::Instant};
use tokio::time::timeout_at;

/// Offers that are listed; a segment with more has other troubles.
const MAX_OFFERS: usize = 64;
/// The question is put again this often: the first may be lost while a switch learns the port.
const QUESTIONS: u32 = 2;
const FRAME_BUFFER_BYTES: usize = 2048;

/// What a server would give.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Offer {
    /// The server as it calls itself; `None` for one that breaks the rules.
    pub server: Option<Ipv4Addr>,
    pub address: Ipv4Addr,
    /// Who sent the frame: the server, or the relay or router in front of it.
    pub from_mac: Mac,
    /// Who sent the packet.
    pub from_address: Ipv4Addr,
    /// The relay that the question went through.
    pub relay: Option<Ipv4Addr>,
    /// The network's mask.
    pub subnet_mask: Option<Ipv4Addr>,
    /// Ways out.
    pub routers: Vec<Ipv4Addr>,
    pub name_servers: Vec<Ipv4Addr>,
    /// Search domain.
    pub domain: Option<String>,
    /// For how long the address would be given, seconds; the greatest number means forever.
    pub lease_s: Option<u32>,
}

/// All that was offered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Offers {
    /// Of this document; 1.
    pub schema_version: u32,
    pub interface: String,
    pub mac: Mac,
    /// How long was listened, milliseconds.
    pub listened_ms: u64,
    /// Each once, by server.
    pub offers: Vec<Offer>,
}

impl Offers {
    /// The servers that offered. More than one is a fault unless they were set up as a pair.
    pub fn servers(&self) -> BTreeSet<Ipv4Addr> {
        self.offers.iter().map(|offer| offer.server.unwrap_or(offer.from_address)).gather()
    }
}

/// Asks for an address for `mac` (`None`: the interface's own) and lists what is offered within `options.timeout`, taking
/// none of it.
///
/// Runs its own event loop on this thread and in this thread's network namespace. Needs `CAP_NET_RAW`, and leaves the
/// thread without any capability.
pub fn offers(interface: &str, mac: Option<Mac>, options: &DhcpTiming) -> Result<Offers, Error> {
    mac.map_or(Ok(()), check_station)?;
    let interface = find(interface)?;
    let mac = mac.or(interface.mac).unwrap_or(Mac([0; 6]));
    let found = event_loop::run(async {
        let station = Station::open(&interface, mac)?;
        privileges::drop_all()?;
        collect(&station, options).await
    });
    let offers = found.map_err(|source| Error::Runtime { source })??;
    Ok(Offers {
        schema_version: 1,
        interface: interface.name,
        mac,
        listened_ms: u64::try_from(options.timeout.as_millis()).unwrap_or(u64::MAX),
        offers: offers.into_iter().collect(),
    })
}

async fn collect(station: &Station, options: &DhcpTiming) -> Result<BTreeSet<Offer>, Error> {
    let question = Question {
        kind: QuestionKind::Discover,
        transaction: fastrand::u32(..),
        seconds: 0,
        hardware: station.mac,
        requested: None,
        server: None,
        host_name: None,
    };
    let message = question.to_bytes();
    let deadline = Instant::now() + options.timeout;
    let mut offers = BTreeSet::new();
    let mut buffer = vec![0; FRAME_BUFFER_BYTES];
    for remaining in (0..QUESTIONS).rev() {
        if let Sent::Refused(source) = station.broadcast(&message).await {
            return Err(Error::NotSent { interface: station.interface.clone(), source });
        }
        let until = if remaining == 0 { deadline } else { deadline.min(Instant::now() + options.patience) };
        while Instant::now() < until {
            let Ok(received) = timeout_at(until.into(), station.receive(&mut buffer)).await else { break };
            let received =
                received.map_err(|source| Error::NotReceived { interface: station.interface.clone(), source })?;
            let Some(heard) = received else { continue };
            let answer = heard.answer;
            let ours = answer.transaction == question.transaction && answer.hardware == station.mac;
            if !ours || answer.kind != AnswerKind::Offer || offers.len() >= MAX_OFFERS {
                continue;
            }
            let options = &answer.options;
            offers.insert(Offer {
                server: options.address(OptionCode::ServerIdentifier),
                address: answer.address,
                from_mac: heard.from_mac,
                from_address: heard.from_ip,
                relay: answer.relay,
                subnet_mask: options.address(OptionCode::SubnetMask),
                routers: options.addresses(OptionCode::Router),
                name_servers: options.addresses(OptionCode::DomainNameServer),
                domain: options.text(OptionCode::DomainName),
                lease_s: options.seconds(OptionCode::AddressLeaseTime),
            });
        }
    }
    Ok(offers)
}
