//! HTTP: metrics, health and landing page. The front door is `goodput-web`.

mod health;
mod release;
mod routes;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use goodput_web::{Access, Door, Hosts, Limits, Listener, WebConfig, bind, inherited, notify, raise_descriptor_limit};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Semaphore;
use tokio::time::sleep;

use crate::config::{Config, CountersFile};
use crate::scrape::{Gpus, Scraper, wait_for_gpus};
use crate::source::nvml::Nvml;
use release::Lever;
use routes::{App, needs, router};

/// How long readiness waits for the GPUs: a driver that starts cold takes seconds, one that hangs must not keep the
/// host's metrics away.
const WAIT_FOR_GPUS: Duration = Duration::from_secs(10);

/// How long the first scrape may take.
const FIRST_SCRAPE: Duration = Duration::from_secs(10);

/// Serves until SIGTERM or SIGINT; SIGHUP reads the web configuration and the counters file again. Where that is enabled,
/// `nvml` is released on SIGUSR1 and acquired on SIGUSR2, as by requests.
///
/// # Errors
/// When the web configuration is wrong or an address cannot be listened on.
pub fn run(config: &Config, scraper: Scraper, gpus: Gpus, nvml: Arc<Nvml>) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(4)
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let result = runtime.block_on(async {
        let limits = Limits::exporter();
        let limits = Limits { header: config.read_timeout.unwrap_or(limits.header), ..limits };
        let server = Server::bind(config, scraper, gpus, nvml, limits).await?;
        server.run_until_signal().await
    });
    // A thread that waits for a lost file or driver must not keep the program.
    runtime.shutdown_timeout(Duration::from_secs(1));
    result
}

struct Server {
    server: goodput_web::Server,
    app: Arc<App>,
    web: Arc<WebConfig>,
    counters: Option<Arc<CountersFile>>,
    nvml: Arc<Nvml>,
    /// `None` where release is not enabled.
    lever: Option<Lever>,
}

impl Server {
    async fn bind(
        config: &Config,
        scraper: Scraper,
        gpus: Gpus,
        nvml: Arc<Nvml>,
        limits: Limits,
    ) -> anyhow::Result<Self> {
        let web = Arc::new(WebConfig::load(config.web_config.clone()).map_err(anyhow::Error::msg)?);
        raise_descriptor_limit();
        let listeners = listeners(config).await?;
        let refusals = scraper.refusals();
        let app = Arc::new(App {
            scraper,
            gpus,
            started: Instant::now(),
            ready: AtomicBool::new(false),
            needs_gpu: AtomicBool::new(config.require_gpu),
            requests: Semaphore::new(config.max_requests.into()),
            telemetry_path: config.telemetry_path.clone(),
        });
        let hosts = Hosts { hint: "use localhost or an IP address", ..Hosts::default() };
        let door = Door::new(web.clone(), Access::default(), hosts, needs, refusals.clone());
        let door = door.map_err(anyhow::Error::msg)?;
        let lever = config.enable_release.then(|| Lever { nvml: nvml.clone(), web: web.clone() });
        let router = door.before(router(app.clone(), lever.clone()));
        let server = goodput_web::Server::new(listeners, router, web.clone(), limits, refusals);
        Ok(Self { server, app, web, counters: config.counters.clone(), nvml, lever })
    }

    async fn run_until_signal(self) -> anyhow::Result<()> {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut hangup = signal(SignalKind::hangup())?;
        let (web, counters, nvml) = (self.web.clone(), self.counters.clone(), self.nvml.clone());
        tokio::spawn(async move {
            while hangup.recv().await.is_some() {
                web.reload().await;
                if let Some(counters) = &counters {
                    counters.reload();
                    nvml.select(&counters.current().selection());
                }
            }
        });
        tokio::spawn(release::on_signals(
            self.lever.clone(),
            signal(SignalKind::user_defined1())?,
            signal(SignalKind::user_defined2())?,
        ));
        self.run(async move {
            tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
        })
        .await;
        Ok(())
    }

    /// Serves until `stop`, then lets running requests end.
    async fn run(self, stop: impl Future<Output = ()>) {
        let scheme = self.server.scheme().await;
        for place in self.server.places() {
            tracing::info!("listening on {scheme}://{place}{}", self.app.telemetry_path);
        }
        let warming = tokio::spawn(warm_up(self.app.clone()));
        let watchdog = tokio::spawn(watchdog(self.app));
        self.server
            .run(async move {
                stop.await;
                tracing::info!("stopping");
                warming.abort();
                watchdog.abort();
            })
            .await;
    }
}

async fn listeners(config: &Config) -> anyhow::Result<Vec<Listener>> {
    if config.systemd_socket {
        return inherited().map_err(anyhow::Error::msg);
    }
    let mut listeners = Vec::new();
    for address in &config.listen {
        let bound = bind(address).await.with_context(|| format!("cannot listen on {address}"))?;
        listeners.push(Listener::Tcp(bound));
    }
    Ok(listeners)
}

/// Makes the first scrape once the GPUs have been read, then calls the exporter ready.
async fn warm_up(app: Arc<App>) {
    let gpus = app.gpus.clone();
    let _ = tokio::task::spawn_blocking(move || wait_for_gpus(&gpus, Instant::now() + WAIT_FOR_GPUS)).await;
    let _ = app.scraper.request(Instant::now() + FIRST_SCRAPE).await;
    app.ready.store(true, Ordering::Release);
    notify::ready(&format!("serving {}", app.telemetry_path));
}

async fn watchdog(app: Arc<App>) {
    let Some(interval) = notify::watchdog_interval() else { return };
    loop {
        if app.signs().alive().is_ok() {
            notify::alive();
        }
        sleep(interval).await;
    }
}

#[cfg(test)]
mod tests;
