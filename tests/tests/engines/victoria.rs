//! VictoriaMetrics, one process.

use anyhow::Result;
use goodput_tests::backfill::start;
use goodput_tests::victoria::VictoriaMetrics;

use super::known::{decimal, series, stored, write};
use super::{built, same, with_nans};

#[test]
fn a_current_victoriametrics_is_read_back_bit_for_bit() -> Result<()> {
    let Some(program) = built("victoria-metrics")? else { return Ok(()) };
    let (start, dir) = (start(), tempfile::tempdir()?);
    let victoria = VictoriaMetrics::of(&program, dir.path())?;
    let url = format!("http://{}", victoria.address);
    let written = series(start, 2, decimal);
    write(&format!("{url}/api/v1/write"), &written)?;
    victoria.import("")?;
    let wanted = stored(&written, &[]);
    same(&dir.path().join("auto"), &url, ("auto", "victoria"), start, &wanted)?;
    same(&dir.path().join("promql"), &url, ("promql", "promql"), start, &with_nans(&wanted))
}
