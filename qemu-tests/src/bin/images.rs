//! Builds the test machines' images and prints their paths.

use anyhow::Result;
use clap::{Parser, Subcommand, ValueEnum};
use qemu_tests::{
    arch::Arch,
    images::{Compression, Drivers, LiveIso, SectorSize, System, live_iso, metal_image},
    media,
};
use std::path::PathBuf;

/// Builds the live ISO and the metal images that the tests boot. Prints the path of the image, built now or earlier.
#[derive(Parser)]
struct Images {
    /// The processor of the machines.
    #[arg(long, default_value = Arch::X86_64.name)]
    arch: Processor,
    #[command(subcommand)]
    kind: Kind,
}

#[derive(Subcommand)]
enum Kind {
    /// The live ISO.
    Live {
        /// A directory to copy over the root file system; may be given more than once.
        #[arg(long, value_name = "DIR")]
        overlay: Vec<PathBuf>,
        /// The program to install as /usr/bin/landfall.
        #[arg(long, value_name = "FILE")]
        binary: Option<PathBuf>,
        /// As distributions have it: NetworkManager, chrony, and dracut's initramfs.
        #[arg(long)]
        dracut: bool,
    },
    /// A disk image of an installed machine before its first boot.
    Metal {
        /// Logical sector size in bytes.
        #[arg(long, default_value = "512")]
        sector: Sector,
        /// Compression of the image.
        #[arg(long, default_value = "raw")]
        pack: Pack,
    },
}

#[derive(Clone, Copy, ValueEnum)]
enum Processor {
    #[value(name = "x86_64")]
    X86,
    Aarch64,
}

#[derive(Clone, Copy, ValueEnum)]
enum Sector {
    #[value(name = "512")]
    B512,
    #[value(name = "4096")]
    B4096,
}

#[derive(Clone, Copy, ValueEnum)]
enum Pack {
    Raw,
    Gz,
    Zst,
    Xz,
}

fn main() -> Result<()> {
    let Images { arch, kind } = Images::parse();
    let hardware = Drivers::Cloud.of(match arch {
        Processor::X86 => Arch::X86_64,
        Processor::Aarch64 => Arch::AARCH64,
    });
    let path = match kind {
        Kind::Live { overlay, binary, dracut } => {
            let files = binary.map(|binary| ("usr/bin/landfall".to_owned(), binary)).into_iter().collect();
            let system = if dracut { System::Dracut } else { System::Busybox };
            live_iso(&LiveIso { overlays: overlay, files, system, ..media::live_system(hardware) })?
        }
        Kind::Metal { sector, pack } => {
            let sector = match sector {
                Sector::B512 => SectorSize::B512,
                Sector::B4096 => SectorSize::B4096,
            };
            let compression = match pack {
                Pack::Raw => Compression::Raw,
                Pack::Gz => Compression::Gzip,
                Pack::Zst => Compression::Zstd,
                Pack::Xz => Compression::Xz,
            };
            metal_image(sector, compression, hardware)?
        }
    };
    println!("{}", path.display());
    Ok(())
}
