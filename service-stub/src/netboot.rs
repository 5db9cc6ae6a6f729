//! Network boot: kernel, initramfs and root file system from the live ISO, and the boot script for them
//! (docs/compatibility.md#image-service).

use crate::boot_media::{iso_of, iso_of_build};
use crate::documents;
use crate::find::find_infra_env;
use crate::http::file::Offer;
use crate::http::{Call, Refusal};
use crate::infra_env::appended;
use crate::media::{LiveIso, MediaError};
use crate::model::{HostRecord, InfraEnvRecord, Model};
use crate::releases::normal_architecture;
use crate::service::Service;
use crate::state::HostState;
use crate::text::{chain, url_part};
use api::{HostStage, InfraEnv};
use ignition::discovery::ramdisk;
use rootfs_overlay::cut::CutError;
use rootfs_overlay::initrd::{Archive, Compression};

/// IBM Z, whose loaders read files that others have not.
const IBM_Z: &str = "s390x";

/// GET /boot-artifacts/{kernel,rootfs,ins-file}: files of the ISO as they are.
pub(crate) fn artifact(service: &Service, call: &Call) -> Result<Offer, Refusal> {
    let architecture = call.query("arch").unwrap_or_default();
    let is_ibm_z = normal_architecture(architecture) == IBM_Z;
    let (paths, name): (&[&str], &str) = match call.path("artifact") {
        "kernel" if is_ibm_z => (&["images/pxeboot/vmlinuz", "images/pxeboot/kernel.img"], "vmlinuz"),
        "kernel" => (&["images/pxeboot/vmlinuz"], "vmlinuz"),
        "rootfs" => (&["images/pxeboot/rootfs.img"], "rootfs.img"),
        "ins-file" if is_ibm_z => (&["generic.ins"], "generic.ins"),
        "ins-file" => return Err(Refusal::not_found(format!("ins-file is for arch={IBM_Z} only"))),
        _ => return Err(Refusal::unknown_path("/boot-artifacts/…")),
    };
    let iso = iso_of_build(service, call.query("version").unwrap_or_default(), architecture)?;
    for path in paths {
        if let Some(offer) = iso.in_iso(path, name)? {
            return Ok(offer);
        }
    }
    Err(Refusal::not_found(format!("the live ISO has no {}", paths.join(" or "))))
}

/// GET /images/{infra_env_id}/pxe-initrd: the ISO's initramfs, the config, and what networks and proxies need.
pub(crate) fn initrd(service: &Service, call: &Call) -> Result<Offer, Refusal> {
    let record = find_infra_env(&service.store.model(), call.infra_env_id()?)?;
    initrd_in(service, &record, iso_of(service, &record.infra_env)?)
}

/// GET /images/{infra_env_id}/s390x-initrd-addrsize: where that initramfs goes, and its length.
pub(crate) fn addrsize(service: &Service, call: &Call) -> Result<Offer, Refusal> {
    let record = find_infra_env(&service.store.model(), call.infra_env_id()?)?;
    let iso = iso_of_build(service, &record.infra_env.openshift_version, IBM_Z)?;
    let initrd = initrd_in(service, &record, iso)?;
    let offer = iso.addrsize(format!("{}-initrd.addrsize", record.infra_env.id), &initrd)?;
    offer.ok_or_else(|| Refusal::not_found("the live ISO has no images/initrd.addrsize"))
}

fn initrd_in(service: &Service, record: &InfraEnvRecord, iso: &LiveIso) -> Result<Offer, Refusal> {
    let infra_env = &record.infra_env;
    let config = documents::discovery(service, record)?;
    let mut rest = ignition::pack(&config).map_err(|error| Refusal::internal(&error))?;
    rest.extend(minimal_initrd(infra_env)?.unwrap_or_default());
    let modified = infra_env.updated_at.unix_seconds();
    let offer = iso.initrd(format!("{}-initrd.img", infra_env.id), rest, modified)?;
    offer.ok_or_else(|| Refusal::not_found("the live ISO has no images/pxeboot/initrd.img"))
}

/// What to append to the initramfs of an image that fetches its root file system, if anything.
pub(crate) fn minimal_initrd(infra_env: &InfraEnv) -> Result<Option<Vec<u8>>, Refusal> {
    let network = documents::static_network_keyfiles(infra_env)?;
    let files = ramdisk::ramdisk(network.as_ref(), &infra_env.proxy);
    let files = files.map_err(|error| Refusal::invalid(chain(&error)))?;
    if files.is_empty() {
        return Ok(None);
    }
    let pack = || {
        let mut archive = Archive::new();
        for file in files {
            archive.add(&file.path, file.mode, file.bytes)?;
        }
        if network.is_some() {
            let (path, target) = ramdisk::LINK;
            archive.add_symlink(path, target)?;
        }
        archive.pack(Compression::Gzip)
    };
    let mut packed = pack().map_err(|error| Refusal::internal(&error))?;
    packed.resize(packed.len().next_multiple_of(4), 0);
    Ok(Some(packed))
}

/// The script of `file_name=ipxe-script`.
pub(crate) fn script(
    service: &Service,
    call: &Call,
    model: &Model,
    record: &InfraEnvRecord,
) -> Result<String, Refusal> {
    let kinds = ["discovery-image-always", "boot-order-control"];
    let kind = call.query("ipxe_script_type").map(|_| call.query_one_of("ipxe_script_type", &kinds)).transpose()?;
    let iso = iso_of(service, &record.infra_env)?;
    let (infra_env, url) = (&record.infra_env, &service.settings.boot_url);
    let mac = call.query("mac");
    match (kind, mac) {
        (Some("discovery-image-always"), _) | (None, None) => {}
        (_, None) => {
            let files = format!("{}/v2/infra-envs/{}/downloads/files", api::API_PATH, infra_env.id);
            let files = format!("{files}?file_name=ipxe-script&ipxe_script_type=boot-order-control");
            let (files, _) = service.settings.auth.presigned(&files, Some(record), None);
            return Ok(format!("#!ipxe\nchain {url}{files}&mac=${{net0/mac}}\n"));
        }
        (_, Some(mac)) => {
            let hosts = model.hosts_of_infra_env(infra_env.id);
            if hosts.iter().any(|host| has_mac(host, mac) && boots_from_disk(host)) {
                return Err(Refusal::not_found("this host boots from its disk"));
            }
        }
    }
    let version = url_part(iso.build().unwrap_or(&infra_env.openshift_version));
    let query = format!("arch={}&version={version}", url_part(&infra_env.cpu_architecture));
    let artifacts = format!("{url}/boot-artifacts");
    // The initramfs contains the config, so it has its own token.
    let initrd = format!("/images/{}/pxe-initrd?{query}", infra_env.id);
    let (initrd, _) = service.settings.auth.presigned(&initrd, Some(record), None);
    let extra = appended(infra_env.kernel_arguments.as_deref());
    let extra: String = extra.iter().map(|argument| format!(" {argument}")).collect();
    Ok(format!(
        "#!ipxe\n\
         initrd --name initrd {url}{initrd}\n\
         kernel {artifacts}/kernel?{query} initrd=initrd coreos.live.rootfs_url={artifacts}/rootfs?{query} \
         random.trust_cpu=on rd.luks.options=discard ignition.firstboot ignition.platform.id=metal console=tty1 \
         console=ttyS1,115200n8 coreos.inst.persistent-kargs=\"console=tty1 console=ttyS1,115200n8\"{extra}\n\
         boot\n"
    ))
}

fn has_mac(host: &HostRecord, mac: &str) -> bool {
    let plain = |text: &str| text.replace('-', ":").to_ascii_lowercase();
    let nics = host.facts().inventory.iter().flat_map(|inventory| &inventory.interfaces);
    let wanted = plain(mac);
    nics.into_iter().any(|nic| plain(&nic.mac_address) == wanted)
}

fn boots_from_disk(host: &HostRecord) -> bool {
    let rebooted = |stage: HostStage| {
        use HostStage::*;
        matches!(stage, Rebooting | WaitingForIgnition | Configuring | Joined | Done)
    };
    host.state == HostState::Installed
        || host.state == HostState::InstallingInProgress && host.stage().is_some_and(rebooted)
}

impl From<rootfs_overlay::kargs::KargsError> for Refusal {
    fn from(error: rootfs_overlay::kargs::KargsError) -> Self {
        Self::invalid(chain(&error))
    }
}

impl From<MediaError> for Refusal {
    fn from(error: MediaError) -> Self {
        match error {
            // The user's arguments, not our fault.
            MediaError::Kargs(error) | MediaError::Cut(CutError::Kargs(error)) => error.into(),
            MediaError::Cut(error @ CutError::Base { .. }) => Self::not_found(chain(&error)),
            error => Self::internal(&error),
        }
    }
}
