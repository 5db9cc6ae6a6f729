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

pub use console::{Console, ConsoleError};
pub use schema::{Config, ConfigError, VersionError};

use crate::area::{CONFIG_NAME, Features, NETWORK_PREFIX};
use crate::initrd::Archive;
use anyhow::{Context, bail};
use clap::Args;
use config::Builder;
use ignition::yaml;
use installer::Options;
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

/// What a live system is to have, and to do.
#[derive(Debug, Default, Args)]
pub struct Customizations {
    /// Ignition config for the installed system; may be repeated
    ///
    /// Several are merged, the later over the earlier. Makes the live system install when it boots, as every option about the
    /// installed system does. The disk is then named here (--dest-device), by an --installer-config or by the kernel argument
    /// coreos.inst.install_dev.
    #[arg(long, value_name = "path")]
    pub dest_ignition: Vec<PathBuf>,
    /// Disk that the live system installs to
    ///
    /// A device node or a link to one, under the name it has in the live system. The installation starts without a question and
    /// destroys what is on the disk.
    #[arg(long, value_name = "path")]
    pub dest_device: Option<String>,
    /// Console of the installed system, such as ttyS0,115200n8; may be repeated
    ///
    /// For kernel and boot loader alike, in the kernel's notation without "console=". Makes the live system install.
    #[arg(long, value_name = "spec")]
    pub dest_console: Vec<Console>,
    /// Kernel argument to add to the installed system; may be repeated
    ///
    /// It is there at every boot from the disk, not in the live system. Makes the live system install.
    #[arg(long, value_name = "arg")]
    pub dest_karg_append: Vec<String>,
    /// Kernel argument of the image to leave out of the installed system; may be repeated
    ///
    /// It has to be spelled as in the image. Makes the live system install.
    #[arg(long, value_name = "arg")]
    pub dest_karg_delete: Vec<String>,
    /// NetworkManager profile, a keyfile, for both systems; may be repeated
    ///
    /// The live system uses it from the start, so Ignition can fetch over that network. An installation takes the same profiles
    /// along: they are in force at the first boot from the disk, before Ignition runs there.
    #[arg(long, value_name = "path")]
    pub network_keyfile: Vec<PathBuf>,
    /// Network state in Nmstate's YAML or JSON, for both systems; may be repeated
    ///
    /// It is converted to NetworkManager profiles now; they are used like those of --network-keyfile.
    #[arg(long, value_name = "path")]
    pub network_nmstate: Vec<PathBuf>,
    /// PEM bundle that Ignition also trusts for https, in both systems; may be repeated
    ///
    /// The system's own certificate authorities stay trusted. The installed system gets the bundle only if the live system installs.
    #[arg(long, value_name = "path")]
    pub ignition_ca: Vec<PathBuf>,
    /// Program that runs before the installation; may be repeated
    ///
    /// A script or binary that the live system can execute; it runs as root, and only if an installation is to follow. If it fails,
    /// there is none, and the console has an emergency shell.
    #[arg(long, value_name = "path")]
    pub pre_install: Vec<PathBuf>,
    /// Program that runs after the installation; may be repeated
    ///
    /// It runs once the disk is written, as --pre-install's do before. If it fails, the machine is not rebooted, and the console has
    /// an emergency shell.
    #[arg(long, value_name = "path")]
    pub post_install: Vec<PathBuf>,
    /// File with options of `install`, in YAML; may be repeated
    ///
    /// Files count in the order given, and the options for the installed system given here count last. Makes the live system install.
    #[arg(long, value_name = "path")]
    pub installer_config: Vec<PathBuf>,
    /// Ignition config for the live system; may be repeated
    ///
    /// Several are merged, the later over the earlier, together with what the other options have to tell the live system.
    #[arg(long, value_name = "path")]
    pub live_ignition: Vec<PathBuf>,
}

impl Customizations {
    /// Reads what is asked for and makes of it the files for the initrd of a live system of these `features`. What its user should
    /// know is given to `say`, line by line.
    pub fn apply(&self, features: Features, say: &mut dyn FnMut(&str)) -> anyhow::Result<Archive> {
        let mut live = Live {
            features,
            archive: Archive::new(),
            config: None,
            installer: None,
            installer_configs: 0,
            copy_network: !self.network_keyfile.is_empty() || !self.network_nmstate.is_empty(),
            say,
        };
        let dest: Vec<Config> =
            self.dest_ignition.iter().map(|path| live.config(path)).collect::<anyhow::Result<_>>()?;
        live.options(self)?;
        for path in &self.network_keyfile {
            live.keyfile(path)?;
        }
        for path in &self.network_nmstate {
            live.nmstate(path)?;
        }
        let mut authorities = Vec::new();
        for path in &self.ignition_ca {
            let pem = read(path)?;
            live.builder().add_authority(&pem);
            authorities.push(pem);
        }
        for path in &self.pre_install {
            live.script(path, &PRE_INSTALL)?;
        }
        for path in &self.post_install {
            live.script(path, &POST_INSTALL)?;
        }
        for path in &self.installer_config {
            let yaml = read(path)?;
            installer::check(&yaml).with_context(|| format!("parsing installer config {}", path.display()))?;
            live.installer_config(&file_name(path)?, &yaml)?;
        }
        for path in &self.live_ignition {
            let config = live.config(path)?;
            live.builder().merge(&config);
        }
        live.finish(&dest, &authorities)
    }
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

/// A live system in the making. Its config and the installer's are made when there is something to say: an empty config would take
/// the log-in prompt away.
struct Live<'a> {
    features: Features,
    archive: Archive,
    config: Option<Builder>,
    installer: Option<Options>,
    /// How many configs the installer has.
    installer_configs: usize,
    copy_network: bool,
    say: &'a mut dyn FnMut(&str),
}

impl Live<'_> {
    fn builder(&mut self) -> &mut Builder {
        self.config.get_or_insert_default()
    }

    fn installer(&mut self) -> &mut Options {
        self.installer.get_or_insert_default()
    }

    fn config(&mut self, path: &Path) -> anyhow::Result<Config> {
        let json = read(path)?;
        let path = path.display();
        let config = Config::parse(&json).with_context(|| format!("parsing Ignition config {path}"))?;
        for warning in &config.warnings {
            (self.say)(&format!("Warning parsing {path}: {warning}"));
        }
        Ok(config)
    }

    fn options(&mut self, asked: &Customizations) -> anyhow::Result<()> {
        if let Some(device) = &asked.dest_device {
            self.installer().dest_device = Some(device.clone());
        }
        for console in &asked.dest_console {
            if !self.features.installer_config_directives.console {
                bail!("This OS image does not support customizing the destination console.");
            }
            self.installer().console.push(console.to_string());
        }
        if let Some(note) = console::note(&asked.dest_karg_append, "--dest-karg-append", "--dest-console") {
            (self.say)(&note);
        }
        if !asked.dest_karg_append.is_empty() {
            self.installer().append_karg.clone_from(&asked.dest_karg_append);
        }
        if !asked.dest_karg_delete.is_empty() {
            self.installer().delete_karg.clone_from(&asked.dest_karg_delete);
        }
        Ok(())
    }

    fn keyfile(&mut self, path: &Path) -> anyhow::Result<()> {
        self.network_is_supported()?;
        let content = read(path)?;
        let name = file_name(path)?;
        self.add_keyfile(&name, &name, content)
    }

    fn nmstate(&mut self, path: &Path) -> anyhow::Result<()> {
        self.network_is_supported()?;
        let mut text = Vec::new();
        let file = fs::File::open(path).context("opening nmstate file")?;
        file.take(READ_YAML_BYTES).read_to_end(&mut text).context("parsing nmstate")?;
        let state: NetworkState = yaml::worded_document(&text, MAX_YAML_BYTES).context("parsing nmstate")?;
        let all = state.gen_conf().context("generating configuration from nmstate")?;
        let connections = all.get("NetworkManager").context("extracting NetworkManager generated config")?;
        for (name, content) in connections {
            self.add_keyfile(name, &format!("{NETWORK_PREFIX}{name}"), content.as_bytes().to_vec())?;
        }
        Ok(())
    }

    fn network_is_supported(&self) -> anyhow::Result<()> {
        if !self.features.live_initrd_network {
            bail!("This OS image does not support customizing network settings.");
        }
        Ok(())
    }

    fn add_keyfile(&mut self, name: &str, shown: &str, content: Vec<u8>) -> anyhow::Result<()> {
        let path = format!("{NETWORK_PREFIX}{name}");
        if self.archive.get(&path).is_some() {
            bail!("config already specifies keyfile {shown}");
        }
        Ok(self.archive.add(&path, 0o600, content)?)
    }

    fn script(&mut self, path: &Path, moment: &Moment) -> anyhow::Result<()> {
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
        self.builder().add_file(program, 0o700, &content)?;
        Ok(self.builder().add_unit(format!("{moment}-install-{name}.service"), unit)?)
    }

    fn installer_config(&mut self, name: &str, yaml: &[u8]) -> anyhow::Result<()> {
        if !self.features.installer_config {
            bail!("This OS image does not support customizing installer configuration.");
        }
        let path = format!("/etc/coreos/installer.d/{:04}-{name}", self.installer_configs);
        self.builder().add_file(path, 0o600, yaml)?;
        self.installer_configs += 1;
        Ok(())
    }

    fn finish(mut self, dest: &[Config], authorities: &[Vec<u8>]) -> anyhow::Result<Archive> {
        if let Some(config) = dest_config(dest, authorities)? {
            self.builder().add_file(DEST_PATH.to_owned(), 0o600, &config)?;
            self.installer().ignition_file = Some(DEST_PATH);
        }
        if self.installer_configs > 0 || self.installer.is_some() {
            let device = self.installer.as_ref().and_then(|options| options.dest_device.as_ref());
            let note = match device {
                Some(device) => {
                    format!("Boot media will automatically install to {device} without confirmation.")
                }
                None => "Boot media will automatically run installer.".to_owned(),
            };
            (self.say)(&note);
            if self.copy_network {
                self.installer().copy_network = true;
            }
        }
        if let Some(options) = self.installer.take() {
            let yaml = serde_norway::to_string(&options).context("serializing installer config")?;
            self.installer_config("customize.yaml", yaml.as_bytes())?;
        }
        if let Some(config) = &self.config {
            let json = config.to_json().context("serializing Ignition config")?;
            self.archive.add(CONFIG_NAME, 0o600, json)?;
        }
        Ok(self.archive)
    }
}

/// The installed system's config: the only one as it is, or one that merges all and trusts the certificates.
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
