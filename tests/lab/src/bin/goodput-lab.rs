//! Makes the lab's traces: `goodput-lab DIR [FAMILY…]` writes `DIR/tuned/FAMILY/NN` and `DIR/held_out/FAMILY/NN`.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use clap::Parser;
use goodput_lab::exporters::Exporters;
use goodput_lab::families::{FAMILIES, day, plan};
use goodput_lab::record::record;

/// Makes traces whose faults are known.
#[derive(Parser)]
struct Args {
    /// Where to, such as target/lab
    dir: PathBuf,
    /// Only these families
    families: Vec<String>,
    /// Machines that have our exporter have dcgm-exporter and node_exporter in its place
    #[arg(long)]
    dcgm_and_node: bool,
    /// Instead: these members of the family `day`, as FIRST-LAST, a node's day each, as DIR/day/NN
    #[arg(long, value_parser = range, conflicts_with_all = ["families", "dcgm_and_node"])]
    days: Option<RangeInclusive<u64>>,
    /// How long those are
    #[arg(long, default_value_t = 1440)]
    minutes: usize,
}

fn main() -> Result<()> {
    let args = Args::parse();
    if let Some(days) = args.days {
        return days.into_iter().try_for_each(|member| record(&day::plan(member, args.minutes), &args.dir));
    }
    for name in &args.families {
        ensure!(FAMILIES.iter().any(|f| f.name == name), "no family {name}; expected one of {:?}", names());
    }
    let asked = |name: &str| args.families.is_empty() || args.families.iter().any(|f| f == name);
    for family in FAMILIES.iter().filter(|f| asked(f.name)) {
        let dir = args.dir.join(if family.is_held_out { "held_out" } else { "tuned" });
        for member in 0..family.traces {
            let mut plan = plan(family, member);
            if args.dcgm_and_node && plan.exporters == Exporters::Ours {
                plan.exporters = Exporters::DcgmAndNode;
            }
            record(&plan, &dir)?;
        }
    }
    Ok(())
}

fn range(text: &str) -> Result<RangeInclusive<u64>> {
    let (first, last) = text.split_once('-').with_context(|| format!("{text}: expected FIRST-LAST, such as 0-7"))?;
    Ok(first.parse().context("the first member")?..=last.parse().context("the last member")?)
}

fn names() -> Vec<&'static str> {
    FAMILIES.iter().map(|f| f.name).collect()
}
