//! The page of inference servers.

use super::*;
use goodput_verdict::{Achieved, Counted, Served as Kind};

const PAGE: &str = "/serving?period=2026-W47";
const METRIC: &str = "vllm:generation_tokens_total";

/// A server that has `OWNER`'s GPU and wrote tokens in its hour.
pub(super) fn answers() -> Achieved {
    Achieved {
        cluster: STARVING_NODE.cluster.map(str::to_owned),
        metric: METRIC.into(),
        unit: "tokens".into(),
        start_ms: START,
        end_ms: START + HOUR_MS,
        owner: Some(OWNER.into()),
        subject: OWNER.into(),
        amount: 7.2e6,
        covered_ms: HOUR_MS,
        ideal: None,
        served: Some(Counted {
            amounts: [(Kind::GenerationTokens, (7.2e6, METRIC.into()))].into(),
            ..Counted::default()
        }),
        model: Some("<i>7 llama".into()),
    }
}

#[tokio::test]
async fn servers_are_shown_by_model_with_the_time_that_they_held() {
    let served = with_a_starving_gpu().await;
    served.store.replace_achieved(START..START + HOUR_MS, &[answers()]).await.unwrap();
    let html = page(&served, PAGE).await;
    let shown = text_of(&html);
    for part in [
        "&#60;i&#62;7 llama",
        "held 1.00 GPU-hours",
        METRIC,
        "job&#38;&#60;i&#62;7&#34;",
        "7.2 M 2 k 8 k in productive time",
    ] {
        assert!(shown.contains(part), "{part} is not in {shown}");
    }
    let api = links(&html).into_iter().find(|link| link.starts_with("/api/v1/serving?")).unwrap();
    let (status, _, json) = served.get(&api).await;
    assert!(status == 200 && json.contains("llama"), "{api}: {json}");
    let other = text_of(&page(&served, "/serving?period=2026-W46").await);
    assert!(other.contains("No inference server reported its work in this period"), "{other}");
}

#[tokio::test]
async fn a_server_without_a_gpu_is_named() {
    let served = with_a_starving_gpu().await;
    let elsewhere = Achieved { owner: None, subject: "10.0.0.7:8000".into(), ..answers() };
    served.store.replace_achieved(START..START + HOUR_MS, &[elsewhere]).await.unwrap();
    let shown = text_of(&page(&served, PAGE).await);
    assert!(shown.contains("No owner of GPUs fits these servers") && shown.contains("10.0.0.7:8000"), "{shown}");
}
