//! What inference servers served in the last hour.

use goodput_catalog::Metric;
use goodput_catalog::analyzer::serving as rows;
use goodput_verdict::Served;

use crate::app::page::Page;
use crate::app::progress::Progress;
use crate::report::Terms;
use crate::report::serving::{Money, ServedModel, of_window};

/// All models that have a name.
pub(super) fn push(page: &mut Page, progress: &Progress, terms: &Terms) {
    let serving = of_window(&progress.last_served, &progress.last_hour, terms);
    for model in serving.iter().flat_map(|serving| &serving.models).filter(|model| !model.models.is_empty()) {
        push_model(page, &model.name(), model);
    }
}

fn push_model(page: &mut Page, name: &str, model: &ServedModel) {
    let work = &model.work;
    let seconds = work.held.gpu_ms as f64 / 1000.0;
    let requests = work.served.get(&Served::Requests).copied();
    known(page, &rows::REQUESTS, &[name], requests);
    let rate = requests.filter(|_| seconds > 0.0).map(|requests| requests / seconds);
    known(page, &rows::REQUEST_RATE, &[name], rate);
    let bases = [
        ("held", work.generation_tokens_per_gpu_second),
        ("productive", work.generation_tokens_per_productive_gpu_second),
    ];
    for (basis, rate) in bases {
        known(page, &rows::TOKENS, &[name, basis], rate);
    }
    if let Some(slo) = &work.slo {
        page.push(&rows::TARGET, &[name], slo.at);
        known(page, &rows::ATTAINMENT, &[name, "lower"], slo.ratio.map(|ratio| ratio.low));
        known(page, &rows::ATTAINMENT, &[name, "upper"], slo.ratio.and_then(|ratio| ratio.high));
    }
    let costs = [
        ("generation", "held", &work.cost_per_million_generation_tokens),
        ("generation", "productive", &work.productive_cost_per_million_generation_tokens),
        ("all", "held", &work.cost_per_million_tokens),
    ];
    for (kind, basis, cost) in costs {
        if let Some(Money { currency, amount }) = cost {
            page.push(&rows::COST, &[name, kind, basis, currency], *amount);
        }
    }
    known(page, &rows::JOULES, &[name], work.joules_per_generation_token);
    let spare = model.replicas.as_ref().map_or(0, |replicas| replicas.fewest.saturating_sub(replicas.needed));
    page.push(&rows::SPARE_REPLICAS, &[name], f64::from(spare));
}

fn known(page: &mut Page, row: &'static Metric, labels: &[&str], value: Option<f64>) {
    if let Some(value) = value {
        page.push(row, labels, value);
    }
}
