//! HTTP: remote write, report pages, health and own metrics; and the loops in the background.

use std::sync::Arc;

use anyhow::Context;
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use goodput_web::{Server, notify};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;

mod below;
mod bounded;
mod delivery;
mod front;
mod judging;
mod messages;
mod teams;
mod unsubscribe;
mod weeks;

use crate::api;
use crate::app::{App, Deliveries, Intake, Progress, Reads, Writes, metrics};
use crate::config::{Config, WebArgs};
use crate::ingest::replicas::Replicas;
use crate::ingest::scrape::Scraper;
use crate::ingest::tally::Tally;
use crate::ingest::{Work, events, remote_write};
use crate::judge::Judge;
use crate::web;
use delivery::Delivery;
use front::Front;
use goodput_exposition::sample::TimeMs;
use goodput_store::{Embedded, Options, Store, wall_clock};
use judging::Judging;
use weeks::Weeks;

/// Nothing is loaded from anywhere else, framed by anyone or guessed at; pages hold neither style nor script themselves.
/// A page that is made otherwise brings a policy of its own.
const SECURITY_HEADERS: [(HeaderName, &str); 4] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    ),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
];

/// Takes samples in, judges them and answers, until SIGTERM or SIGINT.
pub async fn run(config: Config, options: Options, web: WebArgs) -> anyhow::Result<()> {
    let terms = config.terms();
    let front = Front::open(&web, config.access).await?;
    let store = Store::open(options).await?;
    let intake = Intake::new(store.clone());
    let (stop, stopping) = watch::channel(false);
    let (progress_in, progress) = watch::channel(Progress::default());
    let (zone, now) = (config.zone.clone(), wall_clock as fn() -> TimeMs);

    let judge =
        Judge::new(store.clone(), config.thresholds).counting(config.application).maintaining(config.maintenance);
    let judging =
        Judging::begin(store.clone(), intake.clone(), judge, zone.clone(), now, progress_in, stopping.clone()).await;
    let (tally, limits) = (Arc::<Tally>::default(), config.ingest.limits);
    let scraper = Scraper::new(limits, Arc::clone(&tally));
    let mut scraping = scraper.run(config.scrape, &Arc::new(intake.clone()));
    let judging = tokio::spawn(judging.run());
    let key = config.report.as_ref().and_then(|settings| settings.unsubscribe_key_file.clone());
    let (mut deliveries, mut loops) = (watch::channel(Deliveries::default()).1, JoinSet::new());
    if let Some(settings) = config.report {
        let watched = (progress.clone(), stopping.clone());
        let (delivery, told) = Delivery::new(store.clone(), settings, zone.clone(), terms.clone(), now, watched)?;
        loops.spawn(delivery.run(stopping.clone()));
        deliveries = told;
    }

    if let Some(follow) = teams::Follow::new(config.teams_file, &zone, config.showback.spread, &terms.teams) {
        loops.spawn(follow.run(stopping.clone()));
    }
    let weeks = Weeks::new(store.clone(), (now, zone.clone()), terms.clone(), progress.clone());
    loops.spawn(weeks.run(stopping.clone()));
    let app = App {
        store: store.for_pages(config.reads.max_rows),
        intake: intake.clone(),
        progress,
        deliveries,
        zone,
        terms,
        now,
        stopping: stopping.clone(),
        ways_in: (limits, Arc::clone(&tally)),
        reads: Arc::new(Reads::new(config.reads)),
        writes: Writes { setting: config.findings_write, is_external: web.external_url.is_some() },
        refusals: front.refusals(),
    };
    let work = Arc::new(Work::new(limits, tally));
    let pages = router(app)
        .merge(unsubscribe::router(store.clone(), key, now))
        .merge(events::router(intake.clone(), Arc::clone(&work), now))
        .merge(remote_write::router(intake, work, Replicas::new(config.ingest.replicas)));
    serve_until(front.before(pages), scraping.len(), stop).await?;

    scraping.shutdown().await;
    judging.await.context("the judging loop died")?;
    while let Some(ended) = loops.join_next().await {
        ended.context("a loop in the background died")?;
    }
    close(&store).await;
    Ok(())
}

/// Closes the store. The head becomes a segment first, which names its series itself: after a clean stop the segments alone
/// are all samples.
async fn close(store: &Store) {
    if let Err(error) = store.flush().await {
        tracing::warn!(%error, "cannot write the last samples to a segment; they stay in the write-ahead");
    }
    store.close().await;
    tracing::info!("stopped");
}

/// Serves until a signal says stop, then ends what is in work.
async fn serve_until(server: Server, jobs: usize, stop: watch::Sender<bool>) -> anyhow::Result<()> {
    let scheme = server.scheme().await;
    for address in server.places() {
        tracing::info!(address, scheme, jobs, "listening");
    }
    notify::ready("serving");
    let mut terminate = signal(SignalKind::terminate()).context("cannot watch for SIGTERM")?;
    let asked = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
        tracing::info!("stopping");
        stop.send_replace(true);
    };
    server.run(asked).await;
    Ok(())
}

/// All pages and endpoints but the ways in.
pub fn router<S: Embedded + Clone + 'static>(app: App<S>) -> Router {
    let reads = web::routes().merge(api::routes());
    reads
        .layer(axum::middleware::from_fn_with_state(app.clone(), bounded::bounded::<S>))
        .route("/metrics", get(metrics_page::<S>))
        .route("/-/healthy", get(|| async { "healthy\n" }))
        .route("/-/ready", get(ready::<S>))
        .layer(axum::middleware::map_response(secured))
        .with_state(app)
}

async fn metrics_page<S: Embedded>(State(app): State<App<S>>) -> Response {
    let stats = app.store.stats();
    let page = {
        let (limits, tally) = (app.ways_in.0, app.ways_in.1.counts());
        let ways_in = metrics::WaysIn { limits: &limits, counts: &tally, refusals: &app.refusals };
        let reads = (app.reads.limits(), app.reads.counts());
        let (progress, deliveries) = (app.progress.borrow(), app.deliveries.borrow());
        metrics::whole((&progress, &app.terms), &app.intake.account(), &deliveries, &ways_in, reads, &stats)
    };
    match page.text() {
        Ok(text) => ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}

/// The store is open before anything listens, so only stopping makes it unready.
async fn ready<S>(State(app): State<App<S>>) -> (StatusCode, &'static str) {
    if *app.stopping.borrow() { (StatusCode::SERVICE_UNAVAILABLE, "stopping\n") } else { (StatusCode::OK, "ready\n") }
}

async fn secured(mut response: Response) -> Response {
    for (name, value) in SECURITY_HEADERS {
        response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
pub(crate) mod tests {
    use std::future::IntoFuture;
    use std::net::SocketAddr;

    use tokio::net::TcpListener;

    use super::*;
    use crate::config::ReadLimits;
    use crate::judge::tests::{START, idle_gpu, store};
    use crate::judge::windows;
    use crate::report::Terms;
    use goodput_rules::classify::Thresholds;
    use goodput_verdict::HOUR_MS;
    use jiff::tz::TimeZone;

    fn now() -> TimeMs {
        START + 2 * HOUR_MS
    }

    pub(crate) struct Served {
        pub(crate) store: Store,
        pub(crate) reads: Arc<Reads>,
        pub(crate) progress: watch::Sender<Progress>,
        pub(crate) deliveries: watch::Sender<Deliveries>,
        pub(crate) teams: crate::teams::Live,
        address: SocketAddr,
        stop: watch::Sender<bool>,
        _dir: tempfile::TempDir,
    }

    /// The pages over a store with two judged hours of one idle GPU.
    async fn served() -> Served {
        serve("<b>n1</b>").await
    }

    /// The same with this name of the GPU's node.
    pub(crate) async fn serve(node: &str) -> Served {
        serve_reads(node, Reads::default()).await
    }

    /// The same with these limits of reads, for which no request waits.
    pub(crate) async fn serve_within(limits: ReadLimits) -> Served {
        serve_reads("n1", Reads::without_patience(limits)).await
    }

    async fn serve_reads(node: &str, reads: Reads) -> Served {
        let dir = tempfile::tempdir().unwrap();
        let store = store(dir.path()).await;
        let intake = Intake::new(store.clone());
        idle_gpu(&intake, "GPU-a", node, START..now()).await;
        let judge = Judge::new(store.clone(), Thresholds::default());
        let mut last_hour = Vec::new();
        for window in windows(START..now(), &TimeZone::UTC) {
            last_hour = judge.judge(&mut judge.reader(now()), &window, now()).await.unwrap().intervals;
        }
        let known = Progress { judged_until_ms: Some(now()), last_hour, ..Progress::default() };
        Served::with(intake, store, known, dir, reads).await
    }

    impl Served {
        /// The pages over an empty store.
        pub(crate) async fn empty() -> Served {
            let dir = tempfile::tempdir().unwrap();
            let store = store(dir.path()).await;
            Self::with(Intake::new(store.clone()), store, Progress::default(), dir, Reads::default()).await
        }

        async fn with(
            intake: Intake<Store>,
            store: Store,
            known: Progress,
            dir: tempfile::TempDir,
            reads: Reads,
        ) -> Served {
            let reads = Arc::new(reads);
            let (stop, stopping) = watch::channel(false);
            let (told, progress) = watch::channel(known);
            let (delivered, deliveries) = watch::channel(Deliveries::default());
            let (zone, terms) = (TimeZone::UTC, Terms::default());
            let teams = terms.teams.clone();
            let ways_in = Default::default();
            let app = App {
                store: store.for_pages(reads.limits().max_rows),
                intake,
                progress,
                deliveries,
                zone,
                terms,
                now,
                stopping,
                ways_in,
                reads: Arc::clone(&reads),
                writes: Writes { setting: Some(true), is_external: false },
                refusals: Arc::default(),
            };
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            tokio::spawn(axum::serve(listener, router(app)).into_future());
            Served { store, reads, progress: told, deliveries: delivered, teams, address, stop, _dir: dir }
        }

        /// The answer to a client that has the one with this tag.
        pub(crate) async fn request(&self, path: &str, tag: Option<&str>) -> reqwest::Response {
            let _ = rustls::crypto::ring::default_provider().install_default();
            let client = reqwest::Client::builder().no_proxy().build().unwrap();
            let request = client.get(format!("http://{}{path}", self.address));
            let tagged = tag.into_iter().fold(request, |request, tag| request.header("If-None-Match", tag));
            tagged.send().await.unwrap()
        }

        /// The answer to what is posted, which is not followed where it leads on.
        pub(crate) async fn post(&self, path: &str, headers: &[(&str, &str)], body: String) -> reqwest::Response {
            let _ = rustls::crypto::ring::default_provider().install_default();
            let client = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none());
            let request = client.build().unwrap().post(format!("http://{}{path}", self.address)).body(body);
            let add = |request: reqwest::RequestBuilder, (name, value): &(&str, &str)| request.header(*name, *value);
            headers.iter().fold(request, add).send().await.unwrap()
        }

        /// Status, content type and text.
        pub(crate) async fn get(&self, path: &str) -> (u16, String, String) {
            let response = self.request(path, None).await;
            let header = |name| response.headers().get(name).map(|v| v.to_str().unwrap().to_owned());
            let (status, kind) = (response.status().as_u16(), header("content-type").unwrap_or_default());
            assert_eq!(header("x-content-type-options").as_deref(), Some("nosniff"), "{path}");
            assert!(header("content-security-policy").unwrap().contains("default-src 'none'"), "{path}");
            (status, kind, response.text().await.unwrap())
        }
    }

    #[tokio::test]
    async fn metrics_show_final_windows_and_sources() {
        let (status, kind, text) = served().await.get("/metrics").await;
        assert_eq!((status, kind.as_str()), (200, metrics::CONTENT_TYPE));
        for line in [
            r#"goodput_gpu_class_ratio{node="<b>n1</b>",gpu="GPU-a",class="idle_held",window="hour"} 1.0"#,
            r#"goodput_gpu_class_ratio{node="<b>n1</b>",gpu="GPU-a",class="productive",window="hour"} 0.0"#,
            r#"goodput_fleet_ratio{window="hour"} 0.0"#,
            r#"goodput_analyzer_received_samples_total{outcome="stored"} 1440"#,
            r#"goodput_analyzer_last_sample_timestamp_seconds{source="<b>n1</b>:9400"} 1795237185.0"#,
            r#"goodput_analyzer_store_series 3"#,
            r#"goodput_analyzer_store_limit{limit="max_series"} 1000000"#,
            r#"goodput_analyzer_store_limit{limit="head_bytes"} 67108864"#,
            r#"goodput_analyzer_store_merges_total 0"#,
        ] {
            assert!(text.lines().any(|l| l == line), "{line}\nis not in\n{text}");
        }
        assert!(!text.contains(r#"limit="retention""#), "there is none");
        assert!(!text.contains(r#"window="5m""#), "nothing is known of the last five minutes");
        assert!(text.ends_with("# EOF\n"));
    }

    #[tokio::test]
    async fn healthy_while_stopping_but_not_ready() {
        let served = served().await;
        assert_eq!(served.get("/-/ready").await.0, 200);
        served.stop.send_replace(true);
        assert_eq!(served.get("/-/ready").await.0, 503);
        assert_eq!(served.get("/-/healthy").await.0, 200);
    }
}
