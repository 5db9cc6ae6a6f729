//! What `iso customize` and `pxe customize` put into a live system (docs/compatibility.md#customized-live-systems): an Ignition config
//! that has it install a machine by itself, and network settings. Texts of errors, and every byte of the result, are those of
//! coreos-installer.

mod config;
mod console;
mod installer;
mod schema;
mod tables;
#[cfg(test)]
mod tests;

pub(crate) use console::Console;
pub(crate) use schema::Config;

use crate::area::{CONFIG_NAME, Features, NETWORK_PREFIX};
use crate::initrd::Archive;
use anyhow::{Context, bail};
use clap::Args;
use config::Builder;
use ignition::yaml;
use installer::InstallerOptions;
use nmstate::NetworkState;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

/// NMState and the installer's configs have some kilobytes.
const MAX_YAML_BYTES: usize = 1 << 20;
/// One more shows that a file is longer.
const READ_YAML_BYTES: u64 = (1 << 20) + 1;
/// Where the installed system's config waits for the installer.
const DEST_PATH: &str = "/etc/coreos/dest.ign";

/// Groups of options in the help.
const INSTALLED: &str = "Installed system";
const BOTH: &str = "Both systems";
const INSTALLATION: &str = "Installation";
pub(crate) const LIVE: &str = "Live system";

/// Customizations of a live system.
#[derive(Debug, Default, Args)]
pub(crate) struct Customizations {
    /// Ignition config for the installed system; may be repeated
    ///
    /// Several are merged, later ones over earlier ones. Makes the live system install when it boots, like every option about the
    /// installed system. Name the disk with --dest-device, in an --installer-config, or with the kernel argument
    /// coreos.inst.install_dev.
    #[arg(help_heading = INSTALLED, long, value_name = "path")]
    pub dest_ignition: Vec<PathBuf>,
    /// Disk that the live system installs to
    ///
    /// A device node or a link to one, by its name in the live system. The installation starts without confirmation and destroys
    /// the disk's content.
    #[arg(help_heading = INSTALLED, long, value_name = "path")]
    pub dest_device: Option<String>,
    /// Console of the installed system, such as ttyS0,115200n8; may be repeated
    ///
    /// For kernel and boot loader, in the kernel's notation without "console=". Makes the live system install.
    #[arg(help_heading = INSTALLED, long, value_name = "spec")]
    pub dest_console: Vec<Console>,
    /// Kernel argument to add to the installed system; may be repeated
    ///
    /// It applies to every boot from the disk, not to the live system. Makes the live system install.
    #[arg(help_heading = INSTALLED, long, value_name = "arg")]
    pub dest_karg_append: Vec<String>,
    /// Kernel argument of the image to remove from the installed system; may be repeated
    ///
    /// It must be spelled as in the image. Makes the live system install.
    #[arg(help_heading = INSTALLED, long, value_name = "arg")]
    pub dest_karg_delete: Vec<String>,
    /// NetworkManager profile, a keyfile, for both systems; may be repeated
    ///
    /// The live system uses it from the start, so Ignition can fetch over that network. An installation copies the profiles: they
    /// apply at the first boot from the disk, before Ignition runs.
    #[arg(help_heading = BOTH, long, value_name = "path")]
    pub network_keyfile: Vec<PathBuf>,
    /// Network state in Nmstate's YAML or JSON, for both systems; may be repeated
    ///
    /// It is converted to NetworkManager profiles now, which are used like those of --network-keyfile.
    #[arg(help_heading = BOTH, long, value_name = "path")]
    pub network_nmstate: Vec<PathBuf>,
    /// PEM bundle that Ignition also trusts for https, in both systems; may be repeated
    ///
    /// The system's CA certificates stay trusted. The installed system gets the bundle only if the live system installs.
    #[arg(help_heading = BOTH, long, value_name = "path")]
    pub ignition_ca: Vec<PathBuf>,
    /// Program that runs before the installation; may be repeated
    ///
    /// A script or binary that the live system can execute; it runs as root, and only before an installation. If it fails, the
    /// installation is not started, and the console has an emergency shell.
    #[arg(help_heading = INSTALLATION, long, value_name = "path")]
    pub pre_install: Vec<PathBuf>,
    /// Program that runs after the installation; may be repeated
    ///
    /// Like --pre-install, after the disk is written. If it fails, the machine does not reboot, and the console has an emergency
    /// shell.
    #[arg(help_heading = INSTALLATION, long, value_name = "path")]
    pub post_install: Vec<PathBuf>,
    /// File with options of `install`, in YAML; may be repeated
    ///
    /// Files apply in the given order, then the options given here for the installed system. Makes the live system install.
    #[arg(help_heading = INSTALLATION, long, value_name = "path")]
    pub installer_config: Vec<PathBuf>,
    /// Ignition config for the live system; may be repeated
    ///
    /// Several are merged, later ones over earlier ones, with the config that the other options need.
    #[arg(help_heading = LIVE, long, value_name = "path")]
    pub live_ignition: Vec<PathBuf>,
}

impl Customizations {
    /// Reads the options' files and creates the files for the initrd of a live system with these `features`. Notes for the user go
    /// to `say`, line by line.
    pub(crate) fn apply(&self, features: Features, say: &mut dyn FnMut(&str)) -> anyhow::Result<Archive> {
        let dest = configs(&self.dest_ignition, say)?;
        let mut options = self.installer_options(features, say)?;
        let mut archive = self.network(features)?;
        let authorities = self.ignition_ca.iter().map(|path| read(path)).collect::<anyhow::Result<Vec<_>>>()?;
        let mut live = Builder::default();
        authorities.iter().for_each(|pem| live.add_authority(pem));
        self.pre_install.iter().try_for_each(|path| add_script(&mut live, path, &PRE_INSTALL))?;
        self.post_install.iter().try_for_each(|path| add_script(&mut live, path, &POST_INSTALL))?;
        let add_installer_config = |live: &mut Builder, number: usize, name: &str, yaml: &[u8]| {
            if !features.installer_config {
                bail!("This OS image does not support customizing installer configuration.");
            }
            Ok(live.add_file(format!("/etc/coreos/installer.d/{number:04}-{name}"), 0o600, yaml)?)
        };
        for (number, path) in self.installer_config.iter().enumerate() {
            let yaml = read(path)?;
            installer::check(&yaml).with_context(|| format!("parsing installer config {}", path.display()))?;
            add_installer_config(&mut live, number, &file_name(path)?, &yaml)?;
        }
        configs(&self.live_ignition, say)?.iter().for_each(|config| live.merge(config));
        if let Some(config) = dest_config(&dest, &authorities)? {
            live.add_file(DEST_PATH.to_owned(), 0o600, &config)?;
            options.ignition_file = Some(DEST_PATH);
        }
        if options != InstallerOptions::default() || !self.installer_config.is_empty() {
            say(&match &options.dest_device {
                Some(device) => format!("Boot media will automatically install to {device} without confirmation."),
                None => "Boot media will automatically run installer.".to_owned(),
            });
            options.copy_network = !self.network_keyfile.is_empty() || !self.network_nmstate.is_empty();
        }
        if options != InstallerOptions::default() {
            let yaml = serde_norway::to_string(&options).context("serializing installer config")?;
            add_installer_config(&mut live, self.installer_config.len(), "customize.yaml", yaml.as_bytes())?;
        }
        // An empty config would remove the login prompt.
        if !live.is_empty() {
            let json = live.to_json().context("serializing Ignition config")?;
            archive.add(CONFIG_NAME, 0o600, json)?;
        }
        Ok(archive)
    }

    /// The options for the installed system, except its config.
    fn installer_options(&self, features: Features, say: &mut dyn FnMut(&str)) -> anyhow::Result<InstallerOptions> {
        if !self.dest_console.is_empty() && !features.installer_config_directives.console {
            bail!("This OS image does not support customizing the destination console.");
        }
        if let Some(note) = console::note(&self.dest_karg_append, "--dest-karg-append", "--dest-console") {
            say(&note);
        }
        Ok(InstallerOptions {
            console: self.dest_console.iter().map(ToString::to_string).collect(),
            append_karg: self.dest_karg_append.clone(),
            delete_karg: self.dest_karg_delete.clone(),
            dest_device: self.dest_device.clone(),
            ..InstallerOptions::default()
        })
    }

    /// NetworkManager's profiles.
    fn network(&self, features: Features) -> anyhow::Result<Archive> {
        let mut archive = Archive::new();
        if self.network_keyfile.is_empty() && self.network_nmstate.is_empty() {
            return Ok(archive);
        }
        if !features.live_initrd_network {
            bail!("This OS image does not support customizing network settings.");
        }
        let mut add = |name: &str, called: &str, content: Vec<u8>| {
            let path = format!("{NETWORK_PREFIX}{name}");
            if archive.get(&path).is_some() {
                bail!("config already specifies keyfile {called}");
            }
            Ok(archive.add(&path, 0o600, content)?)
        };
        for path in &self.network_keyfile {
            let content = read(path)?;
            let name = file_name(path)?;
            add(&name, &name, content)?;
        }
        for path in &self.network_nmstate {
            for (name, content) in profiles(path)? {
                add(&name, &format!("{NETWORK_PREFIX}{name}"), content.into_bytes())?;
            }
        }
        Ok(archive)
    }
}

/// Nmstate's translation of a file, as names and contents.
fn profiles(path: &Path) -> anyhow::Result<Vec<(String, String)>> {
    let mut text = Vec::new();
    let file = fs::File::open(path).context("opening nmstate file")?;
    file.take(READ_YAML_BYTES).read_to_end(&mut text).context("parsing nmstate")?;
    let state: NetworkState = yaml::worded_document(&text, MAX_YAML_BYTES).context("parsing nmstate")?;
    let mut all = state.gen_conf().context("generating configuration from nmstate")?;
    all.remove("NetworkManager").context("extracting NetworkManager generated config")
}

fn configs(paths: &[PathBuf], say: &mut dyn FnMut(&str)) -> anyhow::Result<Vec<Config>> {
    let mut parse = |path: &PathBuf| {
        let json = read(path)?;
        let path = path.display();
        let config = Config::parse(&json).with_context(|| format!("parsing Ignition config {path}"))?;
        config.warnings.iter().for_each(|warning| say(&format!("Warning parsing {path}: {warning}")));
        Ok(config)
    };
    paths.iter().map(&mut parse).collect()
}

/// When a script runs.
struct Moment {
    name: &'static str,
    title: &'static str,
    after: &'static str,
    before: &'static str,
}

const PRE_INSTALL: Moment =
    Moment { name: "pre", title: "Pre", after: "coreos-installer-pre.target", before: "coreos-installer.service" };

const POST_INSTALL: Moment =
    Moment { name: "post", title: "Post", after: "coreos-installer.service", before: "coreos-installer.target" };

/// Makes the live system run the script at `path`.
fn add_script(live: &mut Builder, path: &Path, moment: &Moment) -> anyhow::Result<()> {
    let content = read(path)?;
    let name = file_name(path)?;
    let Moment { name: moment, title, after, before } = moment;
    let program = format!("/usr/local/bin/{moment}-install-{name}");
    let unit = format!(
        "\
# Generated by coreos-installer {{iso|pxe}} customize

[Unit]
Description={title}-Install Script ({name})
Documentation=https://coreos.github.io/coreos-installer/customizing-install/
After={after}
Before={before}

[Service]
Type=oneshot
ExecStart={program}
RemainAfterExit=true
StandardOutput=kmsg+console
StandardError=kmsg+console

[Install]
RequiredBy={before}"
    );
    live.add_file(program, 0o700, &content)?;
    Ok(live.add_unit(format!("{moment}-install-{name}.service"), unit)?)
}

/// The installed system's config: a single one unchanged, or one that merges all and trusts the certificates.
fn dest_config(configs: &[Config], authorities: &[Vec<u8>]) -> anyhow::Result<Option<Vec<u8>>> {
    match configs {
        [] => Ok(None),
        [only] if authorities.is_empty() => {
            let mut json = only.to_json();
            json.push(b'\n');
            Ok(Some(json))
        }
        several => {
            let mut builder = Builder::default();
            authorities.iter().for_each(|pem| builder.add_authority(pem));
            several.iter().for_each(|config| builder.merge(config));
            Ok(Some(builder.to_json().context("serializing Ignition config")?))
        }
    }
}

/// The bytes of a file.
pub(crate) fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("reading {}", path.display()))
}

/// Its name without a directory.
pub(crate) fn file_name(path: &Path) -> anyhow::Result<String> {
    let name = path.file_name().with_context(|| format!("missing filename in {}", path.display()))?;
    Ok(name.to_string_lossy().into_owned())
}
