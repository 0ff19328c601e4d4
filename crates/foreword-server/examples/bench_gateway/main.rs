//! `cargo xtask bench gateway`: what a gateway adds to a request, Foreword's beside the proxy of `LiteLLM`, both in front of the same provider
//! on the same machine in the same run; and what a thousand streams at once take.
//!
//! The provider answers at once, so that what is measured is the gateway. All run as processes of their own but the provider and the
//! clients, which are this process and the same for everyone.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

mod load;
mod proxies;
mod stub;

use std::time::Duration;

use load::{Figures, Load};
use proxies::Proxy;

/// How many clients ask at once.
const CONNECTIONS: [usize; 3] = [1, 16, 256];
/// The same load for everyone, in requests a second: what all of them can do, and ten times that.
const RATES: [f64; 2] = [40.0, 400.0];
/// With so many clients.
const AT_RATE: usize = 16;
/// Streams that are open at once, how many parts each has, and how far apart they come.
const STREAMS: usize = 1000;
const PARTS: usize = 50;
const APART: Duration = Duration::from_millis(200);

fn main() {
    let mut args = std::env::args().skip(1);
    let seconds: f64 = args.next().and_then(|arg| arg.parse().ok()).unwrap_or(8.0);
    let lasting = Duration::from_secs_f64(seconds);
    let quick = args.next().is_some_and(|arg| arg == "quick");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let provider = stub::start().await;
        let folder = tempfile::tempdir().unwrap();
        if quick {
            return sessions(provider, folder.path(), lasting).await;
        }
        table(provider, folder.path(), lasting).await;
        streams(provider, folder.path()).await;
    });
}

/// Nothing but sessions and pass-through, for who works on them.
async fn sessions(provider: u16, folder: &std::path::Path, lasting: Duration) {
    head();
    let proxy = Proxy::foreword(provider, &folder.join("sessions")).await;
    measure("Foreword", &Who::Proxy(&proxy, ""), lasting, None, None).await;
    measure("Foreword, pass-through", &Who::Proxy(&proxy, PASS_THROUGH), lasting, None, None).await;
}

fn head() {
    println!(
        "{:<30} {:>11} {:>10} {:>10} {:>10} {:>10} {:>8} {:>12} {:>9}",
        "", "connections", "p50 ms", "p99 ms", "+p50 ms", "+p99 ms", "CPU ms", "requests/s", "x LiteLLM"
    );
}

async fn table(provider: u16, folder: &std::path::Path, lasting: Duration) {
    head();
    let who = Who::Provider(provider);
    let direct = measure("the provider itself", &who, lasting, None, None).await;
    let paced_direct = paced("the provider itself", &who, lasting, None, &RATES).await;
    let mut lite = None;
    if let Some(proxy) = Proxy::litellm(provider, folder).await {
        let who = Who::Proxy(&proxy, "");
        lite = Some(measure("LiteLLM", &who, lasting, Some(&direct), None).await);
        paced("LiteLLM", &who, lasting, Some(&paced_direct), &RATES[..1]).await;
    } else {
        println!("LiteLLM was not installed: FOREWORD_LITELLM names no Python that has it");
    }
    let proxy = Proxy::foreword(provider, &folder.join("sessions")).await;
    for (name, headers) in [("Foreword", ""), ("Foreword, pass-through", PASS_THROUGH)] {
        let who = Who::Proxy(&proxy, headers);
        measure(name, &who, lasting, Some(&direct), lite.as_deref()).await;
        paced(name, &who, lasting, Some(&paced_direct), &RATES).await;
    }
}

/// Who is asked.
enum Who<'a> {
    Provider(u16),
    /// With more headers.
    Proxy(&'a Proxy, &'static str),
}

const PASS_THROUGH: &str = "x-foreword-mode: pass-through\r\n";

impl Who<'_> {
    /// What comes of so many clients, and the processor time of a request where that is someone else's.
    async fn figures(&self, connections: usize, lasting: Duration, per_second: Option<f64>) -> (Figures, Option<f64>) {
        let (port, headers, proxy) = match self {
            Self::Provider(port) => (*port, "", None),
            Self::Proxy(proxy, headers) => (proxy.port, *headers, Some(proxy)),
        };
        let before = proxy.map(|proxy| proxy.cpu_ms());
        let figures = Load { port, headers, connections, lasting, per_second }.run().await;
        let cpu_ms = proxy.zip(before).map(|(proxy, before)| (proxy.cpu_ms() - before) / figures.all as f64);
        (figures, cpu_ms)
    }
}

/// One row for each rate: what is added where nobody is kept as busy as it can be.
async fn paced(name: &str, who: &Who<'_>, lasting: Duration, direct: Option<&[Figures]>, rates: &[f64]) -> Vec<Figures> {
    let mut all = Vec::new();
    for (row, rate) in rates.iter().enumerate() {
        let lasting = lasting.max(Duration::from_secs_f64(400.0 / rate));
        let (figures, cpu_ms) = who.figures(AT_RATE, lasting, Some(*rate)).await;
        print(&format!("{name}, {rate:.0}/s"), AT_RATE, &figures, cpu_ms, direct.map(|direct| &direct[row]), None);
        all.push(figures);
    }
    all
}

/// One row for each number of connections.
async fn measure(
    name: &str,
    who: &Who<'_>,
    lasting: Duration,
    direct: Option<&[Figures]>,
    lite: Option<&[Figures]>,
) -> Vec<Figures> {
    let mut all = Vec::new();
    for (row, connections) in CONNECTIONS.into_iter().enumerate() {
        let (figures, cpu_ms) = who.figures(connections, lasting, None).await;
        let name = if row == 0 { name } else { "" };
        print(name, connections, &figures, cpu_ms, direct.map(|direct| &direct[row]), lite.map(|lite| &lite[row]));
        all.push(figures);
    }
    all
}

fn print(
    name: &str,
    connections: usize,
    figures: &Figures,
    cpu_ms: Option<f64>,
    direct: Option<&Figures>,
    lite: Option<&Figures>,
) {
    let added = |of: fn(&Figures) -> f64| direct.map_or_else(String::new, |direct| format!("{:.2}", of(figures) - of(direct)));
    println!(
        "{name:<30} {connections:>11} {:>10.2} {:>10.2} {:>10} {:>10} {:>8} {:>12.0} {:>9}",
        figures.p50_ms,
        figures.p99_ms,
        added(|figures| figures.p50_ms),
        added(|figures| figures.p99_ms),
        cpu_ms.map_or_else(String::new, |cpu_ms| format!("{cpu_ms:.2}")),
        figures.per_second,
        lite.map_or_else(String::new, |lite| format!("{:.1}", figures.per_second / lite.per_second)),
    );
    if figures.failed > 0 {
        println!("  {} requests failed, the first with: {}", figures.failed, figures.first_failure);
    }
}

async fn streams(provider: u16, folder: &std::path::Path) {
    let proxy = Proxy::foreword(provider, &folder.join("streams")).await;
    let before = proxy.resident_mb();
    let (whole, seconds) = load::streams(proxy.port, STREAMS).await;
    println!(
        "\n{STREAMS} streams at once, {PARTS} parts each, {} ms apart: {whole} whole after {seconds:.1} s \
         (the provider takes {:.1} s); the server's memory at most {:.0} MB, {before:.0} MB before",
        APART.as_millis(),
        APART.as_secs_f64() * PARTS as f64,
        proxy.resident_mb(),
    );
}
