//! Makes the lab's traces: `goodput-lab DIR [FAMILY…]` writes `DIR/tuned/FAMILY/NN` and `DIR/held_out/FAMILY/NN`.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use clap::Parser;
use goodput_tests::lab::families::{FAMILIES, plan};
use goodput_tests::lab::record::record;

/// Makes traces whose faults are known.
#[derive(Parser)]
struct Args {
    /// Where to, such as target/lab
    dir: PathBuf,
    /// Only these families
    families: Vec<String>,
}

fn main() -> Result<()> {
    let args = Args::parse();
    for name in &args.families {
        ensure!(FAMILIES.iter().any(|f| f.name == name), "no family {name}; expected one of {:?}", names());
    }
    let asked = |name: &str| args.families.is_empty() || args.families.iter().any(|f| f == name);
    for family in FAMILIES.iter().filter(|f| asked(f.name)) {
        let dir = args.dir.join(if family.is_held_out { "held_out" } else { "tuned" });
        for member in 0..family.traces {
            record(&plan(family, member), &dir)?;
        }
    }
    Ok(())
}

fn names() -> Vec<&'static str> {
    FAMILIES.iter().map(|f| f.name).collect()
}
