//! One stage of an installation alone, and how long it took.
//!
//! `floor write [--threads] [--read-back] TARGET IMAGE`: a raw image to a disk, or over a file of a disk's size. What was
//! there is lost.
//! `floor decode IMAGE`: an image, of any format, is unpacked and dropped; `-` is standard input.
//! `floor look`: how fast memory is searched for zeros and hashed.

use diskwrite::{
    Source,
    floor::{How, decode, hash, is_zero, write},
};
use std::{env::args, error::Error, hint::black_box, path::Path, process::ExitCode, time::Instant};

const USAGE: &str = "floor write [--threads] [--read-back] TARGET IMAGE | floor decode IMAGE | floor look";

fn main() -> ExitCode {
    let args: Vec<String> = args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &[&str]) -> Result<(), Box<dyn Error + Send + Sync>> {
    match args {
        ["write", options @ .., target, image] => {
            let mut how = How::default();
            for option in options {
                match *option {
                    "--threads" => how.threads = true,
                    "--read-back" => how.read_back = true,
                    _ => return Err(USAGE.into()),
                }
            }
            let start = Instant::now();
            let bytes = write(Path::new(target), Path::new(image), how)?;
            println!("{bytes} bytes in {:.3} s", start.elapsed().as_secs_f64());
        }
        ["decode", image] => {
            let source = if *image == "-" { Source::Stdin } else { Source::File(image.into()) };
            let start = Instant::now();
            let bytes = decode(source)?;
            println!("{bytes} bytes in {:.3} s", start.elapsed().as_secs_f64());
        }
        ["look"] => {
            // Larger than any cache.
            let zeros = vec![0; black_box(512 << 20)];
            rate("search for zeros", &zeros, |data| u64::from(is_zero(data)));
            rate("hash", &zeros, hash);
        }
        _ => return Err(USAGE.into()),
    }
    Ok(())
}

fn rate(what: &str, data: &[u8], look: fn(&[u8]) -> u64) {
    // In blocks, as the writer gets them; the first round pages the memory in.
    for round in 0..4 {
        let start = Instant::now();
        for block in data.chunks(1 << 20) {
            black_box(look(black_box(block)));
        }
        if round > 0 {
            println!("{what}: {:.1} GB/s", data.len() as f64 / start.elapsed().as_secs_f64() / 1e9);
        }
    }
}
